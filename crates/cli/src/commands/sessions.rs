//! `palisade sessions`.

use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_core::printable;
use palisade_protocol::{Exit, SessionInfo};
use serde::Serialize;

/// List the sessions of a running sandbox
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
    rows: u16,
    columns: u16,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum State {
    Running,
    Ended,
}

impl<'a> From<&'a SessionInfo> for Listed<'a> {
    fn from(session: &'a SessionInfo) -> Self {
        Self {
            name: &session.name,
            state: if session.exit.is_none() { State::Running } else { State::Ended },
            exit_code: session.exit.map(Exit::status),
            viewers: session.viewers,
            rows: session.size.rows,
            columns: session.size.columns,
        }
    }
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let connection = context.engine.connect(&arguments.name).await?;
    let mut sessions = connection.sessions().await?;
    sessions.sort_by(|one, other| one.name.cmp(&other.name));
    if arguments.json {
        output::json(&sessions.iter().map(Listed::from).collect::<Vec<_>>())?;
        return Ok(OK);
    }
    if sessions.is_empty() {
        let name = &connection.row.name;
        output::note(&format!("no sessions; open one with: palisade attach {name}"));
        return Ok(OK);
    }
    let rows: Vec<Vec<String>> = sessions
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
    output::data(&output::table(&["NAME", "STATE", "VIEWERS", "SIZE"], &rows))?;
    Ok(OK)
}

/// How a session ended, for people.
pub(crate) fn ending(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
    }
}
