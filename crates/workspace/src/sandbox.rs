//! The repository inside a sandbox, as the host speaks with it: commands that run there, and packs of objects.
//!
//! Everything that comes back is a claim of a stranger. Names and ids are checked for what they may be, amounts and
//! silence have limits, and nothing here relies on an answer being true.

use crate::survey::Survey;
use palisade_core::{BoxFuture, printable_lines};
use palisade_protocol::client::{Client, ClientError, StreamEvent, StreamReceiver, StreamSender};
use palisade_protocol::{Channel, ExecRequest, Exit, Open};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// More than any answer but a pack needs.
const MAX_ANSWER: u64 = 128 << 20;
/// How long the sandbox may take for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);
/// And for the list of its commits, which git has at hand: a command that has ended waits for it.
const COMMITS_TIMEOUT: Duration = Duration::from_secs(30);
/// How much is kept of what a command says on its standard error.
const MAX_MESSAGE: usize = 4096;

/// How much a sandbox may send, and how long a transfer may take.
#[derive(Debug, Clone, Copy)]
pub struct TransferLimits {
    pub bytes: u64,
    /// How long nothing may pass in either direction.
    pub silence: Duration,
    /// The longest that one transfer may take in all.
    pub time: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error("the command could not be started in the sandbox: {0}")]
    Refused(String),
    #[error(
        "the sandbox sent more than the {0} bytes that are allowed; raise agent.max_fetch if that is right"
    )]
    TooMuch(u64),
    #[error("nothing came or went for {} s", .0.as_secs_f32().ceil())]
    Silent(Duration),
    #[error("it took longer than {} s", .0.as_secs())]
    Slow(Duration),
    #[error("the connection to the sandbox: {0}")]
    Connection(#[from] ClientError),
    #[error("the pipe to git: {0}")]
    Pipe(#[from] std::io::Error),
}

/// How a command in the sandbox ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandEnd {
    pub exit: Exit,
    /// The beginning of what it said on its standard error.
    pub message: String,
}

/// Runs commands in a sandbox.
pub trait CommandRunner: Send + Sync {
    /// Runs a command to its end while bytes pass in both directions.
    fn run<'a>(
        &'a self,
        request: ExecRequest,
        input: &'a mut (dyn AsyncRead + Send + Unpin),
        output: &'a mut (dyn AsyncWrite + Send + Unpin),
        limits: TransferLimits,
    ) -> BoxFuture<'a, Result<CommandEnd, TransferError>>;
}

impl CommandRunner for Client {
    fn run<'a>(
        &'a self,
        request: ExecRequest,
        input: &'a mut (dyn AsyncRead + Send + Unpin),
        output: &'a mut (dyn AsyncWrite + Send + Unpin),
        limits: TransferLimits,
    ) -> BoxFuture<'a, Result<CommandEnd, TransferError>> {
        Box::pin(async move {
            let open = Open::Exec(ExecRequest { stdin: true, ..request });
            let (sender, receiver) = self.open(open).await?;
            let moved = tokio::sync::Notify::new();
            let watch = async {
                while tokio::time::timeout(limits.silence, moved.notified()).await.is_ok() {}
                Err(TransferError::Silent(limits.silence))
            };
            let relay = async {
                tokio::select! {
                    end = relay(sender, receiver, input, output, limits.bytes, &moved) => end,
                    silent = watch => silent,
                }
            };
            match tokio::time::timeout(limits.time, relay).await {
                Ok(end) => end,
                Err(_) => Err(TransferError::Slow(limits.time)),
            }
        })
    }
}

