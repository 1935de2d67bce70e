//! Directories that are not repositories, and directories below one: git works inside, what is committed comes to the host, and
//! nothing that a sandbox lays there is taken for a repository.

use crate::support::Repository;
use palisade_testing::{Outcome, Traces, eventually, requires};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};

const AS_AGENT: &str =
    "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b\n";
/// The layout of a repository without a working tree, whose configuration runs something; `MARK` must not appear.
const LAYOUT: &str = "mkdir objects refs; echo 'ref: refs/heads/main' > HEAD
    printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = .\\n\\tfsmonitor = \"touch MARK; false\"\\n' > config\n";

impl Repository {
    /// A directory that is in no repository.
    fn plain() -> Self {
        let repository = Self::new();
        std::fs::remove_dir_all(repository.path.join(".git")).unwrap();
        repository
    }

    fn mark_text(&self) -> String {
        self.instance.work().join("it-ran-on-the-host").display().to_string()
    }

    /// A script in a sandbox that has a directory for its workspace, with git's identity.
    fn scripted(&self, directory: &str, script: &str) -> Outcome {
        let script = format!("{AS_AGENT}{}", script.replace("MARK", &self.mark_text()));
        self.instance.run(["run", "-w", directory, "--", "sh", "-ec", &script])
    }

    fn said(&self, words: &[&str]) -> String {
        self.git(words).ok().stdout
    }

    /// A run that says `up` and then waits for a line, or for its end.
    fn waiting(&self, directory: &str, script: &str) -> Child {
        let script = format!("{AS_AGENT}{}\necho up; read line", script.replace("MARK", &self.mark_text()));
        let words = ["run", "-w", directory, "--", "sh", "-ec", &script];
        let mut child = self.instance.command(words);
        let mut child =
            child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "up\n");
        child
    }

    fn git_data_left(&self) -> usize {
        std::fs::read_dir(self.instance.state().join("git")).map_or(0, Iterator::count)
    }
}

fn finish(mut child: Child) -> String {
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

#[test]
fn commits_in_a_directory_that_is_no_repository_make_it_one() {
    requires!(bwrap, git);
    let repository = Repository::plain();
    let outcome = repository
        .scripted(
            "repo",
            "git init -q; git add file; git commit -qm first; git switch -qc topic
             echo t > t; git add t; git commit -qm second; git tag v1; echo more >> file; git stash -q
             git log --format=%s; git status --porcelain",
        )
        .ok();
    assert_eq!(outcome.stdout, "second\nfirst\n");
    assert!(outcome.stderr.contains("is a git repository now"), "{}", outcome.stderr);
    assert_eq!(repository.said(&["log", "--format=%s"]), "second\nfirst\n");
    assert_eq!(repository.said(&["branch", "--show-current"]), "topic\n");
    assert_eq!(repository.said(&["status", "--porcelain"]), "");
    assert_eq!(repository.said(&["tag"]), "v1\n");
    assert!(repository.said(&["stash", "list"]).contains("WIP on topic"));
    repository.git(&["fsck", "--strict"]).ok();
    assert_eq!(repository.said(&["for-each-ref", "refs/palisade/base"]), "");
    let mut names: Vec<_> =
        std::fs::read_dir(&repository.path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".git", "file", "t"]);
    assert!(!repository.path.join(".git/hooks").exists(), "no template is copied");
    assert_eq!(repository.git_data_left(), 0);
    // It is a repository like any other from now on.
    repository.scripted("repo", "echo u > u; git add u; git commit -qm third").ok();
    assert_eq!(repository.said(&["log", "-1", "--format=%s"]), "third\n");
}

#[test]
fn without_a_commit_the_directory_stays_as_it_was() {
    requires!(bwrap, git);
    let repository = Repository::plain();
    repository.scripted("repo", "git init -q; git add file; git status >/dev/null").ok();
    assert!(!repository.path.join(".git").exists());
    assert_eq!(repository.git_data_left(), 0);
}

