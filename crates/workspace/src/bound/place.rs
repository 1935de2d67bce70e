//! Where a sandbox's own git data is kept in the state directory, and what was written down of it.
//!
//! `git/<sandbox>/` holds `record.json` and, for each repository, a git directory that the sandbox may write. The record
//! is outside of all of them. What is in a git directory is the sandbox's, so it is only ever looked at without following
//! links, and never by host git.

use super::contents::{BoundTree, GitContents};
use super::filters::NeededFilter;
use super::head::{Base, HostSide};
use super::pending::PendingRepository;
use palisade_core::{
    Access, GIT_DIRECTORIES, GitBind, HostPath, PrivateGit, ProcessIdentity, SandboxId, SandboxName, Sharing,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// All of them, in the state directory.
const ALL: &str = "git";
const RECORD: &str = "record.json";
/// Ends the name of one that is being removed. Half of it would look as if it had changed since it was recorded.
const REMOVING: &str = ".removing";
/// In the name of one that is being made, before the process that makes it.
const MAKING: &str = ".making-";
/// An empty file that hides the alternates of the host's objects, whose paths mean nothing inside.
const EMPTY: &str = "empty";
/// The most entries that are compared.
const MAX_ENTRIES: usize = 100_000;

/// The git data of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivatePlace {
    root: HostPath,
}

/// Whether git directories are filled, or are there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// For this uid and gid, where that is not our own.
    Write(Option<(u32, u32)>),
    Keep,
}

/// What was written down of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceRecord {
    pub sandbox: SandboxId,
    pub name: SandboxName,
    /// Whether it is a run without a name, which ends with its process.
    pub is_run: bool,
    /// The bound directories, and where each is shown.
    pub directories: Vec<(HostPath, String)>,
    /// The process that the sandbox was started by.
    pub process: ProcessIdentity,
    pub repositories: Vec<RecordedRepository>,
    /// The copy that the sandbox has as its workspace in the place of the bound directory, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<HostPath>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRepository {
    /// The bound directory.
    pub directory: HostPath,
    /// The working tree in it; empty for itself.
    pub path: PathBuf,
    /// Where the working tree is inside.
    pub guest: String,
    /// What both sides had in common last.
    pub base: Base,
    /// What the git directory looked like then.
    pub stamp: Stamp,
    /// Where its commits go on the host.
    #[serde(default)]
    pub host: HostSide,
    /// The host's git directory of the working tree, where there is one.
    #[serde(default)]
    pub host_git: Option<PathBuf>,
    /// Filters that git cannot do without here.
    #[serde(default)]
    pub filters: Vec<NeededFilter>,
}

impl RecordedRepository {
    pub fn tree(&self) -> HostPath {
        if self.path.as_os_str().is_empty() {
            self.directory.clone()
        } else {
            self.directory.join(&self.path)
        }
    }
}

/// The files of a git directory that change with every commit, branch or stash entry.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Stamp(BTreeMap<PathBuf, String>);

impl Stamp {
    /// Looks without opening a file. More entries than anybody has count as a change.
    fn of(directory: &Path) -> Self {
        let mut found = BTreeMap::new();
        let mut pending: Vec<PathBuf> =
            ["HEAD", "packed-refs", "logs/HEAD", "logs/refs/stash", "refs"].map(PathBuf::from).to_vec();
        while let Some(path) = pending.pop() {
            let Ok(meta) = std::fs::symlink_metadata(directory.join(&path)) else { continue };
            if meta.is_dir() {
                let entries = std::fs::read_dir(directory.join(&path)).into_iter().flatten().flatten();
                pending.extend(entries.take(MAX_ENTRIES).map(|entry| path.join(entry.file_name())));
            } else {
                let times = (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
                found.insert(path, format!("{} {} {times:?}", meta.ino(), meta.size()));
            }
            if found.len() > MAX_ENTRIES {
                return Self::default();
            }
        }
        Self(found)
    }
}

impl PlaceRecord {
    /// The host's files that change with every commit, switch and new branch of the user's.
    pub fn host_files(&self) -> Vec<PathBuf> {
        let directories = self.repositories.iter().filter_map(|it| it.host_git.as_ref());
        let names = ["HEAD", "logs/HEAD", "packed-refs", "refs/heads"];
        directories.flat_map(|directory| names.map(|name| directory.join(name))).collect()
    }
}

/// Held until dropped.
#[derive(Debug)]
pub struct PlaceLock {
    #[allow(dead_code, reason = "the lock lives as long as the open file")]
    file: std::fs::File,
}

impl PrivatePlace {
    /// Waits until no other process works on the record.
    pub async fn lock(&self) -> io::Result<Option<PlaceLock>> {
        let path = self.root.join("lock");
        let file =
            match std::fs::File::options().create(true).truncate(false).write(true).mode(0o600).open(&path) {
                // There is nothing to lock.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                file => file?,
            };
        let take = move || {
            rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
            Ok(Some(PlaceLock { file }))
        };
        tokio::task::spawn_blocking(take).await.map_err(io::Error::other)?
    }

