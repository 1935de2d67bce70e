//! What the user does on the host reaches a sandbox that has nothing of its own, `palisade sync` does so on request, and what
//! git needs inside is there or the sandbox is refused.

use crate::support::Repository;
use palisade_testing::{Outcome, eventually, requires};

const AS_AGENT: &str =
    "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b\n";

#[test]
fn commits_of_the_user_reach_a_sandbox_that_has_nothing_of_its_own() {
    requires!(bwrap, git);
    let repository = Repository::new();
    let instance = &repository.instance;
    // Staged before the start, and committed after it.
    std::fs::write(repository.path.join("staged"), "1\n").unwrap();
    repository.git(&["add", "staged"]).ok();
    instance.run(["create", "--start", "-w", "repo", "box"]).ok();
    repository.git(&["commit", "-qm", "mine"]).ok();
    repository.git(&["tag", "v1"]).ok();
    let seen =
        || instance.shell("box", "git log -1 --format=%s; git tag; git status --porcelain").ok().stdout;
    eventually("it arrives by itself", || seen() == "mine\nv1\n");
    repository.git(&["switch", "-qc", "topic"]).ok();
    std::fs::write(repository.path.join("file"), "second\n").unwrap();
    repository.git(&["commit", "-qam", "more"]).ok();
    let synced = instance.run(["sync", "box"]).ok();
    let branch =
        instance.shell("box", "git branch --show-current; git log -1 --format=%s; git status --porcelain");
    assert_eq!(branch.ok().stdout, "topic\nmore\n", "{synced:?}");
    // And the other way again.
    instance.shell("box", &format!("{AS_AGENT}echo x > x; git add x; git commit -qm inside")).ok();
    instance.run(["sync", "box"]).ok();
    assert_eq!(repository.git(&["log", "-1", "--format=%s"]).ok().stdout, "inside\n");
    assert_eq!(instance.run(["sync", "box"]).ok().stderr.trim_end(), "nothing new on either side");
    instance.run(["rm", "--force", "box"]).ok();
    assert_eq!(repository.git(&["for-each-ref", "refs/palisade/base"]).ok().stdout, "");
}

#[test]
fn a_commit_that_is_made_while_the_host_is_looked_at_arrives_whole() {
    requires!(bwrap, git);
    let repository = Repository::new();
    let instance = &repository.instance;
    instance.run(["create", "--start", "-w", "repo", "box"]).ok();
    // The user commits just before the host's refs are listed, as a git that the program finds first does it.
    let programs = instance.home().join("programs");
    std::fs::create_dir_all(&programs).unwrap();
    let path = "/usr/local/bin:/usr/bin:/bin";
    let script = format!(
        "#!/bin/sh\nPATH='{path}'\ncase \"$*\" in *'%(*objectname)'*)\n\
         if mkdir '{programs}/once' 2>/dev/null; then (cd '{repository}' && echo second > file &&\n\
         env -i PATH=\"$PATH\" git -c user.name=h -c user.email=h@h commit -qam second); fi;; esac\nexec git \"$@\"\n",
        programs = programs.display(),
        repository = repository.path.display(),
    );
    let program = programs.join("git");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut sync = instance.command(["sync", "box"]);
    sync.env("PATH", format!("{}:{path}", programs.display()));
    Outcome::from(sync.output().unwrap()).ok();
    assert!(programs.join("once").exists(), "the refs were listed");
    assert_eq!(repository.git(&["log", "-1", "--format=%s"]).ok().stdout, "second\n");
    let seen = instance.shell("box", "git log -1 --format=%s; git status --porcelain").ok().stdout;
    assert_eq!(seen, "second\n");
    instance.run(["rm", "--force", "box"]).ok();
}

#[test]
fn a_sandbox_with_something_of_its_own_does_not_follow() {
    requires!(bwrap, git);
    let state = "git rev-parse HEAD; git ls-files --stage; git for-each-ref";
    for (own, no_more) in
        [("echo s > s; git add s", "git reset -q"), ("touch .git/MERGE_HEAD", "rm .git/MERGE_HEAD")]
    {
        let repository = Repository::new();
        let instance = &repository.instance;
        instance.run(["create", "--start", "-w", "repo", "box"]).ok();
        instance.shell("box", own).ok();
        let before = instance.shell("box", state).ok().stdout;
        repository.git(&["commit", "-q", "--allow-empty", "-m", "mine"]).ok();
        instance.run(["sync", "box"]);
        assert_eq!(instance.shell("box", state).ok().stdout, before, "{own}");
        // The control: without it, the sandbox follows.
        instance.shell("box", no_more).ok();
        instance.run(["sync", "box"]).ok();
        assert_eq!(instance.shell("box", "git log -1 --format=%s").ok().stdout, "mine\n", "{own}");
        instance.run(["rm", "--force", "box"]).ok();
    }
}

