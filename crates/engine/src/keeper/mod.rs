//! The keeper: owns the one byte stream to a guest and shares it among the clients at a host-only socket.
//!
//! It passes frames on and checks them on the way; it understands only what is meant for itself. Neither a hostile
//! guest nor a broken client can grow its memory, and a broken client costs nobody but itself.
//!
//! A keeper's life: [`Keeper::handshake`] with the guest, [`Keeper::serve`] until there is a reason to end, then
//! [`Closing`]: while the guest is being shut down, clients still get their last output.

mod connection;
pub(crate) mod pulse;
mod route;
mod router;
pub mod socket;
#[cfg(test)]
mod tests;

use palisade_core::{BoxFuture, Stream};
use palisade_protocol::client::{ClientError, Door, handshake};
use palisade_protocol::frame::MAX_FROM_GUEST;
use palisade_protocol::{Decoder, Kind, Open, Refusal, Violation, Welcome};
pub use pulse::Pulse;
use router::Router;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf};
use tokio::net::UnixListener;

/// How long a guest may take beyond the grace it was given, and clients to take their last frames.
const MARGIN: Duration = Duration::from_secs(1);
/// How long to wait when no connection can be accepted, for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub struct KeeperConfig {
    /// From [`socket::bind`].
    pub listener: UnixListener,
    /// What [`KeeperVerb::Status`](palisade_protocol::KeeperVerb::Status) answers.
    pub status_json: Arc<dyn Fn() -> String + Send + Sync>,
    /// Only this user, and root, may connect.
    pub allowed_uid: u32,
    /// Resolves when the process is told to end, see [`terminate_signal`].
    pub terminate: BoxFuture<'static, ()>,
    /// Answers the streams that the guest asks for; without it they are refused.
    pub door: Option<Door>,
    /// Called with the name of a session that has just started, before its client knows. It must not wait.
    pub session_started: Arc<dyn Fn(&str) + Send + Sync>,
    /// Told of what passes.
    pub pulse: Arc<Pulse>,
}

impl std::fmt::Debug for KeeperConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeeperConfig").field("allowed_uid", &self.allowed_uid).finish_non_exhaustive()
    }
}

/// Why a keeper ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeeperEnd {
    /// A client asked for it.
    StopAsked { grace_ms: u32 },
    /// The guest has left, for this reason.
    GuestGone(String),
    /// The guest broke the protocol.
    Violation(Violation),
    /// The process was told to end.
    TerminateSignal,
}

impl KeeperEnd {
    /// As it is called where it is told to programs.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::StopAsked { .. } => "stop-asked",
            Self::GuestGone(_) => "guest-gone",
            Self::Violation(_) => "violation",
            Self::TerminateSignal => "terminate-signal",
        }
    }
}

/// A guest that has answered.
pub struct Keeper {
    guest: Stream,
    decoder: Decoder,
    welcome: Welcome,
    /// How many streams were asked for before serving.
    asked: u32,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("welcome", &self.welcome).finish_non_exhaustive()
    }
}

impl Keeper {
    /// Says hello to a guest that was just started. The caller sets the deadline.
    pub async fn handshake(mut guest: Stream) -> Result<Self, ClientError> {
        let mut decoder = Decoder::new(MAX_FROM_GUEST);
        let welcome = handshake::fresh(&mut guest, &mut decoder).await?;
        Ok(Self { guest, decoder, welcome, asked: 0 })
    }

    /// Says hello to a guest that another keeper may have left in the middle of a frame. The caller sets the
    /// deadline.
    pub async fn adopt(mut guest: Stream) -> Result<Self, ClientError> {
        let mut decoder = Decoder::new(MAX_FROM_GUEST);
        let welcome = handshake::resync(&mut guest, &mut decoder).await?;
        Ok(Self { guest, decoder, welcome, asked: 0 })
    }

    /// What the guest said of itself.
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Asks for something that is over as soon as it is answered, before anybody else is served. The caller sets the
    /// deadline.
    pub async fn ask(&mut self, open: &Open) -> Result<Result<(), Refusal>, ClientError> {
        let stream = 2 * self.asked + 1;
        self.asked += 1;
        let mut request = Vec::new();
        open.frame(stream).encode(&mut request);
        self.guest.write_all(&request).await?;
        self.guest.flush().await?;
        loop {
            while let Some(frame) = self.decoder.next_ref()? {
                match (frame.kind, frame.stream == stream) {
                    (Kind::Accepted, true) => {}
                    (Kind::Exit, true) => return Ok(Ok(())),
                    (Kind::Refused, true) => return Ok(Err(Refusal::decode(frame.payload)?)),
                    _ => return Err(Violation::Unexpected(frame.kind.name()).into()),
                }
            }
            if self.guest.read_buf(self.decoder.spare()).await? == 0 {
                return Err(ClientError::Closed);
            }
        }
    }

