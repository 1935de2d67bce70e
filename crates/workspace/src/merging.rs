//! Merges and replays commits without a working tree.

use crate::facts::object;
use crate::git::{GitError, Invocation, Repository};
use crate::refs::ObjectId;
use std::ffi::OsString;
use std::path::PathBuf;

/// More commits are not replayed one by one; they wait as they are.
const MAX_REPLAYED: usize = 100;

/// The paths in which a merge has conflicts.
pub(crate) type Conflicts = Vec<PathBuf>;

impl Repository {
    /// The tree of a merge of two commits, or where it has conflicts.
    pub(crate) async fn merge_trees(
        &self,
        ours: &ObjectId,
        theirs: &ObjectId,
    ) -> Result<Result<ObjectId, Conflicts>, GitError> {
        let options = ["merge-tree", "--write-tree", "--name-only", "-z", "--no-messages"];
        let merge = options.into_iter().chain([ours.as_str(), theirs.as_str()]);
        let (clean, words) = self.git(merge).words().await?;
        let mut words = words.into_iter();
        let tree = words.next().unwrap_or_default();
        if clean {
            return Ok(Ok(object("merge-tree", &tree.to_string_lossy())?));
        }
        let mut paths: Vec<PathBuf> = words.map(PathBuf::from).collect();
        paths.sort();
        paths.dedup();
        Ok(Err(paths))
    }

    /// The merged content of a file, from its three versions; `None` when it has conflicts, or is not text.
    pub(crate) async fn merge_contents(
        &self,
        base: &ObjectId,
        ours: &ObjectId,
        theirs: &ObjectId,
    ) -> Result<Option<ObjectId>, GitError> {
        let io = |source| GitError::Io { what: "merge a file".into(), source };
        let directory = self.places().own.join("palisade-merge");
        palisade_host::tree::remove(&directory).map_err(io)?;
        std::fs::create_dir(&directory).map_err(io)?;
        let mut files = Vec::new();
        for (name, id) in [("ours", ours), ("base", base), ("theirs", theirs)] {
            let content = self.git(["cat-file", "blob", id.as_str()]).bytes().await?;
            let file = directory.join(name);
            std::fs::write(&file, content).map_err(io)?;
            files.push(file.into_os_string());
        }
        let words = ["merge-file", "--stdout", "--quiet"].map(OsString::from).into_iter().chain(files);
        // It says with its exit code how many conflicts there are.
        let merged = match self.git(words).bytes().await {
            Ok(content) => Some(self.write_object("blob", content).await?),
            Err(GitError::Failed { .. }) => None,
            Err(error) => return Err(error),
        };
        palisade_host::tree::remove(&directory).map_err(io)?;
        Ok(merged)
    }

    /// A merge commit, by the user.
    pub(crate) async fn commit_merge(
        &self,
        tree: &ObjectId,
        parents: [&ObjectId; 2],
        message: &str,
    ) -> Result<ObjectId, GitError> {
        let [ours, theirs] = parents;
        let words = ["commit-tree", tree.as_str(), "-p", ours.as_str(), "-p", theirs.as_str(), "-m", message];
        object("commit-tree", &self.with_identity(self.git(words)).text().await?)
    }

