//! `palisade sandbox …`: the services of the worktree that one is in.

mod logs;
pub(crate) mod status;
mod teller;
mod told;

pub(crate) use teller::{ConsentFlags, Teller, confirm};
pub(crate) use told::{last_words, unmet};

use crate::context::{self, Context};
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_core::HostPath;
use palisade_provision::{Changed, OnePassword, Options, Provisioner, Slots};

/// Start, stop and look at the services of the worktree here
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Provision the worktree again, and start its services
    Start(StartFlags),
    /// Stop the services; their data, the slot and the worktree stay
    Stop,
    Status(status::Arguments),
    Logs(logs::Arguments),
    /// Resolve the secrets again, and recreate the services whose secrets changed
    RefreshSecrets(ConsentFlags),
    /// Provision everything again, and recreate all services
    Refresh(StartFlags),
}

/// Shared by the commands that provision and start.
#[derive(Debug, clap::Args)]
pub(crate) struct StartFlags {
    #[command(flatten)]
    pub(crate) files: FilesFlag,
    #[command(flatten)]
    pub(crate) consent: ConsentFlags,
}

/// Shared by the commands that copy files.
#[derive(Debug, clap::Args)]
pub(crate) struct FilesFlag {
    /// Replace provisioned files that were changed in the worktree
    #[arg(long)]
    pub(crate) refresh_files: bool,
}

impl FilesFlag {
    pub(crate) fn options(&self) -> Options {
        Options { files: if self.refresh_files { Changed::Replace } else { Changed::Keep } }
    }
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let (provisioner, here) = (provisioner()?, here()?);
    let teller = |consent| Teller::new(&context.engine, consent, false);
    match &arguments.command {
        Command::Start(StartFlags { files, consent }) => {
            drop(provisioner.start(&here, files.options(), &mut teller(*consent)).await?);
        }
        Command::Stop => provisioner.stop(&here, &mut teller(ConsentFlags::default())).await?,
        Command::Status(arguments) => status::run(&provisioner, &here, arguments).await?,
        Command::Logs(arguments) => logs::run(&provisioner, &here, arguments).await?,
        Command::RefreshSecrets(consent) => {
            let services = provisioner.refresh_secrets(&here, &mut teller(*consent)).await?;
            output::note(&match services.as_slice() {
                [] => "No secret changed.".to_owned(),
                services => format!("Recreated: {}", services.join(", ")),
            });
        }
        Command::Refresh(StartFlags { files, consent }) => {
            drop(provisioner.refresh(&here, files.options(), &mut teller(*consent)).await?);
        }
    }
    Ok(OK)
}

/// With this user's slots, git and environment.
pub(crate) fn provisioner() -> Result<Provisioner, Failure> {
    let slots = context::home_directory()?.join(".devops-ai/slots");
    let slots = HostPath::new(slots).map_err(|error| Failure::failed("io", error.to_string()))?;
    Ok(Provisioner {
        git: context::git(),
        slots: Slots::at(slots),
        one_password: OnePassword::default(),
        environment: std::env::vars_os().collect(),
    })
}

pub(crate) fn here() -> Result<HostPath, Failure> {
    super::agent::here()
}
