//! Root's preparations for a sandbox that will run as somebody else.
//!
//! bwrap then runs under an unprivileged uid, which could not even walk to root's own directories. So the thread
//! that will start it takes a private mount namespace, clones what the sandbox shall see, id-maps what belongs to
//! another user, and puts the clones where the unprivileged uid can find them. The host's mounts are not touched.
#![allow(
    unsafe_code,
    reason = "unshare of a thread's mount namespace, and mount_setattr, which rustix does not wrap"
)]

use crate::idmap::IdMap;
use palisade_core::{BackendError, HostIdentity, HostPath};
use palisade_host::bound_path::open_without_links;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags};
use std::path::{Path, PathBuf};

/// One thing to be shown to the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub host: HostPath,
    /// Map the owner of the file tree to the sandbox's uid.
    pub map_owner: bool,
    /// The device and inode of what is meant, for a path that somebody else could have changed since it was opened.
    pub opened: Option<(u64, u64)>,
}

/// Directories of which one exists on every Linux, used as the place for our tmpfs; only this thread sees it there.
const COVERS: [&str; 4] = ["/mnt", "/media", "/srv", "/run"];

/// Makes the calling thread's mount namespace private and stages every source; the staged paths, in order.
pub(crate) fn stage(sources: &[Source], identity: HostIdentity) -> Result<Vec<HostPath>, BackendError> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: rustix::io::Errno| BackendError::io(what)(error.into())
    };
    // SAFETY: only this thread's view changes; it shares no file-system state with others after CLONE_FS.
    unsafe {
        rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::FS | rustix::thread::UnshareFlags::NEWNS)
    }
    .map_err(failed("take a private mount namespace"))?;
    rustix::mount::mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .map_err(failed("detach from the host's mounts"))?;
    // All clones are taken before our tmpfs covers anything, so that sources below the cover work as well.
    let clones = sources.iter().map(|source| clone(source, identity)).collect::<Result<Vec<_>, _>>()?;
    let cover =
        COVERS.into_iter().map(Path::new).find(|path| path.is_dir()).ok_or_else(|| BackendError::Io {
            what: "find a place for the sandbox's mounts".into(),
            source: std::io::Error::other("none of /mnt, /media, /srv, /run exists"),
        })?;
    rustix::mount::mount(
        "palisade",
        cover,
        "tmpfs",
        MountFlags::NOSUID | MountFlags::NODEV,
        c"mode=0755,size=256k",
    )
    .map_err(failed("mount the staging place"))?;
    clones.iter().enumerate().map(|(index, clone)| place(clone, &cover.join(index.to_string()))).collect()
}

struct Clone {
    tree: OwnedFd,
    directory: bool,
}

fn clone(source: &Source, identity: HostIdentity) -> Result<Clone, BackendError> {
    let io = |what: &str, error: rustix::io::Errno| {
        BackendError::io(format!("{what} {}", source.host))(error.into())
    };
    let handle = open(source)?;
    let stat = rustix::fs::fstat(&handle).map_err(|error| io("look at", error))?;
    let directory = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir();
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree =
        rustix::mount::open_tree(&handle, "", flags).map_err(|error| io("clone the mount of", error))?;
    let foreign = stat.st_uid != identity.uid || stat.st_gid != identity.gid;
    if source.map_owner && foreign {
        let map = IdMap::new((stat.st_uid, stat.st_gid), (identity.uid, identity.gid))
            .map_err(|error| BackendError::Io { what: "make an id map".into(), source: error })?;
        apply(&tree, &map).map_err(|error| BackendError::HostDirectory {
            path: source.host.to_string(),
            reason: format!(
                "it belongs to uid {} and its file system or this kernel cannot show it under another id: {error}",
                stat.st_uid
            ),
            fix: "run Palisade as the owner of the directory, or bind it read-only with :ro".into(),
        })?;
    }
    Ok(Clone { tree, directory })
}

/// A descriptor of the source. The kernel clones no mount of another mount namespace, so what was opened before this
/// thread had its own is opened again, and compared.
fn open(source: &Source) -> Result<OwnedFd, BackendError> {
    let Some(expected) = source.opened else {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        return rustix::fs::open(source.host.as_path(), flags, Mode::empty())
            .map_err(|error| BackendError::io(format!("open {}", source.host))(error.into()));
    };
    let changed = |reason: String| BackendError::PathChanged { path: source.host.to_string(), reason };
    let opened = open_without_links(&source.host).map_err(|error| changed(error.to_string()))?;
    if (opened.device, opened.inode) != expected {
        return Err(changed("another directory has taken its place".into()));
    }
    Ok(opened.into_descriptor())
}

/// `struct mount_attr` of the kernel.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;

fn apply(tree: &OwnedFd, map: &IdMap) -> std::io::Result<()> {
    let attributes = MountAttributes {
        set: MOUNT_ATTR_IDMAP,
        clear: 0,
        propagation: 0,
        user_namespace: map.as_raw_fd() as u64,
    };
    // SAFETY: the structure outlives the call, and its size is passed along.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

fn place(clone: &Clone, target: &PathBuf) -> Result<HostPath, BackendError> {
    let io = |error: std::io::Error| BackendError::io(format!("stage {}", target.display()))(error);
    if clone.directory {
        std::fs::create_dir(target).map_err(io)?;
    } else {
        std::fs::File::create(target).map_err(io)?;
    }
    rustix::mount::move_mount(
        &clone.tree,
        "",
        rustix::fs::CWD,
        target,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
    .map_err(|error| io(error.into()))?;
    HostPath::new(target).map_err(|error| io(std::io::Error::other(error.to_string())))
}
