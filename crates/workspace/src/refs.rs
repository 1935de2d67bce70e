//! Names of branches, objects and refs. They come from people and from sandboxes alike, and reach git's command line
//! and its refs only through these types.

use palisade_core::{SandboxName, printable};
use std::fmt;

/// A branch by its short name. At least as strict as git: also without blanks of any kind, and not too long for a
/// file name beside a suffix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BranchName(String);

const LONGEST: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is not a name for a branch: {why}", printable(.name))]
pub struct InvalidBranch {
    name: String,
    why: &'static str,
}

impl BranchName {
    pub fn new(name: &str) -> Result<Self, InvalidBranch> {
        match objection(name) {
            None => Ok(Self(name.to_owned())),
            Some(why) => Err(InvalidBranch { name: name.chars().take(LONGEST).collect(), why }),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn full(&self) -> String {
        format!("refs/heads/{}", self.0)
    }

    /// Whether it is where we show work that waits, which is not for a sandbox to name.
    pub fn is_ours(&self) -> bool {
        self.0 == "palisade" || self.0.starts_with("palisade/")
    }
}

impl fmt::Display for BranchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn objection(name: &str) -> Option<&'static str> {
    let bad = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\\u{2028}\u{2029}".contains(c);
    let component = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    if name.is_empty() {
        Some("it is empty")
    } else if name.len() > LONGEST {
        Some("it is too long")
    } else if name.starts_with('-') {
        Some("it starts with '-'")
    } else if name == "@"
        || name == "HEAD"
        || name.contains("@{")
        || name.contains("..")
        || name.ends_with('.')
    {
        Some("git reads it as something else")
    } else if name.chars().any(bad) {
        Some("it holds a blank, a control character or one of ~^:?*[\\")
    } else if name.split('/').any(component) {
        Some("a part of it is empty, starts with '.' or ends with '.lock'")
    } else {
        None
    }
}

/// The id of an object, in full.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObjectId(String);

impl ObjectId {
    pub fn parse(text: &str) -> Option<Self> {
        let hexadecimal = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        (matches!(text.len(), 40 | 64) && text.bytes().all(hexadecimal)).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As much of it as people read.
    pub fn short(&self) -> &str {
        &self.0[..10]
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a sandbox's work lives in the host's repository: `refs/palisade/<name>/…`, and the branch `palisade/<name>`
/// for what could not be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxRefs(SandboxName);

impl SandboxRefs {
    pub fn new(name: SandboxName) -> Self {
        Self(name)
    }

    pub fn all(&self) -> String {
        format!("refs/palisade/{}/", self.0)
    }

    /// The commits of one of its branches.
    pub fn commits(&self, branch: &BranchName) -> String {
        format!("refs/palisade/{}/heads/{branch}", self.0)
    }

    /// Its uncommitted work on a branch, as a commit on top of it.
    pub fn work(&self, branch: &BranchName) -> String {
        format!("refs/palisade/{}/work/{branch}", self.0)
    }

    /// The commits and the work of a branch that its user was told of: what only came by itself is not among them.
    pub fn seen_commits(&self, branch: &BranchName) -> String {
        format!("refs/palisade/{}/seen/heads/{branch}", self.0)
    }

    pub fn seen_work(&self, branch: &BranchName) -> String {
        format!("refs/palisade/{}/seen/work/{branch}", self.0)
    }

    /// What was last laid into the host's working tree.
    pub fn applied(&self) -> String {
        format!("refs/palisade/{}/applied", self.0)
    }

    /// What was being laid into it when somebody may have ended us, one ref for each that was.
    pub fn applying(&self) -> String {
        format!("refs/palisade/{}/applying", self.0)
    }

    /// Commits that stood where a branch of another name has to go: `feature` became `feature/one`.
    pub(crate) fn gone(&self, id: &ObjectId) -> String {
        format!("refs/palisade/{}/gone/{id}", self.0)
    }

    /// The branch that shows commits which wait for the user.
    pub fn waiting(&self) -> String {
        format!("refs/heads/palisade/{}", self.0)
    }
}

/// Refs inside the sandbox.
pub(crate) mod inside {
    use super::BranchName;

    /// The host's side of a branch, as it was pushed.
    pub(crate) fn host(branch: &BranchName) -> String {
        format!("refs/palisade/host/{branch}")
    }

    pub(crate) fn work(branch: &BranchName) -> String {
        format!("refs/palisade/work/{branch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ordinary_names_are_taken() {
        for name in ["main", "feature/M1", "a-b_c.d", "grün", "impl/x-1"] {
            assert_eq!(BranchName::new(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn names_that_would_mean_something_else_are_refused() {
        for name in [
            "",
            "-x",
            "--upload-pack=x",
            "a..b",
            "a/../b",
            "../a",
            "/a",
            "a/",
            "a//b",
            ".a",
            "a/.b",
            "a.lock",
            "a.lock/b",
            "a.",
            "a b",
            "a\tb",
            "a\nb",
            "a\u{7f}b",
            "a~1",
            "a^",
            "a:b",
            "a?b",
            "a*",
            "a[b",
            "a\\b",
            "@",
            "HEAD",
            "a@{1}",
            "a\u{2028}b",
        ] {
            assert!(BranchName::new(name).is_err(), "{name:?}");
        }
        assert!(BranchName::new(&"x".repeat(LONGEST + 1)).is_err());
    }

    proptest! {
        /// Git itself is the judge: what is taken here is a branch for it too.
        #[test]
        fn git_takes_every_name_that_we_take(name in "[ -~\u{e9}]{1,12}") {
            if BranchName::new(&name).is_ok() {
                let status = std::process::Command::new("git")
                    .args(["check-ref-format", "--branch", &name])
                    .stdout(std::process::Stdio::null())
                    .stderr(std::process::Stdio::null())
                    .status()
                    .unwrap();
                prop_assert!(status.success(), "{name:?}");
            }
        }
    }

    #[test]
    fn an_object_id_is_whole_and_in_lower_case() {
        let whole = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(ObjectId::parse(whole).unwrap().short(), "0123456789");
        for bad in ["", "0123", &whole.to_uppercase(), &whole.replace('0', "-")] {
            assert_eq!(ObjectId::parse(bad), None);
        }
    }
}
