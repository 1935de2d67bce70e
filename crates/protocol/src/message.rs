//! What each frame says. Requests to open a stream, the answers, and what flows on it.

use crate::fields::{Reader, Writer};
use crate::frame::{Frame, Kind, StreamId, header};
use crate::{OLDEST_VERSION, VERSION, Violation};

pub const MAGIC: &[u8; 8] = b"PALISADE";

/// Names of sessions are as narrow as names of sandboxes.
pub const MAX_SESSION_NAME: usize = 63;

/// The first frame of every connection, from the host. The nonce ties the answer to this very connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    pub oldest: u16,
    pub newest: u16,
    pub nonce: [u8; 16],
}

impl Hello {
    pub fn new(nonce: [u8; 16]) -> Self {
        Self { oldest: OLDEST_VERSION, newest: VERSION, nonce }
    }

    pub fn frame(&self) -> Frame {
        let payload = Writer::new()
            .bytes(1, MAGIC)
            .u16(2, self.oldest)
            .u16(3, self.newest)
            .bytes(4, &self.nonce)
            .finish();
        Frame::new(Kind::Hello, 0, payload)
    }

    pub fn decode(payload: &[u8]) -> Result<Self, Violation> {
        let fields = Reader::new("hello", payload)?;
        if fields.required(1)? != MAGIC {
            return Err(Violation::Malformed("hello"));
        }
        Ok(Self { oldest: fields.u16(2)?, newest: fields.u16(3)?, nonce: fields.array(4)? })
    }

    /// The newest version both sides speak.
    pub fn agree(&self) -> Result<u16, Violation> {
        let version = self.newest.min(VERSION);
        if version < self.oldest || version < OLDEST_VERSION {
            return Err(Violation::Version { theirs_min: self.oldest, theirs_max: self.newest });
        }
        Ok(version)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    pub version: u16,
    pub nonce: [u8; 16],
    /// The guest's build, for people; untrusted text.
    pub build: String,
}

impl Welcome {
    pub fn frame(&self) -> Frame {
        let payload = Writer::new()
            .bytes(1, MAGIC)
            .u16(2, self.version)
            .bytes(4, &self.nonce)
            .bytes(5, self.build.as_bytes())
            .finish();
        Frame::new(Kind::Welcome, 0, payload)
    }

    pub fn decode(payload: &[u8]) -> Result<Self, Violation> {
        let fields = Reader::new("welcome", payload)?;
        if fields.required(1)? != MAGIC {
            return Err(Violation::Malformed("welcome"));
        }
        Ok(Self { version: fields.u16(2)?, nonce: fields.array(4)?, build: fields.text(5)? })
    }
}

/// Size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub rows: u16,
    pub columns: u16,
}

impl Size {
    fn encode(self) -> [u8; 4] {
        let [a, b] = self.rows.to_be_bytes();
        let [c, d] = self.columns.to_be_bytes();
        [a, b, c, d]
    }

    fn decode(what: &'static str, bytes: &[u8]) -> Result<Self, Violation> {
        let &[a, b, c, d] = bytes else { return Err(Violation::Malformed(what)) };
        Ok(Self { rows: u16::from_be_bytes([a, b]), columns: u16::from_be_bytes([c, d]) })
    }

    pub fn frame(self, stream: StreamId) -> Frame {
        Frame::new(Kind::Resize, stream, self.encode().to_vec())
    }

    pub fn decode_resize(payload: &[u8]) -> Result<Self, Violation> {
        Self::decode("resize", payload)
    }
}

/// A command to run. Environment and working directory are explicit: nothing is inherited.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExecRequest {
    pub argv: Vec<Vec<u8>>,
    /// `NAME=value` each.
    pub env: Vec<Vec<u8>>,
    pub cwd: Vec<u8>,
    /// Whether standard input is a pipe from the host; else it is empty.
    pub stdin: bool,
    /// With a terminal of this size; its output is all on [`Channel::Main`].
    pub pty: Option<Size>,
    /// As a named session, which needs a terminal and outlives this stream.
    pub session: Option<String>,
    /// Only start the session: the stream ends with `Code(0)` once it runs, and was never a viewer.
    pub detached: bool,
}

