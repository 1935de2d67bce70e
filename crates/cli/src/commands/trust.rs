//! `palisade trust`: consent to what a project's own files ask for beyond the user's settings, pinned to the contents of
//! each.

use crate::context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_config::{PROJECT_ENVIRONMENTS, PROJECT_FILE, project_digest, project_files};
use palisade_core::{ExitCode, HostPath, printable};
use palisade_engine::Engine;
use palisade_provision::trust_prefixes;
use palisade_store::Trusted;
use std::path::{Path, PathBuf};

/// Trust a project's .palisade/config.toml and environments, as they are now
///
/// A project's file may narrow what sandboxes get, and widen it only once you trust it; its environments count only
/// then. Any change to a file takes the trust in it away. What you agreed to when a project's services were started is
/// listed here, too, and taken back with the rest.
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
                output::data(&format!("{}\n", printable(&entry.path)))?;
            }
        }
        return Ok(OK);
    }
    let directory = arguments.directory.clone().unwrap_or_else(|| PathBuf::from("."));
    let absent = |reason: String| Failure::Told {
        code: "project-not-found",
        exit: ExitCode::NotFound,
        message: reason,
        hints: vec![format!(
            "a project's settings are in {PROJECT_FILE}, its environments in {PROJECT_ENVIRONMENTS}"
        )],
    };
    let directory = std::fs::canonicalize(&directory)
        .map_err(|error| absent(format!("{}: {error}", directory.display())))?;
    let files = project_files(&directory)?;
    let agreements = if arguments.revoke { agreements(&store.trust_list()?, &directory) } else { Vec::new() };
    if files.is_empty() && agreements.is_empty() {
        return Err(absent(format!(
            "there is neither a {PROJECT_FILE} nor a {PROJECT_ENVIRONMENTS} in {} or above",
            directory.display()
        )));
    }
    for key in agreements {
        store.trust_remove(&key)?;
        output::note(&format!("no longer trusted: {}", printable(&key)));
    }
    for path in files {
        let (key, shown) = (path.to_string_lossy(), printable(&path.to_string_lossy()));
        if arguments.revoke {
            let known = store.trust_remove(&key)?;
            let told = if known { "no longer trusted:" } else { "was not trusted:" };
            output::note(&format!("{told} {shown}"));
        } else {
            store.trust_set(&key, &project_digest(&path)?, context::now())?;
            output::note(&format!("trusted as it is now: {shown}"));
        }
    }
    Ok(OK)
}

/// What was agreed to for the services of the repository that the directory lies in.
fn agreements(trusted: &[Trusted], directory: &Path) -> Vec<String> {
    let repositories = directory.ancestors().filter_map(|path| HostPath::new(path).ok());
    let prefixes: Vec<String> = repositories.flat_map(|repository| trust_prefixes(&repository)).collect();
    let keys = trusted.iter().map(|entry| &entry.path);
    keys.filter(|key| prefixes.iter().any(|prefix| key.starts_with(prefix))).cloned().collect()
}
