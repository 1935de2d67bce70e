//! `start`: the sandbox's keeper is this very program, started again as a process of its own.

use crate::description;
use crate::engine::{Engine, now};
use crate::error::EngineError;
use crate::observe::{about, observe, verb_span};
use crate::session::Connection;
use palisade_core::{BackendError, HostTrouble, SandboxDir, State, spans};
use palisade_host::fault::Step;
use palisade_host::{private_file, process};
use palisade_store::{IntentKind, Row, StoreError};
use serde::{Deserialize, Serialize};
use std::os::unix::fs::DirBuilderExt;
use std::process::{Child, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt;

/// Longer than a keeper's own patience with its guest, so that its diagnosis arrives.
const PATIENCE: Duration = Duration::from_secs(40);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Started {
    Now,
    Already,
}

/// What a keeper tells the process that started it, once, as a line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "kebab-case")]
pub(crate) enum KeeperReport {
    Ready,
    Failed { code: String, exit: u8, message: String, hints: Vec<String> },
}

impl Engine {
    pub async fn start(&self, name: &str) -> Result<Started, EngineError> {
        let started = observe(verb_span!(spans::START), self.bring_up_by_keeper(name)).await?;
        if started == Started::Now {
            self.check_repositories(name).await?;
        }
        Ok(started)
    }

    /// Stops a sandbox again in which something is missing that a repository in its bound directories needs.
    async fn check_repositories(&self, name: &str) -> Result<(), EngineError> {
        let (row, repositories) = (self.row(name)?, &self.config.bound_repositories);
        if !repositories.needs_check(row.id()) {
            return Ok(());
        }
        let Connection { client, layout, .. } = self.connect(row.id().as_str()).await?;
        let checked = repositories.check_inside(&row.spec, &client, &layout).await;
        drop(client);
        if checked.is_err() {
            self.stop_without_archive(row.id().as_str(), Duration::ZERO).await?;
        }
        checked.map_err(EngineError::Work)
    }

    async fn bring_up_by_keeper(&self, name: &str) -> Result<Started, EngineError> {
        let row = self.row(name)?;
        about(&row.spec);
        self.refuse_foreign(&row)?;
        let _lease = self.lease(None);
        if STARTABLE.contains(&row.state) {
            // Before its turn comes: nobody waits for what may take long.
            let mut spec = row.spec.clone();
            spec.paths = self.check_paths(&spec.policy, &spec.foundation, &spec.paths)?.paths;
            self.backend(spec.method)?.prepare(&spec).await?;
        }
        let turn = self.turn(&row).await?;
        let row = self.recovered_in_turn(self.row(row.id().as_str())?, &turn).await?;
        if row.state == State::Running {
            return match row.error {
                Some(why) => Err(EngineError::EngineLost { name: row.name, why }),
                None => Ok(Started::Already),
            };
        }
        self.refuse_unless_whole(&row)?;
        require_directory(&row)?;
        let row = self.row_with_checked_paths(row)?;
        description::write_if_absent(&row.spec, row.created_at)?;
        let store = self.store()?;
        let id = row.id();
        let intent = store.begin_intent(
            id,
            IntentKind::Start,
            &serde_json::Value::Null,
            &process::this_process(),
            now(),
        )?;
        let moved = EngineError::step(Step::StartIntent).and_then(|()| {
            Ok(store.transition_if(id, &STARTABLE, State::Starting, None, now()).map(|_| ())?)
        });
        let result = match moved {
            Ok(()) => self.spawn_keeper(&row).await,
            Err(EngineError::Store(StoreError::StateChanged { found, .. })) => Err(EngineError::WrongState {
                name: row.name.clone(),
                state: found,
                verb: "start",
                hint: "another command is at work on it: wait for it, then try again".into(),
            }),
            Err(error) => Err(error),
        };
        if matches!(result, Err(EngineError::WrongState { .. })) {
            store.end_intent(intent)?;
            return result.map(|()| Started::Now);
        }
        let result = result.and_then(|()| EngineError::step(Step::StartReported));
        if let Err(error) = &result {
            // A keeper that could still speak has put everything away itself; one that died has not.
            let row = self.row(id.as_str())?;
            if Self::is_orphaned(&row) {
                self.bury(&row, &error.to_string(), &turn).await?;
            }
        }
        store.end_intent(intent)?;
        result.map(|()| Started::Now)
    }

    pub(crate) async fn spawn_keeper(&self, row: &Row) -> Result<(), EngineError> {
        let failed = |reason: String| EngineError::Keeper { name: row.name.clone(), reason };
        let io = |error: std::io::Error| failed(error.to_string());
        EngineError::step(Step::StartStarting)?;
        let dir = row.spec.dir.as_ref().ok_or_else(|| failed("it has no directory".into()))?;
        let log = private_file::open_to_append(dir.log()).map_err(io)?;
        let (program, arguments) = self
            .config
            .keeper_command
            .split_first()
            .ok_or_else(|| failed("no keeper command is set".into()))?;
        let mut child = std::process::Command::new(program)
            .args(arguments)
            .arg(row.id().as_str())
            .env_clear()
            .envs((self.config.keeper_environment)())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|error| match HostTrouble::of_start("start the sandbox's keeper", &error) {
                Some(trouble) => EngineError::Host(trouble),
                None => io(error),
            })?;
        let heard = hear(&mut child, row, dir).await;
        if !matches!(heard, Ok(()) | Err(EngineError::Reported { .. })) {
            // Nobody will know it, so it must not come up later. It may have ended already.
            let _ = child.kill();
        }
        if heard.is_err() {
            let _ = child.wait();
        }
        heard
    }

    /// A sandbox that was never finished, or that is half taken away, must not get work into it: gc removes it.
    fn refuse_unless_whole(&self, row: &Row) -> Result<(), EngineError> {
        let intents = self.store()?.intents()?.intents;
        let unfinished = intents.iter().filter(|intent| intent.sandbox_id == *row.id());
        match unfinished.filter_map(|intent| made_or_removed(intent.kind)).next() {
            Some(verb) => Err(EngineError::Interrupted { name: row.name.clone(), verb }),
            None => Ok(()),
        }
    }
}

