//! Host paths of a copy. Where a path leads is found out once, and it is opened without following a link again: it may
//! lie in a directory that a sandbox writes to.

use super::pack::Source;
use crate::engine::Engine;
use crate::error::EngineError;
use palisade_core::HostPath;
use palisade_host::bound_path;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A file or tree of the host's that is copied into a sandbox.
#[derive(Debug)]
pub struct CopySource {
    pub(super) source: Source,
    /// Its name, which a directory receives it under; `.` for the contents of a directory.
    pub(super) name: OsString,
    /// For messages.
    pub(super) shown: String,
}

/// Where a copy out of a sandbox goes.
#[derive(Debug)]
pub struct CopyTarget {
    pub(super) directory: File,
    /// The new name in the directory; `None` when the target is the directory itself.
    pub(super) name: Option<OsString>,
}

impl CopySource {
    /// Opens a path that no sandbox can have changed. One that ends in `/.` means the contents of a directory.
    pub fn open(path: &Path) -> Result<Self, EngineError> {
        Self::open_with(path, |above| std::fs::canonicalize(above).map_err(failed(path)))
    }

    fn open_with(
        path: &Path,
        resolve: impl FnOnce(&Path) -> Result<PathBuf, EngineError>,
    ) -> Result<Self, EngineError> {
        let means_contents = path.as_os_str().as_bytes().ends_with(b"/.") || path == Path::new(".");
        let (above, name) = match path.file_name() {
            Some(name) if !means_contents => (parent(path), name.to_owned()),
            _ => (path, OsString::from(".")),
        };
        let directory = enter(&resolve(above)?).map_err(failed(path))?;
        let source = Source::open(directory, name.clone(), path.to_owned()).map_err(failed(path))?;
        Ok(Self { source, name, shown: path.display().to_string() })
    }
}

impl Engine {
    /// Opens what a user wants to copy into a sandbox. A link that a sandbox could have put there may not lead out of what
    /// that sandbox can write.
    pub fn open_copy_source(&self, path: &Path) -> Result<CopySource, EngineError> {
        CopySource::open_with(path, |above| self.trusted_path(above).map_err(failed(path))?)
    }

    /// Opens where a user wants a copy to go, by the same rule.
    pub fn open_copy_target(&self, path: &Path) -> Result<CopyTarget, EngineError> {
        if path.is_dir() {
            let real = self.trusted_path(path).map_err(failed(path))??;
            return Ok(CopyTarget { directory: enter_to_write(&real).map_err(failed(path))?, name: None });
        }
        let name = path.file_name().ok_or_else(|| failed(path)(io::Error::other("is not a file name")))?;
        let real = self.trusted_path(parent(path)).map_err(failed(path))??;
        let directory = enter_to_write(&real).map_err(failed(path))?;
        Ok(CopyTarget { directory, name: Some(name.to_owned()) })
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Holds a directory open that a path without links leads to. It cannot be listed by this.
fn enter(real: &Path) -> io::Result<OwnedFd> {
    let real = HostPath::new(real).map_err(io::Error::other)?;
    Ok(bound_path::open_without_links(&real).map_err(io::Error::other)?.into_descriptor())
}

/// The same, to be written into.
fn enter_to_write(real: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(enter(real)?, ".", flags, Mode::empty())?.into())
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> EngineError {
    let path = path.display().to_string();
    move |error| EngineError::Copy { path, reason: error.to_string() }
}
