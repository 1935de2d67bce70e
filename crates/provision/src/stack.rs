//! A sandbox's services, as Docker Compose runs them: rendered, brought up, looked at, taken down.
//!
//! Invariants:
//! - Compose gets the variables it is given here and no others: of the host's environment only what programs need to
//!   run, so that a repository's files reach no variable of the user's that was not granted.
//! - What was rendered and looked at is what is started: Compose gets that text, and does not read the project's files,
//!   which services can write, a second time.
//! - Nothing secret is in a command line. What Compose says is redacted before anybody sees it.
//! - Whoever drops a call ends Compose with all its helpers. What it has made by then carries the project's name, so
//!   that the next `up` goes on with it and `down` removes it.

mod environment;
mod error;
mod model;
mod progress;
mod redaction;
mod run;
mod scopes;
mod states;

pub use environment::ComposeEnvironment;
pub(crate) use environment::is_needed;
pub use error::{FailedService, StackError};
pub use model::{
    Build, Model, ModelNetwork, ModelService, ModelSource, ModelVolume, PublishedPort, Rendered, ServiceMount,
};
pub use progress::Progress;
pub use redaction::Redactor;
pub use scopes::{ScopeCheckError, ScopeError, ScopeViolation};
pub use states::{ContainerHealth, ContainerState, PublishedState, ServiceState};

use palisade_core::HostPath;
use run::Compose;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

/// The first version that understands `!override`, without which ports of an override are added to those of the file.
pub const OLDEST_COMPOSE: (u32, u32, u32) = (2, 24, 4);

/// Lines of Compose's that are kept to know why it failed; a build may say much more than anybody remembers.
const KEPT_LINES: usize = 500;
/// Lines of a service's log that are shown when it fails.
const LAST_LINES: usize = 20;

/// Everything Compose is told about a sandbox.
#[derive(Debug, Clone)]
pub struct Stack {
    /// `docker`, or where it is.
    pub docker: PathBuf,
    /// The compose project: `shop-1-3f09ac`.
    pub project: String,
    pub compose_file: HostPath,
    /// The services in place of the compose file, once they were rendered and looked at.
    pub rendered: Option<Rendered>,
    /// None before it is planned.
    pub override_file: Option<HostPath>,
    /// Later ones win.
    pub env_files: Vec<HostPath>,
    /// What relative paths in the compose file are relative to.
    pub worktree: HostPath,
    pub environment: ComposeEnvironment,
    pub redactor: Redactor,
    pub patience: StackPatience,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackPatience {
    /// For questions: rendering, states, logs.
    pub answer: Duration,
    /// How long `up` may say nothing. Images are pulled and built in it, so it has no limit in all.
    pub silence: Duration,
    pub down: Duration,
}

impl Default for StackPatience {
    fn default() -> Self {
        let (answer, silence, down) =
            (Duration::from_secs(60), Duration::from_secs(900), Duration::from_secs(300));
        Self { answer, silence, down }
    }
}

/// Whether volumes go with the containers, and the images that were built for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Volumes {
    Keep,
    Remove,
}

/// Which containers are made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recreate {
    /// Those of services that are others now than when they were started.
    Changed,
    All,
}

/// Which part of the logs is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogRange {
    Last(usize),
    All,
    /// The last lines, then every line as it comes, until the call is dropped or the containers end.
    Follow {
        last: usize,
    },
}

impl Stack {
    /// The services with every variable filled in and every path absolute, secrets included.
    pub async fn render(&self) -> Result<Model, StackError> {
        let ended = self.compose(&["config", "--format", "json"]).answer(self.patience.answer).await?;
        let rendered = ended.success("render the compose file").map_err(StackError::of_render);
        match rendered.and_then(Model::read) {
            Ok(model) => Ok(model),
            // One that is missing or too old would complain about anything but that.
            Err(error) => Err(self.check_version().await.err().unwrap_or(error)),
        }
    }

