//! Several agents at once, each with its own files, commits, sessions and refs.

use crate::agent::{git, repository};
use palisade_testing::{Instance, Outcome, eventually};
use std::process::{Child, Stdio};

contracts!(agents_in_worktrees_at_once_do_not_mix, three_sandboxes_of_one_repository_at_once_do_not_mix,);

const COMMITS: usize = 5;

/// Waits until so many agents are at work in this sandbox, commits files of its own, and stays.
fn script(own: &str, agents: usize) -> String {
    format!(
        "mkdir -p ~/meet && touch ~/meet/{own} && until [ $(ls ~/meet | wc -l) = {agents} ]; do sleep 0.02; done
         for n in $(seq {COMMITS}); do echo $n > {own}-$n && git add -A && git commit -qm \"{own} $n\" || exit; done
         touch ~/done-{own}; exec sleep 1000"
    )
}

/// The files of a tree in which these agents worked.
fn files(owns: &[&str]) -> String {
    let mut names: Vec<String> = vec!["code".into()];
    names.extend(owns.iter().flat_map(|own| (1..=COMMITS).map(move |n| format!("{own}-{n}"))));
    names.sort();
    names.join("\n")
}

#[track_caller]
fn wait_for_work(instance: &Instance, sandbox: &str, own: &str) {
    let done = format!("test -e ~/done-{own}");
    eventually("the agent has done its work", || instance.shell(sandbox, &done).code == 0);
}

fn at_once<const N: usize>(commands: [std::process::Command; N]) {
    let spawn = |mut command: std::process::Command| -> Child {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let started = commands.map(spawn);
    for child in started {
        Outcome::from(child.wait_with_output().unwrap()).ok();
    }
}

fn agents_in_worktrees_at_once_do_not_mix(method: &'static str) {
    let instance = repository(method);
    let sides = ["main", "left", "right"];
    for side in sides {
        let task = script(side, sides.len());
        let mut words = vec!["agent", "start", "--agent", "shell", "--name", "box", "--detach"];
        if side != "main" {
            words.extend(["--worktree", side]);
        }
        words.extend(["--task", &task]);
        instance.run(words).ok();
    }
    sides.iter().for_each(|side| wait_for_work(&instance, "box", side));
    let sessions = instance.run(["sessions", "box", "--json"]).ok().json();
    let name_and_state = |session: &serde_json::Value| {
        (session["name"].as_str().unwrap().to_owned(), session["state"].as_str().unwrap().to_owned())
    };
    let sessions: Vec<_> = sessions.as_array().unwrap().iter().map(name_and_state).collect();
    let running = |name: &str| (name.to_owned(), "running".to_owned());
    assert_eq!(sessions, [running("agent"), running("agent-left"), running("agent-right")]);

    // One at a time is for the repository to see to: asked for together, all of them get there.
    let sync = |which: &[&str]| instance.command([&["agent", "sync", "box"], which].concat());
    at_once([sync(&[]), sync(&["--worktree", "left"]), sync(&["--worktree", "right"]), sync(&["--all"])]);
    for side in sides {
        let subjects: Vec<String> = (1..=COMMITS).map(|n| format!("{side} {n}")).collect();
        let range = format!("log --reverse --format=%s main~{COMMITS}..{side}");
        assert_eq!(git(&instance, &range), subjects.join("\n"));
        assert_eq!(git(&instance, &format!("ls-tree --name-only {side}")), files(&[side]));
    }
    assert_eq!(git(&instance, "status --porcelain"), "");
}

fn three_sandboxes_of_one_repository_at_once_do_not_mix(method: &'static str) {
    let instance = repository(method);
    let names = ["one", "two", "three"];
    at_once(names.map(|name| {
        let task = script(name, 1);
        let words = ["agent", "start", "--agent", "shell", "--name", name, "--detach", "--task", &task];
        instance.command(words)
    }));
    for name in names {
        wait_for_work(&instance, name, name);
        assert_eq!(instance.shell(name, "ls").ok().stdout.trim_end(), files(&[name]));
    }
    at_once(names.map(|name| instance.command(["agent", "sync", "--merge", name])));
    assert_eq!(git(&instance, "ls-tree --name-only main"), files(&names));
    assert_eq!(git(&instance, "status --porcelain"), "");
    for name in names {
        let inside =
            instance.run(["agent", "exec", name, "--", "git", "ls-tree", "--name-only", "main"]).ok().stdout;
        assert_eq!(inside.trim_end(), files(&[name]));
        let sessions = instance.run(["sessions", name, "--json"]).ok().json();
        assert_eq!(sessions.as_array().unwrap().len(), 1, "{sessions}");
    }
    git(&instance, "fsck --strict");
}
