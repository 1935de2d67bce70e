//! What may be written into the user's working tree of what a sandbox sends. The names are the sandbox's; the rules are
//! the user's own index, and what was brought before.

use super::Brought;
use palisade_core::self_running::by_path;
use palisade_core::stands_for_git;
use palisade_engine::{Arrived, Fate, Reception, Refusal};
use palisade_host::beneath::{self, Found, Standing};
use palisade_workspace::{ArtifactPath, Autorun, Fingerprint, Memory, Tracked, link_stays};
use rustix::fd::BorrowedFd;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// How many of the user's own files, and of those that run by themselves, are told one by one.
const MOST: usize = 1000;

#[derive(Debug)]
pub(super) struct Guarded {
    tracked: Tracked,
    memory: Memory,
    /// What is being brought, which bounds its links.
    item: Option<ArtifactPath>,
    brought: Brought,
}

impl Guarded {
    pub(super) fn new(tracked: Tracked, memory: Memory) -> Self {
        Self { tracked, memory, item: None, brought: Brought::default() }
    }

    pub(super) fn begin(&mut self, item: ArtifactPath) {
        self.item = Some(item);
    }

    pub(super) fn end(self) -> (Brought, Memory) {
        (self.brought, self.memory)
    }

    fn keep(&mut self, path: &Path) -> Fate {
        self.brought.kept_in_all += 1;
        if self.brought.kept.len() < MOST {
            self.brought.kept.push(path.to_owned());
        }
        Fate::Dropped
    }
}

impl Reception for Guarded {
    fn refuse(&mut self, path: &Path) -> Option<Refusal> {
        if path.iter().any(|name| stands_for_git(name.as_bytes())) {
            return Some(Refusal::because("git would take it for its own directory"));
        }
        if self.tracked.holds(path) {
            self.brought.tracked += 1;
            return Some(Refusal::Counted);
        }
        None
    }

    fn refuse_link(&mut self, path: &Path, target: &Path) -> Option<Refusal> {
        let stays = self.item.as_ref().is_some_and(|item| link_stays(item, path, target));
        (!stays).then(|| Refusal::because("a link that leads out of what is brought"))
    }

    fn settle(
        &mut self,
        path: &Path,
        arrived: Arrived<'_>,
        parent: BorrowedFd<'_>,
        name: &OsStr,
    ) -> io::Result<Fate> {
        if self.tracked.lies_below(path) {
            self.brought.tracked += 1;
            return Ok(Fate::Dropped);
        }
        let new = match arrived {
            Arrived::File(file) => Fingerprint::of_file(file)?,
            Arrived::Link(target) => Fingerprint::of_link(target),
        };
        let there = match beneath::look(parent, name) {
            Ok(Found::Nothing) => None,
            Ok(Found::File(file)) => Some(Fingerprint::of_file(file)?),
            Ok(Found::Link(target)) => Some(Fingerprint::of_link(&target)),
            // What cannot be read is not ours.
            Ok(Found::Other) | Err(_) => return Ok(self.keep(path)),
        };
        let standing = match there {
            None => Standing::Refused,
            Some(there) if there == new => {
                self.brought.same += 1;
                self.memory.record(path, new)?;
                return Ok(Fate::Dropped);
            }
            Some(there) if self.memory.knows(path, there) => Standing::Replaced,
            Some(_) => return Ok(self.keep(path)),
        };
        self.memory.record(path, new)?;
        if let Some(runs) = by_path(path)
            && self.brought.autorun.len() < MOST
        {
            self.brought.autorun.push(Autorun { path: path.to_owned(), runs });
        }
        Ok(Fate::Placed(standing))
    }
}

#[cfg(test)]
mod tests;
