//! The way out of a connection: frames are appended to one buffer, and whatever has gathered there goes out in one
//! write.
//!
//! Who produces bytes at will waits with [`Outbox::reserve`] first, so the queue stays near its limit; who answers a
//! peer and must not wait looks at [`Outbox::is_overfull`] and gives that peer up.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

/// What an idle queue keeps of its memory.
const KEEP: usize = 4 * 1024;

#[derive(Debug)]
pub struct Outbox {
    queue: Mutex<Queue>,
    limit: usize,
    /// There is something to write, or the end has come.
    ready: Notify,
    /// There is room again, or the end has come.
    space: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    end: End,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    /// What is queued is still written.
    Finishing,
    /// Nothing more is written.
    Closed,
}

impl Outbox {
    pub fn new(limit: usize) -> Self {
        Self { queue: Mutex::default(), limit, ready: Notify::new(), space: Notify::new() }
    }

    /// Appends frames, whatever the queue's length; says whether the connection was still open for them.
    pub fn push(&self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut queue = self.lock();
        if queue.end != End::Open {
            return false;
        }
        let was_empty = queue.bytes.is_empty();
        write(&mut queue.bytes);
        drop(queue);
        if was_empty {
            self.ready.notify_waiters();
        }
        true
    }

    /// Waits until the queue is below its limit, or closed.
    pub async fn reserve(&self) {
        until(&self.space, || {
            let queue = self.lock();
            (queue.bytes.len() < self.limit || queue.end != End::Open).then_some(())
        })
        .await;
    }

    /// Whether the peer lets even the answers pile up that nobody could wait with.
    pub fn is_overfull(&self) -> bool {
        self.queued() > 2 * self.limit
    }

    pub fn queued(&self) -> usize {
        self.lock().bytes.len()
    }

    /// Nothing more is taken; what is queued is still written, then the writer ends.
    pub fn finish(&self) {
        self.end(End::Finishing);
    }

    /// Nothing more is taken nor written.
    pub fn close(&self) {
        self.end(End::Closed);
    }

    fn end(&self, end: End) {
        let mut queue = self.lock();
        if queue.end != End::Closed {
            queue.end = end;
        }
        if end == End::Closed {
            queue.bytes = Vec::new();
        }
        drop(queue);
        self.ready.notify_waiters();
        self.space.notify_waiters();
    }

    /// Writes what is queued until the end; the writer's own error ends the queue too.
    pub async fn drain(&self, mut writer: impl AsyncWrite + Unpin) -> std::io::Result<()> {
        let mut batch = Vec::new();
        while self.next_batch(&mut batch).await {
            let written = tokio::select! {
                biased;
                written = async { writer.write_all(&batch).await?; writer.flush().await } => written,
                () = self.closed() => return Ok(()),
            };
            if let Err(error) = written {
                self.close();
                return Err(error);
            }
        }
        writer.shutdown().await
    }

    /// Swaps the queue for the emptied `batch`, so that two buffers serve the whole connection.
    async fn next_batch(&self, batch: &mut Vec<u8>) -> bool {
        batch.clear();
        if self.queued() == 0 && batch.capacity() > KEEP {
            *batch = Vec::new();
        }
        let more = until(&self.ready, || {
            let mut queue = self.lock();
            if !queue.bytes.is_empty() {
                std::mem::swap(&mut queue.bytes, batch);
                return Some(true);
            }
            if queue.bytes.capacity() > KEEP {
                queue.bytes = Vec::new();
            }
            (queue.end != End::Open).then_some(false)
        })
        .await;
        self.space.notify_waiters();
        more
    }

    /// Resolves once nothing more is written.
    pub async fn closed(&self) {
        until(&self.space, || (self.lock().end == End::Closed).then_some(())).await;
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until `check` gives a value, looking again whenever `notify` wakes its waiters.
pub async fn until<T>(notify: &Notify, mut check: impl FnMut() -> Option<T>) -> T {
    loop {
        // Registered before looking, so that a change in between is not missed.
        let mut notified = pin!(notify.notified());
        notified.as_mut().enable();
        if let Some(value) = check() {
            return value;
        }
        notified.await;
    }
}
