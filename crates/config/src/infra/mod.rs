//! `infra.toml`: what a project's sandboxes need, declared once and kept in the project's repository.
//!
//! The file is the project's, not the user's word: reading it runs nothing, and no name in it can steer a program of
//! ours. Every section is optional, so that files from before a section existed go on working.

mod fields;
mod read;

pub(crate) use fields::headings;
pub use fields::{InfraField, SECTIONS, Section};
pub use read::{HIGHEST_PORT, find_root, is_reserved, read, read_file, read_file_and_text};

use crate::manifest::Located;
use palisade_core::{GuestPath, Method, ProjectPath, SecretReference, VariableName};
use std::time::Duration;

/// Where the file is, from the project's root.
pub const INFRA_FILE: &str = ".devops-ai/infra.toml";

#[derive(Debug, Clone)]
pub struct Infra {
    pub project: InfraProject,
    pub sandbox: InfraSandbox,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InfraProject {
    /// Begins the names of worktrees, slots and compose projects.
    pub name: String,
    /// Begins the names of variables of ports.
    pub prefix: String,
}

#[derive(Debug, Clone)]
pub struct InfraSandbox {
    pub compose_file: ProjectPath,
    pub method: Option<Located<Method>>,
    pub health: Option<Health>,
    pub ports: Vec<(VariableName, u16)>,
    pub env: Vec<(VariableName, String)>,
    pub secrets: Vec<InfraSecret>,
    pub files: Vec<InfraFile>,
    pub mounts: Vec<CodeMount>,
    pub otel: Option<Otel>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// A path such as `/health`.
    pub endpoint: String,
    /// The port's variable; the first port when it is left out.
    pub port_var: Option<Located<VariableName>>,
    pub timeout: Duration,
}

#[derive(Debug, Clone)]
pub struct InfraSecret {
    pub name: VariableName,
    pub reference: SecretReference,
    /// The only services that may get it.
    pub services: Option<Vec<String>>,
    /// From 1.
    pub line: usize,
}

/// A file that is copied from the main working tree into the worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InfraFile {
    pub destination: ProjectPath,
    pub source: ProjectPath,
}

/// A directory of the worktree that a service sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeMount {
    pub service: String,
    pub source: ProjectPath,
    pub target: GuestPath,
    pub access: MountAccess,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MountAccess {
    ReadWrite,
    ReadOnly,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Otel {
    /// Where services send their telemetry.
    pub endpoint: Option<String>,
    /// A network of the engine's that exists, in which the collector is reached.
    pub network: Option<String>,
}
