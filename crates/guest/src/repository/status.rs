//! What a working tree differs in from its index and its commit, as `git status` reports it.

use super::git::{Git, GitFailure};
use super::records::is_id;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The options of `git status` that [`Status::parse`] reads the answer to.
const STATUS: [&str; 7] = [
    "status",
    "--porcelain=v2",
    "--branch",
    "-z",
    "--untracked-files=all",
    "--ignore-submodules=all",
    "--no-renames",
];

/// One version of a path in an unmerged index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stage {
    pub(crate) mode: String,
    pub(crate) id: String,
}

/// A path with several versions in the index: the common ancestor's, ours and theirs, as far as they exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unmerged {
    pub(crate) path: PathBuf,
    pub(crate) stages: [Option<Stage>; 3],
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Status {
    /// The commit, unless there is none yet.
    pub(crate) head: Option<String>,
    /// The branch's short name, unless HEAD is detached.
    pub(crate) branch: Option<String>,
    /// Whether the index differs from the commit.
    pub(crate) staged: bool,
    /// Tracked paths whose files differ from the index.
    pub(crate) modified: Vec<PathBuf>,
    pub(crate) unmerged: Vec<Unmerged>,
    /// Files that git neither tracks nor ignores.
    pub(crate) untracked: Vec<PathBuf>,
    /// Directories among those that are repositories of their own.
    pub(crate) nested: Vec<PathBuf>,
    /// Whether git could not look into some directory.
    pub(crate) has_unreadable: bool,
    /// The answer itself.
    pub(crate) raw: Vec<u8>,
}

impl Status {
    pub(crate) fn read(git: &Git) -> Result<Self, GitFailure> {
        let answer = git.run(&STATUS)?;
        let mut status = Self::parse(&answer.output);
        status.has_unreadable = answer.warnings.contains("could not open directory");
        status.raw = answer.output;
        Ok(status)
    }

    pub(crate) fn is_clean(&self) -> bool {
        !self.staged && self.modified.is_empty() && self.unmerged.is_empty() && self.untracked.is_empty()
    }

    fn parse(bytes: &[u8]) -> Self {
        let mut status = Self::default();
        for entry in bytes.split(|byte| *byte == 0) {
            match entry.first() {
                Some(b'#') => status.header(&String::from_utf8_lossy(entry)),
                Some(b'1') => status.changed(entry),
                Some(b'u') => status.unmerged.extend(unmerged(entry)),
                Some(b'?') => match entry.get(2..) {
                    Some(name) if name.ends_with(b"/") => status.nested.push(path(&name[..name.len() - 1])),
                    Some(name) => status.untracked.push(path(name)),
                    None => {}
                },
                _ => {}
            }
        }
        status
    }

    fn header(&mut self, line: &str) {
        if let Some(id) = line.strip_prefix("# branch.oid ") {
            self.head = is_id(id).then(|| id.to_owned());
        } else if let Some(name) = line.strip_prefix("# branch.head ") {
            self.branch = (name != "(detached)").then(|| name.to_owned());
        }
    }

    /// `1 XY sub mH mI mW hH hI path`.
    fn changed(&mut self, entry: &[u8]) {
        let mut fields = entry.splitn(9, |byte| *byte == b' ').skip(1);
        let Some([index, file]) = fields.next().and_then(|letters| letters.first_chunk::<2>()) else {
            return;
        };
        let Some(name) = fields.last() else { return };
        // A file that was only announced to the index has no content there.
        self.staged |= *index != b'.' || *file == b'A';
        if *file != b'.' {
            self.modified.push(path(name));
        }
    }
}

/// `u XY sub m1 m2 m3 mW h1 h2 h3 path`.
fn unmerged(entry: &[u8]) -> Option<Unmerged> {
    let fields: Vec<&[u8]> = entry.splitn(11, |byte| *byte == b' ').collect();
    let [_, _, _, modes @ .., name] = fields.as_slice() else { return None };
    let [m1, m2, m3, _, h1, h2, h3] = modes else { return None };
    let stage = |mode: &[u8], id: &[u8]| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (mode != b"000000").then(|| Stage { mode: text(mode), id: text(id) })
    };
    Some(Unmerged { path: path(name), stages: [stage(m1, h1), stage(m2, h2), stage(m3, h3)] })
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_with_odd_names() {
        let id = "a".repeat(40);
        let text = format!(
            "# branch.oid {id}\0# branch.head main\0\
             1 .M N... 100644 100644 100644 {id} {id} a b\0\
             1 M. N... 100644 100644 100644 {id} {id} staged\0\
             u UU N... 100644 100644 000000 100644 {id} {id} 0 both ways\0\
             ? new\nline\0? nested/\0"
        );
        let stage = || Some(Stage { mode: "100644".into(), id: id.clone() });
        assert_eq!(
            Status::parse(text.as_bytes()),
            Status {
                head: Some(id.clone()),
                branch: Some("main".into()),
                staged: true,
                modified: vec!["a b".into()],
                unmerged: vec![Unmerged { path: "both ways".into(), stages: [stage(), stage(), None] }],
                untracked: vec!["new\nline".into()],
                nested: vec!["nested".into()],
                has_unreadable: false,
                raw: Vec::new(),
            }
        );
    }

    #[test]
    fn an_unborn_branch_and_a_detached_head_are_told_apart() {
        let status = |text: &str| Status::parse(text.as_bytes());
        let unborn = status("# branch.oid (initial)\0# branch.head main\0");
        assert_eq!((unborn.head, unborn.branch.as_deref()), (None, Some("main")));
        let detached = status(&format!("# branch.oid {}\0# branch.head (detached)\0", "b".repeat(40)));
        assert_eq!((detached.head.is_some(), detached.branch), (true, None));
    }
}
