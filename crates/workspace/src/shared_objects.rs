//! A store of the host's commits that sandboxes are shown read-only, so that they need no copy of their own.
//!
//! The host writes packs into it, straight from its repository and with their indexes; nothing is unpacked inside. A
//! file beside them, written last, says what they hold. Only commits of branches, remote-tracking branches and tags go in, never
//! changes that are not committed. While a sandbox relies on a store, the store only grows.

use crate::git::{GitError, Repository};
use crate::host_refs::HostRefs;
use crate::host_tree::HostTree;
use crate::pack::PackRequest;
use crate::progress::Progress;
use crate::refs::{ObjectId, SandboxRefs};
use crate::send::{SendError, sent_refs};
use palisade_core::{HostPath, RefScope};
use palisade_host::object_store::LockedObjectStore;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const VERSION: u32 = 1;
const CONTENTS: &str = "info/palisade.json";
/// Everybody may read a pack, and nobody write it.
const PACK_MODE: u32 = 0o444;

/// What the packs of a store hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Contents {
    version: u32,
    /// Where the history ended when they were written, for a shallow clone.
    shallow: String,
    packs: Vec<String>,
    /// Everything that these lead to is in the packs.
    tips: BTreeSet<String>,
}

/// What a store holds, for what is sent besides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedObjects {
    pub(crate) tips: BTreeSet<ObjectId>,
    pub(crate) shallow: String,
    /// Where it stands inside.
    pub(crate) inside: String,
    /// It was missing, or a part of it, and was written again.
    pub was_damaged: bool,
}

/// What to do with a store that has commits already, but not the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// Sandboxes see at once what is added.
    Grow,
    /// Sandboxes have a copy: what is newer is sent to each.
    Keep,
}

#[derive(Debug, Clone, Copy)]
pub struct SharedObjectsRequest<'a> {
    pub store: &'a LockedObjectStore,
    pub scope: RefScope,
    pub growth: Growth,
    /// Where the store stands inside.
    pub inside: &'a str,
    /// The sandboxes that rely on it: a store that was lost must hold what was sent to them.
    pub sandboxes: &'a [SandboxRefs],
}

impl HostTree {
    /// Writes the host's commits into a store, as far as it lacks them.
    pub async fn write_shared_objects(
        &self,
        request: &SharedObjectsRequest<'_>,
        mut progress: impl FnMut(Progress) + Send,
    ) -> Result<SharedObjects, SendError> {
        let directory = request.store.directory();
        let shallow = self.repository.shallow_commits()?;
        let refs = self.repository.refs_alone().await?;
        let found = Contents::read(directory);
        let known = found.clone().filter(|contents| contents.shallow == shallow);
        if let (Some(contents), Growth::Keep) = (&known, request.growth) {
            return Ok(SharedObjects::of(contents, request.inside));
        }
        let tips = self.shared_tips(&refs, request);
        let mut wanted = tips.clone();
        let was_damaged = found.is_none() && !request.sandboxes.is_empty();
        if found.is_none() {
            wanted.extend(request.sandboxes.iter().flat_map(|sandbox| refs.sent_to(sandbox)));
        }
        let is_there = |id: &ObjectId| known.as_ref().is_some_and(|known| known.tips.contains(id.as_str()));
        wanted.retain(|id| !is_there(id));
        let mut contents = found.unwrap_or_else(|| Contents::none(&shallow));
        if !wanted.is_empty() {
            remove_remains(directory);
            let old = known.map(|known| known.tips).unwrap_or_default();
            let old = self.repository.existing(old.iter().filter_map(|id| ObjectId::parse(id))).await?;
            let objects = PackRequest { wanted: wanted.into_iter().collect(), known: old };
            let mut written = self.repository.write_pack(directory, &objects, &mut progress).await;
            if let Err(failed) = written {
                self.repository.complete(failed, &objects.wanted, &mut progress).await?;
                written = self.repository.write_pack(directory, &objects, progress).await;
            }
            contents.packs.extend(written?);
            contents.tips = tips.iter().map(ToString::to_string).collect();
            contents.shallow = shallow;
            contents.write(directory)?;
        }
        Ok(SharedObjects { was_damaged, ..SharedObjects::of(&contents, request.inside) })
    }

    /// What the sandboxes may see of the host's history.
    fn shared_tips(&self, refs: &HostRefs, request: &SharedObjectsRequest<'_>) -> BTreeSet<ObjectId> {
        let head = self.branch.as_ref().zip(self.head.as_ref());
        sent_refs(refs, request.scope, head).into_values().cloned().collect()
    }
}

impl SharedObjects {
    fn of(contents: &Contents, inside: &str) -> Self {
        let tips = contents.tips.iter().filter_map(|id| ObjectId::parse(id)).collect();
        let (shallow, inside) = (contents.shallow.clone(), inside.to_owned());
        Self { tips, shallow, inside, was_damaged: false }
    }
}

