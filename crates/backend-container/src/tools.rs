//! Tools of this host's for an engine on another machine: each directory is a read-only volume there, filled once per
//! content and shared by every sandbox of this installation that is shown the same.
//!
//! Invariants: a volume is named after all that is in it; one that is not known to be whole is never used, which is
//! looked at once a container holds it, so that nobody can take it away in between; one process of this installation
//! fills at a time, by a lock that the kernel takes back from the dead.

use crate::ContainerConfig;
use crate::client::Client;
use crate::filling::{self, Filling, Trust};
use crate::labels::{self, Kind};
use crate::memory::{self, Memory};
use crate::plan::Shown;
use crate::tree::Tree;
use crate::upload::Archive;
use palisade_core::{BackendError, HostPath};
use palisade_host::digest::Digest;
use palisade_host::stamp;
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// What is remembered of trees, a file each, and the lock.
const DIRECTORY: &str = "tools";
const LOCK: &str = "lock";

/// A tree, and the volume in which it stands for an engine.
#[derive(Debug, Clone)]
pub(crate) struct Carried {
    tree: Tree,
    volume: String,
    digest: String,
    memory: Memory,
    /// Nobody has asked for it before.
    pub(crate) is_new: bool,
}

impl Carried {
    pub(crate) fn shown(&self) -> Shown {
        Shown { volume: self.volume.clone(), guest: self.tree.guest.clone() }
    }
}

/// In which volumes the trees stand, or will. A tree that has changed since somebody last asked is read for it.
pub(crate) async fn named(
    client: &Client,
    config: &ContainerConfig,
    owner: &str,
    trees: &[Tree],
) -> Result<Vec<Carried>, BackendError> {
    let mut carried = Vec::new();
    for tree in trees {
        let (endpoint, state, owner) = (client.endpoint.to_string(), config.state.clone(), owner.to_owned());
        let root = &tree.root;
        let tree = tree.clone();
        let named = tokio::task::spawn_blocking(move || name(&endpoint, &state, &owner, tree)).await;
        let named = named.unwrap_or_else(|error| Err(io::Error::other(error)));
        carried.push(named.map_err(BackendError::io(format!("read {root}")))?);
    }
    Ok(carried)
}

fn name(endpoint: &str, state: &HostPath, owner: &str, tree: Tree) -> io::Result<Carried> {
    let directory = state.join(DIRECTORY);
    std::fs::create_dir_all(&directory)?;
    let key = filling::short(Digest::of_bytes(format!("{endpoint} {}", tree.guest).as_bytes()));
    let memory = Memory::at(directory.join(key));
    // Taken first: whatever changes from now on makes another.
    let identity = identity(endpoint, tree.root.as_path(), &tree.guest)?;
    let prefix = labels::tools_volume(owner, "");
    let recalled = memory.recall(&identity).and_then(|volume| Some(volume.strip_prefix(&prefix)?.to_owned()));
    let is_new = recalled.is_none();
    let digest = match recalled {
        Some(digest) => digest,
        None => filling::short(tree.write(io::sink())?),
    };
    let volume = labels::tools_volume(owner, &digest);
    if is_new {
        // Before it is filled: what is remembered is what gc spares.
        memory.keep(&identity, &volume);
    }
    Ok(Carried { tree, volume, digest, memory, is_new })
}

/// One line: neither an endpoint nor a stamp has blanks, and a path inside has no control characters.
fn identity(endpoint: &str, root: &Path, guest: &str) -> io::Result<String> {
    Ok(format!("{endpoint} {} {guest}", stamp::of_tree(root)?))
}

