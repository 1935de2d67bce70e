//! All that a sandbox's repository holds, asked for at once: one command inside, however many working trees there are.

use crate::exchange::{Fetched, Known};
use crate::inside::{InsideError, MOST_BRANCHES, Snapshot, Tree, Trees};
use crate::refs::{BranchName, ObjectId, SandboxRefs};
use palisade_core::GuestPath;

const WHAT: &str = "looking at the work";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Survey {
    pub trees: Trees,
    /// What the main working tree is at, unless it is at no branch.
    pub main: Option<BranchName>,
    /// One for each of the working trees, in the same order.
    pub snapshots: Vec<Snapshot>,
}

impl Tree<'_> {
    /// Records what is not committed in any working tree, and tells everything that may come home.
    pub async fn survey(&self) -> Result<Survey, InsideError> {
        let script = concat!(include_str!("inside/record.sh"), include_str!("inside/survey.sh"));
        Survey::parse(&self.script(WHAT, script, &[]).await?)
    }
}

impl Survey {
    /// What the sandbox says that a fetch of a branch brings.
    pub fn said(&self, branch: &BranchName) -> Option<Fetched> {
        let (_, commits) = self.trees.branches.iter().find(|(name, _)| name == branch)?;
        let snapshot = self.snapshots.iter().find(|snapshot| snapshot.branch == *branch);
        let work = snapshot.and_then(|snapshot| snapshot.work.clone());
        Some(Fetched { branch: branch.clone(), commits: commits.clone(), work })
    }

    /// Whether a branch has gone on between this look and what is known now: its loose work would be of one moment and
    /// its commits of another.
    pub fn is_outdated(&self, refs: &SandboxRefs, known: &Known) -> bool {
        let mut with_work = self.snapshots.iter().filter(|snapshot| snapshot.work.is_some());
        with_work.any(|snapshot| known.get(&refs.commits(&snapshot.branch)) != Some(&snapshot.head))
    }

    /// `branch NAME ID`, `main PATH BRANCH HEAD WORK` and `tree PATH BRANCH HEAD WORK`. Names that we do not take are the sandbox's own business;
    /// they cannot come home.
    fn parse(words: &[String]) -> Result<Self, InsideError> {
        let answer = || InsideError::Answer { what: WHAT };
        let id = |word: &String| ObjectId::parse(word).ok_or_else(answer);
        let mut survey = Survey::default();
        let mut rest = words;
        loop {
            rest = match rest {
                [] => return Ok(survey),
                [kind, name, commit, rest @ ..] if kind == "branch" => {
                    match BranchName::new(name) {
                        Ok(name) => survey.trees.branches.push((name, id(commit)?)),
                        Err(_) => survey.trees.unnameable += 1,
                    }
                    rest
                }
                [kind, path, branch, head, work, rest @ ..] if kind == "main" || kind == "tree" => {
                    match (GuestPath::new(path), BranchName::new(branch)) {
                        (Ok(path), Ok(branch)) => {
                            let work = if work == "-" { None } else { Some(id(work)?) };
                            survey.snapshots.push(Snapshot { branch: branch.clone(), head: id(head)?, work });
                            if kind == "main" {
                                survey.main = Some(branch.clone());
                            }
                            survey.trees.trees.push((path, branch));
                        }
                        _ => survey.trees.unnameable += 1,
                    }
                    rest
                }
                _ => return Err(answer()),
            };
            if survey.trees.branches.len() > MOST_BRANCHES || survey.trees.trees.len() > MOST_BRANCHES {
                return Err(InsideError::TooMany { what: "branches", most: MOST_BRANCHES });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Survey, InsideError> {
        Survey::parse(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn work_of_a_branch_that_has_gone_on_is_outdated() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let refs = SandboxRefs::new(palisade_core::SandboxName::new("box").unwrap());
        let main = refs.commits(&BranchName::new("main").unwrap());
        let known = |id: &str| Known::from_iter([(main.clone(), ObjectId::parse(id).unwrap())]);
        let loose = parse(&format!("main /workspace main {a} {b}")).unwrap();
        assert!(!loose.is_outdated(&refs, &known(&a)));
        assert!(loose.is_outdated(&refs, &known(&b)));
        let clean = parse(&format!("main /workspace main {a} -")).unwrap();
        assert!(!clean.is_outdated(&refs, &known(&b)), "nothing of it is older than its commits");
    }

    #[test]
    fn branches_and_trees_are_read_and_nonsense_is_refused() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let text = format!("branch main {a} branch -x {b} main /workspace main {a} {b} tree /x two {b} -");
        let (main, two) = (BranchName::new("main").unwrap(), BranchName::new("two").unwrap());
        let id = |text: &str| ObjectId::parse(text).unwrap();
        let path = |text: &str| GuestPath::new(text).unwrap();
        let expected = Survey {
            trees: Trees {
                branches: vec![(main.clone(), id(&a))],
                trees: vec![(path("/workspace"), main.clone()), (path("/x"), two.clone())],
                unnameable: 1,
            },
            main: Some(main.clone()),
            snapshots: vec![
                Snapshot { branch: main, head: id(&a), work: Some(id(&b)) },
                Snapshot { branch: two, head: id(&b), work: None },
            ],
        };
        assert_eq!(parse(&text).unwrap(), expected);
        for wrong in ["branch main", "tree /workspace main", "what a b c", &format!("branch main {a}x")] {
            assert!(matches!(parse(wrong), Err(InsideError::Answer { .. })), "{wrong}");
        }
        let many = vec![format!("branch x {a}"); MOST_BRANCHES + 1].join(" ");
        assert!(matches!(parse(&many), Err(InsideError::TooMany { .. })));
    }
}
