//! `palisade agent rm`.

use super::{chosen, service};
use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_agents::AgentSandbox;
use palisade_engine::{RemoveMode, RemoveReport};

/// Remove an agent's sandbox
///
/// Refused while the sandbox has work that is not in your branches and files, or while an agent works in it. Everything
/// is archived first: see `palisade agent history`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name or id [default: the sandbox of the repository here]
    pub(crate) name: Option<String>,
    /// Archive its work and remove it, also while an agent works in it
    #[arg(long, short)]
    pub(crate) force: bool,
    /// Remove this sandbox even if work in it cannot be archived
    #[arg(long, value_name = "NAME")]
    pub(crate) discard: Option<String>,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let service = service(context)?;
    let name = arguments.name.as_deref().or(arguments.discard.as_deref());
    let sandbox = chosen(&service, name).await?;
    let mode = mode(&sandbox, arguments.force, arguments.discard.as_deref())?;
    let report = service.engine.remove(sandbox.row.id().as_str(), mode).await?;
    print(&report);
    Ok(OK)
}

/// How far a removal may go. What is given up has to be named.
pub(super) fn mode(
    sandbox: &AgentSandbox,
    force: bool,
    discard: Option<&str>,
) -> Result<RemoveMode, Failure> {
    let name = sandbox.name();
    match discard {
        Some(given) if given == name.as_str() => Ok(RemoveMode::Discard),
        Some(given) => Err(Failure::usage(
            format!("--discard names '{}', and the sandbox is '{name}'", palisade_core::printable(given)),
            format!("repeat the sandbox's name: --discard {name}"),
        )),
        None if force => Ok(RemoveMode::Force),
        None => Ok(RemoveMode::Careful),
    }
}

/// What became of what was in a sandbox.
pub(crate) fn print(report: &RemoveReport) {
    let archived = &report.archived;
    if let Some(saved) = &report.saved_files {
        output::note(&format!(
            "git in the sandbox was of no use; its files are saved in {}",
            saved.display()
        ));
    }
    match archived.archives.as_slice() {
        [] => {}
        [one] => output::note(&format!("its work is archived as {one}")),
        [.., last] => output::note(&format!(
            "its work is archived in {} archives, the last is {last}; see palisade agent history",
            archived.archives.len()
        )),
    }
    if archived.ignored_files > 0 {
        output::note(&format!(
            "removed with it: {} {} that git ignores ({:.1} MiB), and the agent's conversations",
            archived.ignored_files,
            if archived.ignored_files == 1 { "file" } else { "files" },
            archived.ignored_bytes as f64 / f64::from(1 << 20)
        ));
    } else if archived.has_conversations {
        output::note("removed with it: the agent's conversations");
    }
    for repository in &report.unpublished {
        output::note(&format!(
            "removed with it: the repository {}, with commits that no remote of it had",
            palisade_core::printable(repository)
        ));
    }
}
