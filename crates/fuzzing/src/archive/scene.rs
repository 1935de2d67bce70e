//! A directory to unpack into, prepared to lead astray, beside one that nothing may touch.

use palisade_host::tree;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

const SECRET: &str = "not yours";

/// Links in the place before anything is unpacked, and where they lead.
const LINKS: [(&str, &str); 3] =
    [("away", "../outside"), ("file", "../outside/secret"), ("tree/away", "../../outside")];
const FIFO: &str = "fifo";

pub(super) struct Scene {
    root: PathBuf,
}

/// One thing in the place, with its path from there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) path: Vec<u8>,
    pub(super) name: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) size: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    File,
    /// Where it leads.
    Link(Vec<u8>),
    Fifo,
    Other,
}

impl Scene {
    pub(super) fn set() -> Self {
        let root = tempfile::Builder::new().prefix("fz").tempdir().unwrap().keep();
        std::fs::create_dir(root.join("outside")).unwrap();
        std::fs::write(root.join("outside/secret"), SECRET).unwrap();
        let place = root.join("place");
        std::fs::create_dir_all(place.join("tree")).unwrap();
        for (name, leads_to) in LINKS {
            symlink(leads_to, place.join(name)).unwrap();
        }
        let fifo = place.join(FIFO);
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        Self { root }
    }

    pub(super) fn place(&self) -> PathBuf {
        self.root.join("place")
    }

    /// Whether it was there before, and the same.
    pub(super) fn planted(&self, found: &Found) -> bool {
        match &found.kind {
            Kind::Link(target) => LINKS
                .iter()
                .any(|(name, leads_to)| found.path == name.as_bytes() && target == leads_to.as_bytes()),
            Kind::Fifo => found.path == FIFO.as_bytes(),
            _ => false,
        }
    }

    pub(super) fn assert_outside_untouched(&self) {
        assert_eq!(names(&self.root), ["outside", "place"]);
        let outside = self.root.join("outside");
        assert_eq!(names(&outside), ["secret"]);
        let secret = outside.join("secret");
        let meta = std::fs::symlink_metadata(&secret).unwrap();
        assert!(meta.is_file() && meta.nlink() == 1, "{meta:?}");
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), SECRET);
    }

    /// Everything in the place, without following anything. Directories may be closed to their owner, so each is
    /// opened up once it has been noted.
    pub(super) fn found(&self) -> Vec<Found> {
        let mut found = Vec::new();
        let top = rustix::fs::open(self.place(), DIRECTORY, Mode::empty()).unwrap();
        // Depth first, with the directories on the way down held open: a path from the top may be too long to open.
        let mut levels = vec![level(top, Vec::new(), &mut found)];
        while let Some(Level { directory, path, below }) = levels.last_mut() {
            let Some(name) = below.pop() else {
                levels.pop();
                continue;
            };
            let opened = rustix::fs::openat(&*directory, name.as_slice(), DIRECTORY, Mode::empty()).unwrap();
            let path = joined(path, &name);
            let next = level(opened, path, &mut found);
            levels.push(next);
        }
        found
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        tree::remove(&self.root).unwrap();
    }
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

struct Level {
    directory: OwnedFd,
    path: Vec<u8>,
    /// Directories still to look into.
    below: Vec<Vec<u8>>,
}

fn level(directory: OwnedFd, path: Vec<u8>, found: &mut Vec<Found>) -> Level {
    let mut below = Vec::new();
    for entry in Dir::read_from(&directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_bytes().to_vec();
        if name == b"." || name == b".." {
            continue;
        }
        let stat = rustix::fs::statat(&directory, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW).unwrap();
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let open = Mode::from_raw_mode(0o700);
                rustix::fs::chmodat(&directory, name.as_slice(), open, AtFlags::empty()).unwrap();
                below.push(name.clone());
                Kind::Directory
            }
            // A second name of a file elsewhere would be a way out.
            FileType::RegularFile if stat.st_nlink == 1 => Kind::File,
            FileType::Symlink => Kind::Link(
                rustix::fs::readlinkat(&directory, name.as_slice(), Vec::new()).unwrap().into_bytes(),
            ),
            FileType::Fifo => Kind::Fifo,
            _ => Kind::Other,
        };
        let (mode, size) = (stat.st_mode & 0o7777, u64::try_from(stat.st_size).unwrap());
        found.push(Found { path: joined(&path, &name), name, kind, mode, size });
    }
    Level { directory, path, below }
}

fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() }
}

fn names(directory: &Path) -> Vec<OsString> {
    let mut names: Vec<OsString> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}
