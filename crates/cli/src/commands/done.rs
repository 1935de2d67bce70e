//! `palisade done`.

use super::sandbox::{ConsentFlags, Teller, here, provisioner};
use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_provision::{Feature, Force};

/// Remove a worktree with its services, their data, its slot and its secrets; the branch stays
///
/// Refuses when the worktree holds work that nobody else has: changes that are not committed, and commits that are in no
/// other branch and on no remote. Interrupted, it goes on where it was when called again.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What the work is called [default: that of the worktree here]
    #[arg(value_name = "NAME/MILESTONE")]
    pub(crate) feature: Option<Feature>,
    /// Give up what is not committed
    #[arg(long)]
    pub(crate) force: bool,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let force = if arguments.force { Force::GiveUpWork } else { Force::KeepWork };
    let here = here()?;
    let mut teller = Teller::new(&context.engine, ConsentFlags::default(), false);
    provisioner()?.finish(&here, arguments.feature.as_ref(), force, &mut teller).await?;
    if !here.as_path().exists() {
        output::note("note: the directory you are in is gone");
    }
    Ok(OK)
}
