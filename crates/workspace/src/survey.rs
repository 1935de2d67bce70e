//! What a sandbox says that its repositories hold: commits by every name there is, and files that are not committed.

use crate::refs::{BranchName, ObjectId, is_ref_name};
use crate::sandbox::SandboxError;
use palisade_core::{GuestPath, ProjectPath, printable};
use std::collections::BTreeMap;

/// Refs, tips and working trees that one repository may have.
const MAX_ENTRIES: usize = 200_000;
/// What is named for people only.
const MAX_LEFT_OUT: usize = 10_000;
/// As many as the guest looks at. Each gets a repository of its own on the host.
const MAX_NESTED: usize = 64;
/// Working trees of one repository that are looked at one by one; of the rest, only the commits matter.
const MAX_TREES: usize = 200;
/// Bytes of a text for people.
const MAX_TEXT: usize = 1000;

/// What all repositories of a sandbox hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Survey {
    pub main: RepositorySurvey,
    /// Repositories in the working trees: submodules, and others.
    pub nested: Vec<NestedSurvey>,
    /// Files and repositories that could not be recorded.
    pub left_out: Vec<LeftOut>,
}

/// A repository in a working tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NestedSurvey {
    pub path: ProjectPath,
    /// Whether it holds something that its remotes do not have.
    pub has_own_work: bool,
    pub repository: RepositorySurvey,
}

/// What one repository holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RepositorySurvey {
    /// All refs, by their full names.
    pub refs: BTreeMap<String, ObjectId>,
    /// The entries of the stash, the newest first.
    pub stashes: Vec<StashEntry>,
    /// Commits that no ref leads to, with what names them: a file of git's, or a reflog.
    pub tips: Vec<(String, ObjectId)>,
    pub trees: Vec<TreeSurvey>,
    /// Where the history ends in a shallow clone: the content of git's file, or nothing.
    pub shallow: String,
    /// What was pushed inside, where only the host can push.
    pub pushes: Vec<RecordedPush>,
    /// Files that Git LFS keeps.
    pub large: Vec<LargeFile>,
}

/// A file of Git LFS, by the SHA-256 of its content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LargeFile {
    pub oid: String,
    pub size: u64,
}

/// A push that was asked for inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedPush {
    pub remote: String,
    /// The ref at the remote, by its full name.
    pub target: String,
    /// `None` when the ref is to be deleted.
    pub commit: Option<ObjectId>,
    pub force: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StashEntry {
    pub id: ObjectId,
    pub message: String,
}

/// What one working tree holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeSurvey {
    pub path: GuestPath,
    /// `None` when HEAD is detached, or at a branch whose name is not taken.
    pub branch: Option<BranchName>,
    /// `None` when there is no commit yet.
    pub head: Option<ObjectId>,
    pub snapshot: Option<Snapshot>,
    /// Operations in progress: `merge`, `rebase` and the like.
    pub operations: Vec<String>,
}

/// What is not committed in a working tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// A commit in the shape of a stash entry.
    pub commit: ObjectId,
    /// The tree of all files, tracked and untracked.
    pub files: ObjectId,
}

/// Something that could not be recorded, by its path in the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    pub path: String,
    pub reason: String,
}

impl RepositorySurvey {
    /// The local branches, by name.
    pub fn branches(&self) -> impl Iterator<Item = (BranchName, &ObjectId)> {
        let refs = self.refs.iter();
        refs.filter_map(|(name, id)| {
            let name = name.strip_prefix("refs/heads/")?;
            Some((BranchName::new(name).ok()?, id))
        })
    }

    pub fn branch(&self, name: &BranchName) -> Option<&ObjectId> {
        self.refs.get(&name.full())
    }

    /// What the host's branch was when it was last sent in.
    pub fn sent(&self, branch: &BranchName) -> Option<&ObjectId> {
        self.refs.get(&format!("refs/remotes/host/{branch}"))
    }

    /// Refs are files: no repository has one that lies in another, and no host could make both. The commits of such a
    /// ref are kept without its name.
    fn set_apart_impossible_refs(&mut self) {
        let lies_in_another = |name: &String| {
            let mut above = name.match_indices('/').map(|(end, _)| &name[..end]);
            above.any(|directory| self.refs.contains_key(directory))
        };
        let impossible: Vec<String> =
            self.refs.keys().filter(|name| lies_in_another(name)).cloned().collect();
        for name in impossible {
            let id = self.refs.remove(&name);
            self.tips.extend(id.map(|id| (name, id)));
        }
    }

