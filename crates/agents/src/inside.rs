//! Our own scripts inside a sandbox. Their arguments may be seen by others on the machine, so what must not be seen goes
//! into their variables, which travel over the stream.

use crate::error::AgentError;
use palisade_core::{Layout, printable_lines};
use palisade_engine::Connection;
use palisade_protocol::client::ExecError;
use palisade_protocol::{ExecRequest, Exit};
use palisade_workspace::{SandboxError, TransferError};

/// More than any of them says.
const MOST: usize = 1 << 20;

/// Runs a script in the workspace of `layout` and gives what it printed.
pub(crate) async fn run_inside(
    connection: &Connection,
    layout: &Layout,
    what: &'static str,
    script: &str,
    words: &[String],
    variables: &[(&str, &str)],
) -> Result<Vec<u8>, AgentError> {
    let mut argv: Vec<Vec<u8>> = ["sh", "-c", script, "palisade"].map(|word| word.as_bytes().to_vec()).into();
    argv.extend(words.iter().map(|word| word.as_bytes().to_vec()));
    let own = layout.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let env =
        own.chain(variables.iter().copied()).map(|(name, value)| format!("{name}={value}").into_bytes());
    let request = ExecRequest {
        argv,
        env: env.collect(),
        cwd: layout.workspace.clone().into_bytes(),
        ..ExecRequest::default()
    };
    let failed = |said: String| SandboxError::Failed { what, message: said };
    let output = connection.client.exec_collect(request, MOST).await;
    let output = output.map_err(|error| match error {
        ExecError::Connection(error) => {
            SandboxError::NotRun { what, source: TransferError::Connection(error) }
        }
        other => failed(other.to_string()),
    })?;
    if output.exit != Exit::Code(0) {
        return Err(failed(printable_lines(&String::from_utf8_lossy(&output.stderr))).into());
    }
    Ok(output.stdout)
}
