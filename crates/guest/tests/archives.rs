//! Trees in and out as tar streams, with names and links that try to get in the way.

#![allow(unsafe_code, reason = "the support module prepares a descriptor between fork and exec")]
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod support;

use palisade_protocol::message::decode_window;
use palisade_protocol::{Kind, Open, RefusalCode, flow};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use support::{Guest, Outcome, code};

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

fn pack(guest: &mut Guest, path: &Path) -> Outcome {
    let stream = guest.accepted(&Open::TarOut { path: bytes(path) });
    guest.finish(stream)
}

fn unpack(guest: &mut Guest, path: &Path, tar: &[u8]) -> Outcome {
    let stream = guest.accepted(&Open::TarIn { path: bytes(path) });
    let mut credit = flow::INITIAL as usize;
    for piece in tar.chunks(32_768) {
        while credit < piece.len() {
            let frame = guest.receive_on(stream);
            assert_eq!(frame.kind, Kind::Window);
            credit += decode_window(&frame.payload).unwrap().1 as usize;
        }
        credit -= piece.len();
        guest.send_data(stream, piece);
    }
    guest.end_input(stream);
    guest.finish(stream)
}

/// What a tree holds: for each name its permissions and its content, the target of a link, or nothing.
fn tree(root: &Path) -> BTreeMap<PathBuf, (u32, Option<Vec<u8>>)> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let content = if metadata.is_symlink() {
                Some(bytes(&path.read_link().unwrap()))
            } else if metadata.is_dir() {
                open.push(path.clone());
                None
            } else {
                Some(std::fs::read(&path).unwrap())
            };
            found.insert(path.strip_prefix(root).unwrap().to_owned(), (metadata.mode() & 0o7777, content));
        }
    }
    found
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_tree_with_odd_names_comes_back_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("source/work");
    std::fs::create_dir_all(source.join("empty")).unwrap();
    std::fs::create_dir(directory.path().join("target")).unwrap();
    std::fs::write(source.join("large"), (0..3_000_000u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>())
        .unwrap();
    std::fs::write(source.join("nothing"), "").unwrap();
    std::fs::write(source.join("run"), "#!/bin/sh\n").unwrap();
    set_mode(&source.join("run"), 0o750);
    std::fs::write(source.join(OsStr::from_bytes(b"\xff\xfe \n\"*")), "not a text").unwrap();
    std::fs::write(source.join("-rf"), "a dash").unwrap();
    symlink("large", source.join("link")).unwrap();
    symlink("./../work//large", source.join("winding")).unwrap();
    symlink("/nowhere/".repeat(60), source.join("far")).unwrap();
    symlink(".", source.join("circle")).unwrap();
    let mut deep = source.clone();
    while deep.as_os_str().len() + 201 < 4000 {
        deep.push("d".repeat(200));
    }
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("bottom"), "deep").unwrap();
    std::fs::create_dir(source.join("closed")).unwrap();
    std::fs::write(source.join("closed/inner"), "inner").unwrap();
    set_mode(&source.join("closed"), 0o555);

    let mut guest = Guest::start();
    let packed = pack(&mut guest, &source);
    assert_eq!((packed.text().1, packed.exit), (String::new(), code(0)));
    let target = directory.path().join("target");
    let unpacked = unpack(&mut guest, &target, &packed.output);
    assert_eq!(unpacked.text(), (String::new(), String::new(), code(0)));
    assert!(tree(&target) == tree(source.parent().unwrap()));
    let modified = |path: PathBuf| path.metadata().unwrap().mtime();
    assert_eq!(modified(target.join("work/run")), modified(source.join("run")));
    // So that it can be removed by whoever runs this.
    set_mode(&source.join("closed"), 0o755);
    set_mode(&target.join("work/closed"), 0o755);
}

#[test]
fn what_a_tar_stream_should_not_carry_is_skipped_and_told() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("source");
    std::fs::create_dir(&source).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(source.join("socket")).unwrap();
    std::fs::write(source.join("tool"), "x").unwrap();
    set_mode(&source.join("tool"), 0o6755);
    let mut guest = Guest::start();
    let fifo = format!("mkfifo {}/fifo", source.display());
    assert_eq!(guest.sh(&fifo).exit, code(0));
    let packed = pack(&mut guest, &source);
    let skipped = "skipped: neither a file nor a directory nor a link";
    assert_eq!(packed.text().1, format!("\"source/fifo\": {skipped}\n\"source/socket\": {skipped}\n"));
    assert_eq!(packed.exit, code(0));
    let mut archive = tar::Archive::new(packed.output.as_slice());
    let entries: Vec<_> = archive
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.path().unwrap().into_owned(), entry.header().mode().unwrap()))
        .collect();
    assert_eq!(entries, [(PathBuf::from("source"), 0o755), (PathBuf::from("source/tool"), 0o755)]);
}

