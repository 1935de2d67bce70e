//! Makes a directory a repository in which a sandbox has committed, after the sandbox has ended.

use super::BoundGit;
use crate::error::AgentError;
use palisade_core::SandboxId;
use palisade_host::{as_owner, fence};
use palisade_workspace::{
    BoundError, HostSide, PendingRepository, PrivatePlace, RecordedRepository, has_commits,
};

impl BoundGit {
    /// What the user should know, in lines. An error where the commits stay in the state directory.
    pub(super) async fn make_repositories(&self, id: &SandboxId) -> Result<Vec<String>, AgentError> {
        let place = PrivatePlace::of(&self.state, id);
        let io = || AgentError::io(format!("look at {}", place.path()));
        let Some(record) = place.read().map_err(io())? else { return Ok(Vec::new()) };
        let mut lines = Vec::new();
        for (number, recorded) in record.repositories.iter().enumerate() {
            let pending = place.pending(number);
            if recorded.host == HostSide::Plain && pending.exists() {
                lines.extend(self.make_repository(id, recorded, &pending).await?);
            }
        }
        Ok(lines)
    }

    async fn make_repository(
        &self,
        id: &SandboxId,
        recorded: &RecordedRepository,
        pending: &PendingRepository,
    ) -> Result<Option<String>, AgentError> {
        let directory = recorded.directory.clone();
        let io = || AgentError::io(format!("make {} a repository", recorded.directory));
        let Some(files) = pending.open(&self.git).await? else {
            pending.remove()?;
            return Ok(None);
        };
        let user = as_owner::other_owner(directory.as_path()).map_err(io())?;
        let is_taken = std::fs::symlink_metadata(directory.join(".git")).is_ok();
        let (git, place) = (self.git.clone(), directory.clone());
        if is_taken && !fence::leads_nowhere(&directory) {
            let tips = pending.tips(&self.git).await?;
            let ask = move || async move { has_commits(&git, &place, &tips).await };
            if !as_owner::run_as(user, ask).await.map_err(io())?? {
                let pending = pending.top()?;
                return Err(BoundError::MadeMeanwhile { directory, pending }.into());
            }
            pending.remove()?;
            return Ok(None);
        }
        let short: String = id.as_str().chars().take(8).collect();
        let put = move || async move { files.put_into(&git, &place, &format!(".palisade-{short}")).await };
        as_owner::run_as(user, put).await.map_err(io())??;
        pending.remove()?;
        Ok(Some(format!(
            "{directory} is a git repository now, with the commits that were made in the sandbox"
        )))
    }
}
