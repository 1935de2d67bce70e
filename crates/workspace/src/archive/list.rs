//! Lists archives, also of sandboxes that are gone.

use super::manifest::{FILE, Manifest};
use crate::git::{GitError, Repository};
use crate::refs::{ObjectId, SandboxRefs};
use crate::transaction::{Expected, RefTransaction};
use palisade_core::{SandboxId, printable};

/// One archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedArchive {
    pub sandbox: SandboxId,
    pub number: u64,
    pub reference: String,
    pub commit: ObjectId,
    /// Unix seconds.
    pub time: i64,
    /// `None` when it cannot be read: it is of a newer version, or damaged.
    pub manifest: Option<Manifest>,
}

/// Archives, the oldest first, and the refs beside them that are no archives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ArchiveListing {
    pub archives: Vec<ListedArchive>,
}

impl Repository {
    /// All archives in this repository.
    pub async fn archives(&self) -> Result<ArchiveListing, GitError> {
        let format = "--format=%(refname) %(objectname) %(committerdate:unix)";
        let list = self.git(["for-each-ref", format, SandboxRefs::ARCHIVES]).text().await?;
        let mut archives: Vec<ListedArchive> = list.lines().filter_map(parse).collect();
        let questions: String =
            archives.iter().map(|archive| format!("{}:{FILE}\n", archive.commit)).collect();
        let contents = self.git(["cat-file", "--batch"]).input(questions).bytes().await?;
        let mut contents = Contents { rest: &contents };
        for archive in &mut archives {
            archive.manifest = contents.next().and_then(Manifest::parse);
        }
        archives.sort_by(|a, b| (a.time, &a.sandbox, a.number).cmp(&(b.time, &b.sandbox, b.number)));
        Ok(ArchiveListing { archives })
    }

    /// Removes archives. What nothing else leads to is gone with git's next collection.
    pub async fn remove_archives(&self, archives: &[ListedArchive]) -> Result<(), GitError> {
        let mut transaction = RefTransaction::default();
        for archive in archives {
            transaction.delete(&archive.reference, Expected::At(&archive.commit));
        }
        transaction.commit(self, "palisade: prune archives").await
    }
}

fn parse(line: &str) -> Option<ListedArchive> {
    let mut words = line.split(' ');
    let (reference, commit, time) = (words.next()?, words.next()?, words.next()?);
    let (sandbox, number) = reference.strip_prefix(SandboxRefs::ARCHIVES)?.split_once('/')?;
    Some(ListedArchive {
        sandbox: SandboxId::parse(sandbox).ok()?,
        number: number.parse().ok()?,
        reference: printable(reference),
        commit: ObjectId::parse(commit)?,
        time: time.parse().unwrap_or(0),
        manifest: None,
    })
}

/// The answers of `git cat-file --batch`, one after the other.
struct Contents<'a> {
    rest: &'a [u8],
}

impl<'a> Contents<'a> {
    /// The next content; `None` where there is none.
    fn next(&mut self) -> Option<&'a [u8]> {
        let end = self.rest.iter().position(|byte| *byte == b'\n')?;
        let (header, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        // `id type size`, or `name missing`.
        let size = std::str::from_utf8(header).ok()?.rsplit_once(' ')?.1.parse::<usize>().ok()?;
        let content = self.rest.get(..size)?;
        self.rest = self.rest.get(size + 1..).unwrap_or_default();
        Some(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_told_apart_and_a_missing_one_is_passed_over() {
        let mut contents = Contents { rest: b"aa blob 4\na\nb\n\nx:manifest.json missing\ncc blob 0\n\n" };
        assert_eq!(
            (contents.next(), contents.next(), contents.next()),
            (Some(&b"a\nb\n"[..]), None, Some(&b""[..]))
        );
        assert_eq!(contents.next(), None);
    }
}
