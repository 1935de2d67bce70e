//! What is the user's: branches, tags, stash, HEAD, and the files and the index of every working tree.

use crate::contents::{Contents, FileState, SideGit, bare_repositories, git_directory};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// One working tree of the user's.
#[derive(Debug, Clone)]
pub(crate) struct TreeState {
    pub(crate) top: PathBuf,
    /// The content of the file `HEAD`.
    pub(crate) head: String,
    /// The commit that it is at, if there is one.
    pub(crate) commit: Option<String>,
    pub(crate) files: BTreeMap<String, FileState>,
    /// What the index has of each path, all stages of it.
    pub(crate) index: BTreeMap<String, Vec<String>>,
}

impl TreeState {
    /// The full name of the branch that is checked out.
    pub(crate) fn branch(&self) -> Option<&str> {
        self.head.trim_end().strip_prefix("ref: ")
    }
}

#[derive(Debug, Clone)]
pub(crate) struct UserState {
    pub(crate) refs: BTreeMap<String, String>,
    pub(crate) trees: Vec<TreeState>,
    /// The log of the stash, with all its entries.
    pub(crate) stash: Option<String>,
}

/// Looks at the host: what is the user's, and all that can be reached.
pub(crate) fn look_at_host(git: &SideGit, top: &Path) -> (UserState, Contents) {
    let listed = git.text(top, &["for-each-ref", "--format=%(refname) %(objectname)"]);
    let refs = listed.lines().filter_map(|line| line.split_once(' '));
    let refs: BTreeMap<String, String> = refs.map(|(name, id)| (name.to_owned(), id.to_owned())).collect();
    let directory = git_directory(top);
    let mut contents = Contents::default();
    contents.add_repository(git, top);
    for bare in bare_repositories(&directory.join("palisade/nested")) {
        contents.add_repository(git, &bare);
    }
    let linked = fs::read_dir(directory.join("worktrees")).into_iter().flatten().flatten();
    let linked = linked.filter_map(|entry| {
        let place = fs::read_to_string(entry.path().join("gitdir")).ok()?;
        Some((entry.path(), PathBuf::from(place.trim_end()).parent()?.to_owned()))
    });
    let places = [(directory.clone(), top.to_owned())].into_iter().chain(linked);
    let mut trees = Vec::new();
    for (own, top) in places.filter(|(_, top)| top.join(".git").exists()) {
        let found = Contents::files_of(git, &top);
        let head = fs::read_to_string(own.join("HEAD")).unwrap();
        let name = head.trim_end().trim_start_matches("ref: ").to_owned();
        let commit = if name.starts_with("refs/") { refs.get(&name).cloned() } else { Some(name) };
        trees.push(TreeState { head, commit, index: index(git, &top), files: found.files.clone(), top });
        contents.extend(found);
    }
    trees.sort_by(|one, other| one.top.cmp(&other.top));
    let stash = fs::read_to_string(directory.join("logs/refs/stash")).ok();
    (UserState { refs, trees, stash }, contents)
}

fn index(git: &SideGit, top: &Path) -> BTreeMap<String, Vec<String>> {
    parse_index(git.text(top, &["ls-files", "--stage", "-z"]).split_terminator('\0'))
}

/// What the entries that git lists of an index say of each path.
pub(crate) fn parse_index<'a>(entries: impl Iterator<Item = &'a str>) -> BTreeMap<String, Vec<String>> {
    let mut index: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in entries {
        let (state, path) = entry.split_once('\t').unwrap();
        index.entry(path.to_owned()).or_default().push(state.to_owned());
    }
    index
}

/// What the agent has, for comparison: nothing but a start may change it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AgentState {
    refs: String,
    files: BTreeMap<String, FileState>,
    index: BTreeMap<String, Vec<String>>,
}

impl AgentState {
    pub(crate) fn look(git: &SideGit, top: &Path, contents: &Contents) -> Self {
        let refs = git.text(top, &["for-each-ref", "--format=%(refname) %(objectname)"]);
        Self::new(refs.lines(), contents, index(git, top))
    }

    /// Of all refs, and of what else was seen.
    pub(crate) fn new<'a>(
        refs: impl Iterator<Item = &'a str>,
        contents: &Contents,
        index: BTreeMap<String, Vec<String>>,
    ) -> Self {
        let refs = refs.filter(|line| !line.starts_with("refs/palisade/"));
        Self { refs: refs.collect::<Vec<_>>().join("\n"), files: contents.files.clone(), index }
    }

    /// The full names of the branches.
    pub(crate) fn branches(&self) -> std::collections::HashSet<&str> {
        let names = self.refs.lines().filter_map(|line| line.split(' ').next());
        names.filter(|name| name.starts_with("refs/heads/")).collect()
    }
}
