//! What was laid into a working tree, so that the next time knows its own files from the user's.
//!
//! A file in the repository's own directory, to which a line is added *before* a file is laid: a process that is killed
//! in between has recorded too much, which costs nothing, and never too little. When all is laid it is written anew, with
//! what is still there. It is kept by the sandbox's id, so that another of the same name does not take its files for its
//! own.

use palisade_host::beneath;
use palisade_host::digest::Digest;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The first line; another one is another format, and such a file is begun anew.
const HEADER: &[u8] = b"palisade-artifacts 1\n";

/// What a file or a link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fingerprint {
    File(Digest),
    Link(Digest),
}

impl Fingerprint {
    pub fn of_file(file: impl Read) -> io::Result<Self> {
        Digest::of(file).map(Self::File)
    }

    pub fn of_link(target: &OsStr) -> Self {
        Self::Link(Digest::of_bytes(target.as_bytes()))
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let (kind, digest) = text.split_first()?;
        let digest = Digest::parse(digest)?;
        match kind {
            b'f' => Some(Self::File(digest)),
            b'l' => Some(Self::Link(digest)),
            _ => None,
        }
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(digest) => write!(f, "f{digest}"),
            Self::Link(digest) => write!(f, "l{digest}"),
        }
    }
}

/// Held by one at a time, until dropped.
#[derive(Debug)]
pub struct Memory {
    directory: OwnedFd,
    name: String,
    journal: File,
    /// What may lie there and be ours; the last one is the latest.
    known: BTreeMap<PathBuf, Vec<Fingerprint>>,
    /// What was met this time.
    met: BTreeSet<PathBuf>,
}

impl Memory {
    /// `None` while somebody else has it.
    pub fn open(place: &Path, name: &str) -> io::Result<Option<Self>> {
        match rustix::fs::mkdir(place, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let directory = beneath::root(place)?;
        match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            locked => locked?,
        }
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&directory, name, flags, Mode::from_raw_mode(0o600))?;
        let mut journal = File::from(file);
        let mut bytes = Vec::new();
        journal.read_to_end(&mut bytes)?;
        let parsed = parse(&bytes);
        // It is new, makes no sense, or somebody was killed in the middle of a line.
        let whole = parsed.is_some() && (bytes.ends_with(b"\0") || bytes == HEADER);
        let known = parsed.unwrap_or_default();
        let mut memory = Self { directory, name: name.to_owned(), journal, known, met: BTreeSet::new() };
        if !whole {
            memory.write()?;
        }
        Ok(Some(memory))
    }

    /// Whether what lies at a path was laid there by us.
    pub fn knows(&self, path: &Path, found: Fingerprint) -> bool {
        self.known.get(path).is_some_and(|known| known.contains(&found))
    }

    /// Before it is laid, or when it lies there already.
    pub fn record(&mut self, path: &Path, laid: Fingerprint) -> io::Result<()> {
        let known = self.known.entry(path.to_owned()).or_default();
        if known.last() != Some(&laid) {
            known.retain(|other| *other != laid);
            known.push(laid);
            self.journal.write_all(&line(path, laid))?;
        }
        self.met.insert(path.to_owned());
        Ok(())
    }

    /// All is laid: only the latest counts, and what is gone from the tree at `root` is forgotten.
    pub fn settle(mut self, root: &Path) -> io::Result<()> {
        let root = beneath::root(root)?;
        let there = |path: &Path| beneath::open(root.as_fd(), path, OFlags::PATH).is_ok();
        let met = std::mem::take(&mut self.met);
        self.known.retain(|path, known| {
            known.drain(..known.len().saturating_sub(1));
            met.contains(path) || there(path)
        });
        self.write()
    }

    /// In one step.
    fn write(&mut self) -> io::Result<()> {
        let fresh = format!("{}.new", self.name);
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::TRUNC;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, &fresh, flags, Mode::from_raw_mode(0o600))?;
        let mut file = File::from(file);
        let mut bytes = HEADER.to_vec();
        for (path, known) in &self.known {
            known.iter().for_each(|fingerprint| bytes.extend(line(path, *fingerprint)));
        }
        let written = file
            .write_all(&bytes)
            .and_then(|()| Ok(rustix::fs::renameat(&self.directory, &fresh, &self.directory, &self.name)?));
        if written.is_err() {
            let _ = rustix::fs::unlinkat(&self.directory, &fresh, AtFlags::empty());
        }
        self.journal = file;
        written
    }
}

