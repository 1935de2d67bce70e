use super::*;
use palisade_core::PathIdentity;
use std::os::unix::fs::symlink;
use std::path::Path;

struct Place {
    root: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> HostPath {
        HostPath::new(self.root.path().canonicalize().unwrap().join(name)).unwrap()
    }

    fn directory(&self, name: &str) -> HostPath {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }
}

fn identity(path: &HostPath) -> PathIdentity {
    open_without_links(path).unwrap().identity().unwrap()
}

fn same(one: &PathIdentity, other: &PathIdentity) -> bool {
    one.compare(other) == IdentityMatch::Same
}

#[test]
fn a_directory_keeps_its_identity_when_it_is_renamed_and_one_made_again_has_another() {
    let place = Place::new();
    let first = place.directory("first");
    let known = identity(&first);
    std::fs::rename(&first, place.path("second")).unwrap();
    assert!(same(&identity(&place.path("second")), &known));
    // The number of a removed inode is given to the next one at once; its generation differs.
    std::fs::remove_dir(place.path("second")).unwrap();
    for _ in 0..50 {
        let again = place.directory("first");
        assert!(!same(&identity(&again), &known));
        std::fs::remove_dir(again).unwrap();
    }
}

#[test]
fn a_file_has_the_identity_of_its_directory_so_it_may_be_replaced() {
    let place = Place::new();
    let directory = place.directory("settings");
    let file = directory.join("file");
    std::fs::write(&file, "one").unwrap();
    let known = identity(&file);
    assert!(same(&known, &identity(&directory)));
    std::fs::write(directory.join("new"), "two").unwrap();
    std::fs::rename(directory.join("new"), &file).unwrap();
    assert!(same(&identity(&file), &known));
}

#[test]
fn no_link_is_followed_at_the_end_or_on_the_way() {
    let place = Place::new();
    let target = place.directory("elsewhere/data");
    symlink(place.path("elsewhere"), place.path("link")).unwrap();
    symlink(&target, place.path("last")).unwrap();
    for path in ["link/data", "last"].map(|name| place.path(name)) {
        // The control: an ordinary open follows it.
        assert!(std::fs::File::open(&path).is_ok());
        let refused = open_without_links(&path);
        assert!(matches!(refused, Err(OpenError::Link { .. })), "{refused:?}");
    }
    assert!(open_without_links(&target).unwrap().is_directory);
    assert!(open_without_links(&HostPath::new("/").unwrap()).unwrap().is_directory);
}

#[test]
fn a_path_is_resolved_as_the_kernel_does_and_every_link_is_named() {
    let place = Place::new();
    place.directory("a/b/c");
    place.directory("other");
    symlink("../a/b", place.path("other/relative")).unwrap();
    symlink(place.path("other"), place.path("absolute")).unwrap();
    symlink("loop", place.path("loop")).unwrap();
    let given = place.path("absolute/relative/../b/./c");
    let resolved = resolve(given.as_path()).unwrap();
    assert_eq!(resolved.real.as_path(), given.as_path().canonicalize().unwrap());
    let links: Vec<&Path> = resolved.links.iter().map(|link| link.path.as_path()).collect();
    assert_eq!(links, [place.path("absolute").as_path(), place.path("other/relative").as_path()]);
    assert!(resolve(place.path("loop").as_path()).is_err());
    assert!(resolve(place.path("a/missing").as_path()).is_err());
    assert_eq!(resolve(Path::new("/")).unwrap().real, HostPath::new("/").unwrap());
}

#[test]
fn a_file_is_not_a_directory_on_the_way() {
    let place = Place::new();
    std::fs::write(place.path("file"), "").unwrap();
    assert!(resolve(place.path("file/below").as_path()).is_err());
    assert!(resolve(place.path("file/..").as_path()).is_err());
    assert!(matches!(open_without_links(&place.path("file/below")), Err(OpenError::Io { .. })));
}
