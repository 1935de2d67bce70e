//! What a working tree differs in from its commit.

use crate::git::{GitError, Repository};
use crate::refs::ObjectId;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A path that differs from the commit, with git's two letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub letters: String,
    pub path: PathBuf,
}

impl Change {
    pub fn untracked(&self) -> bool {
        self.letters == "??"
    }
}

/// The commit, and what differs from it; ignored files are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) head: ObjectId,
    pub(crate) changes: Vec<Change>,
}

impl Status {
    pub(crate) async fn look(repository: &Repository) -> Result<Self, GitError> {
        let status = repository
            .git([
                "status",
                "--porcelain=v2",
                "--branch",
                "-z",
                "--untracked-files=all",
                "--ignore-submodules=all",
                "--no-renames",
                "--no-ahead-behind",
            ])
            .env("GIT_OPTIONAL_LOCKS", "0");
        let bytes = status.bytes().await?;
        Self::parse(&bytes)
            .ok_or_else(|| GitError::Answer { what: "status".into(), answer: "an unknown format".into() })
    }

    /// Entries ended by NULs: headers `# key value`, then `1 letters … path`, `u letters … path` and `? path`.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut head = None;
        let mut changes = Vec::new();
        for entry in bytes.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
            let fields = match entry.first()? {
                b'#' => {
                    let text = String::from_utf8_lossy(entry);
                    head = head.or_else(|| text.strip_prefix("# branch.oid ").and_then(ObjectId::parse));
                    continue;
                }
                b'1' => 8,
                b'u' => 10,
                b'?' => 1,
                _ => return None,
            };
            let mut fields = entry.splitn(fields + 1, |byte| *byte == b' ');
            let kind = fields.next()?;
            let letters = if kind == b"?" { b"??" } else { fields.next()? };
            changes.push(Change {
                letters: String::from_utf8_lossy(letters).replace('.', " "),
                path: PathBuf::from(OsString::from_vec(fields.last()?.to_vec())),
            });
        }
        Some(Self { head: head?, changes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_with_odd_names() {
        let head = ObjectId::parse(&"a".repeat(40)).unwrap();
        let change = |letters: &str, path: &[u8]| Change {
            letters: letters.into(),
            path: PathBuf::from(OsString::from_vec(path.to_vec())),
        };
        let headers = format!("# branch.oid {head}\0# branch.head main\0");
        let entries: [&[u8]; 4] = [
            b"1 .M N... 100644 100644 100644 1 2 a b",
            b"u UU N... 1 2 3 4 5 6 7 both ways",
            b"? new\nline",
            b"1 A. N... 000000 100644 100644 0 1 \xff",
        ];
        let status = Status::parse(&[headers.as_bytes(), &entries.join(&0)].concat()).unwrap();
        assert_eq!(status.head, head);
        assert_eq!(
            status.changes,
            [
                change(" M", b"a b"),
                change("UU", b"both ways"),
                change("??", b"new\nline"),
                change("A ", b"\xff")
            ]
        );
        assert_eq!((Status::parse(b""), Status::parse(b"9 what\0")), (None, None));
    }
}
