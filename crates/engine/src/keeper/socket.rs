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
    // It appears under its name only when its mode is right; the rename replaces a stale one. A sandbox has one keeper
    // at a time, so whatever has the other name was left by a keeper that was killed.
    let fresh = directory.address(&unfinished(name));
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

/// The name of a socket that is not ready to be connected to.
fn unfinished(name: &str) -> String {
    format!(".{name}")
}

/// Removes the socket at `name` in `dir`, finished or not, of a keeper that is gone or about to go.
pub fn remove(dir: &HostPath, name: &str) {
    for name in [name.to_owned(), unfinished(name)] {
        // Most often there is only one of them, and none when the keeper never came that far.
        let _ = std::fs::remove_file(dir.join(name));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_goes_with_one_that_a_killed_keeper_never_finished() {
        let directory = tempfile::tempdir().unwrap();
        let dir = HostPath::new(directory.path().to_owned()).unwrap();
        std::os::unix::net::UnixListener::bind(dir.join(unfinished("it"))).unwrap();
        let names = || -> Vec<_> {
            let entries = std::fs::read_dir(directory.path()).unwrap().flatten();
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
        };
        assert_eq!(names(), [".it"]);
        let _listener = bind(&dir, "it").await.unwrap();
        assert_eq!(names(), ["it"], "the next keeper takes its place");
        std::os::unix::net::UnixListener::bind(dir.join(unfinished("it"))).unwrap();
        remove(&dir, "it");
        assert_eq!(names(), Vec::<String>::new());
    }
}
