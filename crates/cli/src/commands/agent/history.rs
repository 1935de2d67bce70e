//! `palisade agent history`.

use super::{here, service};
use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_agents::ArchiveSelection;
use palisade_core::{printable, shell, time};
use palisade_workspace::{EntryKind, ListedArchive, NestedRepository, Restored, RestoredRef};
use serde::Serialize;
use std::time::Duration;

/// List the archives of agents' work in this repository, also of sandboxes that are gone
///
/// An archive is made before anything in a sandbox is moved, stopped or removed. It is a ref in your repository that no
/// command moves; only `palisade agent history prune` deletes it. `git push --mirror` would push these refs.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Name or id of a sandbox [default: all]
    pub(crate) name: Option<String>,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make branches, tags and stash entries of what an archive holds; no file is touched
    Restore {
        /// As the list shows it: NAME/NUMBER, NAME/NUMBER:PATH for a nested repository, or the ref itself
        archive: String,
    },
    /// Delete archives that are older than a time
    Prune {
        /// Name or id of a sandbox [default: all]
        name: Option<String>,
        /// A number with d or h, such as 90d or 12h
        #[arg(long, value_name = "AGE", value_parser = age)]
        older_than: Duration,
    },
}

/// Reads `90d` or `12h`.
fn age(text: &str) -> Result<Duration, String> {
    let units = [("d", 24 * 3600), ("h", 3600)];
    let seconds = units
        .iter()
        .find_map(|(unit, seconds)| text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(*seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| "write a number with d or h, such as 90d or 12h".into())
}

/// One archive, as `--json` prints it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ListedAs {
    /// The ref.
    archive: String,
    /// The path in the workspace of the nested repository whose work it holds; null for the main repository.
    nested: Option<String>,
    /// The bare repository that the ref lies in; null for your own.
    repository: Option<String>,
    commit: String,
    sandbox: String,
    /// The sandbox's name; null when the archive is of a newer version.
    name: Option<String>,
    agent: Option<String>,
    /// Unix seconds.
    time: i64,
    /// Why it was made.
    reason: Option<&'static str>,
    entries: Vec<ListedEntry>,
    /// What could not be archived then.
    left_out: Vec<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ListedEntry {
    what: String,
    commit: String,
    /// The git command that brings it back.
    command: String,
}

impl ListedAs {
    fn new(archive: &ListedArchive) -> Self {
        let manifest = archive.manifest.as_ref();
        let entries = manifest.into_iter().flat_map(|manifest| &manifest.entries);
        let entries = entries.map(|entry| ListedEntry {
            what: printable(&entry.kind.describe()),
            commit: entry.id.to_string(),
            command: command(&entry.kind, entry.id.as_str(), archive.nested.as_ref()),
        });
        let left_out = manifest.into_iter().flat_map(|manifest| &manifest.left_out);
        Self {
            archive: archive.reference.clone(),
            nested: archive.nested.as_ref().map(|nested| printable(&nested.path)),
            repository: archive.nested.as_ref().map(|nested| nested.place.to_string()),
            commit: archive.commit.to_string(),
            sandbox: archive.sandbox.to_string(),
            name: manifest.map(|manifest| manifest.name.to_string()),
            agent: manifest.map(|manifest| printable(&manifest.agent)).filter(|agent| !agent.is_empty()),
            time: archive.time,
            reason: manifest.map(|manifest| manifest.reason.as_str()),
            entries: entries.collect(),
            left_out: left_out.map(|left_out| printable(&left_out.path)).collect(),
        }
    }
}

/// The git command that brings one entry back; of a nested repository, into the repository in which it is run.
fn command(kind: &EntryKind, id: &str, nested: Option<&NestedRepository>) -> String {
    let is_tag = matches!(kind, EntryKind::Ref { name } if name.starts_with("refs/tags/"));
    let quoted = nested.map(|nested| shell::shown(nested.place.as_path().as_os_str()));
    match (kind, quoted) {
        (EntryKind::Replaced { .. }, None) => format!("git show {id}"),
        (EntryKind::Replaced { .. }, Some(place)) => format!("git -C {place} show {id}"),
        (EntryKind::Stash { .. } | EntryKind::Snapshot { .. }, None) => format!("git stash apply {id}"),
        (EntryKind::Stash { .. } | EntryKind::Snapshot { .. }, Some(place)) => {
            format!("git fetch {place} {id} && git stash apply {id}")
        }
        (_, None) if is_tag => format!("git tag NAME {id}"),
        (_, None) => format!("git branch NAME {id}"),
        (_, Some(place)) => {
            format!("git fetch {place} {id}:refs/{}/NAME", if is_tag { "tags" } else { "heads" })
        }
    }
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let service = service(context)?;
    let selection = |name: &Option<String>| match name {
        Some(name) => ArchiveSelection::Sandbox(name.clone()),
        None => ArchiveSelection::All,
    };
    let directory = here()?;
    match &arguments.command {
        None => {
            let archives = service.history(&directory, &selection(&arguments.name)).await?;
            if arguments.json {
                output::json(&archives.iter().map(ListedAs::new).collect::<Vec<_>>())?;
            } else {
                print(&archives)?;
            }
        }
        Some(Command::Restore { archive }) => {
            let (archive, restored) = service.restore(&directory, archive).await?;
            for entry in &restored {
                output::note(&describe(entry));
            }
            if let Some(NestedRepository { path, place }) = &archive.nested {
                let (place, path) = (shell::shown(place.as_path().as_os_str()), shell::shown(path.as_ref()));
                output::note(&format!("  bring it into your working tree: git clone {place} {path}"));
            }
        }
        Some(Command::Prune { name, older_than }) => {
            let before =
                crate::context::now() / 1000 - i64::try_from(older_than.as_secs()).unwrap_or(i64::MAX);
            let pruned = service.prune(&directory, &selection(name), before).await?;
            for archive in &pruned {
                output::data(&format!("{}\n", label(archive)))?;
            }
            if pruned.is_empty() {
                output::note("no archive is that old");
            }
        }
    }
    Ok(OK)
}

/// What `restore` takes.
fn label(archive: &ListedArchive) -> String {
    printable(&archive.short_name().unwrap_or_else(|| archive.reference.clone()))
}

fn print(archives: &[ListedArchive]) -> Result<(), Failure> {
    if archives.is_empty() {
        output::note("there are no archives in this repository");
        return Ok(());
    }
    let mut text = String::new();
    for archive in archives {
        let listed = ListedAs::new(archive);
        text += &format!(
            "{}  {}  {} ({})\n",
            label(archive),
            time::utc(listed.time.saturating_mul(1000)),
            listed.reason.unwrap_or("of a newer version"),
            listed.agent.as_deref().unwrap_or("-"),
        );
        for entry in &listed.entries {
            text += &format!("  {}\n    {}\n", entry.what, entry.command);
        }
        for path in &listed.left_out {
            text += &format!("  not archived: {path}\n");
        }
    }
    output::data(&text)
}

fn describe(entry: &RestoredRef) -> String {
    let what = printable(&entry.what.describe());
    match &entry.restored {
        Restored::Branch(name) => format!("{what}: branch {}", printable(name)),
        Restored::Tag(name) => format!("{what}: tag {}", printable(name)),
        Restored::Stash => format!("{what}: in your stash (git stash list)"),
        Restored::Already(name) => format!("{what}: you have it as {}", printable(name)),
        Restored::Shown(name) => format!("{what}: see git show {}", printable(name)),
    }
}