impl Contents {
    fn none(shallow: &str) -> Self {
        let (packs, tips) = (Vec::new(), BTreeSet::new());
        Self { version: VERSION, shallow: shallow.to_owned(), packs, tips }
    }

    /// `None` unless every pack is there with its index.
    fn read(directory: &HostPath) -> Option<Self> {
        let text = std::fs::read(directory.join(CONTENTS)).ok()?;
        let contents: Self = serde_json::from_slice(&text).ok()?;
        let is_there = |pack: &String| {
            ["pack", "idx"].iter().all(|kind| pack_file(directory, pack, kind).as_path().is_file())
        };
        (contents.version == VERSION && contents.packs.iter().all(is_there)).then_some(contents)
    }

    fn write(&self, directory: &HostPath) -> Result<(), GitError> {
        let text = serde_json::to_vec(self).map_err(std::io::Error::other);
        let fresh = directory.join(format!("{CONTENTS}.new"));
        let written = text.and_then(|text| {
            std::fs::write(&fresh, text)?;
            set_mode(fresh.as_path())?;
            std::fs::rename(&fresh, directory.join(CONTENTS))
        });
        written.map_err(|source| GitError::Io { what: "write what the store holds".into(), source })
    }
}

fn pack_file(directory: &HostPath, pack: &str, kind: &str) -> HostPath {
    directory.join("pack").join(format!("pack-{pack}.{kind}"))
}

fn set_mode(path: &Path) -> std::io::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(PACK_MODE))
}

/// Removes the files of a write that was interrupted. A pack with an index is complete, and stays in any case: git
/// writes the index last.
fn remove_remains(directory: &HostPath) {
    let entries = std::fs::read_dir(directory.join("pack")).into_iter().flatten().flatten();
    let is_complete = |name: &str| {
        let stem = name.strip_prefix("pack-").and_then(|name| name.split('.').next());
        stem.is_some_and(|stem| pack_file(directory, stem, "idx").as_path().is_file())
    };
    for entry in entries.filter(|entry| !entry.file_name().to_str().is_some_and(is_complete)) {
        let _ = std::fs::remove_file(entry.path());
    }
}

impl HostRefs {
    /// The commits of the host's that a sandbox was sent.
    fn sent_to(&self, sandbox: &SandboxRefs) -> Vec<ObjectId> {
        let directories = sandbox.sent_directories();
        directories.iter().flat_map(|directory| self.below(directory)).map(|(_, id)| id.clone()).collect()
    }
}

impl Repository {
    /// Those objects that are here.
    async fn existing(&self, ids: impl Iterator<Item = ObjectId>) -> Result<Vec<ObjectId>, GitError> {
        let ids: Vec<ObjectId> = ids.collect();
        let found = self.objects(&ids).await?;
        Ok(ids.into_iter().zip(found).filter(|(_, found)| found.is_some()).map(|(id, _)| id).collect())
    }

    /// Writes a pack with its index straight into a store; its name. `None` when there was nothing to write.
    async fn write_pack(
        &self,
        directory: &HostPath,
        objects: &PackRequest,
        mut progress: impl FnMut(Progress) + Send,
    ) -> Result<Option<String>, SendError> {
        let base = directory.join("pack/pack");
        // Deltas that are in packs are taken over. To look for new ones takes longer than it saves here.
        let words = [
            "pack-objects",
            "--revs",
            "--delta-base-offset",
            "--window=0",
            "--non-empty",
            "--progress",
            "--all-progress",
        ];
        let words = words.into_iter().map(std::ffi::OsString::from).chain([base.as_path().into()]);
        // Git makes its temporary files in the first of these directories, and renames them.
        let git = self
            .git(words)
            .env("GIT_OBJECT_DIRECTORY", directory.as_path())
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", alternate(&self.places().common.join("objects")))
            .input(objects.revisions())
            .without_limit();
        let answer = git.watched(|line| Progress::parse(line).into_iter().for_each(&mut progress)).await?;
        let name = String::from_utf8_lossy(&answer).trim().to_owned();
        if name.is_empty() {
            return Ok(None);
        }
        for kind in ["pack", "idx"] {
            let file = pack_file(directory, &name, kind);
            set_mode(file.as_path())
                .map_err(|source| GitError::Io { what: format!("make {file} readable"), source })?;
        }
        let _ = set_mode(pack_file(directory, &name, "rev").as_path());
        Ok(Some(name))
    }
}

/// A path as git reads it in a list that is separated by colons.
fn alternate(path: &Path) -> std::ffi::OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut quoted = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        if matches!(byte, b'"' | b'\\') {
            quoted.push(b'\\');
        }
        quoted.push(*byte);
    }
    quoted.push(b'"');
    std::ffi::OsString::from_vec(quoted)
}
