//! Lists every content that a person could reach on one side: by refs, reflogs, stash, index, files of git's own, and
//! the files of working trees that git does not ignore. Nested repositories count.

use crate::sha1::blob_id;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Files of a git directory that hold ids of commits.
pub(crate) const PSEUDO_REFS: [&str; 9] = [
    "MERGE_HEAD",
    "MERGE_AUTOSTASH",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "ORIG_HEAD",
    "rebase-merge/autostash",
    "rebase-merge/orig-head",
    "rebase-merge/stopped-sha",
];
/// Git ignores files whose names end so.
const IGNORED: &str = ".ignored";

/// Runs git on one side.
#[derive(Debug, Clone)]
pub(crate) struct SideGit {
    pub(crate) home: PathBuf,
}

impl SideGit {
    pub(crate) fn command(&self, directory: &Path, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(directory).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", &self.home);
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_EDITOR", "true").env("LC_ALL", "C");
        // A look must not write.
        command.env("GIT_OPTIONAL_LOCKS", "0").stdin(Stdio::null());
        command
    }

    pub(crate) fn text(&self, directory: &Path, words: &[&str]) -> String {
        let output = self.command(directory, "git").args(words).output().unwrap();
        assert!(
            output.status.success(),
            "git {words:?} in {}: {}",
            directory.display(),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// The mode and the id of a file's content.
pub(crate) type FileState = (&'static str, String);

/// Contents by their ids, with a place where each was seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contents {
    /// What must stay: commits, tags and files.
    pub(crate) places: HashMap<String, String>,
    /// Everything that can be reached, trees too.
    pub(crate) reached: HashSet<String>,
    /// All files by their paths below the top, those that git ignores too.
    pub(crate) files: BTreeMap<String, FileState>,
}

impl Contents {
    /// What can be reached from the working tree at `top`, and from repositories in it.
    pub(crate) fn list(git: &SideGit, top: &Path) -> Self {
        let mut contents = Self::default();
        if top.join(".git").exists() {
            contents.add_repository(git, top);
        }
        contents.add_files(git, top, top);
        contents
    }

    /// The files of a working tree alone.
    pub(crate) fn files_of(git: &SideGit, top: &Path) -> Self {
        let mut contents = Self::default();
        contents.add_files(git, top, top);
        contents
    }

    /// What is not here of `others`, with where it was seen.
    pub(crate) fn lacks<'a>(&self, others: &'a Self) -> Vec<(&'a str, &'a str)> {
        let missing = others.places.iter().filter(|(id, _)| !self.reached.contains(*id));
        missing.map(|(id, place)| (id.as_str(), place.as_str())).collect()
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.reached.extend(other.reached);
        self.places.extend(other.places);
    }

    /// Adds a repository: its objects with their types, and the ids of tags that an archive holds by their contents.
    pub(crate) fn add_repository(&mut self, git: &SideGit, top: &Path) {
        let directory = git_directory(top);
        // What both sides have in common is a memory of the product's, and no place where a person would look.
        let mut words: Vec<String> = [
            "rev-list",
            "--objects",
            "--ignore-missing",
            "--exclude=refs/palisade/base/*",
            "--all",
            "--reflog",
            "--indexed-objects",
        ]
        .map(str::to_owned)
        .to_vec();
        words.extend(pseudo_refs(&directory));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let listed = git.text(top, &words);
        let check = ["cat-file", "--batch-check=%(objectname) %(objecttype)", "--batch-all-objects"];
        self.add_objects(&listed, &git.text(top, &check), &top.display().to_string());
    }

    /// Adds objects as git lists them, with the types of at least all trees among them.
    pub(crate) fn add_objects(&mut self, listed: &str, types: &str, top: &str) {
        let trees: HashSet<&str> = types.lines().filter_map(|line| line.strip_suffix(" tree")).collect();
        for line in listed.lines() {
            let (id, path) = line.split_once(' ').unwrap_or((line, "a commit"));
            self.reached.insert(id.to_owned());
            if let Some(tag) = path.rsplit('/').next().and_then(|name| name.strip_prefix("tag-")) {
                self.reached.insert(tag.to_owned());
            }
            if !trees.contains(id) {
                self.places.entry(id.to_owned()).or_insert_with(|| format!("{path} in {top}"));
            }
        }
    }

    fn add_files(&mut self, git: &SideGit, top: &Path, directory: &Path) {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            let path = entry.path();
            let kind = entry.file_type().unwrap();
            if entry.file_name() == ".git" {
                continue;
            }
            if kind.is_dir() {
                // A linked working tree has everything in the repository that it belongs to.
                if path.join(".git").exists() && !is_linked(&path) {
                    self.add_repository(git, &path);
                }
                self.add_files(git, top, &path);
                continue;
            }
            let (mode, content) = match kind.is_symlink() {
                true => ("link", fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()),
                false if path.metadata().unwrap().permissions().mode() & 0o100 != 0 => {
                    ("executable", fs::read(&path).unwrap())
                }
                false => ("file", fs::read(&path).unwrap()),
            };
            let name = path.strip_prefix(top).unwrap().display().to_string();
            self.add_file(&top.display().to_string(), &name, (mode, blob_id(&content)));
        }
    }

    /// Adds a file by its path below `top`.
    pub(crate) fn add_file(&mut self, top: &str, name: &str, (mode, id): FileState) {
        if !name.ends_with(IGNORED) {
            self.places.entry(id.clone()).or_insert_with(|| format!("the file {top}/{name}"));
        }
        self.reached.insert(id.clone());
        self.files.insert(name.to_owned(), (mode, id));
    }
}

fn is_linked(tree: &Path) -> bool {
    fs::read_to_string(tree.join(".git")).is_ok_and(|text| text.contains("/.git/worktrees/"))
}

/// The git directory of a working tree; a bare repository is its own.
pub(crate) fn git_directory(top: &Path) -> PathBuf {
    let place = top.join(".git");
    match fs::read_to_string(&place) {
        Ok(text) => top.join(text.trim_end().trim_start_matches("gitdir: ")),
        Err(_) if place.exists() => place,
        Err(_) => top.to_owned(),
    }
}

/// Commits that only files of git's name, in all working trees of a repository.
fn pseudo_refs(directory: &Path) -> Vec<String> {
    let linked = fs::read_dir(directory.join("worktrees")).into_iter().flatten().flatten();
    let places = linked.map(|entry| entry.path()).chain([directory.to_owned()]);
    let files = places.flat_map(|place| PSEUDO_REFS.map(|name| place.join(name)));
    let texts = files.filter_map(|file| fs::read_to_string(file).ok());
    texts
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .filter(|id| id.len() == 40)
        .collect()
}

/// The bare repositories below a directory.
pub(crate) fn bare_repositories(directory: &Path) -> Vec<PathBuf> {
    let below = |path: &Path| -> Vec<PathBuf> {
        fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    below(directory)
        .iter()
        .flat_map(|sandbox| below(sandbox))
        .filter(|path| path.join("HEAD").exists())
        .collect()
}
