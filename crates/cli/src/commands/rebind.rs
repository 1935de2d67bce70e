//! `palisade rebind`.

use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_core::{HostPath, printable};
use palisade_engine::ReboundPath;
use std::path::Path;

/// Accept what the host paths of a sandbox or a wrapper lead to now
///
/// A sandbox remembers which directories its -w, --mount and --tool paths led to. It does not start once one of them
/// leads elsewhere and another sandbox could have done that. Look at the path first.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name or id of a sandbox, or the path of a wrapper
    pub(crate) name: String,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let name = &arguments.name;
    let report = match name.contains('/') {
        true => {
            let path = std::path::absolute(Path::new(name)).map_err(|error| {
                Failure::usage(format!("'{}': {error}", printable(name)), "give the path of a wrapper")
            })?;
            context.engine.rebind_wrapper(&path)?
        }
        false => context.engine.rebind(name).await?,
    };
    if report.paths.is_empty() {
        output::note("it shows nothing of the host's");
    }
    let lines: String = report.paths.iter().map(describe).collect();
    output::data(&lines)?;
    Ok(OK)
}

fn describe(path: &ReboundPath) -> String {
    let shown = |path: &HostPath| printable(&path.to_string());
    let what = match (&path.before, path.changed) {
        (Some(before), true) if *before != path.now => format!("instead of {}", shown(before)),
        (_, true) => "another directory than before".to_owned(),
        (Some(_), false) => "as before".to_owned(),
        (None, false) => "recorded".to_owned(),
    };
    match path.given == path.now {
        true => format!("{} ({what})\n", shown(&path.given)),
        false => format!("{} → {} ({what})\n", shown(&path.given), shown(&path.now)),
    }
}
