//! Makes an archive of what is new in a sandbox's repository.

use super::ArchiveReason;
use super::manifest::{EntryKind, FILE, Manifest, ManifestEntry, ManifestLeftOut, VERSION};
use crate::git::{GitError, Repository};
use crate::host_refs::HostRefs;
use crate::object_writer::{NamedKind, NamedObject};
use crate::pack::{PackRequest, ReceiveError};
use crate::refs::{ObjectId, SandboxRefs};
use crate::sandbox::{SandboxError, SandboxRepository};
use crate::survey::{LeftOut, RepositorySurvey, Snapshot, StashEntry, TreeSurvey};
use crate::transaction::{Expected, RefTransaction};
use crate::tree_diff::TreeEntry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// When git does not take some object, so many times a part of the entries is tried by itself.
const MAX_TRIES: usize = 1000;

/// In the message of an archive's commit, names what it was made for and cannot have as a parent.
pub(crate) const HELD_OBJECT: &str = "Held-object";

/// What an archive is of, and why it is made.
#[derive(Debug, Clone, Copy)]
pub struct ArchiveSubject<'a> {
    pub refs: &'a SandboxRefs,
    pub agent: &'a str,
    pub reason: ArchiveReason,
    /// Unix seconds.
    pub time: i64,
    /// What could not be recorded inside.
    pub left_out: &'a [LeftOut],
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archive {
    pub number: u64,
    pub reference: String,
    pub commit: ObjectId,
    /// Commits that no ref of the host led to before.
    pub commits: u32,
    pub entries: Vec<ManifestEntry>,
}

/// An entry that is in no archive, because git does not take an object that it leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub what: EntryKind,
    pub id: ObjectId,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ArchiveOutcome {
    /// `None` when the host had everything.
    pub archive: Option<Archive>,
    pub refused: Vec<Refused>,
}

/// The types that objects turned out to have.
type Types = HashMap<ObjectId, String>;

impl Repository {
    /// Archives what a sandbox's repository holds and this one does not.
    pub async fn archive(
        &self,
        from: &SandboxRepository<'_>,
        survey: &RepositorySurvey,
        known: &mut HostRefs,
        subject: ArchiveSubject<'_>,
    ) -> Result<ArchiveOutcome, ReceiveError> {
        let entries = self.new_entries(survey, known).await?;
        if entries.is_empty() {
            let (_, _, refused) = self.check_claims(survey, known, subject.refs, entries).await?;
            return Ok(ArchiveOutcome { archive: None, refused });
        }
        let files = |entry: &ManifestEntry| survey.files_of(entry).cloned();
        let wanted = |entries: &[ManifestEntry]| -> Vec<ObjectId> {
            let ids = entries.iter().flat_map(|entry| [Some(entry.id.clone()), files(entry)]);
            ids.flatten().collect()
        };
        let held = known.values();
        let mut common: Vec<ObjectId> = survey.refs.values().cloned().collect();
        common.extend(survey.trees.iter().filter_map(|tree| tree.head.clone()));
        // What came last time is not asked for again; no ref inside may name it any more.
        let last = survey.branches();
        common.extend(last.filter_map(|(branch, _)| known.get(&subject.refs.base_sandbox(&branch)).cloned()));
        common.retain(|id| known.holds(&held, id));
        common.sort_unstable();
        common.dedup();
        drop(held);

        let mut request = PackRequest { wanted: wanted(&entries), known: common };
        let (entries, mut refused, commits) = match self.receive_from(from, &mut request).await {
            Ok(commits) => (entries, Vec::new(), commits),
            Err(error) => {
                let reason = about_objects(error)?;
                tracing::warn!(reason, "git does not take all objects; they are tried in parts");
                let (entries, refused) =
                    self.receive_in_parts(from, (entries, reason), request.known, &wanted).await?;
                (entries, refused, None)
            }
        };
        let (entries, types, wrong) = self.check_claims(survey, known, subject.refs, entries).await?;
        let is_named = |claim: &Refused, refused: &[Refused]| refused.iter().any(|it| it.id == claim.id);
        let wrong: Vec<Refused> = wrong.into_iter().filter(|claim| !is_named(claim, &refused)).collect();
        refused.extend(wrong);
        if entries.is_empty() {
            return Ok(ArchiveOutcome { archive: None, refused });
        }
        let archive = self.write_archive(survey, known, subject, (entries, commits), &types).await?;
        let tips = archive.entries.iter().map(|entry| entry.id.clone());
        known.add_archive(&archive.reference, archive.number, tips);
        Ok(ArchiveOutcome { archive: Some(archive), refused })
    }

