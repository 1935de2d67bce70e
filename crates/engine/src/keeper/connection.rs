//! One client at the keeper's socket: one task, and next to no memory while it is idle.

use super::router::Router;
use palisade_protocol::frame::MAX_FROM_HOST;
use palisade_protocol::outbox::Outbox;
use palisade_protocol::{Decoder, FrameRef, Hello, Kind, Violation, Welcome};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;

/// The limit only matters to those who wait for room, and nobody waits for a client.
const QUEUE: usize = 256 * 1024;
/// How long a client may take to say hello.
const HELLO: Duration = Duration::from_secs(10);

/// Serves a client until it leaves, breaks a rule or is cut off.
pub(super) async fn serve(router: Arc<Router>, stream: UnixStream, build: String) {
    let outbox = Arc::new(Outbox::new(QUEUE));
    let Some(id) = router.join(Arc::clone(&outbox)) else {
        tracing::warn!("too many clients: one more was turned away");
        return;
    };
    let (reader, writer) = stream.into_split();
    let mut incoming = Incoming { reader, decoder: Decoder::new(MAX_FROM_HOST) };
    let conversation = async {
        tokio::time::timeout(HELLO, greet(&mut incoming, &outbox, build)).await.map_err(|_| End::Left)??;
        loop {
            // Waiting here is what keeps a client from filling the keeper with what the guest does not read yet.
            router.to_guest.reserve().await;
            incoming.with_next(|frame| router.client_says(id, frame)).await?;
        }
    };
    let end: Result<(), End> = tokio::select! {
        end = conversation => end,
        _ = outbox.drain(writer) => Ok(()),
        () = outbox.closed() => Ok(()),
    };
    if let Err(End::Violation(violation)) = end {
        tracing::warn!(%violation, "a client broke the protocol: cut off");
    }
    router.leave(id);
}

async fn greet(incoming: &mut Incoming, outbox: &Outbox, build: String) -> Result<(), End> {
    let hello = incoming.with_next(|frame| match (frame.kind, frame.stream) {
        (Kind::Hello, 0) => Hello::decode(frame.payload),
        _ => Err(Violation::Unexpected(frame.kind.name())),
    });
    let hello = hello.await?;
    let version = hello.agree()?;
    outbox.push(|out| Welcome { version, nonce: hello.nonce, build }.frame().encode(out));
    Ok(())
}

enum End {
    Left,
    Violation(Violation),
}

impl From<Violation> for End {
    fn from(violation: Violation) -> Self {
        Self::Violation(violation)
    }
}

struct Incoming {
    reader: OwnedReadHalf,
    decoder: Decoder,
}

impl Incoming {
    /// Waits for a frame and hands it on. The buffer is given back while there is nothing to read.
    async fn with_next<T>(
        &mut self,
        take: impl FnOnce(FrameRef<'_>) -> Result<T, Violation>,
    ) -> Result<T, End> {
        loop {
            if let Some(frame) = self.decoder.next_ref()? {
                return Ok(take(frame)?);
            }
            self.decoder.rest();
            self.reader.readable().await.map_err(|_| End::Left)?;
            match self.reader.try_read_buf(self.decoder.spare()) {
                Ok(0) => return Err(End::Left),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return Err(End::Left),
            }
        }
    }
}
