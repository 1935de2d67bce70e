//! What takes the place of `ssh` for host git: a pack program inside the sandbox, and bytes both ways. The other side is
//! a stranger, so how much it may send and how long it may stay silent have limits, and its words for people are tamed.

use palisade_core::printable;
use palisade_protocol::client::{Client, ClientError, StreamEvent, StreamReceiver, StreamSender};
use palisade_protocol::{Channel, ExecRequest, Exit, Open};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The pack programs, as git asks for them over ssh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    UploadPack,
    ReceivePack,
}

impl Service {
    /// Reads `git-upload-pack '<directory>'`. The directory is not read from there: the caller knows it.
    pub fn parse(command: &str) -> Option<Self> {
        match command.split_once(' ')?.0 {
            "git-upload-pack" => Some(Service::UploadPack),
            "git-receive-pack" => Some(Service::ReceivePack),
            _ => None,
        }
    }

    pub fn argv(self, directory: &str) -> Vec<Vec<u8>> {
        let program = match self {
            Service::UploadPack => "upload-pack",
            Service::ReceivePack => "receive-pack",
        };
        ["git", program, "--", directory].map(|word| word.as_bytes().to_vec()).into()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes that the sandbox may send.
    pub bytes: u64,
    /// How long nothing may pass in either direction.
    pub silence: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    #[error("the sandbox has no git to answer with: {0}")]
    Refused(String),
    #[error(
        "the sandbox sent more than the {0} bytes that are allowed; raise agent.max_fetch if that is right"
    )]
    TooMuch(u64),
    #[error("git asked for something else than it was started for")]
    Unexpected,
    #[error("nothing came or went for {} s", .0.as_secs_f32().ceil())]
    Silent(Duration),
    #[error("the connection to the sandbox: {0}")]
    Connection(#[from] ClientError),
    #[error("the pipe to git: {0}")]
    Pipe(#[from] std::io::Error),
}

/// A pack program that runs inside, before anybody has spoken with it.
#[derive(Debug)]
pub(crate) struct Pack {
    sender: StreamSender,
    receiver: StreamReceiver,
}

impl Pack {
    pub(crate) async fn begin(
        client: &Client,
        request: ExecRequest,
        limits: Limits,
    ) -> Result<Self, TransportError> {
        let open = Open::Exec(ExecRequest { stdin: true, ..request });
        let (sender, mut receiver) = client.open(open).await?;
        let answer = tokio::time::timeout(limits.silence, receiver.next()).await;
        match answer.map_err(|_| TransportError::Silent(limits.silence))?? {
            Some(StreamEvent::Accepted) => Ok(Self { sender, receiver }),
            Some(StreamEvent::Refused(refusal)) => Err(TransportError::Refused(printable(&refusal.text))),
            _ => Err(ClientError::Closed.into()),
        }
    }

    /// Lets git and the program speak to the end. `words` is told what the latter says for people, tamed.
    pub(crate) async fn relay(
        self,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin,
        limits: Limits,
        words: impl FnMut(&str),
    ) -> Result<Exit, TransportError> {
        let Self { sender, receiver } = self;
        let moved = tokio::sync::Notify::new();
        let watch = async {
            while tokio::time::timeout(limits.silence, moved.notified()).await.is_ok() {}
            Err(TransportError::Silent(limits.silence))
        };
        tokio::select! {
            exit = both_ways(sender, receiver, input, output, limits.bytes, &moved, words) => exit,
            silent = watch => silent,
        }
    }
}

async fn both_ways(
    sender: StreamSender,
    mut receiver: StreamReceiver,
    mut input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
    most: u64,
    moved: &tokio::sync::Notify,
    mut words: impl FnMut(&str),
) -> Result<Exit, TransportError> {
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
        // Only the other way ends the exchange.
        std::future::pending::<Result<Exit, TransportError>>().await
    };
    let outward = async {
        let mut left = most;
        loop {
            match receiver.next().await? {
                Some(StreamEvent::Data { channel: Channel::Main, bytes }) => {
                    left = left.checked_sub(bytes.len() as u64).ok_or(TransportError::TooMuch(most))?;
                    output.write_all(&bytes).await?;
                }
                Some(StreamEvent::Data { channel: Channel::Error, bytes }) => {
                    left = left.checked_sub(bytes.len() as u64).ok_or(TransportError::TooMuch(most))?;
                    words(&printable(&String::from_utf8_lossy(&bytes)));
                }
                Some(StreamEvent::Exit(exit)) => return Ok(exit),
                Some(StreamEvent::Reset) | None => return Err(ClientError::Closed.into()),
                Some(_) => {}
            }
            moved.notify_one();
        }
    };
    tokio::select! {
        // The pack program may end, or refuse more, while git still sends: its exit says what happened.
        biased;
        exit = outward => exit,
        ended = inward => ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_two_pack_programs_are_known() {
        assert_eq!(Service::parse("git-upload-pack '/workspace'"), Some(Service::UploadPack));
        assert_eq!(Service::parse("git-receive-pack '/a b'"), Some(Service::ReceivePack));
        for other in ["git-upload-archive '/workspace'", "sh -c x", "", "git-upload-pack"] {
            assert_eq!(Service::parse(other), None, "{other}");
        }
    }
}
