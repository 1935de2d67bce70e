//! Git in a sandbox on a repository of 50 000 files: everything a developer does with it, and what the user has staged and
//! not staged is there afterwards. One repository is used with every method in turn: to make it takes seconds.

use crate::place::{on_host, open_to_all};
use palisade_testing::{Gate, Instance, Outcome, is_root, requires};
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Stdio;

const FILES: usize = 50_000;
const AS_AGENT: &str = "set -e
    export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b\n";

struct Large {
    root: tempfile::TempDir,
}

impl Large {
    /// With 50 000 files and a submodule on the branch main, and a branch with a single file.
    fn new() -> Self {
        let root = tempfile::Builder::new().prefix("pt-").tempdir_in("/tmp").unwrap();
        open_to_all(root.path());
        let large = Self { root };
        for directory in ["home", "repo", "library"] {
            std::fs::create_dir(large.root.path().join(directory)).unwrap();
        }
        let identity = "[user]\n\tname = host\n\temail = host@example.com\n";
        std::fs::write(large.root.path().join("home/.gitconfig"), identity).unwrap();
        large.git(&["init", "-q", "--initial-branch=main"]);
        large.git(&["init", "-q", "--initial-branch=main", "../library"]);
        large.git(&["-C", "../library", "commit", "-q", "--allow-empty", "-m", "library"]);
        large.import();
        large.git(&["reset", "-q", "--hard"]);
        large.git(&["-c", "protocol.file.allow=always", "submodule", "-q", "add", "../library", "lib"]);
        large.git(&["commit", "-qm", "with a submodule"]);
        large
    }

    fn path(&self) -> PathBuf {
        self.root.path().join("repo")
    }

    fn import(&self) {
        let mut stream = String::from("blob\nmark :1\ndata 5\ntext\n\n");
        for (branch, files) in [("main", FILES), ("small", 1)] {
            let committer = "committer host <host@example.com> 1600000000 +0000";
            write!(stream, "commit refs/heads/{branch}\n{committer}\ndata 5\nfirst\n").unwrap();
            for number in 0..files {
                writeln!(stream, "M 644 :1 files/{}/{number}", number / 200).unwrap();
            }
            stream.push('\n');
        }
        let mut import = on_host("git", &self.home(), &self.path());
        let mut import = import.args(["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn().unwrap();
        import.stdin.take().unwrap().write_all(stream.as_bytes()).unwrap();
        assert!(import.wait().unwrap().success());
    }

    fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    #[track_caller]
    fn git(&self, words: &[&str]) -> String {
        Outcome::from(on_host("git", &self.home(), &self.path()).args(words).output().unwrap()).ok().stdout
    }

    /// Makes it a directory that a sandbox of the method can write: all of it the first time, and then what the host's git
    /// may have made since.
    fn give(&self, instance: &Instance) {
        let before = std::fs::metadata(self.path()).unwrap().uid();
        instance.give(&self.path().join(".git"));
        for number in 1..=6 {
            instance.give(&self.path().join(format!("files/{number}")));
        }
        if std::fs::metadata(self.path().join(".git")).unwrap().uid() != before {
            instance.give(self.root.path());
        }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }
}

#[test]
fn git_works_inside_on_fifty_thousand_files() {
    requires!(git);
    let large = Large::new();
    work_inside(&large, "bwrap");
    // As for the tests of every method: Docker's containers are the same for every user.
    if is_root() {
        work_inside(&large, "docker");
    }
    work_inside(&large, "podman");
}

fn work_inside(large: &Large, method: &'static str) {
    if let Gate::Skip(reason) = Gate::check(method) {
        eprintln!("skipped: {reason}");
        return;
    }
    let instance = Instance::with_method(method);
    large.give(&instance);
    let path = large.path();
    let inside = |script: &str| {
        let script = format!("{AS_AGENT}{script}");
        instance.run(["run", "-w", path.to_str().unwrap(), "--", "sh", "-c", &script]).ok().stdout
    };
    let work = format!(
        "git status --porcelain
         git switch -qc {method}; echo 1 > files/1/200; git commit -qam 'on a branch'
         git switch -q main; echo 2 > files/2/400; git add files/2; git commit -qm 'on main'
         git switch -q {method}; git rebase -q main
         echo 3 > files/3/600; git stash -q; git status --porcelain; git stash pop -q; git stash -q; git log -2 --format=%s
         git worktree add -q /tmp/other small; ls /tmp/other/files; git worktree remove /tmp/other
         cd lib; echo x > {method}; git add .; git commit -qm inside; cd ..; git submodule status | cut -c 1
         git commit -qam 'with the submodule'"
    );
    let said = inside(&work);
    assert_eq!(said, "on a branch\non main\n0\n+\n", "{method}");
    let subjects = "with the submodule\non a branch\non main\n";
    assert_eq!(large.git(&["log", "-3", "--format=%s"]), subjects, "{method}");
    assert_eq!(large.git(&["branch", "--show-current"]), format!("{method}\n"));
    assert_eq!(large.git(&["-C", "lib", "log", "-1", "--format=%s"]), "inside\n", "{method}");
    assert_eq!(large.git(&["status", "--porcelain"]), "", "{method}");
    large.git(&["stash", "pop", "-q"]);
    assert_eq!(large.git(&["status", "--porcelain"]), " M files/3/600\n", "{method}: the stash came back");
    large.git(&["reset", "-q", "--hard"]);

    large.write("files/4/800", "staged");
    large.git(&["add", "files/4/800"]);
    large.write("files/5/1000", "not staged");
    let users = "M  files/4/800\n M files/5/1000\n";
    large.give(&instance);
    let said = inside(
        "git status --porcelain; echo 6 > files/6/1200; git commit -qm 'beside the user' files/6/1200",
    );
    assert_eq!(said, users, "{method}");
    assert_eq!(large.git(&["log", "-1", "--format=%s"]), "beside the user\n", "{method}");
    assert_eq!(large.git(&["status", "--porcelain"]), users, "{method}: the user's work survives");
    large.git(&["fsck", "--connectivity-only"]);
    large.git(&["reset", "-q", "--hard"]);
    large.git(&["switch", "-q", "main"]);
    large.git(&["reset", "-q", "--hard", "HEAD~1"]);
    large.git(&["-C", "lib", "reset", "-q", "--hard", "HEAD~1"]);
}
