//! `palisade agent install`: the real program of an agent, in a directory of Palisade's own that sandboxes see read-only.

use super::start;
use crate::context::data_directory;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_agents::{Install, Profile};
use palisade_core::ExitCode;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Install an agent's program for sandboxes to use
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The agent: claude, codex, gemini, or one of your own
    pub(crate) agent: String,
    /// This version [default: the newest]
    #[arg(long)]
    pub(crate) version: Option<String>,
}

/// Where an agent is installed.
fn directory(profile: &Profile) -> Result<PathBuf, Failure> {
    Ok(data_directory()?.join("palisade/agents").join(&profile.name))
}

/// The directory that holds the programs of an agent that was installed.
pub(super) fn programs(profile: &Profile) -> Result<Option<PathBuf>, Failure> {
    let programs = directory(profile)?.join("node_modules/.bin");
    Ok(programs.join(&profile.program).exists().then_some(programs))
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    let profiles = start::profiles()?;
    let profile = start::profile(&profiles, &arguments.agent)?;
    let Some(Install::Npm(package)) = &profile.install else {
        return Err(Failure::usage(
            format!("{} is not to be had from the npm registry", profile.name),
            format!("install {} by its maker's own way; it is found on the PATH", profile.program),
        ));
    };
    let failed = |message: String| Failure::Told {
        code: "agent-install",
        exit: ExitCode::Provisioning,
        message,
        hints: vec!["npm says more above; Node.js 20 or later is needed".into()],
    };
    let directory = directory(profile)?;
    std::fs::create_dir_all(&directory)
        .map_err(|error| failed(format!("{}: {error}", directory.display())))?;
    let wanted = format!("{package}@{}", arguments.version.as_deref().unwrap_or("latest"));
    output::note(&format!("installing {wanted} into {}", directory.display()));
    let status = Command::new("npm")
        .args(["install", "--no-fund", "--no-audit", "--prefix"])
        .arg(&directory)
        .arg("--")
        .arg(&wanted)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|error| failed(format!("npm could not be started: {error}")))?;
    match programs(profile)? {
        Some(programs) if status.success() => {
            output::data(&format!("{}\n", programs.join(&profile.program).display()))?;
            Ok(OK)
        }
        _ => Err(failed(format!("npm could not install {wanted}"))),
    }
}