/// A sandbox's own directory. Where an engine keeps the files, what else is in it can be made again.
fn require_directory(row: &Row) -> Result<(), EngineError> {
    let Some(dir) = &row.spec.dir else { return Ok(()) };
    if dir.path().as_path().exists() {
        return Ok(());
    }
    if row.spec.method.keeps_files_in_engine() {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir.path());
        return made.map_err(EngineError::io(format!("make {}", dir.path())));
    }
    let missing = vec![format!("directory {}", dir.path())];
    Err(BackendError::FilesMissing { sandbox: row.name.to_string(), missing }.into())
}

/// Waits for the keeper's one report.
async fn hear(child: &mut Child, row: &Row, dir: &SandboxDir) -> Result<(), EngineError> {
    let failed = |reason: String| EngineError::Keeper { name: row.name.clone(), reason };
    let io = |error: std::io::Error| failed(error.to_string());
    EngineError::step(Step::StartSpawned)?;
    let stdout = child.stdout.take().ok_or_else(|| failed("it has no output".into()))?;
    let mut pipe = tokio::net::unix::pipe::Receiver::from_owned_fd(stdout.into()).map_err(io)?;
    let mut text = String::new();
    match tokio::time::timeout(PATIENCE, pipe.read_to_string(&mut text)).await {
        Err(_) => {
            Err(EngineError::Timeout { name: row.name.clone(), what: "start", seconds: PATIENCE.as_secs() })
        }
        Ok(Err(error)) => Err(io(error)),
        Ok(Ok(_)) => match serde_json::from_str::<KeeperReport>(text.trim()) {
            Ok(KeeperReport::Ready) => Ok(()),
            Ok(KeeperReport::Failed { code, exit, message, hints }) => {
                Err(EngineError::Reported { code, exit, message, hints })
            }
            Err(_) => {
                let status = child.wait().map_err(io)?;
                Err(failed(format!("it ended early ({status}); its log is {}", dir.log())))
            }
        },
    }
}

/// The verb of an intent that, left unfinished, makes a sandbox less than whole.
pub(crate) fn made_or_removed(kind: IntentKind) -> Option<&'static str> {
    match kind {
        IntentKind::Create => Some("create"),
        IntentKind::Remove => Some("rm"),
        IntentKind::Start | IntentKind::Stop => None,
    }
}

pub(crate) const STARTABLE: [State; 3] = [State::Created, State::Stopped, State::Error];
