//! What can keep a project from being onboarded.

use crate::compose::ComposeError;
use palisade_config::ConfigError;
use palisade_config::infra::INFRA_FILE;
use palisade_core::{Diagnostic, ErrorCode, ExitCode, HostPath, ProjectPath};

#[derive(Debug, thiserror::Error)]
pub enum OnboardingError {
    #[error("there is no compose file in {root}")]
    NoComposeFile { root: HostPath, others: Vec<ProjectPath> },
    #[error("the compose file {file} is not there{}", if *.declared { ", and infra.toml names it" } else { "" })]
    ComposeFileGone { file: ProjectPath, declared: bool, others: Vec<ProjectPath> },
    #[error("{file}: {source}")]
    Compose { file: ProjectPath, source: ComposeError },
    #[error("{file} is a symbolic link or leads through one, and it would be changed in place")]
    Link { file: ProjectPath },
    #[error("{file} is not a text of at most 4 MiB")]
    NotAText { file: ProjectPath },
    #[error("{file} was changed by somebody else meanwhile; nothing of it was written")]
    Changed { file: ProjectPath },
    #[error("{file}: {source}")]
    Io { file: ProjectPath, source: std::io::Error },
    #[error("infra.toml cannot be added to: {0}")]
    Toml(String),
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl Diagnostic for OnboardingError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::NoComposeFile { .. } => "no-compose-file",
            Self::ComposeFileGone { .. } => "compose-file-gone",
            Self::Compose { .. } => "compose-file-invalid",
            Self::Link { .. } => "compose-file-link",
            Self::NotAText { .. } => "compose-file-not-a-text",
            Self::Changed { .. } => "file-changed-meanwhile",
            Self::Io { .. } => "io",
            Self::Toml(_) => "infra-not-extended",
            Self::Config(error) => error.code(),
        }
    }

    fn exit(&self) -> ExitCode {
        match self {
            Self::NoComposeFile { .. } => ExitCode::NotFound,
            Self::ComposeFileGone { .. } => ExitCode::NotFound,
            Self::Compose { .. } => ExitCode::Configuration,
            Self::Link { .. } => ExitCode::Configuration,
            Self::NotAText { .. } => ExitCode::Configuration,
            Self::Changed { .. } => ExitCode::Conflict,
            Self::Io { .. } => ExitCode::Failed,
            Self::Toml(_) => ExitCode::Configuration,
            Self::Config(error) => error.exit(),
        }
    }

    fn hints(&self) -> Vec<String> {
        let others = |others: &[ProjectPath]| {
            let names: Vec<String> = others.iter().map(ToString::to_string).collect();
            names.join(" or ")
        };
        let hint = match self {
            Self::NoComposeFile { others: found, .. } if found.is_empty() => {
                "a sandbox of a project runs its services: write a compose.yaml, or name one with --compose-file PATH"
                    .to_owned()
            }
            Self::NoComposeFile { others: found, .. } => {
                format!("name the one that is meant with --compose-file: {}", others(found))
            }
            Self::ComposeFileGone { others: found, .. } if found.is_empty() => {
                "paths are meant from the top of the repository".to_owned()
            }
            Self::ComposeFileGone { declared: true, others: found, .. } => {
                format!("write compose_file below [sandbox] in {INFRA_FILE}; there is {}", others(found))
            }
            Self::ComposeFileGone { others: found, .. } => {
                format!("paths are meant from the top of the repository; there is {}", others(found))
            }
            Self::Compose { .. } => "see what Compose says of it: docker compose config".to_owned(),
            Self::Link { .. } => "name the file itself with --compose-file".to_owned(),
            Self::Changed { .. } => "look at the file, then try again".to_owned(),
            Self::Config(error) => return error.hints(),
            Self::NotAText { .. } | Self::Io { .. } | Self::Toml(_) => return Vec::new(),
        };
        vec![hint]
    }
}
