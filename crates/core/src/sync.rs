//! When an agent's work is brought into refs of the host's repository, and what is told of it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// When that happens by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SyncMode {
    /// Only when somebody asks for it.
    #[default]
    Manual,
    /// Whenever a branch inside has moved.
    OnCommit,
    /// Whenever nothing has moved for a while, and when a session ends.
    OnIdle,
}

impl SyncMode {
    pub const ALL: [SyncMode; 3] = [SyncMode::Manual, SyncMode::OnCommit, SyncMode::OnIdle];

    pub fn as_str(self) -> &'static str {
        match self {
            SyncMode::Manual => "manual",
            SyncMode::OnCommit => "on-commit",
            SyncMode::OnIdle => "on-idle",
        }
    }
}

impl fmt::Display for SyncMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is no {what}; possible are {possible}", crate::printable(.given))]
pub struct UnknownSyncWord {
    what: &'static str,
    given: String,
    possible: String,
}

impl FromStr for SyncMode {
    type Err = UnknownSyncWord;

    fn from_str(text: &str) -> Result<Self, UnknownSyncWord> {
        known("sync mode", text, Self::ALL.map(|mode| (mode.as_str(), mode)))
    }
}

/// Which of the host's refs a sandbox sees; more is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RefScope {
    /// The branch that is checked out.
    Branch,
    /// All branches, remote-tracking branches and tags.
    #[default]
    All,
}

impl RefScope {
    pub const ALL: [RefScope; 2] = [RefScope::All, RefScope::Branch];

    pub fn as_str(self) -> &'static str {
        match self {
            RefScope::All => "all",
            RefScope::Branch => "branch",
        }
    }
}

impl fmt::Display for RefScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for RefScope {
    type Err = UnknownSyncWord;

    fn from_str(text: &str) -> Result<Self, UnknownSyncWord> {
        known("scope of refs", text, Self::ALL.map(|scope| (scope.as_str(), scope)))
    }
}

/// What gave reason to a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SyncTrigger {
    /// A branch moved inside.
    Commit,
    /// Nothing has moved for a while.
    Idle,
    /// A session, or the agent's task, ended.
    Ended,
    /// The sandbox is about to be stopped.
    Stop,
    /// Somebody asked for it.
    Asked,
}

impl SyncTrigger {
    pub const ALL: [SyncTrigger; 5] =
        [SyncTrigger::Commit, SyncTrigger::Idle, SyncTrigger::Ended, SyncTrigger::Stop, SyncTrigger::Asked];

    pub fn as_str(self) -> &'static str {
        match self {
            SyncTrigger::Commit => "commit",
            SyncTrigger::Idle => "idle",
            SyncTrigger::Ended => "ended",
            SyncTrigger::Stop => "stop",
            SyncTrigger::Asked => "asked",
        }
    }
}

impl fmt::Display for SyncTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for SyncTrigger {
    type Err = UnknownSyncWord;

    fn from_str(text: &str) -> Result<Self, UnknownSyncWord> {
        known("reason for a sync", text, Self::ALL.map(|trigger| (trigger.as_str(), trigger)))
    }
}

fn known<T: Copy, const N: usize>(
    what: &'static str,
    given: &str,
    words: [(&'static str, T); N],
) -> Result<T, UnknownSyncWord> {
    let found = words.iter().find(|(word, _)| *word == given).map(|(_, value)| *value);
    found.ok_or_else(|| UnknownSyncWord {
        what,
        given: given.chars().take(64).collect(),
        possible: words.map(|(word, _)| word).join(", "),
    })
}

/// A ref of the host's repository that a sync moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MovedRef {
    /// In full, such as `refs/palisade/archive/ID/3`.
    pub name: String,
    /// The commit it was at; none when it is new.
    pub from: Option<String>,
    /// The commit it is at; none when it is gone.
    pub to: Option<String>,
    /// How many commits that brought; none for uncommitted work.
    pub commits: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back_and_others_are_refused_with_what_is_possible() {
        for mode in SyncMode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        for trigger in SyncTrigger::ALL {
            assert_eq!(trigger.to_string().parse(), Ok(trigger));
        }
        let error = "always".parse::<SyncMode>().unwrap_err().to_string();
        assert_eq!(error, "'always' is no sync mode; possible are manual, on-commit, on-idle");
    }
}
