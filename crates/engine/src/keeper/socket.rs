//! The keeper's socket. A socket address holds 108 bytes and a sandbox's directory may be deeper than that, so the
//! directory is opened and the address goes through its descriptor.

use palisade_core::HostPath;
use std::io::{Error, ErrorKind, Result};
use std::path::PathBuf;
use tokio::net::{UnixListener, UnixStream};

/// The directory as the start of a socket address, as short as it can be said.
#[cfg(target_os = "linux")]
struct Directory(std::os::fd::OwnedFd);

#[cfg(target_os = "linux")]
impl Directory {
    fn open(dir: &HostPath) -> Result<Self> {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(dir.as_path(), flags, Mode::empty())?))
    }

    fn address(&self, name: &str) -> PathBuf {
        use std::os::fd::AsRawFd;
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.0.as_raw_fd()))
    }
}

#[cfg(not(target_os = "linux"))]
struct Directory(HostPath);

#[cfg(not(target_os = "linux"))]
impl Directory {
    fn open(dir: &HostPath) -> Result<Self> {
        Ok(Self(dir.clone()))
    }

    fn address(&self, name: &str) -> PathBuf {
        self.0.join(name).into()
    }
}

/// Listens at `name` in `dir`, for the owner only. A socket that nobody listens at any more is replaced; one that
/// somebody does is an error of kind `AddrInUse`.
pub async fn bind(dir: &HostPath, name: &str) -> Result<UnixListener> {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::open(dir)?;
    let address = directory.address(name);
    if UnixStream::connect(&address).await.is_ok() {
        return Err(Error::new(ErrorKind::AddrInUse, "another keeper listens at this sandbox's socket"));
    }
    // It appears under its name only when its mode is right; the rename replaces a stale one.
    let fresh = directory.address(&format!(".{name}.{}", std::process::id()));
    let _ = std::fs::remove_file(&fresh);
    let listener = UnixListener::bind(&fresh)?;
    let placed = std::fs::set_permissions(&fresh, PermissionsExt::from_mode(0o600))
        .and_then(|()| std::fs::rename(&fresh, &address));
    if let Err(error) = placed {
        let _ = std::fs::remove_file(&fresh);
        return Err(error);
    }
    Ok(listener)
}

/// Connects to the keeper that listens at `name` in `dir`.
pub async fn connect(dir: &HostPath, name: &str) -> Result<UnixStream> {
    let directory = Directory::open(dir)?;
    UnixStream::connect(directory.address(name)).await
}

/// Whether a process of user `peer` may give orders to the keeper of user `owner`.
pub(super) fn may_connect(peer: u32, owner: u32) -> bool {
    peer == owner || peer == 0
}
