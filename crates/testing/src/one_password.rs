//! A stand-in for 1Password's own program `op`, which cannot be had here.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Lays a stand-in for `op` in a directory: a script that gets `read --no-newline ADDRESS`, with the address in `$3`. It
/// says so when it is called in any other way.
pub fn one_password_stand_in(directory: &Path, script: &str) -> PathBuf {
    let program = directory.join("op");
    let text = format!("#!/bin/sh\n[ \"$1 $2\" = 'read --no-newline' ] || exit 99\n{script}\n");
    fs::create_dir_all(directory).expect("a directory for the stand-in");
    fs::write(&program, text).expect("write the stand-in");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("make it executable");
    program
}
