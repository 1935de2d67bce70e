//! A host for one guest: starts the real program on a socket pair and speaks the protocol from plain threads.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that fails panics")]
#![allow(unreachable_pub, reason = "a module of test programs has no other crate to be seen from")]
#![allow(dead_code, reason = "each test program uses its own part of this")]

use palisade_protocol::message::{
    decode_data, decode_eof, encode_data, eof_frame, shutdown_frame, window_frame,
};
use palisade_protocol::{
    Channel, Decoder, ExecRequest, Exit, Frame, Hello, Kind, Open, Refusal, Report, Size, StreamId, Welcome,
    frame,
};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Nothing here takes this long; a test that waits so long has failed.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub fn program() -> &'static str {
    env!("CARGO_BIN_EXE_palisade-guest")
}

pub struct Guest {
    pub child: Child,
    socket: UnixStream,
    decoder: Decoder,
    waiting: VecDeque<Frame>,
    next: StreamId,
    /// Whether what is read is granted again at once, as a host that keeps up does.
    pub grants: bool,
}

/// All that a stream said until its end.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub output: Vec<u8>,
    pub error: Vec<u8>,
    pub exit: Option<Exit>,
}

impl Outcome {
    pub fn text(&self) -> (String, String, Option<Exit>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&self.output), text(&self.error), self.exit)
    }
}

impl Guest {
    /// A guest that has been greeted.
    pub fn start() -> Self {
        let mut guest = Self::silent(&[]);
        guest.greet();
        guest
    }

    /// A guest that nobody has spoken to.
    pub fn silent(arguments: &[&str]) -> Self {
        Self::of(program(), arguments)
    }

    pub fn of(program: &str, arguments: &[&str]) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let theirs = OwnedFd::from(theirs);
        let number = theirs.as_raw_fd();
        let mut command = Command::new(program);
        command.args(["serve", "--fd", &number.to_string(), "--subreaper"]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // A second copy under a high number stands for what careless hosts leave open.
        // SAFETY: the descriptor is open, and both calls between fork and exec allocate nothing.
        unsafe {
            command.pre_exec(move || {
                match (libc::dup2(number, 200), libc::fcntl(number, libc::F_SETFD, 0)) {
                    (-1, _) | (_, -1) => Err(std::io::Error::last_os_error()),
                    _ => Ok(()),
                }
            });
        }
        let child = command.spawn().unwrap();
        Self::over(child, ours)
    }

