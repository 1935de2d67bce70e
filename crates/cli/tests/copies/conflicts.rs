//! What the user has changed since the copy was made stays the user's.

use crate::support::Scene;
use palisade_testing::requires;

#[test]
fn what_the_user_changed_meanwhile_is_left_alone_and_named() {
    requires!(bwrap);
    let scene = Scene::bwrap();
    scene.inside("echo theirs > file; echo theirs > new; rm gone; rm -r sub; echo ok > script").ok();
    for (path, text) in [("file", "mine\n"), ("new", "mine\n"), ("gone", "mine\n"), ("sub/own", "mine\n")] {
        std::fs::write(scene.project.join(path), text).unwrap();
    }
    let outcome = scene.apply(&[]);
    assert_eq!(outcome.code, 7, "{outcome:?}");
    for line in [
        "  file: you have changed it\n",
        "  new: you have made something there\n",
        "  gone: you have changed it\n",
        "  sub: it was deleted in the copy, and is not empty here\n",
    ] {
        assert!(outcome.stderr.contains(line), "{line}: {}", outcome.stderr);
    }
    let run = scene.run_id();
    assert!(
        outcome.stderr.contains(&format!("palisade apply --discard {} -- PATH", &run[..8])),
        "{outcome:?}"
    );
    for path in ["file", "new", "gone", "sub/own"] {
        assert_eq!(scene.read(path), "mine\n", "{path}");
    }
    assert_eq!(scene.read("script"), "ok\n", "the rest is laid");
    assert!(!scene.project.join("sub/deep").exists());
}

#[test]
fn a_conflict_ends_when_the_user_takes_the_change_or_drops_it() {
    requires!(bwrap);
    let scene = Scene::bwrap();
    scene.inside("echo theirs > file; echo theirs > gone").ok();
    std::fs::write(scene.project.join("file"), "mine\n").unwrap();
    std::fs::write(scene.project.join("gone"), "mine\n").unwrap();
    assert_eq!(scene.apply(&[]).code, 7);
    // The user's own hand: the sandbox's file as it is.
    std::fs::copy(scene.copy().join("file"), scene.project.join("file")).unwrap();
    assert_eq!(scene.apply(&[]).code, 7, "the other one is still a conflict");
    assert_eq!(scene.copies()[0]["changes"], 1);
    let run = scene.run_id();
    scene.apply(&["--discard", &run, "--", "gone"]).ok();
    assert_eq!(scene.read("gone"), "mine\n");
    assert_eq!(scene.copies().len(), 0);
}

#[test]
fn another_directory_in_the_place_of_the_one_that_was_copied_is_refused() {
    requires!(bwrap);
    let scene = Scene::bwrap();
    scene.inside("echo theirs > new").ok();
    let run = scene.run_id();
    std::fs::rename(&scene.project, scene.instance.work().join("moved")).unwrap();
    std::fs::create_dir(&scene.project).unwrap();
    let outcome = scene.apply(&[&run]);
    assert_eq!(outcome.code, 7, "{outcome:?}");
    assert!(outcome.stderr.contains("another directory has taken its place"), "{}", outcome.stderr);
    assert_eq!(std::fs::read_dir(&scene.project).unwrap().count(), 0);
    std::fs::remove_dir(&scene.project).unwrap();
    std::fs::rename(scene.instance.work().join("moved"), &scene.project).unwrap();
    scene.apply(&[&run]).ok();
    assert_eq!(scene.read("new"), "theirs\n");
}
