//! The way out of a sandbox, against a plain proxy of the host's: the same transfer through a CONNECT tunnel, and what
//! one small request takes longer than without a sandbox.

use crate::comparison::{Result, Sides};
use crate::failure::Failure;
use crate::peers::tinyproxy::Tinyproxy;
use crate::program::Program;
use crate::scene::{Sandbox, Scene};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};

/// Large enough that tunnel and request are a small part of it.
const MEBIBYTES: usize = 512;
/// So many requests make one measurement of their median.
const REQUESTS: usize = 21;

pub(super) fn throughput_against_tinyproxy(scene: &Scene) -> Result<Sides> {
    let server = serve()?;
    let url = format!("http://{server}/{MEBIBYTES}");
    let sandbox = sandbox(scene, server)?;
    let tinyproxy = Tinyproxy::start(scene)?;
    let speed = ["-sS", "-p", "-o", "/dev/null", "-w", "%{speed_download}"];
    let ours = sandbox.exec(&[&["curl"], &speed[..], &["-x", "http://127.0.0.1:1080", &url]].concat());
    let peer = scene.program(scene.find("curl")?).args(speed).args(["-x", &tinyproxy.address(), &url]);
    ours.check()?;
    peer.check()?;
    Ok(Sides {
        ours: Box::new(move || {
            let _running = &sandbox;
            mebibytes_per_second(&ours)
        }),
        peer: Some(Box::new(move || {
            let _running = &tinyproxy;
            mebibytes_per_second(&peer)
        })),
    })
}

/// A request on a connection of its own, inside minus outside.
pub(super) fn added_latency(scene: &Scene) -> Result<Sides> {
    let server = serve()?;
    let sandbox = sandbox(scene, server)?;
    let request = ["-sS", "-o", "/dev/null", "-w", "%{time_total}\\n", "-H", "Connection: close"];
    let urls = vec![format!("http://{server}/0"); REQUESTS];
    let urls: Vec<&str> = urls.iter().flat_map(|url| ["-o", "/dev/null", url]).collect();
    let tunnel = ["-p", "-x", "http://127.0.0.1:1080"];
    let inside = sandbox.exec(&[&["curl"], &request[..], &tunnel, &urls].concat());
    let outside = scene.program(scene.find("curl")?).args(request).args(&urls);
    inside.check()?;
    Ok(Sides {
        ours: Box::new(move || {
            let _running = &sandbox;
            Ok((median(&inside)? - median(&outside)?).max(0.0) * 1000.0)
        }),
        peer: None,
    })
}

fn sandbox(scene: &Scene, server: SocketAddr) -> Result<Sandbox> {
    Sandbox::start_allowed(scene.palisade()?, "bench", &server.to_string())
}

fn mebibytes_per_second(program: &Program) -> Result<f64> {
    Ok(number(program, &program.output()?)? / f64::from(1 << 20))
}

fn median(program: &Program) -> Result<f64> {
    let output = program.output()?;
    let mut times = output.lines().map(|line| number(program, line)).collect::<Result<Vec<f64>>>()?;
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().ok_or_else(|| Failure::Plan(format!("{program} told no time")))
}

fn number(program: &Program, text: &str) -> Result<f64> {
    text.trim().parse().map_err(|_| Failure::Plan(format!("{program} printed {text:?} and not a number")))
}

/// A server that answers `/N` with so many mebibytes, at an address of this machine that is not its loopback: nobody
/// reaches that one through the way out.
fn serve() -> Result<SocketAddr> {
    let listener = TcpListener::bind((own_address()?, 0)).map_err(Failure::io("listen for the bench"))?;
    let address = listener.local_addr().map_err(Failure::io("listen for the bench"))?;
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            std::thread::spawn(move || {
                // Whoever hangs up early is none of ours.
                let _ = answer(connection);
            });
        }
    });
    Ok(address)
}

fn own_address() -> Result<IpAddr> {
    let route = || -> std::io::Result<IpAddr> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        // Sends nothing: only the way there is looked up.
        socket.connect("192.0.2.1:9")?;
        Ok(socket.local_addr()?.ip())
    };
    route().map_err(Failure::io("find an address of this machine beside its loopback"))
}

fn answer(mut connection: TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        match connection.read(&mut piece)? {
            0 => return Ok(()),
            read => head.extend_from_slice(&piece[..read]),
        }
    }
    let head = String::from_utf8_lossy(&head);
    let path = head.split(' ').nth(1).unwrap_or_default();
    let size: usize = path.trim_start_matches('/').parse().unwrap_or(0);
    let length = size << 20;
    write!(connection, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")?;
    let block = vec![0; 1 << 20];
    for _ in 0..size {
        connection.write_all(&block)?;
    }
    Ok(())
}
