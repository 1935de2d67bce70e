//! What the settings are made of, and the making.

use crate::document::{self, Owner};
use crate::error::{ConfigError, Problem};
use crate::file;
use crate::layer::Layer;
use crate::settings::{Project, Settings};
use crate::widening;
use std::path::{Path, PathBuf};

/// Where settings come from. The caller, who knows home, environment and arguments, fills this in.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    pub system: Option<PathBuf>,
    pub user: Option<PathBuf>,
    pub project: Option<ProjectSource>,
    /// Variables of the process; those not in [`crate::environment::ALL`] are not looked at.
    pub environment: Vec<(String, String)>,
    pub flags: Flags,
}

/// A project's file and the digest the user has trusted it under, if any. The comparison is made here, with the
/// very bytes that are then used, so that the file cannot change in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectSource {
    pub path: PathBuf,
    pub trusted_digest: Option<String>,
}

/// Values of command-line flags, as written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    pub method: Option<String>,
    pub image: Option<String>,
    pub network: Option<String>,
    pub allow: Vec<String>,
    pub host_ports: Vec<String>,
    pub memory: Option<String>,
    pub cpus: Option<String>,
    pub pids: Option<String>,
    pub tmp: Option<String>,
    pub opt: Option<bool>,
    pub tools: Vec<String>,
    pub mounts: Vec<String>,
    pub agent_sync: Option<String>,
    pub log_level: Option<String>,
    pub log_format: Option<String>,
}

/// Reads every source and lays them over one another. Either everything is right or all problems are told.
pub fn load(sources: &Sources) -> Result<Settings, ConfigError> {
    let mut problems = Vec::new();
    let mut settings = Settings::default();
    for (owner, path) in [(Owner::System, &sources.system), (Owner::User, &sources.user)] {
        if let Some(path) = path {
            settings.lay(own_layer(owner, path, &mut problems));
        }
    }
    if let Some(source) = &sources.project {
        lay_project(&mut settings, source, &mut problems);
    }
    settings.lay(Layer::from_environment(&sources.environment, &mut problems));
    settings.lay(Layer::from_flags(&sources.flags, &mut problems));
    ConfigError::unless_empty(problems)?;
    Ok(settings)
}

fn own_layer(owner: Owner, path: &Path, problems: &mut Vec<Problem>) -> Layer {
    match file::read_own(path) {
        Ok(Some(bytes)) => document::read(owner, &file::shown(path), &bytes, problems),
        Ok(None) => Layer::default(),
        Err(problem) => {
            problems.push(problem);
            Layer::default()
        }
    }
}

fn lay_project(settings: &mut Settings, source: &ProjectSource, problems: &mut Vec<Problem>) {
    let bytes = match file::read_foreign(&source.path) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return,
        Err(problem) => return problems.push(problem),
    };
    let digest = file::digest(&bytes);
    let trusted = source.trusted_digest.as_ref() == Some(&digest);
    // What is wider than the user's own settings cannot be told while those do not parse.
    let base_is_known = problems.is_empty();
    let layer = document::read(Owner::Project, &file::shown(&source.path), &bytes, problems);
    if !trusted && base_is_known {
        problems.extend(widening::find(settings, &layer));
    }
    settings.project = Some(Project { path: source.path.clone(), digest, trusted });
    settings.lay(layer);
}
