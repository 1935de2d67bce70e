//! The hidden command that host git runs in the place of `ssh`, to reach the repository of one sandbox.

use crate::Status;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use palisade_protocol::ExecRequest;
use palisade_workspace::transport::{Limits, Service, relay};
use rustix::fd::BorrowedFd;
use std::ffi::{OsStr, OsString};
use std::time::Duration;
use tokio::net::unix::pipe::{Receiver, Sender};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// As many bytes as the sandbox may send.
    #[arg(long)]
    pub(crate) most: u64,
    /// How long nothing may come or go, in milliseconds.
    #[arg(long)]
    pub(crate) silence: u64,
    pub(crate) id: String,
    pub(crate) command: String,
}

/// Git gives a transport two words, a host's name and a command, and starts one with further words through a shell. So all
/// that this command is told before the latter is in the name.
const NAME: &str = "__git-transport";

/// The name to be asked for, before the id of a sandbox.
pub(crate) fn host_prefix(most: u64, silence: u128) -> String {
    format!("{NAME},--most={most},--silence={silence},")
}

/// The words in such a name.
pub(crate) fn words(host: &OsStr) -> Option<Vec<OsString>> {
    let host =
        host.to_str().filter(|host| host.strip_prefix(NAME).is_some_and(|rest| rest.starts_with(',')))?;
    Some(host.split(',').map(OsString::from).collect())
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let service = Service::parse(&arguments.command)
        .ok_or_else(|| Failure::usage("this speaks for git only", "use palisade agent sync"))?;
    let connection = context.engine.connect(&arguments.id).await?;
    let layout = &connection.layout;
    let variables = layout.environment.iter().map(|(name, value)| format!("{name}={value}").into_bytes());
    let request = ExecRequest {
        argv: service.argv(&layout.workspace),
        env: variables.collect(),
        cwd: layout.workspace.clone().into_bytes(),
        ..ExecRequest::default()
    };
    let failed = |error: std::io::Error| Failure::failed("io", format!("the pipe to git: {error}"));
    let input = Receiver::from_owned_fd(copy(rustix::stdio::stdin()).map_err(failed)?).map_err(failed)?;
    let stdout = Sender::from_owned_fd(copy(rustix::stdio::stdout()).map_err(failed)?).map_err(failed)?;
    let limits = Limits { bytes: arguments.most, silence: Duration::from_millis(arguments.silence) };
    let words = |text: &str| output::note(&format!("sandbox: {text}"));
    let exit = relay(&connection.client, request, input, stdout, limits, words).await;
    let exit = exit.map_err(|error| Failure::failed("git-transport", error.to_string()))?;
    Ok(exit.status())
}

/// Git's end of the pipe is another open file, so that ours may be told not to block.
fn copy(descriptor: BorrowedFd<'_>) -> std::io::Result<rustix::fd::OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(descriptor, 3)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_from_git_is_taken_apart_into_words() {
        let name = host_prefix(8, 120_000) + "abc";
        let words = words(OsStr::new(&name)).unwrap();
        assert_eq!(words, ["__git-transport", "--most=8", "--silence=120000", "abc"]);
        for other in ["__git-transport", "palisade", "", "run"] {
            assert_eq!(super::words(OsStr::new(other)), None, "{other}");
        }
    }
}
