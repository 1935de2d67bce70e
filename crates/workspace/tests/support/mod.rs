//! A host repository and an inside that is only another directory: what passes between them is the same git.
#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::panic, reason = "a test that finds something else has failed")]

use palisade_core::{BoxFuture, HostPath, ObjectStoreName, RefScope, SandboxId, SandboxName};
use palisade_host::object_store::LockedObjectStore;
use palisade_protocol::{ExecRequest, Exit};
use palisade_workspace::{
    ArchiveReason, ArchiveReport, BranchName, BranchReport, BranchSelection, CommandEnd, CommandRunner,
    CommitsOutcome, Exchange, ExchangeError, ExchangeReport, FilesOutcome, Git, Growth, HostTree, MergeMode,
    OnUnapplied, OnUncommitted, SandboxRefs, SandboxRepository, SharedObjects, SharedObjectsRequest,
    StartOptions, StartReport, SyncOptions, TagMode, TransferError, TransferLimits, TreeReport,
    WaitingCommits,
};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// For a process that a test starts of itself: the scene, and where it is to be killed.
const KILLED: &str = "PALISADE_TEST_KILLED_AT";
/// How much is kept of what a command writes to its standard error.
const MAX_MESSAGE: u64 = 4096;

/// Runs what it is asked to on this machine.
pub(crate) struct Here;

impl CommandRunner for Here {
    fn run<'a>(
        &'a self,
        request: ExecRequest,
        input: &'a mut (dyn AsyncRead + Send + Unpin),
        output: &'a mut (dyn AsyncWrite + Send + Unpin),
        limits: TransferLimits,
    ) -> BoxFuture<'a, Result<CommandEnd, TransferError>> {
        Box::pin(async move {
            let words: Vec<&OsStr> = request.argv.iter().map(|word| OsStr::from_bytes(word)).collect();
            let variables = request.env.iter().map(|variable| {
                let at = variable.iter().position(|byte| *byte == b'=').unwrap();
                (OsString::from_vec(variable[..at].to_vec()), OsString::from_vec(variable[at + 1..].to_vec()))
            });
            let mut child = tokio::process::Command::new(words[0])
                .args(&words[1..])
                .env_clear()
                .envs(variables)
                .current_dir(OsStr::from_bytes(&request.cwd))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .map_err(|error| TransferError::Refused(error.to_string()))?;
            let (mut stdin, stdout, stderr) =
                (child.stdin.take().unwrap(), child.stdout.take().unwrap(), child.stderr.take().unwrap());
            let give = async {
                let _ = tokio::io::copy(input, &mut stdin).await;
                drop(stdin);
            };
            let take = async {
                let copied = tokio::io::copy(&mut stdout.take(limits.bytes + 1), output).await.unwrap();
                output.shutdown().await.unwrap();
                copied
            };
            let mut message = Vec::new();
            let mut stderr = stderr.take(MAX_MESSAGE);
            let exchange = async { tokio::join!(give, take, stderr.read_to_end(&mut message)) };
            let ((), copied, _) = tokio::time::timeout(limits.time.min(limits.silence), exchange)
                .await
                .map_err(|_| TransferError::Silent(limits.silence))?;
            if copied > limits.bytes {
                return Err(TransferError::TooMuch(limits.bytes));
            }
            let status = child.wait().await.unwrap();
            let message = String::from_utf8_lossy(&message).into_owned();
            Ok(CommandEnd { exit: Exit::Code(status.code().unwrap_or(1) as u8), message })
        })
    }
}

pub(crate) struct Scene {
    directory: PathBuf,
    /// Removes the directory at the end.
    pub(crate) owner: Option<tempfile::TempDir>,
    pub(crate) refs: SandboxRefs,
    /// Bytes that a sync may write.
    pub(crate) most: u64,
    pub(crate) limits: TransferLimits,
    /// The host's working tree.
    pub(crate) root: String,
    /// What runs commands inside.
    pub(crate) commands: Arc<dyn CommandRunner>,
    /// The host's git.
    program: PathBuf,
    /// The program in the place of our guest.
    guest: PathBuf,
    /// Where programs are looked for inside before anywhere else.
    inside_programs: Option<PathBuf>,
}

