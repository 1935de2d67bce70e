//! The guest's reader. The guest is a program without a library, so the reader is compiled in here from its own file.

use std::io::{self, Read};
use std::path::Path;

#[path = "../../../guest/src/archive/unpack.rs"]
#[allow(dead_code, reason = "the program starts at a function that reads its standard input")]
mod unpack;

pub(super) fn unpack(place: &Path, stream: impl Read) -> io::Result<bool> {
    unpack::unpack(place, stream)
}

/// Where the program tells on its standard error what it left out.
fn complain(_name: &Path, _error: &io::Error) {}
