//! Code in, an agent at work, code out: with the profile `shell`, whose tasks are scripts that play an agent.

use palisade_testing::{Instance, Outcome};
use std::path::Path;
use std::process::Command;

contracts!(
    commits_and_changes_come_back,
    a_second_round_goes_both_ways,
    work_that_the_user_has_committed_is_nothing_new,
    a_repository_that_is_not_ready_is_refused_and_nothing_is_made,
    env_files_go_in_and_stay_out_of_commits,
    two_agents_in_two_worktrees_do_not_mix,
    three_sandboxes_of_one_repository_do_not_mix,
    an_agent_left_running_is_found_again,
    a_thousand_commits_go_in_and_one_comes_back,
    the_demo_agent_mends_a_bug_and_says_that_it_is_a_script,
    changed_files_that_run_by_themselves_are_reported,
    a_pack_larger_than_allowed_is_given_up,
    an_alternate_inside_does_not_lead_to_the_host,
);

/// A repository in the directory where the instance's commands run.
pub(crate) fn repository(method: &'static str) -> Instance {
    let instance = Instance::with_method(method);
    std::fs::write(instance.home().join(".gitconfig"), "[user]\nname = Ada\nemail = ada@example.org\n")
        .unwrap();
    git(&instance, "init --quiet --initial-branch=main");
    std::fs::write(instance.work().join("code"), "1\n2\n3\n").unwrap();
    git(&instance, "add -A");
    git(&instance, "commit --quiet -m first");
    instance
}

/// What the user's own git says.
#[track_caller]
pub(crate) fn git(instance: &Instance, line: &str) -> String {
    let output = Command::new("git")
        .args(line.split(' '))
        .current_dir(instance.work())
        .env("HOME", instance.home())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Gives a task to an agent that is a shell.
fn task(instance: &Instance, options: &[&str], script: &str) -> Outcome {
    let arguments = ["agent", "start", "--agent", "shell", "--name", "box"];
    instance.run(arguments.iter().chain(options).copied().chain(["--task", script]))
}

fn sync(instance: &Instance) -> Outcome {
    without_archive(instance.run(["agent", "sync", "box"]))
}

/// What a sync said, without the line that names the archive.
pub(crate) fn without_archive(mut outcome: Outcome) -> Outcome {
    let lines = outcome.stderr.split_inclusive('\n').filter(|line| !line.starts_with("archived as "));
    outcome.stderr = lines.collect();
    outcome
}

fn read(directory: &Path, name: &str) -> String {
    std::fs::read_to_string(directory.join(name)).unwrap()
}

fn commits_and_changes_come_back(method: &'static str) {
    let instance = repository(method);
    let outcome = task(
        &instance,
        &[],
        "echo 4 >> code && git commit -qam second && echo 5 >> code && echo n > new && echo done; exit 3",
    );
    assert_eq!((outcome.stdout.as_str(), outcome.code), ("done\n", 3));
    assert!(outcome.stderr.contains("palisade agent sync box"), "{}", outcome.stderr);

    let home = sync(&instance).ok();
    assert_eq!(home.stderr, "main: 1 commit\nmain: changes in code, new\n");
    assert_eq!(git(&instance, "log --format=%an:%s"), "Ada:second\nAda:first");
    assert_eq!(git(&instance, "status --porcelain"), " M code\n?? new");
    assert_eq!(read(&instance.work(), "code"), "1\n2\n3\n4\n5\n");
    assert_eq!(
        instance.run(["agent", "diff"]).ok().stdout.lines().filter(|line| line.starts_with("+++")).count(),
        2
    );
    assert!(instance.run(["agent", "log", "box"]).ok().stdout.contains("    second\n"));
    instance.run(["agent", "rm", "box"]).ok();
    assert_eq!(instance.run(["agent", "ls", "--json"]).ok().json(), serde_json::json!([]));
}

fn a_second_round_goes_both_ways(method: &'static str) {
    let instance = repository(method);
    task(&instance, &[], "echo agent > mine && git add -A && git commit -qm agents").ok();
    sync(&instance).ok();
    std::fs::write(instance.work().join("users"), "user\n").unwrap();
    git(&instance, "add -A");
    git(&instance, "commit --quiet -m users");

    let outcome = task(&instance, &[], "cat users && echo again >> mine && git commit -qam more").ok();
    assert_eq!(outcome.stdout, "user\n");
    assert!(outcome.stderr.contains("code in /workspace is at your main"), "{}", outcome.stderr);
    assert_eq!(sync(&instance).ok().stderr, "main: 1 commit\n");
    assert_eq!(git(&instance, "log --format=%s"), "more\nusers\nagents\nfirst");

    instance
        .run([
            "agent",
            "exec",
            "box",
            "--",
            "sh",
            "-c",
            "echo other > other && git add -A && git commit -qm other",
        ])
        .ok();
    git(&instance, "commit --quiet --allow-empty -m ahead");
    let waits = sync(&instance);
    assert_eq!(waits.code, 7);
    assert_eq!(
        waits.stderr,
        "warning: main: 1 commit waits on branch palisade/box/main: your branch has 1 commit that the agent does not have\n  \
         next: git merge palisade/box/main\n"
    );
    let merged = without_archive(instance.run(["agent", "sync", "--merge", "box"])).ok().stderr;
    assert_eq!(merged, "main: merged 1 commit\nremoved branch palisade/box/main: you have its commits\n");
    assert_eq!(read(&instance.work(), "other"), "other\n");
}

fn work_that_the_user_has_committed_is_nothing_new(method: &'static str) {
    let instance = repository(method);
    task(&instance, &[], "echo loose > loose").ok();
    assert_eq!(sync(&instance).ok().stderr, "main: changes in loose\n");
    git(&instance, "add -A");
    git(&instance, "commit --quiet -m kept");
    assert_eq!(sync(&instance).ok().stderr, "nothing new\n");
    assert_eq!(git(&instance, "status --porcelain"), "");
}

fn a_repository_that_is_not_ready_is_refused_and_nothing_is_made(method: &'static str) {
    let instance = Instance::with_method(method);
    let refused = |expected: &str| {
        let outcome = task(&instance, &[], "true");
        assert_eq!(outcome.code, 7, "{}", outcome.stderr);
        assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("hint: "), "{}", outcome.stderr);
    };
    refused("is not in a git repository");
    git(&instance, "init --quiet --initial-branch=main");
    refused("has no commit yet");
    git(&instance, "-c user.name=A -c user.email=a@b commit --quiet --allow-empty -m first");
    git(&instance, "switch --quiet --detach");
    refused("a detached HEAD");
    git(&instance, "switch --quiet main");
    assert_eq!(instance.run(["ls", "--json"]).ok().json(), serde_json::json!([]));
    std::fs::write(instance.work().join("draft"), "").unwrap();
    refused("has 1 file that is not committed: draft");
}

