//! Looking at an instance from outside: its rows, its keepers, and the processes below them.

use palisade_core::{ProcessIdentity, SandboxId};
use palisade_host::process;
use palisade_store::{Row, Store};
use palisade_testing::{Instance, Traces, eventually};
use rustix::process::{Pid, Signal};
use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};

/// The instance's own store, read while its commands are at work.
pub(crate) fn store(instance: &Instance) -> Store {
    Store::open(&instance.state(), || instance.owner()).unwrap()
}

pub(crate) fn row(instance: &Instance, name: &str) -> Option<Row> {
    store(instance).find(name).ok()
}

/// The states `ls` shows, by name.
pub(crate) fn listed(instance: &Instance) -> Vec<(String, String)> {
    let rows = instance.run(["ls", "--json"]).ok().json();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    rows.as_array().unwrap().iter().map(|row| (text(&row["name"]), text(&row["state"]))).collect()
}

/// What `ls` says of one sandbox: its state, and what is wrong with it.
#[track_caller]
pub(crate) fn shown(instance: &Instance, name: &str) -> (String, String) {
    let rows = instance.run(["ls", "--json"]).ok().json();
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == name).expect("the sandbox is listed");
    (row["state"].as_str().unwrap().into(), row["error"].as_str().unwrap_or_default().into())
}

/// What a collection did, or would do.
#[track_caller]
pub(crate) fn gc(instance: &Instance, arguments: &[&str]) -> Vec<String> {
    let all = ["gc", "--json"].into_iter().chain(arguments.iter().copied());
    let items = instance.run(all).ok().json();
    let item = |item: &serde_json::Value| {
        format!("{}: {}", item["what"].as_str().unwrap(), item["action"].as_str().unwrap())
    };
    items.as_array().unwrap().iter().map(item).collect()
}

/// A dry run that changes nothing, the real one that does what it said, and a second one that finds nothing.
#[track_caller]
pub(crate) fn collect(instance: &Instance) -> Vec<String> {
    let before = (Traces::of(instance), snapshot(instance));
    let told = gc(instance, &["--dry-run"]);
    assert_eq!((Traces::of(instance), snapshot(instance)), before, "a dry run changes nothing");
    assert_eq!(gc(instance, &[]), told, "it does what it said");
    assert_eq!(gc(instance, &[]), Vec::<String>::new(), "a second collection finds nothing");
    told
}

fn snapshot(instance: &Instance) -> String {
    let store = store(instance);
    format!("{:?} {:?}", store.list().unwrap(), store.intents().unwrap())
}

#[track_caller]
pub(crate) fn assert_clean(instance: &Instance) {
    let traces = Traces::of(instance);
    assert!(traces.is_clean(), "{traces:#?}");
    assert_eq!(listed(instance), []);
    assert_eq!(store(instance).intents().unwrap().intents, []);
}

/// Whether the instance's processes are the keepers that its rows name, and no others.
pub(crate) fn only_keepers_of_the_record(instance: &Instance) -> bool {
    let rows = store(instance).list().unwrap().rows;
    let named: BTreeSet<u32> = rows.iter().filter_map(|row| Some(row.keeper.as_ref()?.pid)).collect();
    let pid = |text: &String| text.split(':').next().and_then(|pid| pid.parse().ok());
    let found: BTreeSet<u32> = Traces::of(instance).processes.iter().filter_map(pid).collect();
    found == named
}

#[track_caller]
pub(crate) fn keeper(instance: &Instance, name: &str) -> ProcessIdentity {
    row(instance, name).expect("a row").keeper.expect("a keeper")
}

/// Everything below a process, itself left out.
pub(crate) fn below(process: &ProcessIdentity) -> Vec<ProcessIdentity> {
    let mut found: Vec<u32> = vec![process.pid];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(processes().filter(|pid| parent_of(*pid) == Some(parent)));
        next += 1;
    }
    found.into_iter().skip(1).filter_map(process::identify).collect()
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The guest of a sandbox's keeper or of a run: process 1 of the sandbox's own processes.
#[track_caller]
pub(crate) fn guest_below(process: &ProcessIdentity) -> ProcessIdentity {
    let is_guest = |candidate: &ProcessIdentity| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", candidate.pid)).unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
        let inside: Vec<&str> = numbers.split_whitespace().collect();
        inside.len() > 1 && inside.last() == Some(&"1")
    };
    below(process).into_iter().find(is_guest).expect("a guest below the keeper")
}

pub(crate) fn kill(process: &ProcessIdentity) {
    assert!(process::is_alive(process), "{process:?} has ended already");
    rustix::process::kill_process(Pid::from_raw(process.pid as i32).unwrap(), Signal::KILL).unwrap();
    wait_gone(std::slice::from_ref(process));
}

#[track_caller]
pub(crate) fn wait_gone(processes: &[ProcessIdentity]) {
    for process in processes {
        eventually(&format!("{process:?} ends"), || !process::is_alive(process));
    }
}

#[track_caller]
pub(crate) fn wait_for_state(instance: &Instance, name: &str, state: &str) {
    eventually(&format!("{name} is {state}"), || {
        row(instance, name).is_some_and(|row| row.state.as_str() == state)
    });
}

/// A command of the program that was started and is not waited for.
pub(crate) struct Underway(pub(crate) Child);

impl Underway {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    pub(crate) fn identity(&self) -> ProcessIdentity {
        process::identify(self.0.id()).expect("it has not ended yet")
    }

    /// The first line it says.
    pub(crate) fn line(&mut self) -> String {
        use std::io::{BufRead, BufReader};
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line
    }

    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    pub(crate) fn finish(self) -> palisade_testing::Outcome {
        self.0.wait_with_output().unwrap().into()
    }
}

/// A process that has ended: the owner of whatever it had begun.
pub(crate) fn dead_process() -> ProcessIdentity {
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let identity = process::identify(child.id()).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    identity
}

/// A well-formed id that no sandbox has.
pub(crate) fn foreign_id() -> SandboxId {
    SandboxId::from_random([0x5a; 15])
}
