//! `palisade cp`.

use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_core::{SandboxName, printable};
use palisade_engine::{CopyLimits, CopyReport, copy_in, copy_out};
use std::path::Path;

/// Copy files into or out of a running sandbox
///
/// One of the two is in the sandbox, as NAME:PATH. A target that is a directory receives the source under its own
/// name. What comes out of a sandbox is never followed: links and special files are left out and told. At most
/// copy.max_size and copy.max_files come out at once, and never more than the disk has room for.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to copy, as PATH or NAME:PATH
    pub(crate) source: String,
    /// Where to, as PATH or NAME:PATH
    pub(crate) target: String,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let report = match (place(&arguments.source), place(&arguments.target)) {
        (Place::Host(source), Place::Sandbox { name, path }) => {
            let connection = context.engine.connect(name).await?;
            let path = inside(path, &connection.layout.workspace);
            copy_in(&connection.client, Path::new(source), &path).await?
        }
        (Place::Sandbox { name, path }, Place::Host(target)) => {
            let connection = context.engine.connect(name).await?;
            let path = inside(path, &connection.layout.workspace);
            copy_out(&connection.client, &path, Path::new(target), limits(context)).await?
        }
        (Place::Host(_), Place::Host(_)) => {
            return Err(Failure::usage(
                "neither path is in a sandbox",
                "name the sandbox: palisade cp file NAME:/workspace, or palisade cp NAME:file .",
            ));
        }
        (Place::Sandbox { .. }, Place::Sandbox { .. }) => {
            return Err(Failure::usage(
                "both paths are in a sandbox",
                "copy out of the one, then into the other",
            ));
        }
    };
    tell(&report);
    Ok(OK)
}

/// How much may come out of a sandbox at once.
pub(super) fn limits(context: &Context) -> CopyLimits {
    let settings = &context.settings;
    CopyLimits { bytes: settings.copy_size.value.0, entries: settings.copy_files.value.into() }
}

enum Place<'a> {
    Host(&'a str),
    Sandbox { name: &'a str, path: &'a str },
}

/// `NAME:PATH` with a proper name is in a sandbox; anything else, such as `./a:b`, is on the host.
fn place(text: &str) -> Place<'_> {
    match text.split_once(':') {
        Some((name, path)) if SandboxName::new(name).is_ok() => Place::Sandbox { name, path },
        _ => Place::Host(text),
    }
}

/// A relative path inside is meant from the workspace.
fn inside(path: &str, workspace: &str) -> String {
    match path {
        "" | "." => workspace.to_owned(),
        absolute if absolute.starts_with('/') => absolute.to_owned(),
        relative => format!("{workspace}/{relative}"),
    }
}

fn tell(report: &CopyReport) {
    for skipped in &report.skipped {
        // The sandbox's own complaints name their file themselves.
        let what = match skipped.path.as_str() {
            "" => skipped.why.clone(),
            path => format!("left out {path}: {}", skipped.why),
        };
        output::warning(&printable(&what));
    }
    let told = report.skipped.len() as u64;
    if report.left_out > told {
        output::warning(&format!("left out {} more", report.left_out - told));
    }
    let files = if report.files == 1 { "file" } else { "files" };
    output::note(&format!("copied {} {files}, {} bytes", report.files, report.bytes));
}
