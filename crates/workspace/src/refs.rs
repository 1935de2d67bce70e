//! Names of branches, objects and refs. They come from people and from sandboxes alike, and reach git's command line
//! and its refs only through these types.

use palisade_core::{SandboxId, SandboxName, printable};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A branch by its short name. At least as strict as git: also without blanks of any kind, and not too long for a
/// file name beside a suffix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BranchName(String);

const LONGEST: usize = 200;
/// The longest full name of a ref that is taken.
const LONGEST_REF: usize = 1000;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is not a name for a branch: {why}", printable(.name))]
pub struct InvalidBranch {
    name: String,
    why: &'static str,
}

impl BranchName {
    pub fn new(name: &str) -> Result<Self, InvalidBranch> {
        let too_long = (name.len() > LONGEST).then_some("it is too long");
        match too_long.or_else(|| objection(name)) {
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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(String);

impl ObjectId {
    pub fn parse(text: &str) -> Option<Self> {
        let hexadecimal = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        (matches!(text.len(), 40 | 64) && text.bytes().all(hexadecimal)).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id as git stores it in trees.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let digit = |byte: u8| if byte.is_ascii_digit() { byte - b'0' } else { byte - b'a' + 10 };
        self.0.as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
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

/// Whether git takes this as the full name of a ref; stricter where git is lenient with strange characters.
pub(crate) fn is_ref_name(name: &str) -> bool {
    name.strip_prefix("refs/").is_some_and(|rest| rest.len() <= LONGEST_REF && objection(rest).is_none())
}

/// Where the host's repository keeps what concerns one sandbox. All but the branches that the user sees go by the
/// sandbox's id, so that another sandbox of the same name never touches them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxRefs {
    id: SandboxId,
    name: SandboxName,
}

impl SandboxRefs {
    pub fn new(id: SandboxId, name: SandboxName) -> Self {
        Self { id, name }
    }

    pub fn id(&self) -> &SandboxId {
        &self.id
    }

    pub fn name(&self) -> &SandboxName {
        &self.name
    }

    /// The directory of all archives.
    pub const ARCHIVES: &'static str = "refs/palisade/archive/";

    pub fn archives(&self) -> String {
        format!("{}{}/", Self::ARCHIVES, self.id)
    }

    pub fn archive(&self, number: u64) -> String {
        format!("{}{number}", self.archives())
    }

    /// The directory of what both sides have in common.
    pub fn base(&self) -> String {
        format!("refs/palisade/base/{}/", self.id)
    }

    /// The files that both sides had in common last, as a tree, for one working tree of the sandbox.
    pub(crate) fn base_files(&self, tree: &str) -> String {
        format!("{}files/{}", self.base(), component(tree))
    }

    /// Where the last exchange left the host's branch.
    pub(crate) fn base_host(&self, branch: &BranchName) -> String {
        format!("{}host/{}", self.base(), component(branch.as_str()))
    }

    /// The commit of the sandbox's branch that was delivered then.
    pub(crate) fn base_sandbox(&self, branch: &BranchName) -> String {
        format!("{}sandbox/{}", self.base(), component(branch.as_str()))
    }

    /// The host's commit that was sent in last.
    pub(crate) fn base_sent(&self, branch: &BranchName) -> String {
        format!("{}sent/{}", self.base(), component(branch.as_str()))
    }

    /// What a sandbox that shares a working tree started from.
    pub(crate) fn start(&self) -> String {
        format!("{}start", self.base())
    }

    /// Where the host's commits are that the sandbox was sent or that it delivered to.
    pub(crate) fn sent_directories(&self) -> [String; 2] {
        ["host", "sent"].map(|kind| format!("{}{kind}/", self.base()))
    }

    /// What was put on the branch that shows waiting commits.
    pub(crate) fn base_waiting(&self, branch: &BranchName) -> String {
        format!("{}waiting/{}", self.base(), component(branch.as_str()))
    }

    /// The commit of the sandbox's branch that those commits stand for.
    pub(crate) fn base_waiting_for(&self, branch: &BranchName) -> String {
        format!("{}waiting-for/{}", self.base(), component(branch.as_str()))
    }

    /// The branch that shows commits which wait for the user; a later `attempt` when the earlier names are taken.
    pub fn waiting(&self, branch: &BranchName, attempt: u32) -> String {
        match attempt {
            0 => format!("palisade/{}/{branch}", self.name),
            // Without directories: a branch may be in the way of them.
            _ => format!("palisade/{}/{}-{}", self.name, branch.as_str().replace('/', "-"), attempt + 1),
        }
    }

    /// Whether a name below [`SandboxRefs::all_waiting`] is one that [`SandboxRefs::waiting`] gives.
    pub(crate) fn is_waiting_of(&self, branch: &BranchName, name: &str) -> bool {
        let attempt = name.strip_prefix(&branch.as_str().replace('/', "-"));
        let attempt = attempt.and_then(|rest| rest.strip_prefix('-'));
        name == branch.as_str() || attempt.is_some_and(|number| number.parse::<u32>().is_ok())
    }

    /// The directory of the branches that show waiting commits.
    pub fn all_waiting(&self) -> String {
        format!("refs/heads/palisade/{}/", self.name)
    }

    /// What versions before 0.2 had written into the host's working tree, by the sandbox's name.
    pub(crate) fn applied_before(&self) -> String {
        format!("refs/palisade/{}/applied", self.name)
    }

    /// The one branch that versions before had for all of them.
    pub fn waiting_before(&self) -> String {
        format!("refs/heads/palisade/{}", self.name)
    }
}

/// A name as one component of a ref: `a` and `a/b` can then stand beside each other, as files and directories cannot.
/// It may be a path, which holds what git allows in no ref.
pub(crate) fn component(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for (at, c) in name.char_indices() {
        let is_misread = match c {
            '.' => at == 0 || matches!(&name[at + 1..], "" | "lock") || name[at + 1..].starts_with('.'),
            _ => c.is_control() || c.is_whitespace() || "%/~^:?*[\\{".contains(c),
        };
        if is_misread {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().for_each(|byte| text.push_str(&format!("%{byte:02x}")));
        } else {
            text.push(c);
        }
    }
    if text.len() <= LONGEST {
        return text;
    }
    // Too long for the name of a file beside `.lock`.
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let end = text.floor_char_boundary(LONGEST - 20);
    format!("{}%{:016x}", &text[..end], hasher.finish())
}

/// The name that a [`component`] was made from. One that was too long comes back as it stands.
pub(crate) fn decode_component(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let code = piece.get(..2).and_then(|code| u8::from_str_radix(code, 16).ok());
        let Some(byte) = code.filter(|_| piece.len() < 16 || text.len() <= LONGEST - 20) else {
            return text.to_owned();
        };
        bytes.push(byte);
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
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
    fn memory_of_branches_fits_beside_each_other() {
        let refs = SandboxRefs::new(SandboxId::from_random([1; 15]), SandboxName::new("box").unwrap());
        let of = |name: &str| refs.base_host(&BranchName::new(name).unwrap());
        let long = "x/".repeat(99).replacen('x', "yy", 1);
        let names = ["a", "a/b", "a%2fb", long.trim_end_matches('/')];
        let found: std::collections::BTreeSet<String> = names.iter().map(|name| of(name)).collect();
        assert_eq!(found.len(), names.len());
        for name in &found {
            assert!(is_ref_name(name), "{name}");
            assert!(name.split('/').all(|part| part.len() < 250) && name.split('/').count() == 6, "{name}");
        }
    }

    proptest! {
        /// Paths of working trees hold anything.
        #[test]
        fn every_path_is_a_component_of_a_ref(path in "[ -~\u{e9}\u{2028}]{1,12}(\\.|\\.\\.|\\.lock|@\\{)?") {
            let name = component(&path);
            prop_assert!(is_ref_name(&format!("refs/palisade/{name}")), "{name:?}");
            prop_assert!(!name.contains('/'), "{name:?}");
            prop_assert_eq!(decode_component(&name), path);
        }
    }

    #[test]
    fn full_names_of_refs_are_checked() {
        for name in ["refs/heads/main", "refs/stash", "refs/notes/commits", "refs/pull/1/head"] {
            assert!(is_ref_name(name), "{name}");
        }
        for name in
            ["HEAD", "main", "refs/heads/a..b", "refs/heads/a b", "refs/", "refs/heads/x.lock", "refs/-x"]
        {
            assert!(!is_ref_name(name), "{name}");
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
