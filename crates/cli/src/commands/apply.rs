//! `palisade apply`: what becomes of the changes that runs with `-w DIR:copy` have made.

use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_core::{HostPath, printable, time};
use palisade_engine::{
    ApplyPlan, ApplyReport, ChangeKind, CopyError, CopyOutcome, CopySelection, CopyStatus, CopySummary,
    CopySurvey, EngineError, OpenCopy,
};
use std::path::{Component, Path, PathBuf};

/// Lay the changes of a run with -w DIR:copy in that directory, or drop them
///
/// A file that you have changed since the copy was made is left alone, and named. Nested repositories are never laid, and
/// files that run by themselves are named before anything is laid.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The id of the run, or its beginning [default: the only copy of the current directory]
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// Only these changes, and those below these directories
    #[arg(last = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// List the copies that have changes
    #[arg(long, conflicts_with_all = ["run", "paths"])]
    pub(crate) list: bool,
    /// Drop the changes; without PATH, the whole copy
    #[arg(long, requires = "run", conflicts_with = "list")]
    pub(crate) discard: bool,
    /// Only show what would be laid
    #[arg(long, conflicts_with_all = ["list", "discard"])]
    pub(crate) dry_run: bool,
    /// As JSON
    #[arg(long, requires = "list")]
    pub(crate) json: bool,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    if arguments.list {
        return list(context, arguments.json);
    }
    let here = current_directory()?;
    let selection = match &arguments.run {
        Some(run) => CopySelection::Run(run.clone()),
        None => CopySelection::Containing(here.clone()),
    };
    let copy = context.engine.open_copy(&selection).await?;
    let paths: Vec<PathBuf> =
        arguments.paths.iter().map(|path| in_copy(&copy, &here, path)).collect::<Result<_, _>>()?;
    if arguments.discard {
        return discard(copy, &paths);
    }
    let plan = copy.plan(&paths)?;
    announce(&copy, &plan, arguments.dry_run);
    if arguments.dry_run {
        let lines = plan
            .changes()
            .into_iter()
            .map(|change| format!("{} {}\n", word(change.kind), printable(&change.path.to_string_lossy())));
        output::data(&lines.collect::<String>())?;
        return Ok(OK);
    }
    apply(copy, plan).await
}

fn current_directory() -> Result<HostPath, Failure> {
    let here = std::env::current_dir().and_then(|here| here.canonicalize());
    let here = here.map_err(|error| Failure::failed("io", format!("the current directory: {error}")))?;
    HostPath::new(here).map_err(|error| Failure::failed("io", error.to_string()))
}

/// A path as the user types it, relative to the directory that was copied: from the current directory if that is in it, and
/// else from its top.
fn in_copy(copy: &OpenCopy, here: &HostPath, path: &Path) -> Result<PathBuf, Failure> {
    let top = copy.directory().as_path();
    let base = if here.as_path().starts_with(top) { here.as_path() } else { top };
    let mut whole = PathBuf::new();
    // By its text: what is in the copy need not be on the host.
    for part in base.join(path).components() {
        match part {
            Component::ParentDir => drop(whole.pop()),
            Component::CurDir => {}
            other => whole.push(other),
        }
    }
    whole.strip_prefix(top).map(Path::to_owned).map_err(|_| {
        let (path, top) = (printable(&path.to_string_lossy()), printable(&top.to_string_lossy()));
        Failure::usage(format!("'{path}' is not in {top}"), "give paths in the directory that was copied")
    })
}

fn word(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Deleted => "deleted",
        ChangeKind::Added => "added",
        ChangeKind::Changed => "changed",
        ChangeKind::Mode => "mode",
    }
}

/// Says what deserves a look, before anything is laid. Long lists are shown in part, unless only this was asked for.
fn announce(copy: &OpenCopy, plan: &ApplyPlan, dry_run: bool) {
    const MOST_SHOWN: usize = 100;
    let most = if dry_run { usize::MAX } else { MOST_SHOWN };
    let shown = |path: &Path| printable(&path.to_string_lossy());
    for (path, trigger) in plan.self_running.iter().take(most) {
        output::warning(&format!("{} {}", shown(path), trigger.description()));
    }
    for (path, reason) in plan.left_out.iter().take(most) {
        output::warning(&format!("{} stays in the copy: {}", shown(path), printable(reason)));
    }
    let cut = [plan.self_running.len(), plan.left_out.len()].map(|count| count.saturating_sub(most));
    if let count @ 1.. = cut.iter().sum::<usize>() {
        let run = copy.run().short();
        output::warning(&format!("and {count} more; `palisade apply --dry-run {run}` shows all of them"));
    }
    if !plan.repositories.is_empty() {
        let mut paths: Vec<String> = plan.repositories.iter().take(most).map(|path| shown(path)).collect();
        if let count @ 1.. = plan.repositories.len().saturating_sub(most) {
            paths.push(format!("and {count} more"));
        }
        let directory = printable(&copy.directory().to_string());
        output::warning(&format!(
            "not laid in {directory}, since git would run what these name: {}",
            paths.join(", ")
        ));
    }
}

