use super::super::{Anything, CopyLimits, CopyReport, Skipped};
use super::*;
use std::os::unix::fs::{MetadataExt, symlink};

fn archive(build: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    build(&mut builder);
    builder.into_inner().unwrap()
}

/// An entry whose header says whatever a hostile guest likes.
fn raw(
    builder: &mut tar::Builder<Vec<u8>>,
    path: &[u8],
    kind: EntryType,
    link: &str,
    mode: u32,
    data: &[u8],
) {
    let mut header = tar::Header::new_gnu();
    header.as_mut_bytes()[..path.len()].copy_from_slice(path);
    header.set_entry_type(kind);
    if !link.is_empty() {
        header.set_link_name(link).unwrap();
    }
    header.set_mode(mode);
    header.set_size(data.len() as u64);
    header.set_cksum();
    builder.append(&header, data).unwrap();
}

fn unpack(bytes: &[u8], place: &Path, rename: Option<&str>) -> CopyReport {
    let top = rename.map_or(Top::Keep, |name| Top::Names(vec![name.into()]));
    let mut landing = landing(place, top, CopyLimits::NONE);
    extract(bytes, &mut landing).unwrap();
    landing.report
}

fn landing(place: &Path, top: Top, limits: CopyLimits) -> Landing<Anything> {
    let reception = Anything { top: top.names() };
    Landing::new(std::fs::File::open(place).unwrap(), top, limits, reception)
}

fn anything(place: &Path) -> Landing<Anything> {
    landing(place, Top::Keep, CopyLimits::NONE)
}

#[test]
fn files_and_directories_arrive_and_special_bits_and_strangers_permissions_do_not() {
    let place = tempfile::tempdir().unwrap();
    let bytes = archive(|builder| {
        raw(builder, b"top", EntryType::Directory, "", 0o755, b"");
        raw(builder, b"top/run", EntryType::Regular, "", 0o7777, b"#!/bin/sh\n");
    });
    let report = unpack(&bytes, place.path(), None);
    assert_eq!((report.files, report.bytes, report.skipped), (1, 10, vec![]));
    let meta = std::fs::metadata(place.path().join("top/run")).unwrap();
    assert_eq!(meta.mode() & 0o7777, 0o755);
}

#[test]
fn a_new_name_replaces_only_the_top() {
    let place = tempfile::tempdir().unwrap();
    let bytes = archive(|builder| raw(builder, b"top/top", EntryType::Regular, "", 0o644, b"x"));
    unpack(&bytes, place.path(), Some("fresh"));
    assert!(place.path().join("fresh/top").is_file());
}

#[test]
fn the_contents_of_a_directory_go_straight_into_the_place() {
    let place = tempfile::tempdir().unwrap();
    let bytes = archive(|builder| {
        raw(builder, b"top", EntryType::Directory, "", 0o755, b"");
        raw(builder, b"top/a/b", EntryType::Regular, "", 0o644, b"x");
    });
    let mut landing = landing(place.path(), Top::Names(Vec::new()), CopyLimits::NONE);
    extract(&bytes[..], &mut landing).unwrap();
    assert_eq!((landing.report.files, landing.report.skipped), (1, vec![]));
    assert!(place.path().join("a/b").is_file() && !place.path().join("top").exists());
}

