//! Real agents from npm at work, from a repository and back. Only the model is a stand-in: a scripted one on the host's
//! loopback, which the sandbox reaches through `--host-port` and no other way.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

use palisade_testing::model::{DONE, Model};
use palisade_testing::{Instance, Outcome, Pty, agents, requires};
use std::process::Command;

const WORK: &str =
    "echo by the agent > made && git add -A && git commit -qm 'made by the agent' && echo loose > loose";

/// A repository, and an agent that is installed as `palisade agent install` would.
fn scene(agent: &str) -> Instance {
    let instance = Instance::with_method("bwrap");
    std::fs::write(instance.home().join(".gitconfig"), "[user]\nname = Ada\nemail = ada@example.org\n")
        .unwrap();
    for line in ["init --quiet --initial-branch=main", "commit --quiet --allow-empty -m first"] {
        git(&instance, line);
    }
    let place = instance.home().join(".local/share/palisade/agents").join(agent);
    std::fs::create_dir_all(&place).unwrap();
    std::os::unix::fs::symlink(agents().join("node_modules"), place.join("node_modules")).unwrap();
    instance
}

#[track_caller]
fn git(instance: &Instance, line: &str) -> String {
    let mut command = Command::new("git");
    command.args(line.split(' ')).current_dir(instance.work()).env("HOME", instance.home());
    let outcome = Outcome::from(command.output().unwrap()).ok();
    outcome.stdout.trim_end().to_owned()
}

fn start(instance: &Instance, agent: &str, model: &Model, rest: &[&str]) -> Command {
    let port = model.port().to_string();
    let words = ["agent", "start", "--agent", agent, "--name", "box", "--host-port", &port];
    let mut command = instance.command(words.iter().chain(rest));
    command
        .env("ANTHROPIC_BASE_URL", format!("http://127.0.0.1:{port}"))
        .env("ANTHROPIC_API_KEY", "sk-ant-scripted-0123456789")
        .env("CODEX_API_KEY", "sk-scripted")
        .env("GOOGLE_GEMINI_BASE_URL", format!("http://127.0.0.1:{port}"))
        .env("GEMINI_API_KEY", "scripted");
    command
}

/// Codex takes the address of another model from its settings only, so a user who has one has a profile of his own.
fn profile_for(instance: &Instance, model: &Model) {
    let built_in = include_str!("../../agents/profiles/codex.toml");
    let (without_settings, _) = built_in.split_once("[[home]]").unwrap();
    let own = format!(
        "{without_settings}[[home]]\npath = \".codex/config.toml\"\ntext = '''\n\
         check_for_update_on_startup = false\nmodel_provider = \"scripted\"\nmodel = \"gpt-5\"\n\
         [model_providers.scripted]\nname = \"scripted\"\nbase_url = \"http://127.0.0.1:{}/v1\"\n\
         env_key = \"CODEX_API_KEY\"\nwire_api = \"responses\"\n\
         [projects.\"/workspace\"]\ntrust_level = \"trusted\"\n'''\n",
        model.port()
    );
    let place = instance.user_config().with_file_name("agents");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("codex.toml"), own).unwrap();
}

/// The work of one task is on the host after a sync.
#[track_caller]
fn assert_came_back(instance: &Instance) {
    let synced = instance.run(["agent", "sync", "box"]).ok();
    assert!(synced.stderr.starts_with("main: 1 commit\nmain: changes in loose\n"), "{}", synced.stderr);
    assert_eq!(git(instance, "log --format=%an:%s -n 1"), "Ada:made by the agent");
    assert_eq!(git(instance, "status --porcelain"), "?? loose");
}

/// Three rounds of the daily loop: the user commits what was brought, the agent starts from there, and its next work comes
/// back.
#[track_caller]
fn assert_further_rounds(instance: &Instance, agent: &str, model: &Model) {
    for round in ["two", "three"] {
        std::fs::write(instance.work().join("users"), round).unwrap();
        git(instance, "add -A");
        git(instance, &format!("commit --quiet -m users-{round}"));
        model.script(&format!("git log -1 --format=%s > seen-{round} && cat users > copied-{round}"));
        // With the conversation from before: the model sees what was said then.
        let before = model.asked();
        let outcome =
            Instance::finish(&mut start(instance, agent, model, &["--task", "go on", "--resume"])).ok();
        assert!(outcome.stderr.contains("code in /workspace is at your main"), "{}", outcome.stderr);
        assert!(model.asked() > before);
        assert!(model.heard("make a file"), "the conversation goes on");
        let synced = instance.run(["agent", "sync", "box"]).ok();
        assert!(
            synced.stderr.starts_with(&format!("main: changes in copied-{round}, seen-{round}\n")),
            "{}",
            synced.stderr
        );
        let read =
            |name: &str| std::fs::read_to_string(instance.work().join(format!("{name}-{round}"))).unwrap();
        assert_eq!(
            (read("seen").trim_end(), read("copied").as_str()),
            (format!("users-{round}").as_str(), round)
        );
    }
}

