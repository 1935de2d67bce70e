//! Objects that a partial clone has left at its remote, brought before a sandbox needs them.
//!
//! It is the user's own repository and the user's own remote, so git may use the user's own way there: ssh, credentials
//! and proxies. Everything else that the configuration would run stays off. Where a part of the configuration lies in
//! the working tree, into which an agent may have written, nothing is brought.

use crate::git::{GitError, Repository};
use crate::progress::Progress;
use crate::refs::ObjectId;
use crate::send::SendError;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// Trees are known only once those above them are here.
const MAX_ROUNDS: usize = 50;
/// How long the remote may take for one round.
const FETCH_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Whether git failed because an object is not here.
pub(crate) fn is_about_missing_objects(error: &GitError) -> bool {
    const SAID: [&str; 4] = ["promisor", "bad tree object", "unable to read", "missing blob"];
    matches!(error, GitError::Failed { said, .. } if SAID.iter().any(|words| said.contains(words)))
}

impl Repository {
    /// After git could not pack these objects: brings what a partial clone lacks of them. An error unless it is worth
    /// another try.
    pub(crate) async fn complete(
        &self,
        failed: SendError,
        tips: &[ObjectId],
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<(), SendError> {
        if !matches!(&failed, SendError::Git(error) if is_about_missing_objects(error)) {
            return Err(failed);
        }
        let remotes = self.promisor_remotes().await?;
        if remotes.is_empty() {
            return Err(failed);
        }
        let has_all =
            !self.is_configured_in_its_files().await? && self.fetch_from(&remotes, tips, progress).await?;
        if has_all { Ok(()) } else { Err(SendError::PartialClone) }
    }

    /// Brings everything that these objects lead to. Whether it is all here afterwards.
    async fn fetch_from(
        &self,
        remotes: &[String],
        tips: &[ObjectId],
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<bool, GitError> {
        for _ in 0..MAX_ROUNDS {
            let missing = self.missing_objects(tips).await?;
            if missing.is_empty() {
                return Ok(true);
            }
            let mut has_come = false;
            for remote in remotes {
                has_come = has_come || self.fetch_objects(remote, &missing, progress).await?;
            }
            if !has_come {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// The remotes that have promised to have what is missing here.
    async fn promisor_remotes(&self) -> Result<Vec<String>, GitError> {
        let question = ["config", "--null", "--type=bool", "--get-regexp", r"^remote\..*\.promisor$"];
        let (_, answers) = self.git(question).words().await?;
        let name = |answer: &OsStr| {
            let (key, value) = answer.to_str()?.split_once('\n')?;
            let name = key.strip_prefix("remote.")?.strip_suffix(".promisor")?;
            (value == "true").then(|| name.to_owned())
        };
        Ok(answers.iter().filter_map(|answer| name(answer)).collect())
    }

    /// Whether git takes settings from a file in the working tree.
    async fn is_configured_in_its_files(&self) -> Result<bool, GitError> {
        let (_, words) = self.git(["config", "--list", "--show-origin", "-z"]).words().await?;
        let root = self.directory().as_path();
        let is_inside = |origin: &OsStr| {
            let Some(path) = origin.as_bytes().strip_prefix(b"file:") else { return false };
            let path = root.join(Path::new(OsStr::from_bytes(path)));
            // A link may lead there.
            let path = path.canonicalize().unwrap_or(path);
            path.starts_with(root) && !path.starts_with(&self.places().common)
        };
        // Origins and settings take turns.
        Ok(words.iter().step_by(2).any(|origin| is_inside(origin)))
    }

    async fn missing_objects(&self, tips: &[ObjectId]) -> Result<Vec<ObjectId>, GitError> {
        let question = ["rev-list", "--objects", "--missing=print", "--quiet", "--stdin"];
        let tips: String = tips.iter().map(|id| format!("{id}\n")).collect();
        let answer = self.git(question).input(tips).text().await?;
        Ok(answer.lines().filter_map(|line| ObjectId::parse(line.strip_prefix('?')?)).collect())
    }

    /// Whether the remote has sent these objects.
    async fn fetch_objects(
        &self,
        remote: &str,
        objects: &[ObjectId],
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<bool, GitError> {
        // As git itself does it when it misses an object.
        const FETCH: [&str; 10] = [
            "-c",
            "fetch.negotiationAlgorithm=noop",
            "fetch",
            "--progress",
            "--no-tags",
            "--no-write-fetch-head",
            "--recurse-submodules=no",
            "--filter=blob:none",
            "--stdin",
            "--",
        ];
        let list: String = objects.iter().map(|id| format!("{id}\n")).collect();
        let repository = self.with_own_remotes();
        let fetch = repository.git(FETCH.into_iter().chain([remote])).input(list).limit(FETCH_TIMEOUT);
        match fetch.watched(|line| Progress::parse(line).into_iter().for_each(&mut *progress)).await {
            Ok(_) => Ok(true),
            Err(GitError::Failed { said, .. }) => {
                tracing::warn!(remote, said, "a partial clone's missing objects could not be fetched");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}
