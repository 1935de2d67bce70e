//! `palisade agent log`: an agent's commits, computed inside and printed with control characters escaped; and with
//! `--sync` what came home of them and when.

use super::{chosen, service};
use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_agents::SyncEntry;
use palisade_core::{MovedRef, one_line, printable, time};

/// Show an agent's commits, or when its work was archived and synced
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name or id [default: the sandbox of the repository here]
    pub(crate) name: Option<String>,
    /// In the worktree of this branch
    #[arg(long, value_name = "BRANCH", conflicts_with = "sync")]
    pub(crate) worktree: Option<String>,
    /// The syncs instead: when, why, which refs moved, or what went wrong; the newest 300 are kept
    #[arg(long)]
    pub(crate) sync: bool,
    /// As JSON
    #[arg(long, requires = "sync")]
    pub(crate) json: bool,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let service = service(context)?;
    let sandbox = chosen(&service, arguments.name.as_deref()).await?;
    if !arguments.sync {
        let log = service.log(&sandbox, arguments.worktree.as_deref()).await;
        output::data(&log.map_err(Failure::in_sandbox(sandbox.name()))?)?;
        return Ok(OK);
    }
    let syncs = service.syncs(&sandbox)?;
    if arguments.json {
        output::json(&syncs)?;
    } else if syncs.is_empty() {
        output::note(&format!("nothing was brought from {} yet", sandbox.name()));
    } else {
        output::data(&syncs.iter().map(lines).collect::<String>())?;
    }
    Ok(OK)
}

fn lines(sync: &SyncEntry) -> String {
    let head = format!("{}  {:<6}", time::utc(sync.at), sync.trigger.as_str());
    match &sync.error {
        Some(error) => format!("{head}  failed: {}\n", one_line(error)),
        None => sync.refs.iter().map(|moved| format!("{head}  {}\n", line(moved))).collect(),
    }
}

fn line(moved: &MovedRef) -> String {
    let short = |id: &Option<String>| id.as_deref().map_or("-", |id| id.get(..10).unwrap_or(id)).to_owned();
    let ids = format!("{} -> {}", short(&moved.from), short(&moved.to));
    let commits = match moved.commits {
        0 => String::new(),
        1 => ", 1 commit".to_owned(),
        count => format!(", {count} commits"),
    };
    format!("{}  {ids}{commits}", printable(&moved.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_core::SyncTrigger;

    #[test]
    fn a_sync_is_a_line_for_each_ref_and_a_failure_one_with_its_reason() {
        let moved = |name: &str, from: Option<&str>, commits| MovedRef {
            name: name.to_owned(),
            from: from.map(|id| id.repeat(4)),
            to: Some("0123456789".repeat(4)),
            commits,
        };
        let refs =
            vec![moved("refs/palisade/box/heads/main", None, 2), moved("refs/x", Some("abcdef0123"), 0)];
        let sync = SyncEntry { at: 0, trigger: SyncTrigger::Commit, refs, error: None };
        assert_eq!(
            lines(&sync),
            "1970-01-01T00:00:00.000Z  commit  refs/palisade/box/heads/main  - -> 0123456789, 2 commits\n\
             1970-01-01T00:00:00.000Z  commit  refs/x  abcdef0123 -> 0123456789\n"
        );
        let failed = SyncEntry {
            trigger: SyncTrigger::Idle,
            refs: Vec::new(),
            error: Some("no space\u{1b} left".into()),
            ..sync
        };
        let told = lines(&failed);
        assert_eq!(told, "1970-01-01T00:00:00.000Z  idle    failed: no space\\u{1b} left\n");
    }
}
