//! Objects in and out of a sandbox, as packs over its stream.
//!
//! The host says what it wants and what it has; git inside packs the rest, and host git unpacks it, checking every
//! object. There is no negotiation and no transport program: both sides' refs are known before. What came is kept apart
//! (`quarantine`) until everything that it leads to is there.

use crate::git::{GitError, Repository};
use crate::quarantine::Quarantine;
use crate::refs::ObjectId;
use crate::sandbox::{SandboxError, SandboxRepository};
use std::io::ErrorKind;
use std::time::Duration;
use tokio::io::AsyncReadExt;

/// What git may take while it puts objects together: a few bytes can say how to make many very large ones. Files above
/// 512 MiB it does not hold in memory.
const MAX_MEMORY: u64 = 4 << 30;
/// As git does it: fewer objects become files of their own.
const UNPACK_LIMIT: u32 = 100;
/// `PACK`, a version and the number of objects.
const HEADER: usize = 12;
/// Of so many objects or fewer, git's list is read.
const MAX_LISTED: u32 = 100_000;
/// Bytes on their way between the sandbox and git.
const BUFFER: usize = 256 * 1024;

/// What a pack is to hold: everything that `wanted` leads to and `known` does not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PackRequest {
    pub(crate) wanted: Vec<ObjectId>,
    pub(crate) known: Vec<ObjectId>,
}

impl PackRequest {
    /// As `git pack-objects --revs` reads it.
    pub(crate) fn revisions(&self) -> Vec<u8> {
        let wanted = self.wanted.iter().map(|id| format!("{id}\n"));
        let known = self.known.iter().map(|id| format!("^{id}\n"));
        wanted.chain(known).collect::<String>().into_bytes()
    }
}

/// Why objects of a sandbox could not be brought.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Git(#[from] GitError),
    /// Git has looked at the objects and does not take them.
    #[error("git does not take it: {0}")]
    Objects(String),
}

impl Repository {
    /// Brings objects of the sandbox into this repository, all of them or none. Nothing refers to them yet. How many commits
    /// no ref led to before, where that is known without another question.
    pub(crate) async fn receive(
        &self,
        from: &SandboxRepository<'_>,
        request: &PackRequest,
    ) -> Result<Option<u32>, ReceiveError> {
        let io = |source| GitError::Io { what: "keep objects apart".into(), source };
        let quarantine = Quarantine::begin(self).map_err(io)?;
        const PACK: [&str; 6] = ["pack-objects", "--revs", "--thin", "--stdout", "--delta-base-offset", "-q"];
        let revisions = request.revisions();
        let (mut writer, mut reader) = tokio::io::duplex(BUFFER);
        let send = async {
            let mut input = revisions.as_slice();
            let sent = from.git("packing the work", &PACK, &mut input, &mut writer).await;
            // Git on this side hears the end also when the other has failed.
            drop(writer);
            sent
        };
        let unpack = self.unpack(&quarantine, &mut reader, from.limits().time);
        let (sent, unpacked) = tokio::join!(send, unpack);
        // A sandbox that failed is why git got too little.
        sent?;
        let count = unpacked?;
        let commits = self.check_connected(&quarantine, &request.wanted, count).await?;
        quarantine.release().map_err(io)?;
        Ok(commits)
    }

    /// How many objects there were. `time` is for git's own work, too: a small pack can hold more than a day's.
    async fn unpack(
        &self,
        quarantine: &Quarantine,
        pack: &mut (impl AsyncReadExt + Send + Unpin),
        time: Duration,
    ) -> Result<u32, ReceiveError> {
        let mut header = [0; HEADER];
        match pack.read_exact(&mut header).await {
            Ok(_) => {}
            // Why nothing came is the sandbox's to say.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(ReceiveError::Objects("the pack is incomplete".into()));
            }
            Err(source) => return Err(GitError::Io { what: "read the pack".into(), source }.into()),
        }
        let [.., a, b, c, d] = header;
        let count = u32::from_be_bytes([a, b, c, d]);
        let unpack: &[&str] = match count {
            0..UNPACK_LIMIT => &["unpack-objects", "-q", "--strict"],
            UNPACK_LIMIT.. => &["index-pack", "--stdin", "--fix-thin", "--strict"],
        };
        let git = quarantine.seen_by(self.git(unpack.iter().copied())).memory(MAX_MEMORY).limit(time);
        match git.input(header).fed_from(pack).await {
            Ok(_) => Ok(count),
            Err(error) => {
                // So that the sandbox does not wait for a reader for ever.
                let _ = tokio::io::copy(pack, &mut tokio::io::sink()).await;
                match error {
                    GitError::Failed { said, .. } if !is_trouble_of_the_host(&said) => {
                        Err(ReceiveError::Objects(said))
                    }
                    GitError::TooMuch { .. } => {
                        Err(ReceiveError::Objects("an object takes more memory than git may have".into()))
                    }
                    other => Err(other.into()),
                }
            }
        }
    }

    /// Whether everything is there that these lead to; how many new commits that is, unless there are too many objects.
    async fn check_connected(
        &self,
        quarantine: &Quarantine,
        tips: &[ObjectId],
        objects: u32,
    ) -> Result<Option<u32>, ReceiveError> {
        let is_listed = objects <= MAX_LISTED;
        let quiet = (!is_listed).then_some("--quiet");
        let question =
            ["rev-list", "--objects"].into_iter().chain(quiet).chain(["--stdin", "--not", "--all"]);
        let tips: String = tips.iter().map(|id| format!("{id}\n")).collect();
        match quarantine.seen_by(self.git(question)).input(tips).bytes().await {
            // Only commits have no name behind their ids.
            Ok(list) if is_listed => {
                let commits = list
                    .split(|byte| *byte == b'\n')
                    .filter(|line| !line.is_empty() && !line.contains(&b' '));
                Ok(u32::try_from(commits.count()).ok())
            }
            Ok(_) => Ok(None),
            Err(GitError::Failed { said, .. }) => Err(ReceiveError::Objects(said)),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether git failed because of the machine, and not because of what it was given.
fn is_trouble_of_the_host(message: &str) -> bool {
    const TROUBLES: [&str; 7] = [
        "No space left on device",
        "Disk quota exceeded",
        "Read-only file system",
        "Permission denied",
        "Input/output error",
        "Too many open files",
        "Cannot allocate memory",
    ];
    TROUBLES.iter().any(|trouble| message.contains(trouble))
}