    /// Compose is there and new enough.
    pub async fn check_version(&self) -> Result<(), StackError> {
        let compose = Compose::bare(self, &["version", "--short"]);
        let ended = compose.answer(self.patience.answer).await?;
        let Ok(told) = ended.success("ask Compose for its version") else {
            return Err(StackError::ComposeMissing { docker: self.docker.clone() });
        };
        let found = String::from_utf8_lossy(&told).trim().trim_start_matches('v').to_owned();
        match version(&found) {
            Some(version) if version >= OLDEST_COMPOSE => Ok(()),
            _ => Err(StackError::ComposeTooOld { found }),
        }
    }

    /// Brings every service up, or tells which failed and what it last said. What came up stays up.
    pub async fn up(&self, progress: impl FnMut(Progress)) -> Result<(), StackError> {
        self.up_with(Recreate::Changed, progress).await
    }

    /// As [`Stack::up`], with a say in which containers are made anew.
    pub async fn up_with(
        &self,
        recreate: Recreate,
        mut progress: impl FnMut(Progress),
    ) -> Result<(), StackError> {
        let mut arguments = vec!["up", "--detach", "--remove-orphans"];
        if recreate == Recreate::All {
            arguments.push("--force-recreate");
        }
        let compose = self.compose(&arguments);
        let mut said = VecDeque::new();
        let ended = compose
            .follow(Some(self.patience.silence), |line| {
                let line = self.redactor.line(line);
                progress(Progress::read(&line));
                keep(&mut said, line);
            })
            .await?;
        if ended.succeeded() { Ok(()) } else { Err(self.why_not_up(said.make_contiguous()).await) }
    }

    /// Stops the containers and leaves them where they are.
    pub async fn stop(&self, progress: impl FnMut(Progress)) -> Result<(), StackError> {
        self.end("stop the services", &["stop"], progress).await
    }

    /// Removes containers and networks, of services that are no longer in the file, too. Nothing to remove is success.
    pub async fn down(&self, volumes: Volumes, progress: impl FnMut(Progress)) -> Result<(), StackError> {
        let mut arguments = vec!["down", "--remove-orphans"];
        if volumes == Volumes::Remove {
            arguments.extend(["--volumes", "--rmi", "local"]);
        }
        self.end("take the services down", &arguments, progress).await
    }

    async fn end(
        &self,
        what: &'static str,
        arguments: &[&str],
        mut progress: impl FnMut(Progress),
    ) -> Result<(), StackError> {
        let compose = Compose::by_name(self, arguments);
        let mut said = VecDeque::new();
        let followed = compose.follow(None, |line| {
            let line = self.redactor.line(line);
            progress(Progress::read(&line));
            keep(&mut said, line);
        });
        let patience = self.patience.down;
        let ended = tokio::time::timeout(patience, followed)
            .await
            .map_err(|_| StackError::TimedOut { what, patience })??;
        if ended.succeeded() { Ok(()) } else { Err(StackError::of_output(what, said.make_contiguous())) }
    }

    /// The volumes that hold data of the project: those that it declares, and those without a name that its containers
    /// have. What it uses of others' is not its own.
    pub async fn data_volumes(&self) -> Result<Vec<String>, StackError> {
        let filter = format!("label=com.docker.compose.project={}", self.project);
        let named = ["volume", "ls", "--quiet", "--filter", &filter];
        let mounts = ["ps", "--all", "--no-trunc", "--filter", &filter, "--format", "{{.Mounts}}"];
        let ask = |arguments: &[&str]| Compose::engine(self, arguments).answer(self.patience.answer);
        let (named, mounts) = tokio::try_join!(ask(&named), ask(&mounts))?;
        let what = "ask for the services' volumes";
        let (named, mounts) = (named.success(what)?, mounts.success(what)?);
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(own_volumes(&text(named), &text(mounts)))
    }

    /// Every container of the project, also those that have ended.
    pub async fn states(&self) -> Result<Vec<ServiceState>, StackError> {
        let compose = Compose::by_name(self, &["ps", "--all", "--format", "json"]);
        let told = compose.answer(self.patience.answer).await?.success("ask for the services' states")?;
        states::read(&told)
    }

