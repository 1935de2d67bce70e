//! Faults on purpose: every step of a verb after which something exists has a name, and a test can have the program
//! fail or die right there.
//!
//! Only programs built with debug assertions have this; in a released one [`at`] is empty. A library never arms
//! itself: the program that hosts it does, from what the test said. See `crates/cli/tests/faults`, which tries every
//! step that a scenario passes, so a new one is tried without anybody thinking of it.

/// Declares the steps and [`Step::ALL`] at once, so that none can be left out.
macro_rules! steps {
    ($($(#[$meta:meta])* $name:ident = $text:literal,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Step { $($(#[$meta])* $name,)* }

        impl Step {
            pub const ALL: &[Step] = &[$(Step::$name,)*];

            pub fn name(self) -> &'static str {
                match self { $(Step::$name => $text,)* }
            }
        }
    };
}

steps! {
    /// The instance's id is written.
    InstanceMade = "instance.made",
    /// Where the state directory is, is written.
    InstancePlaced = "instance.placed",
    /// A copied state directory has a store of its own; its files still name the original.
    CopyDetached = "copy.detached",
    /// A copied state directory has an id of its own; it is not written down that it is at its place.
    CopyNamed = "copy.named",
    /// The lease of this process is written.
    LeaseTaken = "lease.taken",
    /// Row and intent are recorded; nothing is made.
    CreateRecorded = "create.recorded",
    /// The sandbox's own directory is there, and empty.
    CreateDirectory = "create.directory",
    /// Home and workspace are there, and belong to the sandbox.
    CreatePlaces = "create.places",
    /// The directory describes its sandbox.
    CreateDescribed = "create.described",
    /// All is made; the intent still stands.
    CreateMade = "create.made",
    /// The intent to start is recorded.
    StartIntent = "start.intent",
    /// The record says `starting`; there is no keeper.
    StartStarting = "start.starting",
    /// The keeper's process is there, and unknown to the record.
    StartSpawned = "start.spawned",
    /// The keeper has said what became of the start.
    StartReported = "start.reported",
    /// The keeper runs, before it has made itself known.
    KeepBegun = "keep.begun",
    /// The record names the keeper.
    KeepAdopted = "keep.adopted",
    /// The keeper listens at its socket.
    KeepSocket = "keep.socket",
    /// A bound directory is locked; its fence is not begun.
    FenceLocked = "fence.locked",
    /// The fence's journal is written; no placeholder is made.
    FenceJournal = "fence.journal",
    /// The placeholders are made.
    FenceMade = "fence.made",
    /// The cgroup is made, and empty.
    LaunchGroup = "launch.group",
    /// The program that holds the sandbox is started.
    LaunchStarted = "launch.started",
    /// The guest has answered the keeper.
    KeepGreeted = "keep.greeted",
    /// The record says `running`.
    KeepRunning = "keep.running",
    /// A client is connected to the keeper.
    ExecConnected = "exec.connected",
    /// The record says `stopping`.
    KeepStopping = "keep.stopping",
    /// The guest was told to leave.
    KeepGuestLeft = "keep.guest-left",
    /// The processes have ended; the fence and the cgroup stand.
    LaunchEnded = "launch.ended",
    /// The fence is taken away; the cgroup stands.
    FenceReleased = "fence.released",
    /// What lived while it ran is given back; the record does not say so.
    KeepGivenBack = "keep.given-back",
    /// The socket is gone; the record still names the keeper.
    KeepSocketGone = "keep.socket-gone",
    /// The keeper was asked to stop.
    StopAsked = "stop.asked",
    /// The keeper has ended.
    StopEnded = "stop.ended",
    /// The intent to remove is recorded.
    RemoveIntent = "remove.intent",
    /// The backend holds nothing that runs.
    RemoveStopped = "remove.stopped",
    /// The directories are gone; the row stands.
    RemoveDirectories = "remove.directories",
    /// Nothing is left of it, in the record either.
    RemoveForgotten = "remove.forgotten",
    /// A one-off run's sandbox is started, and has not answered.
    RunStarted = "run.started",
    /// A one-off run's guest has answered.
    RunGreeted = "run.greeted",
    /// A one-off run's command has ended; nothing is given back.
    RunEnding = "run.ending",
    /// A wrapper's record is written, under a passing name.
    WrapRecorded = "wrap.recorded",
    /// A wrapper's script stands where callers find it; its record has a passing name.
    WrapWritten = "wrap.written",
    /// A wrapper is one no more; its record and its script are there.
    WrapRemoving = "wrap.removing",
    /// A slot is taken for services; there is no worktree.
    ProvisionClaimed = "provision.claimed",
    /// The worktree is made; the slot does not say so.
    ProvisionWorktree = "provision.worktree",
    /// The files are copied.
    ProvisionFiles = "provision.files",
    /// The secrets are known, and written nowhere.
    ProvisionSecrets = "provision.secrets",
    /// The variables that are no secrets are written.
    ProvisionEnvironment = "provision.environment",
    /// The secrets are written.
    ProvisionSecretsWritten = "provision.secrets-written",
    /// The override of the compose file is written.
    ProvisionOverride = "provision.override",
    /// The services are started.
    ProvisionUp = "provision.up",
    /// The services are healthy.
    ProvisionHealthy = "provision.healthy",
    /// The services are gone, with their volumes.
    FinishDown = "finish.down",
    /// The secrets are gone.
    FinishSecrets = "finish.secrets",
    /// The worktree is gone; the slot is there.
    FinishWorktree = "finish.worktree",
    /// An archive of a sandbox's work is made; nothing else has changed.
    SyncArchived = "sync.archived",
    /// The index is locked, and there is a place for new files; none is made.
    SyncStaged = "sync.staged",
    /// The files are in the working tree; index and refs are as they were.
    SyncPlaced = "sync.placed",
    /// The index is the new one; refs are as they were.
    SyncIndexed = "sync.indexed",
    /// The refs have moved.
    SyncMoved = "sync.moved",
    /// A collection has found something to do, and done nothing.
    CollectFound = "collect.found",
    /// A dead process's intent is settled.
    CollectSettled = "collect.settled",
    /// A leftover is removed.
    CollectDiscarded = "collect.discarded",
}

#[cfg(debug_assertions)]
pub use armed::{arm, at};

/// In a released program no step ever fails on purpose.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn at(_step: Step) -> std::io::Result<()> {
    Ok(())
}

