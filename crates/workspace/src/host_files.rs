//! What stands in places of the host's working tree, as git would record it.

use crate::files::HostFile;
use crate::git::{FileModes, GitError, Repository};
use crate::refs::ObjectId;
use crate::tree_diff::{EntryMode, TreeEntry};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Tells one state of a file from the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamp {
    inode: u64,
    size: u64,
    kind: u32,
    changed: (i64, i64),
}

impl Stamp {
    pub(crate) fn of(found: &Metadata) -> Self {
        Self {
            inode: found.ino(),
            size: found.size(),
            kind: found.mode(),
            changed: (found.mtime(), found.mtime_nsec()),
        }
    }
}

/// A place of the working tree as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundFile {
    pub(crate) file: HostFile,
    /// `None` when nothing is there.
    pub(crate) stamp: Option<Stamp>,
    /// A file or link that stands where a directory would have to be.
    pub(crate) obstacle: Option<PathBuf>,
}

impl FoundFile {
    fn absent(obstacle: Option<PathBuf>) -> Self {
        Self { file: HostFile::Content(None), stamp: None, obstacle }
    }
}

/// Places of a working tree, by path.
pub(crate) type FoundFiles = BTreeMap<PathBuf, FoundFile>;

impl Repository {
    /// Looks at places of the working tree. Files are hashed as git would record them, but no filter program is run.
    pub(crate) async fn look_at_files(&self, paths: &BTreeSet<PathBuf>) -> Result<FoundFiles, GitError> {
        let root = self.directory().as_path();
        let mut found = FoundFiles::new();
        let mut files = Vec::new();
        let mut links = Vec::new();
        let mut directories = Directories { root, known: HashMap::new() };
        for path in paths {
            let obstacle = match directories.above(path) {
                Above::Directory => None,
                Above::Nothing => Some(None),
                Above::Obstacle(obstacle) => Some(Some(obstacle)),
            };
            if let Some(obstacle) = obstacle {
                found.insert(path.clone(), FoundFile::absent(obstacle));
                continue;
            }
            let Ok(metadata) = std::fs::symlink_metadata(root.join(path)) else {
                found.insert(path.clone(), FoundFile::absent(None));
                continue;
            };
            let stamp = Stamp::of(&metadata);
            if metadata.is_file() {
                files.push((path, metadata.mode() & 0o100 != 0, stamp));
            } else if metadata.is_symlink() {
                links.push((path, stamp));
            } else {
                let file = FoundFile { file: HostFile::Other, stamp: Some(stamp), obstacle: None };
                found.insert(path.clone(), file);
            }
        }
        if self.file_modes() == FileModes::Ignored && !files.is_empty() {
            let executables = self.executables_in_index().await?;
            files.iter_mut().for_each(|(path, executable, _)| *executable = executables.contains(*path));
        }
        let ids = self.hash_files(files.iter().map(|(path, ..)| path.as_path())).await?;
        for ((path, executable, stamp), id) in files.into_iter().zip(ids) {
            let mode = if executable { EntryMode::Executable } else { EntryMode::File };
            found.insert(path.clone(), content(mode, id, stamp));
        }
        for (path, stamp) in links {
            let target = std::fs::read_link(root.join(path));
            let target = target.map_err(|source| GitError::Io { what: "read a link".into(), source })?;
            let hash = self.git(["hash-object", "--stdin"]).input(target.as_os_str().as_bytes());
            let id = ObjectId::parse(&hash.text().await?);
            found.insert(path.clone(), content(EntryMode::Link, id, stamp));
        }
        Ok(found)
    }

    /// The files that can be executed as far as the index knows.
    async fn executables_in_index(&self) -> Result<BTreeSet<PathBuf>, GitError> {
        let list = self.git(["ls-files", "--stage", "-z"]).env("GIT_OPTIONAL_LOCKS", "0").bytes().await?;
        let entries = list.split(|byte| *byte == 0).filter(|entry| entry.starts_with(b"100755 "));
        let paths = entries.filter_map(|entry| entry.splitn(2, |byte| *byte == b'\t').nth(1));
        Ok(paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect())
    }