/// What a new stream is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Open {
    /// Ends with the command's [`Exit`]; resetting the stream kills a plain command, and only detaches from a session.
    Exec(ExecRequest),
    /// Attach to a named session: its recent output is replayed, then the live terminal.
    Attach { session: String, size: Size },
    /// One [`Report::Sessions`], then the end.
    Sessions,
    /// A [`Report::Listeners`] now and whenever it changes.
    Listeners,
    /// A connection to a TCP port on the sandbox's loopback.
    Dial { port: u16 },
    /// The tree at `path` as a tar stream towards the host.
    TarOut { path: Vec<u8> },
    /// A tar stream from the host, unpacked below the existing directory `path`.
    TarIn { path: Vec<u8> },
    /// From the guest: a connection out of the sandbox. Refused unless the policy allows it.
    Outward { host: String, port: u16 },
    /// For the keeper itself; a guest refuses it.
    Keeper(KeeperVerb),
    /// Open the sandbox's own side of the way out: the name server, the proxy, and listeners. Ends at once.
    Egress(EgressRequest),
    /// From the guest: may this name be asked for? Accepted and ended, or refused.
    Name { host: String },
    /// From the guest: a connection to the port of the host's loopback that is shown as this one.
    HostPort { port: u16 },
    /// A [`Report::Sessions`] now and whenever a session starts or ends.
    SessionChanges,
    /// One [`Report::Changes`] as soon as it differs from what is known, then the end. The host asks again for more,
    /// so a guest cannot say it more often than it is asked.
    Changes(ChangesRequest),
}

/// What there is to notice inside, each as a number that is good for nothing but being compared with a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changes {
    /// The branches of the repository.
    pub branches: u64,
    /// What went in and out of sessions.
    pub sessions: u64,
    /// Sessions that ended.
    pub ended: u64,
}

/// What to wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangesRequest {
    /// The top of the repository's working tree.
    pub repository: Vec<u8>,
    /// Answered at once when nothing is known yet.
    pub known: Option<Changes>,
    /// Whether sessions count, and not only branches.
    pub sessions: bool,
}

impl Changes {
    fn encode(self) -> Vec<u8> {
        [self.branches, self.sessions, self.ended].iter().flat_map(|number| number.to_be_bytes()).collect()
    }

    fn decode(what: &'static str, bytes: &[u8]) -> Result<Self, Violation> {
        let (numbers, rest) = bytes.as_chunks::<8>();
        match (numbers, rest) {
            (&[branches, sessions, ended], []) => Ok(Self {
                branches: u64::from_be_bytes(branches),
                sessions: u64::from_be_bytes(sessions),
                ended: u64::from_be_bytes(ended),
            }),
            _ => Err(Violation::Malformed(what)),
        }
    }
}

/// What listens on a sandbox's loopback for connections that leave it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EgressRequest {
    /// Where connections to names are taken.
    pub ports: Vec<u16>,
    /// Where connections to the host's own ports are taken.
    pub host_ports: Vec<u16>,
    pub proxy: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeeperVerb {
    /// Stop the sandbox, with so many milliseconds for its processes to end by themselves.
    Stop { grace_ms: u32 },
    /// Answers with a [`Report::Keeper`].
    Status,
    /// Look again at what there is to do besides keeping the sandbox.
    Orders,
    /// As `Stop`, unless another client is connected: then it is refused.
    StopIfUnused { grace_ms: u32 },
}

