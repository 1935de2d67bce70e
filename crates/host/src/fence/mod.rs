//! What stays closed of a host directory that a sandbox may write: its git data, that of repositories below it, and files
//! that the user's git runs by itself.
//!
//! A mount point cannot be renamed or removed from inside, but a directory *above* one can. So every directory on
//! the way to a protected path is pinned by binding it onto itself. A path that does not exist gets a placeholder
//! for as long as the sandbox runs; what is about to be made is written to a journal first, so that a crash leaves
//! nothing that `sweep` cannot take away.

mod journal;
mod lock;
pub(crate) mod nested;
mod placeholder;

pub use journal::Journal;
pub use lock::DirectoryLock;
pub use placeholder::{Placeholder, PlaceholderKind};

use palisade_core::{
    Access, BackendError, HostPath, Policy, PrivateGit, ReadOnlyPath, Sharing, WhenAbsent, printable,
};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// What to bind inside one fenced directory, parents before children, relative to it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FencePlan {
    pub binds: Vec<(PathBuf, Access)>,
    pub placeholders: Vec<Placeholder>,
}

const GIT: &str = ".git";

/// The text of a `.git` file that leads nowhere, in a directory that is no repository. Git on the host stops there, so a
/// sandbox cannot make the directory look like a repository without a working tree.
const NOWHERE: &str = "gitdir: /nonexistent/this-directory-is-open-in-a-palisade-sandbox\n";

/// The text of a script in the place of one that is absent. It fails whichever interpreter runs it.
const FAILING: &str = "exit 1\n";

/// Looks at a directory without changing it and says what is closed in it. `private` is the git data that the sandbox
/// has there; its own binds come after these. Nothing is closed in a copy of the sandbox's own.
pub fn survey(directory: &HostPath, private: Option<&PrivateGit>) -> Result<FencePlan, BackendError> {
    let refuse = |path: &Path, reason: &str| {
        BackendError::HostDirectory {
        path: directory.to_string(),
        reason: format!("{} {reason}", printable(&path.to_string_lossy())),
        fix: "make it an ordinary file or directory, give the sandbox a copy with -w DIR:copy, or bind the directory read-only with :ro"
            .into(),
    }
    };
    if private.is_some_and(|git| git.sharing == Sharing::OwnCopy) {
        return Ok(FencePlan::default());
    }
    let root = open_directory(directory)?;
    let mut plan = FencePlan::default();
    let trees = private.map(|git| git.trees.as_slice()).unwrap_or_default();
    let has_own = trees.iter().any(|tree| tree.as_os_str().is_empty());
    match kind_of(root.as_fd(), Path::new(GIT)) {
        Ok(None) if is_bare(root.as_fd()) => {
            let reason =
                "makes it a repository without a working tree, which cannot be shared with a sandbox";
            return Err(refuse(Path::new("HEAD"), reason));
        }
        Ok(None) => {
            let when_absent = private.map_or(WhenAbsent::File, |git| git.git_when_absent);
            plan.placeholders.push(match when_absent {
                WhenAbsent::Directory => Placeholder::directory(GIT),
                WhenAbsent::File | WhenAbsent::Program => Placeholder::file(GIT, NOWHERE),
            });
            // What the sandbox has of its own is mounted over it.
            if !has_own {
                plan.binds.push((GIT.into(), Access::ReadOnly));
            }
        }
        Ok(Some(FileType::RegularFile | FileType::Directory)) if has_own => {}
        Ok(Some(FileType::RegularFile | FileType::Directory)) => {
            plan.binds.push((GIT.into(), Access::ReadOnly));
        }
        Ok(Some(_)) | Err(_) => return Err(refuse(Path::new(GIT), "is neither a directory nor a file")),
    }
    let nested = match private.and_then(|git| git.nested.clone()) {
        Some(found) => nested::outside(found, trees),
        None => nested::repositories(directory, trees),
    };
    if nested.len() > nested::MOST {
        let reason = format!("there are more than {} other repositories below it", nested::MOST);
        let fix =
            "bind one of them, give the sandbox a copy with -w DIR:copy, or bind the directory read-only with :ro".into();
        return Err(BackendError::HostDirectory { path: directory.to_string(), reason, fix });
    }
    let nested = nested.into_iter().map(|path| ReadOnlyPath { path, when_absent: WhenAbsent::File });
    let named = private.into_iter().flat_map(|git| git.read_only.iter().cloned());
    for closed in nested.chain(named) {
        if closed.path.as_os_str().is_empty() {
            let reason = "names the whole directory, which cannot be closed";
            return Err(refuse(Path::new("core.hooksPath"), reason));
        }
        let is_closed = |(known, access): &(PathBuf, Access)| {
            *access == Access::ReadOnly && closed.path.starts_with(known)
        };
        if !plan.binds.iter().any(is_closed) {
            protect(root.as_fd(), &closed, &mut plan).map_err(|reason| refuse(&closed.path, &reason))?;
        }
    }
    for tree in trees.iter().filter(|tree| !tree.as_os_str().is_empty()) {
        pin(root.as_fd(), tree, &mut plan).map_err(|reason| refuse(tree, &reason))?;
    }
    // Outer ones first: a bind covers what was bound below it before.
    plan.binds.sort_by_key(|(path, _)| path.components().count());
    Ok(plan)
}

