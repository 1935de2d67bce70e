//! Files of Git LFS: git has a pointer, and the content lies beside the repository by its SHA-256. Content goes in and
//! comes back with the pointers; Git LFS itself never runs on what a sandbox made.

use crate::files::{Content, HostFile};
use crate::git::{GitError, Repository};
use crate::host_tree::HostTree;
use crate::refs::ObjectId;
use crate::sandbox::{SandboxError, SandboxRepository};
use crate::survey::LargeFile;
use crate::tree_diff::{EntryMode, TreeEntry};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

/// What a pointer begins with.
const VERSION: &str = "version https://git-lfs.github.com/spec/v1\n";
/// A pointer is short.
const MAX_POINTER: usize = 1024;
/// Where Git LFS keeps files, in the common git directory.
const DIRECTORY: &str = "lfs/objects";

/// What became of a commit's files of Git LFS at a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LargeFilesReport {
    /// Files that the commit has.
    pub files: usize,
    /// Those whose content is not on the host.
    pub missing: usize,
    /// Whether the sandbox has Git LFS; else its working tree holds the pointers.
    pub has_program: bool,
}

/// Reads a pointer.
fn parse_pointer(content: &[u8]) -> Option<LargeFile> {
    let text = std::str::from_utf8(content).ok()?;
    let text = text.strip_prefix(VERSION)?;
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
    let oid = value("oid sha256:")?;
    let is_oid = oid.len() == 64 && oid.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    Some(LargeFile { oid: is_oid.then(|| oid.to_owned())?, size: value("size ")?.parse().ok()? })
}

impl Repository {
    fn large_file(&self, file: &LargeFile) -> PathBuf {
        let oid = &file.oid;
        self.common_directory().join(DIRECTORY).join(&oid[..2]).join(&oid[2..4]).join(oid)
    }

    fn has_large_file(&self, file: &LargeFile) -> bool {
        self.large_file(file).metadata().is_ok_and(|found| found.len() == file.size)
    }

    /// Whether Git LFS has ever kept a file of this repository here.
    fn uses_large_files(&self) -> bool {
        self.common_directory().join(DIRECTORY).exists()
    }

    /// The pointers among these objects.
    async fn pointers(&self, ids: &[&ObjectId]) -> Result<HashMap<ObjectId, LargeFile>, GitError> {
        let mut found = HashMap::new();
        if ids.is_empty() {
            return Ok(found);
        }
        let questions: String = ids.iter().map(|id| format!("{id}\n")).collect();
        let sizes = self
            .git(["cat-file", "--batch-check=%(objectname) %(objectsize)"])
            .input(questions)
            .text()
            .await?;
        for (id, size) in sizes.lines().filter_map(|line| line.split_once(' ')) {
            if size.parse::<usize>().is_ok_and(|size| size <= MAX_POINTER)
                && let Some(id) = ObjectId::parse(id)
            {
                let content = self.git(["cat-file", "blob", id.as_str()]).bytes().await?;
                found.extend(parse_pointer(&content).map(|pointer| (id, pointer)));
            }
        }
        Ok(found)
    }

    /// A file of the working tree that is the content of a pointer is that pointer to git. `expected` are what it may be.
    pub(crate) async fn recognise_large_file(
        &self,
        path: &Path,
        host: &HostFile,
        expected: &[&Content],
    ) -> Result<Option<HostFile>, GitError> {
        let HostFile::Content(Some(entry)) = host else { return Ok(None) };
        if !self.uses_large_files() || entry.mode == EntryMode::Link {
            return Ok(None);
        }
        let entries: Vec<&TreeEntry> = expected.iter().filter_map(|content| content.as_ref()).collect();
        if entries.iter().any(|expected| expected.id == entry.id) {
            return Ok(None);
        }
        let ids: Vec<&ObjectId> = entries.iter().map(|entry| &entry.id).collect();
        let pointers = self.pointers(&ids).await?;
        let place = self.directory().as_path().join(path);
        let size = place.metadata().map_or(0, |found| found.len());
        let mut digest = None;
        for entry in entries {
            let Some(pointer) = pointers.get(&entry.id).filter(|pointer| pointer.size == size) else {
                continue;
            };
            let digest = match &digest {
                Some(digest) => digest,
                None => digest.insert(
                    sha256(&place).map_err(|source| GitError::Io { what: "read a file".into(), source })?,
                ),
            };
            if pointer.oid == *digest {
                return Ok(Some(HostFile::Content(Some(entry.clone()))));
            }
        }
        Ok(None)
    }

