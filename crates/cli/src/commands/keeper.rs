//! The hidden command behind `start`: this process becomes a sandbox's keeper.

use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    pub(crate) id: String,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    // A session of its own: what happens to the terminal of whoever started it does not reach it.
    let _ = rustix::process::setsid();
    let report = take_stdout().map_err(|error| Failure::failed("io", format!("the report: {error}")))?;
    context.engine.keep(&arguments.id, report).await?;
    Ok(OK)
}

/// The pipe to whoever waits, taken off our standard output so that it ends with the report.
fn take_stdout() -> std::io::Result<std::fs::File> {
    let report = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(report.into())
}
