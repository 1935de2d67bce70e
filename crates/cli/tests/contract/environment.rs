//! Sandboxes made from an environment: the built-in `bash`, which every method can have.

use crate::agent::repository;
use crate::support::{inspect, said};
use palisade_testing::{Instance, Outcome, Pty};

contracts!(
    a_run_starts_the_command_of_its_environment,
    a_sandbox_is_known_by_its_environment_and_opens_its_shell,
    a_run_that_takes_too_long_is_ended,
    an_agent_works_in_its_environment_and_not_in_another,
);

fn a_run_starts_the_command_of_its_environment(method: &'static str) {
    let instance = Instance::with_method(method);
    let own =
        instance.run_with_input(["run", "--environment", "bash"], b"echo \"$BASH_VERSION\" | cut -c 1\n");
    assert!(own.stdout.trim().parse::<u32>().is_ok() && own.code == 0, "{own:?}");
    let given = instance.run(["run", "--environment", "bash", "--", "sh", "-c", "git --version; exit 7"]);
    assert!(given.stdout.starts_with("git version ") && given.code == 7, "{given:?}");
}

fn a_sandbox_is_known_by_its_environment_and_opens_its_shell(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.run(["create", "--start", "--environment", "bash", "box"]).ok();
    let told = inspect(&instance, "box");
    assert_eq!(
        (&told["environment"], &told["foundation"]["image"]),
        (&"bash".into(), &"palisade-bash:latest".into())
    );
    let mut terminal = Pty::start(&mut instance.command(["shell", "box"]), 24, 80);
    // The shell says it in two parts, so that what was typed is not taken for the answer.
    terminal.type_keys("echo shell:$0 in:${PWD##*/}\r");
    terminal.wait_for("shell:/bin/bash in:workspace");
    terminal.type_keys("exit 3\r");
    assert_eq!(terminal.wait(), 3);
}

fn a_run_that_takes_too_long_is_ended(method: &'static str) {
    let instance = Instance::with_method(method);
    let ended = instance.run(["run", "--timeout", "2s", "--", "sh", "-c", "sleep 1000"]);
    let told =
        "error: the command took longer than 2s and was ended\nhint: give it more time with --timeout\n";
    assert_eq!((said(&ended).as_str(), ended.code), (told, 8));
}

fn an_agent_works_in_its_environment_and_not_in_another(method: &'static str) {
    let instance = repository(method);
    let start = |options: &[&str]| -> Outcome {
        let words = ["agent", "start", "--agent", "shell", "--name", "box", "--task", "true"];
        instance.run(words.iter().chain(options))
    };
    start(&["--environment", "bash"]).ok();
    assert_eq!(inspect(&instance, "box")["environment"], "bash");
    start(&[]).ok();
    let other = start(&["--environment", "python"]);
    let told = "error: sandbox 'box' was made from environment 'bash', not from 'python'\n\
                hint: make a new one with --fresh, or another one with --name\n";
    assert!(said(&other).ends_with(told) && other.code == 7, "{other:?}");
}