#[cfg(debug_assertions)]
mod armed {
    use super::Step;
    use std::fs::OpenOptions;
    use std::io::{Error, Result, Write};
    use std::path::PathBuf;
    use std::sync::OnceLock;

    #[derive(Debug)]
    enum Plan {
        /// Write down every step that is passed.
        Trace(PathBuf),
        /// Once, in whichever process comes there first: the file is made by it.
        Fail(String, PathBuf),
        Kill(String, PathBuf),
    }

    static PLAN: OnceLock<Plan> = OnceLock::new();

    /// `trace@FILE`, `fail:STEP@FILE` or `kill:STEP@FILE`. Anything else arms nothing.
    pub fn arm(text: &str) {
        let Some((what, file)) = text.split_once('@') else { return };
        let file = PathBuf::from(file);
        let plan = match what.split_once(':') {
            None if what == "trace" => Plan::Trace(file),
            Some(("fail", step)) => Plan::Fail(step.into(), file),
            Some(("kill", step)) => Plan::Kill(step.into(), file),
            _ => return,
        };
        let _ = PLAN.set(plan);
    }

    /// Passes the step, fails there, or dies there.
    pub fn at(step: Step) -> Result<()> {
        let first = |file: &PathBuf| OpenOptions::new().write(true).create_new(true).open(file).is_ok();
        match PLAN.get() {
            Some(Plan::Trace(file)) => {
                let mut file = OpenOptions::new().append(true).create(true).open(file)?;
                writeln!(file, "{}", step.name())
            }
            Some(Plan::Fail(name, file)) if name == step.name() && first(file) => {
                Err(Error::other(format!("a fault on purpose at {name}")))
            }
            Some(Plan::Kill(name, file)) if name == step.name() && first(file) => {
                let _ =
                    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
                loop {
                    // The signal may be on its way to another thread of this process.
                    std::thread::park();
                }
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Step;
    use std::collections::BTreeSet;

    #[test]
    fn every_step_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = Step::ALL.iter().map(|step| step.name()).collect();
        assert_eq!(names.len(), Step::ALL.len());
    }
}
