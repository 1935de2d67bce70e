//! Words that several contracts use.

use palisade_testing::{Instance, Outcome};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// What a command said on stderr, without what Palisade itself says at a start: that `noop` does not isolate, and
/// once which limits this machine cannot enforce.
pub(crate) fn said(outcome: &Outcome) -> String {
    let own = |line: &&str| {
        line.starts_with("warning: method 'noop'")
            || line.starts_with("warning: the default limits")
            || line.starts_with("(said once;")
    };
    outcome.stderr.split_inclusive('\n').filter(|line| !own(line)).collect()
}

/// A command that is still running, after it has written its first line.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) stdout: BufReader<ChildStdout>,
}

impl Running {
    /// Starts it and waits until it has written the line `ready`.
    #[track_caller]
    pub(crate) fn until_ready(command: &mut Command) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("palisade starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe from its output"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("its first line");
        if line != "ready\n" {
            let output = child.wait_with_output().expect("its end");
            panic!("not ready: {line:?}, {}", String::from_utf8_lossy(&output.stderr));
        }
        Self { child, stdout }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("signal palisade");
    }

    /// What came after `ready`, and the end.
    pub(crate) fn finish(mut self) -> Outcome {
        let mut stdout = String::new();
        std::io::Read::read_to_string(&mut self.stdout, &mut stdout).expect("the rest of its output");
        let output = self.child.wait_with_output().expect("its end");
        Outcome { stdout, ..Outcome::from(output) }
    }
}

/// Host processes with this word in their arguments, whatever namespaces they are in. Looked at from outside, so that
/// a sandbox that is gone can be looked at, too.
pub(crate) fn processes_with(word: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if words.split(|&byte| byte == 0).any(|argument| argument == word.as_bytes()) {
            found.push(pid);
        }
    }
    found
}

/// Seconds to sleep that no other test of this machine uses: a mark to find a process by.
pub(crate) fn unique_sleep() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{}.{:03}", 100_000 + std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Names and states, as `ls --json` tells them.
#[track_caller]
pub(crate) fn states(instance: &Instance) -> Vec<(String, String)> {
    let rows = instance.run(["ls", "--json"]).ok().json();
    let text = |row: &serde_json::Value, key: &str| row[key].as_str().expect("text").to_owned();
    rows.as_array().expect("a list").iter().map(|row| (text(row, "name"), text(row, "state"))).collect()
}

#[track_caller]
pub(crate) fn inspect(instance: &Instance, name: &str) -> serde_json::Value {
    instance.run(["inspect", name, "--json"]).ok().json()
}

pub(crate) fn outcome(stdout: &str, stderr: &str, code: i32) -> Outcome {
    Outcome { stdout: stdout.into(), stderr: stderr.into(), code }
}

/// The command lines on this machine in which a text stands.
pub(crate) fn argument_lists_with(text: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let lists = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lists = lists.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    lists.filter(|list| list.contains(text)).collect()
}

/// The files below a directory in which these bytes stand.
pub(crate) fn files_with(root: &Path, needle: &[u8]) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let kind = entry.file_type().expect("what it is");
            if kind.is_dir() {
                pending.push(entry.path());
            } else if kind.is_file() {
                let bytes = std::fs::read(entry.path()).expect("a readable file");
                if bytes.windows(needle.len()).any(|window| window == needle) {
                    found.push(entry.path());
                }
            }
        }
    }
    found
}