impl Scene {
    /// A repository on the host with one commit of `readme` and `code`, and an empty inside.
    pub(crate) fn new() -> Self {
        Self::of_format("sha1")
    }

    /// The same, with another hash.
    pub(crate) fn of_format(format: &str) -> Self {
        let owner = tempfile::tempdir().unwrap();
        let directory = owner.path().to_owned();
        let scene = Self { owner: Some(owner), ..Self::at(directory) };
        for name in ["host", "inside", "home", "inside-home"] {
            std::fs::create_dir(scene.path(name)).unwrap();
        }
        scene.host(&format!("git init --quiet --initial-branch=main --object-format={format} && git config user.name Ada && git config user.email ada@example.org"));
        scene.write("host/readme", "one\ntwo\nthree\n");
        scene.write("host/code", "1\n2\n3\n4\n5\n");
        scene.host("git add -A && git commit --quiet -m first");
        scene
    }

    /// One that is there already.
    pub(crate) fn at(directory: PathBuf) -> Self {
        let limits = TransferLimits {
            bytes: u64::MAX >> 1,
            silence: Duration::from_secs(60),
            time: Duration::from_secs(600),
        };
        Self {
            directory,
            owner: None,
            refs: SandboxRefs::new(SandboxId::from_random([7; 15]), SandboxName::new("box").unwrap()),
            most: u64::MAX,
            limits,
            root: "host".into(),
            commands: Arc::new(Here),
            program: "git".into(),
            guest: palisade_testing::guest_binary(),
            inside_programs: None,
        }
    }

