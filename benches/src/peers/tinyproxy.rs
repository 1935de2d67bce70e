//! tinyproxy, a small proxy in C, as Debian has it.

use crate::comparison::Result;
use crate::failure::Failure;
use crate::scene::Scene;
use std::net::{TcpListener, TcpStream};
use std::process::Child;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);

/// Running until it is dropped.
#[derive(Debug)]
pub(crate) struct Tinyproxy {
    child: Child,
    port: u16,
}

impl Tinyproxy {
    pub(crate) fn start(scene: &Scene) -> Result<Self> {
        // Free a moment ago; nobody else on the machine is busy while a bench runs.
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .map_err(Failure::io("find a port for tinyproxy"))?
            .port();
        let config = scene.path("tinyproxy.conf");
        let text = format!("Port {port}\nListen 127.0.0.1\nLogLevel Critical\nMaxClients 100\nTimeout 600\n");
        std::fs::write(&config, text).map_err(Failure::io("write tinyproxy's configuration"))?;
        let program = scene.program(scene.find("tinyproxy")?).args(["-d", "-c"]).args([&config]);
        let child = program.command().spawn().map_err(Failure::io("start tinyproxy"))?;
        let proxy = Self { child, port };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if began.elapsed() > PATIENCE {
                return Err(Failure::Hangs { command: program.to_string(), patience: PATIENCE });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(proxy)
    }

    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for Tinyproxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