    /// The ids of files; `None` for one that cannot be read.
    async fn hash_files(
        &self,
        paths: impl Iterator<Item = &Path> + Clone,
    ) -> Result<Vec<Option<ObjectId>>, GitError> {
        let root = self.directory().as_path();
        let readable: Vec<bool> =
            paths.clone().map(|path| std::fs::File::open(root.join(path)).is_ok()).collect();
        let mut question = Vec::new();
        for (path, readable) in paths.zip(&readable) {
            if *readable {
                question.extend(quoted(path));
                question.push(b'\n');
            }
        }
        if question.is_empty() {
            return Ok(readable.into_iter().map(|_| None).collect());
        }
        let answer = self.git(["hash-object", "--stdin-paths"]).input(question).text().await?;
        let mut ids = answer.lines().map(ObjectId::parse);
        Ok(readable.into_iter().map(|readable| if readable { ids.next().flatten() } else { None }).collect())
    }
}

fn content(mode: EntryMode, id: Option<ObjectId>, stamp: Stamp) -> FoundFile {
    let file = match id {
        Some(id) => HostFile::Content(Some(TreeEntry { mode, id })),
        None => HostFile::Other,
    };
    FoundFile { file, stamp: Some(stamp), obstacle: None }
}

/// What stands where the directory of a path would have to be.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Above {
    Directory,
    Nothing,
    /// A file or a link, here or further up.
    Obstacle(PathBuf),
}

/// Directories of a working tree, each looked at once.
#[derive(Debug)]
struct Directories<'a> {
    root: &'a Path,
    known: HashMap<PathBuf, Above>,
}

impl Directories<'_> {
    fn above(&mut self, path: &Path) -> Above {
        let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) else {
            return Above::Directory;
        };
        if let Some(known) = self.known.get(directory) {
            return known.clone();
        }
        let found = match self.above(directory) {
            Above::Directory => match std::fs::symlink_metadata(self.root.join(directory)) {
                Ok(found) if found.is_dir() => Above::Directory,
                Ok(_) => Above::Obstacle(directory.to_owned()),
                Err(_) => Above::Nothing,
            },
            other => other,
        };
        self.known.insert(directory.to_owned(), found.clone());
        found
    }
}

/// A path as git reads it from a line or a list: in quotes, with every byte that could be misread as a number.
pub(crate) fn quoted(path: &Path) -> Vec<u8> {
    let mut text = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' | 0..=31 | 127.. => text.extend(format!("\\{byte:03o}").into_bytes()),
            plain => text.push(*plain),
        }
    }
    text.push(b'"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::Git;
    use palisade_core::HostPath;

    #[tokio::test]
    async fn files_links_and_obstacles_are_seen_as_git_sees_them() {
        let directory = tempfile::tempdir().unwrap();
        let root = HostPath::new(directory.path().canonicalize().unwrap()).unwrap();
        let git = Git::new("git", [("PATH".into(), std::env::var_os("PATH").unwrap())]);
        let repository = git.unguarded(&root);
        repository.git(["init", "--quiet"]).bytes().await.unwrap();
        let odd = Path::new(OsStr::from_bytes(b"o\"d\xff\nd\\"));
        std::fs::write(root.join(odd), "text\n").unwrap();
        std::fs::write(root.join("plain"), "text\n").unwrap();
        std::os::unix::fs::symlink("plain", root.join("link")).unwrap();
        std::fs::create_dir(root.join("directory")).unwrap();
        let names = ["plain", "link", "directory", "none", "none/below", "plain/below", "link/below"];
        let paths = names.iter().map(PathBuf::from).chain([odd.to_owned()]).collect();
        let found = repository.look_at_files(&paths).await.unwrap();
        let id = |text: &str| Some(ObjectId::parse(text).unwrap());
        let text = id("8e27be7d6154a1f68ea9160ef0e18691d20560dc");
        let plain = HostFile::Content(text.map(|id| TreeEntry { mode: EntryMode::File, id }));
        assert_eq!((&found[Path::new("plain")].file, &found[odd].file), (&plain, &plain));
        assert!(
            matches!(&found[Path::new("link")].file, HostFile::Content(Some(entry)) if entry.mode == EntryMode::Link)
        );
        assert_eq!(found[Path::new("directory")].file, HostFile::Other);
        let obstacle = |name: &str| found[Path::new(name)].obstacle.clone();
        assert_eq!(
            [obstacle("none"), obstacle("none/below"), obstacle("plain/below"), obstacle("link/below")],
            [None, None, Some("plain".into()), Some("link".into())]
        );
        assert!(
            found.values().all(|found| (found.stamp.is_none()) == (found.file == HostFile::Content(None)))
        );
    }
}
