//! A bound directory that is not the top of a working tree: in no repository, or below the top of one.
//!
//! Inside it has an empty repository. On the host, a `.git` that leads nowhere stands there meanwhile, so that nothing inside
//! can make the directory look like a repository.

use super::BoundError;
use super::config::{self, Setting};
use super::contents::{BoundRepository, BoundTree, DIRECTORIES, GitContents, users_excludes};
use super::head::{Base, Head, HostSide};
use crate::git::{Git, GitError, Repository};
use crate::refs::BranchName;
use palisade_core::{HostPath, WhenAbsent};
use palisade_host::fence;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The branch that git itself starts with.
const FIRST_BRANCH: &str = "master";

/// Whose settings git reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsOf {
    /// Those of the directory's owner, who uses git there.
    Owner,
    /// Those of root, which say nothing about how the owner's git behaves.
    AnotherUser,
}

/// What is at `.git` in the directory.
enum GitEntry {
    /// Nothing, or a file of ours that leads nowhere.
    Free,
    EmptyDirectory,
    /// Git data that cannot be used, as that of another user.
    Other,
}

impl GitEntry {
    fn of(directory: &HostPath) -> Self {
        let path = directory.join(".git");
        match std::fs::symlink_metadata(&path) {
            Err(_) => Self::Free,
            Ok(_) if fence::leads_nowhere(directory) => Self::Free,
            Ok(meta) if meta.is_dir() => match std::fs::read_dir(&path).map(|mut entries| entries.next()) {
                Ok(None) => Self::EmptyDirectory,
                _ => Self::Other,
            },
            Ok(_) => Self::Other,
        }
    }
}

impl BoundTree {
    /// A directory in another's working tree, or in none. Settings may name files in it all the same.
    pub(super) async fn without_repository(
        git: &Git,
        directory: &HostPath,
        settings_of: SettingsOf,
    ) -> Result<Self, BoundError> {
        // From above: what is in the directory itself may keep git from answering.
        let above = directory.as_path().parent().and_then(|path| HostPath::new(path).ok());
        let here = git.unguarded(above.as_ref().unwrap_or(directory));
        let (settings, top) =
            match tokio::try_join!(here.own_settings(), here.git(["rev-parse", "--show-toplevel"]).answers())
            {
                Err(GitError::NotStarted { .. }) => return Ok(Self::default()),
                answered => answered?,
            };
        let top = PathBuf::from(std::ffi::OsStr::from_bytes(top.strip_suffix(b"\n").unwrap_or(&top)));
        let top = HostPath::new(top).ok();
        let base = top.as_ref().unwrap_or(directory);
        let read_only = config::read_only(&settings.all(), base.as_path(), directory);
        let ignores_layouts = settings_of == SettingsOf::Owner && ignores_layouts(&here).await?;
        let git_when_absent = match ignores_layouts && top.is_some() {
            true => WhenAbsent::Directory,
            false => WhenAbsent::File,
        };
        let has_git_file = match GitEntry::of(directory) {
            GitEntry::Free => {
                let stands = std::fs::symlink_metadata(directory.join(".git")).is_ok();
                stands || git_when_absent == WhenAbsent::File
            }
            GitEntry::EmptyDirectory if ignores_layouts => false,
            GitEntry::EmptyDirectory => return Err(BoundError::EmptyGit { directory: directory.clone() }),
            GitEntry::Other => return Ok(Self { repositories: Vec::new(), read_only, git_when_absent }),
        };
        let host = top.map_or(HostSide::Plain, HostSide::Below);
        let repository = empty_repository(&settings.in_force, host, has_git_file);
        Ok(Self { repositories: vec![repository], read_only, git_when_absent })
    }

    /// What the user should know: git does not work in a directory below a repository while the file stands there.
    pub(super) fn notice(&self, directory: &HostPath) -> Option<String> {
        let repository = self.repositories.first()?;
        match (&repository.host, self.git_when_absent) {
            (HostSide::Below(top), WhenAbsent::File) => Some(format!(
                "git does not work in {directory} outside of the sandbox while it runs; in {top} it does"
            )),
            _ => None,
        }
    }
}

/// Whether the user's git takes no directory for a repository because of what lies in it. Git itself believes only the
/// user's and the system's files here, and not those of a repository.
async fn ignores_layouts(here: &Repository) -> Result<bool, GitError> {
    let question = ["config", "--show-scope", "--get-all", "safe.bareRepository"];
    let answer = here.git(question).answers().await?;
    let answer = String::from_utf8_lossy(&answer);
    let mut values = answer.lines().filter_map(|line| line.split_once('\t'));
    let last = values.rfind(|(scope, _)| matches!(*scope, "system" | "global"));
    Ok(last.is_some_and(|(_, value)| value == "explicit"))
}

fn empty_repository(settings: &[Setting], host: HostSide, has_git_file: bool) -> BoundRepository {
    let wanted = config::last(settings, "init.defaultbranch").and_then(|name| BranchName::new(name).ok());
    let branch = wanted.map_or_else(|| FIRST_BRANCH.to_owned(), |name| name.to_string());
    let base = Base { head: Head::Branch(branch), refs: BTreeMap::new(), stashes: Vec::new() };
    let mut contents = GitContents::default();
    contents.directories.extend(DIRECTORIES.map(PathBuf::from));
    contents.text("HEAD", base.head.text());
    contents.text("config", config::text_inside(&config::without_repository(settings)));
    contents.text("info/exclude", users_excludes(settings));
    BoundRepository::empty(contents, base, host, has_git_file)
}