    /// By the user, or by us where git does not know the user.
    pub(crate) fn with_identity<'g>(&self, mut git: Invocation<'g>) -> Invocation<'g> {
        let identity = self.identity();
        if identity.name.is_empty() || identity.email.is_empty() {
            for role in ["AUTHOR", "COMMITTER"] {
                git = git
                    .env(format!("GIT_{role}_NAME"), "palisade")
                    .env(format!("GIT_{role}_EMAIL"), "palisade@localhost");
            }
        }
        git
    }

    /// Replays the commits between `base` and `tip` on another commit, each with its own author and message. `None` when
    /// that has conflicts, or when they are not a line of commits: then they stay as they are.
    pub(crate) async fn replay(
        &self,
        base: &ObjectId,
        tip: &ObjectId,
        onto: &ObjectId,
    ) -> Result<Option<ObjectId>, GitError> {
        let range = format!("{base}..{tip}");
        let list = self.git(["rev-list", "--reverse", "--parents", &range, "--"]).text().await?;
        let commits: Vec<Vec<ObjectId>> =
            list.lines().map(|line| line.split(' ').filter_map(ObjectId::parse).collect()).collect();
        if commits.is_empty() || commits.len() > MAX_REPLAYED {
            return Ok(None);
        }
        let mut here = onto.clone();
        for commit in &commits {
            let [commit, parent] = commit.as_slice() else { return Ok(None) };
            match self.replay_one(parent, commit, &here).await? {
                Some(replayed) => here = replayed,
                None => return Ok(None),
            }
        }
        Ok(Some(here))
    }

    async fn replay_one(
        &self,
        parent: &ObjectId,
        commit: &ObjectId,
        onto: &ObjectId,
    ) -> Result<Option<ObjectId>, GitError> {
        // A merge finds its base by ancestry: this commit has the tree that we replay on, and the parent for its history.
        let tree = format!("{onto}^{{tree}}");
        let stand_in = self.git(["commit-tree", &tree, "-p", parent.as_str(), "-m", "replay"]);
        let stand_in = [("AUTHOR", "palisade"), ("COMMITTER", "palisade")].into_iter().fold(
            stand_in,
            |git, (role, name)| {
                git.env(format!("GIT_{role}_NAME"), name)
                    .env(format!("GIT_{role}_EMAIL"), "palisade@localhost")
                    .env(format!("GIT_{role}_DATE"), "1000000000 +0000")
            },
        );
        let stand_in = object("commit-tree", &stand_in.text().await?)?;
        let Ok(tree) = self.merge_trees(&stand_in, commit).await? else { return Ok(None) };
        let original = self.git(["cat-file", "commit", commit.as_str()]).bytes().await?;
        match replayed(&original, &tree, onto) {
            Some(content) => Ok(Some(self.write_object("commit", content).await?)),
            None => Ok(None),
        }
    }
}

/// A commit with another tree and parent, and without signatures, which would not be right any more.
fn replayed(original: &[u8], tree: &ObjectId, parent: &ObjectId) -> Option<Vec<u8>> {
    let end = original.windows(2).position(|pair| pair == b"\n\n")?;
    let (header, message) = original.split_at(end + 1);
    let mut content = format!("tree {tree}\nparent {parent}\n").into_bytes();
    let mut keep = false;
    for line in header.split_inclusive(|byte| *byte == b'\n') {
        // A header goes on in lines that begin with a blank.
        if !line.starts_with(b" ") {
            keep =
                ["author ", "committer ", "encoding "].iter().any(|name| line.starts_with(name.as_bytes()));
        }
        if keep {
            content.extend_from_slice(line);
        }
    }
    content.extend_from_slice(message);
    Some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replayed_commit_keeps_author_and_message_and_loses_its_signature() {
        let id = |letter: &str| ObjectId::parse(&letter.repeat(40)).unwrap();
        let original = format!(
            "tree {}\nparent {}\nauthor A <a@b> 1 +0000\ncommitter C <c@d> 2 +0000\ngpgsig -----BEGIN\n line\n -----END\nencoding x\n\nsubject\n\nbody\n",
            id("1"),
            id("2")
        );
        let content = replayed(original.as_bytes(), &id("3"), &id("4")).unwrap();
        assert_eq!(
            String::from_utf8(content).unwrap(),
            format!(
                "tree {}\nparent {}\nauthor A <a@b> 1 +0000\ncommitter C <c@d> 2 +0000\nencoding x\n\nsubject\n\nbody\n",
                id("3"),
                id("4")
            )
        );
        assert_eq!(replayed(b"tree x", &id("3"), &id("4")), None);
    }
}