    pub fn tags(&self) -> impl Iterator<Item = (&str, &ObjectId)> {
        let refs = self.refs.iter();
        refs.filter_map(|(name, id)| Some((name.strip_prefix("refs/tags/")?, id)))
    }
}

impl Survey {
    /// The main working tree of the workspace.
    pub fn main_tree(&self) -> Option<&TreeSurvey> {
        self.main.trees.first()
    }

    /// Whether the guest's answer says that there is no repository.
    pub(crate) fn is_none(answer: &[u8]) -> bool {
        answer == b"none\0"
    }

    /// Reads the guest's answer; `None` when it makes no sense. The records are described there.
    pub fn parse(answer: &[u8], workspace: &str) -> Option<Result<Self, SandboxError>> {
        let mut words = answer.split(|byte| *byte == 0);
        // Every word is ended by a NUL, so nothing follows the last.
        if words.next_back()? != b"" {
            return None;
        }
        let mut reader = Reader { survey: Self::default(), current: Current::Main, entries: 0 };
        while let Some(kind) = words.next() {
            let mut next = || words.next();
            match kind {
                b"repository" => reader.repository(next()?, next()?)?,
                b"ref" => reader.reference(next()?, next()?)?,
                b"stash" => reader.stash(next()?, next()?)?,
                b"tip" => reader.tip(next()?, next()?)?,
                b"tree" => {
                    reader.tree([next()?, next()?, next()?, next()?, next()?, next()?])?;
                }
                b"large" => reader.large(&text(next()?), &text(next()?))?,
                b"push" => reader.push([next()?, next()?, next()?, next()?])?,
                b"shallow" => {
                    let shallow = text(next()?);
                    if let Some(repository) = reader.repository_mut() {
                        repository.shallow = shallow;
                    }
                }
                b"left-out" => reader.left_out(next()?, next()?),
                _ => return None,
            }
            if reader.entries > MAX_ENTRIES {
                let what = "refs and commits";
                return Some(Err(SandboxError::TooMany { what, most: MAX_ENTRIES }));
            }
        }
        let mut survey = reader.survey;
        survey.main.set_apart_impossible_refs();
        survey.nested.iter_mut().for_each(|nested| nested.repository.set_apart_impossible_refs());
        // The workspace itself comes first, and is a working tree.
        let is_main = survey.main_tree().is_some_and(|tree| tree.path.as_str() == workspace);
        is_main.then_some(Ok(survey))
    }
}

/// Which repository the records are about.
enum Current {
    Main,
    Nested,
    /// One whose path cannot be written down.
    Unnamed,
}

struct Reader {
    survey: Survey,
    current: Current,
    entries: usize,
}

impl Reader {
    fn repository(&mut self, path: &[u8], kind: &[u8]) -> Option<()> {
        self.entries += 1;
        if kind == b"main" {
            self.current = Current::Main;
            return Some(());
        }
        let Ok(path) = ProjectPath::new(&text(path)) else {
            self.current = Current::Unnamed;
            self.left_out(path, b"the path of this repository cannot be written down");
            return Some(());
        };
        if self.survey.nested.len() >= MAX_NESTED {
            self.current = Current::Unnamed;
            self.left_out(path.as_str().as_bytes(), b"there are too many nested repositories");
            return Some(());
        }
        let has_own_work = match kind {
            b"nested" => true,
            b"plain" => false,
            _ => return None,
        };
        self.current = Current::Nested;
        let repository = RepositorySurvey::default();
        self.survey.nested.push(NestedSurvey { path, has_own_work, repository });
        Some(())
    }

    fn repository_mut(&mut self) -> Option<&mut RepositorySurvey> {
        match self.current {
            Current::Main => Some(&mut self.survey.main),
            Current::Nested => self.survey.nested.last_mut().map(|nested| &mut nested.repository),
            Current::Unnamed => None,
        }
    }

