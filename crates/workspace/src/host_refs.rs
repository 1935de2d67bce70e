//! The refs of the host's repository, as they are while we hold its lock.

use crate::archive::HELD_OBJECT;
use crate::facts::object;
use crate::git::{GitError, Repository};
use crate::object_reader::parse_links;
use crate::refs::{BranchName, ObjectId, SandboxRefs};
use std::collections::{BTreeMap, HashMap, HashSet};

/// All refs, and what the archives of one sandbox hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostRefs {
    refs: BTreeMap<String, ObjectId>,
    /// Everything that an archive of the sandbox was made for, with the archive.
    archived: HashMap<ObjectId, String>,
    /// The commits among them, as far as git says so.
    archived_commits: HashSet<ObjectId>,
    next_archive: u64,
}

impl HostRefs {
    /// Reads what `git for-each-ref` lists.
    fn parse(listing: &[u8]) -> Result<Self, GitError> {
        let mut found = Self { next_archive: 1, ..Self::default() };
        for line in String::from_utf8_lossy(listing).lines() {
            if let Some((id, name)) = line.split_once(' ') {
                found.refs.insert(name.to_owned(), object("for-each-ref", id)?);
            }
        }
        Ok(found)
    }

    pub fn get(&self, reference: &str) -> Option<&ObjectId> {
        self.refs.get(reference)
    }

    pub(crate) fn branch(&self, branch: &BranchName) -> Option<&ObjectId> {
        self.refs.get(&branch.full())
    }

    pub(crate) fn has(&self, reference: &str) -> bool {
        self.refs.contains_key(reference)
    }

    /// Refs in a directory of refs, which ends with a slash.
    pub(crate) fn below<'r>(&'r self, directory: &'r str) -> impl Iterator<Item = (&'r str, &'r ObjectId)> {
        let from = self.refs.range(directory.to_owned()..);
        let below = from.take_while(move |(name, _)| name.starts_with(directory));
        below.map(|(name, id)| (name.as_str(), id))
    }

    /// Whether git would find something else than a branch or a tag of this name under it.
    pub(crate) fn is_shadowed(&self, name: &str) -> bool {
        let others = ["refs/", "refs/tags/", "refs/heads/", "refs/remotes/"];
        others.iter().any(|directory| self.has(&format!("{directory}{name}")))
            || self.has(&format!("refs/remotes/{name}/HEAD"))
            || is_reserved_by_git(name)
    }

    /// Whether a branch of this name can be made and would be found under it, and under no other's.
    pub(crate) fn is_free(&self, branch: &BranchName) -> bool {
        !branch.is_ours() && !self.is_shadowed(branch.as_str()) && self.fits(&branch.full())
    }

    /// Whether no ref is a directory for this one, or lies in it: refs are files.
    pub(crate) fn fits(&self, reference: &str) -> bool {
        let mut directories = reference.match_indices('/').map(|(end, _)| &reference[..end]);
        !directories.any(|directory| self.has(directory))
            && self.below(&format!("{reference}/")).next().is_none()
    }

    /// Whether a ref points at exactly this object, or an archive of the sandbox was made for it.
    pub(crate) fn holds(&self, held: &HashSet<&ObjectId>, id: &ObjectId) -> bool {
        held.contains(id) || self.archived.contains_key(id)
    }

    /// Whether an object is a commit, as far as that is known without a question: a branch points at it, or an archive of
    /// the sandbox has it as a parent.
    pub(crate) fn is_commit(&self, branches: &HashSet<&ObjectId>, id: &ObjectId) -> bool {
        branches.contains(id) || self.archived_commits.contains(id)
    }

    /// The objects that refs point at.
    pub(crate) fn values(&self) -> HashSet<&ObjectId> {
        self.refs.values().collect()
    }

    pub(crate) fn next_archive(&self) -> u64 {
        self.next_archive
    }

    /// Takes note of an archive that was made.
    pub(crate) fn add_archive(
        &mut self,
        reference: &str,
        number: u64,
        tips: impl IntoIterator<Item = ObjectId>,
    ) {
        self.archived.extend(tips.into_iter().map(|id| (id, reference.to_owned())));
        self.next_archive = self.next_archive.max(number + 1);
    }

    /// The archive that was made for an object.
    pub(crate) fn archive_of(&self, id: &ObjectId) -> Option<&str> {
        self.archived.get(id).map(String::as_str)
    }
}

/// What an archive holds and cannot have as a parent, such as a tag: its message names it.
fn held_objects(commit: &str) -> impl Iterator<Item = ObjectId> {
    let message = commit.split_once("\n\n").map_or("", |(_, message)| message);
    let lines = message.lines().filter_map(|line| line.strip_prefix(HELD_OBJECT)?.strip_prefix(": "));
    lines.filter_map(ObjectId::parse)
}

/// Whether git writes a file of this name itself, such as `ORIG_HEAD`: while that is not there, the name would lead to
/// the ref.
fn is_reserved_by_git(name: &str) -> bool {
    let is_capital = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    is_capital && (name.ends_with("HEAD") || name.contains("MERGE") || name.starts_with("BISECT"))
}

impl Repository {
    /// Reads the refs as they are now, without what archives were made for.
    pub(crate) async fn refs_alone(&self) -> Result<HostRefs, GitError> {
        let all = self.git(["for-each-ref", "--format=%(objectname) %(refname)"]).bytes().await?;
        HostRefs::parse(&all)
    }

    /// Whether git takes a name for the beginning of an object's id, unless a ref has it.
    pub(crate) async fn is_abbreviated_id(&self, name: &str) -> Result<bool, GitError> {
        // Shorter ones mean something only in small repositories.
        if name.len() < 7 || !name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(false);
        }
        let question = self.git(["rev-parse", &format!("--disambiguate={name}")]);
        Ok(!question.answers().await?.is_empty())
    }

    /// Reads the refs as they are now.
    pub async fn host_refs(&self, refs: &SandboxRefs) -> Result<HostRefs, GitError> {
        let (mut found, ()) = tokio::try_join!(self.refs_alone(), self.start_reader())?;
        let directory = refs.archives();
        let numbered = |(name, id): (&str, &ObjectId)| {
            let number = name.strip_prefix(&directory)?.parse::<u64>().ok()?;
            Some((number, name.to_owned(), id.clone()))
        };
        let archives: Vec<_> = found.below(&directory).filter_map(numbered).collect();
        let commits: Vec<&ObjectId> = archives.iter().map(|(_, _, id)| id).collect();
        let texts = self.commit_texts(&commits).await?;
        for ((number, name, _), text) in archives.iter().zip(texts) {
            let text = text.unwrap_or_default();
            let parents = parse_links(&text).map(|links| links.parents).unwrap_or_default();
            found.archived_commits.extend(parents.iter().cloned());
            found.add_archive(name, *number, parents.into_iter().chain(held_objects(&text)));
        }
        Ok(found)
    }
}
