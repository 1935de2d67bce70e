//! Which files git leaves out of a repository: they are missing in every new worktree of it.

use crate::git::{GitError, Repository};
use std::collections::HashSet;
use std::os::unix::ffi::OsStringExt;

impl Repository {
    /// Those of the paths, relative to the repository's directory, that git ignores. One that is tracked all the same
    /// is not ignored, and one that git cannot be asked about, beyond a link or in a submodule, is none of its own.
    pub async fn ignored(&self, paths: &[&str]) -> Result<HashSet<String>, GitError> {
        if paths.is_empty() {
            return Ok(HashSet::new());
        }
        match self.check_ignore(paths).await {
            // One bad path ends the whole question.
            Err(GitError::Failed { .. }) => {
                let mut found = HashSet::new();
                for path in paths {
                    found.extend(self.check_ignore(&[path]).await.unwrap_or_default());
                }
                Ok(found)
            }
            answered => answered,
        }
    }

    async fn check_ignore(&self, paths: &[&str]) -> Result<HashSet<String>, GitError> {
        // What begins with a colon would be more than a path to git; it answers with the words it was asked.
        const HERE: &str = "./";
        let question: String = paths.iter().map(|path| format!("{HERE}{path}\0")).collect();
        let (_, words) = self.git(["check-ignore", "-z", "--stdin"]).input(question).words().await?;
        let answers = words.into_iter().filter_map(|word| String::from_utf8(word.into_vec()).ok());
        Ok(answers.map(|answer| answer.trim_start_matches(HERE).to_owned()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::Git;
    use palisade_core::HostPath;
    use std::fs;

    #[tokio::test]
    async fn what_git_leaves_out_is_told_and_a_path_it_cannot_be_asked_about_spoils_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let root = HostPath::new(directory.path().canonicalize().unwrap()).unwrap();
        let git = Git::new("git", [("PATH".into(), std::env::var_os("PATH").unwrap())]);
        let here = git.unguarded(&root);
        here.git(["init", "--quiet"]).bytes().await.unwrap();
        fs::create_dir(root.join("below")).unwrap();
        fs::write(root.join(".gitignore"), ".env\ndata/\n:odd\n*.local\n").unwrap();
        fs::write(root.join("kept.local"), "").unwrap();
        fs::create_dir(root.join("data")).unwrap();
        std::os::unix::fs::symlink("/etc", root.join("link")).unwrap();
        here.git(["add", "--force", "kept.local"]).bytes().await.unwrap();
        let repository = Repository::around(&git, &root.join("below")).await.unwrap();
        assert_eq!(repository.directory(), &root);
        let asked = [".env", "data", ":odd", "kept.local", "below/.env", "other"];
        let expected = [".env", "data", ":odd", "below/.env"].map(str::to_owned);
        assert_eq!(repository.ignored(&asked).await.unwrap(), HashSet::from(expected.clone()));
        let beyond: Vec<&str> = asked.into_iter().chain(["link/hosts"]).collect();
        assert_eq!(repository.ignored(&beyond).await.unwrap(), HashSet::from(expected));
        assert_eq!(repository.ignored(&[]).await.unwrap(), HashSet::new());
    }
}
