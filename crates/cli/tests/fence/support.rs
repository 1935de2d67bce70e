//! A repository to be fenced, and a look at a whole tree.

use palisade_testing::{Instance, Outcome};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) struct Repository {
    pub(crate) instance: Instance,
    pub(crate) path: PathBuf,
}

impl Repository {
    /// With one commit, on the branch main.
    pub(crate) fn new() -> Self {
        let instance = Instance::with_method("bwrap");
        let repository = Self { path: instance.work().join("repo"), instance };
        std::fs::create_dir(&repository.path).unwrap();
        repository.git(&["init", "--quiet", "--initial-branch=main"]).ok();
        std::fs::write(repository.path.join("file"), "first\n").unwrap();
        repository.git(&["add", "."]).ok();
        repository.git(&["commit", "--quiet", "--message=first"]).ok();
        repository
    }

    /// The host's git, with a configuration of nobody's.
    pub(crate) fn git(&self, words: &[&str]) -> Outcome {
        let mut command = Command::new("git");
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.instance.home());
        command.env("GIT_CONFIG_NOSYSTEM", "1").current_dir(&self.path).stdin(Stdio::null());
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