async fn apply(copy: OpenCopy, plan: ApplyPlan) -> Result<Status, Failure> {
    let (run, directory) = (copy.run().clone(), printable(&copy.directory().to_string()));
    let tree = copy.tree().to_string();
    let ApplyReport { laid, remaining, conflicts, failed } = copy.apply(plan).await?;
    output::note(&format!("{} laid in {directory}", count(laid)));
    let described =
        |path: &Path, reason: &str| format!("{}: {}", printable(&path.to_string_lossy()), printable(reason));
    if !failed.is_empty() {
        let paths = failed.iter().map(|(path, reason)| described(path, reason)).collect();
        return Err(EngineError::from(CopyError::Incomplete { directory, paths }).into());
    }
    if !conflicts.is_empty() {
        let paths = conflicts.iter().map(|(path, reason)| described(path, reason)).collect();
        return Err(EngineError::from(CopyError::Conflicts { run, directory, tree, paths }).into());
    }
    note_rest(remaining, run.short());
    Ok(OK)
}

fn discard(copy: OpenCopy, paths: &[PathBuf]) -> Result<Status, Failure> {
    let run = copy.run().clone();
    let remaining = copy.discard(paths)?;
    note_rest(remaining, run.short());
    Ok(OK)
}

fn note_rest(remaining: usize, run: &str) {
    if remaining > 0 {
        output::note(&format!(
            "{} left in the copy; to lay them: palisade apply {run}; to drop them: palisade apply --discard {run}",
            count(remaining)
        ));
    }
}

fn count(changes: usize) -> String {
    format!("{changes} {}", if changes == 1 { "change" } else { "changes" })
}

fn list(context: &Context, json: bool) -> Result<Status, Failure> {
    let copies = context.engine.list_copies();
    if json {
        output::json(&copies)?;
        return Ok(OK);
    }
    if copies.is_empty() {
        output::note("no copies; `palisade run -w DIR:copy` makes one");
        return Ok(OK);
    }
    let row = |copy: &CopySummary| {
        let status = match copy.status {
            CopyStatus::Running => "running",
            CopyStatus::Ended => "ended",
            CopyStatus::Killed => "killed",
        };
        vec![
            copy.run.chars().take(8).collect(),
            status.to_owned(),
            copy.changes.map_or_else(|| "-".to_owned(), |changes| changes.to_string()),
            time::utc(copy.created_at),
            printable(&copy.directory),
        ]
    };
    let rows: Vec<Vec<String>> = copies.iter().map(row).collect();
    output::data(&output::table(&["RUN", "STATUS", "CHANGES", "BEGAN", "DIRECTORY"], &rows))?;
    Ok(OK)
}

/// Looks at a directory that is to be copied, and says so when that takes a while.
pub(crate) async fn survey(context: &Context, directory: &HostPath) -> Result<CopySurvey, Failure> {
    /// Less is copied in a moment.
    const FEW_BYTES: u64 = 64 << 20;
    const FEW_FILES: u64 = 20_000;
    /// What an ordinary disk does in a second where the file system cannot share the contents of files.
    const BYTES: u64 = 250 << 20;
    const FILES: u64 = 10_000;
    let survey = context.engine.survey_copy(directory).await?;
    let (bytes, files) = (survey.bytes(), survey.file_count() as u64);
    if bytes >= FEW_BYTES || files >= FEW_FILES {
        let seconds = bytes / BYTES + files / FILES + 1;
        output::note(&format!(
            "copying {} MiB in {files} files of {}; this takes up to about {seconds} s",
            bytes >> 20,
            printable(&directory.to_string())
        ));
    }
    Ok(survey)
}

/// Says that a run has left changes in its copy, and what can be done with them.
pub(crate) fn note_changes(copy: &CopyOutcome) {
    let (run, directory) = (copy.run.short(), printable(&copy.directory.to_string()));
    output::note(&format!(
        "{} in a copy of {directory}; to lay them: palisade apply {run}; to drop them: palisade apply --discard {run}",
        count(copy.changes)
    ));
}
