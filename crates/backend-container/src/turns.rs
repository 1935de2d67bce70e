//! One container at a time from an ordinary user's Podman.
//!
//! For every container whose user keeps their ids, its service looks for the subordinate ids with libsubid, which its
//! threads cannot share. Two at once, and it finds none, or the service dies of it, with everything that it was asked by
//! anybody (seen with 4.3: SIGSEGV in `subid_get_uid_ranges`). Whoever asks for one therefore takes a turn that lies
//! beside the socket, because the service is shared by all instances, and by root who was led to it.

use crate::endpoint::Endpoint;
use crate::plan::Dialect;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The kernel takes it back from a holder that dies.
#[derive(Debug)]
#[must_use = "the turn ends when this is dropped"]
pub(crate) struct Turn {
    #[allow(dead_code, reason = "the lock lives as long as the open file")]
    file: Option<OwnedFd>,
}

impl Turn {
    /// An engine behind a network has other clients than those of this machine, and not everybody may write beside a
    /// socket: they go without one.
    const FREE: Self = Self { file: None };

    /// `None` when others had it all the time.
    pub(crate) async fn take(endpoint: &Endpoint, dialect: Dialect, patience: Duration) -> Option<Self> {
        let (Endpoint::Socket(socket), Dialect::RootlessPodman) = (endpoint, dialect) else {
            return Some(Self::FREE);
        };
        let Ok(file) = open(&beside(socket)) else { return Some(Self::FREE) };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(Self { file: Some(file) }),
            Err(Errno::WOULDBLOCK) => {}
            Err(_) => return Some(Self::FREE),
        }
        let wait = move || rustix::fs::flock(&file, FlockOperation::LockExclusive).map(|()| file);
        let waited = tokio::time::timeout(patience, tokio::task::spawn_blocking(wait)).await.ok()?;
        Some(Self { file: waited.ok().and_then(Result::ok) })
    }
}

fn beside(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".palisade-turn");
    name.into()
}

/// Whoever comes first makes it, and others may read it, which is enough for a lock.
fn open(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::NOENT) => rustix::fs::open(path, flags | OFlags::CREATE, Mode::from_raw_mode(0o644)),
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(30);

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn one_has_it_until_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::Socket(directory.path().join("podman.sock"));
        let take = |patience| Turn::take(&endpoint, Dialect::RootlessPodman, patience);
        run(async {
            let first = take(LONG).await.unwrap();
            assert!(take(SHORT).await.is_none());
            let (second, ()) = tokio::join!(take(LONG), async { drop(first) });
            let second = second.unwrap();
            assert!(take(SHORT).await.is_none());
            drop(second);
            assert!(take(LONG).await.is_some());
        });
    }

    #[test]
    fn other_engines_have_none() {
        let directory = tempfile::tempdir().unwrap();
        let socket = Endpoint::Socket(directory.path().join("podman.sock"));
        let taken = [
            (&socket, Dialect::Podman),
            (&socket, Dialect::Docker),
            (&Endpoint::Tcp("127.0.0.1:1".into()), Dialect::RootlessPodman),
        ];
        for (endpoint, dialect) in taken {
            run(async {
                let _first = Turn::take(endpoint, dialect, SHORT).await.unwrap();
                assert!(Turn::take(endpoint, dialect, SHORT).await.is_some());
            });
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_link_in_its_place_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("podman.sock");
        std::os::unix::fs::symlink(directory.path().join("elsewhere"), beside(&socket)).unwrap();
        let taken = run(Turn::take(&Endpoint::Socket(socket), Dialect::RootlessPodman, SHORT));
        assert!(taken.is_some_and(|turn| turn.file.is_none()));
        assert!(!directory.path().join("elsewhere").exists());
    }
}