fn env_files_go_in_and_stay_out_of_commits(method: &'static str) {
    let instance = repository(method);
    for (name, text) in
        [(".gitignore", ".env\n.env.*\n"), (".env", "KEY=canary-secret\n"), (".env.local", "A=1\n")]
    {
        std::fs::write(instance.work().join(name), text).unwrap();
    }
    std::os::unix::fs::symlink("/etc/passwd", instance.work().join(".env.link")).unwrap();
    git(&instance, "add .gitignore");
    git(&instance, "commit --quiet -m ignore");
    let outcome =
        task(&instance, &[], "rm .gitignore && git add -A && git commit -qm all && cat .env && git ls-files")
            .ok();
    assert_eq!(outcome.stdout, "KEY=canary-secret\ncode\n");
    assert!(outcome.stderr.contains("2 env files sent: .env, .env.local\n"), "{}", outcome.stderr);
    assert!(
        !outcome.stderr.contains("canary") && outcome.stderr.contains(".env.link is no plain file"),
        "{}",
        outcome.stderr
    );
}

fn two_agents_in_two_worktrees_do_not_mix(method: &'static str) {
    let instance = repository(method);
    for branch in ["left", "feature/right"] {
        let script = format!(
            "echo {branch} > side && git add -A && git commit -qm {branch} && git status --porcelain && pwd"
        );
        let outcome = task(&instance, &["--worktree", branch], &script).ok();
        assert!(outcome.stdout.trim_end().ends_with(&format!("/.worktrees/{branch}")), "{}", outcome.stdout);
    }
    let listed = instance.run(["agent", "worktree", "ls", "box"]).ok().stdout;
    assert_eq!(
        listed.lines().skip(1).map(|line| line.split(' ').next().unwrap()).collect::<Vec<_>>(),
        ["main", "feature/right", "left"]
    );
    instance.run(["agent", "sync", "box", "--all"]).ok();
    assert_eq!(git(&instance, "log --format=%s left"), "left\nfirst");
    assert_eq!(git(&instance, "log --format=%s feature/right"), "feature/right\nfirst");
    assert_eq!(git(&instance, "status --porcelain"), "");
    instance.run(["agent", "worktree", "rm", "left", "--name", "box"]).ok();
    let missing = instance.run(["agent", "sync", "box", "--worktree", "left"]);
    assert_eq!(missing.code, 6, "{}", missing.stderr);
}

