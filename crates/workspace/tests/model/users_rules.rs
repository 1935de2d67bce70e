//! Nothing of the user's changes that the report does not name, and what the user has changed is never touched.

use crate::look::{Look, Outcome};
use crate::memory::Memory;
use crate::users_state::TreeState;
use crate::world::World;
use palisade_workspace::{CommitsOutcome, FilesOutcome, SyncReport, TreeReport, WaitingCommits, WhyWaiting};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What a command did to the user's things, as it says.
struct Named<'a> {
    world: &'a World,
    report: Option<&'a SyncReport>,
    memory: &'a Memory,
    before: &'a Look,
    after: &'a Look,
}

pub(crate) fn check(
    world: &World,
    outcome: &Outcome,
    (before, after): (&Look, &Look),
    memory: &Memory,
) -> Vec<String> {
    let report = match outcome {
        Outcome::Synced(report) => Some(&report.sync),
        // It could not report anything.
        Outcome::Interrupted => return Vec::new(),
        _ => None,
    };
    let named = Named { world, report, memory, before, after };
    let mut findings = named.check_refs();
    if before.user.stash != after.user.stash {
        findings.push("the stash has changed".into());
    }
    let tops = |look: &Look| look.user.trees.iter().map(|tree| tree.top.clone()).collect::<Vec<_>>();
    if tops(before) != tops(after) {
        findings.push("the user's working trees are others".into());
        return findings;
    }
    for (old, new) in before.user.trees.iter().zip(&after.user.trees) {
        findings.extend(named.check_tree(old, new));
    }
    findings
}