    fn reference(&mut self, name: &[u8], object: &[u8]) -> Option<()> {
        self.entries += 1;
        let id = id(object)?;
        // What only we write inside is nothing of the sandbox's.
        if name.starts_with(b"refs/palisade/") {
            return Some(());
        }
        if let Some(repository) = self.repository_mut() {
            match std::str::from_utf8(name) {
                Ok(name) if is_ref_name(name) => drop(repository.refs.insert(name.to_owned(), id)),
                // Under a name that the host cannot have, only its commits matter.
                _ => repository.tips.push((shown(name), id)),
            }
        }
        Some(())
    }

    fn stash(&mut self, object: &[u8], message: &[u8]) -> Option<()> {
        self.entries += 1;
        let entry = StashEntry { id: id(object)?, message: shown(message) };
        if let Some(repository) = self.repository_mut() {
            repository.stashes.push(entry);
        }
        Some(())
    }

    fn tip(&mut self, place: &[u8], object: &[u8]) -> Option<()> {
        self.entries += 1;
        let tip = (shown(place), id(object)?);
        if let Some(repository) = self.repository_mut() {
            repository.tips.push(tip);
        }
        Some(())
    }

    fn tree(&mut self, words: [&[u8]; 6]) -> Option<()> {
        self.entries += 1;
        let [path, branch, head, commit, files, operations] = words;
        let head = if head.is_empty() { None } else { Some(id(head)?) };
        let snapshot = match (commit, files) {
            (b"", b"") => None,
            (commit, files) => Some(Snapshot { commit: id(commit)?, files: id(files)? }),
        };
        let branch = BranchName::new(&text(branch)).ok();
        let operations = shown(operations);
        let operations = operations.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let path = GuestPath::new(text(path));
        let Some(repository) = self.repository_mut() else { return Some(()) };
        match path {
            Ok(path) if repository.trees.len() < MAX_TREES => {
                repository.trees.push(TreeSurvey { path, branch, head, snapshot, operations })
            }
            // Its commits and snapshot are recorded all the same.
            _ => {
                let ids = head.into_iter().chain(snapshot.map(|snapshot| snapshot.commit));
                repository.tips.extend(ids.map(|id| ("a working tree".to_owned(), id)));
            }
        }
        Some(())
    }

    fn large(&mut self, oid: &str, size: &str) -> Option<()> {
        self.entries += 1;
        let is_oid = oid.len() == 64 && oid.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let file = LargeFile { oid: is_oid.then(|| oid.to_owned())?, size: size.parse().ok()? };
        if let Some(repository) = self.repository_mut() {
            repository.large.push(file);
        }
        Some(())
    }

    fn push(&mut self, words: [&[u8]; 4]) -> Option<()> {
        self.entries += 1;
        let [remote, target, object, force] = words;
        let commit = if object.is_empty() { None } else { Some(id(object)?) };
        let (remote, target, force) = (text(remote), text(target), !force.is_empty());
        // They become words of a command that is shown to people.
        if let Some(repository) = self.repository_mut()
            && is_ref_name(&target)
            && BranchName::new(&remote).is_ok()
        {
            repository.pushes.push(RecordedPush { remote, target, commit, force });
        }
        Some(())
    }

    fn left_out(&mut self, path: &[u8], reason: &[u8]) {
        if self.survey.left_out.len() < MAX_LEFT_OUT {
            let entry = LeftOut { path: shown(path), reason: shown(reason) };
            self.survey.left_out.push(entry);
        }
    }
}

fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

/// A text for people, as long as one that they read.
fn shown(word: &[u8]) -> String {
    printable(&text(&word[..word.len().min(MAX_TEXT)]))
}

