//! Which copy is meant, which changes of it, and what can be asked for.

use crate::support::{Scene, tree};
use palisade_testing::requires;

#[test]
fn only_the_named_paths_are_laid() {
    requires!(bwrap);
    let scene = Scene::bwrap();
    scene
        .inside("echo two > file; mkdir -p new/deep; echo a > new/deep/a; echo b > new/deep/b; rm gone")
        .ok();
    let run = scene.run_id();
    // As it is typed in a subdirectory.
    scene.apply_in(&scene.project.join("sub"), &["--", "../new/deep/a"]).ok();
    assert_eq!(scene.read("new/deep/a"), "a\n");
    assert!(!scene.project.join("new/deep/b").exists());
    assert_eq!((scene.read("file"), scene.read("gone")), ("one\n".into(), "x\n".into()));
    assert_eq!(scene.apply(&[&run, "--", "script"]).code, 6);
    assert_eq!(scene.apply(&[&run, "--", "../elsewhere"]).code, 2);
    let planned = scene.apply(&["--dry-run"]).ok();
    assert_eq!(planned.stdout, "deleted gone\nchanged file\nadded new/deep/b\n");
    scene.apply(&[&run, "--", "new", "gone"]).ok();
    assert!(scene.project.join("new/deep/b").exists() && !scene.project.join("gone").exists());
    scene.apply(&[]).ok();
    assert_eq!((scene.read("file"), scene.copies().len()), ("two\n".into(), 0));
    assert_eq!(scene.apply(&[]).code, 6, "there is nothing any more");
}

#[test]
fn several_runs_have_copies_of_one_directory_at_the_same_time() {
    requires!(bwrap);
    let scene = Scene::bwrap();
    let mut first = scene.held("echo first > first; echo first > file");
    // The directory is not busy: neither for another copy, nor for a sandbox that shares it.
    scene.inside("test ! -e first; echo second > second; echo second > file").ok();
    scene.instance.run(["run", "-w", "project", "--", "test", "!", "-e", "first"]).ok();
    let copies = scene.copies();
    let statuses: Vec<_> =
        copies.iter().map(|copy| (copy["status"].as_str().unwrap(), &copy["changes"])).collect();
    assert_eq!(statuses, [("running", &serde_json::Value::Null), ("ended", &serde_json::json!(2))]);
    let ids: Vec<&str> = copies.iter().map(|copy| copy["run"].as_str().unwrap()).collect();
    let refused = scene.apply(&[ids[0]]);
    assert_eq!(refused.code, 7, "{refused:?}");
    assert!(refused.stderr.contains("its run has not ended"), "{}", refused.stderr);
    let several = scene.apply(&[]);
    assert_eq!(several.code, 2);
    assert!(ids.iter().all(|id| several.stderr.contains(id)), "{}", several.stderr);
    scene.apply(&[&ids[1][..6]]).ok();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(first.id() as i32).unwrap(),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    first.wait().unwrap();
    // Both have changed the file: the second one is laid, so the first one's is a conflict.
    assert_eq!(scene.apply(&[ids[0]]).code, 7);
    assert_eq!((scene.read("first"), scene.read("second")), ("first\n".into(), "second\n".into()));
    assert_eq!(scene.read("file"), "second\n");
}

#[test]
fn a_copy_is_listed_and_dropped() {
    requires!(bwrap);
    let scene = Scene::bwrap();
    let before = tree(&scene.project);
    scene.inside("echo two > file; echo n > new").ok();
    let copies = scene.copies();
    assert_eq!(copies[0]["directory"], scene.project.to_str().unwrap());
    assert_eq!(copies[0]["copy"], scene.copy().to_str().unwrap());
    assert_eq!((&copies[0]["status"], &copies[0]["changes"]), (&"ended".into(), &2.into()));
    let listed = scene.apply(&["--list"]).ok();
    assert!(listed.stdout.starts_with("RUN       STATUS  CHANGES  BEGAN"), "{}", listed.stdout);
    let run = scene.run_id();
    scene.apply(&["--discard", &run]).ok();
    assert_eq!((scene.copies().len(), tree(&scene.project)), (0, before));
    assert_eq!(scene.apply(&["--discard", &run]).code, 6);
}

#[test]
fn only_run_makes_copies_and_every_other_command_says_so() {
    let scene = Scene::new("noop");
    for words in [&["create", "-w", "project:copy", "box"][..], &["wrap", "-w", "project:copy", "--", "true"]]
    {
        let outcome = scene.instance.run(words);
        assert_eq!(outcome.code, 2, "{outcome:?}");
        assert!(outcome.stderr.contains("only `palisade run` can work in a copy"), "{}", outcome.stderr);
    }
}

#[test]
fn a_large_directory_is_announced_with_its_size() {
    requires!(bwrap);
    let scene = Scene::bwrap();
    assert!(!scene.inside("true").ok().stderr.contains("copying"));
    // Nothing is written to the disk for it.
    std::fs::File::create(scene.project.join("large")).unwrap().set_len(65 << 20).unwrap();
    let outcome = scene.inside("test $(stat -c %s large) = 68157440").ok();
    assert!(outcome.stderr.contains("copying 65 MiB in 5 files of "), "{}", outcome.stderr);
}