#[test]
fn claude_works_without_a_question_through_three_rounds() {
    requires!(bwrap, git, agents);
    let instance = scene("claude");
    let model = Model::start(WORK);
    let outcome = Instance::finish(&mut start(&instance, "claude", &model, &["--task", "make a file"])).ok();
    assert_eq!(outcome.stdout.trim_end(), DONE);
    assert!(model.asked() >= 2, "it asked {} times", model.asked());
    assert_came_back(&instance);
    assert_further_rounds(&instance, "claude", &model);
}

#[test]
fn codex_works_without_a_question_through_three_rounds() {
    requires!(bwrap, git, agents);
    let instance = scene("codex");
    let model = Model::start(WORK);
    profile_for(&instance, &model);
    let outcome = Instance::finish(&mut start(&instance, "codex", &model, &["--task", "make a file"])).ok();
    assert_eq!(outcome.stdout.trim_end(), DONE);
    assert_came_back(&instance);
    assert_further_rounds(&instance, "codex", &model);
}

#[test]
fn an_agent_that_is_not_installed_is_told_with_the_command_that_installs_it() {
    requires!(bwrap, git);
    let instance = scene("other");
    let outcome = instance.run(["agent", "start", "--agent", "gemini", "--task", "x"]);
    assert_eq!(outcome.code, 4, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("hint: install it with: palisade agent install gemini\n"),
        "{}",
        outcome.stderr
    );
    assert_eq!(instance.run(["ls", "--json"]).ok().json(), serde_json::json!([]));
}

/// The agent's own screen, on which what is typed appears where a task is typed, and in no dialog.
fn at_its_prompt(command: &mut Command, sign: &str) -> Pty {
    let mut terminal = Pty::start(command, 40, 120);
    terminal.wait_for(sign);
    // One character: several that come at once are a paste to some agents, and the return key then a part of it; and
    // one that is nowhere else on their screens.
    terminal.type_keys("§");
    terminal.wait_for("§");
    terminal
}

fn detach(mut terminal: Pty) {
    terminal.type_keys("\x1cd");
    terminal.wait_for("goes on; come back with");
}

/// On a terminal: the agent's own screen, the task typed into it, and no dialog on the way.
#[track_caller]
fn assert_asks_nothing_on_a_terminal(instance: &Instance, agent: &str, model: &Model, prompt: &str) {
    let mut terminal = at_its_prompt(&mut start(instance, agent, model, &[]), prompt);
    terminal.type_keys("\r");
    terminal.wait_for("scripted");
    detach(terminal);
    assert_came_back(instance);
}

#[test]
fn claude_on_a_terminal_asks_nothing_before_its_prompt() {
    requires!(bwrap, git, agents);
    let model = Model::start(WORK);
    assert_asks_nothing_on_a_terminal(&scene("claude"), "claude", &model, "bypass permissions on");
}

#[test]
fn codex_on_a_terminal_asks_nothing_before_its_prompt() {
    requires!(bwrap, git, agents);
    let instance = scene("codex");
    let model = Model::start(WORK);
    profile_for(&instance, &model);
    assert_asks_nothing_on_a_terminal(&instance, "codex", &model, "YOLO mode");
}

/// With the built-in profile and either key; its maker's model is not to be had here, so it is asked for nothing.
#[test]
fn codex_on_a_terminal_takes_a_key_instead_of_asking_how_to_sign_in() {
    requires!(bwrap, git, agents);
    let model = Model::start(WORK);
    for key in ["CODEX_API_KEY", "OPENAI_API_KEY"] {
        let instance = scene("codex");
        let mut command = start(&instance, "codex", &model, &[]);
        command.env_remove("CODEX_API_KEY").env(key, "sk-scripted");
        detach(at_its_prompt(&mut command, "YOLO mode"));
    }
}

/// Its start screen only: what it asks a model for is not scripted.
#[test]
fn gemini_on_a_terminal_asks_nothing_before_its_prompt() {
    requires!(bwrap, git, agents);
    let instance = scene("gemini");
    let model = Model::start(WORK);
    let mut command = start(&instance, "gemini", &model, &[]);
    detach(at_its_prompt(&mut command, "Authenticated with gemini-api-key"));
}
