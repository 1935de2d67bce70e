//! What is not ours and must not be touched: another installation's running sandbox on the same machine, and things
//! that look like ours.

use crate::support::{foreign_id, keeper};
use palisade_core::ProcessIdentity;
use palisade_host::process;
use palisade_testing::{Instance, Traces, is_root};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Mutex;

/// Runs as long as this lives; [`Neighbour::assert_untouched`] looks at it.
pub(crate) struct Neighbour {
    /// Before the instance, which cannot be taken away under a command that still runs.
    at_work: Mutex<AtWork>,
    instance: Instance,
    keeper: ProcessIdentity,
    traces: Traces,
    lookalikes: Vec<PathBuf>,
}

impl Neighbour {
    pub(crate) fn new() -> Self {
        let instance = Instance::with_method("bwrap");
        instance.started("neighbour");
        let keeper = keeper(&instance, "neighbour");
        instance.shell("neighbour", "echo work > /workspace/work").ok();
        let mut at_work = AtWork::begin(&instance);
        at_work.answer("up\n");
        let traces = Traces::of(&instance);
        Self { at_work: Mutex::new(at_work), instance, keeper, traces, lookalikes: foreign_cgroups() }
    }

    /// The command that has run inside since the beginning still does what it is told.
    #[track_caller]
    pub(crate) fn assert_answers(&self) {
        assert!(process::is_alive(&self.keeper), "the neighbour's keeper lives");
        self.at_work.lock().unwrap().answer("and still\n");
    }

    /// Looks at it from all sides.
    #[track_caller]
    pub(crate) fn assert_untouched(&self) {
        self.assert_answers();
        // One look at a time: a look's own commands would be found by the other.
        let _looking = self.at_work.lock().unwrap();
        assert_eq!(Traces::of(&self.instance), self.traces);
        assert_eq!(self.instance.shell("neighbour", "cat /workspace/work").ok().stdout, "work\n");
        for directory in &self.lookalikes {
            assert!(directory.exists(), "{}", directory.display());
        }
    }
}

/// A command inside that answers what it is told.
struct AtWork {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl AtWork {
    fn begin(instance: &Instance) -> Self {
        let mut command = instance.command(["exec", "-i", "neighbour", "--", "cat"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, answers }
    }

    #[track_caller]
    fn answer(&mut self, line: &str) {
        self.child.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        assert_eq!(answer, line);
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        // Its input ends, and so does it.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        for directory in &self.lookalikes {
            let _ = std::fs::remove_dir(directory);
            let _ = std::fs::remove_dir(directory.parent().unwrap());
        }
    }
}

/// Groups named like a sandbox's, of an owner that no installation has. Only root can make them.
fn foreign_cgroups() -> Vec<PathBuf> {
    if !is_root() {
        return Vec::new();
    }
    let roots = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten().map(|entry| entry.path());
    let ours = roots.map(|root| root.join("palisade")).filter(|level| level.is_dir());
    let owner = format!("foreign-{}", std::process::id());
    let made = ours.map(|level| level.join(&owner).join(format!("sb-{}", foreign_id())));
    // Other tests' instances may just be making or removing the levels above.
    made.filter(|directory| std::fs::create_dir_all(directory).is_ok()).collect()
}
