//! Agents: how long it takes until one is there, and until its work is home, beside what the same takes without a
//! sandbox.

use crate::comparison::{Probe, Result, Sides};
use crate::failure::Failure;
use crate::program::Program;
use crate::pty::OnTerminal;
use crate::repository::{Repository, Work};
use crate::scene::{Removed, Scene};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What Claude Code shows below its prompt, once it takes a task.
const PROMPT: &str = "bypass permissions on";
/// Ctrl-C twice. One that is killed instead takes it for a crash, and draws its next screen in another way.
const LEAVE: &[u8] = b"\x03\x03";
/// Commits of the large repository, and what each adds, incompressible.
const COMMITS: usize = 1000;
const COMMIT_BYTES: usize = 200 * 1024;

/// A sandbox that exists and is stopped, from `agent start` to the agent's prompt; against the same program with the
/// same settings on the host, to the same prompt.
pub(super) fn start_against_the_agent(scene: &Scene) -> Result<Sides> {
    let repository = Repository::make(scene, "start")?;
    let claude = scene.agents().join("node_modules/.bin/claude");
    if !claude.exists() {
        return Err(Failure::Missing { path: claude, fix: "run `scripts/setup bench`" });
    }
    install(scene)?;
    // Nobody listens there: only what needs no model is measured.
    let environment = |program: Program| {
        program.env("ANTHROPIC_API_KEY", "sk-ant-bench").env("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    };
    let palisade = environment(scene.palisade()?.at(repository.path()));
    let start = palisade.clone().args(["agent", "start", "--agent", "claude", "--name", "prompt"]);
    let stop = palisade.clone().args(["stop", "prompt"]);
    let sandbox = Removed::new(palisade, "prompt");
    start.clone().args(["--detach"]).check()?;
    stop.check()?;
    let home = home_like_inside(scene, repository.path())?;
    // On the host it wants to be told that root is no accident.
    let alone = environment(scene.program(&claude).at(repository.path()))
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
            let begin = Instant::now();
            let mut terminal = OnTerminal::start(&start)?;
            terminal.wait_for(PROMPT)?;
            let took = begin.elapsed();
            terminal.end_with(LEAVE)?;
            stop.check()?;
            Ok(took.as_secs_f64() * 1000.0)
        }),
        peer: Some(Box::new(move || {
            let begin = Instant::now();
            let mut terminal = OnTerminal::start(&alone)?;
            terminal.wait_for(PROMPT)?;
            let took = begin.elapsed();
            terminal.end_with(LEAVE)?;
            Ok(took.as_secs_f64() * 1000.0)
        })),
    })
}

/// As `palisade agent install` lays it.
fn install(scene: &Scene) -> Result<()> {
    let place = scene.path(".local/share/palisade/agents/claude");
    std::fs::create_dir_all(&place).map_err(Failure::io(format!("make {}", place.display())))?;
    std::os::unix::fs::symlink(scene.agents().join("node_modules"), place.join("node_modules"))
        .map_err(Failure::io("link the agents"))
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

/// `agent sync` of one commit into a clean working tree; against `git fetch` of such a commit from a clone beside it.
pub(super) fn sync_against_fetch(scene: &Scene) -> Result<Sides> {
    let mut work = Work::start(scene, "sync")?;
    let origin = Repository::make(scene, "origin")?;
    let clone = origin.clone_to(scene, "clone")?;
    let fetch = scene.git()?.at(&clone).args(["fetch", "--quiet"]);
    let mut count = 0;
    Ok(Sides {
        ours: Box::new(move || {
            work.commit()?;
            work.sync()
        }),
        peer: Some(Box::new(move || {
            count += 1;
            origin.commit(&count.to_string())?;
            fetch.time()
        })),
    })
}

/// `agent sync` of changes that are not committed, one file changed and one new.
pub(super) fn sync_uncommitted(scene: &Scene) -> Result<Sides> {
    let mut work = Work::start(scene, "loose")?;
    let ours: Probe = Box::new(move || {
        work.change()?;
        work.sync()
    });
    Ok(Sides { ours, peer: None })
}

/// A whole `agent start` of a repository of a thousand commits and 200 MB in a new sandbox; against `git clone` of it
/// through git's own transport.
pub(super) fn large_against_clone(scene: &Scene) -> Result<Sides> {
    let repository = Repository::large(scene, "large", COMMITS, COMMIT_BYTES)?;
    let palisade = scene.palisade()?.at(repository.path());
    let words = ["agent", "start", "--agent", "shell", "--name", "large", "--task", "git log -1"];
    let start = palisade.clone().args(words);
    let address = format!("file://{}", repository.path().display());
    let copy = scene.path("copy");
    let clone = scene.git()?.args(["clone", "--quiet", &address]).args([&copy]);
    Ok(Sides {
        ours: Box::new(move || {
            let _goes = Removed::new(palisade.clone(), "large");
            start.time()
        }),
        peer: Some(Box::new(move || {
            let took = clone.time()?;
            std::fs::remove_dir_all(&copy).map_err(Failure::io("remove a clone"))?;
            Ok(took)
        })),
    })
}
