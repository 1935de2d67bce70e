//! `palisade agent sync`.

use super::{artifacts, chosen, workshop};
use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_agents::{AgentSandbox, Branch, Homecoming, SyncRequest, Which};
use palisade_core::printable;
use palisade_workspace::{Autorun, BranchName, Commits, Divergence, Waits, Work};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Bring an agent's work home: commits, and changes that are not committed
///
/// Commits move your branch forward when nothing is in the way; changes arrive in your working tree, where `git diff`
/// shows them. What cannot be applied waits on a branch palisade/NAME, and nothing of yours is overwritten. With
/// --artifacts, files that git ignores come too; those that came before are replaced, any other of yours is kept.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name or id [default: the sandbox of the repository here]
    pub(crate) name: Option<String>,
    /// Merge when both sides have commits
    #[arg(long)]
    pub(crate) merge: bool,
    /// Only what is in the worktree of this branch
    #[arg(long, value_name = "BRANCH", conflicts_with = "all")]
    pub(crate) worktree: Option<String>,
    /// All branches
    #[arg(long)]
    pub(crate) all: bool,
    /// Also files that git ignores: these, from the top of the working tree, or all. NAME comes before it
    #[arg(long, value_name = "PATH", num_args = 0..)]
    pub(crate) artifacts: Option<Vec<PathBuf>>,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What came home, as `--json` tells it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Synced {
    branches: Vec<SyncedBranch>,
    /// Branches and worktrees whose names cannot come home.
    unnameable: usize,
    /// With `--artifacts`: what came of each working tree.
    artifacts: Vec<artifacts::SyncedArtifacts>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SyncedBranch {
    name: String,
    commits: CommitsState,
    /// How many commits came, or wait.
    count: u32,
    /// Paths whose changes were laid into the working tree.
    laid: Vec<String>,
    /// Why something waits, for people.
    waits: Option<String>,
    /// Changed files that run by themselves.
    autorun: Vec<SyncedAutorun>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum CommitsState {
    Same,
    Forwarded,
    Merged,
    Waiting,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SyncedAutorun {
    path: String,
    why: &'static str,
}

impl SyncedAutorun {
    pub(super) fn new(file: &Autorun) -> Self {
        Self { path: shown(&file.path), why: file.runs.told() }
    }
}

impl SyncedBranch {
    fn new(branch: &Branch) -> Self {
        let mut waits = None;
        let (commits, count) = match &branch.applied.commits {
            Commits::Same => (CommitsState::Same, 0),
            Commits::Forwarded(count) => (CommitsState::Forwarded, *count),
            Commits::Merged(count) => (CommitsState::Merged, *count),
            Commits::Waiting { count, why } => {
                waits = Some(reason(why));
                (CommitsState::Waiting, *count)
            }
        };
        let mut laid = Vec::new();
        match &branch.applied.work {
            Work::None => {}
            Work::Laid { paths } => laid.extend(paths.iter().map(|path| shown(path))),
            Work::Waiting { why } => waits = waits.or_else(|| Some(reason(why))),
        }
        let autorun = branch.autorun.iter().map(SyncedAutorun::new);
        Self {
            name: printable(branch.name.as_str()),
            commits,
            count,
            laid,
            waits,
            autorun: autorun.collect(),
        }
    }
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let paths = arguments.artifacts.as_deref().map(artifacts::paths).transpose()?;
    let workshop = workshop(context)?;
    let sandbox = chosen(&workshop, arguments.name.as_deref()).await?;
    let which = match &arguments.worktree {
        Some(branch) => Which::Worktree(
            BranchName::new(branch)
                .map_err(|error| Failure::usage(error.to_string(), "for example: feature/login"))?,
        ),
        None if arguments.all => Which::All,
        None => Which::Main,
    };
    let on_divergence = if arguments.merge { Divergence::Merge } else { Divergence::Wait };
    let most = context.settings.max_fetch.value.0;
    let request = SyncRequest { which, on_divergence, most };
    let homecoming = workshop.sync(&sandbox, &request).await?;
    if !arguments.json {
        tell_all(&sandbox, &homecoming);
    }
    let brought = match paths {
        Some(paths) => artifacts::bring(context, &workshop, &sandbox, request.which, paths).await?,
        None => Vec::new(),
    };
    if arguments.json {
        let branches = homecoming.branches.iter().map(SyncedBranch::new).collect();
        let artifacts = brought.iter().map(artifacts::SyncedArtifacts::new).collect();
        output::json(&Synced { branches, unnameable: homecoming.unnameable, artifacts })?;
    } else {
        brought.iter().for_each(|brought| artifacts::tell(&sandbox, brought));
    }
    Ok(OK)
}

fn tell_all(sandbox: &AgentSandbox, homecoming: &Homecoming) {
    for branch in &homecoming.branches {
        tell(sandbox, branch);
        warn_of_autorun(&printable(branch.name.as_str()), &branch.autorun);
    }
    if homecoming.unnameable > 0 {
        output::warning(&format!(
            "{} branches or worktrees have names that cannot come home",
            homecoming.unnameable
        ));
    }
}

fn tell(sandbox: &AgentSandbox, branch: &Branch) {
    let name = printable(branch.name.as_str());
    let commits = |count: u32| format!("{count} {}", if count == 1 { "commit" } else { "commits" });
    match &branch.applied.commits {
        Commits::Same if branch.applied.work == Work::None => output::note(&format!("{name}: nothing new")),
        Commits::Same => {}
        Commits::Forwarded(count) => output::note(&format!("{name}: {}", commits(*count))),
        Commits::Merged(count) => output::note(&format!("{name}: {} merged", commits(*count))),
        Commits::Waiting { count, why } => {
            output::warning(&format!(
                "{name}: {} wait on branch palisade/{}: {}",
                commits(*count),
                sandbox.name(),
                reason(why)
            ));
            output::note(&format!("  next: {}", next(sandbox, why)));
        }
    }
    match &branch.applied.work {
        Work::None => {}
        Work::Laid { paths } => output::note(&format!("{name}: changes in {} (see git diff)", all(paths))),
        Work::Waiting { why: Waits::Commits } => {
            output::note(&format!("{name}: uncommitted changes wait for those commits"));
        }
        Work::Waiting { why } => {
            output::warning(&format!("{name}: uncommitted changes wait: {}", reason(why)));
            output::note(&format!("  next: {}", next(sandbox, why)));
        }
    }
}

/// One short block: what to look at before going on.
pub(super) fn warn_of_autorun(branch: &str, autorun: &[Autorun]) {
    const SHOWN: usize = 10;
    if autorun.is_empty() {
        return;
    }
    output::warning(&format!(
        "{branch}: {} of the changed files run by themselves; look at them first",
        autorun.len()
    ));
    for file in autorun.iter().take(SHOWN) {
        output::note(&format!("  {} {}", shown(&file.path), file.runs.told()));
    }
    if autorun.len() > SHOWN {
        output::note(&format!("  and {} more", autorun.len() - SHOWN));
    }
}

fn reason(why: &Waits) -> String {
    match why {
        Waits::HostChanges(paths) => format!("you have changes in {}", all(paths)),
        Waits::Diverged { hosts } => format!("your branch has {hosts} that the agent lacks"),
        Waits::Conflicts(paths) => format!("the merge has conflicts in {}", all(paths)),
        Waits::Overlaps(paths) => format!("your newer commits change the same lines of {}", all(paths)),
        Waits::OtherBranch(branch) => format!("you are on {}", printable(branch.as_str())),
        Waits::OurName => {
            "branches called palisade/… show work that waits, and no agent may name them".into()
        }
        Waits::Commits => "its commits wait".into(),
    }
}

fn next(sandbox: &AgentSandbox, why: &Waits) -> String {
    let name = sandbox.name();
    match why {
        Waits::HostChanges(_) => format!("git stash (or commit them), then palisade agent sync {name}"),
        Waits::Diverged { .. } => format!("palisade agent sync --merge {name}, or git merge palisade/{name}"),
        Waits::Conflicts(_) => format!("resolve them, git commit, then palisade agent sync {name}"),
        Waits::Overlaps(_) | Waits::Commits => {
            format!("palisade agent start {name}'s agent again and let it rebase on origin")
        }
        Waits::OurName => {
            format!("git log refs/palisade/{name}/heads/…, or have the agent rename its branch")
        }
        Waits::OtherBranch(_) => format!("git switch to that branch, then palisade agent sync {name}"),
    }
}

pub(super) fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy())
}

fn all(paths: &[PathBuf]) -> String {
    few(paths, paths.len() as u64)
}

/// The first of so many.
pub(super) fn few(paths: &[PathBuf], in_all: u64) -> String {
    const SHOWN: usize = 5;
    let mut shown: Vec<String> = paths.iter().take(SHOWN).map(|path| shown(path)).collect();
    if in_all > SHOWN as u64 {
        shown.push(format!("{} more", in_all - SHOWN as u64));
    }
    shown.join(", ")
}
