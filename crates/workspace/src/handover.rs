//! Git starts a program in the place of `ssh`. All that ours does is to hand its pipes to whoever started git, over a
//! socket that both have inherited, and to wait for the end. So the sandbox is spoken with by the one process that has
//! a connection to it and knows the limits, and nobody else can ask for it: the socket has no name.

use crate::transport::{Limits, Pack, Service, TransportError};
use palisade_protocol::client::Client;
use palisade_protocol::{ExecRequest, Exit};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{Error, ErrorKind, IoSlice, IoSliceMut, Result};
use std::mem::MaybeUninit;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::net::unix::pipe::{Receiver, Sender};

/// Says which descriptor of the transport is the socket.
const VARIABLE: &str = "PALISADE_GIT_TRANSPORT";
/// What a transport gives away: the pipes from git and to git, and a socket for the answer.
const GIVEN: usize = 3;
/// More than any message has: git's command, or an exit status and the last words.
const MESSAGE: usize = 8192;
/// As much of what a sandbox says as is kept for an error.
const SAID: usize = 4096;

/// Where the transports of a git that we start hand their pipes over.
#[derive(Debug)]
pub struct Handover {
    /// Keeps messages whole, which its type does not say; it is only ever asked when it is ready.
    ours: UnixStream,
}

/// The transport's end, for the git that is to have it and no other.
#[derive(Debug)]
pub struct Inherited {
    pub(crate) socket: OwnedFd,
    pub(crate) variable: (OsString, OsString),
}

/// What a transport asks for.
struct Asked {
    command: String,
    input: Receiver,
    output: Sender,
    /// Its own, so that no other transport hears what it is told, and that it hears when we are gone.
    answer: OwnedFd,
}

/// What a sandbox says for people, as much of it as is kept.
#[derive(Debug, Default)]
struct Said(String);

impl Said {
    fn hear(&mut self, text: &str) {
        let left = SAID.saturating_sub(self.0.len());
        if left > 0 {
            self.0 += &format!("sandbox: {}\n", &text[..text.floor_char_boundary(left)]);
        }
    }

    /// Our own words come first: a sandbox has no say in what is left of them.
    fn answer(&self, status: u8, ours: String) -> Vec<u8> {
        let mut words = ours + &self.0;
        words.truncate(words.floor_char_boundary(MESSAGE - 1));
        [&[status], words.as_bytes()].concat()
    }
}

impl Handover {
    /// Our end, and what git is to inherit, and its transport through it.
    pub fn new() -> Result<(Self, Inherited)> {
        let (ours, socket) = pair()?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        let number = socket.as_raw_fd().to_string();
        let theirs = Inherited { socket, variable: (VARIABLE.into(), number.into()) };
        Ok((Self { ours: UnixStream::from_std(ours.into())? }, theirs))
    }

    /// Speaks with the sandbox for every transport, until it is dropped. The pack program is started before git has
    /// found its words: it is known what they will be.
    pub async fn serve(
        self,
        client: &Client,
        service: Service,
        request: ExecRequest,
        limits: Limits,
    ) -> Infallible {
        let mut begun = Some(Pack::begin(client, request.clone(), limits).await);
        loop {
            let asked = match self.asked().await {
                Ok(asked) => asked,
                Err(error) => {
                    tracing::warn!(%error, "git's transport cannot be heard");
                    // Then it hears so, and git ends by itself, with its locks put away.
                    drop(self);
                    return std::future::pending().await;
                }
            };
            let pack = match begun.take() {
                Some(pack) => pack,
                None => Pack::begin(client, request.clone(), limits).await,
            };
            let mut said = Said::default();
            let exit = match pack {
                Ok(_) if Service::parse(&asked.command) != Some(service) => Err(TransportError::Unexpected),
                Ok(pack) => pack.relay(asked.input, asked.output, limits, |text| said.hear(text)).await,
                Err(error) => Err(error),
            };
            let answer = match exit {
                Ok(exit) => said.answer(exit.status(), String::new()),
                Err(error) => said.answer(Exit::Code(1).status(), format!("error: {error}\n")),
            };
            // It fits into an empty socket at once. Whoever is gone needs no answer.
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            if let Err(error) = rustix::net::send(&asked.answer, &answer, flags) {
                tracing::debug!(%error, "git's transport is gone");
            }
        }
    }

    async fn asked(&self) -> Result<Asked> {
        let receive = || Ok(receive(self.ours.as_fd())?);
        let (command, given) = self.ours.async_io(Interest::READABLE, receive).await?;
        let [input, output, answer] = <[OwnedFd; GIVEN]>::try_from(given)
            .map_err(|_| Error::new(ErrorKind::InvalidData, "a transport without pipes"))?;
        Ok(Asked {
            command: String::from_utf8_lossy(&command).into_owned(),
            input: Receiver::from_owned_fd(input)?,
            output: Sender::from_owned_fd(output)?,
            answer,
        })
    }
}

fn receive(socket: BorrowedFd<'_>) -> rustix::io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(GIVEN))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut message = vec![0; MESSAGE];
    let parts = &mut [IoSliceMut::new(&mut message)];
    let received = rustix::net::recvmsg(socket, parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    message.truncate(received.bytes);
    let mut descriptors = Vec::new();
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = part {
            descriptors.extend(received);
        }
    }
    Ok((message, descriptors))
}

