//! A host repository and an inside that is only another directory: what passes between them is the same git.
#![allow(dead_code, reason = "each test program uses a part of it")]

use palisade_core::{BoxFuture, HostPath, SandboxName};
use palisade_protocol::client::{ExecError, Output};
use palisade_protocol::{ExecRequest, Exit};
use palisade_workspace::{
    Application, Applied, Arrival, BranchName, Divergence, Facts, Fetched, Git, GitError, Ground, Inside,
    Link, SandboxRefs, Tree, Wanted,
};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Runs what it is asked to on this machine.
pub(crate) struct Here;

impl Inside for Here {
    fn run(&self, request: ExecRequest) -> BoxFuture<'_, Result<Output, ExecError>> {
        Box::pin(async move {
            let words: Vec<&OsStr> = request.argv.iter().map(|word| OsStr::from_bytes(word)).collect();
            let variables = request.env.iter().map(|variable| {
                let at = variable.iter().position(|byte| *byte == b'=').unwrap();
                (OsString::from_vec(variable[..at].to_vec()), OsString::from_vec(variable[at + 1..].to_vec()))
            });
            let output = Command::new(words[0])
                .args(&words[1..])
                .env_clear()
                .envs(variables)
                .current_dir(OsStr::from_bytes(&request.cwd))
                .output()
                .unwrap();
            let exit = Exit::Code(output.status.code().unwrap() as u8);
            Ok(Output { stdout: output.stdout, stderr: output.stderr, exit })
        })
    }
}

pub(crate) struct Scene {
    directory: tempfile::TempDir,
    pub(crate) refs: SandboxRefs,
    /// Bytes that a sync may lay.
    pub(crate) most: u64,
    /// How long a transfer may take.
    pub(crate) patience: Duration,
}

impl Scene {
    /// A repository on the host with one commit of `readme` and `code`, and an empty inside.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["host", "inside", "home"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        let transport = "shift\nSIDE=inside exec sh -c \"$1\"\n";
        let refs = SandboxRefs::new(SandboxName::new("box").unwrap());
        let scene = Self { directory, refs, most: u64::MAX, patience: Duration::from_secs(600) };
        std::fs::write(scene.path("transport"), transport).unwrap();
        scene.host("git init --quiet --initial-branch=main && git config user.name Ada && git config user.email ada@example.org");
        scene.write("host/readme", "one\ntwo\nthree\n");
        scene.write("host/code", "1\n2\n3\n4\n5\n");
        scene.host("git add -A && git commit --quiet -m first");
        scene
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    pub(crate) fn write(&self, relative: &str, text: &str) {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, relative: &str) -> String {
        std::fs::read_to_string(self.path(relative)).unwrap()
    }

    pub(crate) fn exists(&self, relative: &str) -> bool {
        self.path(relative).symlink_metadata().is_ok()
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        vec![
            ("PATH".into(), std::env::var_os("PATH").unwrap()),
            ("HOME".into(), self.path("home").into()),
            ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
        ]
    }

    fn shell(&self, directory: &Path, side: &str, script: &str) -> String {
        let output = self.command(directory, side, script).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{script}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text.trim_end().to_owned()
    }

    fn command(&self, directory: &Path, side: &str, script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-ec", script]).env_clear().envs(self.environment());
        command.env("SIDE", side).current_dir(directory).stdin(std::process::Stdio::null());
        command
    }

    /// What the user does, and what that prints.
    pub(crate) fn host(&self, script: &str) -> String {
        self.shell(&self.path("host"), "host", script)
    }

    /// What the agent does.
    pub(crate) fn inside(&self, script: &str) -> String {
        self.shell(&self.path("inside"), "inside", script)
    }

    /// A shell command that leaves a mark when it runs on the host's side, and passes its input or file on.
    pub(crate) fn trap(&self, mark: &str) -> String {
        format!("[ \"$SIDE\" = inside ] || touch {}; cat", self.path(&format!("ran-{mark}")).display())
    }

    /// The same as a program of its own.
    pub(crate) fn program(&self, mark: &str) -> String {
        let name = format!("home/trap-{mark}");
        self.write(&name, &format!("#!/bin/sh\n{} \"$@\"\n", self.trap(mark)));
        self.host(&format!("chmod +x ../{name}"));
        self.path(&name).display().to_string()
    }

    /// The traps that went off since the last look.
    pub(crate) fn sprung(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap().flatten();
        let mut marks: Vec<String> = entries
            .filter_map(|entry| Some(entry.file_name().to_str()?.strip_prefix("ran-")?.to_owned()))
            .collect();
        marks.iter().for_each(|mark| std::fs::remove_file(self.path(&format!("ran-{mark}"))).unwrap());
        marks.sort();
        marks
    }

