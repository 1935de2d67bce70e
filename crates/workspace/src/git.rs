//! Host git as a program: found where the surface says, in an environment that names no other repository, always
//! guarded, with a limit on its time. What it prints is data here, never shown as it is.

use crate::answers::Answers;
use crate::guard;
use crate::object_reader::ObjectReader;
use crate::object_writer::ObjectFormat;
use crate::version::GitVersion;
use palisade_core::{HostPath, printable, printable_lines};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

/// What local work may take, on the largest repository.
const LOCAL: Duration = Duration::from_secs(120);
/// More than git has to say about any change worth looking at: a tree of few objects can name a file a thousand
/// million times, and whoever lists it would have no memory left.
const ANSWER: usize = 64 << 20;
/// How much of git's words is kept for an error.
const SAID: usize = 4096;
/// What git gets to put its locks away before it is killed.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git could not be started ({program}): {source}", program = .program.display())]
    NotStarted { program: PathBuf, source: std::io::Error },
    #[error("git {found} is too old: version {} or later is needed", GitVersion::OLDEST)]
    Old { found: GitVersion },
    #[error("git {what} failed: {said}")]
    Failed { what: String, status: ExitStatus, said: String },
    #[error("git {what} took longer than {} s and was ended", .limit.as_secs())]
    Slow { what: String, limit: Duration },
    #[error("git {what} has more to tell than can be looked at: the work has too many files")]
    TooMuch { what: String },
    #[error(
        "the work has {bytes} bytes of files, more than the {most} that are allowed; raise agent.max_fetch if that is right"
    )]
    TooLarge { bytes: u64, most: u64 },
    #[error("the work needs {bytes} bytes, and the disk has {free}")]
    NoRoom { bytes: u64, free: u64 },
    #[error("git {what}: {source}")]
    Io { what: String, source: std::io::Error },
    #[error("another git process works in this repository: {} exists", .lock.display())]
    IndexLocked { lock: PathBuf },
    #[error("git {what} answered what it should not: {answer}")]
    Answer { what: String, answer: String },
}

/// The git program, and the environment its processes get.
#[derive(Debug, Clone)]
pub struct Git {
    program: PathBuf,
    environment: Vec<(OsString, OsString)>,
}

impl Git {
    /// `environment` is the user's own; whatever in it points git at a repository or a configuration is left out.
    pub fn new(
        program: impl Into<PathBuf>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Self {
        let mut environment: Vec<_> = environment.into_iter().filter(|(name, _)| !redirects(name)).collect();
        for (name, value) in [
            ("LC_ALL", "C"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_MERGE_AUTOEDIT", "no"),
        ] {
            environment.retain(|(known, _)| known != name);
            environment.push((name.into(), value.into()));
        }
        Self { program: program.into(), environment }
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Git for questions that are about no repository.
    pub(crate) fn anywhere(&self) -> Result<Repository, GitError> {
        let directory = HostPath::new("/").map_err(|error| GitError::Io {
            what: "in the root directory".into(),
            source: std::io::Error::other(error),
        })?;
        Ok(self.unguarded(&directory))
    }

    /// Git in a directory of which nothing is known yet, unguarded: only for questions that run nothing.
    pub(crate) fn unguarded(&self, directory: &HostPath) -> Repository {
        Repository {
            git: self.clone(),
            directory: directory.clone(),
            settings: Vec::new(),
            identity: Identity::default(),
            places: Places::default(),
            included: Included::Nothing,
            file_modes: FileModes::Kept,
            loose_objects: None,
            has_loose_refs: false,
            answers: Answers::default(),
            reader: ObjectReader::default(),
        }
    }
}

/// The user's own variables that concern git's behaviour and not where it works.
fn redirects(name: &OsStr) -> bool {
    const KEPT: [&str; 8] = [
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_AUTHOR_DATE",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
        "GIT_COMMITTER_DATE",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_NOSYSTEM",
    ];
    name.as_encoded_bytes().starts_with(b"GIT_") && !KEPT.iter().any(|kept| name == *kept)
}

/// A place for git to work in. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Repository {
    git: Git,
    directory: HostPath,
    settings: Vec<(String, String)>,
    identity: Identity,
    places: Places,
    included: Included,
    file_modes: FileModes,
    loose_objects: Option<ObjectFormat>,
    has_loose_refs: bool,
    answers: Answers,
    reader: ObjectReader,
}

/// Whether the configuration takes in other files, which may lie in the working tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Included {
    Nothing,
    Files,
}

/// Whether the working tree's file system keeps which files can be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileModes {
    Kept,
    /// `core.fileMode` is off: a file is what the index says.
    Ignored,
}

