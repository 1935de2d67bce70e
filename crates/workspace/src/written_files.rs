//! Remembers which files syncs have written into a working tree without a commit.
//!
//! Only such a file may be taken back when the agent takes its change back: everything else that is not committed is the
//! user's. What both sides have in common does not answer that, because a commit that the user undoes, or a change that
//! the user sent in, is in common too. So it is written down, by the sandbox's id, in the git directory of the working
//! tree. A file that is lost or makes no sense counts as empty: then nothing is taken back.

use crate::files::Content;
use crate::git::Repository;
use crate::refs::ObjectId;
use crate::tree_diff::{EntryMode, TreeEntry};
use palisade_core::SandboxId;
use std::collections::HashMap;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The first line; a file with another one has another format.
const HEADER: &[u8] = b"palisade-written 1\n";
/// In the place of mode and id, where a sync has removed a file.
const REMOVED: &str = "000000 -";

/// By path, what syncs have written there. More than one content only where a run was interrupted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct WrittenFiles(HashMap<PathBuf, Vec<Content>>);

impl WrittenFiles {
    fn file(repository: &Repository, sandbox: &SandboxId) -> PathBuf {
        repository.places().own.join("palisade/written").join(sandbox.to_string())
    }

    pub(crate) fn read(repository: &Repository, sandbox: &SandboxId) -> Self {
        let bytes = std::fs::read(Self::file(repository, sandbox)).unwrap_or_default();
        Self::parse(&bytes).unwrap_or_default()
    }

    pub(crate) fn at(&self, path: &Path) -> &[Content] {
        self.0.get(path).map_or(&[], Vec::as_slice)
    }

    /// A sync is about to write this.
    pub(crate) fn add(&mut self, path: &Path, content: &Content) {
        let known = self.0.entry(path.to_owned()).or_default();
        if !known.contains(content) {
            known.push(content.clone());
        }
    }

    pub(crate) fn forget(&mut self, path: &Path) {
        self.0.remove(path);
    }

    /// Writes the file in one step.
    pub(crate) fn save(&self, repository: &Repository, sandbox: &SandboxId) -> io::Result<()> {
        let place = Self::file(repository, sandbox);
        if self.0.is_empty() && !place.exists() {
            return Ok(());
        }
        let new = place.with_extension("new");
        if let Some(directory) = place.parent() {
            std::fs::create_dir_all(directory)?;
        }
        std::fs::write(&new, self.render())?;
        std::fs::rename(&new, &place)
    }

    fn render(&self) -> Vec<u8> {
        let mut bytes = HEADER.to_vec();
        for (path, contents) in &self.0 {
            for content in contents {
                let content = content.as_ref();
                let content = content.map(|entry| format!("{} {}", entry.mode.as_str(), entry.id));
                bytes.extend(content.as_deref().unwrap_or(REMOVED).as_bytes());
                bytes.push(b'\t');
                bytes.extend_from_slice(path.as_os_str().as_bytes());
                bytes.push(0);
            }
        }
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut written = Self::default();
        let lines = bytes.strip_prefix(HEADER)?;
        for line in lines.split_inclusive(|byte| *byte == 0) {
            let line = line.strip_suffix(b"\0")?;
            let tab = line.iter().position(|byte| *byte == b'\t')?;
            let (content, path) = (line.get(..tab)?, line.get(tab + 1..)?);
            let path = std::ffi::OsString::from_vec(path.to_vec());
            written.add(Path::new(&path), &parse_content(content)?);
        }
        Some(written)
    }
}

fn parse_content(bytes: &[u8]) -> Option<Content> {
    let (mode, id) = std::str::from_utf8(bytes).ok()?.split_once(' ')?;
    Some(match EntryMode::parse(mode)? {
        Some(mode) => Some(TreeEntry { mode, id: ObjectId::parse(id)? }),
        None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(letter: char) -> Content {
        let id = ObjectId::parse(&letter.to_string().repeat(40)).unwrap();
        Some(TreeEntry { mode: EntryMode::Executable, id })
    }

    #[test]
    fn what_was_written_reads_back() {
        let mut written = WrittenFiles::default();
        let strange = std::ffi::OsString::from_vec(b"d/\xff\n name\t".to_vec());
        written.add(Path::new("a"), &entry('a'));
        written.add(Path::new("a"), &entry('b'));
        written.add(Path::new("a"), &entry('b'));
        written.add(Path::new(&strange), &None);
        written.add(Path::new("gone"), &entry('c'));
        written.forget(Path::new("gone"));
        let read = WrittenFiles::parse(&written.render()).unwrap();
        assert_eq!(read, written);
        assert_eq!(read.at(Path::new("a")), [entry('a'), entry('b')]);
        assert_eq!(read.at(Path::new(&strange)), [None]);
        assert_eq!(read.at(Path::new("gone")), []);
    }

    #[test]
    fn a_file_that_makes_no_sense_counts_as_empty() {
        let whole = {
            let mut written = WrittenFiles::default();
            written.add(Path::new("a"), &entry('a'));
            written.render()
        };
        for bytes in
            [&b""[..], b"palisade-written 2\n", b"palisade-written 1\n000000 -\ta", &whole[..whole.len() - 1]]
        {
            assert_eq!(WrittenFiles::parse(bytes), None, "{}", String::from_utf8_lossy(bytes));
        }
    }
}