/// Whether a directory's `.git` is a file of ours that leads nowhere: a sandbox has the directory, or one had it.
pub fn leads_nowhere(directory: &HostPath) -> bool {
    let git = directory.join(GIT);
    let is_small = std::fs::symlink_metadata(&git)
        .is_ok_and(|meta| meta.is_file() && meta.len() == NOWHERE.len() as u64);
    is_small && std::fs::read(git).is_ok_and(|text| text == NOWHERE.as_bytes())
}

/// Whether git would take the directory itself for a repository without a working tree. `true` where it cannot be opened.
pub fn looks_like_repository(directory: &HostPath) -> bool {
    open_directory(directory).map_or(true, |root| is_bare(root.as_fd()))
}

/// Directories that a sandbox has made look like a repository: the file that stops git there has stayed.
pub fn still_closed(policy: &Policy) -> Vec<String> {
    let mut lines = Vec::new();
    for (directory, _) in policy.written_directories() {
        if leads_nowhere(&directory) && looks_like_repository(&directory) {
            lines.push(format!(
                "{directory} now looks like a git repository that runs what the sandbox wrote; the file .git there keeps \
                 git from using it: remove HEAD, objects and refs first, then .git"
            ));
        }
    }
    lines
}

/// By git's own rule for a directory that is a repository: a HEAD, also a link that leads nowhere, and `objects` and
/// `refs` that it may enter or execute.
fn is_bare(root: BorrowedFd<'_>) -> bool {
    let has = |name: &str| rustix::fs::statat(root, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    has("HEAD") && has("objects") && has("refs")
}

/// Binds every directory on the way onto itself, and the path too.
fn pin(root: BorrowedFd<'_>, path: &Path, plan: &mut FencePlan) -> Result<(), String> {
    let above: Vec<&Path> = path.ancestors().filter(|above| !above.as_os_str().is_empty()).collect();
    for above in above.into_iter().rev() {
        match kind_of(root, above)? {
            Some(FileType::Directory) => {}
            None => plan.placeholders.push(Placeholder::directory(above)),
            Some(_) => return Err(format!("lies below {}, which is not a directory", above.display())),
        }
        if !plan.binds.iter().any(|(known, _)| known == above) {
            plan.binds.push((above.to_owned(), Access::ReadWrite));
        }
    }
    Ok(())
}

/// Pins the way to a path and closes the path itself.
fn protect(root: BorrowedFd<'_>, closed: &ReadOnlyPath, plan: &mut FencePlan) -> Result<(), String> {
    let path = closed.path.as_path();
    if let Some(above) = path.parent() {
        pin(root, above, plan)?;
    }
    match kind_of(root, path)? {
        // Closed by its name, it could be written by another one, which an earlier sandbox may have given it.
        Some(FileType::RegularFile) if has_other_names(root, path) => {
            return Err("has another name (a hard link), by which it could be written".into());
        }
        Some(FileType::Directory | FileType::RegularFile) => {}
        Some(_) => return Err("is neither a directory nor a file".into()),
        None => plan.placeholders.push(match closed.when_absent {
            WhenAbsent::Directory => Placeholder::directory(path),
            WhenAbsent::File => Placeholder::file(path, ""),
            WhenAbsent::Program => Placeholder::file(path, FAILING),
        }),
    }
    plan.placeholders.dedup_by(|a, b| a.path == b.path);
    plan.binds.retain(|(known, _)| known != path);
    plan.binds.push((path.to_owned(), Access::ReadOnly));
    Ok(())
}

/// Whether a file has more than one name.
fn has_other_names(root: BorrowedFd<'_>, path: &Path) -> bool {
    rustix::fs::statat(root, path, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| stat.st_nlink > 1)
}

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

fn open_directory(directory: &HostPath) -> Result<OwnedFd, BackendError> {
    rustix::fs::open(
        directory.as_path(),
        OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|error| BackendError::HostDirectory {
        path: directory.to_string(),
        reason: std::io::Error::from(error).to_string(),
        fix: "give an existing directory".into(),
    })
}

/// What is at `path`, without following any link on the way; a link itself is reported as what it is.
fn kind_of(root: BorrowedFd<'_>, path: &Path) -> Result<Option<FileType>, String> {
    match rustix::fs::openat2(
        root,
        path,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
        BENEATH,
    ) {
        Ok(file) => rustix::fs::statat(&file, "", AtFlags::EMPTY_PATH)
            .map(|stat| Some(FileType::from_raw_mode(stat.st_mode)))
            .map_err(|error| error.to_string()),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::LOOP) => Err("is or lies behind a symbolic link".into()),
        Err(Errno::NOTDIR) => Err("lies below something that is not a directory".into()),
        Err(error) => Err(std::io::Error::from(error).to_string()),
    }
}

#[cfg(test)]
mod tests;
