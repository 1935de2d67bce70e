//! A fault at every step of every verb: the program fails there, and dies there. What is left is put in order by one
//! `gc`, nothing of it remains, and the next commands work.
//!
//! Which steps there are comes from the code (`palisade_host::fault::Step`), and which of them a scenario passes
//! comes from running it once. A step that no scenario passes fails a test of its own, so a new one must be reached.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test's helpers may fail loudly")]

use palisade_host::fault::Step;
use palisade_testing::{Instance, Outcome, Traces, eventually, requires};
use std::collections::BTreeSet;
use std::path::PathBuf;

type Words = &'static [&'static str];

/// A life of a sandbox over a bound directory, so that there is a fence as well.
const LIFE: &[Words] = &[
    &["create", "web", "-w", "project"],
    &["start", "web"],
    &["exec", "web", "--", "true"],
    &["stop", "--grace", "0", "web"],
    &["start", "web"],
    &["rm", "--force", "web"],
];
const RUN: &[Words] = &[&["run", "-w", "project", "--", "true"]];
/// Over `noop`, whose check is quick: the steps are the same with every method.
const WRAP: &[Words] = &[
    &["wrap", "--method", "noop", "-w", ".", "--keep-home", "--output", "project/agent", "--", "true"],
    &["wrap", "--rm", "project/agent"],
];
const COLLECTION: &[Words] = &[&["gc"]];
const DEAD_CREATE: (&str, Words) = ("create.made", &["create", "half"]);
const DEAD_RUN: (&str, Words) = ("run.greeted", &["run", "-w", "project", "--", "true"]);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scenario {
    Life,
    Run,
    Wrap,
    /// Of an intent and of a thing without an owner.
    Collection,
    /// Of a thing without an owner alone: putting a sandbox in order sweeps fences by the way.
    Orphan,
}

impl Scenario {
    const ALL: [Scenario; 5] =
        [Scenario::Life, Scenario::Run, Scenario::Wrap, Scenario::Collection, Scenario::Orphan];

    /// What died half-way before it begins.
    fn crashes(self) -> &'static [(&'static str, Words)] {
        match self {
            Scenario::Life | Scenario::Run | Scenario::Wrap => &[],
            Scenario::Collection => &[DEAD_CREATE, DEAD_RUN],
            Scenario::Orphan => &[DEAD_RUN],
        }
    }

    fn commands(self) -> &'static [Words] {
        match self {
            Scenario::Life => LIFE,
            Scenario::Run => RUN,
            Scenario::Wrap => WRAP,
            Scenario::Collection | Scenario::Orphan => COLLECTION,
        }
    }
}

struct Scene {
    instance: Instance,
    /// Made by the process that comes to the step first, or filled with the steps that are passed.
    marker: PathBuf,
}

impl Scene {
    fn new(scenario: Scenario) -> Self {
        let instance = Instance::with_method("bwrap");
        std::fs::create_dir(instance.work().join("project")).unwrap();
        let scene = Self { marker: instance.home().join("marker"), instance };
        scene.leave(scenario.crashes());
        scene
    }

    fn with_fault(&self, plan: &str, words: Words) -> Outcome {
        let mut command = self.instance.command(words);
        command.env("PALISADE_FAULT", format!("{plan}@{}", self.marker.display()));
        Instance::finish(&mut command)
    }

    fn leave(&self, crashes: &[(&str, Words)]) {
        for (step, words) in crashes {
            let killed = self.with_fault(&format!("kill:{step}"), words);
            assert_eq!(killed.code, -9, "{killed:?}");
            std::fs::remove_file(&self.marker).unwrap();
            // A lease of the dead would have the next of these clean up before it.
            for lease in std::fs::read_dir(self.instance.state().join("leases")).unwrap().flatten() {
                std::fs::remove_file(lease.path()).unwrap();
            }
        }
    }
}

/// The steps that a scenario passes when nothing goes wrong.
fn passed(scenario: Scenario) -> BTreeSet<String> {
    let scene = Scene::new(scenario);
    for words in scenario.commands() {
        scene.with_fault("trace", words).ok();
    }
    // A keeper passes its last steps after the command that asked it to.
    eventually("every process of the scenario ends", || Traces::of(&scene.instance).processes.is_empty());
    let text = std::fs::read_to_string(&scene.marker).expect("a program built with debug assertions");
    text.lines().map(str::to_owned).collect()
}

/// Tests run side by side, and a life has many steps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    First,
    Second,
}

/// Breaks the scenario at each of its steps, one after another.
fn broken_at_every_step(scenario: Scenario, kind: &str) {
    broken_at(scenario, kind, passed(scenario));
}

fn broken_at_half_of_the_steps(scenario: Scenario, kind: &str, half: Half) {
    let mut steps = passed(scenario);
    let middle = steps.iter().nth(steps.len() / 2).cloned().unwrap_or_default();
    let second = steps.split_off(&middle);
    broken_at(scenario, kind, if half == Half::First { steps } else { second });
}