impl Named<'_> {
    fn check_refs(&self) -> Vec<String> {
        let (old, new) = (&self.before.user.refs, &self.after.user.refs);
        let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        let own = names.into_iter().filter(|name| !name.starts_with("refs/palisade/"));
        let changed = own.filter(|name| old.get(*name) != new.get(*name));
        let mut findings = Vec::new();
        for name in changed {
            let (from, to) = (old.get(name).map(String::as_str), new.get(name).map(String::as_str));
            let why_not = match name.split('/').nth(1) {
                Some("heads") => self.why_not_branch(&name["refs/heads/".len()..], from, to),
                Some("tags") => (!self.is_made_tag(&name["refs/tags/".len()..], from, to))
                    .then(|| "is not named".to_owned()),
                _ => Some("is the user's alone".to_owned()),
            };
            findings.extend(why_not.map(|why| format!("{name} went from {from:?} to {to:?}, which {why}")));
        }
        findings
    }

    fn is_made_tag(&self, name: &str, from: Option<&str>, to: Option<&str>) -> bool {
        let tags = self.report.into_iter().flat_map(|report| &report.tags);
        from.is_none()
            && tags.into_iter().any(|tag| tag.made && tag.name == name && to == Some(tag.id.as_str()))
    }

    /// Why a branch must not change as it did.
    fn why_not_branch(&self, name: &str, from: Option<&str>, to: Option<&str>) -> Option<String> {
        let Some(report) = self.report else { return Some("no report names".into()) };
        let full = format!("refs/heads/{name}");
        let is_put = |id: &str| self.memory.shown.get(&full).is_some_and(|shown| shown.contains(id));
        if to.is_none() {
            let removed = report.removed_branches.iter().any(|removed| removed == name);
            return match (removed, from.is_some_and(is_put) || self.memory.is_interrupted) {
                (true, true) => None,
                (true, false) => Some("removes what the user has put there".into()),
                (false, _) => Some("is not named as removed".into()),
            };
        }
        if name.starts_with("palisade/") && from.is_some_and(|id| !is_put(id)) && !self.memory.is_interrupted
        {
            return Some("moves it from where the user has put it".into());
        }
        for branch in &report.branches {
            match &branch.commits {
                CommitsOutcome::Moved { dropped, .. } if branch.name.as_str() == name => {
                    let same =
                        |id: Option<&palisade_workspace::ObjectId>| id.map(|id| id.as_str().to_owned());
                    if same(branch.from.as_ref()).as_deref() != from
                        || same(branch.to.as_ref()).as_deref() != to
                    {
                        return Some("is named otherwise".into());
                    }
                    return self.why_not_moved(&full, from, to, *dropped);
                }
                CommitsOutcome::Merged { .. } if branch.name.as_str() == name => return None,
                CommitsOutcome::Created { name: created, .. } if created == name => {
                    let again = self.memory.deleted.contains(&full);
                    return again.then(|| "makes a branch again that the user has deleted".into());
                }
                CommitsOutcome::Waiting(WaitingCommits { branch, .. }) if branch == name => return None,
                _ => {}
            }
        }
        Some("is not named".into())
    }

    /// Commits leave a branch only where a sync has left it, and if the agent has made them and no remote has them.
    fn why_not_moved(
        &self,
        name: &str,
        from: Option<&str>,
        to: Option<&str>,
        dropped: u32,
    ) -> Option<String> {
        let (from, to) = (from?, to?);
        let top = self.world.host();
        let lost = self.world.user_git.text(&top, &["log", "--format=%s", &format!("{to}..{from}")]);
        let lost: Vec<&str> = lost.lines().collect();
        if lost.len() != dropped as usize {
            return Some(format!("drops {lost:?}, and {dropped} are named"));
        }
        if lost.is_empty() {
            return self.brings_back(name, from, to).then(|| "brings back what the user has dropped".into());
        }
        if self.memory.left.get(name).map(String::as_str) != Some(from) {
            return Some(format!("drops {lost:?} from where no sync has left it"));
        }
        let pushed = ["log", "--format=%s", &format!("{to}..{from}"), "--not", "--remotes"];
        let own = self.world.user_git.text(&top, &pushed);
        let is_own =
            own.lines().count() == lost.len() && lost.iter().all(|subject| subject.starts_with("agent"));
        (!is_own).then(|| format!("drops {lost:?}, which is not the agent's alone"))
    }

    /// Whether a commit comes back that the branch had when the last exchange ended, and that the user has dropped.
    fn brings_back(&self, name: &str, from: &str, to: &str) -> bool {
        let Some(left) = self.memory.left.get(name).filter(|left| *left != from) else { return false };
        let new = |without: &[&str]| {
            let words = [&["rev-list", to, "--not", from][..], without].concat();
            self.world.user_git.text(&self.world.host(), &words)
        };
        new(&[]) != new(&[left.as_str()])
    }

    /// What a sync says of the files of a working tree.
    fn tree_report(&self, top: &Path) -> TreeReport {
        let trees = self.report.into_iter().flat_map(|report| &report.trees);
        let mut all = TreeReport::default();
        for outcome in trees {
            if let FilesOutcome::Applied { place, report } = &outcome.files
                && place.as_path() == top
            {
                all.written.extend(report.written.iter().cloned());
                all.merged.extend(report.merged.iter().cloned());
                all.taken_back.extend(report.taken_back.iter().cloned());
            }
        }
        all
    }

    /// What a commit has, by path: the mode and the id.
    fn committed(&self, commit: Option<&str>) -> BTreeMap<String, (String, String)> {
        let Some(commit) = commit else { return BTreeMap::new() };
        let listed = self.world.user_git.text(&self.world.host(), &["ls-tree", "-r", "-z", commit]);
        let entries = listed.split_terminator('\0').filter_map(|entry| entry.split_once('\t'));
        let word = |state: &str, at: usize| state.split(' ').nth(at).unwrap_or("").to_owned();
        // A commit may change nothing but the mode of a file.
        entries.map(|(state, path)| (path.to_owned(), (word(state, 0), word(state, 2)))).collect()
    }

    /// The commit of a merge that was left with its conflicts in a working tree.
    fn merged_with_conflicts(&self, tree: &TreeState) -> Option<&str> {
        let branches = self.report.into_iter().flat_map(|report| &report.branches);
        branches.into_iter().find_map(|branch| match &branch.commits {
            CommitsOutcome::Waiting(WaitingCommits {
                why: WhyWaiting::Conflicts(_), branch: shown, ..
            }) if tree.branch() == Some(branch.name.full().as_str()) => {
                self.after.user.refs.get(&format!("refs/heads/{shown}")).map(String::as_str)
            }
            _ => None,
        })
    }

    fn check_tree(&self, old: &TreeState, new: &TreeState) -> Vec<String> {
        let mut findings = Vec::new();
        let mut found = |text: String| findings.push(format!("{}: {text}", old.top.display()));
        if old.head != new.head {
            found(format!("HEAD went from {:?} to {:?}", old.head, new.head));
        }
        let changed = changed_paths(&old.files, &new.files);
        let staged = changed_paths(&old.index, &new.index);
        if changed.is_empty() && staged.is_empty() {
            return findings;
        }
        let (head, new_head) = (self.committed(old.commit.as_deref()), self.committed(new.commit.as_deref()));
        let merge = self.merged_with_conflicts(old).map(|id| self.committed(Some(id)));
        let moves = |path: &str| {
            head.get(path) != new_head.get(path)
                || merge.as_ref().is_some_and(|merge| merge.get(path) != head.get(path))
        };
        let id_in = |commit: &BTreeMap<String, (String, String)>, path: &str| {
            commit.get(path).map(|(_, id)| id.clone())
        };
        let report = self.tree_report(&old.top);
        let is_listed =
            |paths: &[std::path::PathBuf], path: &str| paths.iter().any(|it| it == Path::new(path));
        for path in staged {
            if !moves(path) && !self.memory.is_interrupted {
                found(format!(
                    "the index has changed at {path}, and no commit has: {:?} {:?}",
                    old.index.get(path),
                    new.index.get(path)
                ));
            }
        }
        for path in changed {
            let is_written = is_listed(&report.written, path) || is_listed(&report.taken_back, path);
            let is_merged = is_listed(&report.merged, path);
            if !(is_written || is_merged || moves(path) || self.memory.is_interrupted) {
                found(format!("{path} has changed and is not named"));
            }
            if is_merged || merge.is_some() {
                continue;
            }
            let before = old.files.get(path).map(|(_, id)| id);
            // What a start has sent in may come back changed, and only then.
            let is_known = |id: &String| {
                self.memory.laid.contains(id)
                    || (self.memory.sent.contains(id) && !is_listed(&report.taken_back, path))
            };
            let is_users = before.is_some_and(|id| id_in(&head, path).as_ref() != Some(id) && !is_known(id));
            if is_users {
                found(format!("{path} was the user's and has changed"));
            }
            let index = old.index.get(path).and_then(|states| states.first()?.split(' ').nth(1));
            let is_staged = index != id_in(&head, path).as_deref();
            let is_same = index == id_in(&new_head, path).as_deref();
            if is_staged && !is_same && !self.memory.is_interrupted {
                found(format!("{path} was staged by the user and has changed"));
            }
        }
        findings
    }
}

fn changed_paths<'a, T: PartialEq>(
    old: &'a BTreeMap<String, T>,
    new: &'a BTreeMap<String, T>,
) -> BTreeSet<&'a str> {
    let all = old.keys().chain(new.keys());
    all.filter(|path| old.get(*path) != new.get(*path)).map(String::as_str).collect()
}