/// Who commits. Empty when git has no opinion, and then the sandbox's own default stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    pub name: String,
    pub email: String,
}

/// Where git keeps what belongs to this working tree, and what all working trees of the repository share.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Places {
    pub(crate) own: PathBuf,
    pub(crate) common: PathBuf,
}

impl Repository {
    pub fn directory(&self) -> &HostPath {
        &self.directory
    }

    /// With what its configuration would run turned off. `listing` is that configuration, as `git config --list -z`
    /// tells it.
    pub(crate) fn guarded(self, listing: &[u8], places: Places) -> Self {
        let listing = String::from_utf8_lossy(listing);
        let entries = listing.split('\0').filter(|entry| !entry.is_empty());
        let entries = entries.map(|entry| entry.split_once('\n').unwrap_or((entry, "")));
        let last = |wanted: &str| {
            let mut values = entries.clone().filter(|(name, _)| *name == wanted);
            values.next_back().map(|(_, value)| value.to_owned()).unwrap_or_default()
        };
        let includes = |(name, _): (&str, &str)| name.to_ascii_lowercase().starts_with("include");
        let included = if entries.clone().any(includes) { Included::Files } else { Included::Nothing };
        let is_off =
            |value: &str| matches!(value.to_ascii_lowercase().as_str(), "false" | "no" | "off" | "0");
        let file_modes = if is_off(&last("core.filemode")) { FileModes::Ignored } else { FileModes::Kept };
        let is_shared = !matches!(last("core.sharedrepository").as_str(), "" | "umask" | "false" | "0");
        let loose_objects = match last("extensions.objectformat").as_str() {
            _ if is_shared => None,
            "" | "sha1" => Some(ObjectFormat::Sha1),
            "sha256" => Some(ObjectFormat::Sha256),
            _ => None,
        };
        Self {
            included,
            file_modes,
            loose_objects,
            has_loose_refs: loose_objects.is_some()
                && matches!(last("extensions.refstorage").as_str(), "" | "files"),
            identity: Identity { name: last("user.name"), email: last("user.email") },
            settings: guard::settings(entries.clone().map(|(name, _)| name)),
            places,
            ..self
        }
    }

    /// The same, guarded against the configuration as it is now: what the user includes in it may lie in the working
    /// tree, where a sandbox's work has just been laid.
    pub(crate) async fn guarded_again(&self) -> Result<Self, GitError> {
        match self.included {
            Included::Nothing => Ok(self.clone()),
            Included::Files => {
                let listing = self.git(["config", "--list", "-z"]).bytes().await?;
                Ok(self.clone().guarded(&listing, self.places.clone()))
            }
        }
    }

    /// The same, for another working tree of the repository, whose own files are in `administration`. Git is told both,
    /// and so does not believe what lies in the working tree.
    pub(crate) fn placed(&self, tree: &HostPath, administration: &Path) -> Self {
        let mut git = self.git.clone();
        git.environment.push(("GIT_DIR".into(), administration.into()));
        git.environment.push(("GIT_WORK_TREE".into(), tree.as_path().into()));
        let places = Places { own: administration.into(), ..self.places.clone() };
        Self { git, directory: tree.clone(), places, ..self.clone() }
    }

    /// The same, with the user's own way to remotes open. Only for what is the user's alone: nothing of a sandbox's may have
    /// a part in it.
    pub(crate) fn with_own_remotes(&self) -> Self {
        let settings = self.settings.iter().filter(|(name, _)| !guard::concerns_remotes(name));
        Self { settings: settings.cloned().collect(), ..self.clone() }
    }

    /// The program, for another repository.
    pub(crate) fn program(&self) -> Git {
        self.git.clone()
    }

