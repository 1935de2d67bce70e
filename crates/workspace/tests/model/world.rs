//! Both sides of an exchange while a sequence runs: does what a step says, and looks at everything.

use crate::actions::PRELUDE;
use crate::contents::{Contents, SideGit};
use crate::look::{Look, Outcome};
use crate::sequence::{Act, Actor, Command};
use crate::support::Scene;
use crate::template::{new_directory, template};
use crate::users_state::{AgentState, look_at_host};
use palisade_core::{SandboxId, SandboxName};
use palisade_workspace::{
    ArchiveReason, ArchiveReport, BranchSelection, ExchangeError, ExchangeReport, FilesOutcome, MergeMode,
    OnUnapplied, OnUncommitted, SandboxRefs, TagMode,
};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

/// For a process that is started to be interrupted in a sync: the world's directory, the host's name in it, the number
/// of the sandbox, and the fault.
const INTERRUPTED: &str = "PALISADE_MODEL_INTERRUPTED";

pub(crate) struct World {
    scene: Scene,
    sandboxes: u8,
    pub(crate) user_git: SideGit,
    agent_git: SideGit,
}

fn refs(sandboxes: u8) -> SandboxRefs {
    SandboxRefs::new(SandboxId::from_random([sandboxes; 15]), SandboxName::new("box").unwrap())
}

impl World {
    pub(crate) fn new() -> Self {
        let owner = new_directory();
        template().copy_to(owner.path());
        for name in ["inside", "inside-home"] {
            fs::create_dir(owner.path().join(name)).unwrap();
        }
        let directory = owner.path().canonicalize().unwrap();
        let mut world = Self::at(directory, 1);
        world.scene.owner = Some(owner);
        world
    }

    fn at(directory: PathBuf, sandboxes: u8) -> Self {
        let [user_git, agent_git] =
            ["home", "inside-home"].map(|name| SideGit { home: directory.join(name) });
        let mut scene = Scene::at(directory);
        scene.refs = refs(sandboxes);
        Self { scene, sandboxes, user_git, agent_git }
    }

    pub(crate) fn host(&self) -> PathBuf {
        self.scene.path(&self.scene.root)
    }

    pub(crate) fn inside(&self) -> PathBuf {
        self.scene.path("inside")
    }

    /// How many sandboxes there were, this one included.
    pub(crate) fn sandboxes(&self) -> u8 {
        self.sandboxes
    }

    /// The refs of this sandbox, and of the one before that had its name.
    pub(crate) fn recent_refs(&self) -> [SandboxRefs; 2] {
        [refs(self.sandboxes), refs(self.sandboxes - 1)]
    }

    /// Whether the action found something to do, and did it.
    pub(crate) fn act(&mut self, act: &Act) -> bool {
        let (git, place) = match act.actor {
            Actor::User => (&self.user_git, self.host()),
            Actor::Agent => (&self.agent_git, self.inside()),
        };
        let script = format!("{PRELUDE}\n{}", act.action().script);
        let mut command = git.command(&place, "sh");
        command.args(["-c", &script]).envs(act.variables());
        command.env_remove("GIT_OPTIONAL_LOCKS");
        let settings = [("COUNT", "1"), ("KEY_0", "maintenance.auto"), ("VALUE_0", "false")];
        command.envs(settings.map(|(name, value)| (format!("GIT_CONFIG_{name}"), value)));
        let output = command.output().unwrap();
        if std::env::var_os("PALISADE_MODEL_VERBOSE").is_some() && !output.stderr.is_empty() {
            println!("    {}", String::from_utf8_lossy(&output.stderr).trim_end().replace('\n', "\n    "));
        }
        let moved = format!("host-{}", act.step);
        if act.actor == Actor::User && self.scene.path(&moved).exists() {
            self.scene.root = moved;
        }
        output.status.success()
    }

    pub(crate) fn look(&self) -> Look {
        let (user, host) = look_at_host(&self.user_git, &self.host());
        let inside = Contents::list(&self.agent_git, &self.inside());
        let has_repository = self.inside().join(".git").exists();
        let agent = has_repository.then(|| AgentState::look(&self.agent_git, &self.inside(), &inside));
        Look { user, host, inside, agent }
    }

    /// Runs a command of the product's. An error is one that no command should end with.
    pub(crate) async fn run(&mut self, command: &Command) -> Result<Outcome, String> {
        match command {
            Command::Start { include_changes, follow_host } => {
                let started = self.scene.start_with(|options| {
                    if *include_changes {
                        options.on_uncommitted = OnUncommitted::Include;
                    }
                    if *follow_host {
                        options.on_unapplied = OnUnapplied::FollowHost;
                    }
                });
                match started.await {
                    Ok(report) => {
                        let text = format!("{report:?}");
                        Ok(Outcome::Started { archived: report.archived, report: text })
                    }
                    Err(ExchangeError::Uncommitted { .. } | ExchangeError::Host(_)) => Ok(Outcome::Refused),
                    Err(error) => Err(format!("start: {error}: {error:?}")),
                }
            }
            // Everything else needs a sandbox.
            _ if !self.inside().join(".git").exists() => Ok(Outcome::Refused),
            Command::Sync { merge, tags, all, only } => {
                let synced = self.scene.sync_with(|options| {
                    if *merge {
                        options.merge = MergeMode::Merge;
                    }
                    if *tags {
                        options.tags = TagMode::Create;
                    }
                    if *all {
                        options.selection = BranchSelection::All;
                    }
                    options.only = only.iter().map(PathBuf::from).collect();
                });
                let synced = synced.await.map_err(|error| format!("sync: {error}: {error:?}"))?;
                Ok(Outcome::Synced(Box::new(synced.0)))
            }
            Command::Stop => Ok(Outcome::Archived(self.archive(ArchiveReason::Stop).await?)),
            Command::Remove { force } => self.remove(*force).await,
            Command::Discard => {
                self.take_away();
                Ok(Outcome::Discarded)
            }
            Command::RemoveWorktrees { force } => self.remove_worktrees(*force).await,
            Command::Interrupted { fault, kill } => self.interrupt(fault, *kill),
        }
    }