    /// Syncs in a process of its own, which is killed: right before host git runs a command with `point` in its words, or
    /// at the step of that name. `test` is the test that calls this, which begins with [`Scene::is_killed_here`].
    pub(crate) fn sync_killed_at(&self, test: &str, point: &str) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", test, "--nocapture"])
            .env(KILLED, format!("{}\n{point}", self.directory.display()));
        let output = command.output().unwrap();
        let killed = std::os::unix::process::ExitStatusExt::signal(&output.status) == Some(9);
        assert!(killed, "{point}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// In the process that is to be killed, does what kills it.
    pub(crate) async fn is_killed_here() {
        let Ok(order) = std::env::var(KILLED) else { return };
        let (directory, point) = order.split_once('\n').unwrap();
        let mut scene = Self::at(directory.into());
        if palisade_host::fault::Step::ALL.iter().any(|step| step.name() == point) {
            palisade_host::fault::arm(&format!("kill:{point}@{}", scene.path("killed").display()));
        } else {
            scene.interrupt(point, "kill -9 $PARENT");
        }
        let _ = std::fs::remove_file(scene.path("killed"));
        let synced = scene.sync_with(|_| {}).await;
        panic!("it was not killed at {point}: {synced:?}");
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.directory.join(relative)
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
        let home = self.path("inside-home").display().to_string();
        self.shell(&self.path("inside"), "inside", &format!("export HOME='{home}'; {script}"))
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
        let entries = std::fs::read_dir(&self.directory).unwrap().flatten();
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
        self.host("git fsck --strict --no-dangling 2>&1 && git for-each-ref --format='%(refname)'")
    }

    /// From now on the sandbox is another one of the same name.
    pub(crate) fn replace_sandbox(&mut self) {
        self.refs = SandboxRefs::new(SandboxId::from_random([8; 15]), self.refs.name().clone());
    }

    pub(crate) fn archive_ref(&self, number: u64) -> String {
        self.refs.archive(number)
    }

    fn root(&self) -> HostPath {
        HostPath::new(self.path(&self.root).canonicalize().unwrap()).unwrap()
    }

    pub(crate) fn git(&self) -> Git {
        Git::new(&self.program, self.environment())
    }

    /// Writes a program of the shell's.
    fn script(&self, name: &str, text: &str) -> PathBuf {
        self.write(name, &format!("#!/bin/sh\n{text}\n"));
        let path = self.path(name);
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    /// Once, right before the host's git runs a command with this in its words, the user does something: `script`, in
    /// the host's working tree.
    pub(crate) fn interrupt(&mut self, command: &str, script: &str) {
        let done = self.path("interrupted");
        let _ = std::fs::remove_file(&done);
        let act =
            self.script("home/interrupt", &format!("set -e; cd {}; {script}", self.path("host").display()));
        let (act, done) = (act.display(), done.display());
        let text = format!(
            "case \"$*\" in *'{command}'*) [ -e {done} ] || {{ touch {done}; \
             env -i PARENT=$PPID PATH=\"$PATH\" HOME=\"$HOME\" GIT_CONFIG_NOSYSTEM=1 SIDE=host {act} >&2 </dev/null; }};; esac
             exec git \"$@\""
        );
        self.program = self.script("home/git", &text);
    }

    /// In the place of the host's git, this comes first.
    pub(crate) fn replace_host_git(&mut self, script: &str) {
        self.program = self.script("home/git", &format!("{script}\nexec git \"$@\""));
    }

    /// Whether the interruption has happened.
    pub(crate) fn was_interrupted(&self) -> bool {
        self.exists("interrupted")
    }

    /// Inside, this takes the place of our guest for the named command; the rest is done as always.
    pub(crate) fn replace_guest(&mut self, command: &str, script: &str) {
        let guest = palisade_testing::guest_binary();
        let text = format!("case \"$2\" in {command}) {script};; esac; exec {} \"$@\"", guest.display());
        self.guest = self.script("inside-home/guest", &text);
    }

    /// The guest's answer to a survey is these words.
    pub(crate) fn forge_survey(&mut self, words: &[&str]) {
        let answer: String = words.iter().map(|word| format!("{word}\0")).collect();
        self.write("inside-home/survey", &answer);
        self.replace_guest("survey", &format!("exec cat {}", self.path("inside-home/survey").display()));
    }

    /// The guest's answer to a survey is the true one, and these words.
    pub(crate) fn add_to_survey(&mut self, words: &[&str]) {
        let answer: String = words.iter().map(|word| format!("{word}\0")).collect();
        self.write("inside-home/survey", &answer);
        let (guest, more) = (palisade_testing::guest_binary(), self.path("inside-home/survey"));
        let script = format!("{} \"$@\" && exec cat {}", guest.display(), more.display());
        self.replace_guest("survey", &script);
    }

    /// Inside, this takes the place of a command of git's; the rest is done as always.
    pub(crate) fn replace_inside_git(&mut self, command: &str, script: &str) {
        let path = std::env::var_os("PATH").unwrap();
        let git =
            std::env::split_paths(&path).map(|directory| directory.join("git")).find(|git| git.exists());
        let git = git.unwrap().display().to_string();
        let text = format!(
            "git() {{ {git} \"$@\"; }}; case \"$1\" in {command}) {script};; esac; exec {git} \"$@\""
        );
        self.script("inside-home/bin/git", &text);
        self.inside_programs = Some(self.path("inside-home/bin"));
    }

    /// Inside, everything is as it should be again.
    pub(crate) fn restore_inside(&mut self) {
        self.guest = palisade_testing::guest_binary();
        self.inside_programs = None;
    }

    /// The sandbox's workspace, as it is called inside.
    pub(crate) fn workspace(&self) -> String {
        self.path("inside").canonicalize().unwrap().display().to_string()
    }

    /// Does something with both sides.
    pub(crate) async fn exchange<T>(&self, act: impl AsyncFnOnce(&Exchange<'_>) -> T) -> T {
        let (git, root) = (self.git(), self.root());
        let variable =
            |(name, value): (OsString, OsString)| [name.as_bytes(), b"=", value.as_bytes()].concat();
        let path = std::env::var_os("PATH").unwrap();
        let programs = self.inside_programs.iter().cloned().chain(std::env::split_paths(&path));
        let environment = [
            ("PATH".into(), std::env::join_paths(programs).unwrap()),
            ("HOME".into(), self.path("inside-home").into()),
            ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
            ("SIDE".into(), "inside".into()),
        ];
        let environment = environment.map(variable).to_vec();
        let inside = self.workspace();
        let guest = self.guest.display().to_string();
        let sandbox = SandboxRepository::new(&*self.commands, environment, guest, inside, self.limits);
        act(&Exchange { git: &git, root: &root, refs: &self.refs, sandbox, agent: "shell" }).await
    }

    pub(crate) async fn start(&self) -> StartReport {
        self.start_with(|_| {}).await.unwrap()
    }

    /// A store of the host's commits, as it is for sandboxes that see it.
    pub(crate) async fn share(
        &self,
        scope: RefScope,
        growth: Growth,
        sandboxes: &[SandboxRefs],
    ) -> SharedObjects {
        let state = HostPath::new(self.path("state")).unwrap();
        let name = ObjectStoreName::new("one").unwrap();
        let store = LockedObjectStore::open_or_create(&state, &name).unwrap();
        let inside = store.directory().to_string();
        let request = SharedObjectsRequest { store: &store, scope, growth, inside: &inside, sandboxes };
        let host = HostTree::find(&self.git(), &self.root()).await.unwrap();
        host.write_shared_objects(&request, |_| {}).await.unwrap()
    }

    pub(crate) async fn start_with(
        &self,
        change: impl FnOnce(&mut StartOptions),
    ) -> Result<StartReport, ExchangeError> {
        let mut options = StartOptions {
            scope: RefScope::All,
            on_uncommitted: OnUncommitted::Refuse,
            on_unapplied: OnUnapplied::Continue,
            is_busy: false,
            sent_apart: Vec::new(),
            shared: None,
        };
        change(&mut options);
        self.exchange(async |exchange| exchange.start(&options, |_| {}).await).await
    }

    pub(crate) async fn sync(&self) -> Synced {
        self.sync_with(|_| {}).await.unwrap()
    }

    pub(crate) async fn merge(&self) -> Synced {
        self.sync_with(|options| options.merge = MergeMode::Merge).await.unwrap()
    }

    pub(crate) async fn sync_with(
        &self,
        change: impl FnOnce(&mut SyncOptions),
    ) -> Result<Synced, ExchangeError> {
        let mut options = SyncOptions {
            selection: BranchSelection::Main,
            merge: MergeMode::Wait,
            tags: TagMode::List,
            only: Vec::new(),
            max_bytes: self.most,
        };
        change(&mut options);
        self.exchange(async |exchange| exchange.sync(&options).await).await.map(Synced)
    }

    pub(crate) async fn archive(&self) -> ArchiveReport {
        self.exchange(async |exchange| exchange.archive(ArchiveReason::Stop).await).await.unwrap()
    }

    pub(crate) async fn unapplied(&self) -> Synced {
        let report = self.exchange(async |exchange| exchange.unapplied(ArchiveReason::Remove).await).await;
        Synced(report.unwrap())
    }
}

/// What a sync did, for short questions.
#[derive(Debug)]
pub(crate) struct Synced(pub(crate) ExchangeReport);

impl Synced {
    pub(crate) fn branch(&self, name: &str) -> Option<&BranchReport> {
        self.0.sync.branches.iter().find(|report| report.name.as_str() == name)
    }

    /// What became of the commits on `main`.
    pub(crate) fn commits(&self) -> CommitsOutcome {
        self.branch("main").map_or(CommitsOutcome::Nothing, |report| report.commits.clone())
    }

    #[track_caller]
    pub(crate) fn waiting(&self) -> WaitingCommits {
        match self.commits() {
            CommitsOutcome::Waiting(waiting) => waiting,
            other => panic!("nothing waits: {other:?}"),
        }
    }

    /// What became of the files of the main working tree.
    #[track_caller]
    pub(crate) fn files(&self) -> TreeReport {
        match self.0.sync.trees.first().map(|tree| &tree.files) {
            Some(FilesOutcome::Applied { report, .. }) => report.clone(),
            None => TreeReport::default(),
            Some(other) => panic!("the files wait: {other:?}"),
        }
    }

    pub(crate) fn written(&self) -> Vec<PathBuf> {
        self.files().written
    }

    pub(crate) fn is_nothing(&self) -> bool {
        !self.0.sync.has_unapplied_work() && self.0.archived.archive().is_none()
    }
}

pub(crate) fn branch(name: &str) -> BranchName {
    BranchName::new(name).unwrap()
}

pub(crate) fn paths(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(PathBuf::from).collect()
}
