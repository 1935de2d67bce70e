use super::entry::{EntryKind, Manifest, ManifestEntry, Stamp};
use super::walk::{self, WalkError, WalkLimits};
use crate::wrapper::Word;
use rustix::fd::AsFd;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

#[test]
fn a_manifest_reads_back_as_it_was_written() {
    let stamp = |kind| Stamp { kind, mode: 0o640, size: 7, modified: -5, changed: 9, inode: 3, target: None };
    let link = Stamp { target: Some(Word::Bytes(vec![0xff, b'/'])), ..stamp(EntryKind::Link) };
    let names = [&b"plain"[..], b"\xff\xfe/below", b"a\nb"];
    let entry = |name: &&[u8]| {
        let entry = ManifestEntry { host: stamp(EntryKind::File), copy: link.clone() };
        (PathBuf::from(OsStr::from_bytes(name)), entry)
    };
    let manifest = Manifest { entries: names.iter().map(entry).collect() };
    assert_eq!(Manifest::from_bytes(&manifest.to_bytes().unwrap()).unwrap(), manifest);
}

#[test]
fn a_tree_with_more_than_the_limits_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        std::fs::write(directory.path().join(name), "x").unwrap();
    }
    let root = palisade_host::beneath::root(directory.path()).unwrap();
    let list = |entries, path_bytes| {
        walk::list(root.as_fd(), |path| path == Path::new("c"), WalkLimits { entries, path_bytes })
    };
    assert_eq!(list(2, 2).unwrap().entries.len(), 2);
    assert!(matches!(list(1, 100), Err(WalkError::TooMany)));
    assert!(matches!(list(100, 1), Err(WalkError::TooMany)));
}

#[test]
fn a_tree_is_listed_without_following_links_and_special_files_stand_apart() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("d")).unwrap();
    std::os::unix::fs::symlink("/etc", directory.path().join("link")).unwrap();
    let pipe = directory.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let root = palisade_host::beneath::root(directory.path()).unwrap();
    let listing = walk::list(root.as_fd(), |_| false, WalkLimits::default()).unwrap();
    let kinds: Vec<_> =
        listing.entries.iter().map(|(path, stamp)| (path.to_str().unwrap(), stamp.kind)).collect();
    assert_eq!(kinds, [("d", EntryKind::Directory), ("link", EntryKind::Link)]);
    assert_eq!(listing.special, [Path::new("pipe")]);
    // A link on the way is not followed, either.
    assert!(walk::open_directory(root.as_fd(), Path::new("link")).is_err());
}
