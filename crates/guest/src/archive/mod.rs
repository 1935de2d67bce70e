//! Trees as tar streams, made and unpacked by a child, so that a slow disk never holds up the loop.

mod pack;
mod unpack;

use crate::command::{Command, Output, refusal};
use crate::spawn::{Spawner, failure};
use palisade_protocol::{Refusal, RefusalCode};
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The tree at `path`, towards the host.
pub(crate) fn pack(path: Vec<u8>, spawner: &mut Spawner) -> Result<Command, Refusal> {
    let path = PathBuf::from(OsString::from_vec(path));
    std::fs::symlink_metadata(&path).map_err(|error| not_found(&error))?;
    Command::with_pipes(false, Output::Sent, |wiring| spawner.function(wiring, || pack::run(&path)))
        .map_err(|error| refusal(&error))
}

/// A tree from the host, below the existing directory `path`.
pub(crate) fn unpack(path: Vec<u8>, spawner: &mut Spawner) -> Result<Command, Refusal> {
    let path = PathBuf::from(OsString::from_vec(path));
    let directory = std::fs::metadata(&path).map_err(|error| not_found(&error))?;
    if !directory.is_dir() {
        return Err(failure(RefusalCode::NotFound, libc::ENOTDIR));
    }
    Command::with_pipes(true, Output::None, |wiring| spawner.function(wiring, || unpack::run(&path)))
        .map_err(|error| refusal(&error))
}

fn not_found(error: &io::Error) -> Refusal {
    let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
    let code = match errno {
        libc::ENOENT | libc::ENOTDIR => RefusalCode::NotFound,
        _ => RefusalCode::Failed,
    };
    failure(code, errno)
}

/// In a child: a line about one entry. Names are shown escaped, for they may be anything.
fn complain(name: &Path, error: &io::Error) {
    let _ = writeln!(io::stderr(), "{name:?}: {error}");
}
