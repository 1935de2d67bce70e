//! A user who works in directories while a sandbox has them: `git status`, `git diff` and a shell prompt that shows the
//! state of the repository, in a loop.

use crate::place::on_host;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// One round in every directory for each line that it reads.
const ROUND: &str = r#"
for file in /usr/lib/git-core/git-sh-prompt /etc/bash_completion.d/git-prompt; do
    test -e "$file" && . "$file" && break
done
GIT_PS1_SHOWDIRTYSTATE=1
while read -r _; do
    for directory in "$@"; do
        cd "$directory" || exit 1
        git status; git diff; __git_ps1 '%s'
    done >/dev/null 2>&1 </dev/null
    echo round
done
"#;

pub(crate) struct Canary {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Canary {
    pub(crate) fn new(home: &Path, directories: &[PathBuf]) -> Self {
        let mut command = on_host("bash", home, Path::new("/"));
        command.args(["-c", ROUND, "canary"]).args(directories);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    /// Works in every directory once.
    pub(crate) fn round(&mut self) {
        self.input.write_all(b"\n").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line, "round\n");
    }

    /// Works until the process has ended, once more after that, and says how often.
    pub(crate) fn rounds_until_end_of(&mut self, process: &mut Child) -> usize {
        let mut rounds = 0;
        loop {
            let has_ended = process.try_wait().unwrap().is_some();
            self.round();
            rounds += 1;
            if has_ended {
                return rounds;
            }
        }
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        // Without further lines it ends; a test that fails does not wait for it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
