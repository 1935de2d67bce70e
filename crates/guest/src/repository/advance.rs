//! Moves a repository that has nothing of its own to where the host is. Its working tree is the host's.
//!
//! Words on standard input, each ended by a NUL:
//! - `was NAME ID`, `was-branch NAME` or `was-commit ID`: the refs and HEAD that both sides had in common.
//! - `now NAME ID`, `now-branch NAME` or `now-commit ID`: the host's.
//! - `files COMMIT`: the commit that the host's HEAD leads to; empty when there is none.
//!
//! The answer is `done`, or `own` when the repository has refs, a HEAD, staged changes or an operation of its own, or `busy`
//! when another git was at work for too long. Nothing has moved then.

use super::git::{Git, GitFailure};
use super::records::Records;
use super::working_tree::WorkingTree;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

/// What is left of an operation in progress.
const OPERATIONS: [&str; 7] = [
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "BISECT_LOG",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
];
/// Refs that are not compared: entries of the stash, and what only the host or an operation uses.
const LEFT_OUT: [&str; 3] = ["refs/stash", "refs/palisade/", "refs/bisect/"];
/// How long another git is waited for: `git status` holds the index while it looks at the files.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);
const BUSY: &str = "busy";
const REASON: &str = "palisade: the host's state";

#[derive(Debug, PartialEq, Eq, Default)]
struct State {
    refs: BTreeMap<String, String>,
    /// A full name, or an id.
    head: String,
}

#[derive(Debug, PartialEq, Eq, Default)]
struct Request {
    was: State,
    now: State,
    files: String,
}

impl Request {
    fn parse(input: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(input).ok()?;
        let mut words = text.strip_suffix('\0')?.split('\0');
        let mut request = Self::default();
        while let Some(word) = words.next() {
            let (what, key) = word.split_once('-').unwrap_or((word, ""));
            let value = words.next()?.to_owned();
            let state = match what {
                "was" => &mut request.was,
                "now" => &mut request.now,
                "files" => {
                    request.files = value;
                    continue;
                }
                _ => return None,
            };
            match key {
                "" => drop(state.refs.insert(value, words.next()?.to_owned())),
                "branch" => state.head = format!("refs/heads/{value}"),
                "commit" => state.head = value,
                _ => return None,
            }
        }
        Some(request)
    }
}

pub(crate) fn advance(directory: &Path) -> Result<Vec<u8>, GitFailure> {
    let failed = |error: std::io::Error| GitFailure::new("follow the host", error.to_string());
    let mut input = Vec::new();
    std::io::stdin().lock().read_to_end(&mut input).map_err(failed)?;
    let request =
        Request::parse(&input).ok_or_else(|| GitFailure::new("follow the host", "a bad request".into()))?;
    let tree = WorkingTree::open(directory).map_err(failed)?;
    let git = Git::at(&tree.path);
    let deadline = Instant::now() + PATIENCE;
    let mut answer = request.apply(&git, &tree)?;
    while answer == BUSY && Instant::now() < deadline {
        std::thread::sleep(PAUSE);
        answer = request.apply(&git, &tree)?;
    }
    let mut records = Records::default();
    records.add(&[answer.as_bytes()]);
    Ok(records.into_bytes())
}

