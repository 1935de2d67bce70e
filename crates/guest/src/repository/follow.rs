//! Gives a repository the host's refs and settings, and its working tree the host's commit.
//!
//! Words on standard input, each ended by a NUL:
//! - `config KEY VALUE`, `global KEY VALUE`: settings of the repository, and of the sandbox's user.
//! - `objects PATH`: a directory that has objects, too.
//! - `exclude LINE`: a line of `info/exclude`.
//! - `shallow TEXT`: where the host's history ends, for a shallow clone.
//! - `mirror PREFIX`: all refs below it become those that follow.
//! - `ref NAME ID`: one of these.
//! - `local BRANCH ID DELIVERED`: a branch of the host's. Inside it is made or moved as long as the agent has not moved
//!   it, or the host has all of that (`DELIVERED`, or empty).
//! - `checkout BRANCH COMMIT FILES SNAPSHOT`: the working tree becomes this branch at this commit, with these files (a tree,
//!   or empty for the commit's own); without a branch, HEAD is detached. `SNAPSHOT` is what the host knows of it: when there is something else by now,
//!   nothing is moved, and the answer is `changed`.
//!
//! The answer is `done`, `changed`, or `in-worktree` when another working tree has the branch. After the first and the
//! last of these, the names of the `local` branches follow that are where the host has them.

use super::git::{Git, GitFailure};
use super::receive::use_objects;
use super::records::{Records, is_id};
use super::snapshot;
use super::status::Status;
use super::working_tree::WorkingTree;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The host's own branches, as remote-tracking ones.
const HOST: &str = "refs/remotes/host/";
/// Stands for the path of this program in a setting.
const GUEST_PLACE: &str = "palisade-guest";
/// What is left of operations in progress; the commits that it names are archived.
const OPERATION_FILES: [&str; 17] = [
    "MERGE_HEAD",
    "MERGE_MSG",
    "MERGE_MODE",
    "MERGE_RR",
    "MERGE_AUTOSTASH",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "AUTO_MERGE",
    "SQUASH_MSG",
    "BISECT_LOG",
    "BISECT_START",
    "BISECT_NAMES",
    "BISECT_TERMS",
    "BISECT_EXPECTED_REV",
    "BISECT_ANCESTORS_OK",
    "BISECT_HEAD",
];
const OPERATION_DIRECTORIES: [&str; 3] = ["rebase-merge", "rebase-apply", "sequencer"];

#[derive(Debug, Default)]
struct Request {
    config: Vec<(String, String)>,
    global: Vec<(String, String)>,
    objects: Option<String>,
    exclude: Vec<String>,
    shallow: Option<String>,
    mirrors: Vec<String>,
    refs: BTreeMap<String, String>,
    locals: BTreeMap<String, (String, String)>,
    checkout: Option<Checkout>,
}

#[derive(Debug)]
struct Checkout {
    branch: String,
    commit: String,
    files: String,
    snapshot: String,
}

pub(crate) fn follow(directory: &Path) -> Result<Vec<u8>, GitFailure> {
    let mut input = Vec::new();
    io::stdin().lock().read_to_end(&mut input).map_err(|error| failed("read the request", &error))?;
    let request = Request::parse(&input).ok_or_else(|| GitFailure::new("follow", "a bad request".into()))?;
    let tree = WorkingTree::open(directory).map_err(|error| failed("open the repository", &error))?;
    let git = Git::at(&tree.path);
    request.write_settings(&git, &tree)?;
    let (answer, local) = match &request.checkout {
        None => ("done", request.write_refs(&git, &tree)?),
        Some(checkout) => {
            let elsewhere = tree
                .with_linked()
                .iter()
                .skip(1)
                .any(|other| head_branch(other) == Some(checkout.branch.clone()));
            if elsewhere {
                ("in-worktree", request.write_refs(&git, &tree)?)
            } else if !checkout.is_recorded(&git, &tree)? {
                ("changed", Vec::new())
            } else if has_refs(&tree) {
                // The working tree leaves its branch first, so that this branch can follow the host, too.
                checkout.check_out(&git, &tree)?;
                ("done", request.write_refs(&git, &tree)?)
            } else {
                let local = request.write_refs(&git, &tree)?;
                checkout.check_out(&git, &tree)?;
                ("done", local)
            }
        }
    };
    let mut records = Records::default();
    records.add(&[answer.as_bytes()]);
    for branch in local {
        records.add(&[branch.as_bytes()]);
    }
    Ok(records.into_bytes())
}

