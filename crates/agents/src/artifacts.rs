//! `agent sync --artifacts`: what git ignores in a sandbox's working trees comes home by the guest's file stream, the same
//! that `cp` takes. It goes to the user's working tree of the same branch, under the rules of
//! [`palisade_workspace::Tracked`] and [`palisade_workspace::Memory`].

mod reception;

use crate::error::AgentError;
use crate::service::{AgentSandbox, AgentService, repository};
use palisade_core::{GuestPath, HostPath};
use palisade_engine::{Connection, CopyLimits, Landing, Received, Skipped, Tally, Top, receive};
use palisade_workspace::{
    ArtifactPath, Autorun, BranchName, BranchSelection, ExchangeError, HostTree, Progress, TransferLimits,
};
use reception::Guarded;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

/// How often it is told how far it is.
const BEAT: Duration = Duration::from_millis(100);
/// At the top of a working tree and no build's: other working trees, and the anchor that we make for direnv.
const OURS: [&str; 2] = [".worktrees", ".envrc"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactsRequest {
    pub selection: BranchSelection,
    /// These, or all that git ignores.
    pub paths: Vec<ArtifactPath>,
    /// For all of it together.
    pub limits: CopyLimits,
}

/// What became of one working tree's artifacts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifacts {
    pub branch: BranchName,
    /// Where they went; nowhere while the user has that branch checked out nowhere.
    pub place: Option<HostPath>,
    pub brought: Brought,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Brought {
    /// Files and links that are new or have changed.
    pub files: u64,
    pub links: u64,
    pub bytes: u64,
    /// Those that lay there already.
    pub same: u64,
    /// Those that git carries, which come with the commits.
    pub tracked: u64,
    /// The user's own, which stayed as they are: the first thousand, and how many.
    pub kept: Vec<std::path::PathBuf>,
    pub kept_in_all: u64,
    /// What cannot come, the first thousand, and how much.
    pub left_out: Vec<Skipped>,
    pub left_out_in_all: u64,
    /// Those that run by themselves.
    pub autorun: Vec<Autorun>,
}

impl AgentService<'_> {
    pub async fn artifacts(
        &self,
        sandbox: &AgentSandbox,
        request: &ArtifactsRequest,
        mut progress: impl FnMut(Progress),
    ) -> Result<Vec<Artifacts>, AgentError> {
        let here = HostTree::find(&self.git, &self.locate(sandbox).await?).await?;
        self.with_running(sandbox, async |connection| {
            let mut limits = request.limits;
            let mut all = Vec::new();
            for (inside, branch) in self.trees(sandbox, connection, &request.selection).await? {
                let target = match here.branch.as_ref() == Some(&branch) {
                    true => Some(here.clone()),
                    false => here.other_with(&self.git, &branch).await?,
                };
                let Some(target) = target else {
                    all.push(Artifacts { branch, place: None, brought: Brought::default() });
                    continue;
                };
                let bringing = Bringing { sandbox, connection, inside: &inside, limits: self.limits };
                let brought = bringing.bring(&target, &request.paths, &mut limits, &mut progress).await?;
                all.push(Artifacts { branch, place: Some(target.root), brought });
            }
            Ok(all)
        })
        .await
    }

    async fn trees(
        &self,
        sandbox: &AgentSandbox,
        connection: &Connection,
        selection: &BranchSelection,
    ) -> Result<Vec<(GuestPath, BranchName)>, AgentError> {
        let workspace = &connection.layout.workspace;
        let survey = repository(connection, self.limits).survey().await?;
        let trees = survey.ok_or(ExchangeError::NoRepositoryInside)?.main.trees.into_iter();
        let mut trees: Vec<(GuestPath, BranchName)> =
            trees.filter_map(|tree| Some((tree.path, tree.branch?))).collect();
        match selection {
            BranchSelection::All => return Ok(trees),
            BranchSelection::Main => trees.retain(|(path, _)| path.as_str() == workspace),
            BranchSelection::Worktree(branch) => trees.retain(|(_, name)| name == branch),
        }
        if trees.is_empty() {
            let branch = match selection {
                BranchSelection::Worktree(branch) => branch.to_string(),
                _ => workspace.clone(),
            };
            return Err(AgentError::NoWorktree { name: sandbox.name().clone(), branch });
        }
        Ok(trees)
    }
}