#[test]
fn nothing_outside_is_ever_written_and_everything_left_out_is_told() {
    let root = tempfile::tempdir().unwrap();
    let (place, outside) = (root.path().join("place"), root.path().join("outside"));
    std::fs::create_dir(&place).unwrap();
    std::fs::create_dir(&outside).unwrap();
    symlink(&outside, place.join("planted")).unwrap();
    let target = outside.join("hit").display().to_string();
    let bytes = archive(|builder| {
        raw(builder, b"../hit", EntryType::Regular, "", 0o644, b"x");
        raw(builder, target.as_bytes(), EntryType::Regular, "", 0o644, b"x");
        raw(builder, b"planted/hit", EntryType::Regular, "", 0o644, b"x");
        raw(builder, b"link", EntryType::Symlink, &outside.display().to_string(), 0o777, b"");
        raw(builder, b"link/hit", EntryType::Regular, "", 0o644, b"x");
        raw(builder, b"hard", EntryType::Link, "/etc/passwd", 0o644, b"");
        raw(builder, b"fifo", EntryType::Fifo, "", 0o644, b"");
        raw(builder, b"device", EntryType::Char, "", 0o644, b"");
        raw(builder, b"good\x1b[31m", EntryType::Regular, "", 0o644, b"x");
    });
    let report = unpack(&bytes, &place, None);
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    let skipped: Vec<&str> = report.skipped.iter().map(|skipped| skipped.path.as_str()).collect();
    assert_eq!(skipped, ["../hit", &target, "planted/hit", "link", "hard", "fifo", "device"]);
    // The name `link` was free again, so what lies below it is an ordinary directory.
    assert!(place.join("link/hit").is_file() && !place.join("link").is_symlink());
    assert_eq!(report.files, 2);
}

#[test]
fn what_is_no_plain_file_of_the_hosts_stays_and_is_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let (place, outside) = (root.path().join("place"), root.path().join("secret"));
    std::fs::create_dir(&place).unwrap();
    std::fs::write(&outside, "mine").unwrap();
    std::fs::write(place.join("file"), "old").unwrap();
    symlink(&outside, place.join("link")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, place.join("pipe"), rustix::fs::FileType::Fifo, Mode::RWXU, 0)
        .unwrap();
    let bytes = archive(|builder| {
        for name in ["file", "link", "pipe"] {
            raw(builder, name.as_bytes(), EntryType::Regular, "", 0o644, b"theirs");
        }
        raw(builder, b"pipe", EntryType::Symlink, "file", 0o777, b"");
    });
    let report = unpack(&bytes, &place, None);
    let skipped: Vec<&str> = report.skipped.iter().map(|skipped| skipped.path.as_str()).collect();
    assert_eq!(skipped, ["link", "pipe", "pipe"]);
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "mine");
    assert_eq!(std::fs::read_to_string(place.join("file")).unwrap(), "theirs");
    assert!(place.join("link").is_symlink());
    assert!(!place.join("pipe").is_symlink() && !place.join("pipe").is_file());
}

#[test]
fn permissions_times_and_links_that_stay_are_kept() {
    let place = tempfile::tempdir().unwrap();
    let bytes = archive(|builder| {
        let mut add = |path: &str, kind: EntryType, link: &str, mode: u32, time: u64| {
            let mut header = tar::Header::new_gnu();
            header.set_path(path).unwrap();
            header.set_entry_type(kind);
            if !link.is_empty() {
                header.set_link_name(link).unwrap();
            }
            header.set_mode(mode);
            header.set_mtime(time);
            header.set_size(0);
            header.set_cksum();
            builder.append(&header, &b""[..]).unwrap();
        };
        add("top", EntryType::Directory, "", 0o755, 1_000_000_001);
        add("top/private", EntryType::Directory, "", 0o700, 1_000_000_002);
        add("top/private/file", EntryType::Regular, "", 0o600, 1_000_000_003);
        add("top/open", EntryType::Directory, "", 0o7777, 1_000_000_004);
        add("top/shut", EntryType::Directory, "", 0o000, u64::MAX >> 1);
        add("top/shut/file", EntryType::Regular, "", 0o644, 5);
        add("top/open/stays", EntryType::Symlink, "../private/file", 0o777, 0);
        add("top/open/leaves", EntryType::Symlink, "../../outside", 0o777, 0);
        add("top/open/absolute", EntryType::Symlink, "/etc", 0o777, 0);
        add("top/open/late", EntryType::Symlink, "stays/../../..", 0o777, 0);
    });
    let report = unpack(&bytes, place.path(), None);
    let look = |path: &str| {
        let meta = std::fs::symlink_metadata(place.path().join(path)).unwrap();
        (meta.mode() & 0o7777, meta.mtime())
    };
    assert_eq!(look("top"), (0o755, 1_000_000_001));
    assert_eq!(look("top/private"), (0o700, 1_000_000_002));
    assert_eq!(look("top/private/file"), (0o600, 1_000_000_003));
    assert_eq!(look("top/open").0, 0o755);
    assert_eq!(look("top/shut").0, 0o700, "its owner can remove it");
    assert!(place.path().join("top/shut/file").exists());
    assert_eq!(
        std::fs::read_link(place.path().join("top/open/stays")).unwrap(),
        Path::new("../private/file")
    );
    let skipped: Vec<&str> = report.skipped.iter().map(|skipped| skipped.path.as_str()).collect();
    assert_eq!(skipped, ["top/open/leaves", "top/open/absolute", "top/open/late"]);
}

