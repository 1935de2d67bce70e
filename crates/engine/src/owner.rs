//! The instance's id, which tells this installation's resources from another's. It is kept in a file beside the
//! store, so that a one-off run need not open the store for it; a file that holds no id is set aside and the store's
//! own copy written again, so that what is there already still has its owner.

use crate::engine::{Engine, new_id};
use crate::error::EngineError;
use palisade_core::{HostPath, SandboxId};
use palisade_host::fault::{self, Step};
use palisade_store::Store;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Error, ErrorKind, Result, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;

pub(crate) const FILE: &str = "instance";

impl Engine {
    pub(crate) fn read_or_make_owner(&self) -> std::result::Result<String, EngineError> {
        let state = &self.config.state;
        let file = state.join(FILE);
        let failed = || EngineError::io(format!("open {state}"));
        match read(&file) {
            Ok(Some(owner)) => return Ok(owner),
            Ok(None) => {
                let aside = self.set_aside(&file).map_err(failed())?;
                (self.config.tell)(&format!("{file} held no instance id and was set aside as {aside}"));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed()(error)),
        }
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(state).map_err(failed())?;
        let owner = match self.recorded_owner() {
            Some(owner) => owner,
            None => String::from(new_id().map_err(failed())?),
        };
        make(state, &file, &owner).map_err(failed())?;
        fault::at(Step::InstanceMade).map_err(failed())?;
        // When somebody else was first, theirs counts.
        match read(&file).map_err(failed())? {
            Some(owner) => Ok(owner),
            None => Err(failed()(Error::other("the file 'instance' holds no instance id"))),
        }
    }

    /// The store's own copy, when there is a store that can be read.
    fn recorded_owner(&self) -> Option<String> {
        let owner = Store::open_existing(self.config.state.as_path()).ok()??.instance().ok()?;
        SandboxId::parse(&owner).ok().map(String::from)
    }

    /// Moves a file that makes no sense out of the way, and says where to.
    pub(crate) fn set_aside(&self, file: &HostPath) -> Result<String> {
        let aside = format!("{file}.corrupt-{}", crate::engine::now());
        std::fs::rename(file, &aside)?;
        Ok(aside)
    }
}

/// The id in the file; `None` when there is something else in it.
fn read(file: &HostPath) -> Result<Option<String>> {
    let bytes = std::fs::read(file)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(SandboxId::parse(text.trim()).ok().map(String::from))
}

/// Whole or not at all, and once: the file has no name before it has its contents, and never takes another's.
fn make(state: &HostPath, file: &HostPath, owner: &str) -> Result<()> {
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    let made = match rustix::fs::open(state.as_path(), flags, Mode::RUSR | Mode::WUSR) {
        Ok(nameless) => {
            let mut nameless = File::from(nameless);
            nameless.write_all(owner.as_bytes())?;
            let handle = format!("/proc/self/fd/{}", nameless.as_raw_fd());
            rustix::fs::linkat(CWD, handle.as_str(), CWD, file.as_path(), AtFlags::SYMLINK_FOLLOW)
        }
        // Not every file system has files without a name.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => return make_by_name(file, owner),
        Err(error) => Err(error),
    };
    match made {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A crash in between leaves a file without an id, which the next command sets aside.
fn make_by_name(file: &HostPath, owner: &str) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Ok(mut file) => file.write_all(owner.as_bytes()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}