fn id(word: &[u8]) -> Option<ObjectId> {
    ObjectId::parse(std::str::from_utf8(word).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Option<Survey> {
        let answer: String = words.iter().map(|word| format!("{word}\0")).collect();
        Survey::parse(answer.as_bytes(), "/workspace").map(Result::unwrap)
    }

    #[test]
    fn repositories_refs_and_trees_are_read() {
        let (a, b, c) = ("a".repeat(40), "b".repeat(40), "c".repeat(40));
        let id = |text: &str| ObjectId::parse(text).unwrap();
        let words = [
            &["repository", "", "main", "ref", "refs/heads/main", &a, "ref", "refs/palisade/x", &a][..],
            &["ref", "refs/heads/-x..y", &b, "stash", &b, "WIP\u{1b}", "tip", "MERGE_HEAD", &c],
            &["tree", "/workspace", "main", &a, &b, &c, "merge,rebase"],
            &["repository", "sub/nested", "nested", "tree", "/workspace/sub/nested", "", "", "", "", ""],
            &["repository", "clone", "plain", "ref", "refs/heads/main", &a],
            &["repository", "../out", "nested", "ref", "refs/heads/main", &a],
            &["left-out", "GIT~1", "git refuses its name"],
        ]
        .concat();
        let survey = parse(&words).unwrap();
        let tree = TreeSurvey {
            path: GuestPath::new("/workspace").unwrap(),
            branch: BranchName::new("main").ok(),
            head: Some(id(&a)),
            snapshot: Some(Snapshot { commit: id(&b), files: id(&c) }),
            operations: vec!["merge".into(), "rebase".into()],
        };
        let main = RepositorySurvey {
            refs: BTreeMap::from([("refs/heads/main".into(), id(&a))]),
            stashes: vec![StashEntry { id: id(&b), message: "WIP\\u{1b}".into() }],
            tips: vec![("refs/heads/-x..y".into(), id(&b)), ("MERGE_HEAD".into(), id(&c))],
            trees: vec![tree],
            shallow: String::new(),
            pushes: Vec::new(),
            large: Vec::new(),
        };
        assert_eq!(survey.main, main);
        let nested: Vec<(&str, bool)> =
            survey.nested.iter().map(|nested| (nested.path.as_str(), nested.has_own_work)).collect();
        assert_eq!(nested, [("sub/nested", true), ("clone", false)]);
        let left_out: Vec<&str> = survey.left_out.iter().map(|left_out| left_out.path.as_str()).collect();
        assert_eq!(left_out, ["../out", "GIT~1"]);
    }

    #[test]
    fn more_than_a_host_can_have_is_set_apart() {
        let a = "a".repeat(40);
        let mut words: Vec<String> = ["repository", "", "main"].map(str::to_owned).to_vec();
        let mut add = |record: &[&str]| words.extend(record.iter().map(|word| (*word).to_owned()));
        for name in ["refs/heads/a", "refs/heads/a/b", "refs/heads/a/b/c", "refs/heads/ab"] {
            add(&["ref", name, &a]);
        }
        add(&["stash", &a, &"\u{1}".repeat(MAX_TEXT + 1)]);
        for number in 0..=MAX_TREES {
            let path = if number == 0 { "/workspace".to_owned() } else { format!("/{number}") };
            add(&["tree", &path, "main", &a, "", "", ""]);
        }
        for number in 0..=MAX_NESTED {
            add(&["repository", &number.to_string(), "nested"]);
        }
        let survey = parse(&words.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        let refs: Vec<&str> = survey.main.refs.keys().map(String::as_str).collect();
        assert_eq!(refs, ["refs/heads/a", "refs/heads/ab"]);
        let tips: Vec<&str> = survey.main.tips.iter().map(|(place, _)| place.as_str()).collect();
        assert_eq!(tips, ["a working tree", "refs/heads/a/b", "refs/heads/a/b/c"]);
        assert_eq!(survey.main.stashes[0].message, "\\u{1}".repeat(MAX_TEXT));
        assert_eq!((survey.main.trees.len(), survey.nested.len()), (MAX_TREES, MAX_NESTED));
        assert_eq!(survey.left_out.len(), 1);
        let endless = format!("tip\0\0{a}\0").repeat(MAX_ENTRIES + 1);
        let refused = Survey::parse(endless.as_bytes(), "/workspace").unwrap();
        assert!(matches!(refused, Err(SandboxError::TooMany { .. })));
    }

    #[test]
    fn an_answer_that_makes_no_sense_is_refused() {
        let a = "a".repeat(40);
        let main = ["repository", "", "main", "tree", "/workspace", "main", &a, "", "", ""];
        assert!(parse(&main).is_some());
        for wrong in [
            &["what"][..],
            &["ref", "refs/heads/main"],
            &["ref", "refs/heads/main", "short"],
            &["tree", "/workspace", "main", &a, &a, "", ""],
            &["repository", "x", "other"],
        ] {
            assert_eq!(parse(&[&main, wrong].concat()), None, "{wrong:?}");
        }
        assert_eq!(parse(&[]), None);
        assert_eq!(parse(&["repository", "", "main"]), None, "without a working tree");
        assert!(Survey::parse(b"repository", "/workspace").is_none());
    }
}
