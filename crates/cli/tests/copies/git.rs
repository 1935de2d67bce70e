//! Git in a copy of a repository: it has the repository's own data, and commits wait on a branch.

use crate::support::{Scene, tree};
use palisade_testing::{Outcome, requires};
use std::process::{Command, Stdio};

palisade_testing::on_isolating_methods!(commits_made_in_a_copy_wait_and_nothing_of_the_users_moves,);

impl Scene {
    /// The host's git, in a repository that may be another user's.
    fn git(&self, words: &[&str]) -> Outcome {
        let mut command = Command::new("git");
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.instance.home());
        command.env("GIT_CONFIG_NOSYSTEM", "1").current_dir(&self.project).stdin(Stdio::null());
        command.args(["-c", "safe.directory=*", "-c", "user.name=host", "-c", "user.email=host@example.com"]);
        Outcome::from(command.args(words).output().unwrap())
    }

    fn repository(method: &'static str) -> Self {
        let scene = Self::new(method);
        scene.git(&["init", "-q", "-b", "main"]).ok();
        scene.git(&["add", "."]).ok();
        scene.git(&["commit", "-qm", "first"]).ok();
        scene
    }

    fn commit_inside(&self, script: &str) -> Outcome {
        let identity =
            "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b";
        self.inside(&format!("{identity}\n{script}"))
    }

    /// What the user's branches, HEAD and index are.
    fn state_of_git(&self) -> (String, String, Vec<u8>) {
        let refs = self.git(&["for-each-ref", "refs/heads/main", "refs/heads/other"]).ok().stdout;
        let index = std::fs::read(self.project.join(".git/index")).unwrap();
        (refs, self.git(&["symbolic-ref", "HEAD"]).ok().stdout, index)
    }
}

fn commits_made_in_a_copy_wait_and_nothing_of_the_users_moves(method: &'static str) {
    let scene = Scene::repository(method);
    std::fs::write(scene.project.join("staged"), "mine\n").unwrap();
    scene.git(&["add", "staged"]).ok();
    scene.git(&["branch", "other"]).ok();
    scene.git(&["config", "http.extraHeader", "Authorization: secret-of-the-user"]).ok();
    scene.instance.give(&scene.project);
    let before = (tree(&scene.project.join("sub")), scene.state_of_git());
    let script = "git status --porcelain; git config --list | grep -c secret-of || true; ls .git >/dev/null
        echo second > file; git commit -qm second file; git switch -qc topic; echo t > t; git add t; git commit -qm third t
        ! grep -rq secret-of .";
    let outcome = scene.commit_inside(script).ok();
    assert_eq!(outcome.stdout, "A  staged\n0\n");
    assert_eq!((tree(&scene.project.join("sub")), scene.state_of_git()), before);
    let branch = format!("palisade/run-{}/main", &scene.run_id()[..8]);
    assert!(outcome.stderr.contains(&format!("git merge {branch}")), "{}", outcome.stderr);
    assert_eq!(scene.git(&["log", "--format=%s", &branch]).ok().stdout, "second\nfirst\n");
    let topic = branch.replace("/main", "/topic");
    assert_eq!(scene.git(&["log", "--format=%s", &topic]).ok().stdout, "third\nsecond\nfirst\n");
    // Merged by the user, the file is what the copy has, and nothing of it is left to lay.
    scene.git(&["stash", "-q"]).ok();
    scene.git(&["merge", "-q", &topic]).ok();
    scene.instance.give(&scene.project);
    scene.apply(&[]).ok();
    assert_eq!((scene.read("file"), scene.copies().len()), ("second\n".into(), 0));
}

#[test]
fn a_repository_in_the_middle_of_a_rebase_can_be_copied() {
    requires!(bwrap);
    let scene = Scene::repository("bwrap");
    std::fs::create_dir(scene.project.join(".git/rebase-merge")).unwrap();
    let refused = scene.instance.run(["run", "-w", "project", "--", "true"]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("-w DIR:copy"), "{}", refused.stderr);
    let outcome = scene.inside("test ! -e .git; git status >/dev/null 2>&1 && exit 9; echo two > file").ok();
    assert!(outcome.stderr.contains("git does not work in the copy"), "{}", outcome.stderr);
    scene.apply(&[]).ok();
    assert_eq!(scene.read("file"), "two\n");
}

#[test]
fn a_directory_with_many_repositories_can_be_copied() {
    requires!(bwrap);
    let scene = Scene::bwrap();
    for number in 0..65 {
        let git = scene.project.join(format!("r{number}/.git"));
        for directory in ["objects", "refs"] {
            std::fs::create_dir_all(git.join(directory)).unwrap();
        }
        std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    }
    let refused = scene.instance.run(["run", "-w", "project", "--", "true"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.stderr.contains("more than 64") && refused.stderr.contains("-w DIR:copy"),
        "{}",
        refused.stderr
    );
    scene.inside("test -e r64/.git/HEAD; echo two > file").ok();
    scene.apply(&[]).ok();
    assert_eq!(scene.read("file"), "two\n");
}

#[test]
fn commits_of_a_killed_run_are_brought_by_the_next_one_also_when_the_copy_was_dropped() {
    requires!(bwrap);
    for is_dropped in [false, true] {
        let scene = Scene::repository("bwrap");
        let identity =
            "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b";
        let mut run = scene.held(&format!("{identity}; echo two > file; git commit -qam second"));
        run.kill().unwrap();
        run.wait().unwrap();
        scene.instance.run(["gc"]).ok();
        let id = scene.run_id();
        if is_dropped {
            scene.apply(&["--discard", &id]).ok();
        }
        let before = scene.state_of_git();
        let next = scene.inside("git log --format=%s").ok();
        assert_eq!(next.stdout, "first\n");
        let branch = format!("palisade/run-{}/main", &id[..8]);
        assert_eq!(
            scene.git(&["log", "--format=%s", &branch]).ok().stdout,
            "second\nfirst\n",
            "{}",
            next.stderr
        );
        assert_eq!(scene.state_of_git(), before);
        assert_eq!((scene.read("file"), scene.copies().len()), ("one\n".into(), usize::from(!is_dropped)));
        let left = std::fs::read_dir(scene.instance.state().join("copies")).unwrap().count();
        assert_eq!(left, usize::from(!is_dropped));
    }
}