#[test]
fn a_layout_that_was_planted_keeps_the_file_and_the_commits_wait_until_it_is_removed() {
    requires!(bwrap, git);
    let repository = Repository::plain();
    let mark = std::path::PathBuf::from(repository.mark_text());
    let child = repository.waiting("repo", &format!("git add file; git commit -qm inside\n{LAYOUT}"));
    for _ in 0..5 {
        assert_ne!(repository.git(&["status"]).code, 0, "git stops at the file");
    }
    let said = finish(child);
    assert!(said.contains("looks like a git repository that the sandbox made"), "{said}");
    assert!(said.contains("palisade run -w"), "{said}");
    for words in [&["status"][..], &["diff"], &["log"]] {
        assert_ne!(repository.git(words).code, 0);
    }
    assert!(!mark.exists());
    // Another run does not change that, and says so.
    let next = repository.scripted("repo", "true").ok();
    assert!(next.stderr.contains("commits of an earlier run could not be brought back"), "{}", next.stderr);
    assert_ne!(repository.git(&["status"]).code, 0);
    // The user looks, and removes it.
    for name in ["objects", "refs"] {
        std::fs::remove_dir_all(repository.path.join(name)).unwrap();
    }
    for name in ["HEAD", "config", ".git"] {
        std::fs::remove_file(repository.path.join(name)).unwrap();
    }
    repository.scripted("repo", "true").ok();
    assert_eq!(repository.said(&["log", "--format=%s"]), "inside\n");
    assert_eq!(repository.said(&["status", "--porcelain"]), "");
    assert!(!mark.exists());
    assert_eq!(repository.git_data_left(), 0);
    // The control: without the file, git on the host takes such a layout for the repository and runs its settings.
    let repository = Repository::plain();
    let mark = std::path::PathBuf::from(repository.mark_text());
    repository.unfenced(&LAYOUT.replace("MARK", &repository.mark_text())).ok();
    repository.git(&["status"]);
    assert!(mark.exists());
}

#[test]
fn the_git_file_inside_cannot_be_replaced() {
    requires!(bwrap, git);
    let repository = Repository::plain();
    const POISON: &str = "mkdir -p evil/objects evil/refs; echo 'ref: refs/heads/main' > evil/HEAD
        printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = \"touch MARK; false\"\\n' > evil/config
        mv .git old; rm -rf .git; echo 'gitdir: evil' > .git; mv -T evil .git\n";
    let commit = "git config core.fsmonitor 'touch MARK; false'; git add file; git commit -qm inside";
    repository.scripted("repo", &format!("set +e; ({POISON}) 2>/dev/null; {commit}")).ok();
    repository.git(&["status"]);
    assert!(!std::path::Path::new(&repository.mark_text()).exists());
    assert_eq!(repository.said(&["log", "--format=%s"]), "inside\n");
    assert_ne!(repository.git(&["config", "core.fsmonitor"]).code, 0, "settings stay inside");
    // The control: bound as it is, the directory has the sandbox's repository afterwards.
    let repository = Repository::plain();
    repository.unfenced(&POISON.replace("MARK", &repository.mark_text()));
    repository.git(&["status"]);
    assert!(std::path::Path::new(&repository.mark_text()).exists());
}

#[test]
fn commits_of_a_killed_run_make_the_directory_a_repository_the_next_time() {
    requires!(bwrap, git);
    let repository = Repository::plain();
    let mut child = repository.waiting("repo", "git add file; git commit -qm inside");
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("everything inside dies with the run", || {
        Traces::of(&repository.instance).processes.is_empty()
    });
    let next = repository.scripted("repo", "git log --format=%s").ok();
    assert_eq!(next.stdout, "inside\n", "{}", next.stderr);
    assert_eq!(repository.said(&["log", "--format=%s"]), "inside\n");
    assert_eq!(repository.git_data_left(), 0);
}

#[test]
fn a_named_sandbox_makes_its_directory_a_repository_when_it_stops() {
    requires!(bwrap, git);
    let repository = Repository::plain();
    let instance = &repository.instance;
    instance.run(["create", "--start", "-w", "repo", "box"]).ok();
    instance.shell("box", &format!("{AS_AGENT}git add file; git commit -qm one")).ok();
    let synced = instance.run(["sync", "box"]).ok();
    assert!(synced.stderr.contains("when the sandbox stops"), "{synced:?}");
    assert_ne!(repository.git(&["status"]).code, 0, "nothing is put there while it runs");
    let stopped = instance.run(["stop", "box"]).ok();
    assert!(stopped.stderr.contains("is a git repository now"), "{}", stopped.stderr);
    assert_eq!(repository.said(&["log", "--format=%s"]), "one\n");
    instance.run(["start", "box"]).ok();
    instance.shell("box", &format!("{AS_AGENT}echo 2 > two; git add two; git commit -qm two")).ok();
    instance.run(["rm", "--force", "box"]).ok();
    assert_eq!(repository.said(&["log", "--format=%s"]), "two\none\n");
    assert_eq!(repository.git_data_left(), 0);
}

