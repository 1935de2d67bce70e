//! A repository that a sandbox shares with the host, on every method: the host's git data is out of reach, and commits
//! come back.

use palisade_testing::{Instance, Outcome};
use std::path::PathBuf;
use std::process::{Command, Stdio};

palisade_testing::on_isolating_methods!(
    commits_come_back_and_belong_to_the_repositorys_owner,
    a_planted_layout_does_not_run_on_the_host,
    a_submodule_and_a_worktree_work_inside,
    a_directory_in_which_commits_were_made_becomes_a_repository_of_its_owner,
    commits_below_a_repository_wait_there,
);

struct Shared {
    instance: Instance,
    path: PathBuf,
}

impl Shared {
    fn new(method: &'static str) -> Self {
        let instance = Instance::with_method(method);
        let shared = Self { path: instance.work().join("repo"), instance };
        std::fs::create_dir(&shared.path).unwrap();
        shared.git(&["init", "--quiet", "--initial-branch=main"]);
        std::fs::write(shared.path.join("file"), "first\n").unwrap();
        shared.git(&["add", "."]);
        shared.git(&["commit", "--quiet", "--message=first"]);
        shared
    }

    /// The host's git, in a repository that may be another user's by now.
    fn git(&self, words: &[&str]) -> String {
        let mut command = Command::new("git");
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.instance.home());
        command.env("GIT_CONFIG_NOSYSTEM", "1").current_dir(&self.path).stdin(Stdio::null());
        command.args(["-c", "safe.directory=*", "-c", "user.name=host", "-c", "user.email=host@example.com"]);
        Outcome::from(command.args(words).output().unwrap()).ok().stdout
    }

    fn assert_of_one_owner(&self) {
        use std::os::unix::fs::MetadataExt;
        let owner = std::fs::metadata(&self.path).unwrap().uid();
        let mut pending = vec![self.path.clone()];
        while let Some(path) = pending.pop() {
            let meta = std::fs::symlink_metadata(&path).unwrap();
            // The test's own git works as root and refreshes the index.
            assert!(
                meta.uid() == owner || path.ends_with(".git/index"),
                "{} has uid {}",
                path.display(),
                meta.uid()
            );
            if meta.is_dir() {
                pending.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
        }
    }

    fn give(&self) {
        self.instance.give(&self.instance.work());
    }

    fn inside(&self, directory: &str, script: &str) -> Outcome {
        let identity =
            "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b";
        let script = format!("{identity}\n{script}");
        self.instance.run(["run", "-w", directory, "--", "sh", "-ec", &script])
    }
}

fn commits_come_back_and_belong_to_the_repositorys_owner(method: &'static str) {
    let shared = Shared::new(method);
    std::fs::write(shared.path.join("staged"), "mine\n").unwrap();
    shared.git(&["add", "staged"]);
    shared.give();
    let script =
        "git status --porcelain; echo second > file; git commit -qm second file; git switch -qc topic
        echo x > new; git add new; git commit -qm third new; echo y >> file; git stash -q -- file; git gc -q";
    let outcome = shared.inside("repo", script).ok();
    assert_eq!(outcome.stdout, "A  staged\n");
    assert_eq!(shared.git(&["log", "--format=%s", "topic"]), "third\nsecond\nfirst\n");
    assert_eq!(shared.git(&["log", "--format=%s", "main"]), "second\nfirst\n");
    assert_eq!(shared.git(&["branch", "--show-current"]), "topic\n");
    assert_eq!(shared.git(&["status", "--porcelain"]), "A  staged\n");
    assert!(shared.git(&["stash", "list"]).contains("WIP on topic"));
    shared.git(&["fsck", "--strict"]);
    shared.assert_of_one_owner();
}

