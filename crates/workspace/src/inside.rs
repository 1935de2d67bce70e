//! Git as it runs inside the sandbox, on the sandbox's own repository. Its answers are a stranger's words: each is
//! checked for what it may be, and nothing here trusts that it is true.

use crate::refs::{BranchName, ObjectId, inside};
use palisade_core::{BoxFuture, GuestPath, printable};
use palisade_protocol::client::{Client, ExecError, Output};
use palisade_protocol::{ExecRequest, Exit};
use std::time::Duration;

/// More than any answer to these questions needs.
const ANSWER: usize = 4 * 1024 * 1024;
const PATIENCE: Duration = Duration::from_secs(120);
/// Each becomes a ref on the host.
pub(crate) const MOST_BRANCHES: usize = 256;

/// Where commands run. A sandbox's client in the product.
pub trait Inside: Send + Sync {
    fn run(&self, request: ExecRequest) -> BoxFuture<'_, Result<Output, ExecError>>;
}

impl Inside for Client {
    fn run(&self, request: ExecRequest) -> BoxFuture<'_, Result<Output, ExecError>> {
        Box::pin(self.exec_collect(request, ANSWER))
    }
}

#[derive(Debug, thiserror::Error)]
pub enum InsideError {
    #[error("{what} inside the sandbox: {source}")]
    NotRun { what: &'static str, source: ExecError },
    #[error("{what} inside the sandbox took longer than {} s", PATIENCE.as_secs())]
    Slow { what: &'static str },
    #[error("{what} failed inside the sandbox: {said}")]
    Failed { what: &'static str, said: String },
    #[error("the sandbox has more than {most} {what}")]
    TooMany { what: &'static str, most: usize },
    #[error("{what} inside the sandbox gave an answer that makes no sense")]
    Answer { what: &'static str },
}

/// The branches and working trees of the repository inside.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trees {
    pub branches: Vec<(BranchName, ObjectId)>,
    pub trees: Vec<(GuestPath, BranchName)>,
    /// Branches and trees under names that cannot come home.
    pub unnameable: usize,
}

/// What would be lost, for people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Description {
    /// Short id and subject; the newest twenty.
    pub commits: Vec<String>,
    /// Paths with uncommitted changes.
    pub files: Vec<String>,
}

/// A working tree inside: `/workspace`, or one of its worktrees.
pub struct Tree<'a> {
    inside: &'a dyn Inside,
    environment: Vec<Vec<u8>>,
    directory: String,
}

impl std::fmt::Debug for Tree<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// What a working tree inside holds that the host may not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub branch: BranchName,
    pub head: ObjectId,
    /// A commit on top of the head with everything that is not committed, if anything is not.
    pub work: Option<ObjectId>,
}

/// How the inside's branch stands to what the host pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrival {
    /// The repository was empty; now it is at the host's commit.
    Cloned,
    /// Nothing new came.
    Same,
    /// It was behind and clean, and is at the host's commit now.
    Forwarded,
    /// It has commits of its own and is not behind.
    Ahead { own: u32 },
    /// Left as it was: there are commits on both sides, or changes in the way.
    Diverged { own: u32, hosts: u32, dirty: bool },
}

impl<'a> Tree<'a> {
    /// `environment` is the sandbox's own, `NAME=value` each.
    pub fn new(inside: &'a dyn Inside, environment: Vec<Vec<u8>>, directory: impl Into<String>) -> Self {
        Self { inside, environment, directory: directory.into() }
    }

    /// Makes an empty repository when there is none, ready to be pushed to; where there is one, what it knows the
    /// host's branch to be at.
    pub async fn prepare(
        &self,
        branch: &BranchName,
        name: &str,
        email: &str,
    ) -> Result<Option<ObjectId>, InsideError> {
        const WHAT: &str = "preparing the repository";
        let arguments = [branch.as_str(), name, email, &inside::host(branch)];
        let words = self.script(WHAT, include_str!("inside/prepare.sh"), &arguments).await?;
        Ok(words.first().and_then(|word| ObjectId::parse(word)))
    }

