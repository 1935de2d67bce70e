//! `palisade trust`: consent to what a project's own file asks for beyond the user's settings, pinned to the file's
//! contents.

use crate::context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_config::{find_project, project_digest};
use palisade_core::ExitCode;
use palisade_engine::Engine;
use std::path::PathBuf;

/// Trust a project's .palisade/config.toml, as it is now
///
/// A project's file may narrow what sandboxes get, and widen it only once you trust it. Any change to the file takes
/// the trust away.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A directory of the project; the current one when left out
    pub(crate) directory: Option<PathBuf>,
    /// Take the trust back
    #[arg(long, conflicts_with = "list")]
    pub(crate) revoke: bool,
    /// List what is trusted
    #[arg(long)]
    pub(crate) list: bool,
    /// As JSON, with --list
    #[arg(long, requires = "list")]
    pub(crate) json: bool,
}

pub(crate) fn run(engine: &Engine, arguments: &Arguments) -> Result<Status, Failure> {
    let store = engine.store()?;
    if arguments.list {
        let trusted = store.trust_list()?;
        if arguments.json {
            output::json(&trusted)?;
        } else {
            for entry in trusted {
                output::data(&format!("{}\n", palisade_core::printable(&entry.path)))?;
            }
        }
        return Ok(OK);
    }
    let directory = arguments.directory.clone().unwrap_or_else(|| PathBuf::from("."));
    let absent = |reason: String| Failure::Told {
        code: "project-not-found",
        exit: ExitCode::NotFound,
        message: reason,
        hints: vec!["a project's settings are in .palisade/config.toml".into()],
    };
    let directory = std::fs::canonicalize(&directory)
        .map_err(|error| absent(format!("{}: {error}", directory.display())))?;
    let path = find_project(&directory).ok_or_else(|| {
        absent(format!("there is no .palisade/config.toml in {} or above", directory.display()))
    })?;
    let key = path.to_string_lossy();
    if arguments.revoke {
        let known = store.trust_remove(&key)?;
        output::note(&format!(
            "{} {}",
            if known { "no longer trusted:" } else { "was not trusted:" },
            path.display()
        ));
        return Ok(OK);
    }
    store.trust_set(&key, &project_digest(&path)?, context::now())?;
    output::note(&format!("trusted as it is now: {}", path.display()));
    Ok(OK)
}
