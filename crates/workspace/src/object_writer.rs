//! Writes small objects of our own making straight into a repository: an archive is a blob, a tree and a commit, and to
//! start git for each of them takes longer than everything else about it.
//!
//! Only what we make ourselves is written here. Contents that a sandbox chose, such as those of a tag, go through git,
//! which also looks for attempts to forge an id.

use crate::facts::object;
use crate::git::{GitError, Repository};
use crate::refs::ObjectId;
use palisade_host::new_file::create_whole;
use rustix::fs::Mode;
use sha1::Digest;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;

/// By which hash a repository names its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectFormat {
    Sha1,
    Sha256,
}

impl ObjectFormat {
    fn hash(self, object: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha1 => sha1::Sha1::digest(object).to_vec(),
            Self::Sha256 => sha2::Sha256::digest(object).to_vec(),
        }
    }
}

/// What a tree of ours holds under one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedObject {
    pub(crate) name: String,
    pub(crate) kind: NamedKind,
    pub(crate) id: ObjectId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedKind {
    File,
    Directory,
}

impl Repository {
    pub(crate) async fn write_own_blob(&self, content: &[u8]) -> Result<ObjectId, GitError> {
        self.write_own("blob", content).await
    }

    pub(crate) async fn write_own_commit(&self, content: &str) -> Result<ObjectId, GitError> {
        self.write_own("commit", content.as_bytes()).await
    }

    pub(crate) async fn write_own_tree(&self, entries: Vec<NamedObject>) -> Result<ObjectId, GitError> {
        self.write_own("tree", &encode_tree(entries)).await
    }

    async fn write_own(&self, kind: &str, content: &[u8]) -> Result<ObjectId, GitError> {
        match self.loose_objects() {
            Some(format) => {
                let io = |source| GitError::Io { what: "write an object".into(), source };
                write_loose(&self.places().common.join("objects"), format, kind, content).map_err(io)
            }
            None => self.write_object(kind, content.to_vec()).await,
        }
    }

    pub(crate) async fn write_object(&self, kind: &str, content: Vec<u8>) -> Result<ObjectId, GitError> {
        let write = self.git(["hash-object", "-w", "-t", kind, "--stdin"]).input(content);
        object("hash-object", &write.text().await?)
    }
}

/// In git's order, in which a directory's name ends with a slash.
fn encode_tree(mut entries: Vec<NamedObject>) -> Vec<u8> {
    let key = |entry: &NamedObject| match entry.kind {
        NamedKind::File => entry.name.clone(),
        NamedKind::Directory => format!("{}/", entry.name),
    };
    entries.sort_by_key(key);
    entries.dedup();
    let mut content = Vec::new();
    for NamedObject { name, kind, id } in entries {
        let mode = if kind == NamedKind::Directory { "40000" } else { "100644" };
        content.extend(format!("{mode} {name}\0").into_bytes());
        content.extend(id.bytes());
    }
    content
}

/// Writes an object as a file of its own, as git does: beside its place, then into it.
fn write_loose(objects: &Path, format: ObjectFormat, kind: &str, content: &[u8]) -> io::Result<ObjectId> {
    let object = [format!("{kind} {}\0", content.len()).as_bytes(), content].concat();
    let mut name = String::new();
    for byte in format.hash(&object) {
        let _ = write!(name, "{byte:02x}");
    }
    let id = ObjectId::parse(&name).ok_or(io::ErrorKind::InvalidData)?;
    let (directory, file) = name.split_at(2);
    let directory = objects.join(directory);
    let place = directory.join(file);
    if place.exists() {
        return Ok(id);
    }
    match std::fs::create_dir(&directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let mut compressed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    compressed.write_all(&object)?;
    let compressed = compressed.finish()?;
    let mode = Mode::from_raw_mode(0o444);
    match create_whole(&place, &compressed, mode) {
        Ok(()) => return Ok(id),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(id),
        Err(error) if error.kind() == io::ErrorKind::StorageFull => return Err(error),
        // Not every file system has files without a name.
        Err(_) => {}
    }
    // Git removes what begins so when it collects garbage. The caller holds the repository's lock, so a file that is there
    // was left by a run that was killed.
    let new = directory.join(format!("tmp_obj_{file}"));
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut written = std::fs::File::create_new(&new)?;
    written.write_all(&compressed)?;
    rustix::fs::fchmod(&written, mode)?;
    std::fs::rename(new, place)?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn id(letter: &str, format: ObjectFormat) -> ObjectId {
        let length = if format == ObjectFormat::Sha1 { 40 } else { 64 };
        ObjectId::parse(&letter.repeat(length)).unwrap()
    }

    #[test]
    fn git_reads_what_was_written_under_the_name_that_git_would_give() {
        for (format, option) in [(ObjectFormat::Sha1, "sha1"), (ObjectFormat::Sha256, "sha256")] {
            let directory = tempfile::tempdir().unwrap();
            let git = |words: &[&str]| {
                let mut command = Command::new("git");
                let output = command.args(words).current_dir(directory.path()).output().unwrap();
                assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
                String::from_utf8(output.stdout).unwrap()
            };
            git(&["init", "-q", "--bare", &format!("--object-format={option}"), "."]);
            let objects = directory.path().join("objects");
            let write = |kind: &str, content: &[u8]| write_loose(&objects, format, kind, content).unwrap();
            let blob = write("blob", b"content\n");
            assert_eq!(write("blob", b"content\n"), blob, "again");
            let inner = write("tree", b"");
            let file =
                |name: &str| NamedObject { name: name.into(), kind: NamedKind::File, id: blob.clone() };
            let entries = vec![
                file("files0"),
                NamedObject { name: "files".into(), kind: NamedKind::Directory, id: inner },
                file("files-1"),
                file("a"),
            ];
            let tree = write("tree", &encode_tree(entries));
            let commit =
                format!("tree {tree}\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nmessage\n");
            let commit = write("commit", commit.as_bytes());
            git(&["fsck", "--strict", commit.as_str()]);
            assert_eq!(git(&["cat-file", "blob", blob.as_str()]), "content\n");
            assert_eq!(git(&["ls-tree", "--name-only", commit.as_str()]), "a\nfiles-1\nfiles\nfiles0\n");
            assert_eq!(id("a", format).bytes().len() * 2, id("a", format).as_str().len());
        }
    }
}