    /// Brings the working tree to what was pushed, where nothing is in the way.
    pub async fn arrive(&self, branch: &BranchName) -> Result<Arrival, InsideError> {
        const WHAT: &str = "checking out";
        let words = self
            .script(WHAT, include_str!("inside/arrive.sh"), &[branch.as_str(), &inside::host(branch)])
            .await?;
        let number = |text: &String| text.parse::<u32>().map_err(|_| InsideError::Answer { what: WHAT });
        match words.as_slice() {
            [word] if word == "cloned" => Ok(Arrival::Cloned),
            [word] if word == "same" => Ok(Arrival::Same),
            [word] if word == "forwarded" => Ok(Arrival::Forwarded),
            [word, own] if word == "ahead" => Ok(Arrival::Ahead { own: number(own)? }),
            [word, own, hosts, dirty] if word == "diverged" => {
                Ok(Arrival::Diverged { own: number(own)?, hosts: number(hosts)?, dirty: dirty == "dirty" })
            }
            _ => Err(InsideError::Answer { what: WHAT }),
        }
    }

    /// Records what is not committed as a commit beside the branch, without touching index or files.
    pub async fn snapshot(&self) -> Result<Snapshot, InsideError> {
        const WHAT: &str = "looking at the work";
        let script = concat!(include_str!("inside/record.sh"), include_str!("inside/snapshot.sh"));
        let words = self.script(WHAT, script, &[]).await?;
        let [branch, head, work] = words.as_slice() else { return Err(InsideError::Answer { what: WHAT }) };
        let answer = || InsideError::Answer { what: WHAT };
        Ok(Snapshot {
            branch: BranchName::new(branch).map_err(|_| answer())?,
            head: ObjectId::parse(head).ok_or_else(answer)?,
            work: match work.as_str() {
                "-" => None,
                id => Some(ObjectId::parse(id).ok_or_else(answer)?),
            },
        })
    }

    /// All branches and working trees.
    pub async fn trees(&self) -> Result<Trees, InsideError> {
        const WHAT: &str = "listing the branches";
        let words = self.script(WHAT, include_str!("inside/trees.sh"), &[]).await?;
        let mut trees = Trees::default();
        let answer = || InsideError::Answer { what: WHAT };
        for triple in words.chunks(3) {
            let [kind, first, second] = triple else { return Err(answer()) };
            // Names that we do not take are the sandbox's own business; they cannot come home.
            match kind.as_str() {
                "branch" => match BranchName::new(first) {
                    Ok(name) => {
                        trees.branches.push((name, ObjectId::parse(second).ok_or_else(answer)?));
                    }
                    Err(_) => trees.unnameable += 1,
                },
                "tree" => match (GuestPath::new(first), BranchName::new(second)) {
                    (Ok(path), Ok(branch)) => trees.trees.push((path, branch)),
                    _ => trees.unnameable += 1,
                },
                _ => return Err(answer()),
            }
            if trees.branches.len() > MOST_BRANCHES {
                return Err(InsideError::TooMany { what: "branches", most: MOST_BRANCHES });
            }
        }
        Ok(trees)
    }

    /// What a branch has beyond `known` and what was sent in, for people: the sandbox's own words, tamed.
    pub async fn describe(
        &self,
        branch: &BranchName,
        known: Option<&ObjectId>,
    ) -> Result<Description, InsideError> {
        let arguments: Vec<&str> =
            std::iter::once(branch.as_str()).chain(known.map(ObjectId::as_str)).collect();
        let script = include_str!("inside/describe.sh");
        let words = self.script("looking at the work", script, &arguments).await?;
        let mut parts = words.splitn(2, String::is_empty);
        let mut tamed = || -> Vec<String> {
            let words = parts.next().unwrap_or_default();
            words.iter().map(|word| printable(word)).collect()
        };
        Ok(Description { commits: tamed(), files: tamed() })
    }

    /// What working trees at no branch hold that no branch has, for people: the sandbox's own words, tamed.
    pub async fn adrift(&self) -> Result<Vec<(GuestPath, Description)>, InsideError> {
        const WHAT: &str = "looking at the work";
        let words = self.script(WHAT, include_str!("inside/adrift.sh"), &[]).await?;
        parse_adrift(&words).ok_or(InsideError::Answer { what: WHAT })
    }

    /// The changes of a snapshot that are not committed, for people.
    pub async fn diff(&self, snapshot: &Snapshot) -> Result<String, InsideError> {
        let Some(work) = &snapshot.work else { return Ok(String::new()) };
        let script = "exec git --no-pager diff --no-color --no-ext-diff --no-textconv \"$1\" \"$2\" --";
        self.words("comparing", script, &[snapshot.head.as_str(), work.as_str()]).await
    }

    /// The commits since the host's code, for people.
    pub async fn log(&self) -> Result<String, InsideError> {
        let script = "exec git --no-pager log --no-color --no-ext-diff --stat HEAD --not --remotes=origin --";
        self.words("listing the commits", script, &[]).await
    }

