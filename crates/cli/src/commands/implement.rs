//! `palisade impl`.

use super::sandbox::{StartFlags, Teller, here, provisioner};
use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status};
use palisade_provision::Feature;

/// Make a worktree for a piece of work, with its services running on ports of their own
///
/// The worktree is made beside the repository, on the branch impl/NAME-MILESTONE. It gets the files, variables and
/// secrets that .devops-ai/infra.toml declares; then its services are started, and waited for until they are healthy.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What the work is called, such as my-feature/M1
    #[arg(value_name = "NAME/MILESTONE")]
    pub(crate) feature: Feature,
    /// Start the services of a worktree that exists, without asking
    #[arg(long)]
    pub(crate) start: bool,
    #[command(flatten)]
    pub(crate) flags: StartFlags,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let StartFlags { files, consent } = &arguments.flags;
    let mut teller = Teller::new(&context.engine, *consent, arguments.start);
    provisioner()?.begin(&here()?, &arguments.feature, files.options(), &mut teller).await?;
    Ok(OK)
}
