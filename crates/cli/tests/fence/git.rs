//! The host's git data is never written from inside, and git works there all the same.

use crate::support::{Repository, tree};
use palisade_testing::{Instance, requires};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// Attempts to change the host's git data, each alone in a sandbox of its own. Some succeed: on the sandbox's own data.
const ATTEMPTS: [&str; 14] = [
    "echo x >> .git/config",
    "git config core.fsmonitor 'touch x'",
    "ln -sf /workspace/file .git/config",
    "echo x > .git/hooks/pre-commit",
    "echo '* filter=x' > .git/info/attributes",
    "mkdir -p .git/modules/x && echo x > .git/modules/x/config",
    "mkdir -p .git/sequencer && echo x > .git/sequencer/opts",
    "echo /workspace > .git/objects/info/alternates",
    "find .git -type f -delete",
    "for file in $(find .git/host-objects -type f); do echo x > $file; done",
    "mv .git old",
    "rmdir .git; mkdir .git.new && mv -T .git.new .git",
    "ln -sfn /tmp .git && test -L .git",
    "mount --bind /tmp .git",
];

#[test]
fn the_hosts_git_data_is_never_written() {
    requires!(bwrap, git);
    for attempt in ATTEMPTS {
        let repository = Repository::new();
        let before = git_data(&repository);
        repository.inside(attempt);
        assert_eq!(git_data(&repository), before, "{attempt}");
        repository.git(&["fsck", "--strict"]).ok();
        assert_eq!(repository.git(&["log", "--format=%s"]).ok().stdout, "first\n", "{attempt}");
    }
}

/// The host's git data, but for what Palisade notes there for itself.
fn git_data(repository: &Repository) -> Vec<(PathBuf, (u32, Vec<u8>))> {
    let mut found: Vec<_> = tree(&repository.path.join(".git")).into_iter().collect();
    found.retain(|(path, _)| !path.to_string_lossy().contains("palisade"));
    found
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
    // The host goes on as ever.
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
        "mkdir .git/hooks",
        "rm .git",
        "mv .git x",
        "echo x > .git",
        "rmdir .git && git init",
        "ln -sfn x .git && test -L .git",
    ] {
        let outcome = instance.run(["run", "-w", "plain", "--", "sh", "-c", attempt]);
        assert_ne!(outcome.code, 0, "{attempt}: {outcome:?}");
        assert_eq!(std::fs::read_dir(&plain).unwrap().count(), 0, "{attempt}");
    }
    // It has a repository of its own inside, and nothing of that is here.
    instance.run(["run", "-w", "plain", "--", "git", "init"]).ok();
    assert_eq!(std::fs::read_dir(&plain).unwrap().count(), 0);
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
    std::fs::write(repository.path.join("clean.sh"), "#!/bin/sh\ncat\n").unwrap();
    repository.git(&["config", "core.hooksPath", ".husky/_"]).ok();
    repository.git(&["config", "include.path", "../shared.config"]).ok();
    repository.git(&["config", "includeIf.onbranch:later.path", "../for-later"]).ok();
    repository.git(&["config", "filter.x.clean", "sh ./clean.sh %f"]).ok();
    for attempt in [
        "echo x > .husky/pre-commit",
        "echo x > .husky/_/pre-commit",
        "rm -r .husky",
        "mv .husky x",
        "echo x > shared.config",
        "mv shared.config x",
        "echo x > for-later",
        "echo x > clean.sh",
        "rm -f clean.sh",
    ] {
        assert_ne!(repository.inside(attempt).code, 0, "{attempt}");
    }
    assert!(!repository.path.join("for-later").exists());
    // The control: what nothing names is the sandbox's to change.
    repository.inside("echo x > file && mkdir hooks && echo x > hooks/pre-commit").ok();
}

/// What stands in for files that settings name and that are absent is gone afterwards, and in no commit.
#[test]
fn absent_files_that_settings_name_do_not_get_into_commits() {
    requires!(bwrap, git);
    let repository = Repository::new();
    repository.git(&["config", "include.path", "../team config"]).ok();
    repository.git(&["config", "filter.x.clean", "./tools/clean.sh"]).ok();
    let script = "cat tools/clean.sh; echo x > file; git add -A
        git -c user.name=a -c user.email=a@b commit -qm all; git show --name-only --format= HEAD";
    assert_eq!(repository.inside(script).ok().stdout, "exit 1\nfile\n");
    assert_eq!(repository.git(&["status", "--porcelain"]).ok().stdout, "");
    assert!(!repository.path.join("tools").exists() && !repository.path.join("team config").exists());
}

#[test]
fn a_repository_whose_data_a_sandbox_could_write_is_refused() {
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
fn what_cannot_be_closed_is_reported_afterwards() {
    requires!(bwrap, git);
    let repository = Repository::new();
    let quiet = repository.inside("echo x > file").ok();
    assert!(!quiet.stderr.contains("run by the host's own tools"), "{}", quiet.stderr);
    for (attempt, told) in [
        ("git init -q nested", "nested/.git"),
        ("git init -q --bare deep/bare", "deep/bare (is a repository"),
        ("echo x > .envrc", ".envrc"),
    ] {
        let outcome = repository.inside(attempt).ok();
        assert!(outcome.stderr.contains(told), "{attempt}: {}", outcome.stderr);
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
