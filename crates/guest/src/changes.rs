//! Whether something has changed in here that the host may want to know: the branches of a repository, and what goes
//! in and out of sessions. One answer for one question; the host asks again when it wants to hear more.
//!
//! The state of the branches is one number over all files that hold them. It is computed again only when the kernel
//! tells that something moved, and nothing is remembered between two questions: what happens in between shows in
//! the next number.

use crate::stream::{Progress, Shared, Stream};
use palisade_protocol::message::accepted_frame;
use palisade_protocol::{Changes, ChangesRequest, Exit, Refusal, RefusalCode, Report, StreamId};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Directories of branches that are watched, and how deep they may lie in one another.
const MOST_DIRECTORIES: usize = 512;
const DEEPEST: usize = 16;
/// Files that are looked at.
const MOST_FILES: usize = 8192;

/// A question that has not been answered.
#[derive(Debug)]
pub(crate) struct Watching {
    branches: Branches,
    request: ChangesRequest,
    accepted: bool,
}

impl Watching {
    pub(crate) fn new(request: ChangesRequest) -> Result<Self, Refusal> {
        let path = std::ffi::OsString::from_vec(request.repository.clone());
        let branches = Branches::watch(path.into()).map_err(|error| {
            Refusal::new(RefusalCode::Failed, error.raw_os_error(), "the kernel gives no watch on files")
        })?;
        Ok(Self { branches, request, accepted: false })
    }

    fn is_news(&self, now: Changes) -> bool {
        let Some(known) = self.request.known else { return true };
        let sessions = |changes: Changes| (changes.sessions, changes.ended);
        now.branches != known.branches || (self.request.sessions && sessions(now) != sessions(known))
    }
}

impl Stream for Watching {
    fn interests<'a>(&'a self, _congested: bool, into: &mut Vec<PollFd<'a>>) {
        into.push(PollFd::new(&self.branches.watch, PollFlags::IN));
    }

    fn always_due(&self) -> bool {
        self.request.sessions
    }

    fn progress(&mut self, stream: StreamId, shared: &mut Shared) -> Progress {
        let branches = self.branches.now();
        let now = Changes { branches, sessions: shared.sessions.moved, ended: shared.sessions.ended };
        if !std::mem::replace(&mut self.accepted, true) {
            shared.link.send(&accepted_frame(stream));
        }
        if !self.is_news(now) {
            return Progress::Open;
        }
        shared.link.send(&Report::Changes(now).frame(stream));
        shared.link.send(&Exit::Code(0).frame(stream));
        Progress::Done
    }
}

/// The branches of a repository, which need not exist yet.
#[derive(Debug)]
struct Branches {
    top: PathBuf,
    watch: OwnedFd,
    state: u64,
}

impl Branches {
    fn watch(top: PathBuf) -> Result<Self, Errno> {
        let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let mut branches = Self { top, watch, state: 0 };
        branches.look();
        Ok(branches)
    }

    fn now(&mut self) -> u64 {
        let mut moved = false;
        let mut buffer = [0u8; 4096];
        // What moved does not matter, only that something did; a queue that ran over says so, too.
        while rustix::io::read(&self.watch, &mut buffer).is_ok_and(|read| read > 0) {
            moved = true;
        }
        if moved {
            self.look();
        }
        self.state
    }

    /// Watches come first, so that nothing falls between them and the look.
    fn look(&mut self) {
        let git = self.top.join(".git");
        self.add(&self.top, WatchFlags::CREATE | WatchFlags::MOVED_TO);
        // Directories that are not there yet are noticed in those above them.
        self.add(&git, WatchFlags::CREATE | WatchFlags::MOVED_TO);
        self.add(&git.join("reftable"), WatchFlags::MOVED_TO);
        self.add(&git.join("refs"), WatchFlags::CREATE | WatchFlags::MOVED_TO);
        let mut state = 0u64;
        for name in ["packed-refs", "reftable/tables.list"] {
            state = state.wrapping_add(file_state(&git.join(name)));
        }
        let mut budget = Budget { directories: MOST_DIRECTORIES, files: MOST_FILES };
        self.state = state.wrapping_add(self.look_into(&git.join("refs/heads"), DEEPEST, &mut budget));
    }