    pub fn of(state: &HostPath, sandbox: &SandboxId) -> Self {
        Self { root: state.join(ALL).join(sandbox.as_str()) }
    }

    /// Those of all sandboxes, with what was written down of each.
    pub fn all(state: &HostPath) -> Vec<(Self, PlaceRecord)> {
        let entries = std::fs::read_dir(state.join(ALL)).into_iter().flatten().flatten();
        let entries = entries.filter(|entry| !is_being_removed(entry) && maker(entry).is_none());
        let places = entries.filter_map(|entry| HostPath::new(entry.path()).ok()).map(|root| Self { root });
        places.filter_map(|place| Some((place.clone(), place.read().ok()??))).collect()
    }

    pub fn path(&self) -> &HostPath {
        &self.root
    }

    fn git_directory(&self, number: usize) -> HostPath {
        self.root.join(format!("{number}/git"))
    }

    /// Where the commits of a directory that is not a repository are kept while the sandbox runs.
    pub fn pending(&self, number: usize) -> PendingRepository {
        PendingRepository::at(self.root.join(format!("{number}/host")))
    }

    /// `None` where there is none.
    pub fn read(&self) -> io::Result<Option<PlaceRecord>> {
        match std::fs::read(self.root.join(RECORD)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub fn write(&self, record: &PlaceRecord) -> io::Result<()> {
        let text = serde_json::to_vec(record)?;
        if !self.root.as_path().exists() {
            return self.begin(&text);
        }
        let new = self.root.join(format!("{RECORD}.new"));
        write_file(new.as_path(), 0o600, &text)?;
        std::fs::rename(new, self.root.join(RECORD))
    }

    /// Makes the directory with its record in one step: without one, nothing would say whose it is.
    fn begin(&self, record: &[u8]) -> io::Result<()> {
        let me = palisade_host::process::this_process();
        let mut aside = self.root.as_path().as_os_str().to_owned();
        aside.push(format!("{MAKING}{}-{}", me.pid, me.start_ticks));
        let aside = PathBuf::from(aside);
        palisade_host::tree::remove(&aside)?;
        make_directory(&aside, 0o700)?;
        write_file(&aside.join(RECORD), 0o600, record)?;
        std::fs::rename(aside, &self.root)
    }

    pub fn remove(&self) -> io::Result<()> {
        let mut aside = self.root.as_path().as_os_str().to_owned();
        aside.push(REMOVING);
        palisade_host::tree::remove(Path::new(&aside))?;
        match std::fs::rename(&self.root, &aside) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            renamed => renamed?,
        }
        palisade_host::tree::remove(Path::new(&aside))
    }

    /// Removes what was being removed or made when the process that did it was killed.
    pub fn finish_removals(state: &HostPath) {
        let entries = std::fs::read_dir(state.join(ALL)).into_iter().flatten().flatten();
        let has_died = |maker: &ProcessIdentity| !palisade_host::process::is_alive(maker);
        let is_left = |entry: &std::fs::DirEntry| {
            is_being_removed(entry) || maker(entry).is_some_and(|maker| has_died(&maker))
        };
        for entry in entries.filter(is_left) {
            // The process may be at it still; what stays is tried again the next time.
            let _ = palisade_host::tree::remove(&entry.path());
        }
    }

    /// Whether a git directory holds something that the record does not know of.
    pub fn has_changed(&self, number: usize, recorded: &RecordedRepository) -> bool {
        let now = Stamp::of(self.git_directory(number).as_path());
        now != recorded.stamp || now == Stamp::default()
    }

    /// What a git directory looks like now.
    pub fn stamp(&self, number: usize) -> Stamp {
        Stamp::of(self.git_directory(number).as_path())
    }

    /// Makes the git directories of one bound directory, which is shown at `guest`. `first` is how many there are already.
    pub fn make(
        &self,
        first: usize,
        (directory, guest): (&HostPath, &str),
        tree: &BoundTree,
        contents: Contents,
    ) -> io::Result<(PrivateGit, Vec<RecordedRepository>)> {
        let empty = self.root.join(EMPTY);
        write_file(empty.as_path(), 0o644, b"")?;
        let mut git = PrivateGit {
            directory: directory.clone(),
            binds: Vec::new(),
            trees: Vec::new(),
            read_only: tree.read_only.clone(),
            git_when_absent: tree.git_when_absent,
            notice: tree.notice(directory),
            sharing: Sharing::WithHost,
            nested: None,
        };
        let mut recorded = Vec::new();
        for (offset, repository) in tree.repositories.iter().enumerate() {
            let number = first + offset;
            let own = self.git_directory(number);
            let working_tree = match repository.path.as_os_str().is_empty() {
                true => guest.to_owned(),
                false => format!("{guest}/{}", repository.path.display()),
            };
            // A directory cannot be mounted over a file, so the file names another place.
            let place = match repository.has_git_file {
                true => format!("{GIT_DIRECTORIES}/{number}"),
                false => format!("{working_tree}/.git"),
            };
            let mut files = repository.contents.clone();
            let guests: Vec<String> =
                (0..repository.objects.len()).map(|at| format!("{place}/host-objects/{at}")).collect();
            files.add_alternates(&guests);
            if repository.hooks.is_some() {
                files.directories.push("hooks".into());
            }
            let owner = match contents {
                Contents::Write(owner) => {
                    write_contents(own.as_path(), &files, owner)?;
                    owner
                }
                Contents::Keep => None,
            };
            let bind = |host: HostPath, guest: String, access: Access| GitBind {
                host,
                guest,
                access,
                of_owner: true,
            };
            git.binds.push(bind(own.clone(), place.clone(), Access::ReadWrite));
            for (host, guest) in repository.objects.iter().zip(guests) {
                let has_alternates = host.join("info/alternates").as_path().is_file();
                git.binds.push(bind(host.clone(), guest.clone(), Access::ReadOnly));
                if has_alternates {
                    let host = empty.clone();
                    let guest = format!("{guest}/info/alternates");
                    git.binds.push(GitBind { host, guest, access: Access::ReadOnly, of_owner: false });
                }
            }
            if let Some(hooks) = &repository.hooks {
                git.binds.push(bind(hooks.clone(), format!("{place}/hooks"), Access::ReadOnly));
            }
            if repository.has_git_file {
                let pointer = self.root.join(format!("{number}/pointer"));
                write_file(pointer.as_path(), 0o644, format!("gitdir: {place}\n").as_bytes())?;
                give(pointer.as_path(), owner)?;
                git.binds.push(bind(pointer, format!("{working_tree}/.git"), Access::ReadOnly));
            }
            git.trees.push(repository.path.clone());
            recorded.push(RecordedRepository {
                directory: directory.clone(),
                path: repository.path.clone(),
                guest: working_tree,
                base: repository.base.clone(),
                stamp: Stamp::of(own.as_path()),
                host: repository.host.clone(),
                host_git: repository.tree.as_ref().map(|tree| tree.repository.places().own.clone()),
                filters: repository.filters.clone(),
            });
        }
        Ok((git, recorded))
    }
}

fn is_being_removed(entry: &std::fs::DirEntry) -> bool {
    entry.file_name().as_encoded_bytes().ends_with(REMOVING.as_bytes())
}

/// The process that makes an entry; `None` for one that is whole.
fn maker(entry: &std::fs::DirEntry) -> Option<ProcessIdentity> {
    let name = entry.file_name();
    let (_, process) = name.to_str()?.split_once(MAKING)?;
    let (pid, start_ticks) = process.split_once('-')?;
    let boot = palisade_host::process::this_process().boot;
    Some(ProcessIdentity { pid: pid.parse().ok()?, start_ticks: start_ticks.parse().ok()?, boot })
}

fn write_contents(directory: &Path, contents: &GitContents, owner: Option<(u32, u32)>) -> io::Result<()> {
    if let Some(above) = directory.parent() {
        make_directory(above, 0o700)?;
    }
    make_directory(directory, 0o755)?;
    let mut made = std::collections::BTreeSet::new();
    let mut ensure = |relative: &Path| -> io::Result<()> {
        let mut above: Vec<&Path> =
            relative.ancestors().filter(|path| !path.as_os_str().is_empty()).collect();
        above.reverse();
        for path in above {
            if made.insert(path.to_owned()) {
                make_directory(&directory.join(path), 0o755)?;
                give(&directory.join(path), owner)?;
            }
        }
        Ok(())
    };
    for relative in &contents.directories {
        ensure(relative)?;
    }
    for file in &contents.files {
        ensure(file.path.parent().unwrap_or(Path::new("")))?;
        let path = directory.join(&file.path);
        let mut options = std::fs::OpenOptions::new();
        let mut open = options.write(true).create_new(true).mode(0o644).open(&path)?;
        io::Write::write_all(&mut open, &file.bytes)?;
        if let Some(time) = file.modified {
            open.set_modified(time)?;
        }
        give(&path, owner)?;
    }
    give(directory, owner)
}

/// Makes something of ours the owner's of the bound directory. Nobody else has seen it yet.
fn give(path: &Path, owner: Option<(u32, u32)>) -> io::Result<()> {
    match owner {
        Some((uid, gid)) => std::os::unix::fs::lchown(path, Some(uid), Some(gid)),
        None => Ok(()),
    }
}

fn make_directory(path: &Path, mode: u32) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(mode).create(path)
}

fn write_file(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(mode).open(path)?;
    io::Write::write_all(&mut file, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_half_removed_does_not_count_and_is_removed_later() {
        let state = tempfile::tempdir().unwrap();
        let state = HostPath::new(state.path()).unwrap();
        let id = SandboxId::from_random([7; 15]);
        let record = PlaceRecord {
            sandbox: id.clone(),
            name: SandboxName::new("box").unwrap(),
            is_run: true,
            directories: Vec::new(),
            process: palisade_host::process::this_process(),
            repositories: Vec::new(),
            copy: None,
        };
        let place = PrivatePlace::of(&state, &id);
        let aside = state.join(ALL).join(format!("{id}{REMOVING}"));
        for _ in 0..2 {
            place.write(&record).unwrap();
            assert_eq!(PrivatePlace::all(&state).len(), 1);
            // As a process that is killed leaves it.
            std::fs::rename(place.path(), &aside).unwrap();
            assert_eq!(PrivatePlace::all(&state), []);
            place.write(&record).unwrap();
            place.remove().unwrap();
            assert!(!place.path().as_path().exists() && !aside.as_path().exists());
        }
        place.write(&record).unwrap();
        std::fs::rename(place.path(), &aside).unwrap();
        let me = palisade_host::process::this_process();
        let making = |ticks: u64| state.join(ALL).join(format!("{id}{MAKING}{}-{ticks}", me.pid));
        std::fs::create_dir(making(me.start_ticks)).unwrap();
        std::fs::create_dir(making(me.start_ticks + 1)).unwrap();
        assert_eq!(PrivatePlace::all(&state), []);
        PrivatePlace::finish_removals(&state);
        assert!(making(me.start_ticks).as_path().exists(), "its process lives");
        std::fs::remove_dir(making(me.start_ticks)).unwrap();
        PrivatePlace::finish_removals(&state);
        assert_eq!(std::fs::read_dir(state.join(ALL)).unwrap().count(), 0);
    }
}
