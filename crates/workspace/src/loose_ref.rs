//! A ref of Palisade's own as a file of the repository, written and removed without a git process.
//!
//! Every run in a bound repository sets one ref and deletes it. Through git that is five processes, longer than the rest of
//! a start. The name holds the sandbox's id, so no other program writes this ref, and neither git's lock of the ref nor that of
//! `packed-refs` is taken: a process that is killed would leave them in the user's repository. Git may still pack all refs meanwhile.
//! Whatever is not as expected is left to git.

use crate::refs::ObjectId;
use palisade_host::new_file::create_whole;
use rustix::fs::Mode;
use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::path::Path;

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LooseRef {
    Done,
    /// Git has to do it: the ref is packed, or another process is at work.
    LeftToGit,
}

/// Git removes empty directories when it packs refs, so making one may have to be repeated.
const ATTEMPTS: usize = 3;

/// Makes a ref that does not exist. `common` is the git directory that all working trees share.
pub(crate) fn create(common: &Path, reference: &str, id: &ObjectId) -> io::Result<LooseRef> {
    let path = common.join(reference);
    let Some(directory) = path.parent() else { return Ok(LooseRef::LeftToGit) };
    for _ in 0..ATTEMPTS {
        DirBuilder::new().recursive(true).create(directory)?;
        let made = create_whole(&path, format!("{id}\n").as_bytes(), Mode::from_raw_mode(0o666));
        match made {
            Ok(()) => return Ok(LooseRef::Done),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            // It exists, or this file system has no files without a name.
            Err(_) => return Ok(LooseRef::LeftToGit),
        }
    }
    Ok(LooseRef::LeftToGit)
}

/// Removes a ref, if it is the only one in its directory, which is removed as well.
pub(crate) fn remove(common: &Path, reference: &str) -> io::Result<LooseRef> {
    let path = common.join(reference);
    let (Some(directory), Some(above)) = (path.parent(), reference.rsplit_once('/')) else {
        return Ok(LooseRef::LeftToGit);
    };
    let is_alone = std::fs::read_dir(directory).is_ok_and(|entries| {
        let mut names = entries.flatten().map(|entry| entry.path());
        names.next().as_deref() == Some(path.as_path()) && names.next().is_none()
    });
    if !is_alone {
        return Ok(LooseRef::LeftToGit);
    }
    std::fs::remove_file(&path)?;
    // Git that packs refs holds this lock from before it reads them until the new file is in place. So it has not seen this
    // ref, or is still at it, or has packed it by now.
    if common.join("packed-refs.lock").symlink_metadata().is_ok() {
        return Ok(LooseRef::LeftToGit);
    }
    let packed = match std::fs::read(common.join("packed-refs")) {
        Ok(packed) => packed,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let prefix = format!(" {}/", above.0);
    if packed.split(|byte| *byte == b'\n').any(|line| contains(line, prefix.as_bytes())) {
        return Ok(LooseRef::LeftToGit);
    }
    // Others may be in it.
    let _ = std::fs::remove_dir(directory);
    Ok(LooseRef::Done)
}

/// Whether a line of `packed-refs`, an id and a name, has a name with this beginning.
fn contains(line: &[u8], prefix: &[u8]) -> bool {
    let name = line.iter().position(|byte| *byte == b' ');
    name.is_some_and(|at| line[at..].starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::process::Command;

    const NAME: &str = "refs/palisade/base/id/start";

    struct Scene {
        directory: tempfile::TempDir,
        id: ObjectId,
    }

    impl Scene {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let mut scene = Self { directory, id: ObjectId::parse(&"0".repeat(40)).unwrap() };
            scene.git(&["init", "-q", "."]);
            let author = ["-c", "user.name=a", "-c", "user.email=a@b"];
            scene.git(&[&author[..], &["commit", "-q", "--allow-empty", "-m", "x"]].concat());
            scene.id = ObjectId::parse(scene.git(&["rev-parse", "HEAD"]).trim_end()).unwrap();
            scene
        }

        fn git(&self, words: &[&str]) -> String {
            let git = Command::new("git").current_dir(self.directory.path()).args(words).output().unwrap();
            assert!(git.status.success(), "{words:?}: {git:?}");
            String::from_utf8(git.stdout).unwrap()
        }

        fn common(&self) -> PathBuf {
            self.directory.path().join(".git")
        }

        fn refs(&self) -> String {
            self.git(&["for-each-ref", "--format=%(refname)", "refs/palisade"])
        }
    }

    #[test]
    fn git_sees_the_ref_and_its_end() {
        let scene = Scene::new();
        assert_eq!(create(&scene.common(), NAME, &scene.id).unwrap(), LooseRef::Done);
        assert_eq!(scene.refs(), format!("{NAME}\n"));
        assert_eq!(scene.git(&["rev-parse", NAME]).trim_end(), scene.id.as_str());
        assert_eq!(create(&scene.common(), NAME, &scene.id).unwrap(), LooseRef::LeftToGit, "it exists");
        assert_eq!(remove(&scene.common(), NAME).unwrap(), LooseRef::Done);
        assert_eq!(scene.refs(), "");
        assert!(!scene.common().join("packed-refs.lock").exists());
        scene.git(&["fsck", "--strict"]);
    }

    #[test]
    fn a_lock_of_the_ref_that_was_left_is_not_in_the_way() {
        let scene = Scene::new();
        let lock = scene.common().join(format!("{NAME}.lock"));
        std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
        std::fs::write(&lock, "").unwrap();
        assert_eq!(create(&scene.common(), NAME, &scene.id).unwrap(), LooseRef::Done);
        assert_eq!(scene.git(&["rev-parse", NAME]).trim_end(), scene.id.as_str());
    }

    #[test]
    fn what_is_packed_or_locked_or_not_alone_is_left_to_git() {
        let scene = Scene::new();
        create(&scene.common(), NAME, &scene.id).unwrap();
        let lock = scene.common().join("packed-refs.lock");
        std::fs::write(&lock, "").unwrap();
        assert_eq!(remove(&scene.common(), NAME).unwrap(), LooseRef::LeftToGit, "git is packing");
        assert!(lock.exists(), "the lock is git's");
        std::fs::remove_file(lock).unwrap();
        create(&scene.common(), NAME, &scene.id).unwrap();
        scene.git(&["pack-refs", "--all", "--no-prune"]);
        assert_eq!(remove(&scene.common(), NAME).unwrap(), LooseRef::LeftToGit, "it is packed as well");
        scene.git(&["pack-refs", "--all"]);
        assert_eq!(remove(&scene.common(), NAME).unwrap(), LooseRef::LeftToGit, "it is packed");
        assert_eq!(scene.refs(), format!("{NAME}\n"));
        scene.git(&["update-ref", "-d", NAME]);
        create(&scene.common(), NAME, &scene.id).unwrap();
        create(&scene.common(), "refs/palisade/base/id/waiting", &scene.id).unwrap();
        assert_eq!(remove(&scene.common(), NAME).unwrap(), LooseRef::LeftToGit, "there is another");
    }
}
