//! A repository to be fenced, and a look at a whole tree.

use crate::place::on_host;
use palisade_testing::{Instance, Outcome};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

pub(crate) struct Repository {
    pub(crate) instance: Instance,
    pub(crate) path: PathBuf,
}

impl Repository {
    /// With one commit, on the branch main.
    pub(crate) fn new() -> Self {
        Self::with_method("bwrap")
    }

    pub(crate) fn with_method(method: &'static str) -> Self {
        let instance = Instance::with_method(method);
        let repository = Self { path: instance.work().join("repo"), instance };
        std::fs::create_dir(&repository.path).unwrap();
        repository.git(&["init", "--quiet", "--initial-branch=main"]).ok();
        std::fs::write(repository.path.join("file"), "first\n").unwrap();
        repository.git(&["add", "."]).ok();
        repository.git(&["commit", "--quiet", "--message=first"]).ok();
        repository
    }

    /// Makes it a directory that a sandbox of its method can write.
    pub(crate) fn give(&self) {
        self.instance.give(&self.instance.work());
    }

    /// The host's git, without settings of the test's own user.
    pub(crate) fn git(&self, words: &[&str]) -> Outcome {
        let mut command = on_host("git", &self.instance.home(), &self.path);
        command.args(["-c", "user.name=host", "-c", "user.email=host@example.com"]).args(words);
        Outcome::from(command.output().unwrap())
    }

    /// A shell script in a sandbox with the repository as its workspace.
    pub(crate) fn inside(&self, script: &str) -> Outcome {
        self.instance.run(["run", "-w", "repo", "--", "sh", "-c", script])
    }

    /// The same without the fence: bwrap by hand, with the directory simply bound.
    pub(crate) fn unfenced(&self, script: &str) -> Outcome {
        let repo = self.path.to_str().unwrap();
        let options = ["--bind", repo, repo, "--chdir", repo];
        let mut command = palisade_testing::probe::naive_bwrap(&options, &["sh", "-c", script]);
        Outcome::from(command.stdin(Stdio::null()).output().unwrap())
    }
}

/// Every path below a directory with its mode and content; links are not followed.
pub(crate) fn tree(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    use std::os::unix::fs::MetadataExt;
    let mut found = BTreeMap::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let meta = std::fs::symlink_metadata(&path).unwrap();
            let content = if meta.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
            if meta.is_dir() {
                pending.push(path.clone());
            }
            found.insert(path.strip_prefix(root).unwrap().to_owned(), (meta.mode(), content));
        }
    }
    found
}