impl Open {
    pub fn frame(&self, stream: StreamId) -> Frame {
        let writer = Writer::new();
        let payload = match self {
            Open::Exec(exec) => {
                let writer = writer
                    .u8(1, 1)
                    .list(2, &exec.argv)
                    .list(3, &exec.env)
                    .bytes(4, &exec.cwd)
                    .flag(5, exec.stdin);
                let writer = match exec.pty {
                    Some(size) => writer.bytes(6, &size.encode()),
                    None => writer,
                };
                let writer = match &exec.session {
                    Some(session) => writer.bytes(7, session.as_bytes()),
                    None => writer,
                };
                writer.flag(13, exec.detached)
            }
            Open::Attach { session, size } => {
                writer.u8(1, 2).bytes(6, &size.encode()).bytes(7, session.as_bytes())
            }
            Open::Sessions => writer.u8(1, 3),
            Open::Listeners => writer.u8(1, 4),
            Open::Dial { port } => writer.u8(1, 5).u16(8, *port),
            Open::TarOut { path } => writer.u8(1, 6).bytes(9, path),
            Open::TarIn { path } => writer.u8(1, 7).bytes(9, path),
            Open::Outward { host, port } => writer.u8(1, 8).u16(8, *port).bytes(10, host.as_bytes()),
            Open::Keeper(KeeperVerb::Stop { grace_ms }) => writer.u8(1, 9).u8(11, 1).u32(12, *grace_ms),
            Open::Keeper(KeeperVerb::Status) => writer.u8(1, 9).u8(11, 2),
            Open::Keeper(KeeperVerb::Orders) => writer.u8(1, 9).u8(11, 3),
            Open::Keeper(KeeperVerb::StopIfUnused { grace_ms }) => {
                writer.u8(1, 9).u8(11, 4).u32(12, *grace_ms)
            }
            Open::Egress(request) => writer
                .u8(1, 10)
                .u16(8, request.proxy)
                .bytes(14, &encode_ports(&request.ports))
                .bytes(15, &encode_ports(&request.host_ports)),
            Open::Name { host } => writer.u8(1, 11).bytes(10, host.as_bytes()),
            Open::HostPort { port } => writer.u8(1, 12).u16(8, *port),
            Open::SessionChanges => writer.u8(1, 13),
            Open::Changes(request) => {
                let writer = writer.u8(1, 14).bytes(9, &request.repository).flag(17, request.sessions);
                match request.known {
                    Some(known) => writer.bytes(16, &known.encode()),
                    None => writer,
                }
            }
        };
        Frame::new(Kind::Open, stream, payload.finish())
    }

    pub fn decode(payload: &[u8]) -> Result<Self, Violation> {
        let malformed = Violation::Malformed("open");
        let fields = Reader::new("open", payload)?;
        let size = || fields.required(6).and_then(|bytes| Size::decode("open", bytes));
        Ok(match fields.u8(1)? {
            1 => Open::Exec(ExecRequest {
                argv: fields.list(2),
                env: fields.list(3),
                cwd: fields.required(4)?.to_vec(),
                stdin: fields.flag(5),
                pty: fields.flag(6).then(size).transpose()?,
                session: fields.flag(7).then(|| session_name(fields.text(7)?)).transpose()?,
                detached: fields.flag(13),
            }),
            2 => Open::Attach { session: session_name(fields.text(7)?)?, size: size()? },
            3 => Open::Sessions,
            4 => Open::Listeners,
            5 => Open::Dial { port: fields.u16(8)? },
            6 => Open::TarOut { path: fields.required(9)?.to_vec() },
            7 => Open::TarIn { path: fields.required(9)?.to_vec() },
            8 => Open::Outward { port: fields.u16(8)?, host: fields.text(10)? },
            9 => Open::Keeper(match fields.u8(11)? {
                1 => KeeperVerb::Stop { grace_ms: fields.u32(12)? },
                2 => KeeperVerb::Status,
                3 => KeeperVerb::Orders,
                4 => KeeperVerb::StopIfUnused { grace_ms: fields.u32(12)? },
                _ => return Err(malformed),
            }),
            10 => Open::Egress(EgressRequest {
                ports: decode_ports("open", fields.required(14)?)?,
                host_ports: decode_ports("open", fields.required(15)?)?,
                proxy: fields.u16(8)?,
            }),
            11 => Open::Name { host: fields.text(10)? },
            12 => Open::HostPort { port: fields.u16(8)? },
            13 => Open::SessionChanges,
            14 => Open::Changes(ChangesRequest {
                repository: fields.required(9)?.to_vec(),
                known: fields.optional(16).map(|bytes| Changes::decode("open", bytes)).transpose()?,
                sessions: fields.flag(17),
            }),
            _ => return Err(malformed),
        })
    }
}

fn encode_ports(ports: &[u16]) -> Vec<u8> {
    ports.iter().flat_map(|port| port.to_be_bytes()).collect()
}

fn decode_ports(what: &'static str, bytes: &[u8]) -> Result<Vec<u16>, Violation> {
    if !bytes.len().is_multiple_of(2) {
        return Err(Violation::Malformed(what));
    }
    Ok(bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect())
}

/// Whether a session can have this name.
pub fn is_session_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.len() <= MAX_SESSION_NAME && !name.starts_with('-') && name.bytes().all(allowed)
}