    /// A sum, because the order in which a directory is listed means nothing.
    fn look_into(&self, directory: &Path, depth: usize, budget: &mut Budget) -> u64 {
        if depth == 0 || budget.directories == 0 {
            return 0;
        }
        budget.directories -= 1;
        self.add(
            directory,
            WatchFlags::CREATE
                | WatchFlags::CLOSE_WRITE
                | WatchFlags::DELETE
                | WatchFlags::MOVED_FROM
                | WatchFlags::MOVED_TO,
        );
        let mut state = 0u64;
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if budget.files == 0 {
                break;
            }
            budget.files -= 1;
            let path = entry.path();
            let more = match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.look_into(&path, depth - 1, budget),
                // Git's own locks come and go with every change.
                Ok(_) if path.extension().is_none_or(|extension| extension != "lock") => file_state(&path),
                _ => 0,
            };
            state = state.wrapping_add(more);
        }
        state
    }

    /// Adding a watch that is there changes nothing; one that cannot be had is done without.
    fn add(&self, directory: &Path, what: WatchFlags) {
        let _ = inotify::add_watch(&self.watch, directory, what | WatchFlags::ONLYDIR);
    }
}

struct Budget {
    directories: usize,
    files: usize,
}

/// Whatever replaces or rewrites a file changes this.
fn file_state(path: &Path) -> u64 {
    let Ok(found) = std::fs::symlink_metadata(path) else { return 0 };
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    (found.ino(), found.size(), found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec())
        .hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_that_moves_is_noticed_wherever_git_keeps_it() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let path = place.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path.with_extension("lock"), name).unwrap();
            std::fs::rename(path.with_extension("lock"), path).unwrap();
        };
        let mut branches = Branches::watch(place.path().to_owned()).unwrap();
        let mut known = branches.now();
        for (what, name) in [
            ("a repository appears", ".git/refs/heads/main"),
            ("a commit", ".git/refs/heads/main"),
            ("a branch in directories of its own", ".git/refs/heads/feature/deep/x"),
            ("a commit on it", ".git/refs/heads/feature/deep/x"),
            ("branches are packed", ".git/packed-refs"),
            ("branches in tables", ".git/reftable/tables.list"),
            ("a commit in tables", ".git/reftable/tables.list"),
        ] {
            write(name);
            let before = std::mem::replace(&mut known, branches.now());
            assert_ne!(known, before, "{what}");
        }
        std::fs::remove_file(place.path().join(".git/refs/heads/feature/deep/x")).unwrap();
        assert_ne!(branches.now(), known, "a branch goes");
    }

    #[test]
    fn what_is_not_a_branch_changes_nothing() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir_all(at(".git/refs/heads")).unwrap();
        std::fs::create_dir_all(at(".git/refs/palisade/work")).unwrap();
        std::fs::write(at(".git/refs/heads/main"), "1").unwrap();
        let mut branches = Branches::watch(place.path().to_owned()).unwrap();
        let known = branches.now();
        for name in ["file", ".git/index", ".git/refs/heads/main.lock", ".git/refs/palisade/work/main"] {
            std::fs::write(at(name), "2").unwrap();
            assert_eq!(branches.now(), known, "{name}");
        }
    }

    #[test]
    fn more_branches_than_anybody_has_are_not_all_looked_at() {
        let place = tempfile::tempdir().unwrap();
        let mut deep = place.path().join(".git/refs/heads");
        for _ in 0..3 * DEEPEST {
            deep.push("d");
        }
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(deep.join("x"), "1").unwrap();
        let mut branches = Branches::watch(place.path().to_owned()).unwrap();
        assert_eq!(branches.now(), 0);
    }
}