#[test]
fn only_a_plain_file_is_read_to_a_stream() {
    let read = |bytes: &[u8], limit: u64| {
        let mut sink = Vec::new();
        let limits = CopyLimits { bytes: limit, entries: 1 };
        read_file(bytes, &mut sink, limits)
            .map(|report| (report.bytes, sink))
            .map_err(|stop| stop.to_string())
    };
    let file = archive(|builder| raw(builder, b"file", EntryType::Regular, "", 0o644, b"text"));
    assert_eq!(read(&file, 4), Ok((4, b"text".to_vec())));
    assert!(read(&file, 3).unwrap_err().contains("has 4 bytes"));
    for kind in [EntryType::Directory, EntryType::Symlink, EntryType::Fifo] {
        let other = archive(|builder| raw(builder, b"x", kind, "y", 0o755, b""));
        assert_eq!(read(&other, 4), Err("it is not a plain file".into()));
    }
    let two = archive(|builder| {
        raw(builder, b"a", EntryType::Regular, "", 0o644, b"1");
        raw(builder, b"b", EntryType::Regular, "", 0o644, b"2");
    });
    assert_eq!(read(&two, 4), Err("it is not a plain file".into()));
    assert!(read(&file[..514], 4).is_err());
}

#[test]
fn a_stream_that_breaks_off_leaves_no_partial_file() {
    let place = tempfile::tempdir().unwrap();
    let bytes = archive(|builder| raw(builder, b"big", EntryType::Regular, "", 0o644, &[7; 5000]));
    let cut = &bytes[..2000];
    assert!(extract(cut, &mut anything(place.path())).is_err());
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

/// Counts what is taken from it.
struct Endless<'a> {
    start: &'a [u8],
    taken: u64,
}

impl Read for Endless<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.start.chain(io::repeat(b'a')).read(buffer)?;
        self.start = &self.start[count.min(self.start.len())..];
        self.taken += count as u64;
        Ok(count)
    }
}

#[test]
fn a_name_without_end_is_refused_after_what_a_name_may_take() {
    for kind in [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader] {
        let place = tempfile::tempdir().unwrap();
        let bytes = archive(|builder| {
            raw(builder, b"first", EntryType::Regular, "", 0o644, &[7; 600 * 1024]);
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(1 << 40);
            header.set_cksum();
            builder.get_mut().extend_from_slice(header.as_bytes());
        });
        // Without the two empty blocks that end an archive.
        let mut stream = Endless { start: &bytes[..bytes.len() - 1024], taken: 0 };
        let error = extract(&mut stream, &mut anything(place.path())).unwrap_err();
        assert_eq!(error.to_string(), "it has more than 256 KiB of headers before one entry");
        assert!(stream.taken < bytes.len() as u64 + 512 * 1024, "{kind:?}: {} bytes", stream.taken);
        // What came before, and is larger than that, has arrived.
        assert_eq!(std::fs::metadata(place.path().join("first")).unwrap().len(), 600 * 1024);
    }
}

