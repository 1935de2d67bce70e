//! Sends the host's state into a sandbox: objects, refs, settings, and what its working tree is to be.

use crate::git::{GitError, Repository};
use crate::host_refs::HostRefs;
use crate::host_tree::HostTree;
use crate::large_files::{GitOrSandbox, LargeFilesReport};
use crate::pack::PackRequest;
use crate::partial_clone::is_about_missing_objects;
use crate::progress::Progress;
use crate::refs::{BranchName, ObjectId, SandboxRefs};
use crate::sandbox::{SandboxError, SandboxRepository};
use crate::shared_objects::SharedObjects;
use crate::survey::RepositorySurvey;
use palisade_core::RefScope;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes on their way between git and the sandbox.
const BUFFER: usize = 256 * 1024;

/// What the sandbox's main working tree is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeTarget {
    /// The host's branch and commit, with these files; a tree, or the commit's own.
    Host { files: Option<ObjectId> },
    /// What it is.
    Stay,
}

#[derive(Debug, Clone)]
pub struct SendRequest<'a> {
    pub scope: RefScope,
    /// `None` for a commit on no branch.
    pub branch: Option<&'a BranchName>,
    pub commit: &'a ObjectId,
    pub target: TreeTarget,
    /// Lines for what git ignores inside.
    pub exclude: Vec<String>,
    /// What the sandbox sees of the host's commits without a transfer.
    pub shared: Option<&'a SharedObjects>,
}

/// What became of the sandbox's working tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    Done,
    /// Something has changed inside since it was looked at: look again.
    Changed,
    /// Another working tree of the sandbox has the branch.
    InWorktree,
}

/// What came of sending the host's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendReport {
    pub tree: Sent,
    /// Branches inside that are where the host has them, as the sandbox says: text that is only ever compared.
    pub followed: BTreeSet<String>,
    pub large_files: LargeFilesReport,
}

#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("this is a partial clone: some objects that the sandbox needs are not here")]
    PartialClone,
}

impl From<GitOrSandbox> for SendError {
    fn from(error: GitOrSandbox) -> Self {
        match error {
            GitOrSandbox::Git(error) => Self::Git(error),
            GitOrSandbox::Sandbox(error) => Self::Sandbox(error),
        }
    }
}

impl HostTree {
    #[allow(clippy::too_many_arguments, reason = "the two sides, what is known of each, and what to do")]
    /// Sends everything. `survey` is what the sandbox's repository has; `None` when there is none yet. `memory` are the refs
    /// that say what was delivered of other branches.
    pub async fn send(
        &self,
        to: &SandboxRepository<'_>,
        known: &HostRefs,
        memory: Option<&SandboxRefs>,
        survey: Option<&RepositorySurvey>,
        request: &SendRequest<'_>,
        mut progress: impl FnMut(Progress) + Send,
    ) -> Result<SendReport, SendError> {
        let refs = sent_refs(known, request.scope, request.branch.map(|branch| (branch, request.commit)));
        let shallow = self.repository.shallow_commits()?;
        let there = survey;
        let is_as_deep = there.is_none_or(|there| there.shallow == shallow);
        let mut wanted: BTreeSet<&ObjectId> = refs.values().copied().chain([request.commit]).collect();
        if let TreeTarget::Host { files: Some(files) } = &request.target {
            wanted.insert(files);
        }
        let inside: BTreeSet<&ObjectId> = match there {
            // Where the history ends elsewhere, what the sandbox has may lack what the host's has.
            Some(there) if is_as_deep => there.refs.values().collect(),
            _ => BTreeSet::new(),
        };
        let shared = request.shared.filter(|shared| shared.shallow == shallow);
        let is_shared = |id: &ObjectId| shared.is_some_and(|shared| shared.tips.contains(id));
        wanted.retain(|id| !inside.contains(id) && !is_shared(id));
        if !wanted.is_empty() || there.is_none() {
            let held = known.values();
            let common = inside.iter().copied().filter(|id| known.holds(&held, id));
            let common: BTreeSet<&ObjectId> =
                common.chain(shared.into_iter().flat_map(|shared| &shared.tips)).collect();
            let objects = PackRequest {
                wanted: wanted.into_iter().cloned().collect(),
                known: common.into_iter().cloned().collect(),
            };
            let format = object_format(request.commit);
            let (repository, shared) = (&self.repository, request.shared);
            let sent = repository.send_objects(to, &objects, format, shared, &mut progress).await;
            if let Err(failed) = sent {
                repository.complete(failed, &objects.wanted, &mut progress).await?;
                repository.send_objects(to, &objects, format, shared, progress).await?;
            }
        }
        let large_files = self.send_large_files(to, there.map_or(&[], |there| &there.large)).await?;
        let words = self.follow_words(&refs, request, survey, &shallow, known, memory).await?;
        const WHAT: &str = "moving to the host's state";
        let answer = to.ask(WHAT, &["follow", to.directory()], &words).await?;
        let mut words = answer.split(|byte| *byte == 0);
        let tree = match words.next() {
            Some(b"done") => Sent::Done,
            Some(b"changed") => Sent::Changed,
            Some(b"in-worktree") => Sent::InWorktree,
            _ => return Err(SandboxError::Answer { what: WHAT }.into()),
        };
        let followed = words.filter_map(|branch| String::from_utf8(branch.to_vec()).ok()).collect();
        Ok(SendReport { tree, followed, large_files })
    }

