use super::*;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

struct Scene {
    home: tempfile::TempDir,
    top: OwnedFd,
}

fn scene() -> Scene {
    let home = tempfile::tempdir().unwrap();
    for name in ["top", "outside"] {
        fs::create_dir(home.path().join(name)).unwrap();
    }
    let top = root(&home.path().join("top")).unwrap();
    Scene { home, top }
}

impl Scene {
    fn at(&self, name: &str) -> std::path::PathBuf {
        self.home.path().join(name)
    }

    fn lay(&self, name: &str, text: &str, standing: Standing) -> rustix::io::Result<()> {
        let mut fresh = Fresh::make(self.top.as_fd()).unwrap();
        fresh.file().write_all(text.as_bytes()).unwrap();
        fresh.place(OsStr::new(name), 0o6775, standing)
    }
}

#[test]
fn directories_are_made_on_the_way_and_no_link_is_one() {
    let scene = scene();
    enter(scene.top.as_fd(), ["a", "b"], Missing::Make).unwrap();
    assert!(scene.at("top/a/b").is_dir());
    symlink("../outside", scene.at("top/link")).unwrap();
    fs::write(scene.at("top/file"), "").unwrap();
    let error = |names: [&str; 2], missing| enter(scene.top.as_fd(), names, missing).unwrap_err();
    assert_eq!(error(["link", "x"], Missing::Make), Errno::LOOP);
    assert_eq!(error(["file", "x"], Missing::Make), Errno::NOTDIR);
    assert_eq!(error(["none", "x"], Missing::Fail), Errno::NOENT);
    assert_eq!(fs::read_dir(scene.at("outside")).unwrap().count(), 0);
    // A control: the path itself leads out.
    fs::create_dir(scene.at("top/link/x")).unwrap();
    assert!(scene.at("outside/x").is_dir());
}

#[test]
fn a_path_is_opened_only_below() {
    let scene = scene();
    fs::write(scene.at("outside/secret"), "").unwrap();
    fs::create_dir(scene.at("top/dir")).unwrap();
    fs::write(scene.at("top/dir/file"), "").unwrap();
    symlink("../../outside/secret", scene.at("top/dir/link")).unwrap();
    let result = |path: &str| open(scene.top.as_fd(), Path::new(path), OFlags::RDONLY).map(drop);
    assert_eq!(result("./dir/file"), Ok(()));
    assert_eq!(result("dir/link"), Err(Errno::LOOP));
    assert_eq!(result("../outside/secret"), Err(Errno::XDEV));
    assert_eq!(result("/etc/passwd"), Err(Errno::XDEV));
    assert!(File::open(scene.at("top/dir/link")).is_ok(), "the control");
}

#[test]
fn a_file_appears_whole_without_special_bits_and_over_nothing_unless_told() {
    let scene = scene();
    assert_eq!(scene.lay("file", "one", Standing::Refused), Ok(()));
    let mode = fs::metadata(scene.at("top/file")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o775);
    assert_eq!(scene.lay("file", "two", Standing::Refused), Err(Errno::EXIST));
    assert_eq!(fs::read_to_string(scene.at("top/file")).unwrap(), "one");
    assert_eq!(scene.lay("file", "two", Standing::Replaced), Ok(()));
    assert_eq!(fs::read_to_string(scene.at("top/file")).unwrap(), "two");
    fs::create_dir(scene.at("top/dir")).unwrap();
    assert_eq!(scene.lay("dir", "three", Standing::Replaced), Err(Errno::ISDIR));
    drop(Fresh::make(scene.top.as_fd()).unwrap());
    assert_eq!(fs::read_dir(scene.at("top")).unwrap().count(), 2, "nothing of ours is left");
}

#[test]
fn a_link_in_the_place_of_a_file_is_replaced_and_not_followed() {
    let scene = scene();
    fs::write(scene.at("outside/secret"), "mine").unwrap();
    symlink("../outside/secret", scene.at("top/file")).unwrap();
    scene.lay("file", "theirs", Standing::Replaced).unwrap();
    assert_eq!(fs::read_to_string(scene.at("outside/secret")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(scene.at("top/file")).unwrap(), "theirs");
    assert!(!scene.at("top/file").is_symlink());
}

#[test]
fn what_stands_under_a_name_is_told_without_following_or_waiting() {
    let scene = scene();
    fs::write(scene.at("top/file"), "text").unwrap();
    fs::create_dir(scene.at("top/dir")).unwrap();
    symlink("nowhere", scene.at("top/link")).unwrap();
    rustix::fs::mkfifoat(&scene.top, "fifo", Mode::RWXU).unwrap();
    drop(std::os::unix::net::UnixListener::bind(scene.at("top/sock")).unwrap());
    let found = |name: &str| look(scene.top.as_fd(), OsStr::new(name)).unwrap();
    assert!(matches!(found("file"), Found::File(_)));
    assert!(matches!(found("none"), Found::Nothing));
    assert!(matches!(found("link"), Found::Link(target) if target == "nowhere"));
    for name in ["dir", "fifo", "sock"] {
        assert!(matches!(found(name), Found::Other), "{name}");
    }
}

#[test]
fn a_link_takes_the_place_of_another_only_when_told() {
    let scene = scene();
    let link = |target: &str, standing| {
        place_link(scene.top.as_fd(), OsStr::new("link"), OsStr::new(target), standing)
    };
    assert_eq!(link("one", Standing::Refused), Ok(()));
    assert_eq!(link("two", Standing::Refused), Err(Errno::EXIST));
    assert_eq!(link("two", Standing::Replaced), Ok(()));
    assert_eq!(fs::read_link(scene.at("top/link")).unwrap(), Path::new("two"));
    assert_eq!(fs::read_dir(scene.at("top")).unwrap().count(), 1);
}

#[test]
fn there_is_room_where_we_write() {
    assert!(room(&scene().top).unwrap() > 0);
}