fn three_sandboxes_of_one_repository_do_not_mix(method: &'static str) {
    let instance = repository(method);
    let names = ["one", "two", "three"];
    let mut running: Vec<_> = names
        .iter()
        .map(|name| {
            let script = format!("echo {name} > {name} && git add -A && git commit -qm {name}");
            let arguments = ["agent", "start", "--agent", "shell", "--name", name, "--task", &script];
            instance.command(arguments).stdout(std::process::Stdio::null()).spawn().unwrap()
        })
        .collect();
    assert!(running.iter_mut().all(|child| child.wait().unwrap().success()));
    let which = instance.run(["agent", "sync"]);
    assert_eq!(which.code, 2);
    assert!(which.stderr.contains("several agents work on"), "{}", which.stderr);
    for name in names {
        instance.run(["agent", "sync", "--merge", name]).ok();
    }
    assert_eq!(git(&instance, "ls-files"), "code\none\nthree\ntwo");
    let other = Instance::with_method(method);
    git(&other, "init --quiet");
    let own = instance.run(["agent", "ls", "--json"]).ok().json();
    assert_eq!(own.as_array().unwrap().len(), 3);
}

fn an_agent_left_running_is_found_again(method: &'static str) {
    let instance = repository(method);
    let arguments = [
        "agent",
        "start",
        "--agent",
        "shell",
        "--name",
        "box",
        "--detach",
        "--task",
        "echo at work; exec sleep 1000",
    ];
    let outcome = instance.run(arguments).ok();
    assert!(outcome.stderr.contains("palisade attach box --session agent"), "{}", outcome.stderr);
    let sessions = instance.run(["sessions", "box", "--json"]).ok().json();
    assert_eq!(
        (sessions[0]["name"].as_str(), sessions[0]["state"].as_str()),
        (Some("agent"), Some("running"))
    );
    let again = instance.run(arguments);
    assert_eq!(again.code, 7, "{}", again.stderr);
    assert!(again.stderr.contains("an agent is working there already"), "{}", again.stderr);
    instance.run(["agent", "stop", "box"]).ok();
}

/// The bench does the same with 200 MB.
fn a_thousand_commits_go_in_and_one_comes_back(method: &'static str) {
    let instance = repository(method);
    let mut history = String::new();
    for number in 1..1000 {
        let from = if number == 1 { "from refs/heads/main^0\n" } else { "" };
        history += &format!(
            "commit refs/heads/main\ncommitter Ada <ada@example.org> {} +0000\ndata 4\nmore\n{from}\
             M 644 inline many/{number}\ndata 4\n{number:04}\n\n",
            1_700_000_000 + number
        );
    }
    std::fs::write(instance.home().join("history"), history).unwrap();
    let import = Command::new("git")
        .args(["fast-import", "--quiet"])
        .current_dir(instance.work())
        .stdin(std::fs::File::open(instance.home().join("history")).unwrap())
        .status();
    assert!(import.unwrap().success());
    git(&instance, "reset --quiet --hard");

    let outcome = task(
        &instance,
        &[],
        "git rev-list --count HEAD; ls many | wc -l; git commit -q --allow-empty -m last",
    );
    assert_eq!(outcome.ok().stdout, "1000\n999\n");
    assert_eq!(sync(&instance).ok().stderr, "main: 1 commit\n");
    assert_eq!(git(&instance, "rev-list --count main"), "1001");
}

fn the_demo_agent_mends_a_bug_and_says_that_it_is_a_script(method: &'static str) {
    let instance = repository(method);
    std::fs::write(instance.work().join("greet.sh"), "echo \"Hello, $2!\"\n").unwrap();
    std::fs::write(instance.work().join("test.sh"), "[ \"$(sh greet.sh you)\" = 'Hello, you!' ]\n").unwrap();
    git(&instance, "add -A");
    git(&instance, "commit --quiet -m bug");
    let words = ["agent", "start", "--agent", "demo", "--name", "box", "--task", "Greet the right one"];
    let said = instance.run(words).ok().stdout;
    assert!(said.starts_with("demo agent: a script, not a model;"), "{said}");
    assert_eq!(sync(&instance).ok().stderr, "main: 1 commit\nmain: changes in NOTES.md\n");
    assert_eq!(git(&instance, "log -1 --format=%an:%s"), "Ada:Greet the right one");
    assert_eq!(read(&instance.work(), "greet.sh"), "echo \"Hello, $1!\"\n");
}