fn a_planted_layout_does_not_run_on_the_host(method: &'static str) {
    for has_repository in [true, false] {
        let shared = Shared::new(method);
        if !has_repository {
            std::fs::remove_dir_all(shared.path.join(".git")).unwrap();
        }
        let mark = shared.instance.work().join("it-ran-on-the-host");
        shared.give();
        let script = format!(
            "rm -f .git/HEAD || true; ln -s refs/heads/main HEAD; for f in objects refs; do echo > $f; chmod +x $f; done
             printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = .\\n\\tfsmonitor = \"touch {}; false\"\\n' > config",
            mark.display()
        );
        shared.inside("repo", &script);
        assert!(shared.path.join("HEAD").symlink_metadata().is_ok(), "the attack itself");
        let status = || {
            let mut git = Command::new("git");
            git.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").current_dir(&shared.path);
            Outcome::from(git.args(["-c", "safe.directory=*", "status"]).output().unwrap())
        };
        let seen = status();
        assert!(!mark.exists(), "{seen:?}");
        assert_eq!(seen.code == 0, has_repository, "{seen:?}");
        // The control: with nothing at `.git`, this is a repository that runs it.
        let git = shared.path.join(".git");
        let _ = std::fs::remove_file(&git).or_else(|_| std::fs::remove_dir_all(&git));
        let seen = status();
        assert!(mark.exists(), "{seen:?}");
    }
}

fn a_submodule_and_a_worktree_work_inside(method: &'static str) {
    let shared = Shared::new(method);
    shared.git(&["init", "-q", "--initial-branch=main", "../library"]);
    shared.git(&["-C", "../library", "commit", "-q", "--allow-empty", "-m", "library"]);
    let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../library", "lib/sub"];
    shared.git(&add);
    shared.git(&["commit", "-qm", "with a submodule"]);
    shared.git(&["worktree", "add", "-q", "-b", "topic", "../beside"]);
    shared.give();
    let script =
        "git submodule status >/dev/null; cd lib/sub; echo x > x; git add x; git commit -qm inside; cd ../..
        git add lib/sub; git commit -qm moved; git worktree list >/dev/null";
    shared.inside("repo", script).ok();
    assert_eq!(shared.git(&["-C", "lib/sub", "log", "-1", "--format=%s"]), "inside\n");
    assert_eq!(shared.git(&["log", "-1", "--format=%s"]), "moved\n");
    shared.inside("beside", "echo w > w; git add w; git commit -qm 'in the worktree'").ok();
    assert_eq!(shared.git(&["log", "-1", "--format=%s", "topic"]), "in the worktree\n");
}

fn a_directory_in_which_commits_were_made_becomes_a_repository_of_its_owner(method: &'static str) {
    let shared = Shared::new(method);
    std::fs::remove_dir_all(shared.path.join(".git")).unwrap();
    shared.give();
    let script = "git init -q; git add file; git commit -qm first; git switch -qc topic
        echo x > new; git add new; git commit -qm second; echo y >> file; git stash -q";
    let outcome = shared.inside("repo", script).ok();
    assert!(outcome.stderr.contains("is a git repository now"), "{}", outcome.stderr);
    shared.assert_of_one_owner();
    assert_eq!(shared.git(&["log", "--format=%s", "topic"]), "second\nfirst\n");
    assert_eq!(shared.git(&["branch", "--show-current"]), "topic\n");
    assert_eq!(shared.git(&["status", "--porcelain"]), "");
    assert!(shared.git(&["stash", "list"]).contains("WIP on topic"));
    shared.git(&["fsck", "--strict"]);
}

fn commits_below_a_repository_wait_there(method: &'static str) {
    let shared = Shared::new(method);
    std::fs::create_dir(shared.path.join("app")).unwrap();
    shared.give();
    let layout = "mkdir objects refs; echo 'ref: refs/heads/main' > HEAD";
    let script = format!("echo a > a; git add a; git commit -qm inside; {layout}");
    let outcome = shared.inside("repo/app", &script).ok();
    assert!(outcome.stderr.contains("git does not work in"), "{}", outcome.stderr);
    assert_eq!(shared.git(&["log", "--format=%s"]), "first\n");
    let waiting = shared.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads/palisade"]);
    assert_eq!(shared.git(&["log", "--format=%s", waiting.trim_end()]), "inside\n");
    let stopped = Command::new("git").arg("status").current_dir(shared.path.join("app")).output().unwrap();
    assert!(!stopped.status.success(), "the file stays as long as the layout does");
    shared.assert_of_one_owner();
}
