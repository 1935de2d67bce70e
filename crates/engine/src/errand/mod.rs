//! What a keeper does besides keeping: it listens for what happens inside, and runs an errand when that gives reason.
//!
//! The keeper knows nothing of what the errand is. It is this very program again, in a process of its own with a
//! deadline: it may take long, need much, or fail, and the sandbox goes on all the same. What is heard comes from
//! inside and is only a hint; how often it is acted upon is decided in [`planner`].

mod listening;
mod planner;
mod process;

use crate::engine::Engine;
use crate::keeper::Pulse;
use crate::keeper_home::KeeperHome;
use palisade_core::SandboxSpec;
use palisade_store::Row;
use planner::{Heard, Plan, Planner};
use process::Running;
use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

/// What gives reason to an errand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    OnCommit,
    OnIdle { after: Duration },
}

/// A command to be run with the sandbox's id and the reason as its last two words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errand {
    pub when: When,
    pub command: Vec<OsString>,
}

/// Gives the errand of a sandbox, if it has one.
pub type Orders = Box<dyn Fn(&Row) -> Option<Errand>>;

/// A pause between two beats of the same movement.
const PAUSE: Duration = Duration::from_secs(1);

/// How often the host's repositories are looked at, where a sandbox has git data of its own.
const HOST_PAUSE: Duration = Duration::from_secs(2);

impl Engine {
    /// Runs a sandbox's errands while it is kept, and looks again at what they are whenever it is told to.
    pub(crate) async fn run_errands(&self, row: &Row, home: &KeeperHome, pulse: &Pulse) -> Infallible {
        // The sandbox's own files, wherever its directory is by now.
        let held = Row { spec: SandboxSpec { dir: Some(home.dir()), ..row.spec.clone() }, ..row.clone() };
        loop {
            match (self.config.errand)(&held) {
                Some(errand) => self.attend(row, home, &errand, pulse).await,
                None => pulse.ordered().await,
            }
        }
    }

    /// Until there are new orders; an errand that is under way is finished first.
    async fn attend(&self, row: &Row, home: &KeeperHome, errand: &Errand, pulse: &Pulse) {
        let (tell, mut heard) = mpsc::channel(8);
        let listening = self.listen(row, home, errand.when, tell);
        tokio::pin!(listening);
        let mut planner = Planner::new(errand.when);
        let files = self.config.bound_repositories.host_files(row.id());
        let mut host = stamps(&files);
        // Not a pause in the loop below: what is heard from inside would begin it again each time.
        let mut looks = tokio::time::interval(HOST_PAUSE);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut running: Option<Running> = None;
        let mut ordered = false;
        while running.is_some() || !ordered {
            let plan = planner.plan(Instant::now());
            if let Plan::Run(trigger) = plan
                && !ordered
            {
                planner.begun(Instant::now());
                let started = self
                    .environment_of(home)
                    .and_then(|environment| Running::start(errand, row.id(), trigger, environment));
                match started {
                    Ok(started) => running = Some(started),
                    Err(error) => {
                        tracing::warn!(%error, "an errand could not be started");
                        planner.ended(false, Instant::now());
                    }
                }
                continue;
            }
            tokio::select! {
                never = &mut listening => match never {},
                Some(what) = heard.recv() => planner.hear(what, Instant::now()),
                success = finished(&mut running) => {
                    running = None;
                    planner.ended(success, Instant::now());
                    // The errand itself has moved things, which is no reason for another one.
                    pulse.forget();
                }
                () = moved(pulse), if running.is_none() && errand.when != When::OnCommit => {
                    planner.hear(Heard::Movement, Instant::now());
                }
                _ = looks.tick(), if !files.is_empty() => {
                    let now = stamps(&files);
                    if now != host {
                        planner.hear(Heard::Host, Instant::now());
                    }
                    host = now;
                }
                () = pulse.ordered(), if !ordered => ordered = true,
                () = reached(plan) => {}
            }
        }
    }

    /// What a process needs to find a state directory that was moved since this one began; nothing when it was not.
    fn environment_of(&self, home: &KeeperHome) -> std::io::Result<Vec<(OsString, OsString)>> {
        let Some(state) = home.moved_to() else { return Ok(Vec::new()) };
        let found = (self.config.environment_of_state)(&state);
        found.ok_or_else(|| std::io::Error::other(format!("the state directory was moved to {state}")))
    }
}

/// By what one sees that files have changed. None is opened.
fn stamps(files: &[PathBuf]) -> Vec<Option<(u64, u64, i64, i64)>> {
    let stamp = |meta: std::fs::Metadata| (meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec());
    files.iter().map(|file| std::fs::symlink_metadata(file).ok().map(stamp)).collect()
}

async fn moved(pulse: &Pulse) {
    pulse.listen();
    tokio::time::sleep(PAUSE).await;
    pulse.beaten().await;
}

async fn reached(plan: Plan) {
    match plan {
        Plan::Until(due) => tokio::time::sleep_until(due.into()).await,
        Plan::Listen | Plan::Run(_) => std::future::pending().await,
    }
}

async fn finished(running: &mut Option<Running>) -> bool {
    match running {
        Some(running) => running.finished().await,
        None => std::future::pending().await,
    }
}