    /// Serves clients until there is a reason to end. From then on no new client is taken; those that are there
    /// stay until the [`Closing`] is done. With the same configuration, another guest's connection may be served after it.
    pub async fn serve(self, config: &mut KeeperConfig) -> (KeeperEnd, Closing) {
        let router = Arc::new(Router::new(config, self.asked));
        // Cuts everybody off even if this future is dropped half-way.
        let closing = Closing { router: Arc::clone(&router) };
        let (reader, writer) = tokio::io::split(self.guest);
        let writing = Arc::clone(&router);
        tokio::spawn(async move {
            // A failed write is not the end yet: what the guest said before it left is still to be read.
            let _ = writing.to_guest.drain(writer).await;
        });
        tokio::spawn(read_guest(Arc::clone(&router), reader, self.decoder));
        (until_end(&router, config, &self.welcome.build).await, closing)
    }
}

/// Serves clients while there is no connection to the guest: they are told why, and may ask for the status and for a
/// stop. Whether a stop can be had is for the caller to find out, see [`Closing::refuse_stop`].
pub async fn serve_without_guest(config: &mut KeeperConfig, reason: &str) -> (KeeperEnd, Closing) {
    let router = Arc::new(Router::without_guest(config, reason.to_owned()));
    let closing = Closing { router: Arc::clone(&router) };
    (until_end(&router, config, "").await, closing)
}

async fn until_end(router: &Arc<Router>, config: &mut KeeperConfig, build: &str) -> KeeperEnd {
    let KeeperConfig { listener, allowed_uid, terminate, .. } = config;
    tokio::select! {
        end = router.ended() => end,
        () = terminate => {
            router.terminate();
            router.ended().await
        }
        () = accept(router, listener, *allowed_uid, build) => KeeperEnd::TerminateSignal,
    }
}

async fn read_guest(router: Arc<Router>, mut reader: ReadHalf<Stream>, mut decoder: Decoder) {
    let reading = async {
        loop {
            while let Some(frame) = decoder.next_ref()? {
                router.guest_says(frame)?;
            }
            if reader.read_buf(decoder.spare()).await? == 0 {
                return Err::<(), ClientError>(ClientError::Closed);
            }
        }
    };
    let end = tokio::select! {
        end = reading => end,
        () = router.closed() => Ok(()),
    };
    router.guest_ended(end.err().unwrap_or(ClientError::Closed));
}

/// Takes clients in, without end.
async fn accept(router: &Arc<Router>, listener: &UnixListener, allowed_uid: u32, build: &str) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        match stream.peer_cred() {
            Ok(peer) if socket::may_connect(peer.uid(), allowed_uid) => {
                tokio::spawn(connection::serve(Arc::clone(router), stream, build.to_owned()));
            }
            Ok(peer) => tracing::warn!(uid = peer.uid(), "another user's process was turned away"),
            Err(error) => tracing::warn!(%error, "a client that cannot be identified was turned away"),
        }
    }
}

/// A keeper that has a reason to end. Dropping it cuts everybody off.
#[must_use = "dropping it cuts off the guest and all clients at once"]
pub struct Closing {
    router: Arc<Router>,
}

impl std::fmt::Debug for Closing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Closing").finish_non_exhaustive()
    }
}

impl Closing {
    /// For a sandbox that has ended while no client was served.
    pub(crate) fn without_clients(config: &KeeperConfig) -> Self {
        Self { router: Arc::new(Router::without_guest(config, String::new())) }
    }

    /// Tells the guest to end everything inside, and waits until it is gone; says whether it went in time. Until
    /// then clients still get output and exit codes.
    pub async fn shut_guest_down(&self, grace_ms: u32) -> bool {
        self.router.shut_guest_down(grace_ms);
        let patience = Duration::from_millis(grace_ms.into()) + MARGIN;
        tokio::time::timeout(patience, self.router.guest_gone()).await.is_ok()
    }

    /// When the sandbox cannot be stopped: tells those who asked why, and lets every client go.
    pub async fn refuse_stop(self, reason: &str) {
        self.router.refuse_stops(reason);
        let _ = tokio::time::timeout(MARGIN, self.router.clients_gone()).await;
    }

    /// When the sandbox is stopped for good: tells those who asked, and lets every client's last frames out.
    pub async fn finish(self) {
        self.router.dismiss_clients();
        // A client that does not read its last frames is not waited for.
        let _ = tokio::time::timeout(MARGIN, self.router.clients_gone()).await;
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.router.close();
    }
}

/// Resolves when this process is asked to end, by SIGTERM or SIGINT.
pub fn terminate_signal() -> std::io::Result<BoxFuture<'static, ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [SignalKind::terminate(), SignalKind::interrupt()];
    let numbers = kinds.map(|kind| kind.as_raw_value());
    let [terminate, interrupt] = palisade_host::signals::held_back(&numbers, || kinds.map(signal));
    let (mut terminate, mut interrupt) = (terminate?, interrupt?);
    Ok(Box::pin(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }))
}