    async fn archive(&self, reason: ArchiveReason) -> Result<ArchiveReport, String> {
        let archived = self.scene.exchange(async |exchange| exchange.archive(reason).await).await;
        archived.map_err(|error| format!("archive: {error}: {error:?}"))
    }

    async fn unapplied(&self, reason: ArchiveReason) -> Result<ExchangeReport, String> {
        let listed = self.scene.exchange(async |exchange| exchange.unapplied(reason).await).await;
        listed.map_err(|error| format!("list of what is unapplied: {error}: {error:?}"))
    }

    /// As the engine and the agents' service remove a sandbox: a look, the last archive, and then it goes.
    async fn remove(&mut self, force: bool) -> Result<Outcome, String> {
        let report = self.unapplied(ArchiveReason::Remove).await?;
        let has_nested = report.archived.nested.iter().any(|nested| !nested.is_on_host);
        let is_refused = !force && (report.sync.has_unapplied_work() || has_nested);
        if is_refused || !report.archived.is_complete() {
            return Ok(Outcome::Archived(report.archived));
        }
        let archived = self.archive(ArchiveReason::Remove).await?;
        if !archived.is_complete() {
            return Ok(Outcome::Archived(archived));
        }
        self.take_away();
        Ok(Outcome::Removed(archived))
    }

    /// The sandbox is gone, and the next one has its name.
    fn take_away(&mut self) {
        for name in ["inside", "inside-home"] {
            fs::remove_dir_all(self.scene.path(name)).unwrap();
            fs::create_dir(self.scene.path(name)).unwrap();
        }
        self.sandboxes += 1;
        self.scene.refs = refs(self.sandboxes);
    }

    /// As the agents' service removes worktrees.
    async fn remove_worktrees(&self, force: bool) -> Result<Outcome, String> {
        let report = self.unapplied(ArchiveReason::WorktreeRemove).await?;
        if !report.archived.is_complete() {
            return Ok(Outcome::Archived(report.archived));
        }
        let survey = self.scene.exchange(async |exchange| exchange.sandbox.survey().await).await;
        let survey = survey.map_err(|error| format!("survey: {error}"))?.ok_or("no repository inside")?;
        for tree in survey.main.trees.iter().skip(1) {
            let outcomes = report.sync.trees.iter().filter(|outcome| outcome.path == tree.path);
            let has_work = outcomes.into_iter().any(|outcome| match &outcome.files {
                FilesOutcome::Waiting(_) => true,
                FilesOutcome::Applied { report, .. } => report.has_news(),
            });
            if force || !has_work {
                let remove = async |exchange: &palisade_workspace::Exchange<'_>| {
                    exchange.sandbox.remove_worktree(&tree.path).await
                };
                self.scene.exchange(remove).await.map_err(|error| format!("worktree rm: {error}"))?;
            }
        }
        Ok(Outcome::Removed(report.archived))
    }

    /// Syncs in another process, which is killed or fails at a step. Where the step is not reached, it ends well.
    fn interrupt(&self, fault: &str, kill: bool) -> Result<Outcome, String> {
        let how = if kill { "kill" } else { "fail" };
        let (top, root) = (self.scene.path(""), &self.scene.root);
        let order = format!("{}\n{root}\n{}\n{how}:{fault}", top.display(), self.sandboxes);
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", crate::INTERRUPTED_TEST, "--nocapture"]).env(INTERRUPTED, order);
        let output = command.output().unwrap();
        let is_expected = output.status.success() || (kill && output.status.signal() == Some(9));
        let said = || [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
        let _ = fs::remove_file(self.scene.path("fault"));
        is_expected.then_some(Outcome::Interrupted).ok_or_else(|| format!("an interrupted sync: {}", said()))
    }

    /// In a process that was started to be interrupted, syncs.
    pub(crate) async fn sync_interrupted() {
        let Ok(order) = std::env::var(INTERRUPTED) else { return };
        let [directory, root, sandboxes, fault] = order.split('\n').collect::<Vec<_>>().try_into().unwrap();
        let mut world = Self::at(directory.into(), sandboxes.parse().unwrap());
        world.scene.root = root.to_owned();
        palisade_host::fault::arm(&format!("{fault}@{}", world.scene.path("fault").display()));
        if let Err(error) = world.scene.sync_with(|_| {}).await {
            let causes = format!("{error:?}");
            assert!(causes.contains("a fault on purpose"), "{causes}");
        }
    }
}
