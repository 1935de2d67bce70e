//! What git obeys is closed, whatever is tried; what a commit needs is open.

use crate::support::{Repository, tree};
use palisade_testing::{Instance, requires};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Attempts to make the host's git run something. Each must fail, alone in a sandbox of its own.
const ATTEMPTS: [&str; 30] = [
    "echo x >> .git/config",
    "git config core.fsmonitor 'touch x'",
    "mv .git/config .git/old",
    "rm -f .git/config",
    "ln -sf /workspace/file .git/config",
    "echo x > .git/hooks/pre-commit",
    "echo x > .git/hooks/new",
    "rm -rf .git/hooks",
    "mv .git/hooks .git/old",
    "echo '* filter=x' > .git/info/attributes",
    "mv .git/info .git/old",
    "echo x > .git/commondir",
    "rm .git/commondir",
    "mv .git/commondir .git/old",
    "echo x > .git/config.worktree",
    "mkdir -p .git/modules/x && echo x > .git/modules/x/config",
    "mv .git/modules .git/old",
    "mkdir -p .git/worktrees/x && echo x > .git/worktrees/x/commondir",
    "mv .git/worktrees .git/old",
    "echo /workspace > .git/objects/info/alternates",
    "mv .git/objects/info .git/objects/old",
    "mv .git/objects .git/old",
    "mv .git old",
    "rm -rf .git",
    "rmdir .git; mkdir .git.new && mv -T .git.new .git",
    "ln -sfn /tmp .git && test -L .git",
    "mv --exchange .git file 2>/dev/null; test -f .git",
    "chmod 000 .git/config",
    "umount .git/config",
    "mount --bind /tmp .git/hooks",
];

#[test]
fn nothing_that_git_obeys_can_be_written_moved_or_replaced() {
    requires!(bwrap, git);
    for attempt in ATTEMPTS {
        let repository = Repository::new();
        let before = closed(&repository);
        let outcome = repository.inside(attempt);
        assert_ne!(outcome.code, 0, "{attempt}: {outcome:?}");
        assert_eq!(closed(&repository), before, "{attempt}");
        let git = std::fs::symlink_metadata(repository.path.join(".git")).unwrap();
        assert!(git.is_dir(), "{attempt}: .git was replaced");
    }
}

/// Everything in a repository that git obeys.
fn closed(repository: &Repository) -> Vec<(PathBuf, (u32, Vec<u8>))> {
    let obeyed = [
        "config",
        "config.worktree",
        "commondir",
        "hooks",
        "info",
        "modules",
        "worktrees",
        "objects/info/alternates",
    ];
    let obeyed = obeyed.map(|path| Path::new(".git").join(path));
    let mut found: Vec<_> = tree(&repository.path).into_iter().collect();
    found.retain(|(path, _)| obeyed.iter().any(|closed| path.starts_with(closed)));
    found
}

#[test]
fn what_the_attempts_aim_at_works_without_the_fence() {
    requires!(bwrap, git);
    // One of each kind; with them, the host's own status runs what was planted.
    for attempt in ["echo x >> .git/config", "echo x > .git/hooks/new", "mv .git old", "rm -rf .git/hooks"] {
        assert_eq!(Repository::new().unfenced(attempt).code, 0, "{attempt}");
    }
    let repository = Repository::new();
    let mark = repository.instance.work().join("it-ran-on-the-host");
    let plant = format!("git config core.fsmonitor 'touch {}; false'", mark.display());
    assert_ne!(repository.inside(&plant).code, 0);
    repository.git(&["status"]).ok();
    assert!(!mark.exists());
    repository.unfenced(&plant).ok();
    repository.git(&["status"]).ok();
    assert!(mark.exists(), "the control: the planted command runs on the host");
}

#[test]
fn git_works_inside_and_the_host_sees_the_work() {
    requires!(bwrap, git);
    let repository = Repository::new();
    let work = "set -e
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        echo second > file; echo new > new
        git status --porcelain; git add .; git commit -q -m second
        git branch topic; git checkout -q topic; echo third > third; git add third; git commit -q -m third
        git checkout -q main; git merge -q topic; git tag v1; git stash list; git diff HEAD~1 --stat >/dev/null
        git gc -q --prune=now; git fsck --strict; git log --format=%s";
    let outcome = repository.inside(work).ok();
    assert_eq!(outcome.stdout, " M file\n?? new\nthird\nsecond\nfirst\n");
    assert_eq!(repository.git(&["log", "--format=%s"]).ok().stdout, "third\nsecond\nfirst\n");
    assert_eq!(repository.git(&["status", "--porcelain"]).ok().stdout, "");
    repository.git(&["fsck", "--strict"]).ok();
    for placeholder in [
        ".git/commondir",
        ".git/config.worktree",
        ".git/modules",
        ".git/worktrees",
        ".git/objects/info/alternates",
    ] {
        assert!(!repository.path.join(placeholder).exists(), "{placeholder} is left");
    }
    // The host goes on as ever, with what the fence had held.
    repository.git(&["config", "user.name", "host"]).ok();
    repository.git(&["worktree", "add", "--quiet", "../beside"]).ok();
}