    /// What a script says for people, line by line with control characters escaped.
    async fn words(
        &self,
        what: &'static str,
        script: &str,
        arguments: &[&str],
    ) -> Result<String, InsideError> {
        let bytes = self.run(what, script, arguments).await?;
        let tame = |line: &str| printable(line).replace("\\t", "\t") + "\n";
        Ok(String::from_utf8_lossy(&bytes).lines().map(tame).collect())
    }

    pub async fn add_worktree(&self, branch: &BranchName, path: &GuestPath) -> Result<(), InsideError> {
        let arguments = [branch.as_str(), path.as_str()];
        self.script("making the worktree", include_str!("inside/worktree-add.sh"), &arguments).await.map(drop)
    }

    pub async fn remove_worktree(&self, path: &GuestPath) -> Result<(), InsideError> {
        let script = include_str!("inside/worktree-remove.sh");
        self.script("removing the worktree", script, &[path.as_str()]).await.map(drop)
    }

    /// Runs one of our scripts; its answer is a list of words, each ended by a NUL.
    pub(crate) async fn script(
        &self,
        what: &'static str,
        script: &str,
        arguments: &[&str],
    ) -> Result<Vec<String>, InsideError> {
        let bytes = self.run(what, script, arguments).await?;
        let text = String::from_utf8(bytes).map_err(|_| InsideError::Answer { what })?;
        let mut words: Vec<String> = text.split('\0').map(str::to_owned).collect();
        words.pop();
        Ok(words)
    }

    /// The answer of one of our scripts as it is, for names that may be anything.
    pub(crate) async fn answer(&self, what: &'static str, script: &str) -> Result<Vec<u8>, InsideError> {
        self.run(what, script, &[]).await
    }

    async fn run(
        &self,
        what: &'static str,
        script: &str,
        arguments: &[&str],
    ) -> Result<Vec<u8>, InsideError> {
        let mut argv: Vec<Vec<u8>> =
            ["sh", "-c", script, "palisade"].map(|word| word.as_bytes().to_vec()).into();
        argv.extend(arguments.iter().map(|argument| argument.as_bytes().to_vec()));
        let request = ExecRequest {
            argv,
            env: self.environment.clone(),
            cwd: self.directory.clone().into_bytes(),
            ..ExecRequest::default()
        };
        let output = tokio::time::timeout(PATIENCE, self.inside.run(request))
            .await
            .map_err(|_| InsideError::Slow { what })?
            .map_err(|source| InsideError::NotRun { what, source })?;
        if output.exit != Exit::Code(0) {
            let said = printable(String::from_utf8_lossy(&output.stderr).trim());
            return Err(InsideError::Failed { what, said });
        }
        Ok(output.stdout)
    }
}

/// `PATH`, commits, an empty word, files, an empty word; again and again.
fn parse_adrift(words: &[String]) -> Option<Vec<(GuestPath, Description)>> {
    let (last, words) = match words.split_last() {
        Some(split) => split,
        None => return Some(Vec::new()),
    };
    if !last.is_empty() {
        return None;
    }
    let tamed = |words: &[String]| words.iter().map(|word| printable(word)).collect();
    let parts: Vec<&[String]> = words.split(String::is_empty).collect();
    let mut found = Vec::new();
    for pair in parts.chunks(2) {
        let [[path, commits @ ..], files] = pair else { return None };
        let description = Description { commits: tamed(commits), files: tamed(files) };
        if description != Description::default() {
            found.push((GuestPath::new(path.as_str()).ok()?, description));
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_no_branch_is_read_and_nonsense_is_refused() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        let description = |commits: &[&str], files: &[&str]| Description {
            commits: commits.iter().map(|text| (*text).to_owned()).collect(),
            files: files.iter().map(|text| (*text).to_owned()).collect(),
        };
        let path = |text: &str| GuestPath::new(text).unwrap();
        assert_eq!(
            parse_adrift(&words("/a c1 c2  f1  /b   /c  f\u{1b} ")).unwrap(),
            [
                (path("/a"), description(&["c1", "c2"], &["f1"])),
                (path("/c"), description(&[], &["f\\u{1b}"]))
            ]
        );
        assert_eq!(parse_adrift(&[]), Some(Vec::new()));
        for nonsense in ["/a", "/a ", "relative c  f ", " "] {
            assert_eq!(parse_adrift(&words(nonsense)), None, "{nonsense:?}");
        }
    }
}
