//! Sizes without end and without sense, two viewers, and connections that break at any byte.

use palisade_testing::{Instance, Pty, Random, eventually, requires};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

fn listed(instance: &Instance) -> serde_json::Value {
    instance.run(["sessions", "box", "--json"]).ok().json()
}

#[test]
fn ten_thousand_sizes_and_none_breaks_anything() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.started("box");
    let script = "stty -echo; echo up; while read line; do echo $line $(stty size); done";
    let mut first = Pty::start(&mut instance.command(["attach", "box", "--", "bash", "-c", script]), 24, 80);
    first.wait_for("up\r\n");
    let mut second = Pty::start(&mut instance.command(["attach", "box"]), 24, 80);
    second.wait_for("up\r\n");
    let mut random = Random::new(Random::seed());
    for round in 0..10_000u32 {
        let (rows, columns) = match round % 10 {
            0 => (0, 0),
            1 => (65_535, 65_535),
            2 => (0, 65_535),
            3 => (1, 1),
            _ => (random.below(300) as u16, random.below(500) as u16),
        };
        let terminal = if round % 2 == 0 { &first } else { &second };
        terminal.resize(rows, columns);
        if round % 1000 == 0 {
            // In the middle of it, everything is as responsive as before.
            first.type_keys(&format!("round-{round}\r"));
            first.wait_for(&format!("round-{round} "));
            second.wait_for(&format!("round-{round} "));
        }
    }
    for (rows, columns, shown) in [(65_535, 65_535, (10_000, 10_000)), (33, 111, (33, 111))] {
        eventually("the last size arrives", || {
            // Said again, since the other viewer may still be busy with its own last size.
            second.resize(1, 1);
            second.resize(rows, columns);
            let session = &listed(&instance)[0];
            (session["rows"].as_u64(), session["columns"].as_u64()) == (Some(shown.0), Some(shown.1))
        });
    }
    first.type_keys("end\r");
    first.wait_for("end 33 111\r\n");
    second.wait_for("end 33 111\r\n");
    second.type_keys("\x1cd");
    assert_eq!(second.wait(), 0);
    first.type_keys("\x04");
    assert_eq!(first.wait(), 0);
    assert!(first.is_as_before() && second.is_as_before());
}

/// Stands between a client and the keeper for one connection, and cuts it after so many bytes from the keeper.
fn cut_after(socket: &Path, bytes: usize) -> std::thread::JoinHandle<()> {
    let real = socket.with_extension("real");
    if !real.exists() {
        std::fs::rename(socket, &real).unwrap();
    }
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let keeper = UnixStream::connect(&real).unwrap();
        let (mut from_client, mut to_keeper) = (client.try_clone().unwrap(), keeper.try_clone().unwrap());
        let upward = std::thread::spawn(move || {
            let _ = std::io::copy(&mut from_client, &mut to_keeper);
        });
        let mut limited = (&keeper).take(bytes as u64);
        let _ = std::io::copy(&mut limited, &mut &client);
        let _ = (&client).flush();
        for end in [&client, &keeper] {
            let _ = end.shutdown(std::net::Shutdown::Both);
        }
        upward.join().unwrap();
    })
}

/// The client tells it, the terminal is as before, the session goes on, and the next one sees it whole.
#[test]
fn a_connection_may_break_at_any_byte() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.started("box");
    let id = instance.run(["inspect", "box", "--json"]).ok().json()["id"].as_str().unwrap().to_owned();
    let socket = instance.state().join("sandboxes").join(id).join("keeper.sock");
    let script = "for n in $(seq 1 400); do printf '\\033[?25l\\033[31m%s\\033[0m \u{20ac}\\033[?25h\\r\\n' $n; done; echo END; read line; exit 7";
    instance.run(["exec", "box", "--session", "main", "--detach", "--", "bash", "-c", script]).ok();
    let mut whole = Pty::start(&mut instance.command(["attach", "box"]), 24, 80);
    whole.wait_for("END\r\n");
    whole.type_keys("\x1cd");
    assert_eq!(whole.wait(), 0);
    let mut random = Random::new(Random::seed());
    for round in 0..40 {
        let cut = cut_after(&socket, random.below(9_000) as usize);
        let mut terminal = Pty::start(&mut instance.command(["attach", "box"]), 24, 80);
        let code = terminal.wait();
        assert_eq!(code, 1, "round {round}: {}", terminal.screen());
        assert!(terminal.is_as_before(), "round {round}");
        let screen = terminal.screen();
        let (shown, hidden) = (screen.rfind("\x1b[?25h"), screen.rfind("\x1b[?25l"));
        assert!(hidden.is_none() || shown > hidden, "round {round}: the cursor stays hidden");
        cut.join().unwrap();
    }
    std::fs::rename(socket.with_extension("real"), &socket).unwrap();
    let mut last = Pty::start(&mut instance.command(["attach", "box"]), 24, 80);
    last.wait_for("END\r\n");
    eventually("nobody else is left", || listed(&instance)[0]["viewers"] == 1);
    last.type_keys("\r");
    assert_eq!(last.wait(), 7);
}
