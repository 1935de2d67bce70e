//! `palisade cp`.

use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_core::{ExitCode, SandboxName, printable};
use palisade_engine::{CopyLimits, CopyReport, copy_in, copy_in_file, copy_out, read_file};
use palisade_host::beneath::unnamed_file;
use std::fs::File;
use std::io::Seek;
use std::path::Path;

/// Copy files into or out of a running sandbox
///
/// One of the two is in the sandbox, as NAME:PATH; the other may be -, for standard input or output. A target that is a
/// directory receives the source under its own name. Permissions and times are kept.
///
/// Files from a sandbox are not trusted: links that lead out of the copy and special files are left out, with a warning and
/// exit code 1. On the host, a file is replaced; a link, device, pipe or socket never is. At most copy.max_size and
/// copy.max_files come out at once, and never more than the disk has room for.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to copy, as PATH, NAME:PATH or -
    pub(crate) source: String,
    /// Where to, as PATH, NAME:PATH or -
    pub(crate) target: String,
    /// Succeed also when something was left out
    #[arg(long)]
    pub(crate) skip_unsafe: bool,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let (source, target) = (place(&arguments.source), place(&arguments.target));
    let ((Place::Sandbox { name, path }, _) | (_, Place::Sandbox { name, path })) = (&source, &target) else {
        return Err(Failure::usage(
            "neither path is in a sandbox",
            "name the sandbox: palisade cp file NAME:/workspace, or palisade cp NAME:file .",
        ));
    };
    if matches!((&source, &target), (Place::Sandbox { .. }, Place::Sandbox { .. })) {
        return Err(Failure::usage(
            "both paths are in a sandbox",
            "copy out of the one, then into the other",
        ));
    }
    let connection = context.engine.connect(name).await?;
    let client = &connection.client;
    let path = inside(path, &connection.layout.workspace);
    let report = match (source, target) {
        (Place::Standard, _) => copy_in_file(client, whole_input()?, &path).await?,
        (Place::Host(source), _) => {
            copy_in(client, context.engine.open_copy_source(Path::new(source))?, &path).await?
        }
        (_, Place::Standard) => {
            // Nothing but the file's content goes to stdout, and nothing about it to stderr.
            read_file(client, &path, std::io::stdout(), limits(context)).await?;
            return Ok(OK);
        }
        (_, Place::Host(target)) => {
            let target = context.engine.open_copy_target(Path::new(target))?;
            copy_out(client, &path, target, limits(context)).await?
        }
        (_, Place::Sandbox { .. }) => return Ok(OK),
    };
    tell(&report);
    if report.is_complete() || arguments.skip_unsafe {
        return Ok(OK);
    }
    Err(Failure::Told {
        code: "copy-incomplete",
        exit: ExitCode::Failed,
        message: "not everything was copied; see the warnings above".into(),
        hints: vec!["pass --skip-unsafe to accept that".into()],
    })
}

/// All of standard input, in a file without a name: its size must be known before it is sent.
fn whole_input() -> Result<File, Failure> {
    let failed =
        |error: std::io::Error| Failure::failed("io", format!("cannot read standard input: {error}"));
    let mut file = unnamed_file(&std::env::temp_dir()).map_err(failed)?;
    std::io::copy(&mut std::io::stdin().lock(), &mut file).map_err(failed)?;
    file.rewind().map_err(failed)?;
    Ok(file)
}

/// How much may come out of a sandbox at once.
pub(super) fn limits(context: &Context) -> CopyLimits {
    let settings = &context.settings;
    CopyLimits { bytes: settings.copy_size.value.0, entries: settings.copy_files.value.into() }
}

enum Place<'a> {
    /// Standard input or output.
    Standard,
    Host(&'a str),
    Sandbox {
        name: &'a str,
        path: &'a str,
    },
}

/// `NAME:PATH` with a proper name is in a sandbox; anything else, such as `./a:b`, is on the host.
fn place(text: &str) -> Place<'_> {
    match text.split_once(':') {
        None if text == "-" => Place::Standard,
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
