//! Runs that are killed, and what stays of them.

use crate::support::Scene;
use palisade_testing::{eventually, requires};

#[test]
fn the_copy_of_a_killed_run_stays_and_can_be_laid() {
    requires!(bwrap);
    let scene = Scene::bwrap();
    let mut run = scene.held("echo two > file");
    run.kill().unwrap();
    run.wait().unwrap();
    eventually("the sandbox of the killed run is gone", || scene.instance.run(["gc"]).code == 0);
    let copies = scene.copies();
    assert_eq!((&copies[0]["status"], &copies[0]["changes"]), (&"killed".into(), &1.into()));
    assert_eq!(scene.read("file"), "one\n");
    scene.apply(&[]).ok();
    assert_eq!((scene.read("file"), scene.copies().len()), ("two\n".into(), 0));
}

#[test]
fn gc_keeps_changes_and_what_it_does_not_understand() {
    requires!(bwrap);
    let scene = Scene::bwrap();
    scene.inside("echo two > file").ok();
    let unknown = scene.instance.state().join("copies/aaaaaaaaaaaaaaaaaaaaaaaa/tree");
    std::fs::create_dir_all(&unknown).unwrap();
    let collected = scene.instance.run(["gc"]).ok();
    let expected = format!("copy of {} by run {}: kept", scene.project.display(), &scene.run_id()[..8]);
    assert!(collected.stdout.contains(&expected), "{}", collected.stdout);
    assert!(unknown.exists());
    assert_eq!(scene.copies()[0]["changes"], 1);
}

#[test]
fn a_killed_run_without_changes_leaves_no_copy() {
    requires!(bwrap);
    let scene = Scene::bwrap();
    let mut run = scene.held("true");
    run.kill().unwrap();
    run.wait().unwrap();
    scene.instance.run(["gc"]).ok();
    assert_eq!(scene.copies().len(), 0);
}
