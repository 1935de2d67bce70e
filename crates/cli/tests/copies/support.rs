//! A directory to be copied, and a look at a whole tree.

use palisade_testing::{Instance, Outcome};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

pub(crate) struct Scene {
    pub(crate) instance: Instance,
    pub(crate) project: PathBuf,
}

impl Scene {
    pub(crate) fn new(method: &'static str) -> Self {
        let instance = Instance::with_method(method);
        let project = instance.work().join("project");
        std::fs::create_dir_all(project.join("sub/deep")).unwrap();
        for (path, text) in
            [("file", "one\n"), ("gone", "x\n"), ("sub/deep/below", "y\n"), ("script", "#!/bin/sh\n")]
        {
            std::fs::write(project.join(path), text).unwrap();
        }
        symlink("file", project.join("link")).unwrap();
        instance.give(&project);
        Self { instance, project }
    }

    pub(crate) fn bwrap() -> Self {
        Self::new("bwrap")
    }

    /// Runs a shell script in a copy of the project.
    pub(crate) fn inside(&self, script: &str) -> Outcome {
        self.instance.run(["run", "-w", "project:copy", "--", "sh", "-ec", script])
    }

    /// The same, until the script has printed `ready` and waits.
    pub(crate) fn held(&self, script: &str) -> Child {
        let script = format!("{script}; echo ready; exec sleep 1000");
        let mut command = self.instance.command(["run", "-w", "project:copy", "--", "sh", "-ec", &script]);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        child
    }

    pub(crate) fn apply(&self, words: &[&str]) -> Outcome {
        self.apply_in(&self.project, words)
    }

    pub(crate) fn apply_in(&self, directory: &Path, words: &[&str]) -> Outcome {
        let mut command = self.instance.command([&["apply"], words].concat());
        Instance::finish(command.current_dir(directory).stdin(Stdio::null()))
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.project.join(path)).unwrap()
    }

    /// The copies, as `apply --list --json` has them.
    pub(crate) fn copies(&self) -> Vec<serde_json::Value> {
        self.apply(&["--list", "--json"]).ok().json().as_array().unwrap().clone()
    }

    /// The id of the only copy.
    pub(crate) fn run_id(&self) -> String {
        let copies = self.copies();
        assert_eq!(copies.len(), 1, "{copies:?}");
        copies[0]["run"].as_str().unwrap().to_owned()
    }

    /// Where the only copy is.
    pub(crate) fn copy(&self) -> PathBuf {
        self.instance.state().join("copies").join(self.run_id()).join("tree")
    }
}

/// What is at a path: its mode, and its content or where it leads.
pub(crate) type Entry = (u32, Vec<u8>);

/// Every path below a directory. Links are not followed.
pub(crate) fn tree(root: &Path) -> BTreeMap<PathBuf, Entry> {
    let mut found = BTreeMap::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let meta = std::fs::symlink_metadata(&path).unwrap();
            let content = match meta.file_type() {
                kind if kind.is_file() => std::fs::read(&path).unwrap(),
                kind if kind.is_symlink() => {
                    std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
                }
                _ => Vec::new(),
            };
            if meta.is_dir() {
                pending.push(path.clone());
            }
            found.insert(path.strip_prefix(root).unwrap().to_owned(), (meta.mode(), content));
        }
    }
    found
}

pub(crate) fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}
