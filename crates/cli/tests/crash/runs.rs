//! A one-off run is killed: it has no record, so what it leaves is found by name.

use crate::neighbour::Neighbour;
use crate::support::{Underway, assert_clean, below, collect, gc, guest_below, kill, wait_gone};
use palisade_testing::{Instance, Traces, eventually, is_root, requires};
use std::path::{Path, PathBuf};

const SCRIPT: &str = "echo up; exec sleep 1000";

/// Starts a run, waits until its command is at work, kills it, and waits until all that was inside is gone.
fn killed(instance: &Instance, options: &[&str]) {
    let words = ["run"].into_iter().chain(options.iter().copied()).chain(["--", "sh", "-c", SCRIPT]);
    let mut run = Underway::start(&mut instance.command(words));
    assert_eq!(run.line(), "up\n");
    let inside = below(&run.identity());
    run.kill();
    wait_gone(&inside);
}

fn directory_with_a_file(instance: &Instance) -> PathBuf {
    let directory = instance.work().join("project");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("mine"), "mine").unwrap();
    directory
}

#[track_caller]
fn holds_only_the_users_file(directory: &Path) {
    let names: Vec<_> =
        std::fs::read_dir(directory).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names, ["mine"]);
    assert_eq!(std::fs::read_to_string(directory.join("mine")).unwrap(), "mine");
}

#[test]
fn heavy_a_run_is_killed() {
    requires!(bwrap);
    let neighbour = Neighbour::new();
    let instance = Instance::with_method("bwrap");
    killed(&instance, &[]);
    let found = collect(&instance);
    // Only root has groups of its own, and each has a name that tells its process.
    let expected = format!("cgroup palisade/{}/run-", instance.owner());
    assert_eq!(found.len(), usize::from(is_root()), "{found:?}");
    assert!(found.iter().all(|item| item.starts_with(&expected) && item.ends_with(": removed")), "{found:?}");
    neighbour.assert_untouched();
    assert_clean(&instance);
}

#[test]
fn heavy_a_run_in_a_directory_is_killed() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let project = directory_with_a_file(&instance);
    killed(&instance, &["-w", "project"]);
    assert!(project.join(".git").exists(), "the fence outlived the run");
    let placeholders = format!("placeholders in {}: removed", project.display());
    assert!(collect(&instance).contains(&placeholders));
    holds_only_the_users_file(&project);
    assert_clean(&instance);
}

#[test]
fn heavy_a_killed_run_does_not_keep_the_next_from_its_directory() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let project = directory_with_a_file(&instance);
    killed(&instance, &["-w", "project"]);
    instance.run(["run", "-w", "project", "--", "cat", "mine"]).ok();
    gc(&instance, &[]);
    holds_only_the_users_file(&project);
    assert_clean(&instance);
}

#[test]
fn heavy_a_runs_guest_is_killed() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let mut run = Underway::start(&mut instance.command(["run", "--", "sh", "-c", SCRIPT]));
    assert_eq!(run.line(), "up\n");
    let inside = below(&run.identity());
    kill(&guest_below(&run.identity()));
    let told = run.finish();
    assert!(told.code == 1 && told.stderr.contains("error: "), "{told:?}");
    wait_gone(&inside);
    assert_eq!(collect(&instance), Vec::<String>::new(), "the run put everything away itself");
    assert_clean(&instance);
}

#[test]
fn heavy_runs_are_killed_at_any_moment() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let project = directory_with_a_file(&instance);
    instance.run(["run", "-w", "project", "--", "true"]).ok();
    crate::commands::at_any_moment(16, || (instance.command(["run", "-w", "project", "--", "true"]), ()));
    // A helper process needs a moment to follow the run it belonged to.
    eventually("no process of the runs is left", || Traces::of(&instance).processes.is_empty());
    gc(&instance, &[]);
    holds_only_the_users_file(&project);
    assert_clean(&instance);
}
