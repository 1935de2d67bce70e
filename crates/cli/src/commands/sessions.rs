//! `palisade sessions`.

use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_core::{State as SandboxState, one_line, printable, time};
use palisade_engine::{EndedBy, SessionEnd, SessionRecord};
use palisade_protocol::{Exit, SessionInfo};
use serde::Serialize;

/// List the sessions of a sandbox, and what became of those that ended with it
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name or id
    pub(crate) name: String,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// One session, as `--json` tells it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Listed<'a> {
    name: &'a str,
    state: State,
    /// As a shell tells it; absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<u8>,
    viewers: u16,
    /// Of its terminal, as long as that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    columns: Option<u16>,
    /// Why the sandbox ended, and the session with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_because: Option<&'a str>,
    /// When that was noticed, in unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_at: Option<i64>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum State {
    Running,
    Ended,
    /// It ran when its sandbox ended.
    Lost,
}

impl<'a> From<&'a SessionInfo> for Listed<'a> {
    fn from(session: &'a SessionInfo) -> Self {
        Self {
            name: &session.name,
            state: if session.exit.is_none() { State::Running } else { State::Ended },
            exit_code: session.exit.map(Exit::status),
            viewers: session.viewers,
            rows: Some(session.size.rows),
            columns: Some(session.size.columns),
            lost_because: None,
            lost_at: None,
        }
    }
}

impl<'a> Listed<'a> {
    /// A session of an earlier life of the sandbox.
    fn past(name: &'a str, end: &'a SessionEnd) -> Self {
        let (state, exit_code, lost_because) = match &end.how {
            EndedBy::Code(code) => (State::Ended, Some(*code), None),
            EndedBy::Signal(signal) => (State::Ended, Some(Exit::Signal(*signal).status()), None),
            EndedBy::Sandbox(why) => (State::Lost, None, Some(why.as_str())),
        };
        let lost_at = lost_because.map(|_| end.at);
        Self { name, state, exit_code, viewers: 0, rows: None, columns: None, lost_because, lost_at }
    }
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let (row, records) = context.engine.session_records(&arguments.name).await?;
    let mut living = Vec::new();
    if row.state == SandboxState::Running {
        living = context.engine.connect(row.id().as_str()).await?.sessions().await?;
        living.sort_by(|one, other| one.name.cmp(&other.name));
    }
    let past = past(&records, &living);
    if arguments.json {
        let past = past.iter().map(|(name, end)| Listed::past(name, end));
        output::json(&living.iter().map(Listed::from).chain(past).collect::<Vec<_>>())?;
        return Ok(OK);
    }
    if living.is_empty() && past.is_empty() {
        let name = &row.name;
        output::note(&match row.state {
            SandboxState::Running => format!("no sessions; open one with: palisade attach {name}"),
            state => format!("no sessions; sandbox '{name}' is {state}"),
        });
        return Ok(OK);
    }
    let mut rows: Vec<Vec<String>> = living
        .iter()
        .map(|session| {
            vec![
                printable(&session.name),
                session.exit.map_or_else(|| "running".to_owned(), |exit| format!("ended ({})", ending(exit))),
                session.viewers.to_string(),
                format!("{}x{}", session.size.columns, session.size.rows),
            ]
        })
        .collect();
    rows.extend(
        past.iter().map(|(name, end)| vec![printable(name), ended(end), "-".to_owned(), "-".to_owned()]),
    );
    output::data(&output::table(&["NAME", "STATE", "VIEWERS", "SIZE"], &rows))?;
    Ok(OK)
}

/// Sessions that the guest knows nothing of any more, and how they ended; by name.
fn past<'a>(records: &'a [SessionRecord], living: &[SessionInfo]) -> Vec<(&'a str, &'a SessionEnd)> {
    let is_past = |record: &&SessionRecord| living.iter().all(|session| session.name != record.name);
    let mut past: Vec<(&str, &SessionEnd)> = records
        .iter()
        .filter(is_past)
        .filter_map(|record| Some((record.name.as_str(), record.end.as_ref()?)))
        .collect();
    past.sort_unstable_by_key(|(name, _)| *name);
    past
}

/// How a session of an earlier life of the sandbox ended, for people.
pub(crate) fn ended(end: &SessionEnd) -> String {
    match &end.how {
        EndedBy::Code(code) => format!("ended ({})", ending(Exit::Code(*code))),
        EndedBy::Signal(signal) => format!("ended ({})", ending(Exit::Signal(*signal))),
        EndedBy::Sandbox(why) => {
            format!("lost with the sandbox: {}, noticed {}", one_line(why), time::utc(end.at))
        }
    }
}

/// How a session ended, for people.
pub(crate) fn ending(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
    }
}