/// The branches that a working tree needs where they are: the one that it is at, and the one that a rebase or a bisection
/// comes back to, while HEAD is detached.
fn held_branches(tree: &WorkingTree) -> impl Iterator<Item = String> {
    let named = |file: &str| {
        let text = fs::read_to_string(tree.own.join(file)).ok()?;
        let name = text.trim_end();
        Some(name.strip_prefix("refs/heads/").unwrap_or(name).to_owned())
    };
    let returns_to = ["rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"].map(named);
    head_branch(tree).into_iter().chain(returns_to.into_iter().flatten())
}

/// Whether a repository has refs. All refs of one without any are written at once.
fn has_refs(tree: &WorkingTree) -> bool {
    let has_branch =
        |directory: &Path| fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some());
    tree.common.join("packed-refs").exists() || has_branch(&tree.common.join("refs/heads"))
}

fn failed(what: &str, error: &io::Error) -> GitFailure {
    GitFailure::new(what, error.to_string())
}

/// The branch that a working tree is at, by its short name.
fn head_branch(tree: &WorkingTree) -> Option<String> {
    let head = fs::read_to_string(tree.own.join("HEAD")).ok()?;
    Some(head.trim_end().strip_prefix("ref: refs/heads/")?.to_owned())
}

impl Request {
    fn parse(input: &[u8]) -> Option<Self> {
        let mut words = input.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
        let mut request = Self::default();
        while let Some(kind) = words.next() {
            let mut next = || words.next();
            match kind.as_str() {
                "config" => request.config.push((next()?, next()?)),
                "global" => request.global.push((next()?, next()?)),
                "objects" => request.objects = Some(next()?),
                "exclude" => request.exclude.push(next()?),
                "shallow" => request.shallow = Some(next()?),
                "mirror" => request.mirrors.push(next()?),
                "ref" => drop(request.refs.insert(next()?, next()?)),
                "local" => drop(request.locals.insert(next()?, (next()?, next()?))),
                "checkout" => {
                    let (branch, commit, files, snapshot) = (next()?, next()?, next()?, next()?);
                    request.checkout = Some(Checkout { branch, commit, files, snapshot });
                }
                "" => {}
                _ => return None,
            }
        }
        let mut ids = request.refs.values().chain(request.locals.values().map(|(id, _)| id));
        ids.all(|id| is_id(id)).then_some(request)
    }

    fn write_settings(&self, git: &Git, tree: &WorkingTree) -> Result<(), GitFailure> {
        if let Some(objects) = &self.objects {
            use_objects(&tree.common, objects).map_err(|error| failed("use the host's objects", &error))?;
        }
        if let Some(shallow) = &self.shallow {
            let file = tree.common.join("shallow");
            let written = if shallow.is_empty() { fs::remove_file(file) } else { fs::write(file, shallow) };
            written.map_err(|error| failed("write where the history ends", &error))?;
        }
        let listing = git.run(&["config", "--local", "--list", "-z"])?.output;
        let listing = String::from_utf8_lossy(&listing);
        let known: HashSet<(&str, &str)> =
            listing.split('\0').filter_map(|entry| entry.split_once('\n')).collect();
        let own = std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default();
        for (key, value) in &self.config {
            let value = &value.replace(GUEST_PLACE, &own);
            // Git lists the name of a setting in lower case, but for the part in the middle.
            let is_known = known.iter().any(|(name, known)| name.eq_ignore_ascii_case(key) && known == value);
            if !is_known {
                git.run(&["config", "--local", "--replace-all", key.as_str(), value.as_str()])?;
            }
        }
        for (key, value) in &self.global {
            let known = git.line(&["config", "--global", "--get", key.as_str()]).unwrap_or_default();
            if known != *value {
                git.run(&["config", "--global", "--replace-all", key.as_str(), value.as_str()])?;
            }
        }
        self.write_exclude(tree).map_err(|error| failed("write what git ignores", &error))
    }