#[test]
fn a_single_file_or_link_is_a_tree_too() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("target");
    std::fs::create_dir(&target).unwrap();
    std::fs::write(directory.path().join("file"), "content").unwrap();
    symlink("file", directory.path().join("link")).unwrap();
    let mut guest = Guest::start();
    for name in ["file", "link"] {
        let packed = pack(&mut guest, &directory.path().join(name));
        assert_eq!(unpack(&mut guest, &target, &packed.output).exit, code(0));
    }
    assert_eq!(std::fs::read_to_string(target.join("file")).unwrap(), "content");
    assert_eq!(target.join("link").read_link().unwrap(), Path::new("file"));
}

#[test]
fn what_is_not_there_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("file"), "").unwrap();
    let mut guest = Guest::start();
    let missing = bytes(&directory.path().join("missing"));
    let file = bytes(&directory.path().join("file"));
    let mut why = |open: &Open| {
        let refusal = guest.refused(open);
        (refusal.code, refusal.errno)
    };
    assert_eq!(why(&Open::TarOut { path: missing.clone() }), (RefusalCode::NotFound, libc::ENOENT));
    assert_eq!(why(&Open::TarIn { path: missing }), (RefusalCode::NotFound, libc::ENOENT));
    assert_eq!(why(&Open::TarIn { path: file }), (RefusalCode::NotFound, libc::ENOTDIR));
}

/// An archive of one entry whose name and link are exactly these bytes, as no honest writer makes it.
fn crafted(kind: tar::EntryType, name: &[u8], link: &[u8], mode: u32, content: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    header.set_mode(mode);
    header.set_mtime(0);
    let old = header.as_old_mut();
    old.name[..name.len()].copy_from_slice(name);
    old.linkname[..link.len()].copy_from_slice(link);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

#[test]
fn nothing_is_written_outside_the_directory_nor_through_a_link() {
    use tar::EntryType::{Directory, Link, Regular, Symlink};
    let directory = tempfile::tempdir().unwrap();
    let (target, outside) = (directory.path().join("target"), directory.path().join("outside"));
    std::fs::create_dir(&target).unwrap();
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("victim"), "untouched").unwrap();
    symlink(&outside, target.join("planted")).unwrap();
    symlink(outside.join("victim"), target.join("replaced")).unwrap();
    let absolute = bytes(&outside.join("absolute"));
    let mut guest = Guest::start();
    for hostile in [
        crafted(Regular, b"../outside/above", b"", 0o644, b"x"),
        crafted(Regular, b"a/../../outside/above", b"", 0o644, b"x"),
        crafted(Regular, &absolute, b"", 0o644, b"x"),
        crafted(Regular, b"planted/through", b"", 0o644, b"x"),
        crafted(Directory, b"planted/directory", b"", 0o755, b""),
        crafted(Directory, b"planted", b"", 0o700, b""),
        crafted(Link, b"hard", b"../outside/victim", 0o644, b""),
        crafted(Regular, b"..", b"", 0o644, b"x"),
        [
            crafted(Symlink, b"own", b"../outside", 0o777, b""),
            crafted(Regular, b"own/file", b"", 0o644, b"x"),
        ]
        .concat(),
    ] {
        let outcome = unpack(&mut guest, &target, &hostile);
        assert_eq!(outcome.exit, code(1));
        assert!(!outcome.error.is_empty(), "it says why");
    }
    let replacing = crafted(Regular, b"replaced", b"", 0o6777, b"new");
    assert_eq!(unpack(&mut guest, &target, &replacing).exit, code(0));
    let replaced = target.join("replaced").symlink_metadata().unwrap();
    assert!(replaced.is_file());
    assert_eq!(replaced.mode() & 0o7777, 0o777, "nobody gains by set-user-id");
    let victim = (PathBuf::from("victim"), (0o644, Some(b"untouched".to_vec())));
    assert_eq!(tree(&outside), BTreeMap::from([victim]));
    let left: Vec<PathBuf> = tree(&target).into_keys().collect();
    assert_eq!(left, ["own", "planted", "replaced"].map(PathBuf::from), "no temporary file is left");
}

#[test]
fn a_stream_that_breaks_off_leaves_no_half_file() {
    let directory = tempfile::tempdir().unwrap();
    let mut cut = crafted(tar::EntryType::Regular, b"file", b"", 0o644, &[7; 10_000]);
    cut.truncate(5_000);
    let mut guest = Guest::start();
    assert_eq!(unpack(&mut guest, directory.path(), &cut).exit, code(1));
    assert_eq!(tree(directory.path()), BTreeMap::new());
}
