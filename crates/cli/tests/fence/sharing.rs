//! One sandbox at a time per writable directory, read-only ones as many as wanted, and crashes leave nothing.

use crate::support::{Repository, tree};
use palisade_testing::{Instance, Outcome, Traces, eventually, requires};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

/// A run that has said it is up, and waits for its input to end.
struct Held {
    child: Child,
}

impl Held {
    fn start(instance: &Instance, flags: &[&str]) -> Self {
        let words = [&["run"], flags, &["--", "sh", "-c", "echo up; cat"]].concat();
        let mut child = instance.command(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "up\n");
        Self { child }
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

#[test]
fn a_second_sandbox_on_the_same_or_a_nested_directory_is_refused() {
    requires!(bwrap, git);
    let repository = Repository::new();
    let instance = &repository.instance;
    std::fs::create_dir(repository.path.join("nested")).unwrap();
    let run = |flags: &[&str]| -> Outcome { instance.run([&["run"], flags, &["--", "true"]].concat()) };
    let held = Held::start(instance, &["-w", "repo"]);
    let mount = |directory: &str| format!("{directory}:/data");
    for flags in [
        &["-w", "repo"][..],
        &["-w", "repo/nested"],
        &["-w", "."],
        &["--mount", &mount("repo")],
        &["--mount", &mount("repo/nested")],
    ] {
        let outcome = run(flags);
        assert_eq!(outcome.code, 7, "{flags:?}: {outcome:?}");
        assert!(outcome.stderr.contains("in use by another sandbox"), "{}", outcome.stderr);
    }
    // Reading is no conflict.
    run(&["-w", "repo:ro"]).ok();
    held.end();
    for flags in [&["-w", "repo"][..], &["-w", "repo/nested"], &["-w", "."]] {
        run(flags).ok();
    }
}

#[test]
fn a_stopped_sandbox_gives_its_directory_back_and_a_running_one_does_not() {
    requires!(bwrap, git);
    let repository = Repository::new();
    let instance = &repository.instance;
    instance.run(["create", "--start", "-w", "repo", "holder"]).ok();
    assert_eq!(repository.inside("true").code, 7);
    instance.run(["stop", "holder"]).ok();
    repository.inside("true").ok();
    instance.run(["start", "holder"]).ok();
    assert_eq!(instance.shell("holder", "git log --format=%s").stdout, "first\n");
    instance.run(["rm", "--force", "holder"]).ok();
    assert!(repository.path.join("file").exists());
}

#[test]
fn a_read_only_directory_is_read_only_and_gets_no_placeholders() {
    requires!(bwrap, git);
    let repository = Repository::new();
    let before = tree(&repository.path);
    for attempt in
        ["echo x > file", "touch new", "mkdir .git/x", "rm file", "chmod 777 file", "mv file other"]
    {
        let words = ["run", "-w", "repo:ro", "--", "sh", "-c", attempt];
        assert_ne!(repository.instance.run(words).code, 0, "{attempt}");
    }
    let held = Held::start(&repository.instance, &["-w", "repo:ro"]);
    assert_eq!(tree(&repository.path), before);
    held.end();
    assert_eq!(repository.instance.run(["run", "-w", "repo:ro", "--", "cat", "file"]).ok().stdout, "first\n");
    // The control: the same attempt on a writable one.
    repository.inside("echo x > file").ok();
}

#[test]
fn a_directory_with_palisades_own_state_is_refused() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.run(["run", "--", "true"]).ok();
    let state = instance.state();
    for directory in
        [&state, &state.parent().unwrap().to_owned(), &state.parent().unwrap().parent().unwrap().to_owned()]
    {
        for flags in
            [["-w", &directory.display().to_string()], ["--mount", &format!("{}:/data", directory.display())]]
        {
            let outcome = instance.run([&["run"], &flags[..], &["--", "true"]].concat());
            assert_eq!(outcome.code, 1, "{flags:?}: {outcome:?}");
            assert!(outcome.stderr.contains("state"), "{}", outcome.stderr);
        }
    }
    let inside = state.join("sandboxes");
    std::fs::create_dir_all(&inside).unwrap();
    assert_eq!(instance.run(["run", "-w", inside.to_str().unwrap(), "--", "true"]).code, 1);
}

#[test]
fn after_kill_9_gc_takes_the_placeholders_away_and_nothing_else() {
    requires!(bwrap, git);
    let repository = Repository::new();
    repository.git(&["config", "core.hooksPath", "hooks"]).ok();
    // Palisade notes the version of git in the repository.
    repository.inside("true").ok();
    let before = tree(&repository.path);
    let mut held = Held::start(&repository.instance, &["-w", "repo"]);
    assert_ne!(tree(&repository.path), before, "what is absent is stood in for while the sandbox runs");
    held.child.kill().unwrap();
    held.child.wait().unwrap();
    eventually("everything inside dies with the run", || {
        Traces::of(&repository.instance).processes.is_empty()
    });
    repository.instance.run(["gc"]).ok();
    let after = tree(&repository.path);
    let differ: Vec<_> =
        after.iter().filter(|(path, entry)| before.get(*path) != Some(entry)).map(|(path, _)| path).collect();
    assert!(differ.is_empty() && after.len() == before.len(), "{differ:?}");
    repository.git(&["fsck", "--strict"]).ok();
    repository.inside("true").ok();
    assert!(Traces::of(&repository.instance).is_clean(), "{:?}", Traces::of(&repository.instance));
}
