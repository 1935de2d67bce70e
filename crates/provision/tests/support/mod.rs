//! A project with a stack of its own on the engine of the tests.
#![allow(dead_code, reason = "each test uses its part")]

use palisade_core::HostPath;
use palisade_provision::{
    ComposeEnvironment, Model, Progress, Redactor, Stack, StackError, StackPatience, Volumes,
};
use std::path::Path;
use std::process::Command;

/// A worktree, a slot directory and a stack over both. The stack is taken down when it is dropped.
pub(crate) struct Project {
    pub(crate) stack: Stack,
    root: tempfile::TempDir,
}

impl Project {
    /// The services' image is `palisade-services`, which scripts/services makes.
    pub(crate) fn new(compose: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let project = format!("t{}", root.path().file_name().unwrap().to_string_lossy().to_lowercase());
        let project: String = project.chars().filter(char::is_ascii_alphanumeric).collect();
        for directory in ["worktree", "slot"] {
            std::fs::create_dir(root.path().join(directory)).unwrap();
        }
        std::fs::write(root.path().join("worktree/docker-compose.yml"), compose).unwrap();
        let place = |path: &str| HostPath::new(root.path().canonicalize().unwrap().join(path)).unwrap();
        let stack = Stack {
            docker: "docker".into(),
            project,
            compose_file: place("worktree/docker-compose.yml"),
            rendered: None,
            override_file: None,
            env_files: Vec::new(),
            worktree: place("worktree"),
            environment: ComposeEnvironment::of(std::env::vars_os(), &[], &[]),
            redactor: Redactor::default(),
            patience: StackPatience::default(),
        };
        Self { stack, root }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn write(&self, path: &str, text: &str) -> HostPath {
        let path = HostPath::new(self.root.path().canonicalize().unwrap().join(path)).unwrap();
        std::fs::create_dir_all(path.as_path().parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn env_file(&mut self, name: &str, text: &str) {
        let path = self.write(&format!("slot/{name}"), text);
        self.stack.env_files.push(path);
    }

    pub(crate) fn override_file(&mut self, text: &str) {
        self.stack.override_file = Some(self.write("slot/docker-compose.override.yml", text));
    }

    pub(crate) fn render(&self) -> Result<Model, StackError> {
        run(self.stack.render())
    }

    /// What was told on the way.
    pub(crate) fn up(&self) -> (Result<(), StackError>, Vec<Progress>) {
        let mut told = Vec::new();
        let result = run(self.stack.up(|step| told.push(step)));
        (result, told)
    }

    pub(crate) fn down(&self) -> Result<(), StackError> {
        run(self.stack.down(Volumes::Remove, |_| ()))
    }

    /// What the engine still has of the project, by kind.
    pub(crate) fn left(&self) -> Vec<String> {
        let label = format!("label=com.docker.compose.project={}", self.stack.project);
        let mut left = Vec::new();
        for (kind, list) in [
            ("container", &["ps", "--all"][..]),
            ("network", &["network", "ls"]),
            ("volume", &["volume", "ls"]),
        ] {
            let told = docker(&[list, &["--quiet", "--filter", &label]].concat());
            left.extend(told.lines().map(|id| format!("{kind} {id}")));
        }
        left
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        if std::env::var_os("DOCKER_HOST").is_some() {
            let _ = self.down();
        }
    }
}

pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// What Docker's own program says.
pub(crate) fn docker(arguments: &[&str]) -> String {
    let told = Command::new("docker").args(arguments).output().unwrap();
    assert!(told.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&told.stderr));
    String::from_utf8(told.stdout).unwrap()
}

/// The command line of every process, its words ended by NULs.
pub(crate) fn processes() -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).into_owned()).collect()
}