fn session_name(name: String) -> Result<String, Violation> {
    if is_session_name(&name) { Ok(name) } else { Err(Violation::Malformed("session name")) }
}

/// Why a stream could not be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum RefusalCode {
    /// The program could not be executed; `errno` says why.
    Exec = 1,
    /// The working directory could not be entered; `errno` says why.
    Cwd = 2,
    /// No such session, file or directory.
    NotFound = 3,
    /// The session exists already.
    Exists = 4,
    /// Too many streams, sessions or processes.
    Limit = 5,
    /// This peer does not do that.
    Unsupported = 6,
    /// The policy forbids it.
    Forbidden = 7,
    /// Something else failed; `errno` and the text say what.
    Failed = 8,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: RefusalCode,
    pub errno: i32,
    /// For people; untrusted text.
    pub text: String,
}

impl Refusal {
    pub fn new(code: RefusalCode, errno: i32, text: impl Into<String>) -> Self {
        Self { code, errno, text: text.into() }
    }

    pub fn frame(&self, stream: StreamId) -> Frame {
        let payload = Writer::new()
            .u8(1, self.code as u8)
            .u32(2, self.errno as u32)
            .bytes(3, self.text.as_bytes())
            .finish();
        Frame::new(Kind::Refused, stream, payload)
    }

    pub fn decode(payload: &[u8]) -> Result<Self, Violation> {
        let fields = Reader::new("refusal", payload)?;
        let code = match fields.u8(1)? {
            1 => RefusalCode::Exec,
            2 => RefusalCode::Cwd,
            3 => RefusalCode::NotFound,
            4 => RefusalCode::Exists,
            5 => RefusalCode::Limit,
            6 => RefusalCode::Unsupported,
            7 => RefusalCode::Forbidden,
            8 => RefusalCode::Failed,
            _ => return Err(Violation::Malformed("refusal")),
        };
        Ok(Self { code, errno: fields.u32(2)? as i32, text: fields.text(3)? })
    }
}

/// Which of a stream's two flows: input and output share `Main` in their two directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Channel {
    /// Standard input towards the guest, standard output or the terminal towards the host, a connection's bytes.
    Main = 0,
    /// Standard error, towards the host only.
    Error = 1,
}

impl Channel {
    pub const ALL: [Channel; 2] = [Channel::Main, Channel::Error];

    fn decode(what: &'static str, byte: u8) -> Result<Self, Violation> {
        match byte {
            0 => Ok(Channel::Main),
            1 => Ok(Channel::Error),
            _ => Err(Violation::Malformed(what)),
        }
    }
}

/// Appends a data frame without an intermediate copy.
pub fn encode_data(stream: StreamId, channel: Channel, data: &[u8], out: &mut Vec<u8>) {
    header(Kind::Data, stream, data.len() + 1, out);
    out.push(channel as u8);
    out.extend_from_slice(data);
}

pub fn decode_data(payload: &[u8]) -> Result<(Channel, &[u8]), Violation> {
    let (&channel, data) = payload.split_first().ok_or(Violation::Malformed("data"))?;
    Ok((Channel::decode("data", channel)?, data))
}

/// No more data will follow on this channel.
pub fn eof_frame(stream: StreamId, channel: Channel) -> Frame {
    Frame::new(Kind::Eof, stream, vec![channel as u8])
}

pub fn decode_eof(payload: &[u8]) -> Result<Channel, Violation> {
    let &[channel] = payload else { return Err(Violation::Malformed("eof")) };
    Channel::decode("eof", channel)
}

pub fn window_frame(stream: StreamId, channel: Channel, bytes: u32) -> Frame {
    let mut payload = vec![channel as u8];
    payload.extend_from_slice(&bytes.to_be_bytes());
    Frame::new(Kind::Window, stream, payload)
}

pub fn decode_window(payload: &[u8]) -> Result<(Channel, u32), Violation> {
    let &[channel, a, b, c, d] = payload else { return Err(Violation::Malformed("window")) };
    Ok((Channel::decode("window", channel)?, u32::from_be_bytes([a, b, c, d])))
}

/// The stream was opened as asked.
pub fn accepted_frame(stream: StreamId) -> Frame {
    Frame::new(Kind::Accepted, stream, Vec::new())
}

/// The sender drops the stream now; nothing more will come.
pub fn reset_frame(stream: StreamId) -> Frame {
    Frame::new(Kind::Reset, stream, Vec::new())
}

