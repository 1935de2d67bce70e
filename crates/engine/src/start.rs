//! `start`: the sandbox's keeper is this very program, started again as a process of its own.

use crate::engine::{Engine, now};
use crate::error::EngineError;
use palisade_core::State;
use palisade_host::process;
use palisade_store::{IntentKind, Row, StoreError};
use serde::{Deserialize, Serialize};
use std::process::Stdio;
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
        let row = self.recovered(self.row(name)?).await?;
        if row.state == State::Running {
            return Ok(Started::Already);
        }
        let store = self.store()?;
        let id = row.id();
        let intent = store.begin_intent(
            id,
            IntentKind::Start,
            &serde_json::Value::Null,
            &process::this_process(),
            now(),
        )?;
        let result = match store.transition_if(id, &STARTABLE, State::Starting, None, now()) {
            Ok(_) => self.spawn_keeper(&row).await,
            Err(StoreError::StateChanged { found, .. }) => Err(EngineError::WrongState {
                name: row.name.clone(),
                state: found,
                verb: "start",
                hint: "another command is at work on it: wait for it, then try again".into(),
            }),
            Err(error) => Err(error.into()),
        };
        if matches!(result, Err(EngineError::WrongState { .. })) {
            store.end_intent(intent)?;
            return result.map(|()| Started::Now);
        }
        if result.is_err() {
            // The keeper reports a failure before it has given everything back, or died without a word.
            self.settle_failed_start(&row).await?;
        }
        store.end_intent(intent)?;
        result.map(|()| Started::Now)
    }

    async fn spawn_keeper(&self, row: &Row) -> Result<(), EngineError> {
        let failed = |reason: String| EngineError::Keeper { name: row.name.clone(), reason };
        let io = |error: std::io::Error| failed(error.to_string());
        let dir = row.spec.dir.as_ref().ok_or_else(|| failed("it has no directory".into()))?;
        let log = std::fs::OpenOptions::new().create(true).append(true).open(dir.log()).map_err(io)?;
        let (program, arguments) = self
            .config
            .keeper_command
            .split_first()
            .ok_or_else(|| failed("no keeper command is set".into()))?;
        let mut child = std::process::Command::new(program)
            .args(arguments)
            .arg(row.id().as_str())
            .env_clear()
            .envs(self.config.keeper_environment.iter().map(|(name, value)| (name, value)))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(io)?;
        let stdout = child.stdout.take().ok_or_else(|| failed("it has no output".into()))?;
        let mut pipe = tokio::net::unix::pipe::Receiver::from_owned_fd(stdout.into()).map_err(io)?;
        let mut text = String::new();
        match tokio::time::timeout(PATIENCE, pipe.read_to_string(&mut text)).await {
            Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(EngineError::Timeout {
                    name: row.name.clone(),
                    what: "start",
                    seconds: PATIENCE.as_secs(),
                })
            }
            Ok(Err(error)) => Err(io(error)),
            Ok(Ok(_)) => match serde_json::from_str::<KeeperReport>(text.trim()) {
                Ok(KeeperReport::Ready) => Ok(()),
                Ok(KeeperReport::Failed { code, exit, message, hints }) => {
                    // It ends by itself right after the report.
                    let _ = child.wait();
                    Err(EngineError::Reported { code, exit, message, hints })
                }
                Err(_) => {
                    let status = child.wait().map_err(io)?;
                    Err(failed(format!("it ended early ({status}); its log is {}", dir.log())))
                }
            },
        }
    }

    async fn settle_failed_start(&self, row: &Row) -> Result<(), EngineError> {
        let row = self.row(row.id().as_str())?;
        if row.state.has_keeper() && !Self::keeper_lives(&row) {
            self.bury(&row, "the start failed").await?;
        }
        Ok(())
    }
}

pub(crate) const STARTABLE: [State; 3] = [State::Created, State::Stopped, State::Error];
