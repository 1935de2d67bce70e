//! The first line of a script: which program runs it.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Interpreter {
    Path(PathBuf),
    /// Through `env`, which looks for it by name.
    Named(OsString),
}

/// As much of a file as the kernel looks at.
const HEAD: u64 = 256;

pub(super) fn interpreter(file: &Path) -> Option<Interpreter> {
    let mut head = Vec::new();
    std::fs::File::open(file).ok()?.take(HEAD).read_to_end(&mut head).ok()?;
    parse(&head)
}

fn parse(head: &[u8]) -> Option<Interpreter> {
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let program = PathBuf::from(OsString::from_vec(words.next()?.to_vec()));
    if !program.is_absolute() {
        return None;
    }
    if program.file_name() != Some(OsStr::new("env")) {
        return Some(Interpreter::Path(program));
    }
    // Options (`-S` joins what follows) and assignments come before the name.
    let name = words
        .map(|word| word.strip_prefix(b"-S").unwrap_or(word))
        .find(|word| !word.is_empty() && !word.starts_with(b"-") && !word.contains(&b'='))?;
    match Path::new(OsStr::from_bytes(name)) {
        path if path.is_absolute() => Some(Interpreter::Path(path.to_owned())),
        name => Some(Interpreter::Named(name.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_is_read_as_kernel_and_env_read_it() {
        let path = |text: &str| Some(Interpreter::Path(text.into()));
        let named = |text: &str| Some(Interpreter::Named(text.into()));
        for (head, expected) in [
            ("#!/bin/sh\necho", path("/bin/sh")),
            ("#! /opt/x y -z\n", path("/opt/x")),
            ("#!/usr/bin/env node\n", named("node")),
            ("#!/usr/bin/env -S node --flag\n", named("node")),
            ("#!/usr/bin/env -Snode --flag\n", named("node")),
            ("#!/usr/bin/env -i A=b /opt/node\n", path("/opt/node")),
            ("#!/usr/bin/env\n", None),
            ("#!relative\n", None),
            ("\x7fELF", None),
            ("", None),
        ] {
            assert_eq!(parse(head.as_bytes()), expected, "{head:?}");
        }
    }
}