/// A signal for the foreground of the stream's command.
pub fn signal_frame(stream: StreamId, signal: u8) -> Frame {
    Frame::new(Kind::Signal, stream, vec![signal])
}

pub fn decode_signal(payload: &[u8]) -> Result<u8, Violation> {
    let &[signal @ 1..=64] = payload else { return Err(Violation::Malformed("signal")) };
    Ok(signal)
}

/// To the guest itself: end every process, with so many milliseconds of grace, and then yourself.
pub fn shutdown_frame(grace_ms: u32) -> Frame {
    Frame::new(Kind::Shutdown, 0, grace_ms.to_be_bytes().to_vec())
}

pub fn decode_shutdown(payload: &[u8]) -> Result<u32, Violation> {
    payload.try_into().map(u32::from_be_bytes).map_err(|_| Violation::Malformed("shutdown"))
}

/// How a command ended; also the regular end of every other stream, as `Code(0)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(u8),
    Signal(u8),
}

impl Exit {
    /// The exit status as a shell tells it.
    pub fn status(self) -> u8 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128u8.saturating_add(signal),
        }
    }

    pub fn frame(self, stream: StreamId) -> Frame {
        Frame::new(Kind::Exit, stream, self.encode().to_vec())
    }

    fn encode(self) -> [u8; 2] {
        match self {
            Exit::Code(code) => [0, code],
            Exit::Signal(signal) => [1, signal],
        }
    }

    pub fn decode(payload: &[u8]) -> Result<Self, Violation> {
        match *payload {
            [0, code] => Ok(Exit::Code(code)),
            [1, signal @ 1..=64] => Ok(Exit::Signal(signal)),
            _ => Err(Violation::Malformed("exit")),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    pub name: String,
    pub viewers: u16,
    pub size: Size,
    /// `None` while it runs.
    pub exit: Option<Exit>,
    /// Whether the exit was told to a viewer.
    pub seen: bool,
}

/// An answer that is neither data nor an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    Sessions(Vec<SessionInfo>),
    /// The TCP ports something listens on, sorted.
    Listeners(Vec<u16>),
    /// From the keeper: its own account of the sandbox, as JSON text.
    Keeper(String),
    Changes(Changes),
}

impl Report {
    pub fn frame(&self, stream: StreamId) -> Frame {
        let payload = match self {
            Report::Sessions(sessions) => sessions.iter().fold(Writer::new().u8(1, 1), |writer, session| {
                let entry = Writer::new()
                    .bytes(1, session.name.as_bytes())
                    .u16(2, session.viewers)
                    .bytes(3, &session.size.encode());
                let entry = match session.exit {
                    Some(exit) => entry.bytes(4, &exit.encode()),
                    None => entry,
                };
                writer.bytes(2, &entry.flag(5, session.seen).finish())
            }),
            Report::Listeners(ports) => Writer::new().u8(1, 2).bytes(3, &encode_ports(ports)),
            Report::Keeper(json) => Writer::new().u8(1, 3).bytes(4, json.as_bytes()),
            Report::Changes(changes) => Writer::new().u8(1, 4).bytes(5, &changes.encode()),
        };
        Frame::new(Kind::Report, stream, payload.finish())
    }

    pub fn decode(payload: &[u8]) -> Result<Self, Violation> {
        let fields = Reader::new("report", payload)?;
        Ok(match fields.u8(1)? {
            1 => Report::Sessions(
                fields.list(2).iter().map(|entry| decode_session(entry)).collect::<Result<_, _>>()?,
            ),
            2 => Report::Listeners(decode_ports("report", fields.required(3)?)?),
            3 => Report::Keeper(fields.text(4)?),
            4 => Report::Changes(Changes::decode("report", fields.required(5)?)?),
            _ => return Err(Violation::Malformed("report")),
        })
    }
}

fn decode_session(entry: &[u8]) -> Result<SessionInfo, Violation> {
    let fields = Reader::new("session", entry)?;
    Ok(SessionInfo {
        name: session_name(fields.text(1)?)?,
        viewers: fields.u16(2)?,
        size: Size::decode("session", fields.required(3)?)?,
        exit: fields.optional(4).map(Exit::decode).transpose()?,
        seen: fields.flag(5),
    })
}