#[test]
fn a_path_that_no_program_could_open_is_left_out_and_told_in_short() {
    let place = tempfile::tempdir().unwrap();
    let mut long = "d/".repeat(2048);
    let bytes = archive(|builder| {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(1);
        builder.append_data(&mut header.clone(), format!("{long}f"), &b"x"[..]).unwrap();
        builder.append_data(&mut header, "short", &b"x"[..]).unwrap();
    });
    let report = unpack(&bytes, place.path(), None);
    long.truncate(1024);
    let why = "its path is longer than a program can open".to_owned();
    assert_eq!(report.skipped, [Skipped { path: long + "…", why }]);
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
}

fn stopped(bytes: &[u8], landing: &mut Landing<Anything>) -> String {
    extract(bytes, landing).unwrap_err().to_string()
}

#[test]
fn no_more_comes_than_may_and_what_came_before_is_whole() {
    let place = tempfile::tempdir().unwrap();
    let bytes = archive(|builder| {
        raw(builder, b"one", EntryType::Regular, "", 0o644, &[1; 1000]);
        raw(builder, b"two", EntryType::Regular, "", 0o644, &[2; 1000]);
        raw(builder, b"fifo", EntryType::Fifo, "", 0o644, b"");
        raw(builder, b"three", EntryType::Regular, "", 0o644, &[3; 1000]);
    });
    let mut few = landing(place.path(), Top::Keep, CopyLimits { bytes: 1500, entries: 9 });
    assert_eq!(
        stopped(&bytes, &mut few),
        "two has 1000 bytes, and 500 are left of what may come out of a sandbox at once"
    );
    assert_eq!((few.report.files, std::fs::read_dir(place.path()).unwrap().count()), (1, 1));
    // What is left out counts, too: names without end take time without end.
    let mut few = landing(place.path(), Top::Keep, CopyLimits { bytes: 9000, entries: 3 });
    assert_eq!(stopped(&bytes, &mut few), "there are more files than may come out of a sandbox at once");
    assert_eq!(few.report.files, 2);
    let mut enough = landing(place.path(), Top::Keep, CopyLimits { bytes: 3000, entries: 4 });
    extract(&bytes[..], &mut enough).unwrap();
    assert_eq!((enough.report.files, enough.limits), (3, CopyLimits { bytes: 0, entries: 0 }));
}

#[test]
fn a_file_larger_than_the_disk_is_given_up_before_it_is_begun() {
    let place = tempfile::tempdir().unwrap();
    let bytes = archive(|builder| {
        let mut header = tar::Header::new_gnu();
        header.set_path("sparse").unwrap();
        header.set_mode(0o644);
        header.set_size(1 << 60);
        header.set_cksum();
        builder.get_mut().extend_from_slice(header.as_bytes());
    });
    let mut stream = Endless { start: &bytes[..512], taken: 0 };
    let stop = extract(&mut stream, &mut anything(place.path())).unwrap_err();
    assert!(matches!(stop, CopyStop::NoRoom { bytes, .. } if bytes == 1 << 60), "{stop}");
    assert!(stream.taken < 64 * 1024, "{} bytes were taken", stream.taken);
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn a_tree_deeper_than_tools_can_bear_is_cut_off() {
    let place = tempfile::tempdir().unwrap();
    let deep = |depth: usize| "d/".repeat(depth - 1) + "f";
    let bytes = archive(|builder| {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(1);
        for depth in [256, 257] {
            builder.append_data(&mut header.clone(), deep(depth), &b"x"[..]).unwrap();
        }
    });
    let report = unpack(&bytes, place.path(), None);
    let why = "it lies more than 256 directories deep".to_owned();
    assert_eq!((report.files, report.skipped), (1, vec![Skipped { path: deep(257), why }]));
    assert!(place.path().join(deep(256)).is_file());
}
