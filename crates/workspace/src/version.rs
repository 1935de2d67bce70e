//! Which git the host has. `agent start` and `agent sync` merge trees without a working tree (`git merge-tree
//! --write-tree`), which git learned in 2.38; an older one would fail half-way, so it is told before anything is done.

use crate::git::{Git, GitError};
use palisade_core::printable;
use std::fmt;

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
    /// The version of the program, when it is new enough.
    pub async fn require(&self) -> Result<GitVersion, GitError> {
        let answer = self.anywhere()?.git(["version"]).text().await?;
        match GitVersion::parse(&answer) {
            Some(found) if found < GitVersion::OLDEST => Err(GitError::Old { found }),
            Some(found) => Ok(found),
            None => Err(GitError::Answer { what: "version".into(), answer: printable(&answer) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
