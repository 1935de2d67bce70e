//! Between the user's own input, output and signals and a command inside a sandbox. Bytes are relayed; a descriptor
//! of the host's never goes inside.

use crate::failure::Failure;
use crate::keyboard::Keyboard;
use crate::terminal::{self, RawMode};
use crate::writer::Writer;
use crate::{Status, output};
use palisade_core::{Assignment, ByteSize, Layout, printable, printable_lines};
use palisade_engine::EngineError;
use palisade_host::signals::held_back;
use palisade_protocol::client::{Client, ClientError, StreamEvent, StreamReceiver, StreamSender};
use palisade_protocol::{ExecRequest, Open, Refusal, RefusalCode};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    Relayed,
    Empty,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tty {
    Yes,
    No,
}

/// What the command's own failure to start means as an exit status, as shells have it.
const CANNOT_EXECUTE: Status = 126;
const NOT_FOUND: Status = 127;

/// A command to run in a sandbox, and how it is tied to us.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) command: Vec<OsString>,
    pub(crate) variables: Vec<(OsString, OsString)>,
    pub(crate) input: Input,
    pub(crate) tty: Tty,
}

impl Call {
    pub(crate) fn open(&self, layout: &Layout) -> Open {
        Open::Exec(self.request(layout))
    }

    pub(crate) fn request(&self, layout: &Layout) -> ExecRequest {
        tracing::debug!(program = self.program(), tty = ?self.tty, "exec");
        request(layout, &self.command, &self.variables, self.input, self.tty)
    }

    pub(crate) fn program(&self) -> String {
        self.command.first().map(|word| printable(&word.to_string_lossy())).unwrap_or_default()
    }
}

/// Runs a command to its end and gives its exit status.
pub(crate) async fn run(
    client: &Client,
    layout: &Layout,
    call: &Call,
    signals: Signals,
) -> Result<Status, Failure> {
    let streams = client.open(call.open(layout)).await.map_err(EngineError::from)?;
    let overdue = std::future::pending::<Failure>();
    attend_until(overdue, client, streams, layout, call, signals).await
}

/// Stays with a command that was asked for until its end, and no longer than until `overdue` comes, with what to say then.
/// It does not wait for a sandbox that does not answer: a signal ends the wait soon, and the connection ends in any case.
pub(crate) async fn attend_until(
    overdue: impl Future<Output = Failure>,
    client: &Client,
    (sender, mut receiver): (StreamSender, StreamReceiver),
    layout: &Layout,
    call: &Call,
    mut signals: Signals,
) -> Result<Status, Failure> {
    let (input, tty) = (call.input, call.tty);
    let (first, early) = match first_answer(&mut receiver, &mut signals).await {
        Ok(answered) => answered,
        Err(silence) => return Ok(silence.end()),
    };
    match first.map_err(EngineError::from)? {
        Some(StreamEvent::Accepted) => {}
        Some(StreamEvent::Refused(refusal)) => {
            return Ok(refused(&call.program(), &layout.directory, &refusal));
        }
        _ => return Err(EngineError::from(ClientError::Closed).into()),
    }
    let raw = match tty {
        Tty::Yes => {
            Some(RawMode::enter().map_err(|error| Failure::failed("io", format!("the terminal: {error}")))?)
        }
        Tty::No => None,
    };
    let typing = (input == Input::Relayed).then(|| relay_input(sender.clone()));
    let mut passing_on = tokio::spawn(pass_on(client.clone(), signals, early, sender.clone(), tty));
    let mut writer = None;
    let mut overdue = std::pin::pin!(overdue);
    let mut end = loop {
        let event = tokio::select! {
            event = receiver.next() => event,
            failure = &mut overdue => break Err(failure),
            Ok(silence) = &mut passing_on => break Ok(silence.end()),
        };
        match event {
            Ok(Some(StreamEvent::Data { channel, bytes })) => {
                let writer = writer.get_or_insert_with(Writer::start);
                // Our own reader has gone away: the command learns it as it would in a pipeline.
                if !writer.write(channel, bytes).await {
                    break Ok(SIGPIPE_STATUS);
                }
            }
            Ok(Some(StreamEvent::Exit(exit))) => break Ok(exit.status()),
            Ok(Some(StreamEvent::Reset) | None) => break Err(EngineError::from(ClientError::Closed).into()),
            Ok(Some(_)) => {}
            Err(error) => break Err(EngineError::from(error).into()),
        }
    };
    // Both hold the stream, and a sandbox's guest leaves only when that is closed.
    passing_on.abort();
    if let Some(typing) = typing {
        typing.abort();
    }
    if let Some(Err(error)) = writer.map(Writer::finish) {
        end = Err(Failure::failed("io", format!("cannot write the command's output: {error}")));
    }
    drop(raw);
    end
}