    /// The request for the guest, as its `follow` describes it.
    async fn follow_words(
        &self,
        refs: &BTreeMap<String, &ObjectId>,
        request: &SendRequest<'_>,
        survey: Option<&RepositorySurvey>,
        shallow: &str,
        known: &HostRefs,
        memory: Option<&SandboxRefs>,
    ) -> Result<Vec<u8>, GitError> {
        let mut words = Words::default();
        for (key, value) in self.repository.remote_settings(request.branch, request.scope).await? {
            words.add(&["config", &key, &value]);
        }
        words.add(&["config", "alias.remote-palisade", &format!("!{} repository remote", GUEST_PLACE)]);
        let identity = self.repository.identity();
        for (key, value) in [("user.name", &identity.name), ("user.email", &identity.email)] {
            if !value.is_empty() {
                words.add(&["global", key, value]);
            }
        }
        if let Some(shared) = request.shared {
            words.add(&["objects", &shared.inside]);
        }
        for line in &request.exclude {
            words.add(&["exclude", line]);
        }
        if survey.is_some_and(|survey| survey.shallow != shallow) || (survey.is_none() && !shallow.is_empty())
        {
            words.add(&["shallow", shallow]);
        }
        for prefix in ["refs/remotes/", "refs/tags/"] {
            // With the branch alone, what was sent before stays as it was.
            if request.scope == RefScope::All && prefix == "refs/remotes/" {
                words.add(&["mirror", prefix]);
            }
        }
        for (name, id) in refs {
            match name.strip_prefix("refs/heads/") {
                Some(branch) => {
                    words.add(&["ref", &format!("refs/remotes/host/{branch}"), id.as_str()]);
                    let delivered = BranchName::new(branch).ok();
                    let delivered = delivered.and_then(|branch| known.get(&memory?.base_sandbox(&branch)));
                    words.add(&["local", branch, id.as_str(), delivered.map_or("", ObjectId::as_str)]);
                }
                None => words.add(&["ref", name, id.as_str()]),
            }
        }
        if let TreeTarget::Host { files } = &request.target {
            let files = files.as_ref().map_or("", ObjectId::as_str);
            let snapshot = survey.and_then(|survey| survey.trees.first()?.snapshot.as_ref());
            let snapshot = snapshot.map_or("", |snapshot| snapshot.commit.as_str());
            let branch = request.branch.map_or("", BranchName::as_str);
            words.add(&["checkout", branch, request.commit.as_str(), files, snapshot]);
        }
        Ok(words.0)
    }
}

/// Stands for the path of our program in a setting; the guest puts its own in.
const GUEST_PLACE: &str = "palisade-guest";

/// The refs that the sandbox is to see, by the host's names. Those that show waiting work are not for it.
pub(crate) fn sent_refs<'r>(
    known: &'r HostRefs,
    scope: RefScope,
    head: Option<(&BranchName, &'r ObjectId)>,
) -> BTreeMap<String, &'r ObjectId> {
    let mut refs = BTreeMap::new();
    let directories: &[&str] = match scope {
        RefScope::All => &["refs/heads/", "refs/remotes/", "refs/tags/"],
        RefScope::Branch => &[],
    };
    for directory in directories {
        for (name, id) in known.below(directory) {
            // A remote called `host` would be taken for the host itself.
            if !name.starts_with("refs/heads/palisade/") && !name.starts_with("refs/remotes/host/") {
                refs.insert(name.to_owned(), id);
            }
        }
    }
    if let Some((branch, commit)) = head {
        refs.insert(branch.full(), commit);
    }
    refs
}

/// The hash that names objects.
fn object_format(id: &ObjectId) -> &'static str {
    match id.as_str().len() {
        64 => "sha256",
        _ => "sha1",
    }
}

impl Repository {
    /// Where the history ends in a shallow clone: the content of git's file, or nothing.
    pub(crate) fn shallow_commits(&self) -> Result<String, GitError> {
        match std::fs::read_to_string(self.places().common.join("shallow")) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            Err(source) => Err(GitError::Io { what: "read where the history ends".into(), source }),
        }
    }

    /// Sends objects into the sandbox's repository, which is made when there is none.
    pub(crate) async fn send_objects(
        &self,
        to: &SandboxRepository<'_>,
        request: &PackRequest,
        format: &str,
        shared: Option<&SharedObjects>,
        mut progress: impl FnMut(Progress) + Send,
    ) -> Result<(), SendError> {
        let (mut writer, mut reader) = tokio::io::duplex(BUFFER);
        let pack = async {
            let words = ["pack-objects", "--revs", "--thin", "--stdout", "--delta-base-offset", "--progress"];
            let git = self.git(words).input(request.revisions()).without_limit();
            let packed = git
                .written_to(&mut writer, |line| Progress::parse(line).into_iter().for_each(&mut progress))
                .await;
            drop(writer);
            packed
        };
        let receive = to.receive(format, shared.map(|shared| shared.inside.as_str()), &mut reader);
        let (packed, received) = tokio::join!(pack, receive);
        match packed {
            // The sandbox fails, too, then: it gets less than it was promised.
            Err(error) if is_about_missing_objects(&error) => return Err(error.into()),
            // A sandbox that does not take any more is why git could not go on.
            Err(error) if received.is_ok() => return Err(error.into()),
            _ => {}
        }
        Ok(received?)
    }
}

/// Words that are ended by a NUL each.
#[derive(Debug, Default)]
struct Words(Vec<u8>);

impl Words {
    fn add(&mut self, words: &[&str]) {
        for word in words {
            self.0.extend_from_slice(word.as_bytes());
            self.0.push(0);
        }
    }
}