    /// Whether the host has everything that a sandbox's repository holds.
    pub async fn has_all(&self, survey: &RepositorySurvey, known: &HostRefs) -> Result<bool, GitError> {
        Ok(self.new_entries(survey, known).await?.is_empty())
    }

    /// What the sandbox holds and no ref or reflog of the host leads to.
    async fn new_entries(
        &self,
        survey: &RepositorySurvey,
        known: &HostRefs,
    ) -> Result<Vec<ManifestEntry>, GitError> {
        let held = known.values();
        let mut seen = HashSet::new();
        let mut entries = survey.entries();
        entries.retain(|entry| !known.holds(&held, &entry.id) && seen.insert(entry.id.clone()));
        if entries.is_empty() {
            return Ok(entries);
        }
        let ids = entries.iter().map(|entry| entry.id.clone()).collect();
        let present = self.types(ids).await?;
        if present.is_empty() {
            return Ok(entries);
        }
        let commits: String = present.keys().map(|id| format!("{id}\n")).collect();
        let question = ["rev-list", "--stdin", "--ignore-missing", "--not", "--all", "--reflog"];
        let unreachable = match self.git(question).input(commits).text().await {
            Ok(unreachable) => unreachable,
            // A sync that was killed had given the repository a part of its objects: a commit, and not what it leads to.
            Err(GitError::Failed { said, .. }) => {
                tracing::debug!(said, "objects that are there already are brought again");
                return Ok(entries);
            }
            Err(error) => return Err(error),
        };
        let unreachable: HashSet<&str> = unreachable.lines().collect();
        let is_commit = |id: &ObjectId| present.get(id).is_some_and(|kind| kind == "commit");
        entries.retain(|entry| !is_commit(&entry.id) || unreachable.contains(entry.id.as_str()));
        Ok(entries)
    }

    /// The types of those objects that are there.
    async fn types(&self, ids: Vec<ObjectId>) -> Result<Types, GitError> {
        let found = self.objects(&ids).await?;
        Ok(found.into_iter().flatten().map(|object| (object.id, object.kind)).collect())
    }

    /// Brings objects. What git inside does not have, although one of its refs names it, is not taken for known there.
    async fn receive_from(
        &self,
        from: &SandboxRepository<'_>,
        request: &mut PackRequest,
    ) -> Result<Option<u32>, ReceiveError> {
        let deadline = Instant::now() + from.limits().time;
        loop {
            let received = self.receive(from, request).await;
            let Err(ReceiveError::Sandbox(SandboxError::Failed { message, .. })) = &received else {
                return received;
            };
            let before = request.known.len();
            request.known.retain(|id| !message.contains(id.as_str()));
            if request.known.len() == before || Instant::now() >= deadline {
                return received;
            }
        }
    }

