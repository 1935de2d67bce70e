//! `palisade agent sync`.

use super::{artifacts, chosen, service};
use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_agents::AgentSandbox;
use palisade_core::{ExitCode, printable};
use palisade_workspace::{
    Autorun, BranchName, BranchReport, BranchSelection, CommitsOutcome, ExchangeReport, FilesOutcome,
    MergeMode, ObjectId, RecordedPush, SyncOptions, TagMode, TreeOutcome, TreeReport, WaitingCommits,
    WhyFilesWait, WhyWaiting,
};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Bring an agent's work back: commits, and changes that are not committed
///
/// Everything in the sandbox is archived first (see `palisade agent history`). Then commits move your branches forward,
/// and changed files arrive in your working tree, as plain changes that are not committed. A file that you have changed
/// yourself is never touched. Commits that cannot move your branch wait on a branch palisade/NAME/BRANCH. The exit code
/// is 7 when something waits for you, with the next command.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name or id [default: the sandbox of the repository here]
    pub(crate) name: Option<String>,
    /// Merge where both sides have changed something
    #[arg(long)]
    pub(crate) merge: bool,
    /// Only the branch and the files of this worktree
    #[arg(long, value_name = "BRANCH", conflicts_with = "all")]
    pub(crate) worktree: Option<String>,
    /// Also the files of all other worktrees
    #[arg(long)]
    pub(crate) all: bool,
    /// Also create the tags that you do not have
    #[arg(long)]
    pub(crate) tags: bool,
    /// Also files that git ignores: these, from the top of the working tree, or all. NAME comes before it
    #[arg(long, value_name = "PATH", num_args = 0..)]
    pub(crate) artifacts: Option<Vec<PathBuf>>,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Only these files and directories, as changes that are not committed
    #[arg(last = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
}

/// What a sync did, as `--json` prints it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Synced {
    branches: Vec<SyncedBranch>,
    /// The files of working trees.
    trees: Vec<SyncedTree>,
    /// The archive that was made, if something was new.
    archive: Option<String>,
    /// Tags that you do not have, or have at another commit.
    tags: Vec<SyncedTag>,
    /// Entries of the agent's stash, which are archived.
    stashes: Vec<String>,
    /// Working trees whose commits are on no branch.
    detached: Vec<SyncedDetached>,
    /// Nested repositories with work of their own.
    nested: Vec<SyncedNested>,
    /// What could not be archived.
    left_out: Vec<SyncedLeftOut>,
    /// The commands for pushes that the agent asked for.
    pushes: Vec<String>,
    /// Branches palisade/NAME/… that are gone, because you have their commits now.
    removed_branches: Vec<String>,
    /// Other working trees of the sandbox with uncommitted files; `--all` or `--worktree` brings them.
    not_asked: Vec<String>,
    /// Whether something waits for you, or could not be archived; the exit code is 7 then.
    needs_user: bool,
    /// Branches and worktrees whose names are not taken. Always 0: they are archived under other names.
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
    /// How many commits your branch no longer has, because the agent has rewritten them or taken them back.
    dropped: u32,
    /// The commit that your branch was at before, where it has moved.
    from: Option<String>,
    /// The commit that your branch is at now, where it has moved or was made.
    to: Option<String>,
    /// The branch that was made; it has another name where this one is taken.
    created_branch: Option<String>,
    /// Files of this branch that were written into your working tree and are not committed.
    laid: Vec<String>,
    /// Why something waits, for people.
    waits: Option<String>,
    /// The branch that shows commits which wait.
    waiting_branch: Option<String>,
    /// Changed files that run by themselves.
    autorun: Vec<SyncedAutorun>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum CommitsState {
    Same,
    Forwarded,
    Created,
    Merged,
    Waiting,
}

