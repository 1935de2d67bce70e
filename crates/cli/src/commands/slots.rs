//! `palisade slots`.

use super::sandbox::provisioner;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_core::printable;

/// List the slots: which worktree has which ports
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    let slots = provisioner()?.list()?;
    if arguments.json {
        output::json(&slots)?;
        return Ok(OK);
    }
    if slots.is_empty() {
        output::note("no slots; take one with: palisade impl NAME/MILESTONE");
        return Ok(OK);
    }
    let rows = slots.iter().map(|slot| {
        let ports: Vec<String> = slot.ports.values().map(u16::to_string).collect();
        let name = format!("{}-{}", slot.project, slot.slot);
        let worktree = printable(&slot.worktree.as_path().to_string_lossy());
        vec![name, slot.feature.to_string(), slot.stage.to_string(), ports.join(","), worktree]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    output::data(&output::table(&["SLOT", "FEATURE", "STAGE", "PORTS", "WORKTREE"], &rows))?;
    Ok(OK)
}
