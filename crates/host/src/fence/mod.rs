//! The fence around a host directory that a sandbox may write: what the host's own git would run or obey stays
//! read-only there, also when it does not exist yet.
//!
//! A mount point cannot be renamed or removed from inside, but a directory *above* one can. So every directory on
//! the way to a carve-out is pinned by binding it onto itself. A path that does not exist gets an empty placeholder
//! for as long as the sandbox runs; what is about to be made is written to a journal first, so that a crash leaves
//! nothing that `sweep` cannot take away.

mod configured;
mod gitconfig;
mod journal;
mod lock;
mod placeholder;
mod report;

pub use journal::Journal;
pub use lock::DirectoryLock;
pub use placeholder::{Placeholder, PlaceholderKind};
pub use report::{changed_since, warnings};

use palisade_core::{Access, BackendError, HostPath};
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

/// How a protected path must look, and what stands in for it while it is absent.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Directory,
    File { absent: &'static str },
}

/// What git obeys in a repository, beside the objects and refs that a commit needs to write. An empty file or
/// directory is as good as none in each case, and a `commondir` of `.` names the repository itself.
const PROTECTED: [(&str, Shape); 8] = [
    (".git/config", Shape::File { absent: "" }),
    (".git/config.worktree", Shape::File { absent: "" }),
    (".git/commondir", Shape::File { absent: ".\n" }),
    (".git/hooks", Shape::Directory),
    (".git/info", Shape::Directory),
    (".git/modules", Shape::Directory),
    (".git/worktrees", Shape::Directory),
    (".git/objects/info/alternates", Shape::File { absent: "" }),
];

const GIT: &str = ".git";

/// Looks at a directory without changing it and says what its fence is made of. `user_config` are the files in which
/// the user's own git looks for settings.
pub fn survey(directory: &HostPath, user_config: &[PathBuf]) -> Result<FencePlan, BackendError> {
    let refuse = |path: &Path, reason: &str| BackendError::HostDirectory {
        path: directory.to_string(),
        reason: format!("{} {reason}", path.display()),
        fix: "make it an ordinary file or directory, or bind the directory read-only with :ro".into(),
    };
    let root = open_directory(directory)?;
    let mut plan = FencePlan::default();
    let mut outside = user_config.to_vec();
    match kind_of(root.as_fd(), Path::new(GIT)) {
        Ok(None) if is_bare(root.as_fd()) => {
            return Err(refuse(
                Path::new("HEAD"),
                "makes it a repository without a work tree, which the fence cannot close",
            ));
        }
        Ok(None) => {
            plan.placeholders.push(Placeholder::directory(GIT));
            plan.binds.push((GIT.into(), Access::ReadOnly));
            return Ok(plan);
        }
        // A worktree's or submodule's pointer: its target must not change.
        Ok(Some(FileType::RegularFile)) => {
            if let Some(inside) = configured::pointed_to(root.as_fd(), directory) {
                return Err(refuse(&inside, "is the repository, at a place that the fence does not close"));
            }
            plan.binds.push((GIT.into(), Access::ReadOnly));
            outside.extend(configured::shared_config(root.as_fd(), directory));
        }
        Ok(Some(FileType::Directory)) => {
            for (path, shape) in PROTECTED {
                protect(root.as_fd(), Path::new(path), shape, &mut plan)
                    .map_err(|reason| refuse(Path::new(path), &reason))?;
            }
        }
        Ok(Some(_)) | Err(_) => return Err(refuse(Path::new(GIT), "is neither a directory nor a file")),
    }
    let mut configured = configured::paths(root.as_fd(), directory);
    configured.extend(configured::named_outside(&outside, directory));
    for path in configured {
        if path.as_os_str().is_empty() {
            return Err(refuse(
                Path::new("core.hooksPath"),
                "names the whole directory, which cannot be closed",
            ));
        }
        if plan.binds.iter().any(|(known, access)| *access == Access::ReadOnly && path.starts_with(known)) {
            continue;
        }
        // What configuration names may be of either kind; where it is absent, hooks are a directory.
        let shape = match kind_of(root.as_fd(), &path) {
            Ok(Some(FileType::RegularFile)) => Shape::File { absent: "" },
            _ => Shape::Directory,
        };
        protect(root.as_fd(), &path, shape, &mut plan).map_err(|reason| refuse(&path, &reason))?;
    }
    Ok(plan)
}

fn is_bare(root: BorrowedFd<'_>) -> bool {
    let is =
        |name: &str, kind: FileType| kind_of(root, Path::new(name)).is_ok_and(|found| found == Some(kind));
    is("HEAD", FileType::RegularFile) && is("objects", FileType::Directory) && is("refs", FileType::Directory)
}

/// Pins the way to `path` and closes `path` itself.
fn protect(root: BorrowedFd<'_>, path: &Path, shape: Shape, plan: &mut FencePlan) -> Result<(), String> {
    let ancestors: Vec<&Path> =
        path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()).collect();
    for above in ancestors.into_iter().rev() {
        match kind_of(root, above)? {
            Some(FileType::Directory) => {}
            None => plan.placeholders.push(Placeholder::directory(above)),
            Some(_) => return Err(format!("lies below {}, which is not a directory", above.display())),
        }
        if !plan.binds.iter().any(|(known, _)| known == above) {
            plan.binds.push((above.to_owned(), Access::ReadWrite));
        }
    }
    let expected = match shape {
        Shape::Directory => FileType::Directory,
        Shape::File { .. } => FileType::RegularFile,
    };
    match kind_of(root, path)? {
        Some(found) if found == expected => {}
        Some(_) => return Err("is not what git expects there".into()),
        None => plan.placeholders.push(match shape {
            Shape::Directory => Placeholder::directory(path),
            Shape::File { absent } => Placeholder::file(path, absent),
        }),
    }
    plan.placeholders.dedup_by(|a, b| a.path == b.path);
    if !plan.binds.iter().any(|(known, access)| known == path && *access == Access::ReadOnly) {
        plan.binds.push((path.to_owned(), Access::ReadOnly));
    }
    Ok(())
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