    /// Brings entries in halves, halves of these and so on, so that only those that git does not take are left out, by
    /// name. `entries` were tried together, with this outcome.
    async fn receive_in_parts(
        &self,
        from: &SandboxRepository<'_>,
        (entries, reason): (Vec<ManifestEntry>, String),
        common: Vec<ObjectId>,
        wanted: &(dyn Fn(&[ManifestEntry]) -> Vec<ObjectId> + Sync),
    ) -> Result<(Vec<ManifestEntry>, Vec<Refused>), ReceiveError> {
        // All of them together take no longer than one transfer may.
        let deadline = Instant::now() + from.limits().time;
        let (mut taken, mut refused, mut tries) = (Vec::new(), Vec::new(), 0);
        let mut request = PackRequest { wanted: Vec::new(), known: common };
        let mut failed = vec![(entries, reason)];
        while let Some((mut part, reason)) = failed.pop() {
            if part.len() == 1 || tries >= MAX_TRIES || Instant::now() >= deadline {
                let refuse =
                    |entry: ManifestEntry| Refused { what: entry.kind, id: entry.id, reason: reason.clone() };
                refused.extend(part.into_iter().map(refuse));
                continue;
            }
            let rest = part.split_off(part.len() / 2);
            let mut failed_halves = Vec::new();
            for half in [part, rest] {
                tries += 1;
                request.wanted = wanted(&half);
                match self.receive_from(from, &mut request).await {
                    Ok(_) => {
                        request.known.append(&mut request.wanted);
                        taken.extend(half);
                    }
                    Err(error) => failed_halves.push((half, about_objects(error)?)),
                }
            }
            failed.extend(failed_halves.into_iter().rev());
        }
        Ok((taken, refused))
    }

    /// Whether objects are what the sandbox says that they are: a branch is a commit, and files are a tree. The entries
    /// for which that is so, the types of their objects, and the claims that are wrong.
    async fn check_claims(
        &self,
        survey: &RepositorySurvey,
        known: &HostRefs,
        refs: &SandboxRefs,
        entries: Vec<ManifestEntry>,
    ) -> Result<(Vec<ManifestEntry>, Types, Vec<Refused>), GitError> {
        let branches: HashSet<&ObjectId> = known.below("refs/heads/").map(|(_, id)| id).collect();
        let base = refs.base();
        let files: HashSet<&ObjectId> = known.below(&base).map(|(_, id)| id).collect();
        let claims = survey.claims();
        // What git or we have put there is known without a question.
        let is_known = |claim: &Claim| match claim.kind {
            "commit" => known.is_commit(&branches, &claim.object),
            _ => files.contains(&claim.object),
        };
        let unknown = claims.iter().filter(|claim| !is_known(claim)).map(|claim| claim.object.clone());
        let ids: Vec<ObjectId> = unknown.chain(entries.iter().map(|entry| entry.id.clone())).collect();
        if ids.is_empty() {
            return Ok((entries, Types::new(), Vec::new()));
        }
        let types = self.types(ids).await?;
        let is_right = |claim: &Claim| {
            is_known(claim) || types.get(&claim.object).is_some_and(|kind| kind == claim.kind)
        };
        let mut wrong: Vec<Refused> = Vec::new();
        for Claim { what, id, object, kind } in claims.into_iter().filter(|claim| !is_right(claim)) {
            let reason = match types.get(&object) {
                Some(found) => format!("{object} is not a {kind} but a {found}"),
                None => format!("{object} did not come"),
            };
            wrong.push(Refused { what, id, reason });
        }
        let (right, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| {
            types.contains_key(&entry.id) && !wrong.iter().any(|claim| claim.what == entry.kind)
        });
        let missing = others.into_iter().filter(|entry| !types.contains_key(&entry.id));
        let missing = missing.map(|ManifestEntry { kind: what, id }| {
            let reason = format!("{id} did not come");
            Refused { what, id, reason }
        });
        let missing: Vec<Refused> =
            missing.filter(|entry| !wrong.iter().any(|claim| claim.what == entry.what)).collect();
        wrong.extend(missing);
        Ok((right, types, wrong))
    }