    fn write_exclude(&self, tree: &WorkingTree) -> io::Result<()> {
        let file = tree.common.join("info/exclude");
        let text = fs::read_to_string(&file).unwrap_or_default();
        let known: HashSet<&str> = text.lines().collect();
        let mut new = text.clone();
        for line in self.exclude.iter().filter(|line| !known.contains(line.as_str())) {
            if !new.is_empty() && !new.ends_with('\n') {
                new.push('\n');
            }
            new.push_str(line);
            new.push('\n');
        }
        if new == text {
            return Ok(());
        }
        fs::create_dir_all(tree.common.join("info"))?;
        fs::write(file, new)
    }

    /// Writes all refs. Returns the local branches that are where the host has them.
    fn write_refs(&self, git: &Git, tree: &WorkingTree) -> Result<Vec<&str>, GitFailure> {
        let answer = git.run(&["for-each-ref", "--format=%(objectname) %(refname)"])?;
        let text = String::from_utf8_lossy(&answer.output);
        let now: BTreeMap<&str, &str> =
            text.lines().filter_map(|line| line.split_once(' ')).map(|(id, name)| (name, id)).collect();
        let is_mirrored = |name: &str| self.mirrors.iter().any(|prefix| name.starts_with(prefix));
        let held: HashSet<String> = tree.with_linked().iter().flat_map(held_branches).collect();
        // A tag that is there may be the agent's own, and stays as it is.
        let is_tag_there = |name: &str| name.starts_with("refs/tags/") && now.contains_key(name);
        let wanted =
            self.refs.iter().filter(|(name, _)| !is_tag_there(name) && !collides(name, &now, &is_mirrored));
        let mut wanted: BTreeMap<String, &str> =
            wanted.map(|(name, id)| (name.clone(), id.as_str())).collect();
        let mut followed = Vec::new();
        for (branch, (id, delivered)) in &self.locals {
            let local = format!("refs/heads/{branch}");
            let sent = now.get(format!("{HOST}{branch}").as_str());
            match now.get(local.as_str()) {
                Some(own) if own == id => followed.push(branch.as_str()),
                // Inside, the agent has moved it, or works on it.
                Some(own) if (Some(own) != sent && own != delivered) || held.contains(branch) => {}
                // Inside, the agent has deleted it.
                None if sent.is_some() => {}
                // Where it stands, another branch may be in the way of it.
                _ if collides(&local, &now, &is_mirrored) => {}
                _ => {
                    wanted.insert(local, id);
                    followed.push(branch.as_str());
                }
            }
        }
        if now.is_empty() && !tree.common.join("packed-refs").exists() {
            write_packed(tree, &wanted)?;
            return Ok(followed);
        }
        let mut changes = String::from("start\0");
        for name in now.keys().filter(|name| is_mirrored(name) && !self.refs.contains_key(**name)) {
            changes += &format!("delete {name}\0\0");
        }
        let deletions = changes.clone();
        for (name, id) in wanted.iter().filter(|(name, id)| now.get(name.as_str()) != Some(*id)) {
            changes += &format!("update {name}\0{id}\0\0");
        }
        if changes == "start\0" {
            return Ok(followed);
        }
        let update = ["update-ref", "--stdin", "-z"];
        let together = git.feed(&update, format!("{changes}prepare\0commit\0").as_bytes());
        if together.is_ok() || deletions == "start\0" {
            return together.map(|_| followed);
        }
        // A branch may have become a directory of branches: what is gone goes first.
        git.feed(&update, format!("{deletions}prepare\0commit\0").as_bytes())?;
        git.feed(&update, format!("{}prepare\0commit\0", changes.replace(&deletions, "start\0")).as_bytes())
            .map(|_| followed)
    }
}