    /// Brings files of Git LFS that the sandbox has and the host has not. What is not what it says is not kept.
    pub(crate) async fn receive_large_files(
        &self,
        from: &SandboxRepository<'_>,
        files: &[LargeFile],
    ) -> Result<usize, SandboxError> {
        let missing: Vec<&LargeFile> = files.iter().filter(|file| !self.has_large_file(file)).collect();
        if missing.is_empty() {
            return Ok(0);
        }
        let request: String = missing.iter().map(|file| format!("{}\n", file.oid)).collect();
        let (mut writer, reader) = tokio::io::duplex(256 * 1024);
        let send = async {
            let sent = from.large_files("large-send", &mut request.as_bytes(), &mut writer).await;
            drop(writer);
            sent
        };
        let take = self.take_large_files(BufReader::new(reader), &missing);
        let (sent, taken) = tokio::join!(send, take);
        sent?;
        taken.map_err(|error| SandboxError::Failed {
            what: "bringing large files",
            message: error.to_string(),
        })
    }

    async fn take_large_files(
        &self,
        mut from: impl AsyncBufReadExt + Unpin,
        wanted: &[&LargeFile],
    ) -> std::io::Result<usize> {
        let mut taken = 0;
        loop {
            let mut line = String::new();
            if (&mut from).take(128).read_line(&mut line).await? == 0 {
                return Ok(taken);
            }
            let (oid, size) = line.trim_end().split_once(' ').unwrap_or_default();
            let file = wanted.iter().find(|file| file.oid == oid && file.size.to_string() == size);
            let file = file.ok_or(std::io::ErrorKind::InvalidData)?;
            let place = self.large_file(file);
            if let Some(directory) = place.parent() {
                std::fs::create_dir_all(directory)?;
            }
            let passing = place.with_extension("palisade");
            let mut output = tokio::fs::File::create(&passing).await?;
            let copied = tokio::io::copy(&mut (&mut from).take(file.size), &mut output).await?;
            output.flush().await?;
            drop(output);
            if copied == file.size && sha256(&passing)? == file.oid {
                std::fs::rename(&passing, &place)?;
                taken += 1;
            } else {
                std::fs::remove_file(&passing)?;
            }
        }
    }
}

impl HostTree {
    /// Sends the files of Git LFS that a commit has.
    pub(crate) async fn send_large_files(
        &self,
        to: &SandboxRepository<'_>,
        there: &[LargeFile],
    ) -> Result<LargeFilesReport, GitOrSandbox> {
        let repository = &self.repository;
        if !repository.uses_large_files() {
            return Ok(LargeFilesReport::default());
        }
        let files = self.large_files().await?;
        let missing = files.iter().filter(|file| !repository.has_large_file(file)).count();
        let new: Vec<&LargeFile> =
            files.iter().filter(|file| repository.has_large_file(file) && !there.contains(file)).collect();
        let (mut writer, mut reader) = tokio::io::duplex(256 * 1024);
        let send = async {
            for file in &new {
                writer.write_all(format!("{} {}\n", file.oid, file.size).as_bytes()).await?;
                let content = tokio::fs::File::open(repository.large_file(file)).await?;
                tokio::io::copy(&mut content.take(file.size), &mut writer).await?;
            }
            drop(writer);
            Ok::<_, std::io::Error>(())
        };
        let mut answer = Vec::new();
        let (sent, received) = tokio::join!(send, to.large_files("large-receive", &mut reader, &mut answer));
        received?;
        sent.map_err(|source| GitError::Io { what: "send large files".into(), source })?;
        Ok(LargeFilesReport { files: files.len(), missing, has_program: answer == b"lfs\0" })
    }

    /// The files of Git LFS in the index.
    async fn large_files(&self) -> Result<Vec<LargeFile>, GitError> {
        let repository = &self.repository;
        let list = repository.git(["ls-files", "-z"]).bytes().await?;
        let attributes =
            repository.git(["check-attr", "-z", "--stdin", "filter"]).input(list).bytes().await?;
        let words: Vec<&[u8]> = attributes.split(|byte| *byte == 0).collect();
        let mut questions = Vec::new();
        for triple in words.chunks_exact(3) {
            if triple[2] == b"lfs" {
                questions.extend_from_slice(b":");
                questions.extend_from_slice(triple[0]);
                questions.push(0);
            }
        }
        if questions.is_empty() {
            return Ok(Vec::new());
        }
        let answer =
            repository.git(["cat-file", "--batch-check=%(objectname)", "-z"]).input(questions).text().await?;
        let ids: Vec<ObjectId> = answer.lines().filter_map(ObjectId::parse).collect();
        let pointers = repository.pointers(&ids.iter().collect::<Vec<_>>()).await?;
        let mut files: Vec<LargeFile> = pointers.into_values().collect();
        files.sort();
        files.dedup();
        Ok(files)
    }
}

/// What can go wrong between git and a sandbox.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GitOrSandbox {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

fn sha256(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            count => digest.update(&buffer[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_read_and_other_text_is_not_one() {
        let oid = "a".repeat(64);
        let text = format!("{VERSION}oid sha256:{oid}\nsize 12345\n");
        assert_eq!(parse_pointer(text.as_bytes()), Some(LargeFile { oid, size: 12345 }));
        for other in ["", VERSION, "oid sha256:00\nsize 1\n", &format!("{VERSION}oid sha256:../x\nsize 1\n")]
        {
            assert_eq!(parse_pointer(other.as_bytes()), None, "{other}");
        }
    }
}
