//! Which host uids the sandboxes of an installation get: a block that no other installation on this machine has.
//!
//! Blocks are claimed in a directory of the machine's, a file for each, which names the state directory it belongs to. A
//! claim counts as long as that state directory is there and is still the same installation. Where claims cannot be
//! written, the block follows from the installation's id alone, which rarely is another's. That is also how ordinary users
//! get theirs, for sandboxes on an engine of root's.

use palisade_core::HostPath;
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Error, Result, Write};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// In the state directory: the block that was claimed.
const OWN: &str = "uids";
/// More sandboxes than an installation has at once.
pub(crate) const SIZE: u32 = 4096;

/// Who claims, and among which uids.
#[derive(Debug)]
pub(crate) struct Claimant<'a> {
    pub(crate) state: &'a HostPath,
    pub(crate) instance: &'a str,
    /// All blocks together; their number is what it holds of [`SIZE`].
    pub(crate) uids: Range<u32>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Claim {
    instance: String,
    state: std::path::PathBuf,
}

impl Claimant<'_> {
    /// The block of this installation, claimed when it has none yet.
    pub(crate) fn block(&self, registry: &Path) -> Range<u32> {
        match self.claim(registry) {
            Ok(first) => first..first.saturating_add(SIZE),
            Err(error) => {
                tracing::debug!(%error, "host uids are not claimed, and follow from the installation's id");
                self.unclaimed_block()
            }
        }
    }

    /// The block that follows from the id alone.
    pub(crate) fn unclaimed_block(&self) -> Range<u32> {
        let first = self.candidates().next().unwrap_or(self.uids.start);
        first..first.saturating_add(SIZE)
    }

    /// The block that this installation has claimed before.
    pub(crate) fn claimed_block(&self, registry: &Path) -> Option<Range<u32>> {
        self.recorded(registry).map(|first| first..first.saturating_add(SIZE))
    }

    fn claim(&self, registry: &Path) -> Result<u32> {
        if let Some(first) = self.recorded(registry) {
            return Ok(first);
        }
        DirBuilder::new().recursive(true).mode(0o755).create(registry)?;
        // Given back by the kernel, also by a process that dies.
        let lock = File::open(registry)?;
        lock.lock()?;
        if let Some(first) = self.recorded(registry) {
            return Ok(first);
        }
        remove_abandoned(registry)?;
        let free = self.candidates().find(|first| !registry.join(first.to_string()).exists());
        let first = free.ok_or_else(|| Error::other("every block of host uids is claimed"))?;
        let claim = Claim { instance: self.instance.to_owned(), state: self.state.as_path().to_owned() };
        let text = serde_json::to_vec(&claim).map_err(Error::other)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(registry.join(first.to_string()))?.write_all(&text)?;
        crate::whole_file::write(self.state, OWN, first.to_string().as_bytes())?;
        Ok(first)
    }

    /// The block that was claimed before, as long as the claim stands. One of a state directory that was moved is renewed.
    fn recorded(&self, registry: &Path) -> Option<u32> {
        let first = std::fs::read_to_string(self.state.join(OWN)).ok()?.trim().parse().ok()?;
        let claim = Claim::read(&registry.join(u32::to_string(&first)))?;
        let is_ours = claim.instance == self.instance && claim.state == self.state.as_path();
        (is_ours && self.uids.contains(&first)).then_some(first)
    }

    /// The first uids of all blocks, beginning at one that follows from the id.
    fn candidates(&self) -> impl Iterator<Item = u32> {
        let blocks = (self.uids.len() as u32 / SIZE).max(1);
        let mix = |sum: u32, byte: u8| sum.wrapping_mul(31).wrapping_add(byte.into());
        let begin = self.instance.bytes().fold(0, mix) % blocks;
        let start = self.uids.start;
        (0..blocks).map(move |step| start + (begin + step) % blocks * SIZE)
    }
}

impl Claim {
    fn read(file: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(file).ok()?).ok()
    }

    /// Whether the installation is still where it was. What cannot be looked at may well be.
    fn stands(&self) -> bool {
        match std::fs::read_to_string(self.state.join(crate::identity::FILE)) {
            Ok(id) => id.trim() == self.instance,
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        }
    }
}

/// Removes the claims of installations that are gone. A file that is not a claim stays, and so does its block.
fn remove_abandoned(registry: &Path) -> Result<()> {
    for entry in std::fs::read_dir(registry)? {
        let path = entry?.path();
        if Claim::read(&path).is_some_and(|claim| !claim.stands()) {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const UIDS: Range<u32> = 100_000..100_000 + 3 * SIZE;

    struct Scene {
        root: tempfile::TempDir,
    }

    impl Scene {
        fn installation(&self, name: &str) -> HostPath {
            let state = self.root.path().join(name);
            std::fs::create_dir(&state).unwrap();
            std::fs::write(state.join(crate::identity::FILE), name).unwrap();
            HostPath::new(state).unwrap()
        }

        fn block(&self, state: &HostPath, instance: &str) -> Range<u32> {
            Claimant { state, instance, uids: UIDS }.block(&self.root.path().join("registry"))
        }
    }

    #[test]
    fn installations_have_blocks_of_their_own_and_keep_them() {
        let scene = Scene { root: tempfile::tempdir().unwrap() };
        let names = ["one", "two", "three"];
        let states = names.map(|name| scene.installation(name));
        let blocks = || -> Vec<u32> {
            names.iter().zip(&states).map(|(name, state)| scene.block(state, name).start).collect()
        };
        let first = blocks();
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [100_000, 100_000 + SIZE, 100_000 + 2 * SIZE]);
        assert_eq!(blocks(), first);
    }

    #[test]
    fn the_block_of_an_installation_that_is_gone_is_free_again() {
        let scene = Scene { root: tempfile::tempdir().unwrap() };
        for name in ["one", "two", "three", "four", "five"] {
            let state = scene.installation(name);
            let block = scene.block(&state, name);
            let claimed = scene.root.path().join("registry").join(block.start.to_string());
            assert_eq!(Claim::read(&claimed).unwrap().instance, name);
            std::fs::remove_dir_all(&state).unwrap();
        }
        assert_eq!(std::fs::read_dir(scene.root.path().join("registry")).unwrap().count(), 1);
    }

    #[test]
    fn without_a_place_for_claims_the_block_follows_from_the_id() {
        let scene = Scene { root: tempfile::tempdir().unwrap() };
        let state = scene.installation("one");
        let claimant = Claimant { state: &state, instance: "one", uids: UIDS };
        let nowhere = Path::new("/proc/no-such-place");
        assert_eq!(claimant.block(nowhere), claimant.block(nowhere));
        assert_eq!(
            (claimant.claimed_block(nowhere), claimant.block(nowhere)),
            (None, claimant.unclaimed_block())
        );
        assert_eq!(claimant.candidates().count(), 3);
    }
}