    /// A bare repository of our own, with the same guard.
    pub(crate) fn bare(&self, path: &HostPath) -> Self {
        let mut git = self.git.clone();
        git.environment.push(("GIT_DIR".into(), path.as_path().into()));
        let places = Places { own: path.as_path().into(), common: path.as_path().into() };
        let (answers, reader) = (Answers::default(), ObjectReader::default());
        Self { git, directory: path.clone(), places, loose_objects: None, answers, reader, ..self.clone() }
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What git has answered of its objects.
    pub(crate) fn answers(&self) -> &Answers {
        &self.answers
    }

    /// The process that answers questions about objects.
    pub(crate) fn reader(&self) -> &ObjectReader {
        &self.reader
    }

    /// What all working trees of the repository share.
    pub fn common_directory(&self) -> &Path {
        &self.places.common
    }

    /// How an object can be written without git: `None` where that is not known, or where others of a group write, too.
    /// Whether a ref may be written as a file with the permissions that files usually have.
    pub(crate) fn has_loose_refs(&self) -> bool {
        self.has_loose_refs
    }

    pub(crate) fn loose_objects(&self) -> Option<ObjectFormat> {
        self.loose_objects
    }

    pub(crate) fn file_modes(&self) -> FileModes {
        self.file_modes
    }

    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    pub fn git<T: Into<OsString>>(&self, arguments: impl IntoIterator<Item = T>) -> Invocation<'_> {
        Invocation {
            repository: self,
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
            input: Vec::new(),
            limit: LOCAL,
            memory: None,
        }
    }
}

/// Where a run of git reads from and writes to besides what it was given: the other end of a transfer.
pub(crate) type Source<'a> = &'a mut (dyn AsyncRead + Send + Unpin);
pub(crate) type Sink<'a> = &'a mut (dyn AsyncWrite + Send + Unpin);

/// One run of git.
#[derive(Debug)]
#[must_use]
pub struct Invocation<'a> {
    repository: &'a Repository,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    input: Vec<u8>,
    limit: Duration,
    memory: Option<u64>,
}

impl<'a> Invocation<'a> {
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Works on another index than the repository's own.
    pub fn index(self, path: &Path) -> Self {
        self.env("GIT_INDEX_FILE", path)
    }

    /// Works on another working tree than the repository's own.
    pub(crate) fn at_tree(self, path: &Path) -> Self {
        let directory = self.repository.places.own.clone();
        self.env("GIT_DIR", directory).env("GIT_WORK_TREE", path)
    }

    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// Ends it when it has too much to tell: git lists the whole of a difference in memory before it says a word.
    pub(crate) fn modest(self) -> Self {
        self.env("GIT_ALLOC_LIMIT", "16m")
    }

    /// Ends it when it takes more memory than this, in all or at once.
    pub(crate) fn memory(self, bytes: u64) -> Self {
        let git = self.env("GIT_ALLOC_LIMIT", bytes.to_string());
        Self { memory: Some(bytes), ..git }
    }

    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// For one end of a transfer, whose other end has a limit.
    pub(crate) fn without_limit(self) -> Self {
        self.limit(Duration::from_secs(7 * 24 * 3600))
    }

    /// What it printed; a failure is an error.
    pub async fn bytes(self) -> Result<Vec<u8>, GitError> {
        let (status, output, said) = self.run(|_| {}).await?;
        if status.success() { Ok(output) } else { Err(self.failed(status, &said)) }
    }

    /// What it printed as text, without the newline at the end.
    pub async fn text(self) -> Result<String, GitError> {
        let what = self.what();
        let bytes = self.bytes().await?;
        match String::from_utf8(bytes) {
            Ok(text) => Ok(text.trim_end_matches('\n').to_owned()),
            Err(error) => {
                let answer = printable(&String::from_utf8_lossy(error.as_bytes()));
                Err(GitError::Answer { what, answer })
            }
        }
    }

    /// What it printed before it succeeded or failed, for questions that it answers one after the other.
    pub(crate) async fn answers(self) -> Result<Vec<u8>, GitError> {
        Ok(self.run(|_| {}).await?.1)
    }