    /// A guest that has the socket as its standard input and output, like in a container.
    pub fn on_stdio(arguments: &[&str]) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = Command::new(program());
        command.args(["serve", "--stdio", "--subreaper"]).args(arguments);
        command.stdin(OwnedFd::from(theirs.try_clone().unwrap())).stdout(OwnedFd::from(theirs));
        Self::over(command.spawn().unwrap(), ours)
    }

    fn over(child: Child, socket: UnixStream) -> Self {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let decoder = Decoder::new(frame::MAX_FROM_GUEST);
        Self { child, socket, decoder, waiting: VecDeque::new(), next: 1, grants: true }
    }

    pub fn greet(&mut self) {
        let nonce = [self.next as u8; 16];
        self.send(&Hello::new(nonce).frame());
        let welcome = loop {
            let frame = self.receive();
            if frame.kind == Kind::Welcome {
                break Welcome::decode(&frame.payload).unwrap();
            }
        };
        let build = env!("CARGO_PKG_VERSION").to_owned();
        assert_eq!(welcome, Welcome { version: 1, nonce, build });
    }

    pub fn send(&mut self, frame: &Frame) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.send_bytes(&bytes);
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    pub fn send_data(&mut self, stream: StreamId, data: &[u8]) {
        let mut bytes = Vec::new();
        encode_data(stream, Channel::Main, data, &mut bytes);
        self.send_bytes(&bytes);
    }

    /// The next frame, whatever it belongs to; `None` when the guest closed the stream.
    pub fn try_receive(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.decoder.next_frame().unwrap() {
                return Some(frame);
            }
            let mut buffer = [0; 65_536];
            match self.socket.read(&mut buffer) {
                Ok(0) => return None,
                Ok(read) => self.decoder.push(&buffer[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("the guest said nothing: {error}"),
            }
        }
    }

    pub fn receive(&mut self) -> Frame {
        self.try_receive().expect("the guest closed the stream")
    }

    /// The next frame of one stream; those of others wait.
    pub fn receive_on(&mut self, stream: StreamId) -> Frame {
        let frame = match self.waiting.iter().position(|frame| frame.stream == stream) {
            Some(index) => self.waiting.remove(index).unwrap(),
            None => loop {
                let frame = self.receive();
                if frame.stream == stream {
                    break frame;
                }
                self.waiting.push_back(frame);
            },
        };
        if frame.kind == Kind::Data && self.grants {
            let (channel, data) = decode_data(&frame.payload).unwrap();
            self.send(&window_frame(stream, channel, data.len() as u32));
        }
        frame
    }

    pub fn open(&mut self, open: &Open) -> StreamId {
        let stream = self.next;
        self.next += 2;
        self.send(&open.frame(stream));
        stream
    }

    /// Opens a stream that must be accepted.
    pub fn accepted(&mut self, open: &Open) -> StreamId {
        let stream = self.open(open);
        let answer = self.receive_on(stream);
        assert_eq!(answer.kind, Kind::Accepted, "{:?}", Refusal::decode(&answer.payload));
        stream
    }

    pub fn refused(&mut self, open: &Open) -> Refusal {
        let stream = self.open(open);
        let answer = self.receive_on(stream);
        assert_eq!(answer.kind, Kind::Refused);
        Refusal::decode(&answer.payload).unwrap()
    }

    /// Reads a stream to its end.
    pub fn finish(&mut self, stream: StreamId) -> Outcome {
        let mut outcome = Outcome::default();
        let mut ended = Vec::new();
        loop {
            let frame = self.receive_on(stream);
            match frame.kind {
                Kind::Data => {
                    let (channel, data) = decode_data(&frame.payload).unwrap();
                    assert!(!ended.contains(&channel), "data after the end of {channel:?}");
                    match channel {
                        Channel::Main => outcome.output.extend_from_slice(data),
                        Channel::Error => outcome.error.extend_from_slice(data),
                    }
                }
                Kind::Eof => ended.push(decode_eof(&frame.payload).unwrap()),
                Kind::Exit => {
                    outcome.exit = Some(Exit::decode(&frame.payload).unwrap());
                    return outcome;
                }
                Kind::Reset => return outcome,
                Kind::Window => {}
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    /// Reads standard output until it contains `text`; everything read.
    pub fn read_until(&mut self, stream: StreamId, text: &str) -> String {
        let mut seen = Vec::new();
        loop {
            let frame = self.receive_on(stream);
            match frame.kind {
                Kind::Data => match decode_data(&frame.payload).unwrap() {
                    (Channel::Main, data) => seen.extend_from_slice(data),
                    (Channel::Error, _) => continue,
                },
                Kind::Window => continue,
                other => panic!("{other:?} before {text:?}, after {:?}", String::from_utf8_lossy(&seen)),
            }
            let read = String::from_utf8_lossy(&seen);
            if read.contains(text) {
                return read.into_owned();
            }
        }
    }

    pub fn report(&mut self, stream: StreamId) -> Report {
        loop {
            let frame = self.receive_on(stream);
            match frame.kind {
                Kind::Report => return Report::decode(&frame.payload).unwrap(),
                Kind::Accepted => {}
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    pub fn run(&mut self, request: ExecRequest) -> Outcome {
        let stream = self.accepted(&Open::Exec(request));
        self.finish(stream)
    }

    pub fn sh(&mut self, script: &str) -> Outcome {
        self.run(shell(script))
    }

    pub fn end_input(&mut self, stream: StreamId) {
        self.send(&eof_frame(stream, Channel::Main));
    }

    pub fn shut_down(&mut self, grace: Duration) -> ExitStatus {
        self.send(&shutdown_frame(grace.as_millis() as u32));
        while self.try_receive().is_some() {}
        self.child.wait().unwrap()
    }

    /// Hangs up, as a host that died.
    pub fn hang_up(mut self) -> ExitStatus {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        self.child.wait().unwrap()
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let _ = self.child.wait();
    }
}

/// A script for the system's shell, with a path to find programs by.
pub fn shell(script: &str) -> ExecRequest {
    let path = b"PATH=/usr/local/bin:/usr/bin:/bin".to_vec();
    command(&["sh", "-c", script], vec![path])
}

pub fn command(argv: &[&str], env: Vec<Vec<u8>>) -> ExecRequest {
    let argv = argv.iter().map(|argument| argument.as_bytes().to_vec()).collect();
    ExecRequest { argv, env, cwd: b"/".to_vec(), ..Default::default() }
}

pub fn with_terminal(script: &str) -> ExecRequest {
    ExecRequest { pty: Some(Size { rows: 24, columns: 80 }), ..shell(script) }
}

pub fn code(code: u8) -> Option<Exit> {
    Some(Exit::Code(code))
}

/// Whether the process lives; a zombie does not.
pub fn alive(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")))
}

/// Waits for something that no event tells.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let give_up_at = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < give_up_at, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A line of `/proc/<pid>/status` in KiB.
pub fn memory_of(pid: i32, line: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|text| text.strip_prefix(line)).unwrap();
    line.trim_matches([':', ' ', '\t', 'k', 'B']).parse().unwrap()
}