const SIGPIPE_STATUS: Status = 141;
/// The status of a command that SIGKILL has ended, as shells have it.
pub(crate) const KILLED: Status = 137;

/// Says why a command may have been killed. The exit code stays the command's own.
pub(crate) fn warn_of_memory(limit: ByteSize, killed: u64) {
    let processes = if killed == 1 { "a process".to_owned() } else { format!("{killed} processes") };
    output::warning(&format!(
        "the sandbox reached its memory limit of {limit}, and the kernel killed {processes} in it; --memory sets the limit"
    ));
}

fn request(
    layout: &Layout,
    command: &[OsString],
    variables: &[(OsString, OsString)],
    input: Input,
    tty: Tty,
) -> ExecRequest {
    let mut environment: Vec<(Vec<u8>, Vec<u8>)> =
        layout.environment.iter().map(|(name, value)| (name.clone().into(), value.clone().into())).collect();
    if tty == Tty::Yes {
        let kind = std::env::var_os("TERM").unwrap_or_else(|| "xterm-256color".into());
        environment.push((b"TERM".to_vec(), kind.into_vec()));
    }
    environment
        .extend(variables.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())));
    // The last one given wins, and each name is there once.
    let mut env: Vec<(Vec<u8>, Vec<u8>)> = Vec::with_capacity(environment.len());
    for (name, value) in environment {
        env.retain(|(known, _)| *known != name);
        env.push((name, value));
    }
    let join = |(mut name, value): (Vec<u8>, Vec<u8>)| {
        name.push(b'=');
        name.extend(value);
        name
    };
    ExecRequest {
        argv: command.iter().map(|word| word.as_bytes().to_vec()).collect(),
        env: env.into_iter().map(join).collect(),
        cwd: layout.directory.clone().into_bytes(),
        stdin: input == Input::Relayed || tty == Tty::Yes,
        pty: (tty == Tty::Yes).then(terminal::size),
        session: None,
        detached: false,
    }
}

/// Whether a program is there and runs: it is asked for nothing.
pub(crate) fn probe(shell: &str) -> ExecRequest {
    ExecRequest {
        argv: vec![shell.into(), b"-c".to_vec(), b":".to_vec()],
        cwd: b"/".to_vec(),
        ..ExecRequest::default()
    }
}

/// Reads `NAME[=VALUE]`; without a value it is taken from our own environment.
pub(crate) fn variables(given: &[OsString]) -> Result<Vec<(OsString, OsString)>, Failure> {
    given.iter().map(variable).collect()
}

fn variable(word: &OsString) -> Result<(OsString, OsString), Failure> {
    let Assignment { name, value } = assignment(word)?;
    let value = value.or_else(|| std::env::var_os(name.as_str())).ok_or_else(|| {
        Failure::usage(
            format!("the variable {name} is not set here"),
            "export it, or give a value with --env NAME=VALUE",
        )
    })?;
    Ok((name.as_str().into(), value))
}

/// The two sides of `NAME[=VALUE]`.
pub(crate) fn assignment(word: &OsString) -> Result<Assignment, Failure> {
    Assignment::parse(word).map_err(|error| {
        Failure::usage(error.to_string(), "names have letters, digits and '_' and do not start with a digit")
    })
}

/// Tells why a command could not be started, and gives the exit status.
pub(crate) fn refused(program: &str, directory: &str, refusal: &Refusal) -> Status {
    const ENOENT: i32 = 2;
    let reason = match refusal.errno {
        0 => printable_lines(&refusal.text),
        errno => {
            let text = std::io::Error::from_raw_os_error(errno).to_string();
            text.split(" (os error").next().unwrap_or_default().to_owned()
        }
    };
    match refusal.code {
        RefusalCode::Exec if refusal.errno == ENOENT => {
            output::error(&format!("{program}: command not found in the sandbox"), &[], &[], &[]);
            NOT_FOUND
        }
        RefusalCode::Cwd => {
            output::error(&format!("cannot enter {directory} in the sandbox: {reason}"), &[], &[], &[]);
            CANNOT_EXECUTE
        }
        _ => {
            output::error(&format!("{program}: cannot be started in the sandbox: {reason}"), &[], &[], &[]);
            CANNOT_EXECUTE
        }
    }
}

/// Passes our standard input on until its end.
fn relay_input(sender: StreamSender) -> tokio::task::JoinHandle<()> {
    let mut keyboard = Keyboard::listen();
    tokio::spawn(async move {
        while let Some(piece) = keyboard.next().await {
            if sender.send(&piece).await.is_err() {
                return;
            }
        }
        // The command may have ended already.
        let _ = sender.eof().await;
    })
}