/// `f<digest> <path> NUL`; a path holds anything but a NUL.
fn line(path: &Path, fingerprint: Fingerprint) -> Vec<u8> {
    [fingerprint.to_string().as_bytes(), b" ", path.as_os_str().as_bytes(), b"\0"].concat()
}

fn parse(bytes: &[u8]) -> Option<BTreeMap<PathBuf, Vec<Fingerprint>>> {
    let mut known: BTreeMap<PathBuf, Vec<Fingerprint>> = BTreeMap::new();
    // What follows the last NUL is nothing, or half a line.
    let lines = bytes.strip_prefix(HEADER)?.split_inclusive(|byte| *byte == 0);
    for line in lines.filter_map(|line| line.strip_suffix(b"\0")) {
        let blank = line.iter().position(|byte| *byte == b' ')?;
        let fingerprint = Fingerprint::parse(&line[..blank])?;
        let path = Path::new(OsStr::from_bytes(&line[blank + 1..]));
        known.entry(path.to_owned()).or_default().push(fingerprint);
    }
    Some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(text: &str) -> Fingerprint {
        Fingerprint::of_file(text.as_bytes()).unwrap()
    }

    #[test]
    fn what_was_laid_is_known_also_to_one_who_comes_after_a_kill() {
        let home = tempfile::tempdir().unwrap();
        let (place, tree) = (home.path().join("memory"), home.path().join("tree"));
        std::fs::create_dir(&tree).unwrap();
        let odd = Path::new(OsStr::from_bytes(b"dir/a b\n\xff"));
        let link = Fingerprint::of_link(OsStr::new("one"));
        let open = || Memory::open(&place, "box").unwrap().unwrap();
        let mut first = open();
        assert!(Memory::open(&place, "other").unwrap().is_none(), "one at a time");
        first.record(odd, print("one")).unwrap();
        first.record(odd, print("two")).unwrap();
        first.record(Path::new("link"), link).unwrap();
        drop(first);
        // Killed in the middle of a line.
        let mut half = std::fs::OpenOptions::new().append(true).open(place.join("box")).unwrap();
        half.write_all(b"f00").unwrap();

        let second = open();
        assert!(second.knows(odd, print("one")) && second.knows(odd, print("two")));
        assert!(second.knows(Path::new("link"), link));
        assert!(!second.knows(Path::new("link"), print("one")), "a file is no link");
        assert!(!second.knows(odd, print("three")) && !second.knows(Path::new("dir"), print("one")));
        drop(second);

        std::fs::create_dir(tree.join("dir")).unwrap();
        std::fs::write(tree.join(odd), "two").unwrap();
        open().settle(&tree).unwrap();
        let last = open();
        assert!(last.knows(odd, print("two")) && !last.knows(odd, print("one")), "only the latest counts");
        assert!(!last.knows(Path::new("link"), link), "what is gone is forgotten");
    }

    #[test]
    fn a_file_that_makes_no_sense_is_begun_anew() {
        let home = tempfile::tempdir().unwrap();
        for text in ["nonsense", "palisade-artifacts 2\nf00 x\0", "palisade-artifacts 1\nnonsense\0"] {
            std::fs::write(home.path().join("box"), text).unwrap();
            let mut memory = Memory::open(home.path(), "box").unwrap().unwrap();
            assert!(memory.known.is_empty(), "{text:?}");
            memory.record(Path::new("x"), print("x")).unwrap();
            drop(memory);
            let memory = Memory::open(home.path(), "box").unwrap().unwrap();
            assert!(memory.knows(Path::new("x"), print("x")), "{text:?}");
        }
    }
}