#[test]
fn a_directory_that_is_no_repository_cannot_become_one() {
    requires!(bwrap, git);
    let instance = Instance::with_method("bwrap");
    let plain = instance.work().join("plain");
    std::fs::create_dir(&plain).unwrap();
    for attempt in [
        "git init",
        "mkdir .git/hooks",
        "rmdir .git && git init",
        "mv .git x && git init",
        "ln -sfn x .git && test -L .git",
    ] {
        let outcome = instance.run(["run", "-w", "plain", "--", "sh", "-c", attempt]);
        assert_ne!(outcome.code, 0, "{attempt}: {outcome:?}");
        assert_eq!(std::fs::read_dir(&plain).unwrap().count(), 0, "{attempt}");
    }
    instance.run(["run", "-w", "plain", "--", "sh", "-c", "mkdir ordinary && echo x > file"]).ok();
    assert_eq!(std::fs::read_dir(&plain).unwrap().count(), 2);
}

#[test]
fn hooks_and_included_files_in_the_work_tree_are_closed_too() {
    requires!(bwrap, git);
    let repository = Repository::new();
    std::fs::create_dir_all(repository.path.join(".husky/_")).unwrap();
    std::fs::write(repository.path.join(".husky/pre-commit"), "#!/bin/sh\n").unwrap();
    std::fs::write(repository.path.join("shared.config"), "").unwrap();
    repository.git(&["config", "core.hooksPath", ".husky/_"]).ok();
    repository.git(&["config", "include.path", "../shared.config"]).ok();
    repository.git(&["config", "--add", "include.path", "own.config"]).ok();
    for attempt in [
        "echo x > .husky/pre-commit",
        "echo x > .husky/_/pre-commit",
        "rm -r .husky",
        "mv .husky x",
        "echo x > shared.config",
        "mv shared.config x",
        "echo x > .git/own.config",
        "mkdir -p .git/own.config/x",
    ] {
        assert_ne!(repository.inside(attempt).code, 0, "{attempt}");
    }
    assert!(!repository.path.join(".git/own.config").exists());
    // The control: what nothing names is the sandbox's to change.
    repository.inside("echo x > file && mkdir hooks && echo x > hooks/pre-commit").ok();
}

#[test]
fn a_repository_that_the_fence_cannot_close_is_refused() {
    requires!(bwrap, git);
    let repository = Repository::new();
    let separate = repository.instance.work().join("separate");
    let bare = repository.instance.work().join("bare");
    std::fs::create_dir(&separate).unwrap();
    repository.git(&["init", "--quiet", "--separate-git-dir=../separate/real.git", "../separate"]).ok();
    repository.git(&["init", "--quiet", "--bare", "../bare"]).ok();
    for (directory, named) in [("separate", "real.git"), ("bare", "HEAD")] {
        let outcome = repository.instance.run(["run", "-w", directory, "--", "true"]);
        assert_eq!(outcome.code, 1, "{directory}: {outcome:?}");
        assert!(outcome.stderr.contains(named), "{}", outcome.stderr);
        repository.instance.run(["run", "-w", &format!("{directory}:ro"), "--", "true"]).ok();
    }
    assert!(separate.is_dir() && bare.is_dir());
}

#[test]
fn what_the_fence_cannot_close_is_told_afterwards() {
    requires!(bwrap, git);
    let repository = Repository::new();
    let quiet = repository.inside("echo x > file").ok();
    assert!(!quiet.stderr.contains("run by the host's own tools"), "{}", quiet.stderr);
    for (attempt, told) in [
        ("git init -q nested", "nested/.git"),
        ("echo x >> nested/.git/config", "nested/.git"),
        ("git init -q --bare deep/bare", "deep/bare/HEAD"),
        ("echo x > .envrc", ".envrc"),
        ("ln -sf /tmp/elsewhere .git/COMMIT_EDITMSG", ".git/COMMIT_EDITMSG"),
    ] {
        let outcome = repository.inside(attempt).ok();
        assert!(outcome.stderr.contains(told), "{attempt}: {}", outcome.stderr);
        // Two runs within one second cannot be told apart by the file system's clock.
        let second = std::fs::metadata(repository.path.join("file")).unwrap();
        palisade_testing::eventually("the next second", || {
            second.modified().unwrap().elapsed().unwrap().as_secs() >= 2
        });
    }
}

#[test]
fn a_hook_that_was_there_before_still_runs_inside_and_on_the_host() {
    requires!(bwrap, git);
    let repository = Repository::new();
    let hook = repository.path.join(".git/hooks/pre-commit");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, "#!/bin/sh\necho the hook ran >&2\n").unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let commit = "git -c user.name=a -c user.email=a@b commit --allow-empty -q -m x";
    assert!(repository.inside(commit).ok().stderr.contains("the hook ran"));
    assert!(
        repository.git(&["commit", "--allow-empty", "-q", "-m", "y"]).ok().stderr.contains("the hook ran")
    );
}