/// Whether a ref is a directory for another that stays, or lies in one.
fn collides(name: &str, refs: &BTreeMap<&str, &str>, is_mirrored: &dyn Fn(&str) -> bool) -> bool {
    let mut directories = name.match_indices('/').map(|(end, _)| &name[..end]);
    let below = format!("{name}/");
    let from = refs.range(below.as_str()..).map(|(other, _)| *other);
    let mut inside = from.take_while(|other| other.starts_with(&below));
    directories.any(|directory| refs.contains_key(directory) && !is_mirrored(directory))
        || inside.any(|other| !is_mirrored(other))
}

/// All refs of a new repository at once: one file instead of one each.
fn write_packed(tree: &WorkingTree, refs: &BTreeMap<String, &str>) -> Result<(), GitFailure> {
    let mut text = String::from("# pack-refs with: sorted \n");
    for (name, id) in refs {
        text += &format!("{id} {name}\n");
    }
    fs::write(tree.common.join("packed-refs"), text).map_err(|error| failed("write the refs", &error))
}

impl Checkout {
    /// Whether the host has everything that the working tree holds.
    fn is_recorded(&self, git: &Git, tree: &WorkingTree) -> Result<bool, GitFailure> {
        let status = Status::read(git)?;
        if status.is_clean() {
            return Ok(self.snapshot.is_empty() && !status.has_unreadable);
        }
        let (snapshot, left_out) = snapshot::record(tree, git, &status)?;
        let commit = snapshot.map(|snapshot| snapshot.commit).unwrap_or_default();
        Ok(commit == self.snapshot && left_out.is_empty() && !status.has_unreadable)
    }

    fn check_out(&self, git: &Git, tree: &WorkingTree) -> Result<(), GitFailure> {
        for name in OPERATION_FILES {
            let _ = fs::remove_file(tree.own.join(name));
        }
        for name in OPERATION_DIRECTORIES {
            let _ = fs::remove_dir_all(tree.own.join(name));
        }
        let reason = "palisade: the host's branch";
        if self.branch.is_empty() {
            git.run(&["update-ref", "-m", reason, "--no-deref", "HEAD", self.commit.as_str()])?;
        } else {
            let branch = format!("refs/heads/{}", self.branch);
            git.run(&["update-ref", "-m", reason, branch.as_str(), self.commit.as_str()])?;
            git.run(&["symbolic-ref", "-m", reason, "HEAD", branch.as_str()])?;
        }
        let files = if self.files.is_empty() { &self.commit } else { &self.files };
        // Git LFS has all files that the host has; the others are not asked for at any server.
        const READ: [&str; 10] = [
            "-c",
            "checkout.workers=0",
            "-c",
            "checkout.thresholdForParallelism=200",
            "-c",
            "lfs.url=https://127.0.0.1:9/",
            "-c",
            "lfs.transfer.maxretries=1",
            "read-tree",
            "--reset",
        ];
        git.run(&[&READ[..], &["-u", files.as_str()]].concat())?;
        self.remove_untracked(git, tree)?;
        if !self.files.is_empty() {
            // What the commit does not have is not committed inside either.
            git.run(&["read-tree", "-m", self.commit.as_str()])?;
        }
        // It says with its exit code that files differ, which they may.
        let _ = git.run(&["update-index", "-q", "--refresh"]);
        Ok(())
    }

    /// Removes files that the host does not have. They are archived.
    fn remove_untracked(&self, git: &Git, tree: &WorkingTree) -> Result<(), GitFailure> {
        let answer = git.run(&["ls-files", "--others", "--exclude-standard", "-z"])?;
        let paths =
            answer.output.split(|byte| *byte == 0).filter(|path| !path.is_empty() && !path.ends_with(b"/"));
        for path in paths.map(|path| Path::new(OsStr::from_bytes(path))) {
            let _ = fs::remove_file(tree.path.join(path));
            for directory in path.ancestors().skip(1).filter(|directory| !directory.as_os_str().is_empty()) {
                if fs::remove_dir(tree.path.join(directory)).is_err() {
                    break;
                }
            }
        }
        Ok(())
    }
}