    async fn write_archive(
        &self,
        survey: &RepositorySurvey,
        known: &HostRefs,
        subject: ArchiveSubject<'_>,
        (entries, received): (Vec<ManifestEntry>, Option<u32>),
        types: &Types,
    ) -> Result<Archive, ReceiveError> {
        let ArchiveSubject { refs, agent, reason, time, left_out } = subject;
        let left_out = left_out.iter();
        let left_out = left_out
            .map(|LeftOut { path, reason }| ManifestLeftOut { path: path.clone(), reason: reason.clone() });
        let manifest = Manifest {
            version: VERSION,
            sandbox: refs.id().clone(),
            name: refs.name().clone(),
            agent: agent.to_owned(),
            reason,
            time,
            left_out: left_out.collect(),
            entries,
        };
        let number = known.next_archive();
        let is_own = |entry: &ManifestEntry| is_own_commit(entry, types);
        // Before the ref is there, which would lead to all of them.
        let commits = match received.filter(|_| manifest.entries.iter().all(is_own)) {
            Some(commits) => commits,
            None => self.count_new_commits(&manifest.entries, types).await?,
        };
        let commit = self.write_archive_commit(survey, number, &manifest, types).await?;
        let reference = refs.archive(number);
        let mut transaction = RefTransaction::default();
        transaction.set(&reference, &commit, Expected::Absent);
        transaction.commit(self, "palisade: archive").await?;
        Ok(Archive { number, reference, commit, commits, entries: manifest.entries })
    }

    async fn write_archive_commit(
        &self,
        survey: &RepositorySurvey,
        number: u64,
        manifest: &Manifest,
        types: &Types,
    ) -> Result<ObjectId, ReceiveError> {
        let Manifest { name, agent, reason, time, .. } = manifest;
        let text = serde_json::to_vec_pretty(manifest).unwrap_or_default();
        let blob = self.write_own_blob(&text).await?;
        let mut tree = vec![NamedObject { name: FILE.into(), kind: NamedKind::File, id: blob }];
        let mut add = |name: String, kind: NamedKind, id: &ObjectId| {
            tree.push(NamedObject { name, kind, id: id.clone() });
        };
        let (mut parents, mut objects) = (Vec::new(), String::new());
        for entry in &manifest.entries {
            let kind = types.get(&entry.id).map(String::as_str);
            if kind != Some("commit") {
                let _ = writeln!(objects, "{HELD_OBJECT}: {}", entry.id);
            }
            match kind {
                Some("commit") => parents.push(entry.id.clone()),
                // No tree can hold a tag. Its content, as it is, can be made a tag again.
                Some("tag") => {
                    let (content, commit) = self.read_tag(&entry.id).await?;
                    let content = self.write_object("blob", content).await?;
                    add(format!("tag-{}", entry.id), NamedKind::File, &content);
                    parents.extend(commit);
                }
                Some("tree") => add(format!("object-{}", entry.id), NamedKind::Directory, &entry.id),
                Some("blob") => add(format!("object-{}", entry.id), NamedKind::File, &entry.id),
                _ => return Err(missing(&entry.id)),
            }
            if let (EntryKind::Snapshot { files, .. }, Some(id)) = (&entry.kind, survey.files_of(entry)) {
                add(files.clone(), NamedKind::Directory, id);
            }
        }
        parents.sort_unstable();
        parents.dedup();
        let tree = self.write_own_tree(tree).await?;
        let parents: String = parents.iter().map(|id| format!("parent {id}\n")).collect();
        let ident = format!("palisade <palisade@localhost> {time} +0000");
        let message = format!("Archive {number} of sandbox {name} ({agent}), made for {}", reason.as_str());
        let objects = if objects.is_empty() { objects } else { format!("\n{objects}") };
        let commit =
            format!("tree {tree}\n{parents}author {ident}\ncommitter {ident}\n\n{message}\n{objects}");
        Ok(self.write_own_commit(&commit).await?)
    }

    /// Commits of the sandbox's own making among what is new, without those that only record what is not committed.
    async fn count_new_commits(&self, entries: &[ManifestEntry], types: &Types) -> Result<u32, GitError> {
        let own = entries.iter().filter(|entry| is_own_commit(entry, types));
        let tips: Vec<&ObjectId> = own.map(|entry| &entry.id).collect();
        match tips.is_empty() {
            true => Ok(0),
            false => self.count(&tips, &[], &["--all"]).await,
        }
    }