async fn relay(
    sender: StreamSender,
    mut receiver: StreamReceiver,
    input: &mut (dyn AsyncRead + Send + Unpin),
    output: &mut (dyn AsyncWrite + Send + Unpin),
    most: u64,
    moved: &tokio::sync::Notify,
) -> Result<CommandEnd, TransferError> {
    let inward = async {
        let mut buffer = vec![0u8; 64 * 1024];
        loop {
            match input.read(&mut buffer).await? {
                0 => break,
                count => sender.send(&buffer[..count]).await?,
            }
            moved.notify_one();
        }
        sender.eof().await?;
        // Only the command's end is the end of the exchange.
        std::future::pending::<Result<CommandEnd, TransferError>>().await
    };
    let outward = async {
        let mut left = most;
        let mut message = Vec::new();
        loop {
            match receiver.next().await? {
                Some(StreamEvent::Data { channel, bytes }) => {
                    left = left.checked_sub(bytes.len() as u64).ok_or(TransferError::TooMuch(most))?;
                    match channel {
                        Channel::Main => output.write_all(&bytes).await?,
                        Channel::Error => {
                            let room = MAX_MESSAGE - message.len();
                            message.extend_from_slice(&bytes[..bytes.len().min(room)]);
                        }
                    }
                }
                Some(StreamEvent::Exit(exit)) => {
                    output.shutdown().await?;
                    let message = String::from_utf8_lossy(&message).into_owned();
                    return Ok(CommandEnd { exit, message });
                }
                Some(StreamEvent::Refused(refusal)) => {
                    return Err(TransferError::Refused(printable_lines(&refusal.text)));
                }
                Some(StreamEvent::Reset) | None => return Err(ClientError::Closed.into()),
                Some(_) => {}
            }
            moved.notify_one();
        }
    };
    tokio::select! {
        // The command may end, or refuse more, while there is still input: its exit says what happened.
        biased;
        end = outward => end,
        ended = inward => ended,
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("{what} in the sandbox: {source}")]
    NotRun { what: &'static str, source: TransferError },
    #[error("{what} in the sandbox failed: {message}")]
    Failed { what: &'static str, message: String },
    #[error("the sandbox has more than {most} {what}")]
    TooMany { what: &'static str, most: usize },
    #[error("{what} in the sandbox failed: it was started by an earlier version of palisade")]
    OldGuest { what: &'static str },
    #[error("{what} in the sandbox gave an answer that makes no sense")]
    Answer { what: &'static str },
}

impl SandboxError {
    /// Whether the sandbox did not answer in time.
    pub fn is_timeout(&self) -> bool {
        let timeout = |source: &TransferError| {
            matches!(
                source,
                TransferError::Silent(_)
                    | TransferError::Slow(_)
                    | TransferError::Connection(ClientError::Silent { .. })
            )
        };
        matches!(self, Self::NotRun { source, .. } if timeout(source))
    }
}

/// The repository at one directory of a sandbox.
pub struct SandboxRepository<'a> {
    commands: &'a dyn CommandRunner,
    environment: Vec<Vec<u8>>,
    guest: String,
    directory: String,
    limits: TransferLimits,
}

impl std::fmt::Debug for SandboxRepository<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SandboxRepository").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl<'a> SandboxRepository<'a> {
    /// `environment` is the sandbox's own, `NAME=value` each; `guest` is the path of our program inside.
    pub fn new(
        commands: &'a dyn CommandRunner,
        environment: Vec<Vec<u8>>,
        guest: impl Into<String>,
        directory: impl Into<String>,
        limits: TransferLimits,
    ) -> Self {
        Self { commands, environment, guest: guest.into(), directory: directory.into(), limits }
    }

    pub fn directory(&self) -> &str {
        &self.directory
    }

    /// How much the sandbox may send, and how long that may take.
    pub(crate) fn limits(&self) -> TransferLimits {
        self.limits
    }

    /// Another repository of the same sandbox.
    #[must_use]
    pub fn at(&self, directory: impl Into<String>) -> SandboxRepository<'a> {
        let (environment, guest) = (self.environment.clone(), self.guest.clone());
        Self { environment, guest, directory: directory.into(), ..*self }
    }

    /// Records what is not committed in any working tree, and lists everything that the repositories hold.
    /// `None` when there is no repository.
    pub async fn survey(&self) -> Result<Option<Survey>, SandboxError> {
        const WHAT: &str = "looking at the work";
        let answer = self.ask(WHAT, &["survey", &self.directory], b"").await?;
        if Survey::is_none(&answer) {
            return Ok(None);
        }
        Survey::parse(&answer, &self.directory).ok_or(SandboxError::Answer { what: WHAT })?.map(Some)
    }

    /// Lists the commits that the repository here holds, and nothing of files. `None` when there is no repository.
    pub async fn commits(&self) -> Result<Option<Survey>, SandboxError> {
        const WHAT: &str = "looking at the commits";
        let argv = [self.guest.as_str(), "repository", "commits", &self.directory].into_iter();
        let answer = self.collect(WHAT, self.request(argv), b"", COMMITS_TIMEOUT).await?;
        if Survey::is_none(&answer) {
            return Ok(None);
        }
        Survey::parse(&answer, &self.directory).ok_or(SandboxError::Answer { what: WHAT })?.map(Some)
    }

    /// How many files git ignores in all working trees, and how large they are.
    pub async fn ignored_size(&self) -> Result<(u64, u64), SandboxError> {
        const WHAT: &str = "counting what git ignores";
        let answer = self.ask(WHAT, &["ignored", &self.directory], b"").await?;
        let text = String::from_utf8_lossy(&answer);
        let mut words = text.split('\0').map(str::parse);
        match (words.next(), words.next()) {
            (Some(Ok(count)), Some(Ok(bytes))) => Ok((count, bytes)),
            _ => Err(SandboxError::Answer { what: WHAT }),
        }
    }

    /// Repositories at or below the directory with commits that none of their remotes had: their paths in the sandbox.
    pub async fn unpublished(&self) -> Result<Vec<String>, SandboxError> {
        let answer = self.ask("looking for repositories", &["unpublished", &self.directory], b"").await?;
        let paths = answer.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        Ok(paths.map(|path| String::from_utf8_lossy(path).into_owned()).collect())
    }

    /// What one of the guest's own commands answers.
    pub(crate) async fn ask(
        &self,
        what: &'static str,
        words: &[&str],
        input: &[u8],
    ) -> Result<Vec<u8>, SandboxError> {
        let argv = [self.guest.as_str(), "repository"].into_iter().chain(words.iter().copied());
        self.collect(what, self.request(argv), input, ANSWER_TIMEOUT).await
    }

    /// What a command of the sandbox's own prints.
    pub(crate) async fn command<'w>(
        &self,
        what: &'static str,
        words: impl Iterator<Item = &'w str>,
    ) -> Result<Vec<u8>, SandboxError> {
        self.collect(what, self.request(words), b"", COMMITS_TIMEOUT).await
    }

    async fn collect(
        &self,
        what: &'static str,
        request: ExecRequest,
        mut input: &[u8],
        time: Duration,
    ) -> Result<Vec<u8>, SandboxError> {
        // Git may be silent for long while it looks at a large working tree.
        let time = self.limits.time.min(time);
        let limits = TransferLimits { bytes: MAX_ANSWER, silence: time, time };
        let mut output = Vec::new();
        let end = self.commands.run(request, &mut input, &mut output, limits).await;
        succeeded(what, end)?;
        Ok(output)
    }

    /// Gives the repository a pack of objects; one is made when there is none. `shared` is a directory inside that has
    /// objects, too.
    pub(crate) async fn receive(
        &self,
        format: &str,
        shared: Option<&str>,
        pack: &mut (dyn AsyncRead + Send + Unpin),
    ) -> Result<(), SandboxError> {
        let words = [self.guest.as_str(), "repository", "receive", &self.directory, format];
        let words = words.into_iter().chain(shared);
        // The host sends as much as its repository has.
        let limits = TransferLimits { bytes: MAX_ANSWER, ..self.limits };
        let request = self.request(words);
        succeeded(
            "unpacking the code",
            self.commands.run(request, pack, &mut tokio::io::sink(), limits).await,
        )
    }

    /// Runs one of the guest's commands that pass files of Git LFS.
    pub(crate) async fn large_files(
        &self,
        command: &str,
        input: &mut (dyn AsyncRead + Send + Unpin),
        output: &mut (dyn AsyncWrite + Send + Unpin),
    ) -> Result<(), SandboxError> {
        let words = [self.guest.as_str(), "repository", command, &self.directory];
        let request = self.request(words.into_iter());
        succeeded("passing large files", self.commands.run(request, input, output, self.limits).await)
    }

    /// Runs git in the repository while bytes pass in both directions.
    pub(crate) async fn git(
        &self,
        what: &'static str,
        arguments: &[&str],
        input: &mut (dyn AsyncRead + Send + Unpin),
        output: &mut (dyn AsyncWrite + Send + Unpin),
    ) -> Result<(), SandboxError> {
        let request = self.request(["git"].into_iter().chain(arguments.iter().copied()));
        succeeded(what, self.commands.run(request, input, output, self.limits).await)
    }

    fn request<'w>(&self, words: impl Iterator<Item = &'w str>) -> ExecRequest {
        ExecRequest {
            argv: words.map(|word| word.as_bytes().to_vec()).collect(),
            env: self.environment.clone(),
            cwd: self.directory.clone().into_bytes(),
            ..ExecRequest::default()
        }
    }
}

fn succeeded(what: &'static str, end: Result<CommandEnd, TransferError>) -> Result<(), SandboxError> {
    match end.map_err(|source| SandboxError::NotRun { what, source })? {
        CommandEnd { exit: Exit::Code(0), .. } => Ok(()),
        // As every version of the guest refuses words that it does not know.
        CommandEnd { exit: Exit::Code(2), message } if message.starts_with("palisade-guest: ") => {
            Err(SandboxError::OldGuest { what })
        }
        CommandEnd { message, .. } => Err(SandboxError::Failed { what, message: printable_lines(&message) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_does_not_know_a_command_is_told_from_one_that_failed() {
        let end = |code, message: &str| {
            succeeded("x", Ok(CommandEnd { exit: Exit::Code(code), message: message.into() }))
        };
        assert!(end(0, "").is_ok());
        let unknown = end(2, "palisade-guest: unexpected argument 'repository'\n");
        assert!(matches!(unknown, Err(SandboxError::OldGuest { .. })), "{unknown:?}");
        for (code, message) in [(1, "palisade-guest: x"), (2, "fatal: palisade-guest: x"), (2, "")] {
            assert!(matches!(end(code, message), Err(SandboxError::Failed { .. })), "{message}");
        }
    }
}
