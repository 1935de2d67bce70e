//! An archive's way into a container that has not started. A small one is sent whole; a tree of this host's is sent as
//! it is read, for as long as it moves.

use crate::client::{Client, LONGEST};
use crate::filling;
use crate::tree::Tree;
use bollard::query_parameters::UploadToContainerOptionsBuilder;
use bytes::Bytes;
use futures_core::Stream;
use palisade_core::BackendError;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;

/// Of a stream that moves, nobody can say how long it takes.
const WHOLE: Duration = Duration::from_secs(24 * 3600);
/// How much is sent at once, and how many of these wait to be sent.
const CHUNK: usize = 256 * 1024;
const WAITING: usize = 4;

#[derive(Debug, Clone)]
pub(crate) enum Archive {
    Whole(Bytes),
    /// With the short form of the digest that it had when its volume was named.
    Tree(Tree, String),
}

/// Unpacks the archive at a path of the container's.
pub(crate) async fn upload(
    client: &Client,
    container: &str,
    path: &str,
    archive: &Archive,
) -> Result<(), BackendError> {
    match archive {
        Archive::Whole(bytes) => {
            let options = UploadToContainerOptionsBuilder::default().path(path).build();
            let sent = client.call(WHAT, LONGEST, |docker| {
                let (options, body) = (options.clone(), bollard::body_full(bytes.clone()));
                async move { docker.upload_to_container(container, Some(options), body).await }
            });
            Ok(sent.await?)
        }
        Archive::Tree(tree, digest) => send(client, container, path, tree, digest).await,
    }
}

const WHAT: &str = "take an archive";

async fn send(
    client: &Client,
    container: &str,
    path: &str,
    tree: &Tree,
    digest: &str,
) -> Result<(), BackendError> {
    let (sender, receiver) = mpsc::channel(WAITING);
    let moved = Arc::new(AtomicU64::new(0));
    let reading = {
        let (tree, digest) = (tree.clone(), digest.to_owned());
        let chunks = Chunks::new(sender, Arc::clone(&moved));
        tokio::task::spawn_blocking(move || read(&tree, &digest, chunks))
    };
    let options = UploadToContainerOptionsBuilder::default().path(path).build();
    let docker = client.patient(WHOLE);
    let body = bollard::body_try_stream(Pieces(receiver));
    let sending = docker.upload_to_container(container, Some(options), body);
    let sent = while_it_moves(sending, &moved).await;
    // Whoever sends has let go of the other end by now, so the reading ends, too.
    let read = reading.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    match (read, sent) {
        (Err(error), _) if error.kind() == io::ErrorKind::InvalidData => Err(BackendError::HostDirectory {
            path: palisade_core::printable(&tree.root.to_string()),
            reason: "it changed while it was sent to the engine".into(),
            fix: "try again when nobody writes into it".into(),
        }),
        (Err(error), _) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(BackendError::io(format!("read {}", tree.root))(error))
        }
        (_, None) => Err(client.engine().silent(WHAT, LONGEST.as_secs())),
        (_, Some(Err(error))) => Err(client.engine().failure(WHAT, &error).into()),
        // An engine that has answered before it had everything has not unpacked everything.
        (Err(error), Some(Ok(()))) => Err(BackendError::io(format!("send {}", tree.root))(error)),
        (Ok(()), Some(Ok(()))) => Ok(()),
    }
}

/// The archive must come out as it was when it was named; otherwise it never ends properly, and nobody takes it for
/// whole.
fn read(tree: &Tree, digest: &str, mut chunks: Chunks) -> io::Result<()> {
    let outcome = match tree.write(&mut chunks) {
        Ok(found) if filling::short(found) == digest => return Ok(()),
        Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "it is not what it was")),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(io::Error::new(io::ErrorKind::InvalidData, error))
        }
        Err(error) => Err(error),
    };
    let _ = chunks.sender.blocking_send(Err(io::Error::other("the tree could not be read")));
    outcome
}

/// `None` when nothing has moved for as long as an engine may take.
async fn while_it_moves<T>(sending: impl Future<Output = T>, moved: &AtomicU64) -> Option<T> {
    tokio::pin!(sending);
    let mut seen = 0;
    loop {
        match tokio::time::timeout(LONGEST, &mut sending).await {
            Ok(sent) => return Some(sent),
            Err(_) => match moved.load(Ordering::Relaxed) {
                now if now == seen => return None,
                now => seen = now,
            },
        }
    }
}

/// Gathers what is written into pieces, and waits until there is room for each. The last piece is sent by a flush.
struct Chunks {
    sender: mpsc::Sender<io::Result<Bytes>>,
    gathered: Vec<u8>,
    moved: Arc<AtomicU64>,
}

impl Chunks {
    fn new(sender: mpsc::Sender<io::Result<Bytes>>, moved: Arc<AtomicU64>) -> Self {
        Self { sender, gathered: Vec::with_capacity(CHUNK), moved }
    }
}

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(CHUNK - self.gathered.len());
        self.gathered.extend_from_slice(&bytes[..count]);
        if self.gathered.len() == CHUNK {
            self.flush()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let gathered = std::mem::replace(&mut self.gathered, Vec::with_capacity(CHUNK));
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.sender.blocking_send(Ok(gathered.into())).map_err(gone)?;
        self.moved.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// What somebody reads in another thread, for an engine.
pub(crate) struct Pieces(pub(crate) mpsc::Receiver<io::Result<Bytes>>);

impl Stream for Pieces {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_core::HostPath;

    /// What arrives, and whether it ends properly.
    fn sent(tree: &Tree, digest: &str) -> (Vec<u8>, bool, io::Result<()>) {
        let (sender, mut receiver) = mpsc::channel(WAITING);
        let chunks = Chunks::new(sender, Arc::default());
        let (mut bytes, mut whole) = (Vec::new(), true);
        let outcome = std::thread::scope(|scope| {
            let reading = scope.spawn(|| read(tree, digest, chunks));
            while let Some(chunk) = receiver.blocking_recv() {
                chunk.map_or_else(|_| whole = false, |chunk| bytes.extend_from_slice(&chunk));
            }
            reading.join().unwrap()
        });
        (bytes, whole, outcome)
    }

    #[test]
    fn a_tree_that_is_no_longer_what_it_was_never_ends_properly() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("big"), vec![7; 3 * CHUNK + 11]).unwrap();
        let tree = Tree { root: HostPath::new(directory.path()).unwrap(), guest: "/t".into() };
        let mut expected = Vec::new();
        let digest = &filling::short(tree.write(&mut expected).unwrap());
        let (bytes, whole, outcome) = sent(&tree, digest);
        assert_eq!((bytes == expected, whole, outcome.is_ok()), (true, true, true));
        std::fs::write(directory.path().join("big"), "small").unwrap();
        let (_, whole, outcome) = sent(&tree, digest);
        assert_eq!((whole, outcome.unwrap_err().kind()), (false, io::ErrorKind::InvalidData));
    }
}
