//! Many commands at once, on one name, on many, and on a state that does not exist yet.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test's helpers may fail loudly")]

#[path = "crash/support.rs"]
#[allow(dead_code, reason = "shared with the tests of crashes, which use the rest")]
mod support;

use palisade_host::process;
use palisade_testing::{Instance, Outcome, Traces, eventually, is_root, requires};
use std::collections::BTreeSet;
use std::process::Stdio;
use support::{Underway, assert_clean, below, gc, listed, only_keepers_of_the_record, row, store, wait_gone};

/// The outcomes of commands that were all under way at once.
fn together(instance: &Instance, commands: impl IntoIterator<Item = Vec<String>>) -> Vec<Outcome> {
    let children: Vec<Underway> =
        commands.into_iter().map(|words| Underway::start(&mut instance.command(words))).collect();
    children.into_iter().map(Underway::finish).collect()
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn codes(outcomes: &[Outcome]) -> Vec<i32> {
    let mut codes: Vec<i32> = outcomes.iter().map(|outcome| outcome.code).collect();
    codes.sort_unstable();
    codes
}

#[test]
fn heavy_of_a_hundred_creates_of_one_name_one_wins_and_the_others_are_told_why() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let outcomes = together(&instance, (0..100).map(|_| words("create web")));
    let (won, lost): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(|outcome| outcome.code == 0);
    assert_eq!((won.len(), lost.len()), (1, 99), "{lost:?}");
    assert_eq!(won[0].stdout, "web\n");
    let id = row(&instance, "web").unwrap().id().clone();
    let told = format!(
        "error: a sandbox named 'web' already exists (id {id}, created)\n\
         hint: choose another name, or remove that one with: palisade rm web\n"
    );
    for outcome in lost {
        assert_eq!(outcome, Outcome { stdout: String::new(), stderr: told.clone(), code: 7 });
    }
    let places: Vec<_> = std::fs::read_dir(instance.state().join("sandboxes")).unwrap().collect();
    assert_eq!(places.len(), 1, "the losers made nothing: {places:?}");
    assert_eq!(gc(&instance, &[]), Vec::<String>::new());
    instance.run(["rm", "web"]).ok();
    assert_clean(&instance);
}

#[test]
fn heavy_fifty_creates_of_different_names_all_succeed_each_with_a_uid_of_its_own() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let outcomes = together(&instance, (0..50).map(|number| words(&format!("create web-{number}"))));
    assert_eq!(codes(&outcomes), [0; 50], "{outcomes:?}");
    let rows = store(&instance).list().unwrap().rows;
    assert_eq!(rows.len(), 50);
    if is_root() {
        let uids: BTreeSet<u32> = rows.iter().map(|row| row.spec.identity.uid).collect();
        assert_eq!(uids.len(), 50, "{uids:?}");
        assert!(!uids.contains(&0));
    }
    let removed = together(&instance, (0..50).map(|number| words(&format!("rm web-{number}"))));
    assert_eq!(codes(&removed), [0; 50], "{removed:?}");
    assert_clean(&instance);
}

#[test]
fn heavy_twenty_starts_of_one_sandbox_wait_their_turn_and_make_one_keeper() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.run(["create", "web"]).ok();
    let outcomes = together(&instance, (0..20).map(|_| words("start web")));
    // Whoever comes second waits its turn, and then finds the sandbox running. Without turns it would find it half
    // started, and be told that another command is at work.
    assert_eq!(codes(&outcomes), [0; 20], "{outcomes:?}");
    let later = outcomes.iter().filter(|outcome| outcome.stderr.contains("is running already")).count();
    assert_eq!(later, 19, "{outcomes:?}");
    assert_eq!(Traces::of(&instance).processes.len(), 1, "one keeper");
    assert!(only_keepers_of_the_record(&instance));
    assert_eq!(instance.shell("web", "echo up").ok().stdout, "up\n");
    instance.run(["rm", "--force", "web"]).ok();
    assert_clean(&instance);
}

