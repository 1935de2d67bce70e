//! Files that Git LFS keeps beside the repository, by the SHA-256 of their content.
//!
//! A file passes as one line, `OID SIZE`, and then its bytes.

use super::git::{Git, GitFailure};
use super::records::Records;
use super::working_tree::WorkingTree;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// Where Git LFS keeps them, in the common git directory.
const DIRECTORY: &str = "lfs/objects";
/// More are not listed.
const MAX_FILES: usize = 100_000;

fn is_oid(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn place(common: &Path, oid: &str) -> PathBuf {
    common.join(DIRECTORY).join(&oid[..2]).join(&oid[2..4]).join(oid)
}

/// All that there are, with their sizes.
pub(crate) fn listed(common: &Path) -> Vec<(String, u64)> {
    let below = |directory: PathBuf| fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for first in below(common.join(DIRECTORY)) {
        for second in below(first.path()) {
            for file in below(second.path()) {
                let name = file.file_name().to_string_lossy().into_owned();
                if let Ok(metadata) = file.metadata()
                    && is_oid(&name)
                    && found.len() < MAX_FILES
                {
                    found.push((name, metadata.len()));
                }
            }
        }
    }
    found
}

/// Writes the files to standard output whose ids are on standard input, a line each.
pub(crate) fn send(directory: &Path) -> io::Result<()> {
    let common = WorkingTree::open(directory)?.common;
    let mut output = io::stdout().lock();
    for oid in io::stdin().lock().lines() {
        let oid = oid?;
        if !is_oid(&oid) {
            continue;
        }
        let Ok(file) = File::open(place(&common, &oid)) else { continue };
        let size = file.metadata()?.len();
        writeln!(output, "{oid} {size}")?;
        io::copy(&mut file.take(size), &mut output)?;
    }
    output.flush()
}

/// Takes files from standard input. The answer is `lfs` when the sandbox has Git LFS, whose filters are set up then.
pub(crate) fn receive(directory: &Path) -> Result<Vec<u8>, GitFailure> {
    let failed = |error: io::Error| GitFailure::new("receive large files", error.to_string());
    let common = WorkingTree::open(directory).map_err(failed)?.common;
    let mut input = BufReader::new(io::stdin().lock());
    let mut line = String::new();
    while input.read_line(&mut line).map_err(failed)? > 0 {
        let (oid, size) = line.trim_end().split_once(' ').unwrap_or_default();
        let size: u64 =
            size.parse().map_err(|_| GitFailure::new("receive large files", "a bad size".into()))?;
        if !is_oid(oid) {
            return Err(GitFailure::new("receive large files", "a bad id".into()));
        }
        let place = place(&common, oid);
        write(&place, &mut input.by_ref().take(size)).map_err(failed)?;
        line.clear();
    }
    let git = Git::at(directory);
    let has_program = git.run(&["lfs", "version"]).is_ok();
    if has_program {
        for (key, value) in [
            ("filter.lfs.clean", "git-lfs clean -- %f"),
            ("filter.lfs.smudge", "git-lfs smudge -- %f"),
            ("filter.lfs.process", "git-lfs filter-process"),
            ("filter.lfs.required", "true"),
            // What is not here stays a pointer.
            ("lfs.skipdownloaderrors", "true"),
        ] {
            git.run(&["config", "--local", key, value])?;
        }
    }
    let mut records = Records::default();
    records.add(&[if has_program { b"lfs" } else { b"none" }]);
    Ok(records.into_bytes())
}

fn write(place: &Path, from: &mut impl Read) -> io::Result<()> {
    if let Some(directory) = place.parent() {
        fs::create_dir_all(directory)?;
    }
    let passing = place.with_extension("palisade");
    let mut file = File::create(&passing)?;
    io::copy(from, &mut file)?;
    fs::rename(passing, place)
}