pub(crate) async fn are_filled(client: &Client, carried: &[Carried]) -> Result<bool, BackendError> {
    for tool in carried {
        if !filling::is_filled(client, &tool.volume, Kind::Tools).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Fills the volumes that are not. `image` is any that the engine has.
pub(crate) async fn fill(
    client: &Client,
    config: &ContainerConfig,
    owner: &str,
    image: &str,
    carried: &[Carried],
) -> Result<(), BackendError> {
    if are_filled(client, carried).await? {
        return Ok(());
    }
    let file = config.state.join(DIRECTORY).join(LOCK);
    let locked = tokio::task::spawn_blocking(move || lock(&file, FlockOperation::LockExclusive)).await;
    let locked = locked.unwrap_or_else(|error| Err(io::Error::other(error)));
    let _lock = locked.map_err(BackendError::io("lock what is remembered of tools"))?;
    for Carried { tree, volume, digest, memory, .. } in carried {
        if filling::is_filled(client, volume, Kind::Tools).await? {
            continue;
        }
        (config.tell)(&format!("sending {} to the engine at {}", tree.root, client.endpoint));
        let archive = Archive::Tree(tree.clone(), digest.clone());
        let filling = Filling { volume, kind: Kind::Tools, owner, image, archive };
        if let Err(error) = filling::fill(client, &filling, Trust::AsItLooks).await {
            memory.forget();
            return Err(error);
        }
    }
    Ok(())
}

fn lock(file: &HostPath, operation: FlockOperation) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let file = rustix::fs::open(file.as_path(), flags, Mode::from_raw_mode(0o600))?;
    rustix::fs::flock(&file, operation)?;
    Ok(file)
}

/// Held by whoever puts away what a dead one has left; nothing while somebody fills.
pub(crate) fn try_lock(config: &ContainerConfig) -> Option<OwnedFd> {
    let directory = config.state.join(DIRECTORY);
    std::fs::create_dir_all(&directory).ok()?;
    lock(&directory.join(LOCK), FlockOperation::NonBlockingLockExclusive).ok()
}

/// The volumes of trees that are still as they were: the next sandbox wants them.
pub(crate) async fn wanted(client: &Client, config: &ContainerConfig) -> HashSet<String> {
    let (endpoint, directory) = (client.endpoint.to_string(), config.state.join(DIRECTORY));
    let looked = tokio::task::spawn_blocking(move || {
        let kept = memories(&directory).into_iter().filter(|text| is_current(text, &endpoint));
        kept.filter_map(|text| Some(memory::read(&text)?.1.to_owned())).collect()
    });
    looked.await.unwrap_or_default()
}

fn memories(directory: &HostPath) -> Vec<String> {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    files.filter_map(|file| std::fs::read_to_string(file.path()).ok()).collect()
}

fn is_current(text: &str, endpoint: &str) -> bool {
    let current = || {
        let (known, _) = memory::read(text)?;
        let guest = known.splitn(3, ' ').nth(2)?;
        let root = std::fs::canonicalize(guest).ok()?;
        Some(identity(endpoint, &root, guest).ok()? == known)
    };
    current().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGINE: &str = "tcp://far:2375";

    fn named_in(state: &HostPath, tool: &Path) -> Carried {
        let root = HostPath::new(tool).unwrap();
        let tree = Tree { root, guest: tool.display().to_string() };
        name(ENGINE, state, "me", tree).unwrap()
    }

    #[test]
    fn a_tree_is_read_again_only_when_it_has_changed_and_the_old_volume_is_then_nobodys() {
        let scene = tempfile::tempdir().unwrap();
        let (state, tool) = (HostPath::new(scene.path().join("state")).unwrap(), scene.path().join("tool"));
        std::fs::create_dir(&tool).unwrap();
        std::fs::write(tool.join("program"), "one").unwrap();
        let first = named_in(&state, &tool);
        assert!(first.is_new && first.volume.starts_with("palisade-tools-me-"), "{first:?}");
        let again = named_in(&state, &tool);
        assert_eq!((again.is_new, &again.volume), (false, &first.volume));
        let wanted = |endpoint: &str| -> Vec<String> {
            let current = memories(&state.join(DIRECTORY));
            let current = current.into_iter().filter(|text| is_current(text, endpoint));
            current.map(|text| memory::read(&text).unwrap().1.to_owned()).collect()
        };
        assert_eq!(wanted(ENGINE), std::slice::from_ref(&first.volume));
        assert_eq!(wanted("tcp://other:1"), Vec::<String>::new());
        std::fs::write(tool.join("program"), "three").unwrap();
        assert_eq!(wanted(ENGINE), Vec::<String>::new());
        let changed = named_in(&state, &tool);
        assert!(changed.is_new && changed.volume != first.volume, "{changed:?}");
        assert_eq!(wanted(ENGINE), [changed.volume]);
    }

    #[test]
    fn one_process_fills_at_a_time() {
        let scene = tempfile::tempdir().unwrap();
        let file = HostPath::new(scene.path().join("lock")).unwrap();
        let held = lock(&file, FlockOperation::LockExclusive).unwrap();
        assert!(lock(&file, FlockOperation::NonBlockingLockExclusive).is_err());
        drop(held);
        lock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    }
}
