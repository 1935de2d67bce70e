//! Commits in and out. Both ways it is the host that asks, and the pack programs run inside: host git speaks with
//! them over our transport, which takes the place of ssh. What comes back lands below `refs/palisade/<name>/` only.

use crate::facts::object;
use crate::git::{GitError, Invocation, Repository};
use crate::handover::Inherited;
use crate::refs::{BranchName, ObjectId, SandboxRefs, inside};
use palisade_core::{MovedRef, printable};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// What a single object may take while it is put together: a few bytes can say how to make a very large one.
const MEMORY: &str = "4g";
/// Told two commits, it counts those that only one of them leads to.
pub(crate) const APART: [&str; 4] = ["rev-list", "--left-right", "--count", "--stdin"];

/// The way to one sandbox's repository.
#[derive(Debug)]
pub struct Link {
    /// A shell command that git runs in the place of `ssh`, with a name and a command for the other side. A program alone
    /// is started without a shell.
    pub command: OsString,
    /// What that command finds its way with, unless it needs nothing.
    pub inherited: Option<Inherited>,
    /// The name that it is given: git wants a host's, and takes any word.
    pub host: String,
    /// The repository's directory inside.
    pub directory: String,
    /// The longest that one transfer may take; a peer that sends nothing is ended by the transport long before.
    pub limit: Duration,
}

impl Link {
    fn address(&self) -> String {
        format!("{}:{}", self.host, self.directory)
    }
}

/// How far a transfer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    pub step: &'static str,
    pub percent: u8,
    /// How much has gone, and how fast: `95.31 MiB | 45.00 MiB/s`.
    pub amount: Option<String>,
}

/// Git's own words for the steps of a push, and ours. Those with `remote` are said inside, and come through host git.
const STEPS: [(&str, &str); 6] = [
    ("Counting objects", "counting"),
    ("Compressing objects", "compressing"),
    ("Writing objects", "sending"),
    ("remote: Unpacking objects", "unpacking inside"),
    ("remote: Resolving deltas", "resolving inside"),
    ("remote: Updating files", "updating files inside"),
];

impl Progress {
    /// Reads `Writing objects:  40% (2/5), 1.00 MiB | 2.00 MiB/s`. Only words that are known are taken, since what is
    /// said inside is a stranger's.
    fn parse(line: &str) -> Option<Self> {
        let known = |&(words, told): &(&str, &'static str)| Some((told, line.strip_prefix(words)?));
        let (step, rest) = STEPS.iter().find_map(known)?;
        let (percent, rest) = rest.strip_prefix(':')?.trim_start().split_once('%')?;
        let percent = percent.parse().ok().filter(|percent| *percent <= 100)?;
        let amount = rest.split_once("), ").map(|(_, amount)| amount.trim_end_matches(", done."));
        let plain = |text: &&str| {
            text.len() < 40
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" .|/".contains(&byte))
        };
        let amount = amount.filter(|_| step == "sending").filter(plain).map(str::to_owned);
        Some(Self { step, percent, amount })
    }
}

/// What a fetch is to bring.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    pub branches: Vec<BranchName>,
    /// Branches with uncommitted work, recorded inside by a snapshot.
    pub work: Vec<BranchName>,
}

/// What the host has of a sandbox: its refs, and the commits they are at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known(BTreeMap<String, ObjectId>);

impl FromIterator<(String, ObjectId)> for Known {
    fn from_iter<I: IntoIterator<Item = (String, ObjectId)>>(refs: I) -> Self {
        Self(refs.into_iter().collect())
    }
}

impl Known {
    pub fn get(&self, reference: &str) -> Option<&ObjectId> {
        self.0.get(reference)
    }