    /// Whether it succeeded, for questions that git answers with its exit status: 0 for yes and 1 for no.
    pub async fn holds(self) -> Result<bool, GitError> {
        let (status, _, said) = self.run(|_| {}).await?;
        match status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(self.failed(status, &said)),
        }
    }

    /// Whether it succeeded, for commands whose every failure means no.
    pub async fn succeeds(self) -> Result<bool, GitError> {
        Ok(self.run(|_| {}).await?.0.success())
    }

    /// The words that it printed, each ended by a NUL, and whether it succeeded, for those that say no with 1.
    pub(crate) async fn words(self) -> Result<(bool, Vec<OsString>), GitError> {
        let (status, output, said) = self.run(|_| {}).await?;
        if !matches!(status.code(), Some(0 | 1)) {
            return Err(self.failed(status, &said));
        }
        let words = output.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        Ok((status.success(), words.map(|word| OsString::from_vec(word.to_vec())).collect()))
    }

    /// What it printed, and on the way each line of what it said, for progress.
    pub async fn watched(self, progress: impl FnMut(&str)) -> Result<Vec<u8>, GitError> {
        let (status, output, said) = self.run(progress).await?;
        if status.success() { Ok(output) } else { Err(self.failed(status, &said)) }
    }

    /// As [`Invocation::bytes`], with what comes from elsewhere behind its input.
    pub(crate) async fn fed_from(self, source: Source<'_>) -> Result<Vec<u8>, GitError> {
        let (status, output, said) = self.run_with(Some(source), None, |_| {}).await?;
        if status.success() { Ok(output) } else { Err(self.failed(status, &said)) }
    }

    /// As [`Invocation::watched`], with its output going elsewhere.
    pub(crate) async fn written_to(
        self,
        sink: Sink<'_>,
        progress: impl FnMut(&str) + Send,
    ) -> Result<(), GitError> {
        let (status, _, said) = self.run_with(None, Some(sink), progress).await?;
        if status.success() { Ok(()) } else { Err(self.failed(status, &said)) }
    }

    fn what(&self) -> String {
        let words = self.arguments.iter().take(2).map(|word| word.to_string_lossy());
        printable(&words.collect::<Vec<_>>().join(" "))
    }

    fn failed(&self, status: ExitStatus, said: &str) -> GitError {
        let what = self.what();
        match status.code() {
            Some(128) if said.contains(" over limit ") => GitError::TooMuch { what },
            _ => GitError::Failed { what, status, said: printable_lines(said) },
        }
    }

    /// Starts it, for a conversation. It is killed when the process is dropped.
    pub(crate) fn start(self) -> Result<Child, GitError> {
        let program = &self.repository.git.program;
        let not_started = |source| GitError::NotStarted { program: program.clone(), source };
        self.command().stderr(Stdio::null()).spawn().map_err(not_started)
    }

    fn spawn(&self) -> Result<Child, GitError> {
        let not_started =
            |source| GitError::NotStarted { program: self.repository.git.program.clone(), source };
        let child = self.command().spawn().map_err(not_started)?;
        if let Some(bytes) = self.memory {
            // Before it has any input.
            limit_memory(&child, bytes).map_err(not_started)?;
        }
        Ok(child)
    }

    async fn run(&self, progress: impl FnMut(&str)) -> Result<(ExitStatus, Vec<u8>, String), GitError> {
        self.run_with(None, None, progress).await
    }

    async fn run_with(
        &self,
        source: Option<Source<'_>>,
        sink: Option<Sink<'_>>,
        progress: impl FnMut(&str),
    ) -> Result<(ExitStatus, Vec<u8>, String), GitError> {
        let mut child = self.spawn()?;
        let exchange = exchange(&mut child, &self.input, source, sink, progress);
        let ended = tokio::time::timeout(self.limit, exchange).await;
        if let Ok(Ok(ended)) = ended {
            return Ok(ended);
        }
        end(&mut child).await;
        let what = self.what();
        Err(match ended {
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::FileTooLarge => GitError::TooMuch { what },
            Ok(Err(source)) => GitError::Io { what, source },
            _ => GitError::Slow { what, limit: self.limit },
        })
    }

    fn command(&self) -> Command {
        let repository = self.repository;
        let mut command = Command::new(&repository.git.program);
        command
            .args(&self.arguments)
            .current_dir(&repository.directory)
            .env_clear()
            .envs(repository.git.environment.iter().map(|(name, value)| (name, value)))
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("GIT_CONFIG_COUNT", repository.settings.len().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Its helpers too end with it.
            .process_group(0)
            .kill_on_drop(true);
        for (index, (name, value)) in repository.settings.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{index}"), name);
            command.env(format!("GIT_CONFIG_VALUE_{index}"), value);
        }
        command
    }
}

