//! Changes of every kind, laid as they are in the copy.

use crate::support::{Scene, mode, tree};
use palisade_testing::requires;
use std::os::unix::fs::MetadataExt;

palisade_testing::on_isolating_methods!(
    the_directory_stays_as_it_is_until_the_changes_are_laid,
    a_directory_of_another_owner_is_copied_and_laid_as_its_owners,
    a_directory_of_ones_own_is_copied_and_laid_also_when_that_is_roots,
);

fn the_directory_stays_as_it_is_until_the_changes_are_laid(method: &'static str) {
    let scene = Scene::new(method);
    let before = tree(&scene.project);
    let script =
        "test -e sub/deep/below; echo two > file; rm gone; rm -r sub/deep; chmod 755 script; ln -sf sub link
        mkdir -p new/empty; echo z > new/z; chmod 700 new; echo printed; exit 3";
    let outcome = scene.inside(script);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (3, "printed\n"), "{outcome:?}");
    assert_eq!(tree(&scene.project), before);
    let run = scene.run_id();
    let short = &run[..8];
    let expected = format!(
        "9 changes in a copy of {}; to lay them: palisade apply {short}; to drop them: palisade apply --discard {short}\n",
        scene.project.display()
    );
    assert!(outcome.stderr.ends_with(&expected), "{}", outcome.stderr);
    let copy = tree(&scene.copy());
    scene.apply(&[]).ok();
    assert_eq!(tree(&scene.project), copy);
    assert_eq!((scene.read("file"), scene.read("new/z")), ("two\n".into(), "z\n".into()));
    assert_eq!(mode(&scene.project.join("script")), 0o755);
    assert_eq!(scene.copies(), [serde_json::Value::Null; 0]);
    assert_eq!(std::fs::read_dir(scene.instance.state().join("copies")).unwrap().count(), 0);
    let owner = std::fs::metadata(&scene.project).unwrap().uid();
    assert_eq!(std::fs::metadata(scene.project.join("new/z")).unwrap().uid(), owner);
}

/// Root copies another user's directory as that user, so that user's files alone are in the copy.
fn a_directory_of_another_owner_is_copied_and_laid_as_its_owners(method: &'static str) {
    const OWNER: u32 = 1000;
    let scene = Scene::new(method);
    if !palisade_testing::is_root() {
        // The same for a file that its own user may not read.
        use std::os::unix::fs::PermissionsExt;
        let secret = scene.project.join("secret");
        std::fs::write(&secret, "x").unwrap();
        std::fs::set_permissions(secret, std::fs::Permissions::from_mode(0o000)).unwrap();
    } else {
        for path in ["", "file", "sub", "sub/deep", "sub/deep/below", "gone", "script"] {
            std::os::unix::fs::chown(scene.project.join(path), Some(OWNER), Some(OWNER)).unwrap();
        }
        std::fs::write(scene.project.join("secret"), "root's").unwrap();
        use std::os::unix::fs::PermissionsExt;
        let closed = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(scene.project.join("secret"), closed).unwrap();
    }
    let outcome = scene.inside("test ! -e secret; echo two > file; echo n > new").ok();
    assert!(outcome.stderr.contains("secret (Permission denied"), "{}", outcome.stderr);
    scene.apply(&[]).ok();
    let owner = std::fs::metadata(&scene.project).unwrap().uid();
    for path in ["file", "new"] {
        assert_eq!(std::fs::metadata(scene.project.join(path)).unwrap().uid(), owner, "{path}");
    }
    assert!(scene.project.join("secret").exists(), "what is not in the copy was not deleted");
}

/// An engine's containers can write nothing of root's, but a copy of it.
fn a_directory_of_ones_own_is_copied_and_laid_also_when_that_is_roots(method: &'static str) {
    let scene = Scene::new(method);
    let own = rustix::process::geteuid().as_raw();
    for path in ["", "file", "sub", "sub/deep", "sub/deep/below", "gone", "script"] {
        std::os::unix::fs::chown(scene.project.join(path), Some(own), None).unwrap();
    }
    scene.inside("echo two > file; mkdir sub/new; echo n > sub/new/n; rm gone").ok();
    scene.apply(&[]).ok();
    for path in ["file", "sub/new", "sub/new/n"] {
        assert_eq!(std::fs::metadata(scene.project.join(path)).unwrap().uid(), own, "{path}");
    }
    assert!(!scene.project.join("gone").exists());
}

#[test]
fn a_run_without_changes_leaves_nothing() {
    requires!(bwrap);
    let scene = Scene::bwrap();
    let outcome = scene.inside("cat file; ls -R > /dev/null").ok();
    assert_eq!(outcome.stdout, "one\n");
    assert!(!outcome.stderr.contains("copy"), "{}", outcome.stderr);
    assert_eq!(std::fs::read_dir(scene.instance.state().join("copies")).unwrap().count(), 0);
}

#[test]
fn a_directory_that_became_a_file_and_a_file_that_became_a_directory_are_laid() {
    requires!(bwrap);
    let scene = Scene::bwrap();
    scene.inside("rm -r sub; echo f > sub; rm file; mkdir file; echo i > file/inner").ok();
    let copy = tree(&scene.copy());
    scene.apply(&[]).ok();
    assert_eq!(tree(&scene.project), copy);
}

#[test]
fn noop_works_in_a_copy_as_well() {
    let scene = Scene::new("noop");
    scene.inside("echo two > file").ok();
    assert_eq!(scene.read("file"), "one\n");
    scene.apply(&[]).ok();
    assert_eq!(scene.read("file"), "two\n");
}