    /// Refs in a directory of refs.
    pub(crate) fn below<'k>(
        &'k self,
        directory: &'k str,
    ) -> impl Iterator<Item = (&'k String, &'k ObjectId)> {
        self.0.iter().filter(move |(name, _)| below(name, directory))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &ObjectId)> {
        self.0.iter()
    }

    pub(crate) fn has(&self, reference: &str) -> bool {
        self.0.contains_key(reference)
    }

    /// What a fetch has left for a branch, whatever the sandbox said before.
    pub fn fetched(&self, refs: &SandboxRefs, branch: &BranchName) -> Result<Fetched, GitError> {
        let name = refs.commits(branch);
        let commits = self.get(&name).cloned().ok_or_else(|| GitError::Answer {
            what: "fetch".into(),
            answer: format!("no commit at {}", printable(&name)),
        })?;
        Ok(Fetched { commits, work: self.get(&refs.work(branch)).cloned(), branch: branch.clone() })
    }
}

/// What a fetch brought of one branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    pub branch: BranchName,
    pub commits: ObjectId,
    pub work: Option<ObjectId>,
}

impl Fetched {
    /// What the working tree is to be: with the uncommitted work, if there is any.
    pub(crate) fn target(&self) -> &ObjectId {
        self.work.as_ref().unwrap_or(&self.commits)
    }
}

impl<'a> Invocation<'a> {
    fn over(self, link: &'a Link) -> Self {
        let with = match &link.inherited {
            Some(Inherited { socket, variable: (name, value) }) => self.env(name, value).inherits(socket),
            None => self,
        };
        with.env("GIT_SSH_COMMAND", &link.command).env("GIT_SSH_VARIANT", "simple").limit(link.limit)
    }
}

impl Repository {
    /// Sends a branch into the sandbox, as the host's side of it there.
    pub async fn push_to(
        &self,
        link: &Link,
        branch: &BranchName,
        mut progress: impl FnMut(Progress),
    ) -> Result<(), GitError> {
        let refspec = format!("+{}:{}", branch.full(), inside::host(branch));
        let options = ["push", "--progress", "--no-verify", "--no-follow-tags", "--no-signed", "--no-thin"];
        let arguments =
            options.into_iter().map(OsString::from).chain([link.address().into(), refspec.into()]);
        self.git(arguments)
            .over(link)
            .watched(|line| Progress::parse(line).into_iter().for_each(&mut progress))
            .await
            .map(drop)
    }

    /// Brings branches of the sandbox's and the uncommitted work on them, all of it or nothing.
    pub async fn fetch_from(&self, link: &Link, refs: &SandboxRefs, wanted: &Wanted) -> Result<(), GitError> {
        let mark = self.places().common.join("palisade-fetch");
        let marked = || mark.metadata().and_then(|metadata| metadata.modified());
        // One that was killed could not clear away after itself.
        if let Ok(since) = marked() {
            self.clear_away(since);
        }
        let made = std::fs::write(&mark, "");
        let began = made.and_then(|()| marked()).unwrap_or_else(|_| SystemTime::now());
        let fetched = self.fetch_making_way(link, refs, wanted).await;
        if fetched.is_err() {
            self.clear_away(began);
        }
        let _ = std::fs::remove_file(&mark);
        fetched
    }

    async fn fetch_making_way(
        &self,
        link: &Link,
        refs: &SandboxRefs,
        wanted: &Wanted,
    ) -> Result<(), GitError> {
        let Err(error) = self.fetch_once(link, refs, wanted).await else { return Ok(()) };
        // Only then is it worth a look whether refs from before stand in the way.
        if matches!(error, GitError::Failed { .. }) && self.make_way(refs, wanted).await? {
            return self.fetch_once(link, refs, wanted).await;
        }
        Err(error)
    }

    async fn fetch_once(&self, link: &Link, refs: &SandboxRefs, wanted: &Wanted) -> Result<(), GitError> {
        let mut arguments: Vec<OsString> = [
            "fetch",
            "--no-tags",
            "--no-prune",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            "--no-recurse-submodules",
            "--no-show-forced-updates",
            "--atomic",
            "--refmap=",
        ]
        .map(OsString::from)
        .into();
        arguments.push(link.address().into());
        let commits = wanted.branches.iter();
        arguments.extend(commits.map(|branch| format!("+{}:{}", branch.full(), refs.commits(branch)).into()));
        let work = wanted.work.iter();
        arguments
            .extend(work.map(|branch| format!("+{}:{}", inside::work(branch), refs.work(branch)).into()));
        self.git(arguments).over(link).env("GIT_ALLOC_LIMIT", MEMORY).bytes().await.map(drop)
    }

