//! What a wrapper remembers.

use super::word::Word;
use palisade_core::{Foundation, HostIdentity, HostPath, Method, Origin, Policy, SandboxId};
use serde::{Deserialize, Serialize};

/// The form of the record; another number is another form.
pub(super) const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub version: u32,
    pub id: SandboxId,
    /// The wrapper's own directory.
    pub directory: Word,
    /// Where the script stands, and the program that it becomes.
    pub path: Word,
    pub launcher: Word,
    pub method: Method,
    /// Who had chosen the method.
    pub origin: Origin,
    pub policy: Policy,
    /// What its sandboxes are made from.
    #[serde(default, skip_serializing_if = "Foundation::is_plain")]
    pub foundation: Foundation,
    /// The command as it is called inside, and the arguments that come before the caller's.
    pub command: Vec<Word>,
    pub variables: Vec<Variable>,
    /// Directories inside in which programs are looked for first.
    pub search: Vec<String>,
    pub home: Home,
    /// The host uid that owns a kept home, when root made the wrapper.
    pub identity: Option<HostIdentity>,
    pub surroundings: Surroundings,
    /// Milliseconds since 1970.
    pub created_at: i64,
}

/// A variable for the command inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    pub name: String,
    /// Without one, the value is the caller's own at every call, and the variable is absent when the caller has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Word>,
}

/// What the home inside is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Home {
    /// In memory, gone with each call.
    Scratch,
    /// In the wrapper's own directory, and gone with the wrapper.
    Kept,
}

/// What this program otherwise reads from its environment and its settings. Recorded, because the caller of a wrapper
/// may have another environment or none, and must not get a weaker sandbox for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surroundings {
    pub guest: HostPath,
    pub search_path: Vec<Word>,
    pub user_runtime_dir: Option<Word>,
    pub git_config: Vec<Word>,
    pub uid_base: u32,
    /// `DOCKER_HOST` and `CONTAINER_HOST`, so that a caller cannot lead a wrapper to another engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub docker_host: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_host: Option<String>,
}
