//! A program to be run again and again: nothing of the caller's environment but what is given, no input, no output.

use crate::comparison::Result;
use crate::failure::Failure;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Far more than any run takes.
const PATIENCE: Duration = Duration::from_secs(180);

#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: PathBuf,
}

impl Program {
    pub fn new(path: impl Into<PathBuf>, directory: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            directory: directory.into(),
        }
    }

    #[must_use]
    pub fn args<T: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = T>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// In another directory.
    #[must_use]
    pub fn at(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = directory.into();
        self
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command
            .args(&self.arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Runs it once, untimed; what it says is kept for the error.
    pub fn check(&self) -> Result<()> {
        let output = self.command().stderr(Stdio::piped()).output().map_err(self.not_started())?;
        if output.status.success() {
            return Ok(());
        }
        Err(self.ended(output.status, String::from_utf8_lossy(&output.stderr).trim()))
    }

    /// Runs it once, untimed; what it printed.
    pub fn output(&self) -> Result<String> {
        let output = self.command().stdout(Stdio::piped()).stderr(Stdio::piped()).output();
        let output = output.map_err(self.not_started())?;
        if !output.status.success() {
            return Err(self.ended(output.status, String::from_utf8_lossy(&output.stderr).trim()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs it once; how long that took, in milliseconds.
    pub fn time(&self) -> Result<f64> {
        let mut command = self.command();
        let begin = Instant::now();
        let child = command.spawn().map_err(self.not_started())?;
        let status = self.end(child, PATIENCE)?;
        let took = begin.elapsed();
        if !status.success() {
            return Err(self.ended(status, ""));
        }
        Ok(took.as_secs_f64() * 1000.0)
    }

    /// Runs it once and reads its output; how many bytes there were, and how long it took in milliseconds.
    pub fn drain(&self) -> Result<(u64, f64)> {
        let mut command = self.command();
        command.stdout(Stdio::piped());
        let mut buffer = vec![0u8; 1 << 20];
        let begin = Instant::now();
        let mut child = command.spawn().map_err(self.not_started())?;
        let mut bytes = 0;
        if let Some(mut output) = child.stdout.take() {
            while let count @ 1.. =
                output.read(&mut buffer).map_err(Failure::io(format!("read from {self}")))?
            {
                bytes += count as u64;
            }
        }
        let status = self.end(child, PATIENCE)?;
        let took = begin.elapsed();
        if !status.success() {
            return Err(self.ended(status, ""));
        }
        Ok((bytes, took.as_secs_f64() * 1000.0))
    }

    /// Waits for the end of a process of this program, and ends one that hangs.
    pub fn end(&self, mut child: Child, patience: Duration) -> Result<ExitStatus> {
        let failed = |source: std::io::Error| Failure::Io { what: format!("wait for {self}"), source };
        if !ends_within(&child, patience).map_err(failed)? {
            child.kill().and_then(|()| child.wait()).map_err(failed)?;
            return Err(Failure::Hangs { command: self.to_string(), patience });
        }
        child.wait().map_err(failed)
    }

    fn not_started(&self) -> impl FnOnce(std::io::Error) -> Failure {
        Failure::io(format!("start {self}"))
    }

    fn ended(&self, status: ExitStatus, said: &str) -> Failure {
        Failure::Ended { command: self.to_string(), how: status.to_string(), said: said.into() }
    }
}

impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.path.display())?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {}", argument.to_string_lossy()))
    }
}

/// Whether a child of ours ends in time; it is not reaped.
pub(crate) fn ends_within(child: &Child, patience: Duration) -> std::io::Result<bool> {
    let Some(pid) = Pid::from_raw(child.id() as i32) else { return Ok(true) };
    let descriptor = pidfd_open(pid, PidfdFlags::empty())?;
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&left)) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result? > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Program {
        Program::new("/bin/sh", "/").args(["-c", script])
    }

    #[test]
    fn only_the_given_environment_is_there() {
        shell(r#"[ "$GIVEN" = yes ] && [ -z "$HOME" ]"#).env("GIVEN", "yes").check().unwrap();
    }

    #[test]
    fn a_failing_program_is_an_error_and_tells_why() {
        let error = shell("echo no luck >&2; exit 3").check().unwrap_err().to_string();
        assert_eq!(error, "`/bin/sh -c echo no luck >&2; exit 3` ended with exit status: 3: no luck");
        assert!(matches!(shell("exit 3").time(), Err(Failure::Ended { .. })));
    }

    #[test]
    fn what_a_program_gives_is_counted() {
        assert_eq!(shell("printf four").drain().unwrap().0, 4);
        assert!(matches!(shell("printf four; exit 3").drain(), Err(Failure::Ended { .. })));
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let program = shell("exec sleep 1000");
        let child = program.command().spawn().unwrap();
        let result = program.end(child, Duration::from_millis(10));
        assert!(matches!(result, Err(Failure::Hangs { .. })));
    }
}
