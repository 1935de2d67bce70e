//! Our output, written on a thread of its own in the order it came, so that a slow reader of ours holds up the
//! command and nothing else.

use palisade_protocol::Channel;
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// Pieces of output that may wait for a slow reader of ours before the sandbox has to wait.
const PIECES: usize = 8;
/// How long whoever leaves waits for a reader of ours that has stopped.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why neither input nor output can be passed on.
pub(crate) const NO_THREAD: &str = "no more processes or threads may be started (see ulimit -u)";

#[derive(Debug)]
pub(crate) struct Writer {
    pieces: mpsc::Sender<(Channel, Vec<u8>)>,
    abandoned: Arc<AtomicBool>,
    /// The error that ended the thread; closed when it has ended.
    done: std::sync::mpsc::Receiver<io::Error>,
}

impl Writer {
    pub(crate) fn start() -> Self {
        let (pieces, mut received) = mpsc::channel::<(Channel, Vec<u8>)>(PIECES);
        let abandoned = Arc::new(AtomicBool::new(false));
        let (ended, done) = std::sync::mpsc::channel();
        let not_started = ended.clone();
        let given_up = Arc::clone(&abandoned);
        let write = move || {
            let ended = ended;
            while let Some((channel, bytes)) = received.blocking_recv() {
                if given_up.load(Ordering::Relaxed) {
                    return;
                }
                let written = match channel {
                    Channel::Main => {
                        let mut stdout = std::io::stdout().lock();
                        stdout.write_all(&bytes).and_then(|()| stdout.flush())
                    }
                    Channel::Error => std::io::stderr().lock().write_all(&bytes),
                };
                match written {
                    // A command goes on without a reader of its errors, as it would in a pipeline.
                    Err(error) if channel == Channel::Error && error.kind() == ErrorKind::BrokenPipe => {}
                    Err(error) => return drop(ended.send(error)),
                    Ok(()) => {}
                }
            }
        };
        let started = std::thread::Builder::new().name("output".into()).stack_size(128 * 1024).spawn(write);
        if started.is_err() {
            // The first piece finds that nothing can be written, and this says why. The receiver is ours, so it is there.
            let _ = not_started.send(io::Error::other(NO_THREAD));
        }
        Self { pieces, abandoned, done }
    }

    /// False when nothing can be written any more; [`Writer::finish`] says why.
    pub(crate) async fn write(&self, channel: Channel, bytes: Vec<u8>) -> bool {
        self.pieces.send((channel, bytes)).await.is_ok()
    }

    /// Waits until everything is written. A reader that has gone away is not an error.
    pub(crate) fn finish(self) -> io::Result<()> {
        drop(self.pieces);
        // The channel is closed without an error when all of it was written.
        match self.done.recv() {
            Ok(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }

    /// Leaves out what is not written yet. False when our reader takes nothing, so that the thread is stuck.
    pub(crate) fn abandon(self) -> bool {
        self.abandoned.store(true, Ordering::Relaxed);
        drop(self.pieces);
        !matches!(self.done.recv_timeout(PATIENCE), Err(std::sync::mpsc::RecvTimeoutError::Timeout))
    }
}