    /// Keeps files of the user's that a merge is about to replace.
    pub(crate) async fn archive_replaced(
        &self,
        refs: &SandboxRefs,
        first: u64,
        files: &BTreeMap<PathBuf, TreeEntry>,
    ) -> Result<(), GitError> {
        const NAME: &str = "yours";
        let empty = self.write_own_tree(Vec::new()).await?;
        let contents: Vec<(&Path, Option<TreeEntry>)> =
            files.iter().map(|(path, entry)| (path.as_path(), Some(entry.clone()))).collect();
        let tree = self.tree_with(&empty, contents.iter().map(|(path, entry)| (*path, entry))).await?;
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let manifest = Manifest {
            version: VERSION,
            sandbox: refs.id().clone(),
            name: refs.name().clone(),
            agent: String::new(),
            reason: ArchiveReason::Merge,
            time: i64::try_from(time).unwrap_or(i64::MAX),
            entries: vec![ManifestEntry {
                kind: EntryKind::Replaced { files: NAME.into() },
                id: tree.clone(),
            }],
            left_out: Vec::new(),
        };
        let blob = self.write_own_blob(&serde_json::to_vec_pretty(&manifest).unwrap_or_default()).await?;
        let root = self
            .write_own_tree(vec![
                NamedObject { name: FILE.into(), kind: NamedKind::File, id: blob },
                NamedObject { name: NAME.into(), kind: NamedKind::Directory, id: tree },
            ])
            .await?;
        let ident = format!("palisade <palisade@localhost> {time} +0000");
        let message = format!("Your files before they were merged with those of sandbox {}", refs.name());
        let commit = format!("tree {root}\nauthor {ident}\ncommitter {ident}\n\n{message}\n");
        let commit = self.write_own_commit(&commit).await?;
        // Several working trees of one sync may each make one.
        for number in first..first + 1000 {
            let mut transaction = RefTransaction::default();
            transaction.set(&refs.archive(number), &commit, Expected::Absent);
            if transaction.commit(self, "palisade: archive").await.is_ok() {
                return Ok(());
            }
        }
        Err(GitError::Answer { what: "update-ref".into(), answer: "no archive could be made".into() })
    }