    /// Log lines of some services, or of all, redacted and without control characters.
    pub async fn logs(
        &self,
        services: &[String],
        range: LogRange,
        mut line: impl FnMut(String),
    ) -> Result<(), StackError> {
        let tail;
        let mut arguments = vec!["logs", "--no-color"];
        match range {
            LogRange::All => {}
            LogRange::Last(lines) | LogRange::Follow { last: lines } => {
                tail = lines.to_string();
                arguments.extend(["--tail", &tail]);
            }
        }
        let silence = match range {
            LogRange::Follow { .. } => {
                arguments.push("--follow");
                None
            }
            LogRange::Last(_) | LogRange::All => Some(self.patience.answer),
        };
        // With one service its name before each line says nothing.
        if services.len() == 1 {
            arguments.push("--no-log-prefix");
        }
        arguments.push("--");
        arguments.extend(services.iter().map(String::as_str));
        let mut last = String::new();
        let ended = Compose::by_name(self, &arguments)
            .follow(silence, |said| {
                // Compose clears the terminal's line before each, even where there is no terminal.
                last = self.redactor.line(said.strip_prefix("\u{1b}[2K").unwrap_or(said));
                line(last.clone());
            })
            .await?;
        if ended.succeeded() { Ok(()) } else { Err(StackError::of_output("read the logs", &[last])) }
    }

    /// The last lines of one service, as far as they can be had: they are shown beside another error.
    pub async fn last_lines(&self, service: &str) -> Vec<String> {
        let mut lines = Vec::new();
        let services = [service.to_owned()];
        // The error that this is shown beside matters more.
        let _ = self.logs(&services, LogRange::Last(LAST_LINES), |line| lines.push(line)).await;
        lines
    }

    /// Of the containers that are there, those that Compose complained about, else those that failed.
    async fn why_not_up(&self, said: &[String]) -> StackError {
        let reason = error::reason(said);
        let error = StackError::of_output("bring the services up", said);
        if !matches!(error, StackError::Failed { .. }) {
            return error;
        }
        let states = self.states().await.unwrap_or_default();
        let blamed = states::blamed(&states, &reason);
        let mut services = Vec::new();
        for state in blamed {
            let lines = self.last_lines(&state.service).await;
            services.push(FailedService { service: state.service.clone(), state: state.to_string(), lines });
        }
        StackError::NotUp { reason, services }
    }

    fn compose(&self, arguments: &[&str]) -> Compose<'_> {
        Compose::of(self, arguments)
    }
}

/// From names, one a line, and the mounts of containers, separated by commas.
fn own_volumes(named: &str, mounts: &str) -> Vec<String> {
    const UNNAMED: usize = 64;
    let is_unnamed = |name: &&str| name.len() == UNNAMED && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let unnamed = mounts.split([',', '\n']).map(str::trim).filter(is_unnamed);
    let all: std::collections::BTreeSet<&str> =
        named.lines().map(str::trim).filter(|name| !name.is_empty()).chain(unnamed).collect();
    all.into_iter().map(str::to_owned).collect()
}

/// Forgets the oldest line for a new one.
fn keep(said: &mut VecDeque<String>, line: String) {
    if said.len() == KEPT_LINES {
        said.pop_front();
    }
    said.push_back(line);
}

/// `2.26.1-4` and `2.29.0-desktop.1` alike.
fn version(text: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = text.split(['.', '-', '+']).map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next().flatten().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_compose_says_without_end_the_last_is_kept() {
        let mut said = VecDeque::new();
        (0..2 * KEPT_LINES).for_each(|number| keep(&mut said, number.to_string()));
        assert_eq!((said.len(), said.back().map(String::as_str)), (KEPT_LINES, Some("999")));
    }

    #[test]
    fn volumes_are_those_of_the_project_and_those_without_a_name() {
        let unnamed = "0a".repeat(32);
        let mounts = format!("shop_data,/srv/files,{unnamed}\nshared,{unnamed}\n");
        assert_eq!(own_volumes("shop_data\n", &mounts), [unnamed, "shop_data".into()]);
        assert_eq!(own_volumes("", "\n/srv\n"), Vec::<String>::new());
    }

    #[test]
    fn versions_of_every_distribution_are_read() {
        for (text, expected) in [
            ("2.26.1-4", Some((2, 26, 1))),
            ("2.29.0-desktop.1", Some((2, 29, 0))),
            ("2.40", Some((2, 40, 0))),
            ("dev", None),
        ] {
            assert_eq!(version(text), expected, "{text}");
        }
    }
}