/// The signals that are the command's business and not this program's own. To be listened for before anything is made
/// for the command: then none of them ends this program with a sandbox half made, and the command gets them once it
/// runs.
#[derive(Debug)]
pub(crate) struct Signals {
    heard: mpsc::UnboundedReceiver<SignalKind>,
    resized: Option<Signal>,
}

impl Signals {
    pub(crate) fn listen() -> Self {
        const FORWARDED: [SignalKind; 6] = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
            SignalKind::quit(),
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
        ];
        let (hear, heard) = mpsc::unbounded_channel();
        let numbers = FORWARDED.map(|kind| kind.as_raw_value());
        let streams = held_back(&numbers, || FORWARDED.map(|kind| (kind, signal(kind))));
        for (kind, stream) in streams {
            if let Ok(mut stream) = stream {
                let hear = hear.clone();
                tokio::spawn(
                    async move { while stream.recv().await.is_some() && hear.send(kind).is_ok() {} },
                );
            }
        }
        Self { heard, resized: signal(SignalKind::window_change()).ok() }
    }

    /// The next signal, a change of the terminal's size among them.
    pub(crate) async fn next(&mut self) -> SignalKind {
        let resized = async {
            match &mut self.resized {
                Some(resized) => resized.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(kind) = self.heard.recv() => kind,
            _ = resized => SignalKind::window_change(),
        }
    }
}

/// How long a sandbox may take to take a signal: the user wants to leave.
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(3);

/// A sandbox did not answer after this signal: it is stopped, paused or overloaded. Without a signal, the connection
/// itself ends after a while, see [`palisade_protocol::client::SignsOfLife`].
#[derive(Debug)]
struct Silence(SignalKind);

impl Silence {
    fn end(self) -> Status {
        output::warning("the sandbox does not answer; the command in it may still be running");
        128 + self.0.as_raw_value() as Status
    }
}

type Answer = Result<Option<StreamEvent>, ClientError>;

/// The first answer to a command that was asked for, and the signals that came before it.
async fn first_answer(
    receiver: &mut StreamReceiver,
    signals: &mut Signals,
) -> Result<(Answer, Vec<SignalKind>), Silence> {
    let mut leaving: Option<(SignalKind, Instant)> = None;
    let mut early = Vec::new();
    loop {
        let overdue = async {
            match leaving {
                Some((kind, deadline)) => {
                    tokio::time::sleep_until(deadline).await;
                    Silence(kind)
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            answer = receiver.next() => return Ok((answer, early)),
            kind = signals.next() => {
                if kind != SignalKind::window_change() {
                    leaving.get_or_insert((kind, Instant::now() + SIGNAL_TIMEOUT));
                }
                early.push(kind);
            }
            silence = overdue => return Err(silence),
        }
    }
}

/// Passes signals on to a command. Returns when its sandbox does not answer one.
async fn pass_on(
    client: Client,
    mut signals: Signals,
    early: Vec<SignalKind>,
    sender: StreamSender,
    tty: Tty,
) -> Silence {
    let mut early = early.into_iter();
    loop {
        let kind = match early.next() {
            Some(kind) => kind,
            None => signals.next().await,
        };
        if kind == SignalKind::window_change() {
            if tty == Tty::Yes {
                // The command may have ended; its receiver learns it.
                let _ = sender.resize(terminal::size()).await;
            }
            continue;
        }
        let signalled = async {
            let _ = sender.signal(kind.as_raw_value() as u8).await;
            client.sign_of_life().await;
        };
        if tokio::time::timeout(SIGNAL_TIMEOUT, signalled).await.is_err() {
            return Silence(kind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_have_a_name_and_perhaps_a_value() {
        assert_eq!(variable(&"A=b=c".into()).unwrap(), ("A".into(), "b=c".into()));
        assert_eq!(variable(&"A=".into()).unwrap(), ("A".into(), "".into()));
        for bad in ["", "=x", "1A=x", "A B=x", "A-B", "LD_PRELOAD\n=x"] {
            assert!(variable(&bad.into()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_given_variable_replaces_the_sandboxs_own() {
        let layout = Layout {
            workspace: "/workspace".into(),
            directory: "/workspace/app".into(),
            home: "/home/agent".into(),
            user: "agent".into(),
            guest: "/.palisade/guest".into(),
            objects: None,
            environment: vec![("HOME".into(), "/home/agent".into()), ("PATH".into(), "/bin".into())],
        };
        let request =
            request(&layout, &["x".into()], &[("HOME".into(), "/tmp".into())], Input::Empty, Tty::No);
        assert_eq!(request.env, [b"PATH=/bin".to_vec(), b"HOME=/tmp".to_vec()]);
        assert_eq!(request.cwd, b"/workspace/app");
    }
}
