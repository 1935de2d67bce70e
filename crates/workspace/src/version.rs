//! Which git the host has. `agent start` and `agent sync` merge trees without a working tree (`git merge-tree
//! --write-tree`), which git learned in 2.38; an older one would fail half-way, so it is told before anything is done.

use crate::git::{Git, GitError};
use palisade_core::printable;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// As git orders its releases. What follows the second number changes nothing that is used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GitVersion {
    major: u32,
    minor: u32,
}

impl GitVersion {
    /// The first that has all that is used here.
    pub const OLDEST: GitVersion = GitVersion { major: 2, minor: 38 };

    /// Reads `git version 2.39.5 (Apple Git-154)`.
    fn parse(answer: &str) -> Option<Self> {
        let mut numbers = answer.strip_prefix("git version ")?.split(|c: char| !c.is_ascii_digit());
        let mut next = || numbers.next()?.parse().ok();
        Some(Self { major: next()?, minor: next()? })
    }
}

impl fmt::Display for GitVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Git {
    /// A setting of the user's or of the whole machine's; nothing when there is none.
    pub async fn user_setting(&self, name: &str) -> Result<Option<String>, GitError> {
        // In the root directory, where no repository has a say.
        let answer = self.anywhere()?.git(["config", "--get", name]).text().await;
        match answer {
            Ok(value) => Ok(Some(value.trim().to_owned())),
            Err(GitError::Failed { status, .. }) if status.code() == Some(1) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The version of the program, when it is new enough.
    pub async fn require(&self) -> Result<GitVersion, GitError> {
        let answer = self.anywhere()?.git(["version"]).text().await?;
        match GitVersion::parse(&answer) {
            Some(found) if found < GitVersion::OLDEST => Err(GitError::Old { found }),
            Some(found) => Ok(found),
            None => Err(GitError::Answer { what: "version".into(), answer: printable(&answer) }),
        }
    }

    /// As [`Git::require`], remembered in a repository's git directory for as long as the program is the same file.
    pub(crate) async fn require_once(&self, common: &Path) -> Result<(), GitError> {
        let identity = file_identity(self.program());
        let note = common.join("palisade/git");
        let known = std::fs::read_to_string(&note).ok();
        if identity.is_some() && known == identity {
            return Ok(());
        }
        self.require().await?;
        if let (Some(identity), Some(directory)) = (identity, note.parent()) {
            // Otherwise it is asked again the next time.
            let _ = std::fs::create_dir_all(directory).and_then(|()| std::fs::write(&note, identity));
        }
        Ok(())
    }
}

/// What changes when another file takes the place of a program. `None` where it is looked for by its name.
fn file_identity(program: &Path) -> Option<String> {
    let found = std::fs::metadata(program.is_absolute().then_some(program)?).ok()?;
    let (device, inode, size) = (found.dev(), found.ino(), found.size());
    let times = (found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec());
    Some(format!("{} {device} {inode} {size} {times:?}\n", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn a_version_is_asked_for_again_when_the_program_is_another_file() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("git");
        let count =
            || std::fs::read_to_string(directory.path().join("asked")).map_or(0, |text| text.lines().count());
        let install = |version: &str| {
            let script = format!(
                "#!/bin/sh\necho x >> {}/asked\necho git version {version}\n",
                directory.path().display()
            );
            let new = directory.path().join("new");
            std::fs::write(&new, script).unwrap();
            std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).unwrap();
            std::fs::rename(new, &program).unwrap();
        };
        install("2.40.0");
        let git = Git::new(&program, []);
        for _ in 0..3 {
            git.require_once(directory.path()).await.unwrap();
        }
        assert_eq!(count(), 1);
        install("2.30.0");
        for _ in 0..2 {
            let old = git.require_once(directory.path()).await;
            assert!(matches!(old, Err(GitError::Old { .. })), "{old:?}");
        }
        assert_eq!(count(), 3, "only a version that is new enough is remembered");
    }

    #[test]
    fn versions_are_read_in_the_forms_that_vendors_give_them() {
        for (answer, version) in [
            ("git version 2.38.0", Some((2, 38))),
            ("git version 2.39.5 (Apple Git-154)", Some((2, 39))),
            ("git version 2.47.0.windows.1", Some((2, 47))),
            ("git version 3.0", Some((3, 0))),
            ("git version 2.40-rc1", Some((2, 40))),
            ("git version x.1", None),
            ("hub version 2.14", None),
            ("", None),
        ] {
            let expected = version.map(|(major, minor)| GitVersion { major, minor });
            assert_eq!(GitVersion::parse(answer), expected, "{answer}");
        }
    }

    #[test]
    fn releases_are_ordered_by_number_and_not_by_letter() {
        let version = |major, minor| GitVersion { major, minor };
        assert!(version(2, 9) < GitVersion::OLDEST && version(1, 99) < GitVersion::OLDEST);
        assert!(version(2, 38) >= GitVersion::OLDEST && version(3, 0) > GitVersion::OLDEST);
    }
}