/// The files of one working tree in the sandbox.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SyncedTree {
    /// Its path in the sandbox.
    path: String,
    branch: Option<String>,
    /// Your working tree that it was applied to; null when it waits.
    place: Option<String>,
    written: Vec<String>,
    /// Files in which your changes and the agent's were merged.
    merged: Vec<String>,
    /// Files that are back to what your commit has, because the agent has taken them back.
    taken_back: Vec<String>,
    /// Files that both sides have changed; yours stay.
    conflicts: Vec<String>,
    /// Files that wait for commits which wait.
    waiting: Vec<String>,
    /// Why all of it waits, for people.
    waits: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SyncedTag {
    name: String,
    commit: String,
    created: bool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SyncedDetached {
    path: String,
    commit: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SyncedNested {
    path: String,
    /// The bare repository on this machine that holds it.
    repository: String,
    /// Whether your working tree has a repository there with all of it.
    on_host: bool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SyncedLeftOut {
    path: String,
    reason: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SyncedAutorun {
    path: String,
    why: &'static str,
}

impl SyncedAutorun {
    pub(super) fn new(file: &Autorun) -> Self {
        Self { path: shown(&file.path), why: file.runs.description() }
    }
}

impl SyncedBranch {
    fn new(branch: &BranchReport, report: &ExchangeReport) -> Self {
        let (mut dropped, mut created_branch) = (0, None);
        let (mut waits, mut waiting_branch) = (None, None);
        let (commits, count) = match &branch.commits {
            CommitsOutcome::Nothing => (CommitsState::Same, 0),
            CommitsOutcome::Moved { count, dropped: gone } => {
                dropped = *gone;
                (CommitsState::Forwarded, *count)
            }
            CommitsOutcome::Created { count, name } => {
                created_branch = Some(printable(name));
                (CommitsState::Created, *count)
            }
            CommitsOutcome::Merged { count } => (CommitsState::Merged, *count),
            CommitsOutcome::Waiting(waiting) => {
                waits = Some(why_waiting(&waiting.why));
                waiting_branch = Some(printable(&waiting.branch));
                (CommitsState::Waiting, waiting.count)
            }
        };
        let trees = report.sync.trees.iter().filter(|tree| tree.branch.as_ref() == Some(&branch.name));
        let mut autorun: Vec<SyncedAutorun> = branch.autorun.iter().map(SyncedAutorun::new).collect();
        for file in trees.clone().flat_map(|tree| tree.autorun()) {
            if !branch.autorun.contains(file) {
                autorun.push(SyncedAutorun::new(file));
            }
        }
        let laid = trees.flat_map(|tree| match &tree.files {
            FilesOutcome::Applied { report, .. } => report.written.as_slice(),
            FilesOutcome::Waiting(_) => &[],
        });
        let laid = laid.map(|path| shown(path)).collect();
        let id = |id: &Option<ObjectId>| id.as_ref().map(ToString::to_string);
        Self {
            name: printable(branch.name.as_str()),
            commits,
            count,
            dropped,
            from: id(&branch.from),
            to: id(&branch.to),
            created_branch,
            laid,
            waits,
            waiting_branch,
            autorun,
        }
    }

    /// A branch without new commits, for the files of its working tree.
    fn unchanged(tree: &TreeOutcome) -> Option<Self> {
        let waits = match &tree.files {
            FilesOutcome::Waiting(why) => Some(why_files_wait(why)),
            FilesOutcome::Applied { .. } => None,
        };
        let laid = match &tree.files {
            FilesOutcome::Applied { report, .. } => report.written.iter().map(|path| shown(path)).collect(),
            FilesOutcome::Waiting(_) => Vec::new(),
        };
        Some(Self {
            name: printable(tree.branch.as_ref()?.as_str()),
            commits: CommitsState::Same,
            count: 0,
            dropped: 0,
            from: None,
            to: None,
            created_branch: None,
            laid,
            waits,
            waiting_branch: None,
            autorun: tree.autorun().iter().map(SyncedAutorun::new).collect(),
        })
    }
}

impl SyncedTree {
    fn new(tree: &TreeOutcome) -> Self {
        let none = TreeReport::default();
        let (place, report, waits) = match &tree.files {
            FilesOutcome::Applied { place, report } => (Some(place.to_string()), report, None),
            FilesOutcome::Waiting(why) => (None, &none, Some(why_files_wait(why))),
        };
        let list = |paths: &[PathBuf]| paths.iter().map(|path| shown(path)).collect();
        Self {
            path: printable(tree.path.as_str()),
            branch: tree.branch.as_ref().map(|branch| printable(branch.as_str())),
            place,
            written: list(&report.written),
            merged: list(&report.merged),
            taken_back: list(&report.taken_back),
            conflicts: list(&report.conflicts),
            waiting: list(&report.waiting),
            waits,
        }
    }
}

impl Synced {
    fn new(report: &ExchangeReport, artifacts: Vec<artifacts::SyncedArtifacts>) -> Self {
        let sync = &report.sync;
        let mut branches: Vec<SyncedBranch> =
            sync.branches.iter().map(|branch| SyncedBranch::new(branch, report)).collect();
        for tree in &sync.trees {
            let is_listed = tree.branch.as_ref().is_some_and(|branch| {
                branches.iter().any(|listed| listed.name == printable(branch.as_str()))
            });
            if !is_listed {
                branches.extend(SyncedBranch::unchanged(tree));
            }
        }
        let nested = report.archived.nested.iter().map(|nested| SyncedNested {
            path: nested.path.to_string(),
            repository: nested.place.to_string(),
            on_host: nested.is_on_host,
        });
        Self {
            branches,
            trees: sync.trees.iter().map(SyncedTree::new).collect(),
            archive: report.archived.archive().map(|archive| archive.reference.clone()),
            tags: sync
                .tags
                .iter()
                .map(|tag| SyncedTag {
                    name: printable(&tag.name),
                    commit: tag.id.to_string(),
                    created: tag.made,
                })
                .collect(),
            stashes: sync.stashes.iter().map(|entry| entry.message.clone()).collect(),
            detached: sync
                .detached
                .iter()
                .map(|(path, commit)| SyncedDetached { path: path.to_string(), commit: commit.to_string() })
                .collect(),
            nested: nested.collect(),
            pushes: sync.pushes.iter().map(push_command).collect(),
            left_out: left_out(report),
            removed_branches: sync.removed_branches.iter().map(|name| printable(name)).collect(),
            not_asked: sync.not_asked.iter().map(|(path, _)| path.to_string()).collect(),
            needs_user: needs_user(report),
            unnameable: 0,
            artifacts,
        }
    }
}

/// What could not be archived, with the reason.
fn left_out(report: &ExchangeReport) -> Vec<SyncedLeftOut> {
    let archived = &report.archived;
    let nested = archived.nested.iter().flat_map(|nested| &nested.outcome.refused);
    let refused = archived.main.refused.iter().chain(nested);
    let refused = refused
        .map(|refused| SyncedLeftOut { path: refused.what.describe(), reason: refused.reason.clone() });
    let files = archived.left_out.iter();
    let files = files.map(|file| SyncedLeftOut { path: file.path.clone(), reason: file.reason.clone() });
    files.chain(refused).collect()
}

fn needs_user(report: &ExchangeReport) -> bool {
    let nested = report.archived.nested.iter().any(|nested| !nested.is_on_host);
    report.sync.needs_user() || !report.archived.is_complete() || nested
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let paths = arguments.artifacts.as_deref().map(artifacts::paths).transpose()?;
    let service = service(context)?;
    let sandbox = chosen(&service, arguments.name.as_deref()).await?;
    let selection = match &arguments.worktree {
        Some(branch) => BranchSelection::Worktree(
            BranchName::new(branch)
                .map_err(|error| Failure::usage(error.to_string(), "for example: feature/login"))?,
        ),
        None if arguments.all => BranchSelection::All,
        None => BranchSelection::Main,
    };
    let options = SyncOptions {
        selection,
        merge: if arguments.merge { MergeMode::Merge } else { MergeMode::Wait },
        tags: if arguments.tags { TagMode::Create } else { TagMode::List },
        only: only(&arguments.paths)?,
        max_bytes: context.settings.max_fetch.value.0,
    };
    let report = service.sync(&sandbox, &options).await.map_err(Failure::in_sandbox(sandbox.name()))?;
    if !arguments.json {
        Telling { sandbox: &sandbox, report: &report, options: &options }.print();
    }
    let brought = match paths {
        Some(paths) => artifacts::bring(context, &service, &sandbox, options.selection, paths).await?,
        None => Vec::new(),
    };
    if arguments.json {
        let artifacts = brought.iter().map(artifacts::SyncedArtifacts::new).collect();
        output::json(&Synced::new(&report, artifacts))?;
    } else {
        brought.iter().for_each(|brought| artifacts::tell(&sandbox, brought));
    }
    Ok(if needs_user(&report) { ExitCode::Conflict as Status } else { OK })
}

/// Paths from the top of the working tree.
fn only(given: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let checked = |path: &PathBuf| {
        let is_below = path.is_relative()
            && path.components().all(|part| !matches!(part, std::path::Component::ParentDir));
        if is_below {
            // Without `./` at the beginning.
            return Ok(path
                .components()
                .filter(|part| !matches!(part, std::path::Component::CurDir))
                .collect());
        }
        Err(Failure::usage(
            format!("{} is not a path in the repository", shown(path)),
            "name files or directories from the top of the working tree, such as src/main.rs",
        ))
    };
    given.iter().map(checked).collect()
}

/// A report in words.
struct Telling<'a> {
    sandbox: &'a AgentSandbox,
    report: &'a ExchangeReport,
    options: &'a SyncOptions,
}

impl Telling<'_> {
    fn print(&self) {
        let sync = &self.report.sync;
        sync.branches.iter().for_each(|branch| self.branch(branch));
        sync.trees.iter().for_each(|tree| self.tree(tree));
        for branch in &sync.removed_branches {
            output::note(&format!("removed branch {}: you have its commits", printable(branch)));
        }
        self.tags();
        if !sync.stashes.is_empty() {
            output::note(&format!(
                "{} in the agent's stash: archived",
                count(sync.stashes.len(), "entry", "entries")
            ));
        }
        for (path, commit) in &sync.detached {
            output::warning(&format!("{path} is at commit {}, which is on no branch", commit.short()));
            output::note(&format!("  next: git branch NAME {commit}"));
        }
        for (path, branch) in &sync.not_asked {
            let name = self.sandbox.name();
            let command = match branch {
                Some(branch) => format!("palisade agent sync --worktree {branch} {name}"),
                None => format!("palisade agent sync --all {name}"),
            };
            output::note(&format!("{path} has files that are not committed; bring them with: {command}"));
        }
        self.pushes();
        self.nested();
        self.left_out();
        let has_news =
            sync.has_unapplied_work() || !sync.removed_branches.is_empty() || !sync.not_asked.is_empty();
        match self.report.archived.archive() {
            Some(archive) => output::note(&format!("archived as {}", archive.reference)),
            None if !has_news && !needs_user(self.report) => output::note("nothing new"),
            None => {}
        }
    }

    fn branch(&self, branch: &BranchReport) {
        let name = printable(branch.name.as_str());
        match &branch.commits {
            CommitsOutcome::Nothing => {}
            CommitsOutcome::Moved { count: 0, dropped } => {
                output::note(&format!("{name}: the agent has taken back {}", commits(*dropped)));
            }
            CommitsOutcome::Moved { count, dropped: 0 } => {
                output::note(&format!("{name}: {}", commits(*count)))
            }
            CommitsOutcome::Moved { count, dropped } => {
                output::note(&format!(
                    "{name}: {} in place of {dropped} that the agent has rewritten",
                    commits(*count)
                ));
            }
            CommitsOutcome::Created { count, name: created } if *created == branch.name.as_str() => {
                output::note(&format!("{name}: new branch with {}", commits(*count)));
            }
            CommitsOutcome::Created { count, name: created } => output::note(&format!(
                "{name}: {} on new branch {}, because '{name}' is taken here",
                commits(*count),
                printable(created)
            )),
            CommitsOutcome::Merged { count } => output::note(&format!("{name}: merged {}", commits(*count))),
            CommitsOutcome::Waiting(waiting) => self.waiting(&branch.name, waiting),
        }
        warn_of_autorun(&name, &branch.autorun);
    }

    fn waiting(&self, branch: &BranchName, waiting: &WaitingCommits) {
        let name = printable(branch.as_str());
        let verb = if waiting.count == 1 { "waits" } else { "wait" };
        output::warning(&format!(
            "{name}: {} {verb} on branch {}: {}",
            commits(waiting.count),
            printable(&waiting.branch),
            why_waiting(&waiting.why)
        ));
        if waiting.replayed {
            output::note("  they were replayed on your branch");
        }
        output::note(&format!("  next: {}", self.next(branch, waiting)));
    }

    /// The command that brings waiting commits into the user's branch.
    fn next(&self, branch: &BranchName, waiting: &WaitingCommits) -> String {
        let name = self.sandbox.name();
        let again = match &self.options.selection {
            BranchSelection::Worktree(branch) => format!("palisade agent sync --worktree {branch} {name}"),
            BranchSelection::All => format!("palisade agent sync --all {name}"),
            BranchSelection::Main => format!("palisade agent sync {name}"),
        };
        let is_here = self.report.host_branch.as_ref() == Some(branch);
        let switch = if is_here { String::new() } else { format!("git switch {branch} && ") };
        match &waiting.why {
            WhyWaiting::HostChanges(_) => format!("commit or stash your changes, then {again}"),
            WhyWaiting::Conflicts(_) => format!("resolve them and run git commit, then {again}"),
            WhyWaiting::HostBusy(operation) => format!("finish your {operation}, then {again}"),
            WhyWaiting::NotAsked => again,
            WhyWaiting::HostDeleted => format!("git branch {branch} {}", waiting.branch),
            _ => format!("{switch}git merge {}", waiting.branch),
        }
    }

    fn tree(&self, tree: &TreeOutcome) {
        let name = match &tree.branch {
            Some(branch) => printable(branch.as_str()),
            None => printable(tree.path.as_str()),
        };
        let report = match &tree.files {
            FilesOutcome::Applied { report, .. } => report,
            FilesOutcome::Waiting(why) => {
                output::warning(&format!(
                    "{name}: changes that are not committed wait: {}",
                    why_files_wait(why)
                ));
                output::note(&format!("  next: {}", self.next_for_files(tree, why)));
                return;
            }
        };
        if !report.written.is_empty() {
            output::note(&format!("{name}: changes in {}", all(&report.written)));
        }
        warn_of_autorun(&name, tree.autorun());
        if !report.merged.is_empty() {
            output::note(&format!(
                "{name}: merged with your changes in {}; yours are archived",
                all(&report.merged)
            ));
        }
        if !report.taken_back.is_empty() {
            output::note(&format!(
                "{name}: the agent has taken back its changes in {}",
                all(&report.taken_back)
            ));
        }
        if !report.waiting.is_empty() {
            output::note(&format!("{name}: changes in {} wait for those commits", all(&report.waiting)));
        }
        if !report.conflicts.is_empty() {
            output::warning(&format!(
                "{name}: you and the agent have both changed {}; yours stays",
                all(&report.conflicts)
            ));
            for path in report.conflicts.iter().take(MAX_SHOWN) {
                output::note(&format!("  compare: {}", self.compare(tree, path)));
            }
            if self.options.merge == MergeMode::Wait {
                output::note(&format!("  merge: palisade agent sync --merge {}", self.sandbox.name()));
            }
        }
    }

    /// A git command that shows the agent's file beside the user's.
    fn compare(&self, tree: &TreeOutcome, path: &Path) -> String {
        let word = |text: &str| {
            palisade_core::shell::quoted(std::ffi::OsStr::new(text)).to_string_lossy().into_owned()
        };
        let theirs = match &tree.archive {
            Some(archive) => word(&format!("{archive}/{}", path.to_string_lossy())),
            None => return format!("palisade agent diff {}", self.sandbox.name()),
        };
        format!("git diff {theirs} {}", word(&path.to_string_lossy()))
    }

    fn next_for_files(&self, tree: &TreeOutcome, why: &WhyFilesWait) -> String {
        let name = self.sandbox.name();
        match (why, &tree.branch) {
            (WhyFilesWait::OtherBranch(_), Some(branch))
                if tree.path.as_str() == palisade_core::policy::WORKSPACE =>
            {
                format!("git switch {branch} && palisade agent sync {name}")
            }
            (WhyFilesWait::OtherBranch(_), Some(branch)) => {
                format!("git switch {branch} && palisade agent sync --worktree {branch} {name}")
            }
            (WhyFilesWait::HostBusy(operation), _) => {
                format!("finish your {operation}, then palisade agent sync {name}")
            }
            _ => format!("let the agent finish, then palisade agent sync {name}"),
        }
    }

    fn tags(&self) {
        let (made, other): (Vec<_>, Vec<_>) = self.report.sync.tags.iter().partition(|tag| tag.made);
        let names = |tags: &[&palisade_workspace::TagReport]| {
            let names: Vec<PathBuf> = tags.iter().map(|tag| PathBuf::from(&tag.name)).collect();
            all(&names)
        };
        if !made.is_empty() {
            output::note(&format!("created {}: {}", plural(made.len(), "tag", "tags"), names(&made)));
        }
        if !other.is_empty() {
            let hint = match self.options.tags {
                TagMode::List => "; create them with --tags",
                TagMode::Create => "; their names are taken here",
            };
            output::note(&format!(
                "{} of the agent's: {}{hint}",
                count(other.len(), "tag", "tags"),
                names(&other)
            ));
        }
    }

    /// The command that does what was asked for inside.
    fn pushes(&self) {
        for push in &self.report.sync.pushes {
            output::note(&format!("the agent asked for a push; do it with: {}", push_command(push)));
        }
    }

    fn nested(&self) {
        for nested in self.report.archived.nested.iter().filter(|nested| !nested.is_on_host) {
            output::warning(&format!(
                "nested repository {}: its work is archived, and not in your working tree",
                nested.path
            ));
            output::note(&format!("  look at it: git -C {} log --all", nested.place));
            output::note(&format!(
                "  bring it into a repository of yours: git fetch {} 'refs/palisade/archive/*:refs/palisade/nested/*'",
                nested.place
            ));
        }
        for path in &self.report.archived.plain_clones {
            output::note(&format!(
                "{path} is a repository without commits or changes of its own; it stays in the sandbox"
            ));
        }
    }

    fn left_out(&self) {
        let left_out = left_out(self.report);
        if left_out.is_empty() {
            return;
        }
        output::warning(&format!(
            "{} could not be archived and only the sandbox has:",
            count(left_out.len(), "item", "items")
        ));
        for item in left_out.iter().take(MAX_SHOWN) {
            output::note(&format!("  {}: {}", item.path, item.reason));
        }
        if left_out.len() > MAX_SHOWN {
            output::note(&format!("  and {} more (see --json)", left_out.len() - MAX_SHOWN));
        }
    }
}

fn push_command(push: &RecordedPush) -> String {
    let commit = push.commit.as_ref().map(ToString::to_string).unwrap_or_default();
    let force = if push.force { "--force-with-lease " } else { "" };
    format!("git push {force}{} {commit}:{}", push.remote, push.target)
}

/// Lines of a list.
const MAX_SHOWN: usize = 10;

fn plural<'w>(count: usize, one: &'w str, many: &'w str) -> &'w str {
    if count == 1 { one } else { many }
}

fn count(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", plural(count, one, many))
}

fn commits(number: u32) -> String {
    count(number as usize, "commit", "commits")
}

/// One short block: what to look at before going on.
pub(super) fn warn_of_autorun(branch: &str, autorun: &[Autorun]) {
    if autorun.is_empty() {
        return;
    }
    output::warning(&format!(
        "{branch}: {} of the changed files run by themselves; look at them first",
        autorun.len()
    ));
    for file in autorun.iter().take(MAX_SHOWN) {
        output::note(&format!("  {} {}", shown(&file.path), file.runs.description()));
    }
    if autorun.len() > MAX_SHOWN {
        output::note(&format!("  and {} more", autorun.len() - MAX_SHOWN));
    }
}

fn why_waiting(why: &WhyWaiting) -> String {
    match why {
        WhyWaiting::Diverged { hosts } => {
            format!("your branch has {} that the agent does not have", commits(*hosts))
        }
        WhyWaiting::HostRewrote => "you have rewritten your branch since the last sync".into(),
        WhyWaiting::HostDeleted => "you have deleted your branch".into(),
        WhyWaiting::SandboxRewrote => "the agent has rewritten commits that are not its own alone".into(),
        WhyWaiting::HostChanges(paths) => format!("they change files that you have changed: {}", all(paths)),
        WhyWaiting::Conflicts(paths) => format!("the merge has conflicts in {}", all(paths)),
        WhyWaiting::WouldConflict(paths) => format!("a merge would have conflicts in {}", all(paths)),
        WhyWaiting::HostBusy(operation) => format!("you are in the middle of a {operation}"),
        WhyWaiting::NotAsked => "only some files were asked for".into(),
    }
}

fn why_files_wait(why: &WhyFilesWait) -> String {
    match why {
        WhyFilesWait::OtherBranch(Some(branch)) => format!("you are on {}", printable(branch.as_str())),
        WhyFilesWait::OtherBranch(None) => "you are on no branch".into(),
        WhyFilesWait::HostBusy(operation) => format!("you are in the middle of a {operation}"),
        WhyFilesWait::SandboxBusy(operation) => format!("the agent is in the middle of a {operation}"),
        WhyFilesWait::Detached => "the agent is on no branch".into(),
        WhyFilesWait::NoCommit => "there is no commit yet".into(),
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
        shown.push(format!("and {} more", in_all - SHOWN as u64));
    }
    shown.join(", ")
}