#[test]
fn a_sandbox_whose_git_is_at_work_follows_as_soon_as_it_is_done() {
    requires!(bwrap, git);
    let repository = Repository::new();
    let instance = &repository.instance;
    instance.run(["create", "--start", "-w", "repo", "box"]).ok();
    let subject = || instance.shell("box", "git log -1 --format=%s").ok().stdout;
    // A lock that stays, as of a git that hangs: nothing moves, and the user is told.
    instance.shell("box", "touch .git/index.lock").ok();
    repository.git(&["commit", "-q", "--allow-empty", "-m", "mine"]).ok();
    let behind = instance.run(["sync", "box"]);
    assert_eq!((behind.code, subject().as_str()), (7, "first\n"), "{behind:?}");
    assert!(behind.stderr.contains("does not have your latest commits"), "{behind:?}");
    // The control, without another sync: it is tried again once the lock is gone.
    instance.shell("box", "rm .git/index.lock").ok();
    eventually("the commit arrives by itself", || subject() == "mine\n");
    // One that goes while it is waited for.
    instance.shell("box", "touch .git/index.lock; (sleep 0.5; rm .git/index.lock) >/dev/null 2>&1 &").ok();
    repository.git(&["commit", "-q", "--allow-empty", "-m", "next"]).ok();
    instance.run(["sync", "box"]).ok();
    assert_eq!(subject(), "next\n");
    instance.run(["rm", "--force", "box"]).ok();
}

#[test]
fn sync_says_what_waits_and_what_it_is_not_for() {
    requires!(bwrap, git);
    let repository = Repository::new();
    let instance = &repository.instance;
    // A branch that another worktree has checked out never moves, whenever the commit comes.
    repository.git(&["worktree", "add", "-q", "-b", "topic", "../beside"]).ok();
    instance.run(["create", "--start", "-w", "repo", "box"]).ok();
    let commit = format!("{AS_AGENT}git switch -q topic; git commit -q --allow-empty -m inside");
    instance.shell("box", &commit).ok();
    let synced = instance.run(["sync", "--json", "box"]);
    assert_eq!(synced.code, 7, "{synced:?}");
    let report: serde_json::Value = serde_json::from_str(&synced.stdout).unwrap();
    assert_eq!(report["waiting"], true);
    assert!(report["notes"][0].as_str().unwrap().contains("palisade/box/topic"), "{report}");
    instance.run(["stop", "box"]).ok();
    assert_ne!(instance.run(["sync", "box"]).code, 0, "it does not run");
    instance.run(["rm", "--force", "box"]).ok();
}

#[test]
fn a_filter_whose_program_is_not_inside_is_refused() {
    requires!(bwrap, git);
    let repository = Repository::new();
    let program = repository.instance.home().join("tidy-filter");
    std::fs::write(&program, "#!/bin/sh\ncat\n").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(repository.path.join(".gitattributes"), "*.bin filter=tidy\n").unwrap();
    repository.git(&["add", "."]).ok();
    repository.git(&["commit", "-qm", "attributes"]).ok();
    let set = |key: &str, value: &str| drop(repository.git(&["config", key, value]).ok());
    set("filter.tidy.clean", &format!("'{}' --clean", program.display()));
    // A filter that is not required is passed over by git, and one that no attribute names is never run.
    assert_eq!(repository.inside("git status --porcelain").ok().stdout, "");
    set("filter.unused.clean", "no-such-program");
    set("filter.unused.required", "true");
    repository.inside("git status --porcelain").ok();
    set("filter.tidy.required", "true");
    let refused = repository.inside("echo ran");
    assert_eq!((refused.code, refused.stdout.as_str()), (7, ""), "{refused:?}");
    for part in ["'tidy'", "tidy-filter", ":copy", ":ro"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    let started = repository.instance.run(["create", "--start", "-w", "repo", "box"]);
    assert_eq!(started.code, 7, "{started:?}");
    repository.instance.run(["rm", "--force", "box"]);
    set("filter.tidy.clean", "cat");
    repository.inside("echo x > x.bin; git add x.bin").ok();
}

#[test]
fn the_users_identity_is_known_inside() {
    requires!(bwrap, git);
    let repository = Repository::new();
    repository.git(&["config", "--global", "user.name", "The User"]).ok();
    repository.git(&["config", "--global", "user.email", "user@example.com"]).ok();
    repository.inside("git commit -q --allow-empty -m global").ok();
    repository.git(&["config", "user.email", "work@example.com"]).ok();
    repository.inside("git commit -q --allow-empty -m own").ok();
    let authors = repository.git(&["log", "-2", "--format=%an %ae %s"]).ok().stdout;
    assert_eq!(authors, "The User work@example.com own\nThe User user@example.com global\n");
    let plain = repository.instance.work().join("plain");
    std::fs::create_dir(&plain).unwrap();
    let words = ["run", "-w", "plain", "--", "git", "commit", "-q", "--allow-empty", "-m", "plain"];
    repository.instance.run(words).ok();
    assert_eq!(repository.git(&["-C", "../plain", "log", "--format=%an %s"]).ok().stdout, "The User plain\n");
}
