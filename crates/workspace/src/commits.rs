//! Decides what becomes of the commits on one branch of a sandbox.
//!
//! What the last exchange left decides before ancestry does: a commit that the user has amended, squashed or dropped
//! since does not come back, and only what the sandbox has made since the last delivery counts. This file only decides;
//! it asks no git and moves no ref.

use crate::refs::ObjectId;

/// What the last exchange left of a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BranchMemory {
    /// Where the host's branch was.
    pub(crate) host: ObjectId,
    /// The commit of the sandbox's branch that was delivered.
    pub(crate) sandbox: ObjectId,
}

/// How a branch stands now to where it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Movement {
    Same,
    /// It has commits on top.
    Ahead,
    /// What it was at is not in it any more.
    Rewritten,
}

/// How the host's branch stands to the sandbox's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    Same,
    /// All that the sandbox's branch has is in the host's.
    HostHasAll,
    /// All that the host's branch has is in the sandbox's.
    SandboxHasAll,
    /// Both have something that the other lacks.
    Diverged,
}

/// All that the decision depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BranchFacts {
    /// How the two stand to each other; `None` when the host has no such branch.
    pub(crate) relation: Option<Relation>,
    /// How each has moved since the last exchange; `None` when there was none.
    pub(crate) since: Option<Since>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Since {
    pub(crate) host: Movement,
    pub(crate) sandbox: Movement,
    /// Whether the sandbox's branch holds a commit that was on the host's branch then and is not any more.
    pub(crate) holds_dropped: bool,
    /// Whether all that the host's branch would lose by taking the sandbox's came from this sandbox, and no remote has it.
    pub(crate) may_rewind: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitDecision {
    /// There is nothing to bring: the host has it, or had it and the user decided otherwise.
    Nothing,
    /// The host's branch moves to the sandbox's commit.
    Move,
    /// The host has no such branch and never had one: it is made.
    Create,
    /// They are shown on a branch of their own until the user decides.
    Wait(WaitReason),
}

/// Why commits wait for the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitReason {
    /// Both sides have commits.
    Diverged,
    /// The user has rewritten the branch. The sandbox's newer commits are replayed on it where that works.
    HostRewrote,
    /// The user has deleted the branch.
    HostDeleted,
    /// The sandbox has rewritten commits that are not its own alone to rewrite.
    SandboxRewrote,
}

/// Decides for one branch.
pub(crate) fn decide(facts: &BranchFacts) -> CommitDecision {
    use CommitDecision::{Create, Move, Nothing, Wait};
    let Some(relation) = facts.relation else {
        return match facts.since {
            None => Create,
            // It was there, and the user has deleted it.
            Some(Since { sandbox: Movement::Same, .. }) => Nothing,
            Some(_) => Wait(WaitReason::HostDeleted),
        };
    };
    if matches!(relation, Relation::Same | Relation::HostHasAll) {
        return Nothing;
    }
    let Some(since) = facts.since else {
        return match relation {
            Relation::SandboxHasAll => Move,
            _ => Wait(WaitReason::Diverged),
        };
    };
    match (since.sandbox, since.host) {
        (Movement::Same, _) => Nothing,
        // A fast-forward, unless it would bring back what the user has taken away.
        _ if relation == Relation::SandboxHasAll && !since.holds_dropped => Move,
        (Movement::Rewritten, Movement::Same) if since.may_rewind => Move,
        (Movement::Rewritten, Movement::Same) => Wait(WaitReason::SandboxRewrote),
        (_, Movement::Rewritten) => Wait(WaitReason::HostRewrote),
        (_, Movement::Same | Movement::Ahead) => Wait(WaitReason::Diverged),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CommitDecision::{Create, Move, Nothing, Wait};

    fn since(host: Movement, sandbox: Movement) -> Since {
        Since { host, sandbox, holds_dropped: false, may_rewind: false }
    }

    fn decided(relation: Option<Relation>, since: Option<Since>) -> CommitDecision {
        decide(&BranchFacts { relation, since })
    }

    const APART: Option<Relation> = Some(Relation::Diverged);
    const BEHIND: Option<Relation> = Some(Relation::SandboxHasAll);

    #[test]
    fn a_host_that_stayed_where_it_was_moves_forward() {
        assert_eq!(decided(BEHIND, Some(since(Movement::Same, Movement::Ahead))), Move);
        assert_eq!(decided(BEHIND, None), Move);
    }

    #[test]
    fn commits_of_both_sides_wait() {
        assert_eq!(decided(APART, Some(since(Movement::Ahead, Movement::Ahead))), Wait(WaitReason::Diverged));
        assert_eq!(decided(APART, None), Wait(WaitReason::Diverged));
        // After a merge on the host the sandbox went on from where it was.
        assert_eq!(decided(APART, Some(since(Movement::Same, Movement::Ahead))), Wait(WaitReason::Diverged));
    }

    #[test]
    fn what_the_user_rewrote_or_dropped_stays_so() {
        for relation in [APART, BEHIND] {
            let nothing_since = Since { holds_dropped: true, ..since(Movement::Rewritten, Movement::Same) };
            assert_eq!(decided(relation, Some(nothing_since)), Nothing);
            let more_since = Since { holds_dropped: true, ..since(Movement::Rewritten, Movement::Ahead) };
            assert_eq!(decided(relation, Some(more_since)), Wait(WaitReason::HostRewrote));
        }
        // The agent has put its work on top of what the user made of it.
        assert_eq!(decided(BEHIND, Some(since(Movement::Rewritten, Movement::Rewritten))), Move);
    }

    #[test]
    fn a_deleted_branch_is_not_made_again_and_a_new_one_is_made() {
        assert_eq!(decided(None, None), Create);
        assert_eq!(decided(None, Some(since(Movement::Rewritten, Movement::Same))), Nothing);
        let more = Some(since(Movement::Rewritten, Movement::Ahead));
        assert_eq!(decided(None, more), Wait(WaitReason::HostDeleted));
    }

    #[test]
    fn a_sandbox_rewrites_only_what_is_its_own() {
        let rewritten = since(Movement::Same, Movement::Rewritten);
        assert_eq!(decided(APART, Some(rewritten)), Wait(WaitReason::SandboxRewrote));
        assert_eq!(decided(APART, Some(Since { may_rewind: true, ..rewritten })), Move);
        let moved_on = Since { may_rewind: true, ..since(Movement::Ahead, Movement::Rewritten) };
        assert_eq!(decided(APART, Some(moved_on)), Wait(WaitReason::Diverged));
    }

    #[test]
    fn what_the_host_has_is_nothing_new() {
        for relation in [Relation::Same, Relation::HostHasAll] {
            for movement in [Movement::Same, Movement::Ahead, Movement::Rewritten] {
                assert_eq!(decided(Some(relation), Some(since(movement, movement))), Nothing);
            }
            assert_eq!(decided(Some(relation), None), Nothing);
        }
    }
}