/// Limits what a process may have in memory of its own; files that it reads do not count. Other systems than Linux have
/// no such limit for another process, and git's own one is all there is.
fn limit_memory(child: &Child, bytes: u64) -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    if let Some(process) = child.id().and_then(|id| rustix::process::Pid::from_raw(id as i32)) {
        use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
        // What is lower already stays so.
        let bytes = getrlimit(Resource::Data).maximum.map_or(bytes, |most| most.min(bytes));
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        prlimit(Some(process), Resource::Data, limit)?;
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (child, bytes);
    Ok(())
}

/// Ends git and its helpers: asked to, it takes its lock files with it.
async fn end(child: &mut Child) {
    use rustix::process::{Pid, Signal, kill_process_group};
    let group = child.id().and_then(|id| Pid::from_raw(id as i32));
    let signal = |signal| group.map(|group| kill_process_group(group, signal));
    let _ = signal(Signal::TERM);
    if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
        let _ = signal(Signal::KILL);
        let _ = child.wait().await;
    }
}

async fn exchange(
    child: &mut Child,
    input: &[u8],
    source: Option<Source<'_>>,
    sink: Option<Sink<'_>>,
    mut progress: impl FnMut(&str),
) -> std::io::Result<(ExitStatus, Vec<u8>, String)> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let give = async {
        if let Some(mut stdin) = stdin {
            // A program that does not want all of its input says why with its exit status.
            if stdin.write_all(input).await.is_ok()
                && let Some(source) = source
            {
                let _ = tokio::io::copy(source, &mut stdin).await;
            }
        }
        Ok(())
    };
    let take = async {
        let mut output = Vec::new();
        match (stdout, sink) {
            (Some(mut stdout), Some(sink)) => {
                tokio::io::copy(&mut stdout, sink).await?;
                sink.shutdown().await?;
            }
            (Some(stdout), None) => {
                stdout.take(ANSWER as u64 + 1).read_to_end(&mut output).await?;
            }
            (None, _) => {}
        }
        if output.len() > ANSWER {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        Ok(output)
    };
    let listen = async {
        let mut said = String::new();
        if let Some(stderr) = stderr {
            let mut stderr = BufReader::new(stderr);
            let mut line = Vec::new();
            // Progress is told on one line again and again, with a carriage return at the end.
            while read_piece(&mut stderr, &mut line).await? {
                let text = String::from_utf8_lossy(&line);
                progress(text.trim_end());
                if !text.ends_with('\r') && said.len() < SAID {
                    said.push_str(&text);
                }
                line.clear();
            }
        }
        Ok::<_, std::io::Error>(said)
    };
    let ((), output, said) = tokio::try_join!(give, take, listen)?;
    Ok((child.wait().await?, output, said))
}

/// Up to and with the next newline or carriage return; false at the end.
async fn read_piece(from: &mut (impl AsyncBufReadExt + Unpin), into: &mut Vec<u8>) -> std::io::Result<bool> {
    loop {
        let available = from.fill_buf().await?;
        if available.is_empty() {
            return Ok(!into.is_empty());
        }
        let end = available.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let count = end.map_or(available.len(), |at| at + 1);
        into.extend_from_slice(&available[..count]);
        from.consume(count);
        if end.is_some() || into.len() > SAID {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_environment_points_git_nowhere_else() {
        let given = [
            "GIT_DIR",
            "GIT_INDEX_FILE",
            "GIT_SSH_COMMAND",
            "GIT_CONFIG_COUNT",
            "GIT_AUTHOR_NAME",
            "PATH",
            "LC_ALL",
        ];
        let git = Git::new("git", given.map(|name| (name.into(), "x".into())));
        let names: Vec<_> = git.environment.iter().map(|(name, _)| name.to_string_lossy()).collect();
        assert_eq!(
            names,
            [
                "GIT_AUTHOR_NAME",
                "PATH",
                "LC_ALL",
                "GIT_TERMINAL_PROMPT",
                "GIT_NO_LAZY_FETCH",
                "GIT_MERGE_AUTOEDIT"
            ]
        );
    }

    #[tokio::test]
    async fn progress_is_told_piece_by_piece() {
        let mut from: &[u8] = b"Writing: 1%\rWriting: 100%\rdone\nlast";
        let mut pieces = Vec::new();
        let mut piece = Vec::new();
        while read_piece(&mut from, &mut piece).await.unwrap() {
            pieces.push(String::from_utf8(std::mem::take(&mut piece)).unwrap());
        }
        assert_eq!(pieces, ["Writing: 1%\r", "Writing: 100%\r", "done\n", "last"]);
    }
}
