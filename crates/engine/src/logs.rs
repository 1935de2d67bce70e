//! What happened to a sandbox, in order, and what happens next.
//!
//! Whoever follows is woken by the kernel when a file of the state directory is written, which every new event does.
//! Where the kernel gives no such watch any more, it looks once a second.

use crate::engine::{Engine, now};
use crate::error::EngineError;
use palisade_core::{Event, SandboxId};
use palisade_store::{EVENTS_KEPT, StoredEvent};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use std::time::Duration;
use tokio::net::unix::pipe::Receiver;

/// How often to look where nobody tells.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long to let a burst of writes pass before looking.
const SETTLE: Duration = Duration::from_millis(20);

/// The events of one sandbox from some moment on.
#[derive(Debug)]
pub struct Events<'a> {
    engine: &'a Engine,
    id: SandboxId,
    /// The last one that was told.
    seq: i64,
    since: i64,
    watch: Option<Receiver>,
}

impl Engine {
    /// Records that something happened to a sandbox.
    pub fn note(&self, id: &SandboxId, event: &Event) -> Result<(), EngineError> {
        self.store()?.append_event(id, event, now())?;
        Ok(())
    }

    /// Events of a sandbox that are not older than `since`, in unix milliseconds.
    pub fn events(&self, name: &str, since: i64) -> Result<Events<'_>, EngineError> {
        let id = self.row(name)?.id().clone();
        Ok(Events { engine: self, id, seq: 0, since, watch: None })
    }

    /// Where the log of a sandbox's keeper is, when there is one.
    pub fn keeper_log(&self, name: &str) -> Result<Option<palisade_core::HostPath>, EngineError> {
        let log = self.row(name)?.spec.dir.map(|dir| dir.log());
        Ok(log.filter(|log| log.as_path().exists()))
    }
}

impl Events<'_> {
    /// Those that were not told yet.
    pub fn told_now(&mut self) -> Result<Vec<StoredEvent>, EngineError> {
        let events = self.engine.store()?.events(&self.id, self.seq, EVENTS_KEPT)?;
        self.seq = events.last().map_or(self.seq, |event| event.seq);
        Ok(events.into_iter().filter(|event| event.at >= self.since).collect())
    }

    /// Waits until there are more; `None` when the sandbox is gone.
    pub async fn next(&mut self) -> Result<Option<Vec<StoredEvent>>, EngineError> {
        if self.watch.is_none() {
            self.watch = watch(self.engine.state_dir().as_path());
        }
        loop {
            let events = self.told_now()?;
            if !events.is_empty() {
                return Ok(Some(events));
            }
            if self.engine.store()?.by_id(&self.id)?.is_none() {
                return Ok(None);
            }
            written(self.watch.as_ref()).await;
        }
    }
}

/// Set up before the first look, so that nothing falls in between.
pub(crate) fn watch(directory: &std::path::Path) -> Option<Receiver> {
    let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
    // The journal of the store is written for every change, and may be made anew at any time; other files are replaced
    // as a whole.
    inotify::add_watch(&watch, directory, WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO)
        .ok()?;
    // No pipe, and read like one.
    Receiver::from_owned_fd_unchecked(watch).ok()
}

/// Waits until something in the directory was written, or until it is time to look.
pub(crate) async fn written(watch: Option<&Receiver>) {
    let Some(watch) = watch else { return tokio::time::sleep(INTERVAL).await };
    if watch.readable().await.is_err() {
        return tokio::time::sleep(INTERVAL).await;
    }
    tokio::time::sleep(SETTLE).await;
    let mut buffer = [0u8; 4096];
    // What was written does not matter, only that something was.
    while matches!(watch.try_read(&mut buffer), Ok(1..)) {}
}
