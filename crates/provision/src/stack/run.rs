//! Starting Compose and hearing it out.
//!
//! It runs in a process group of its own, which ends as a whole: with the caller that drops the call, and with this
//! program however that ends. Docker's own program starts Compose as another process, which outlives a signal to the
//! first.

use super::{Rendered, Stack, StackError};
use crate::child::{Group, bounded};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};

/// A rendered file of a hundred services is some hundred kilobytes; this bounds what a repository can make us read.
const MOST_ANSWER: u64 = 64 << 20;
/// A line that is longer is shown in pieces.
const LONGEST_LINE: usize = 16 * 1024;
/// What Compose calls it where a file is named.
const STANDARD_INPUT: &str = "-";

/// One call of Compose, ready to start.
pub(super) struct Compose<'a> {
    stack: &'a Stack,
    command: Command,
    /// What it reads from its standard input.
    input: Option<Vec<u8>>,
}

pub(super) struct Ended {
    status: ExitStatus,
    answer: Vec<u8>,
    complaint: String,
}

impl<'a> Compose<'a> {
    /// With the project's files, and without anything meant for a terminal in what it says.
    pub(super) fn of(stack: &'a Stack, arguments: &[&str]) -> Self {
        let mut words: Vec<&std::ffi::OsStr> = Vec::new();
        let services = match stack.rendered {
            Some(_) => STANDARD_INPUT.as_ref(),
            None => stack.compose_file.as_path().as_os_str(),
        };
        let overriding = stack.override_file.as_ref().map(|file| file.as_path().as_os_str());
        for file in std::iter::once(services).chain(overriding) {
            words.extend(["--file".as_ref(), file]);
        }
        for file in &stack.env_files {
            words.extend(["--env-file".as_ref(), file.as_path().as_os_str()]);
        }
        // Without any, Compose would read `.env` of the worktree, by which the repository steers Compose itself.
        if stack.env_files.is_empty() {
            words.extend(["--env-file".as_ref(), "/dev/null".as_ref()] as [&std::ffi::OsStr; 2]);
        }
        words.extend(["--project-directory".as_ref(), stack.worktree.as_path().as_os_str()]);
        words.extend(["--project-name".as_ref(), std::ffi::OsStr::new(&stack.project)]);
        words.extend(["--progress", "plain", "--ansi", "never"].map(std::ffi::OsStr::new));
        let mut compose = Self::bare(stack, &[]);
        compose.command.args(words).args(arguments);
        // Whatever it starts finds nothing of the repository's by a relative path. `${PWD}` is what it is by hand.
        compose.command.current_dir("/").env("PWD", stack.worktree.as_path());
        compose.input = stack.rendered.clone().map(Rendered::into_bytes);
        compose
    }

    /// By the project's name alone: what was started is looked at, stopped and removed whatever became of its files.
    pub(super) fn by_name(stack: &'a Stack, arguments: &[&str]) -> Self {
        let mut compose = Self::bare(stack, &[]);
        compose.command.args(["--project-name", &stack.project, "--progress", "plain", "--ansi", "never"]);
        // In a worktree Compose would find the files after all.
        compose.command.args(arguments).current_dir("/");
        compose
    }

    /// Without the project's files, for questions about Compose itself.
    pub(super) fn bare(stack: &'a Stack, arguments: &[&str]) -> Self {
        let words: Vec<&str> = std::iter::once("compose").chain(arguments.iter().copied()).collect();
        Self::engine(stack, &words)
    }

