//! Working trees of the sandbox's repository beside the main one, and what people see of an agent's work before it is
//! brought. All of it is computed inside, and printed with control characters escaped.

use crate::refs::{BranchName, ObjectId};
use crate::sandbox::{SandboxError, SandboxRepository};
use crate::survey::{RepositorySurvey, TreeSurvey};
use palisade_core::{GuestPath, printable};

impl SandboxRepository<'_> {
    /// Makes a working tree for a branch: for one that is there, one of the host's, or a new one from where HEAD is.
    pub async fn add_worktree(
        &self,
        survey: &RepositorySurvey,
        branch: &BranchName,
        path: &GuestPath,
    ) -> Result<(), SandboxError> {
        let of_host = format!("refs/remotes/host/{branch}");
        let mut words = vec!["worktree", "add", "--quiet"];
        match (survey.branch(branch), survey.sent(branch)) {
            (Some(_), _) => words.extend(["--", path.as_str(), branch.as_str()]),
            (None, Some(_)) => {
                words.extend(["--no-track", "-b", branch.as_str(), "--", path.as_str(), &of_host])
            }
            (None, None) => words.extend(["--no-track", "-b", branch.as_str(), "--", path.as_str()]),
        }
        self.run_git("making the worktree", &words).await
    }

    /// Removes a working tree, whatever is in it. Its branch stays.
    pub async fn remove_worktree(&self, path: &GuestPath) -> Result<(), SandboxError> {
        self.run_git("removing the worktree", &["worktree", "remove", "--force", "--", path.as_str()])
            .await?;
        self.run_git("removing the worktree", &["worktree", "prune"]).await
    }

    async fn run_git(&self, what: &'static str, words: &[&str]) -> Result<(), SandboxError> {
        self.git(what, words, &mut tokio::io::empty(), &mut tokio::io::sink()).await
    }

    /// The changes of a working tree that are not committed, for people.
    pub async fn diff(&self, tree: &TreeSurvey) -> Result<String, SandboxError> {
        let (Some(head), Some(snapshot)) = (&tree.head, &tree.snapshot) else { return Ok(String::new()) };
        let options = ["--no-pager", "diff", "--no-color", "--no-ext-diff", "--no-textconv"];
        let words = options.into_iter().chain([head.as_str(), snapshot.files.as_str(), "--"]);
        self.text("comparing", &words.collect::<Vec<_>>()).await
    }

    /// The commits of a working tree that the host did not have when it was last sent in, for people.
    pub async fn log(&self, head: &ObjectId) -> Result<String, SandboxError> {
        let options = ["--no-pager", "log", "--no-color", "--no-ext-diff", "--stat", head.as_str()];
        let words = options.into_iter().chain(["--not", "--remotes", "--"]);
        self.text("listing the commits", &words.collect::<Vec<_>>()).await
    }

    async fn text(&self, what: &'static str, words: &[&str]) -> Result<String, SandboxError> {
        let mut answer = Vec::new();
        self.git(what, words, &mut tokio::io::empty(), &mut answer).await?;
        let line = |line: &str| printable(line).replace("\\u{9}", "\t") + "\n";
        Ok(String::from_utf8_lossy(&answer).lines().map(line).collect())
    }
}