    /// Makes a tag again that only an archive holds.
    pub(crate) async fn make_archived_tag(&self, archive: &str, id: &ObjectId) -> Result<(), GitError> {
        let content = self.git(["cat-file", "blob", &format!("{archive}:tag-{id}")]).bytes().await;
        match content {
            Ok(content) => self.write_object("tag", content).await.map(drop),
            // It is none of those that an archive holds by their content.
            Err(GitError::Failed { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The content of a tag, and the commit that it leads to.
    async fn read_tag(&self, id: &ObjectId) -> Result<(Vec<u8>, Option<ObjectId>), GitError> {
        let content = self.git(["cat-file", "tag", id.as_str()]).bytes().await?;
        let commit = self.commit_if_any(id.as_str()).await?;
        Ok((content, commit))
    }
}

/// Whether an entry leads to commits of the sandbox's own making, and not to one that records what is not committed.
fn is_own_commit(entry: &ManifestEntry, types: &Types) -> bool {
    matches!(entry.kind, EntryKind::Ref { .. } | EntryKind::Tip { .. })
        && types.get(&entry.id).is_some_and(|kind| kind == "commit" || kind == "tag")
}

/// Why some of the objects could not be brought; an error that all of them would meet is passed on.
fn about_objects(error: ReceiveError) -> Result<String, ReceiveError> {
    match error {
        ReceiveError::Objects(reason) => Ok(reason),
        // Git inside cannot read what a ref leads to.
        ReceiveError::Sandbox(SandboxError::Failed { message, .. }) => Ok(message),
        other => Err(other),
    }
}

fn missing(id: &ObjectId) -> ReceiveError {
    ReceiveError::Objects(format!("{id} did not come"))
}

impl RepositorySurvey {
    /// Everything that an archive may be made for.
    fn entries(&self) -> Vec<ManifestEntry> {
        let mut entries = Vec::new();
        let mut add = |kind: EntryKind, id: &ObjectId| entries.push(ManifestEntry { kind, id: id.clone() });
        let mut refs: Vec<_> = self.refs.iter().filter(|(name, _)| *name != "refs/stash").collect();
        // Of several that lead to the same, the first names it: better a branch than a file of git's.
        let directories = ["refs/heads/", "refs/tags/"];
        refs.sort_by_key(|(name, _)| !directories.iter().any(|directory| name.starts_with(directory)));
        for (name, id) in refs {
            add(EntryKind::Ref { name: name.clone() }, id);
        }
        for (position, entry) in self.stashes.iter().enumerate() {
            add(EntryKind::Stash { position, message: entry.message.clone() }, &entry.id);
        }
        for (number, tree) in self.trees.iter().enumerate() {
            let branch = tree.branch.as_ref().and_then(|branch| self.branch(branch));
            // The agent may also have committed between the look at the one and at the other.
            if let Some(head) = tree.head.as_ref().filter(|head| branch != Some(*head)) {
                add(tree.head_kind(), head);
            }
            if let Some(snapshot) = &tree.snapshot {
                add(tree.snapshot_kind(number), &snapshot.commit);
            }
        }
        for (place, id) in &self.tips {
            add(EntryKind::Tip { place: place.clone() }, id);
        }
        entries
    }

    /// What the sandbox says of the objects that a sync relies on.
    fn claims(&self) -> Vec<Claim> {
        let mut claims = Vec::new();
        let mut claim = |what: EntryKind, id: &ObjectId, object: &ObjectId, kind: &'static str| {
            claims.push(Claim { what, id: id.clone(), object: object.clone(), kind });
        };
        for (name, id) in self.refs.iter().filter(|(name, _)| name.starts_with("refs/heads/")) {
            claim(EntryKind::Ref { name: name.clone() }, id, id, "commit");
        }
        for (position, StashEntry { id, message }) in self.stashes.iter().enumerate() {
            claim(EntryKind::Stash { position, message: message.clone() }, id, id, "commit");
        }
        for (number, tree) in self.trees.iter().enumerate() {
            if let Some(head) = &tree.head {
                claim(tree.head_kind(), head, head, "commit");
            }
            if let Some(Snapshot { commit, files }) = &tree.snapshot {
                claim(tree.snapshot_kind(number), commit, commit, "commit");
                claim(tree.snapshot_kind(number), commit, files, "tree");
            }
        }
        claims
    }

    /// The tree of all files that belongs to a snapshot.
    fn files_of(&self, entry: &ManifestEntry) -> Option<&ObjectId> {
        let EntryKind::Snapshot { .. } = &entry.kind else { return None };
        let snapshots = self.trees.iter().filter_map(|tree| tree.snapshot.as_ref());
        snapshots.filter(|snapshot| snapshot.commit == entry.id).map(|snapshot| &snapshot.files).next()
    }
}

/// An object that is to be of a type, and what is left out if it is not.
struct Claim {
    what: EntryKind,
    id: ObjectId,
    object: ObjectId,
    kind: &'static str,
}

impl TreeSurvey {
    fn head_kind(&self) -> EntryKind {
        let place = match &self.branch {
            None => format!("the detached HEAD of {}", self.path),
            Some(_) => format!("HEAD of {}", self.path),
        };
        EntryKind::Tip { place }
    }

    fn snapshot_kind(&self, number: usize) -> EntryKind {
        EntryKind::Snapshot {
            path: self.path.to_string(),
            branch: self.branch.as_ref().map(ToString::to_string),
            files: files_name(number),
        }
    }
}

/// The name of a working tree's files in an archive.
pub(crate) fn files_name(number: usize) -> String {
    match number {
        0 => "files".into(),
        number => format!("files-{number}"),
    }
}