/// The transport's side: gives its standard input and output away, with what git has asked for. The exit status, and
/// what there is to say, once all is done.
pub fn hand_over(command: &str) -> Result<(u8, String)> {
    let missing = || Error::new(ErrorKind::NotFound, "only git that palisade has started may start this");
    let socket = std::env::var(VARIABLE).ok().and_then(|number| number.parse().ok());
    let socket = palisade_host::descriptors::inherited(socket.ok_or_else(missing)?)?;
    ask(&socket, command, [rustix::stdio::stdin(), rustix::stdio::stdout()])
}

fn ask(socket: &OwnedFd, command: &str, pipes: [BorrowedFd<'_>; 2]) -> Result<(u8, String)> {
    let (ours, theirs) = pair()?;
    let given: [BorrowedFd<'_>; GIVEN] = [pipes[0], pipes[1], theirs.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(GIVEN))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&given)) {
        return Err(Error::other("three descriptors do not fit into a message"));
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(command.as_bytes())], &mut ancillary, SendFlags::NOSIGNAL)?;
    drop(theirs);
    let mut answer = vec![0; MESSAGE];
    let count = rustix::io::retry_on_intr(|| rustix::io::read(&ours, &mut answer))?;
    match answer.get(..count).and_then(<[u8]>::split_first) {
        Some((status, said)) => Ok((*status, String::from_utf8_lossy(said).into_owned())),
        None => Err(Error::new(ErrorKind::UnexpectedEof, "palisade is gone")),
    }
}

/// Two ends that keep messages whole.
fn pair() -> Result<(OwnedFd, OwnedFd)> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    Ok(rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// As a transport that git has started, with pipes as git makes them.
    fn asking(
        theirs: &Inherited,
        command: &'static str,
    ) -> (std::thread::JoinHandle<Result<(u8, String)>>, Pipes) {
        let (input, to_sandbox) = std::io::pipe().unwrap();
        let (from_sandbox, output) = std::io::pipe().unwrap();
        let socket = theirs.socket.try_clone().unwrap();
        let asking = std::thread::spawn(move || ask(&socket, command, [input.as_fd(), output.as_fd()]));
        (asking, Pipes { to_sandbox, from_sandbox })
    }

    /// Git's ends.
    struct Pipes {
        to_sandbox: std::io::PipeWriter,
        from_sandbox: std::io::PipeReader,
    }

    #[tokio::test]
    async fn a_transport_hands_over_its_pipes_and_hears_its_own_end() {
        let (handover, theirs) = Handover::new().unwrap();
        for status in [0, 7] {
            let (transport, mut git) = asking(&theirs, "git-upload-pack '/workspace'");
            let mut asked = handover.asked().await.unwrap();
            assert_eq!(Service::parse(&asked.command), Some(Service::UploadPack));
            git.to_sandbox.write_all(b"want").unwrap();
            let mut wanted = [0; 4];
            tokio::io::AsyncReadExt::read_exact(&mut asked.input, &mut wanted).await.unwrap();
            assert_eq!(&wanted, b"want");
            tokio::io::AsyncWriteExt::write_all(&mut asked.output, b"pack").await.unwrap();
            rustix::net::send(&asked.answer, &[status, b'!'], SendFlags::NOSIGNAL).unwrap();
            assert_eq!(transport.join().unwrap().unwrap(), (status, "!".to_owned()));
            drop(asked);
            let mut packed = Vec::new();
            git.from_sandbox.read_to_end(&mut packed).unwrap();
            assert_eq!(packed, b"pack");
        }
    }

    #[tokio::test]
    async fn a_transport_ends_when_nobody_is_left_to_answer() {
        let (handover, theirs) = Handover::new().unwrap();
        let (transport, _git) = asking(&theirs, "git-upload-pack '/workspace'");
        drop(handover.asked().await.unwrap());
        assert_eq!(transport.join().unwrap().unwrap_err().kind(), ErrorKind::UnexpectedEof);
        // Also when nobody has heard the question, or is there to be asked.
        let (transport, _git) = asking(&theirs, "git-upload-pack '/workspace'");
        drop(handover);
        let error = transport.join().unwrap().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe), "{error:?}");
    }

    #[tokio::test]
    async fn a_message_without_pipes_is_refused() {
        let (handover, theirs) = Handover::new().unwrap();
        rustix::net::send(&theirs.socket, b"git-upload-pack '/workspace'", SendFlags::NOSIGNAL).unwrap();
        assert_eq!(handover.asked().await.err().unwrap().kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn a_talkative_sandbox_leaves_room_for_what_we_have_to_say() {
        let mut said = Said::default();
        assert_eq!(said.answer(3, String::new()), [3]);
        for _ in 0..3 {
            said.hear(&"\u{e9}".repeat(SAID));
        }
        let answer = said.answer(1, "error: too much\n".into());
        assert!(answer.starts_with(b"\x01error: too much\nsandbox: \xc3\xa9"));
        assert!((SAID..MESSAGE).contains(&answer.len()), "{}", answer.len());
    }

    #[test]
    fn nobody_else_may_start_a_transport() {
        assert_eq!(hand_over("git-upload-pack '/workspace'").unwrap_err().kind(), ErrorKind::NotFound);
    }
}