#[test]
fn commits_below_a_repository_wait_there_and_git_works_above_meanwhile() {
    requires!(bwrap, git);
    let repository = Repository::new();
    let app = repository.path.join("packages/app");
    std::fs::create_dir_all(&app).unwrap();
    std::fs::write(app.join("a"), "a\n").unwrap();
    repository.git(&["add", "."]).ok();
    repository.git(&["commit", "-qm", "app"]).ok();
    let before = repository.said(&["rev-parse", "main"]);
    let child =
        repository.waiting("repo/packages/app", &format!("git add a; git commit -qm inside\n{LAYOUT}"));
    assert_eq!(repository.said(&["status", "--porcelain", "--untracked-files=no"]), "");
    assert_ne!(repository.git(&["-C", "packages/app", "status"]).code, 0, "git stops at the file");
    let said = finish(child);
    assert!(said.contains("git does not work in") && said.contains("packages/app"), "{said}");
    assert_eq!(repository.said(&["rev-parse", "main"]), before);
    let waiting = repository.said(&["for-each-ref", "--format=%(refname:short)", "refs/heads/palisade"]);
    let waiting = waiting.trim_end();
    assert!(waiting.starts_with("palisade/run-"), "{waiting}");
    assert!(said.contains(&format!("git log -p {waiting}")), "{said}");
    assert_eq!(repository.said(&["log", "--format=%s", waiting]), "inside\n");
    assert_eq!(repository.said(&["for-each-ref", "refs/palisade/base"]), "");
    // The layout is there, so the file is, too.
    assert_ne!(repository.git(&["-C", "packages/app", "status"]).code, 0);
    assert!(!std::path::Path::new(&repository.mark_text()).exists());
    assert_eq!(repository.git_data_left(), 0);
}

#[test]
fn below_a_repository_the_users_git_works_when_it_ignores_layouts() {
    requires!(bwrap, git);
    let repository = Repository::new();
    let app = repository.path.join("app");
    std::fs::create_dir(&app).unwrap();
    repository.git(&["config", "--global", "safe.bareRepository", "explicit"]).ok();
    let child =
        repository.waiting("repo/app", &format!("echo a > a; git add a; git commit -qm inside\n{LAYOUT}"));
    let status = repository.git(&["-C", "app", "status"]);
    assert!(status.code != 0 && status.stderr.contains("safe.bareRepository"), "{status:?}");
    let said = finish(child);
    assert!(!said.contains("git does not work in"), "{said}");
    assert!(!app.join(".git").exists(), "the empty directory goes");
    assert!(!std::path::Path::new(&repository.mark_text()).exists());
    for name in ["objects", "refs"] {
        std::fs::remove_dir(app.join(name)).unwrap();
    }
    std::fs::remove_file(app.join("HEAD")).unwrap();
    let child = repository.waiting("repo/app", "true");
    assert!(
        repository.git(&["-C", "app", "status"]).ok().stdout.contains("app/") || app.join(".git").is_dir()
    );
    finish(child);
    // A setting of the repository itself is nothing that git believes here.
    repository.git(&["config", "--global", "--unset", "safe.bareRepository"]).ok();
    repository.git(&["config", "safe.bareRepository", "explicit"]).ok();
    let child = repository.waiting("repo/app", "true");
    assert_ne!(repository.git(&["-C", "app", "status"]).code, 0, "git stops at the file");
    finish(child);
}

#[test]
fn an_empty_git_directory_is_refused() {
    requires!(bwrap, git);
    let repository = Repository::plain();
    std::fs::create_dir(repository.path.join(".git")).unwrap();
    let refused = repository.scripted("repo", "true");
    assert_eq!(refused.code, 7, "{refused:?}");
    assert!(refused.stderr.contains("rmdir"), "{}", refused.stderr);
}
