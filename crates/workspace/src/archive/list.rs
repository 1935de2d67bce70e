//! Lists archives, also of sandboxes that are gone.

use super::manifest::{FILE, Manifest};
use crate::git::{GitError, Repository};
use crate::nested::NestedRepository;
use crate::refs::{ObjectId, SandboxRefs};
use crate::transaction::{Expected, RefTransaction};
use palisade_core::{SandboxId, printable};

/// One archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedArchive {
    /// The nested repository whose work it holds; `None` when it is of the main repository.
    pub nested: Option<NestedRepository>,
    pub sandbox: SandboxId,
    pub number: u64,
    pub reference: String,
    pub commit: ObjectId,
    /// Unix seconds.
    pub time: i64,
    /// `None` when it cannot be read: it is of a newer version, or damaged.
    pub manifest: Option<Manifest>,
}

impl ListedArchive {
    /// The name by which people select it: `NAME/NUMBER`, with `:PATH` for a nested repository. `None` when the manifest
    /// cannot be read.
    pub fn short_name(&self) -> Option<String> {
        let name = &self.manifest.as_ref()?.name;
        Some(format!("{name}/{}{}", self.number, self.path_suffix()))
    }

    /// Whether a text names this archive: its short name, or its ref with or without `refs/palisade/archive/`.
    pub fn is_named(&self, text: &str) -> bool {
        let suffix = self.path_suffix();
        let Some(plain) = text.strip_suffix(&suffix) else { return false };
        let short = self.reference.trim_start_matches(SandboxRefs::ARCHIVES);
        plain == self.reference || plain == short || self.short_name().as_deref() == Some(text)
    }

    fn path_suffix(&self) -> String {
        self.nested.as_ref().map(|nested| format!(":{}", nested.path)).unwrap_or_default()
    }
}

impl Repository {
    /// All archives of this repository and of the nested ones whose work it keeps, the oldest first.
    pub async fn archives(&self) -> Result<Vec<ListedArchive>, GitError> {
        let mut archives = self.own_archives().await?;
        for nested in self.nested_repositories()? {
            let own = self.bare(&nested.place).own_archives().await?;
            archives.extend(
                own.into_iter().map(|archive| ListedArchive { nested: Some(nested.clone()), ..archive }),
            );
        }
        archives.sort_by(|a, b| (a.time, &a.sandbox, a.number).cmp(&(b.time, &b.sandbox, b.number)));
        Ok(archives)
    }

    async fn own_archives(&self) -> Result<Vec<ListedArchive>, GitError> {
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
        Ok(archives)
    }

    /// Removes archives. What nothing else leads to is gone with git's next collection. The bare repository of a nested
    /// one is removed when no ref is left in it.
    pub async fn remove_archives(&self, archives: &[ListedArchive]) -> Result<(), GitError> {
        let (own, mut rest): (Vec<_>, Vec<_>) = archives.iter().partition(|archive| archive.nested.is_none());
        self.delete_archives(&own).await?;
        while let Some(nested) = rest.first().and_then(|archive| archive.nested.clone()) {
            let (here, others) =
                rest.into_iter().partition(|archive| archive.nested.as_ref() == Some(&nested));
            rest = others;
            self.bare(&nested.place).delete_archives(&here).await?;
            self.remove_nested_if_empty(&nested).await?;
        }
        Ok(())
    }

    async fn delete_archives(&self, archives: &[&ListedArchive]) -> Result<(), GitError> {
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
        nested: None,
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