    /// What plain git, or another plain tool, would have done in the host's place: what it said, in a copy of the host.
    pub(crate) fn plain(&self, script: &str) -> String {
        self.host("rm -rf ../plain && cp -a . ../plain");
        let output = self.command(&self.path("plain"), "host", script).output().unwrap();
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat()
    }

    /// The user's refs, after a look that nothing in the repository is broken.
    pub(crate) fn refs(&self) -> String {
        self.host("git fsck --strict 2>&1 && git for-each-ref --format='%(refname)'")
    }

    pub(crate) async fn facts(&self) -> Facts {
        let git = Git::new("git", self.environment());
        Facts::gather(&git, &HostPath::new(self.path("host")).unwrap()).await.unwrap()
    }

    pub(crate) fn tree<'a>(&self, inside: &'a Here) -> Tree<'a> {
        let variable =
            |(name, value): (OsString, OsString)| [name.as_bytes(), b"=", value.as_bytes()].concat();
        let side = ("SIDE".into(), "inside".into());
        let environment = self.environment().into_iter().chain([side]).map(variable).collect();
        Tree::new(inside, environment, self.path("inside").display().to_string())
    }

    fn link(&self) -> Link {
        let mut command = OsString::from("sh ");
        command.push(self.path("transport"));
        let directory = self.path("inside").display().to_string();
        Link { command, inherited: None, host: "palisade".into(), directory, limit: self.patience }
    }

    pub(crate) async fn send(&self) -> Arrival {
        let facts = self.facts().await;
        let tree = self.tree(&Here);
        tree.prepare(&facts.branch, &facts.identity.name, &facts.identity.email).await.unwrap();
        facts.repository.push_to(&self.link(), &facts.branch, |_| {}).await.unwrap();
        tree.arrive(&facts.branch).await.unwrap()
    }

    pub(crate) async fn try_fetch(&self, name: &str, work: bool) -> Result<Fetched, GitError> {
        let repository = self.facts().await.repository;
        let branch = branch(name);
        if !work {
            let known = repository.known(&self.refs).await?;
            repository.forget_work(&self.refs, &known, [&branch]).await?;
        }
        let work = if work { vec![branch.clone()] } else { Vec::new() };
        let wanted = Wanted { branches: vec![branch.clone()], work };
        repository.fetch_from(&self.link(), &self.refs, &wanted).await?;
        repository.known(&self.refs).await?.fetched(&self.refs, &branch)
    }

    pub(crate) async fn sync(&self, on_divergence: Divergence) -> Applied {
        self.try_sync(on_divergence).await.unwrap()
    }

    pub(crate) async fn try_sync(&self, on_divergence: Divergence) -> Result<Applied, GitError> {
        let snapshot = self.tree(&Here).survey().await.unwrap().snapshots.remove(0);
        self.try_sync_of(snapshot.branch.as_str(), snapshot.work.is_some(), on_divergence).await
    }

    /// Brings one branch home, whatever the others are.
    pub(crate) async fn try_sync_of(
        &self,
        name: &str,
        work: bool,
        on_divergence: Divergence,
    ) -> Result<Applied, GitError> {
        self.bring(name, work, on_divergence, || {}).await
    }

    /// Brings the work home while the user does something: after the look at his files, before they are written.
    pub(crate) async fn try_sync_while(&self, meanwhile: impl FnOnce()) -> Result<Applied, GitError> {
        let snapshot = self.tree(&Here).survey().await.unwrap().snapshots.remove(0);
        self.bring(snapshot.branch.as_str(), snapshot.work.is_some(), Divergence::Wait, meanwhile).await
    }

    async fn bring(
        &self,
        name: &str,
        work: bool,
        on_divergence: Divergence,
        meanwhile: impl FnOnce(),
    ) -> Result<Applied, GitError> {
        let facts = self.facts().await;
        let _turn = facts.repository.turn().await?;
        let fetched = self.try_fetch(name, work).await?;
        let ground = Ground::look(&facts.repository).await?;
        meanwhile();
        let application =
            Application::look(&facts.repository, &self.refs, &facts.branch, on_divergence, ground, None)
                .await?;
        application.at_most(self.most).apply(&fetched.branch).await
    }
}

pub(crate) fn branch(name: &str) -> BranchName {
    BranchName::new(name).unwrap()
}

pub(crate) fn paths(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(PathBuf::from).collect()
}