    /// Puts commits under another name whose ref is a directory for one that is wanted, or lies in it. Says whether
    /// there were any. What was brought once is never let go of because a sandbox has renamed it.
    async fn make_way(&self, refs: &SandboxRefs, wanted: &Wanted) -> Result<bool, GitError> {
        let targets = wanted.branches.iter().map(|branch| refs.commits(branch));
        let targets: Vec<String> =
            targets.chain(wanted.work.iter().map(|branch| refs.work(branch))).collect();
        let mut transaction = String::from("start\0");
        let mut any = false;
        for (reference, id) in self.known(refs).await?.0 {
            if targets.iter().any(|target| below(target, &reference) || below(&reference, target)) {
                transaction += &format!("delete {reference}\0{id}\0update {}\0{id}\0\0", refs.gone(&id));
                any = true;
            }
        }
        transaction += "prepare\0commit\0";
        if any {
            self.git(["update-ref", "--stdin", "-z"]).input(transaction).bytes().await?;
        }
        Ok(any)
    }

    /// Git leaves what it has of a pack when the rest does not come: as much as the sandbox liked to send. Everything
    /// that is newer than the fetch and that no process has open is its.
    fn clear_away(&self, since: SystemTime) {
        let place = self.places().common.join("objects/pack");
        let mut unfinished: Vec<PathBuf> = Vec::new();
        let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"tmp_")) {
            let changed = entry.metadata().and_then(|metadata| metadata.modified());
            if changed.is_ok_and(|changed| changed >= since) {
                unfinished.push(entry.path());
            }
        }
        if unfinished.is_empty() {
            return;
        }
        let open = open_files();
        for path in unfinished.iter().filter(|path| !open.contains(*path)) {
            let _ = std::fs::remove_file(path);
        }
    }

    /// The refs of a sandbox as they are now, with one question to git.
    pub async fn known(&self, refs: &SandboxRefs) -> Result<Known, GitError> {
        let format = "--format=%(objecttype) %(objectname) %(refname)";
        let list = self.git(["for-each-ref", format, &refs.all()]).bytes().await?;
        let list = String::from_utf8_lossy(&list);
        // Whatever is no commit came from a stranger, and is as good as not there.
        let commits = list.lines().filter_map(|line| line.strip_prefix("commit ")?.split_once(' '));
        let commits = commits.map(|(id, name)| Ok((name.to_owned(), object("for-each-ref", id)?)));
        commits.collect()
    }

    /// Forgets the uncommitted work of branches that have none any more.
    pub async fn forget_work(
        &self,
        refs: &SandboxRefs,
        known: &Known,
        branches: impl IntoIterator<Item = &BranchName>,
    ) -> Result<(), GitError> {
        let there = branches.into_iter().map(|branch| refs.work(branch)).filter(|name| known.has(name));
        let deletions: String = there.map(|name| format!("delete {name}\0\0")).collect();
        if deletions.is_empty() {
            return Ok(());
        }
        self.git(["update-ref", "--stdin", "-z"]).input(deletions).bytes().await.map(drop)
    }

    /// What a sandbox's refs became between two looks, without what is ours to remember.
    pub async fn moved(
        &self,
        refs: &SandboxRefs,
        before: &Known,
        after: &Known,
    ) -> Result<Vec<MovedRef>, GitError> {
        let (heads, work) = (format!("{}heads/", refs.all()), format!("{}work/", refs.all()));
        let names: BTreeSet<&String> = before.0.keys().chain(after.0.keys()).collect();
        let mut moved = Vec::new();
        for name in names {
            let (from, to) = (before.get(name), after.get(name));
            let is_head = name.starts_with(&heads);
            if from == to || !(is_head || name.starts_with(&work)) {
                continue;
            }
            let commits = match to.filter(|_| is_head) {
                Some(to) => self.count_new(refs, from, to).await?,
                None => 0,
            };
            let text = |id: Option<&ObjectId>| id.map(|id| id.as_str().to_owned());
            moved.push(MovedRef { name: name.clone(), from: text(from), to: text(to), commits });
        }
        Ok(moved)
    }

    /// Commits that a branch has beyond where it was, or, when it is new, beyond all that is not the sandbox's.
    async fn count_new(
        &self,
        refs: &SandboxRefs,
        from: Option<&ObjectId>,
        to: &ObjectId,
    ) -> Result<u32, GitError> {
        if let Some(from) = from {
            return Ok(self.apart(to, from).await?.0);
        }
        let own = format!("--exclude={}*", refs.all());
        let question = ["rev-list", "--count", to.as_str(), "--not", &own, "--all"];
        let answer = self.git(question).text().await?;
        answer.parse().map_err(|_| GitError::Answer { what: "rev-list".into(), answer: printable(&answer) })
    }

    /// Commits that are only in the first, and only in the second.
    pub(crate) async fn apart(&self, first: &ObjectId, second: &ObjectId) -> Result<(u32, u32), GitError> {
        if first == second {
            return Ok((0, 0));
        }
        if let Some(known) = self.answers().apart(first, second) {
            return Ok(known);
        }
        let text = self.git(APART).input(format!("{first}...{second}\n")).text().await?;
        let mut counts = text.split_ascii_whitespace().map(str::parse);
        match (counts.next(), counts.next()) {
            (Some(Ok(left)), Some(Ok(right))) => {
                self.answers().remember_apart(first, second, (left, right));
                Ok((left, right))
            }
            _ => Err(GitError::Answer { what: "rev-list".into(), answer: printable(&text) }),
        }
    }

    /// Whether a branch, a tag or another remote's side leads to a commit: something of the user's own.
    pub async fn leads_to(&self, id: &ObjectId) -> Result<bool, GitError> {
        if !self.git(["cat-file", "-e", &format!("{id}^{{commit}}")]).succeeds().await? {
            return Ok(false);
        }
        let containing = ["for-each-ref", "--count=1", "--format=%(refname)", "--contains", id.as_str()]
            .into_iter()
            .chain(["refs/heads", "refs/remotes", "refs/tags"]);
        Ok(!self.git(containing).bytes().await?.is_empty())
    }

    /// The commit that a ref of ours is at.
    pub async fn commit(&self, reference: &str) -> Result<ObjectId, GitError> {
        let id =
            self.git(["rev-parse", "--verify", "--quiet", &format!("{reference}^{{commit}}")]).text().await?;
        object("rev-parse", &id)
    }

    /// The commit that a ref is at, if there is such a ref.
    pub async fn commit_if_any(&self, reference: &str) -> Result<Option<ObjectId>, GitError> {
        match self.commit(reference).await {
            Ok(id) => Ok(Some(id)),
            Err(GitError::Failed { status, .. }) if status.code() == Some(1) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether one ref would have to lie in the other, as files and directories cannot.
fn below(reference: &str, directory: &str) -> bool {
    reference.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

/// The files that processes of this user have open.
fn open_files() -> BTreeSet<PathBuf> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let descriptors = processes.filter_map(|process| std::fs::read_dir(process.path().join("fd")).ok());
    descriptors.flatten().flatten().filter_map(|file| std::fs::read_link(file.path()).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_from_gits_words_and_no_others() {
        let progress = |line| Progress::parse(line).map(|it| (it.step, it.percent, it.amount));
        assert_eq!(progress("Counting objects:  40% (2/5)"), Some(("counting", 40, None)));
        assert_eq!(
            progress("Writing objects: 100% (5/5), 1.00 MiB | 2.50 MiB/s, done."),
            Some(("sending", 100, Some("1.00 MiB | 2.50 MiB/s".into())))
        );
        assert_eq!(progress("remote: Resolving deltas: 7% (1/14)"), Some(("resolving inside", 7, None)));
        assert_eq!(progress("Writing objects: 1% (1/1), \u{1b}[2J"), Some(("sending", 1, None)));
        for line in
            ["Everything up-to-date", "Writing objects: 101% (", "\u{1b}]0;x\u{7}: 50%", "remote: x: 5%"]
        {
            assert_eq!(progress(line), None, "{line:?}");
        }
    }
}