struct Bringing<'a> {
    sandbox: &'a AgentSandbox,
    connection: &'a Connection,
    inside: &'a GuestPath,
    limits: TransferLimits,
}

impl Bringing<'_> {
    async fn bring(
        &self,
        target: &HostTree,
        paths: &[ArtifactPath],
        limits: &mut CopyLimits,
        progress: &mut impl FnMut(Progress),
    ) -> Result<Brought, AgentError> {
        let root = target.root.as_path();
        let failed = |what: &str| AgentError::io(format!("{what} {}", root.display()));
        let memory = target.repository.memory(self.sandbox.row.id().as_str());
        let memory = memory.map_err(failed("what was brought before to"))?;
        let memory = memory.ok_or_else(|| AgentError::ArtifactsBusy { root: target.root.clone() })?;
        let (items, strange) = match paths {
            [] => self.listed().await?,
            paths => (paths.to_vec(), 0),
        };
        let tracked = target.repository.tracked().await?;
        let directory = std::fs::File::open(root).map_err(failed("open"))?;
        let guarded = Guarded::new(tracked, memory);
        let mut landing = Landing::new(directory, Top::Keep, *limits, guarded);
        let mut said = Vec::new();
        let mut last = Instant::now();
        for (index, item) in items.iter().enumerate() {
            let told = |tally: &Tally| {
                if last.elapsed() >= BEAT {
                    last = Instant::now();
                    progress(how_far(index, items.len(), tally));
                }
            };
            landing.top = Top::Names(item.names().to_vec());
            landing.reception.begin(item.clone());
            let path = item.to_path();
            let path = [self.inside.as_str().as_bytes(), b"/", path.as_os_str().as_bytes()].concat();
            let (back, received) = receive(&self.connection.client, &path, landing, told).await?;
            landing = back;
            let (Received::Whole { said: words } | Received::InPart { said: words }) = received;
            said.extend(words);
        }
        *limits = landing.limits;
        let report = landing.report;
        let (mut brought, memory) = landing.reception.end();
        memory.settle(root).map_err(failed("remember what was brought to"))?;
        (brought.files, brought.links, brought.bytes) = (report.files, report.links, report.bytes);
        brought.left_out_in_all = report.left_out + said.len() as u64 + strange as u64;
        brought.left_out = report.skipped;
        brought.left_out.extend(said.into_iter().map(|why| Skipped { path: String::new(), why }));
        if strange > 0 {
            let why =
                format!("{strange} names that lead out of the working tree or into git's own directory");
            brought.left_out.push(Skipped { path: String::new(), why });
        }
        Ok(brought)
    }

    /// All that git ignores, but for what is there because we put it there.
    async fn listed(&self) -> Result<(Vec<ArtifactPath>, usize), AgentError> {
        let inside = repository(self.connection, self.limits).at(self.inside.as_str());
        let (mut items, strange) = inside.ignored().await?;
        let sent = &self.sandbox.record.env_files;
        items.retain(|item| {
            let path = item.to_path();
            let ours = item.names().first().is_some_and(|first| OURS.iter().any(|name| first == name));
            !ours && !sent.iter().any(|name| path == std::path::Path::new(name))
        });
        Ok((items, strange))
    }
}

fn how_far(done: usize, of: usize, tally: &Tally) -> Progress {
    let percent = u8::try_from(done * 100 / of.max(1)).unwrap_or(100);
    Progress { step: "bringing", percent, amount: Some(amount(tally.files(), tally.bytes())) }
}

/// `12 files, 3.25 MiB`
fn amount(files: u64, bytes: u64) -> String {
    let noun = if files == 1 { "file" } else { "files" };
    format!("{files} {noun}, {}.{:02} MiB", bytes >> 20, ((bytes & ((1 << 20) - 1)) * 100) >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_told_in_files_and_mebibytes() {
        assert_eq!(amount(0, 0), "0 files, 0.00 MiB");
        assert_eq!(amount(1, (3 << 20) + (1 << 18)), "1 file, 3.25 MiB");
        assert_eq!(amount(2, (1 << 20) - 1), "2 files, 0.99 MiB");
    }
}
