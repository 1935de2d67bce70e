//! Probes that run *inside* a sandbox, over every way in, and the same probes without the protection.
//!
//! A probe is a Python script that prints one line of JSON and never panics: the test asserts the whole value
//! inside, and the opposite value where nothing protects. A probe that could not fail proves nothing.

mod differences;

pub use differences::{Differences, Files, LinkInTheWay, Uid, Users};

use crate::{Instance, Outcome};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::process::{Command, Stdio};

/// Makes system calls and tells how each ended; see the script.
pub const SYSTEM_CALLS: &str = include_str!("system_calls.py");
/// Looks for a text in names and contents below the directories given as arguments.
pub const SEARCH: &str = include_str!("search.py");
/// Looks for planted secrets wherever a credential can be had from; see the script.
pub const CREDENTIALS: &str = include_str!("credentials.py");
/// Tries to open kernel files for writing, and never writes.
pub const KERNEL_FILES: &str = include_str!("kernel_files.py");

/// In `/usr`, which a sandbox sees.
const PYTHON: &str = "/usr/bin/python3";

/// The ways by which a command gets into a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// A sandbox of the command's own.
    Run,
    /// A sandbox that was started before.
    Exec,
}

/// A sandbox, and the way into it.
#[derive(Debug)]
pub struct Inside {
    pub instance: Instance,
    entry: Entry,
    flags: Vec<OsString>,
}

const NAME: &str = "probed";

impl Inside {
    /// `flags` are those that `run` and `create` share.
    #[track_caller]
    pub fn new<F: AsRef<OsStr>>(instance: Instance, entry: Entry, flags: &[F]) -> Self {
        let flags: Vec<OsString> = flags.iter().map(|flag| flag.as_ref().to_owned()).collect();
        if entry == Entry::Exec {
            let words = ["create", "--start"].into_iter().map(OsString::from);
            instance.run(words.chain(flags.clone()).chain([NAME.into()])).ok();
        }
        Self { instance, entry, flags }
    }

    pub fn entry(&self) -> Entry {
        self.entry
    }

    /// The command that runs these words inside, with its standard input relayed.
    pub fn command<A: AsRef<OsStr>>(&self, words: &[A]) -> Command {
        let mut arguments: Vec<OsString> = match self.entry {
            Entry::Run => vec!["run".into()],
            Entry::Exec => vec!["exec".into(), "-i".into(), NAME.into()],
        };
        if self.entry == Entry::Run {
            arguments.extend(self.flags.iter().cloned());
        }
        arguments.push("--".into());
        arguments.extend(words.iter().map(|word| word.as_ref().to_owned()));
        self.instance.command(arguments)
    }

    #[track_caller]
    pub fn run<A: AsRef<OsStr>>(&self, words: &[A]) -> Outcome {
        Instance::finish(&mut self.command(words))
    }

    #[track_caller]
    pub fn shell(&self, script: &str) -> Outcome {
        self.run(&["sh", "-c", script])
    }

    /// What a Python script prints, which is JSON.
    #[track_caller]
    pub fn python(&self, script: &str, arguments: &[&str]) -> Value {
        self.run(&python_words(script, arguments)).ok().json()
    }
}

fn python_words<'a>(script: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
    // -I: nothing of the surroundings steers the probe; -S: nor of the machine's packages.
    [&[PYTHON, "-IS", "-c", script], arguments].concat()
}

/// Calls `body` once for each way in, with a sandbox of its own.
#[track_caller]
pub fn everywhere(method: &'static str, flags: &[&str], mut body: impl FnMut(&Inside)) {
    for entry in [Entry::Run, Entry::Exec] {
        body(&Inside::new(Instance::with_python(method), entry, flags));
    }
}

/// The script on the host itself, as whoever runs the test.
#[track_caller]
pub fn on_host(script: &str, arguments: &[&str]) -> Value {
    let words = python_words(script, arguments);
    finish(Command::new(words[0]).args(&words[1..]))
}

/// The script under bwrap as one would write it by hand: namespaces of its own and no capabilities, but all of the
/// host's files, no system call filter, and root's own uid when root starts it.
#[track_caller]
pub fn under_naive_bwrap(script: &str, arguments: &[&str]) -> Value {
    finish(&mut naive_bwrap(&[], &python_words(script, arguments)))
}

/// The command behind [`under_naive_bwrap`], with more options.
pub fn naive_bwrap(options: &[&str], words: &[&str]) -> Command {
    let mut command = Command::new("bwrap");
    command
        .args(["--unshare-all", "--cap-drop", "ALL", "--uid", "1000", "--gid", "1000", "--die-with-parent"])
        .args(["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"])
        .args(options)
        .arg("--")
        .args(words);
    command
}

#[track_caller]
fn finish(command: &mut Command) -> Value {
    let output = command.env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null()).output();
    Outcome::from(output.expect("the control starts")).ok().json()
}

/// A text that is nowhere else on the machine.
pub fn nonce() -> String {
    let bytes = std::fs::read("/proc/sys/kernel/random/uuid").expect("the kernel's random names");
    format!("canary-{}", String::from_utf8_lossy(&bytes).trim())
}
