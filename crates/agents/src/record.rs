//! What is remembered of an agent's sandbox: a small file beside its home, which nothing inside can reach.

use palisade_core::{HostPath, RefScope, SandboxDir, SyncMode};
use palisade_engine::{Errand, When};
use palisade_workspace::BranchName;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

const VERSION: u32 = 1;
const FILE: &str = "agent.json";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    version: u32,
    /// The top of the host's working tree.
    pub repository: HostPath,
    /// The id in its common git directory, by which it is found again when it was moved.
    #[serde(default)]
    pub repository_id: Option<String>,
    branch: String,
    /// The profile it was last started with.
    pub agent: String,
    /// Files beside the code that were sent in, by their names below the top.
    #[serde(default)]
    pub env_files: Vec<String>,
    /// Files that sessions have as variables, in their order.
    #[serde(default)]
    pub env_load: Vec<String>,
    /// When its work is brought into refs by itself.
    #[serde(default)]
    pub sync: SyncMode,
    /// How long nothing has to move for that, when it is to be idle.
    #[serde(default = "default_idle")]
    pub idle_seconds: u32,
    /// Which of the host's refs it sees, ever since it was created.
    #[serde(default)]
    pub refs: RefScope,
}

fn default_idle() -> u32 {
    30
}

impl Record {
    pub fn new(repository: HostPath, branch: &BranchName, agent: &str) -> Self {
        Self {
            version: VERSION,
            repository,
            repository_id: None,
            branch: branch.as_str().into(),
            agent: agent.into(),
            env_files: Vec::new(),
            env_load: Vec::new(),
            sync: SyncMode::Manual,
            idle_seconds: default_idle(),
            refs: RefScope::All,
        }
    }

    /// What the sandbox's keeper is to do besides: `command` brings the work, see [`crate::AgentService::archive`].
    pub fn errand(&self, command: Vec<OsString>) -> Option<Errand> {
        let when = match self.sync {
            SyncMode::Manual => return None,
            SyncMode::OnCommit => When::OnCommit,
            SyncMode::OnIdle => When::OnIdle { after: Duration::from_secs(self.idle_seconds.into()) },
        };
        Some(Errand { when, command })
    }

    /// The host's branch that was sent in last.
    pub fn branch(&self) -> Option<BranchName> {
        BranchName::new(&self.branch).ok()
    }

    /// Whether a sandbox has a record, of whatever version.
    pub(crate) fn exists(dir: &SandboxDir) -> bool {
        dir.path().join(FILE).as_path().exists()
    }

    /// `None` when the sandbox is not an agent's.
    pub fn read(dir: &SandboxDir) -> std::io::Result<Option<Self>> {
        let text = match std::fs::read_to_string(dir.path().join(FILE)) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let record: Self = serde_json::from_str(&text).map_err(std::io::Error::other)?;
        if record.version > VERSION {
            return Err(std::io::Error::other("it was written by a newer palisade"));
        }
        Ok(Some(record))
    }

    /// In one step: a reader finds the old or the new one.
    pub fn write(&self, dir: &SandboxDir) -> std::io::Result<()> {
        let fresh = dir.path().join(format!(".{FILE}"));
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(&serde_json::to_vec_pretty(self).map_err(std::io::Error::other)?)?;
        std::fs::rename(fresh, dir.path().join(FILE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back_and_absence_is_no_error() {
        let place = tempfile::tempdir().unwrap();
        let dir = SandboxDir::new(HostPath::new(place.path()).unwrap());
        assert_eq!(Record::read(&dir).unwrap(), None);
        let branch = BranchName::new("feature/x").unwrap();
        let record = Record::new(HostPath::new("/repo").unwrap(), &branch, "claude");
        record.write(&dir).unwrap();
        assert_eq!(Record::read(&dir).unwrap().as_ref(), Some(&record));
        assert_eq!(record.branch(), Some(branch));
    }

    #[test]
    fn a_record_of_before_there_were_modes_is_manual_and_the_others_give_orders() {
        let old = r#"{"version":1,"repository":"/r","branch":"b","agent":"a"}"#;
        let mut record: Record = serde_json::from_str(old).unwrap();
        assert_eq!(
            (record.sync, record.idle_seconds, record.errand(Vec::new())),
            (SyncMode::Manual, 30, None)
        );
        record.sync = SyncMode::OnIdle;
        let when = When::OnIdle { after: Duration::from_secs(30) };
        assert_eq!(record.errand(Vec::new()), Some(Errand { when, command: Vec::new() }));
    }

    #[test]
    fn a_record_of_an_older_program_has_no_files() {
        let place = tempfile::tempdir().unwrap();
        let dir = SandboxDir::new(HostPath::new(place.path()).unwrap());
        let text = r#"{"version":1,"repository":"/r","branch":"b","agent":"a"}"#;
        std::fs::write(place.path().join(FILE), text).unwrap();
        let branch = BranchName::new("b").unwrap();
        let expected = Record::new(HostPath::new("/r").unwrap(), &branch, "a");
        assert_eq!(Record::read(&dir).unwrap(), Some(expected));
    }

    #[test]
    fn a_newer_record_is_not_guessed_at() {
        let place = tempfile::tempdir().unwrap();
        let dir = SandboxDir::new(HostPath::new(place.path()).unwrap());
        let text = r#"{"version":2,"repository":"/r","branch":"b","agent":"a"}"#;
        std::fs::write(place.path().join(FILE), text).unwrap();
        assert!(Record::read(&dir).unwrap_err().to_string().contains("newer"));
    }
}