    /// Docker's own program, for what Compose does not tell.
    pub(super) fn engine(stack: &'a Stack, arguments: &[&str]) -> Self {
        let mut command = Command::new(&stack.docker);
        command.args(arguments);
        command.env_clear().envs(stack.environment.variables());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true).process_group(0);
        ends_with_us(&mut command);
        Self { stack, command, input: None }
    }

    /// A variable for this call alone, which wins over the env files.
    pub(super) fn variable(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// The whole answer, once it has ended.
    pub(super) async fn answer(self, patience: Duration) -> Result<Ended, StackError> {
        let stack = self.stack;
        let (mut child, mut group) = self.spawn()?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let heard = async {
            let (answer, complaint) = tokio::join!(bounded(stdout, MOST_ANSWER), bounded(stderr, 1 << 20));
            (child.wait().await, answer, complaint)
        };
        let (status, answer, complaint) = tokio::time::timeout(patience, heard)
            .await
            .map_err(|_| StackError::TimedOut { what: "wait for Docker Compose", patience })?;
        group.is_over();
        let status = status.map_err(|error| StackError::not_started(&stack.docker, &error))?;
        let complaint = stack.redactor.text(&String::from_utf8_lossy(&complaint));
        Ok(Ended { status, answer, complaint })
    }

    /// Line by line, both outputs as one. With `silence`, gives up when nothing was said for so long.
    pub(super) async fn follow(
        self,
        silence: Option<Duration>,
        mut line: impl FnMut(&str),
    ) -> Result<Ended, StackError> {
        let stack = self.stack;
        let (mut child, mut group) = self.spawn()?;
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(StackError::Unreadable { reason: "its output was not connected".into() });
        };
        let (mut out, mut err) = (Lines::of(stdout), Lines::of(stderr));
        while !(out.ended && err.ended) {
            let next = async {
                tokio::select! {
                    next = out.next(), if !out.ended => next,
                    next = err.next(), if !err.ended => next,
                }
            };
            let next = match silence {
                None => next.await,
                Some(patience) => tokio::time::timeout(patience, next)
                    .await
                    .map_err(|_| StackError::TimedOut { what: "wait for Docker Compose", patience })?,
            };
            if let Some(bytes) = next {
                line(&String::from_utf8_lossy(&bytes));
            }
        }
        let status = child.wait().await.map_err(|error| StackError::not_started(&stack.docker, &error))?;
        group.is_over();
        Ok(Ended { status, answer: Vec::new(), complaint: String::new() })
    }

    fn spawn(mut self) -> Result<(Child, Group), StackError> {
        if self.input.is_some() {
            self.command.stdin(Stdio::piped());
        }
        match self.command.spawn() {
            Ok(mut child) => {
                let group = Group::of(&child);
                if let (Some(input), Some(mut pipe)) = (self.input, child.stdin.take()) {
                    // Beside the reading, since it may be more than a pipe holds. Whoever does not read it has said why.
                    tokio::spawn(async move { pipe.write_all(&input).await });
                }
                Ok((child, group))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(StackError::DockerMissing { docker: PathBuf::from(&self.stack.docker) })
            }
            Err(error) => Err(StackError::not_started(&self.stack.docker, &error)),
        }
    }
}

impl Ended {
    pub(super) fn succeeded(&self) -> bool {
        self.status.success()
    }

    /// The answer, or why there is none.
    pub(super) fn success(self, what: &'static str) -> Result<Vec<u8>, StackError> {
        if self.succeeded() {
            return Ok(self.answer);
        }
        let lines: Vec<String> = self.complaint.lines().map(palisade_core::printable).collect();
        Err(StackError::of_output(what, &lines))
    }
}

/// Has the kernel end the program when this one is gone, so that no orphan goes on building what nobody waits for.
#[cfg(target_os = "linux")]
fn ends_with_us(command: &mut Command) {
    let parent = rustix::process::getpid();
    let hook = move || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // It may have gone before the kernel was told.
        if rustix::process::getppid() != Some(parent) {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        Ok(())
    };
    // SAFETY: between fork and exec the hook makes two system calls and neither allocates nor takes a lock.
    #[allow(unsafe_code, reason = "the kernel is told of the parent by the child itself")]
    unsafe {
        command.pre_exec(hook);
    }
}

#[cfg(not(target_os = "linux"))]
fn ends_with_us(_command: &mut Command) {}

/// A pipe by its lines. Dropping `next` loses nothing: what was read stays.
struct Lines<R> {
    pipe: BufReader<R>,
    line: Vec<u8>,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    fn of(pipe: R) -> Self {
        Self { pipe: BufReader::new(pipe), line: Vec::new(), ended: false }
    }

    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let read = match self.pipe.fill_buf().await {
                Ok(bytes) if !bytes.is_empty() => bytes,
                Ok(_) | Err(_) => {
                    self.ended = true;
                    return (!self.line.is_empty()).then(|| std::mem::take(&mut self.line));
                }
            };
            let end = read.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(read.len(), |end| end + 1);
            self.line.extend_from_slice(&read[..taken]);
            self.pipe.consume(taken);
            if end.is_some() || self.line.len() >= LONGEST_LINE {
                return Some(std::mem::take(&mut self.line));
            }
        }
    }
}
