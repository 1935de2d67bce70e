//! Between Palisade and an engine: a relay that can be away, hang, or answer for the engine. What an engine does when it is
//! restarted or overloaded can so be had at the moment of a test's choice, beside other tests that use the same engine.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mood {
    Passes,
    /// Connections are taken, and nothing is ever answered.
    Hangs,
    /// What is answered is not HTTP.
    Babbles,
    /// An answer ends in the middle.
    BreaksOff,
    /// A request is read, and the connection is closed.
    HangsUp,
    /// A request whose first line holds the words gets this for an answer; others pass.
    Refuses {
        words: &'static str,
        status: u16,
        message: &'static str,
    },
}

pub(crate) struct Proxy {
    directory: tempfile::TempDir,
    shared: Arc<Shared>,
}

struct Shared {
    engine: PathBuf,
    mood: Mutex<Mood>,
    /// Both ends of what is open, to be cut.
    open: Mutex<Vec<UnixStream>>,
}

impl Shared {
    fn mood(&self) -> MutexGuard<'_, Mood> {
        self.mood.lock().unwrap()
    }
}

impl Proxy {
    pub(crate) fn before(engine: impl Into<PathBuf>) -> Self {
        let directory = tempfile::Builder::new().prefix("pp-").tempdir_in("/tmp").unwrap();
        let shared = Shared { engine: engine.into(), mood: Mutex::new(Mood::Passes), open: Mutex::default() };
        let proxy = Self { directory, shared: Arc::new(shared) };
        proxy.come_back();
        proxy
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("s")
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    pub(crate) fn set(&self, mood: Mood) {
        *self.shared.mood() = mood;
    }

    /// No connection is taken any more, and all there are are cut.
    pub(crate) fn go_away(&self) {
        std::fs::remove_file(self.socket()).unwrap();
        self.cut();
    }

    /// All connections are cut, and the next ones are taken.
    pub(crate) fn cut(&self) {
        for end in self.shared.open.lock().unwrap().drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn come_back(&self) {
        let listener = UnixListener::bind(self.socket()).unwrap();
        let shared = Arc::clone(&self.shared);
        // It ends with the test's process; nobody reaches one whose file is gone.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.serve(client));
            }
        });
    }

    /// The same engine behind a port of the loopback: as far as anybody can tell, on another machine.
    pub(crate) fn behind_a_port(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let socket = self.socket();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let engine = UnixStream::connect(&socket).unwrap();
                let (from, to) = (client.try_clone().unwrap(), engine.try_clone().unwrap());
                relay(from, to, |end| end.shutdown(Shutdown::Write));
                relay(engine, client, |end| end.shutdown(Shutdown::Write));
            }
        });
        format!("tcp://{address}")
    }
}

impl Shared {
    fn serve(&self, mut client: UnixStream) {
        let mut request = vec![0; 1 << 16];
        let Ok(read @ 1..) = client.read(&mut request) else { return };
        let begun = &request[..read];
        let line = String::from_utf8_lossy(begun.split(|byte| *byte == b'\r').next().unwrap()).into_owned();
        let mood = self.mood().clone();
        match mood {
            Mood::Hangs => {
                self.open.lock().unwrap().push(client.try_clone().unwrap());
                // Until it is cut, or the client gives up.
                while let Ok(1..) = client.read(&mut request) {}
            }
            Mood::Babbles => drop(client.write_all(b"\x00\xffnot a word of HTTP\r\n\r\n")),
            Mood::BreaksOff => {
                drop(client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4096\r\n\r\n[{\"Id\":"));
            }
            Mood::HangsUp => {}
            Mood::Refuses { words, status, message } if line.contains(words) => {
                let body = format!("{{\"message\":\"{message}\",\"cause\":\"{message}\"}}");
                let _ = write!(
                    client,
                    "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                );
            }
            Mood::Passes | Mood::Refuses { .. } => {
                let Ok(mut engine) = UnixStream::connect(&self.engine) else { return };
                let ends = [client.try_clone().unwrap(), engine.try_clone().unwrap()];
                self.open.lock().unwrap().extend(ends);
                engine.write_all(begun).unwrap();
                let (from, to) = (client.try_clone().unwrap(), engine.try_clone().unwrap());
                relay(from, to, |end| end.shutdown(Shutdown::Write));
                relay(engine, client, |end| end.shutdown(Shutdown::Write));
            }
        }
    }
}

/// Passes on, in a thread of its own, until the end.
fn relay<From, To>(mut from: From, mut to: To, end: fn(&To) -> std::io::Result<()>)
where
    From: Read + Send + 'static,
    To: Write + Send + 'static,
{
    thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = end(&to);
    });
}