fn broken_at(scenario: Scenario, kind: &str, steps: BTreeSet<String>) {
    for step in steps {
        let scene = Scene::new(scenario);
        let instance = &scene.instance;
        let told = scenario.commands().iter().find_map(|words| {
            let outcome = scene.with_fault(&format!("{kind}:{step}"), words);
            scene.marker.exists().then_some((words, outcome))
        });
        let (words, outcome) = told.expect("the step is passed again");
        let context = format!("{kind} at {step} in {words:?}: {outcome:#?}");
        assert!(outcome.code != 70 && !outcome.stderr.contains("panicked"), "{context}");
        eventually(&format!("only keepers are left. {context}"), || only_keepers(instance));
        let collected = instance.run(["gc"]);
        assert_eq!(collected.code, 0, "{collected:?} after {context}");
        let names = names(instance);
        for name in &names {
            let removed = instance.run(["rm", "--force", name]);
            assert_eq!(removed.code, 0, "{removed:?} after {context}");
        }
        for wrapper in wrappers(instance) {
            let removed = instance.run(["wrap", "--rm", &wrapper]);
            assert_eq!(removed.code, 0, "{removed:?} after {context}");
        }
        let traces = Traces::of(instance);
        assert!(traces.is_clean(), "{traces:#?} after {context}");
        let left: Vec<_> = std::fs::read_dir(instance.work().join("project")).unwrap().flatten().collect();
        assert!(left.is_empty(), "{left:?} after {context}");
        for next in
            [&["create", "next", "--start"] as Words, &["exec", "next", "--", "true"], &["rm", "-f", "next"]]
        {
            let outcome = instance.run(next);
            assert_eq!(outcome.code, 0, "{next:?}: {outcome:?} after {context}");
        }
    }
}

/// Whether the processes there are belong to sandboxes that the list shows as alive.
fn only_keepers(instance: &Instance) -> bool {
    let alive = rows(instance)
        .iter()
        .filter(|(_, state)| ["starting", "running", "stopping"].contains(&state.as_str()))
        .count();
    Traces::of(instance).processes.len() == alive
}

fn rows(instance: &Instance) -> Vec<(String, String)> {
    let rows = instance.run(["ls", "--json"]).ok().json();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    rows.as_array().unwrap().iter().map(|row| (text(&row["name"]), text(&row["state"]))).collect()
}

fn names(instance: &Instance) -> Vec<String> {
    rows(instance).into_iter().map(|(name, _)| name).collect()
}

/// Those that are whole: a fault may have made no difference, or come too early.
fn wrappers(instance: &Instance) -> Vec<String> {
    let rows = instance.run(["wrap", "--ls", "--json"]).ok().json();
    rows.as_array().unwrap().iter().map(|row| row["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_step_there_is_is_passed_by_some_scenario() {
    requires!(bwrap);
    let passed: BTreeSet<String> = Scenario::ALL.into_iter().flat_map(passed).collect();
    // Those of services are tried in tests/provisioning, which needs an engine; those of copies in tests/state; those of
    // syncs in tests/exchange, and in the tests of palisade-workspace.
    let elsewhere = ["provision.", "finish.", "copy.", "sync."];
    let here = |step: &&Step| !elsewhere.iter().any(|start| step.name().starts_with(start));
    let all: BTreeSet<String> = Step::ALL.iter().filter(here).map(|step| step.name().to_owned()).collect();
    assert_eq!(passed, all);
}

#[test]
fn a_sandbox_whose_life_fails_at_any_of_one_half_of_its_steps_leaves_nothing() {
    requires!(bwrap);
    broken_at_half_of_the_steps(Scenario::Life, "fail", Half::First);
}

#[test]
fn a_sandbox_whose_life_fails_at_any_of_the_other_half_leaves_nothing() {
    requires!(bwrap);
    broken_at_half_of_the_steps(Scenario::Life, "fail", Half::Second);
}

#[test]
fn a_sandbox_whose_life_is_cut_off_at_any_of_one_half_of_its_steps_leaves_nothing() {
    requires!(bwrap);
    broken_at_half_of_the_steps(Scenario::Life, "kill", Half::First);
}

#[test]
fn a_sandbox_whose_life_is_cut_off_at_any_of_the_other_half_leaves_nothing() {
    requires!(bwrap);
    broken_at_half_of_the_steps(Scenario::Life, "kill", Half::Second);
}

#[test]
fn a_run_that_fails_at_any_step_leaves_nothing() {
    requires!(bwrap);
    broken_at_every_step(Scenario::Run, "fail");
}

#[test]
fn a_run_that_is_cut_off_at_any_step_leaves_nothing() {
    requires!(bwrap);
    broken_at_every_step(Scenario::Run, "kill");
}

#[test]
fn a_wrapper_whose_making_or_removal_fails_at_any_step_leaves_nothing() {
    requires!(bwrap);
    broken_at_every_step(Scenario::Wrap, "fail");
}

#[test]
fn a_wrapper_whose_making_or_removal_is_cut_off_at_any_step_leaves_nothing() {
    requires!(bwrap);
    broken_at_every_step(Scenario::Wrap, "kill");
}

#[test]
fn a_collection_that_fails_at_any_step_can_be_repeated() {
    requires!(bwrap);
    broken_at_every_step(Scenario::Collection, "fail");
    broken_at_every_step(Scenario::Orphan, "fail");
}

#[test]
fn a_collection_that_is_cut_off_at_any_step_can_be_repeated() {
    requires!(bwrap);
    broken_at_every_step(Scenario::Collection, "kill");
    broken_at_every_step(Scenario::Orphan, "kill");
}
