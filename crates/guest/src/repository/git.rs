//! The sandbox's git as a program.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The most that is read of one answer.
const MAX_ANSWER: u64 = 512 << 20;
/// The most that is kept of what git says when it fails.
const MAX_MESSAGE: u64 = 16 << 10;

/// Settings that keep a look at a repository from changing anything besides.
const SETTINGS: [&str; 12] = [
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "core.fsync=none",
    "-c",
    "core.safecrlf=false",
];

/// A failed run of git.
#[derive(Debug)]
pub(crate) struct GitFailure {
    what: String,
    pub(crate) message: String,
}

impl GitFailure {
    pub(crate) fn new(what: &str, message: String) -> Self {
        Self { what: what.into(), message }
    }
}

impl fmt::Display for GitFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "git {}: {}", self.what, self.message.trim_end())
    }
}

/// What git printed, on its output and beside it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) output: Vec<u8>,
    pub(crate) warnings: String,
}

/// Git in one working tree.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    directory: PathBuf,
    index: Option<PathBuf>,
}

impl Git {
    pub(crate) fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), index: None }
    }

    /// The same working tree with another index file.
    pub(crate) fn with_index(&self, index: &Path) -> Self {
        Self { index: Some(index.to_owned()), ..self.clone() }
    }

    pub(crate) fn command<T: AsRef<OsStr>>(&self, arguments: &[T]) -> Command {
        let mut command = Command::new("git");
        command.args(SETTINGS).args(arguments).current_dir(&self.directory);
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"GIT_") {
                command.env_remove(name);
            }
        }
        command.env("LC_ALL", "C").env("GIT_OPTIONAL_LOCKS", "0").env("GIT_NO_LAZY_FETCH", "1");
        command.env("GIT_TERMINAL_PROMPT", "0");
        if let Some(index) = &self.index {
            command.env("GIT_INDEX_FILE", index);
        }
        command
    }

    /// What git prints; a failure is an error.
    pub(crate) fn run<T: AsRef<OsStr>>(&self, arguments: &[T]) -> Result<Answer, GitFailure> {
        self.feed(arguments, &[])
    }

    /// As [`Git::run`], with something on git's input.
    pub(crate) fn feed<T: AsRef<OsStr>>(&self, arguments: &[T], input: &[u8]) -> Result<Answer, GitFailure> {
        self.feed_command(self.command(arguments), arguments, input)
    }

    /// As [`Git::feed`], for a command that was prepared with more than arguments.
    pub(crate) fn feed_command<T: AsRef<OsStr>>(
        &self,
        command: Command,
        arguments: &[T],
        input: &[u8],
    ) -> Result<Answer, GitFailure> {
        let what = || {
            let words: Vec<OsString> =
                arguments.iter().take(2).map(|word| word.as_ref().to_owned()).collect();
            words.join(OsStr::new(" ")).to_string_lossy().into_owned()
        };
        let ended = exchange(command, input)
            .map_err(|error| GitFailure { what: what(), message: error.to_string() })?;
        let (success, output, warnings) = ended;
        if success {
            Ok(Answer { output, warnings })
        } else {
            Err(GitFailure { what: what(), message: warnings })
        }
    }

    /// One line that git prints.
    pub(crate) fn line<T: AsRef<OsStr>>(&self, arguments: &[T]) -> Result<String, GitFailure> {
        let answer = self.run(arguments)?;
        Ok(String::from_utf8_lossy(&answer.output).trim_end_matches('\n').to_owned())
    }
}

fn exchange(mut command: Command, input: &[u8]) -> io::Result<(bool, Vec<u8>, String)> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (output, warnings) = std::thread::scope(|scope| {
        let write = move || {
            if let Some(mut stdin) = stdin {
                // Git says with its exit code that it did not want all of its input.
                let _ = stdin.write_all(input);
            }
        };
        // Little fits into the pipe; more needs a thread, since git may answer before it has read everything.
        if input.len() > 4096 {
            scope.spawn(write);
        } else {
            write();
        }
        let listen = scope.spawn(move || {
            let mut message = Vec::new();
            if let Some(mut stderr) = stderr {
                let _ = stderr.by_ref().take(MAX_MESSAGE).read_to_end(&mut message);
                let _ = io::copy(&mut stderr, &mut io::sink());
            }
            String::from_utf8_lossy(&message).into_owned()
        });
        let mut output = Vec::new();
        let read = match stdout {
            Some(stdout) => stdout.take(MAX_ANSWER).read_to_end(&mut output).map(drop),
            None => Ok(()),
        };
        (read.map(|()| output), listen.join().unwrap_or_default())
    });
    let status = child.wait()?;
    Ok((status.success(), output?, warnings))
}