#[test]
fn heavy_thirty_commands_that_all_come_first_share_one_state() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let outcomes = together(&instance, (0..30).map(|_| words("ls --json")));
    for outcome in &outcomes {
        assert_eq!((outcome.stdout.as_str(), outcome.code), ("[]\n", 0), "{outcome:?}");
    }
    assert_eq!(store(&instance).instance().unwrap(), instance.owner(), "all agreed on one owner");
    assert_clean(&instance);
}

#[test]
fn heavy_twenty_runs_at_once_know_nothing_of_each_other() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let outcomes = together(&instance, (0..20).map(|_| words("run -- true")));
    assert_eq!(codes(&outcomes), [0; 20], "{outcomes:?}");
    assert_clean(&instance);
}

#[test]
fn heavy_of_eight_runs_in_one_directory_one_works_at_a_time() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let shared = instance.work().join("shared");
    std::fs::create_dir(&shared).unwrap();
    // Two at once would meet in `mkdir`; the input ends only when all have been started.
    let script = "mkdir busy || exit 99; cat; rmdir busy";
    let mut children: Vec<Underway> = (0..8)
        .map(|_| {
            let mut command = instance.command(["run", "-w", "shared", "--", "sh", "-c", script]);
            Underway::start(command.stdin(Stdio::piped()))
        })
        .collect();
    for child in &mut children {
        drop(child.0.stdin.take());
    }
    let outcomes: Vec<Outcome> = children.into_iter().map(Underway::finish).collect();
    let (won, lost): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(|outcome| outcome.code == 0);
    assert!(!won.is_empty(), "{lost:?}");
    for outcome in lost {
        let told = format!("error: {} is in use by another sandbox\n", shared.display());
        assert!(outcome.code == 7 && outcome.stderr.contains(&told), "{outcome:?}");
    }
    let left: Vec<_> = std::fs::read_dir(&shared).unwrap().collect();
    assert!(left.is_empty(), "nothing of the fence stays: {left:?}");
    assert_eq!(gc(&instance, &[]), Vec::<String>::new());
    assert_clean(&instance);
}

/// Words for a storm: every client gets another order of the same verbs over the same names.
fn storm(client: usize, step: usize) -> Vec<String> {
    const VERBS: [&str; 6] = ["create", "start", "stop --grace 0", "start", "rm --force", "rm"];
    // Two numbers without a common factor with the lengths, so that the orders differ.
    let verb = VERBS[(client * 5 + step * 7 + client * step) % VERBS.len()];
    words(&format!("{verb} web-{}", (client + step * 2) % 3))
}

#[test]
fn heavy_a_storm_of_create_start_stop_and_rm_leaves_rows_and_keepers_in_agreement() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let outcomes: Vec<(Vec<String>, Outcome)> = std::thread::scope(|scope| {
        let client = |client: usize| {
            let instance = &instance;
            scope.spawn(move || {
                let step = |step: usize| {
                    let words = storm(client, step);
                    (words.clone(), instance.run(words))
                };
                (0..24).map(step).collect::<Vec<_>>()
            })
        };
        let clients: Vec<_> = (0..6).map(client).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    for (words, outcome) in &outcomes {
        assert!([0, 6, 7].contains(&outcome.code), "{words:?}: {outcome:?}");
    }
    for (verb, least) in [("create", 3), ("start", 3), ("rm", 3)] {
        let done = outcomes.iter().filter(|(words, outcome)| words[0] == verb && outcome.code == 0).count();
        assert!(done >= least, "the storm did something: {done} times {verb}");
    }
    let rows = store(&instance).list().unwrap().rows;
    for row in &rows {
        let lives = row.keeper.as_ref().is_some_and(process::is_alive);
        assert_eq!(lives, row.state.has_keeper(), "{row:?}");
    }
    // A keeper that has given its sandbox back may still be on its way out.
    eventually("no keeper is without a row", || only_keepers_of_the_record(&instance));
    assert_eq!(gc(&instance, &["--dry-run"]), Vec::<String>::new(), "nobody crashed");

    let inside: Vec<_> = rows.iter().filter_map(|row| row.keeper.as_ref()).flat_map(below).collect();
    for (name, _) in listed(&instance) {
        instance.run(["rm", "--force", &name]).ok();
    }
    wait_gone(&inside);
    assert_clean(&instance);
}
