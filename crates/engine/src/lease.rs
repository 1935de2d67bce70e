//! Leases: who is in the middle of something, as one file per process in `leases/`.
//!
//! A verb and a keeper write theirs before they make anything and take it away when all is in order again, so a lease
//! whose process is dead says that something may have been left. A command looks at that one directory when it
//! begins, and collects only when it finds such a lease: that is the whole price of cleaning up by itself.
//!
//! A lease is a hint, never the truth. What may be taken away is judged by the process identities in the record and
//! in the names of things, as `gc` always does; so a lease that cannot be written (a full disk) costs nothing but the
//! automatic look. See `docs/adr/0016-leases-and-set-aside.md`.

use crate::engine::Engine;
use palisade_core::{HostPath, ProcessIdentity, SandboxId};
use palisade_host::fault::{self, Step};
use palisade_host::process;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::fs::DirBuilder;
use std::io::{ErrorKind, Result, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

pub(crate) const DIRECTORY: &str = "leases";

/// Given back when dropped.
#[derive(Debug)]
#[must_use = "the lease ends when this is dropped"]
pub(crate) struct Lease {
    file: Option<LeaseFile>,
}

/// A name in a directory that is held open, so that it is found when the state directory was moved.
#[derive(Debug)]
struct LeaseFile {
    directory: OwnedFd,
    name: String,
}

impl Lease {
    /// Leaves the lease where it is, since something was not put in order: when this process is gone, the next command
    /// collects.
    pub(crate) fn leave(mut self) {
        self.file = None;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(LeaseFile { directory, name }) = &self.file {
            // Should this fail, the next command collects for nothing.
            let _ = rustix::fs::unlinkat(directory, name.as_str(), AtFlags::empty());
        }
    }
}

impl Engine {
    /// Says that this process is at work. `keeps` is the sandbox that it keeps, for whoever has lost the record.
    pub(crate) fn lease(&self, keeps: Option<&SandboxId>) -> Lease {
        let text = keeps.map_or("", SandboxId::as_str);
        // Two verbs of one process share the lease of the first.
        let file = match write(&self.leases(), name(&process::this_process()), text) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => None,
            Err(error) => {
                tracing::debug!(%error, "no lease could be written");
                None
            }
        };
        let lease = Lease { file };
        // A step to die at; failing makes no difference to a hint.
        let _ = fault::at(Step::LeaseTaken);
        lease
    }

    /// Leases of processes that are gone: one listing, and a look at each process that has a lease.
    pub(crate) fn dead_leases(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.leases()) else { return Vec::new() };
        let mut boot = None;
        let mut lives = |name: &str| {
            let boot = boot.get_or_insert_with(process::boot_id);
            let (label, its_boot) = name.split_once('.')?;
            Some(its_boot == short(boot) && process::label_is_alive(label)?)
        };
        entries
            .flatten()
            .filter(|entry| entry.file_name().to_str().and_then(&mut lives) != Some(true))
            .map(|entry| entry.path())
            // A process that ends in order takes its lease away first, maybe between the listing and the look at it.
            .filter(|path| path.exists())
            .collect()
    }

    /// Who keeps which sandbox, as the living keepers' leases have it.
    pub(crate) fn living_keepers(&self) -> Vec<(SandboxId, ProcessIdentity)> {
        let Ok(entries) = std::fs::read_dir(self.leases()) else { return Vec::new() };
        let keeper = |entry: std::fs::DirEntry| {
            let pid = entry.file_name().to_str()?.split_once('-')?.0.parse().ok()?;
            let identity = process::identify(pid).filter(|identity| *name(identity) == *entry.file_name())?;
            let id = SandboxId::parse(&std::fs::read_to_string(entry.path()).ok()?).ok()?;
            Some((id, identity))
        };
        entries.flatten().filter_map(keeper).collect()
    }

    fn leases(&self) -> HostPath {
        self.config.state.join(DIRECTORY)
    }
}

fn write(directory: &HostPath, name: String, text: &str) -> Result<LeaseFile> {
    let open = || {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(directory.as_path(), flags, Mode::empty())
    };
    let directory = match open() {
        Err(Errno::NOENT) => {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            open()?
        }
        other => other?,
    };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&directory, name.as_str(), flags, Mode::RUSR | Mode::WUSR)?;
    std::fs::File::from(file).write_all(text.as_bytes())?;
    Ok(LeaseFile { directory, name })
}

/// From which its process and its boot can be told.
fn name(process: &ProcessIdentity) -> String {
    format!("{}.{}", process::label(process), short(&process.boot))
}

/// As much of a boot's id as tells one boot from the next.
fn short(boot: &str) -> &str {
    boot.get(..8).unwrap_or(boot)
}
