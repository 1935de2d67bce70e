//! The real command lines of coding agents, from npm, behind a wrapper: as a service calls them, and on a terminal.
//! There is no network and no key inside, so the first screen is as far as they come.

use crate::support::{call, ended};
use palisade_testing::{Instance, Pty, agents, requires};
use rustix::process::Signal;
use std::path::PathBuf;

const ROWS: u16 = 40;
const COLUMNS: u16 = 120;

fn wrapped(instance: &Instance, agent: &str) -> PathBuf {
    let command = agents().join("node_modules/.bin").join(agent).display().to_string();
    let wrapper = crate::support::wrap(instance, &["--", &command]);
    assert_eq!(wrapper.file_name().unwrap(), agent);
    wrapper
}

/// The version that scripts/setup installed.
fn version(package: &str) -> String {
    let manifest = agents().join("node_modules").join(package).join("package.json");
    let manifest: serde_json::Value = serde_json::from_slice(&std::fs::read(manifest).unwrap()).unwrap();
    manifest["version"].as_str().unwrap().to_owned()
}

/// What a person sees: the rows of the terminal, without the blanks at their ends.
fn shown(terminal: &Pty) -> String {
    let mut screen = vt100::Parser::new(ROWS, COLUMNS, 0);
    screen.process(terminal.screen().as_bytes());
    screen.screen().rows(0, COLUMNS).map(|row| format!("{}\n", row.trim_end())).collect()
}

#[track_caller]
fn assert_shows(terminal: &Pty, lines: &[&str]) {
    let screen = shown(terminal);
    for line in lines {
        assert!(screen.contains(line), "{line:?} is not on the screen:\n{screen}");
    }
}

#[test]
fn codex_tells_its_version_and_help() {
    requires!(bwrap, agents);
    let instance = Instance::with_method("bwrap");
    let codex = wrapped(&instance, "codex");
    let told = ended(&codex, &["--version"]).ok();
    assert_eq!(told.stdout, format!("codex-cli {}\n", version("@openai/codex")));
    let help = ended(&codex, &["--help"]).ok().stdout;
    assert!(help.contains("Usage: codex [OPTIONS] [PROMPT]"), "{help}");
    assert_eq!(ended(&codex, &["--no-such-option"]).code, 2);
}

#[test]
fn claude_tells_its_version_and_help() {
    requires!(bwrap, agents);
    let instance = Instance::with_method("bwrap");
    let claude = wrapped(&instance, "claude");
    let told = ended(&claude, &["--version"]).ok();
    assert_eq!(told.stdout, format!("{} (Claude Code)\n", version("@anthropic-ai/claude-code")));
    let help = ended(&claude, &["--help"]).ok().stdout;
    assert!(help.starts_with("Usage: claude [options] [command] [prompt]\n"), "{help}");
    assert_eq!(ended(&claude, &["--no-such-option"]).code, 1);
}

#[test]
fn codex_draws_its_first_screen_on_a_terminal_and_ends_on_a_signal() {
    requires!(bwrap, agents);
    let instance = Instance::with_method("bwrap");
    let codex = wrapped(&instance, "codex");
    let mut terminal = Pty::start(call(&codex, &[]).env("TERM", "xterm-256color"), ROWS, COLUMNS);
    terminal.wait_for("to continue");
    assert_shows(
        &terminal,
        &["Welcome to Codex, OpenAI's command-line coding agent", "> 1. Sign in with ChatGPT"],
    );
    terminal.signal(Signal::TERM);
    assert_eq!(terminal.wait(), 143);
    assert!(terminal.is_as_before());
}

/// It looks for its service before it asks anything, and finds that there is no network.
#[test]
fn claude_draws_its_first_screen_on_a_terminal_and_finds_no_network() {
    requires!(bwrap, agents);
    let instance = Instance::with_method("bwrap");
    let claude = wrapped(&instance, "claude");
    let mut terminal = Pty::start(call(&claude, &[]).env("TERM", "xterm-256color"), ROWS, COLUMNS);
    assert_eq!(terminal.wait(), 1);
    let welcome = format!("Welcome to Claude Code v{}", version("@anthropic-ai/claude-code"));
    assert_shows(&terminal, &[&welcome, "Failed to connect to api.anthropic.com: EAI_AGAIN"]);
    assert!(terminal.is_as_before());
}
