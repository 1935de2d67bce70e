//! What an archive says of itself: enough to be understood when nothing else is left of the sandbox.

use crate::refs::ObjectId;
use palisade_core::{SandboxId, SandboxName};
use serde::{Deserialize, Serialize};

/// A change that an older program could not read gets another number.
pub(crate) const VERSION: u32 = 1;
/// The manifest's name in the tree of an archive.
pub(crate) const FILE: &str = "manifest.json";

/// Why an archive was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ArchiveReason {
    /// `agent sync`.
    Sync,
    /// By itself, after a commit or when the agent was idle.
    Background,
    /// Before the sandbox was stopped.
    Stop,
    /// Before the sandbox was removed.
    Remove,
    /// Before a start moved a working tree to the host's state.
    Start,
    /// Before a worktree in the sandbox was removed.
    WorktreeRemove,
    /// Before files of the user's were merged with the agent's.
    Merge,
}

impl ArchiveReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Background => "background",
            Self::Stop => "stop",
            Self::Remove => "remove",
            Self::Start => "start",
            Self::WorktreeRemove => "worktree-remove",
            Self::Merge => "merge",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub version: u32,
    pub sandbox: SandboxId,
    pub name: SandboxName,
    pub agent: String,
    pub reason: ArchiveReason,
    /// Unix seconds.
    pub time: i64,
    pub entries: Vec<ManifestEntry>,
    /// What could not be recorded, with the reason.
    #[serde(default)]
    pub left_out: Vec<ManifestLeftOut>,
}

/// One thing that an archive was made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestEntry {
    #[serde(flatten)]
    pub kind: EntryKind,
    #[serde(with = "hexadecimal")]
    pub id: ObjectId,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum EntryKind {
    /// A ref by its full name.
    Ref { name: String },
    /// An entry of the stash, 0 for the newest.
    Stash { position: usize, message: String },
    /// A commit that only a file of git's, a detached HEAD or a reflog names.
    Tip { place: String },
    /// Files of the user's before a merge replaced them; `files` names their tree in the archive.
    Replaced { files: String },
    /// What was not committed in a working tree; `files` names the tree of all its files in the archive.
    Snapshot { path: String, branch: Option<String>, files: String },
}

impl EntryKind {
    /// For people.
    pub fn describe(&self) -> String {
        match self {
            Self::Ref { name } => match name.split_once('/').and_then(|(_, rest)| rest.split_once('/')) {
                Some(("heads", branch)) => format!("branch {branch}"),
                Some(("tags", tag)) => format!("tag {tag}"),
                _ => name.clone(),
            },
            Self::Stash { position, message } if message.is_empty() => format!("stash entry {position}"),
            Self::Stash { position, message } => format!("stash entry {position}: {message}"),
            Self::Tip { place } if place == "reflog" => "commits that only a reflog holds".into(),
            Self::Tip { place } => format!("commits at {place}"),
            Self::Replaced { .. } => "your files before a merge".into(),
            Self::Snapshot { path, .. } => format!("uncommitted files in {path}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestLeftOut {
    pub path: String,
    pub reason: String,
}

impl Manifest {
    /// `None` when it is not a manifest of a known version.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let manifest: Self = serde_json::from_slice(text).ok()?;
        (manifest.version <= VERSION).then_some(manifest)
    }
}

mod hexadecimal {
    use crate::refs::ObjectId;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(id: &ObjectId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(id.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectId, D::Error> {
        let text = String::deserialize(deserializer)?;
        ObjectId::parse(&text).ok_or_else(|| D::Error::custom("not an object's id"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_reads_back_and_a_newer_one_is_not_guessed_at() {
        let id = ObjectId::parse(&"a".repeat(40)).unwrap();
        let kinds = [
            EntryKind::Ref { name: "refs/heads/main".into() },
            EntryKind::Stash { position: 1, message: "WIP".into() },
            EntryKind::Tip { place: "reflog".into() },
            EntryKind::Snapshot { path: "/workspace".into(), branch: None, files: "files".into() },
        ];
        let manifest = Manifest {
            version: VERSION,
            sandbox: SandboxId::from_random([7; 15]),
            name: SandboxName::new("box").unwrap(),
            agent: "claude".into(),
            reason: ArchiveReason::WorktreeRemove,
            time: 1_800_000_000,
            entries: kinds.into_iter().map(|kind| ManifestEntry { kind, id: id.clone() }).collect(),
            left_out: vec![ManifestLeftOut { path: "x".into(), reason: "y".into() }],
        };
        let text = serde_json::to_string(&manifest).unwrap();
        assert_eq!(Manifest::parse(text.as_bytes()), Some(manifest.clone()));
        assert!(
            text.contains("\"reason\":\"worktree-remove\"") && text.contains("\"kind\":\"ref\""),
            "{text}"
        );
        let newer = Manifest { version: VERSION + 1, ..manifest };
        assert_eq!(Manifest::parse(&serde_json::to_vec(&newer).unwrap()), None);
        assert_eq!(Manifest::parse(b"{}"), None);
    }
}