fn changed_files_that_run_by_themselves_are_reported(method: &'static str) {
    let instance = repository(method);
    let script = "mkdir .vscode .husky && echo x > .vscode/tasks.json && echo x > .husky/pre-commit && echo x > .envrc \
                  && ln -s /etc/passwd link && echo y > code && git add -A && git commit -qm autorun";
    task(&instance, &[], script).ok();
    let told = sync(&instance).ok().stderr;
    assert_eq!(
        told,
        "main: 1 commit\n\
         warning: main: 4 of the changed files run by themselves; look at them first\n  \
         .envrc runs when you enter the directory\n  \
         .husky/pre-commit runs when you use git\n  \
         .vscode/tasks.json may run when an editor opens the directory\n  \
         link is a link that leads out of the repository\n"
    );
    task(&instance, &[], "echo z > .envrc").ok();
    let json = instance.run(["agent", "sync", "box", "--json"]).ok().json();
    let branch = &json["branches"][0];
    assert_eq!(
        *branch,
        serde_json::json!({
            "name": "main", "commits": "same", "count": 0, "dropped": 0, "from": null, "to": null,
            "created_branch": null, "laid": [".envrc"], "waits": null, "waiting_branch": null,
            "autorun": [{ "path": ".envrc", "why": "runs when you enter the directory" }],
        })
    );
    assert_eq!(
        (&json["trees"][0]["written"], &json["needs_user"]),
        (&serde_json::json!([".envrc"]), &serde_json::json!(false))
    );
}

fn a_pack_larger_than_allowed_is_given_up(method: &'static str) {
    let instance = repository(method);
    task(&instance, &[], "head -c 3000000 /dev/urandom > noise && git add -A && git commit -qm noise").ok();
    std::fs::create_dir_all(instance.user_config().parent().unwrap()).unwrap();
    std::fs::write(instance.user_config(), "[agent]\nmax_fetch = '1M'\n").unwrap();
    let outcome = sync(&instance);
    assert_eq!(outcome.code, 1);
    assert!(outcome.stderr.contains("raise agent.max_fetch"), "{}", outcome.stderr);
    let refs = git(&instance, "for-each-ref --format=%(refname)");
    assert!(
        refs.lines().all(|name| name == "refs/heads/main" || name.starts_with("refs/palisade/base/")),
        "{refs}"
    );
    std::fs::remove_file(instance.user_config()).unwrap();
    sync(&instance).ok();
    assert_eq!(git(&instance, "log -1 --format=%s"), "noise");
}

/// Pack programs run inside, so a path there is a path there. The control is git that works in the sandbox's directory.
fn an_alternate_inside_does_not_lead_to_the_host(method: &'static str) {
    if method == "noop" {
        // Inside is the host.
        return;
    }
    let instance = repository(method);
    let secret = instance.home().join("secret");
    git(&instance, &format!("init --quiet {}", secret.display()));
    std::fs::write(secret.join("key"), "canary\n").unwrap();
    git(&instance, &format!("-C {} add -A", secret.display()));
    git(&instance, &format!("-C {} commit --quiet -m secret", secret.display()));
    let commit = git(&instance, &format!("-C {} rev-parse HEAD", secret.display()));
    let objects = secret.join(".git/objects").display().to_string();
    let script = format!(
        "echo {objects} > .git/objects/info/alternates && echo {commit} > .git/refs/heads/stolen; exit 0"
    );
    task(&instance, &[], &script).ok();
    // The control needs a host directory that holds the workspace; a container's is in a volume of the engine's.
    if method == "bwrap" {
        let plain = Command::new("git")
            .args(["-c", "safe.directory=*", "--git-dir"])
            .arg(workspace(&instance).join(".git"))
            .args(["show", "stolen:key"])
            .env("HOME", instance.home())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&plain.stdout), "canary\n", "the control");
    }
    instance.run(["agent", "sync", "box", "--all"]);
    let found = git(&instance, "for-each-ref --format=%(refname)");
    assert!(!found.contains("stolen"), "{found}");
    git(&instance, "fsck");
}

/// Where the sandbox's workspace lies on the host.
fn workspace(instance: &Instance) -> std::path::PathBuf {
    let sandbox = std::fs::read_dir(instance.state().join("sandboxes")).unwrap().next().unwrap().unwrap();
    sandbox.path().join("workspace")
}