impl Request {
    fn apply(&self, git: &Git, tree: &WorkingTree) -> Result<&'static str, GitFailure> {
        if tree.own.join("index.lock").exists() || tree.own.join("HEAD.lock").exists() {
            return Ok(BUSY);
        }
        if OPERATIONS.iter().any(|name| tree.own.join(name).exists())
            || tree.with_linked().len() > 1
            || State::read(git)? != self.was
        {
            return Ok("own");
        }
        let old = commit_of(git)?;
        let is_staged = |commit: &str| git.run(&["diff-index", "--cached", "--quiet", commit, "--"]).is_ok();
        let is_unchanged = match &old {
            Some(old) => is_staged(old),
            None => git.run(&["ls-files", "--cached"])?.output.is_empty(),
        };
        // What the user had staged at the start, and has committed.
        let is_new = !self.files.is_empty() && is_staged(&self.files);
        if !is_unchanged && !is_new {
            return Ok("own");
        }
        // The index first, under git's own lock: a commit that is being made holds it.
        let moves_index = !is_new && !self.files.is_empty();
        if moves_index && read_tree(git, old.as_deref(), &self.files).is_err() {
            return Ok(BUSY);
        }
        if self.move_refs(git).is_err() {
            if moves_index {
                match &old {
                    Some(old) => read_tree(git, Some(&self.files), old)?,
                    None => drop(git.run(&["read-tree", "--empty"])?),
                }
            }
            return Ok(BUSY);
        }
        Ok("done")
    }

    /// All refs and then HEAD, each only from where it was.
    fn move_refs(&self, git: &Git) -> Result<(), GitFailure> {
        let mut changes = String::from("start\0");
        for (name, id) in &self.was.refs {
            match self.now.refs.get(name) {
                Some(now) if now == id => {}
                Some(now) => changes += &format!("update {name}\0{now}\0{id}\0"),
                None => changes += &format!("delete {name}\0{id}\0"),
            }
        }
        for (name, id) in self.now.refs.iter().filter(|(name, _)| !self.was.refs.contains_key(*name)) {
            changes += &format!("update {name}\0{id}\0{}\0", "0".repeat(id.len()));
        }
        let update = ["update-ref", "-m", REASON, "--no-deref", "--stdin", "-z"];
        git.feed(&update, format!("{changes}prepare\0commit\0").as_bytes())?;
        if self.now.head == self.was.head {
            return Ok(());
        }
        match self.now.head.starts_with("refs/") {
            true => git.run(&["symbolic-ref", "-m", REASON, "HEAD", self.now.head.as_str()]),
            false => git.run(&["update-ref", "-m", REASON, "--no-deref", "HEAD", self.now.head.as_str()]),
        }
        .map(drop)
    }
}

impl State {
    fn read(git: &Git) -> Result<Self, GitFailure> {
        let listing = git.run(&["for-each-ref", "--format=%(objectname) %(refname) %(symref)"])?;
        let listing = String::from_utf8_lossy(&listing.output).into_owned();
        let mut refs = BTreeMap::new();
        for line in listing.lines() {
            let mut words = line.splitn(3, ' ');
            if let (Some(id), Some(name), Some("")) = (words.next(), words.next(), words.next())
                && !LEFT_OUT.iter().any(|prefix| name.starts_with(prefix))
            {
                refs.insert(name.to_owned(), id.to_owned());
            }
        }
        let head = match git.line(&["symbolic-ref", "--quiet", "HEAD"]) {
            Ok(name) => name,
            Err(_) => git.line(&["rev-parse", "HEAD"])?,
        };
        Ok(Self { refs, head })
    }
}

/// Brings the index from one commit to another; what it knows of files stays.
fn read_tree(git: &Git, from: Option<&str>, to: &str) -> Result<(), GitFailure> {
    match from {
        Some(from) => git.run(&["read-tree", "-i", "-m", from, to]),
        None => git.run(&["read-tree", to]),
    }
    .map(drop)
}

/// The commit that HEAD leads to; `None` before the first one.
fn commit_of(git: &Git) -> Result<Option<String>, GitFailure> {
    match git.line(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]) {
        Ok(id) => Ok(Some(id)),
        Err(failure) if failure.message.trim().is_empty() => Ok(None),
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_whole_or_not_at_all() {
        let text = b"was\0refs/heads/main\0a1\0was-branch\0main\0now-commit\0b2\0files\0\0";
        let request = Request::parse(text).unwrap();
        assert_eq!(request.was.refs["refs/heads/main"], "a1");
        assert_eq!((request.was.head.as_str(), request.now.head.as_str()), ("refs/heads/main", "b2"));
        for bad in [&b"was\0a\0"[..], b"was\0a\0b", b"other\0a\0", b"was-x\0a\0", b""] {
            assert_eq!(Request::parse(bad), None, "{bad:?}");
        }
    }
}
