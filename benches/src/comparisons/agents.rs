//! How long it takes until an agent is there, beside what the same takes without a sandbox.

use crate::comparison::{Probe, Result, Sides};
use crate::failure::Failure;
use crate::generated::Kind;
use crate::program::Program;
use crate::pty::OnTerminal;
use crate::repository::Repository;
use crate::scene::{Removed, Scene};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What Claude Code shows below its prompt, once it takes a task.
const PROMPT: &str = "bypass permissions on";
/// Ctrl-C twice. One that is killed instead takes it for a crash, and draws its next screen in another way.
const LEAVE: &[u8] = b"\x03\x03";

/// A sandbox that exists and is stopped, from `agent start` to the agent's prompt; against the same program with the
/// same settings on the host, to the same prompt.
pub(super) fn start_against_the_agent(scene: &Scene) -> Result<Sides> {
    let repository = Repository::make(scene, "start")?;
    let claude = install(scene)?;
    let palisade = without_model(scene.palisade()?.at(repository.path()));
    let start = palisade.clone().args(["agent", "start", "--agent", "claude", "--name", "prompt"]);
    let stop = palisade.clone().args(["stop", "prompt"]);
    let sandbox = Removed::new(palisade, "prompt");
    start.clone().args(["--detach"]).check()?;
    stop.check()?;
    let home = home_like_inside(scene, repository.path())?;
    // On the host it wants to be told that root is no accident.
    let alone = without_model(scene.program(&claude).at(repository.path()))
        .args(["--dangerously-skip-permissions"])
        .env("HOME", home)
        .env("IS_SANDBOX", "1")
        .env("DISABLE_AUTOUPDATER", "1")
        .env("DISABLE_TELEMETRY", "1")
        .env("DISABLE_ERROR_REPORTING", "1")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
    Ok(Sides {
        ours: Box::new(move || {
            let _there = &sandbox;
            let took = time_to_prompt(&start)?;
            stop.check()?;
            Ok(took)
        }),
        peer: Some(Box::new(move || time_to_prompt(&alone))),
    })
}

/// A new sandbox, from `agent start` to the agent's prompt, in whichever repository of the bench it takes longest.
pub(super) fn slowest_start(scene: &Scene) -> Result<Sides> {
    install(scene)?;
    let mut starts = Vec::new();
    for kind in Kind::ALL {
        let repository = Repository::generated(scene, kind)?;
        starts.push(without_model(scene.palisade()?.at(repository.path())));
    }
    let ours: Probe = Box::new(move || {
        let mut longest: f64 = 0.0;
        for palisade in &starts {
            let _goes = Removed::new(palisade.clone(), "slowest");
            let start = palisade.clone().args(["agent", "start", "--agent", "claude", "--name", "slowest"]);
            longest = longest.max(time_to_prompt(&start)?);
        }
        Ok(longest)
    });
    Ok(Sides { ours, peer: None })
}

/// How long a program takes to the agent's prompt, in milliseconds. Then it is left.
fn time_to_prompt(program: &Program) -> Result<f64> {
    let begin = Instant::now();
    let mut terminal = OnTerminal::start(program)?;
    terminal.wait_for(PROMPT)?;
    let took = begin.elapsed();
    terminal.end_with(LEAVE)?;
    Ok(took.as_secs_f64() * 1000.0)
}

/// The address of a model at which no server listens: only steps that need no model are measured.
fn without_model(program: Program) -> Program {
    program.env("ANTHROPIC_API_KEY", "sk-ant-bench").env("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
}

/// Lays Claude Code as `palisade agent install` does, unless it is there; its program on the host.
fn install(scene: &Scene) -> Result<PathBuf> {
    let claude = scene.agents().join("node_modules/.bin/claude");
    if !claude.exists() {
        return Err(Failure::Missing { path: claude, fix: "run `scripts/setup bench`" });
    }
    let place = scene.path(".local/share/palisade/agents/claude");
    std::fs::create_dir_all(&place).map_err(Failure::io(format!("make {}", place.display())))?;
    match std::os::unix::fs::symlink(scene.agents().join("node_modules"), place.join("node_modules")) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(Failure::io("link the agents")(error))
        }
        _ => Ok(claude),
    }
}

/// The settings that a sandbox's home has, for a home on the host that works in `repository`.
fn home_like_inside(scene: &Scene, repository: &Path) -> Result<PathBuf> {
    let home = scene.path("alone");
    let settings = home.join(".claude");
    std::fs::create_dir_all(&settings).map_err(Failure::io("make a home"))?;
    let project = r#"{"hasTrustDialogAccepted":true,"hasCompletedProjectOnboarding":true}"#;
    let state = format!(
        r#"{{"hasCompletedOnboarding":true,"bypassPermissionsModeAccepted":true,"customApiKeyResponses":{{"approved":["sk-ant-bench"],"rejected":[]}},"projects":{{"{}":{project}}}}}"#,
        repository.display()
    );
    std::fs::write(home.join(".claude.json"), state).map_err(Failure::io("write its settings"))?;
    let quiet = r#"{"skipDangerousModePermissionPrompt":true}"#;
    std::fs::write(settings.join("settings.json"), quiet).map_err(Failure::io("write its settings"))?;
    Ok(home)
}
