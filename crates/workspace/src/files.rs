//! Decides, path by path, what becomes of the files of a sandbox's working tree.
//!
//! What both sides had in common last is the base. A path that only the sandbox changed is written on the host; a path
//! that the user changed is never touched; a path that both changed is a conflict, and the user's file stays. This file
//! only decides; it reads and writes nothing.

use crate::tree_diff::{EntryMode, TreeEntry};

/// What is in a place: nothing, or a file.
pub(crate) type Content = Option<TreeEntry>;

/// What stands in a place of the host's working tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HostFile {
    Content(Content),
    /// A directory, or something that git does not record.
    Other,
}

/// What is known of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathFacts {
    /// What both sides had in common last.
    pub(crate) base: Content,
    /// The file in the sandbox.
    pub(crate) sandbox: Content,
    /// What the sandbox's commit has.
    pub(crate) sandbox_head: Content,
    /// What the host's commit has now.
    pub(crate) host_head: Content,
    /// What it will have once the commits have moved; the same when none do.
    pub(crate) new_head: Content,
    /// The file on the host.
    pub(crate) host: HostFile,
    /// What the host's index has, when that differs from its commit.
    pub(crate) staged: Option<Content>,
    /// Whether commits that wait have changed this path: what is not committed there waits with them.
    pub(crate) waits_with_commits: bool,
    /// What syncs have written here without a commit; everything else that is not committed is the user's.
    pub(crate) written: Vec<Content>,
    /// What a run that was interrupted may have written here, into the file or the index.
    pub(crate) interrupted: Vec<Content>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileDecision {
    /// The host's file stays, and there is nothing to report.
    Keep,
    /// Both sides have the same, which is what they have in common from now on.
    Equal,
    /// The host's file becomes this.
    Write(Content),
    /// The host's file becomes what its commit has: the sandbox has taken back what was written there before.
    TakeBack(Content),
    /// Both sides have changed it. Where commits move past it, the file becomes what they have.
    Conflict,
    /// It waits for the commits that it belongs to.
    Wait,
}

impl PathFacts {
    /// Whether the commits that move have changed it.
    pub(crate) fn is_committed_change(&self) -> bool {
        self.host_head != self.new_head
    }

    /// Whether the sandbox has something here that is not committed there.
    fn is_uncommitted(&self) -> bool {
        self.sandbox != self.sandbox_head
    }

    /// Whether the file is what an earlier exchange left, or was about to write.
    fn host_is_from_sync(&self) -> bool {
        self.host_is(&self.base) || self.interrupted.iter().any(|content| self.host_is(content))
    }

    /// Whether a sync has written the file without a commit.
    fn is_written_by_sync(&self) -> bool {
        self.written.iter().chain(&self.interrupted).any(|content| self.host_is(content))
    }

    /// Whether the file is a change of the user's own: neither the commit has it nor did a sync write it.
    pub(crate) fn host_is_users(&self) -> bool {
        !self.host_is(&self.host_head) && !self.is_written_by_sync()
    }

    /// What the user has staged.
    fn staged_by_user(&self) -> Option<&Content> {
        self.staged.as_ref().filter(|staged| !self.interrupted.contains(staged))
    }

    /// Whether an interrupted run has left something in the index.
    pub(crate) fn has_interrupted_index(&self) -> bool {
        self.staged.as_ref().is_some_and(|staged| self.interrupted.contains(staged))
    }

    fn host_is(&self, content: &Content) -> bool {
        matches!(&self.host, HostFile::Content(host) if host == content)
    }

    /// What the path is to be once the commits have moved past it. `None` when the sandbox has changed something on top
    /// of its own commit that the host's commits have changed, too.
    fn wanted_with_commits(&self) -> Option<&Content> {
        if !self.is_uncommitted() {
            Some(&self.new_head)
        } else if self.new_head == self.sandbox_head || self.new_head == self.sandbox {
            Some(&self.sandbox)
        } else {
            None
        }
    }

    /// Whether commits may move past this path: the user has nothing of his own there.
    pub(crate) fn lets_commits_move(&self) -> bool {
        if !self.is_committed_change() {
            return true;
        }
        let index = self.staged_by_user().is_none_or(|staged| *staged == self.new_head);
        let is_ours = self.host_is(&self.host_head)
            || self.host_is_from_sync()
            || self.host_is(&self.new_head)
            || self.host_is(&self.sandbox);
        // The directory of another repository stays, whatever becomes of the name of its commit.
        index && (is_ours || is_gitlink(&self.host_head))
    }

    /// Decides. Where commits move, [`PathFacts::lets_commits_move`] holds for every path.
    pub(crate) fn decide(&self) -> FileDecision {
        use FileDecision::{Conflict, Equal, Keep, Wait, Write};
        if self.waits_with_commits {
            return if self.is_uncommitted() && !self.host_is(&self.sandbox) { Wait } else { Keep };
        }
        if self.is_committed_change() {
            // What the host's index has there moves along, so only the file matters.
            return match self.wanted_with_commits() {
                Some(wanted) if self.host_is(wanted) => Equal,
                Some(wanted) => Write(wanted.clone()),
                None => Conflict,
            };
        }
        if self.host_is(&self.sandbox) {
            return Equal;
        }
        if self.sandbox == self.host_head {
            // The user has committed the same, and has gone on from there.
            return if self.is_uncommitted() { Keep } else { self.take_back() };
        }
        if is_gitlink(&self.sandbox) || is_gitlink(&self.base) {
            // Only a commit can name another repository's.
            return Keep;
        }
        if !self.is_uncommitted() {
            return self.take_back();
        }
        if self.sandbox == self.base {
            // It was brought once. What the user has made of it since stays so.
            return Keep;
        }
        if self.host_is_from_sync() && self.staged_by_user().is_none() {
            Write(self.sandbox.clone())
        } else {
            Conflict
        }
    }

    /// The sandbox has no change here any more. What a sync wrote for it goes, unless it is the user's by now.
    fn take_back(&self) -> FileDecision {
        let is_written = self.host_is_from_sync() && self.is_written_by_sync();
        let is_written = is_written && !self.host_is(&self.host_head);
        match is_written && self.staged_by_user().is_none() {
            true => FileDecision::TakeBack(self.host_head.clone()),
            false => FileDecision::Keep,
        }
    }
}

fn is_gitlink(content: &Content) -> bool {
    content.as_ref().is_some_and(|entry| entry.mode == EntryMode::Gitlink)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refs::ObjectId;
    use FileDecision::{Conflict, Equal, Keep, TakeBack, Wait, Write};

    fn content(letter: char) -> Content {
        let id = ObjectId::parse(&letter.to_string().repeat(40)).unwrap();
        Some(TreeEntry { mode: EntryMode::File, id })
    }

    /// Facts of a path from letters: what it holds in each place, `-` for nothing.
    fn facts(base: char, sandbox: char, sandbox_head: char, host_head: char, host: char) -> PathFacts {
        let of = |letter: char| if letter == '-' { None } else { content(letter) };
        PathFacts {
            base: of(base),
            sandbox: of(sandbox),
            sandbox_head: of(sandbox_head),
            host_head: of(host_head),
            new_head: of(host_head),
            host: HostFile::Content(of(host)),
            staged: None,
            waits_with_commits: false,
            written: Vec::new(),
            interrupted: Vec::new(),
        }
    }

    fn staged(facts: PathFacts, letter: char) -> PathFacts {
        PathFacts { staged: Some(content(letter)), ..facts }
    }

    #[test]
    fn a_path_that_only_the_sandbox_changed_is_written() {
        assert_eq!(facts('a', 'b', 'a', 'a', 'a').decide(), Write(content('b')));
        assert_eq!(facts('-', 'b', '-', '-', '-').decide(), Write(content('b')));
        assert_eq!(facts('a', '-', 'a', 'a', 'a').decide(), Write(None));
        // Again, on top of what was written before.
        assert_eq!(facts('b', 'c', 'a', 'a', 'b').decide(), Write(content('c')));
        // The user has committed what was written before, and the sandbox went on from there.
        assert_eq!(facts('b', 'c', 'b', 'b', 'b').decide(), Write(content('c')));
        assert_eq!(facts('b', 'c', 'a', 'b', 'b').decide(), Write(content('c')), "from its older commit");
    }

    #[test]
    fn a_path_that_the_user_changed_is_never_touched() {
        assert_eq!(facts('a', 'b', 'a', 'a', 'c').decide(), Conflict);
        assert_eq!(facts('-', 'b', '-', '-', 'c').decide(), Conflict);
        assert_eq!(facts('a', 'b', 'a', 'a', '-').decide(), Conflict);
        assert_eq!(facts('a', 'b', 'a', 'c', 'c').decide(), Conflict, "committed");
        assert_eq!(staged(facts('b', 'c', 'a', 'a', 'b'), 'b').decide(), Conflict, "staged");
        assert_eq!(facts('a', 'a', 'a', 'a', 'c').decide(), Keep);
        let other = PathFacts { host: HostFile::Other, ..facts('-', 'b', '-', '-', '-') };
        assert_eq!(other.decide(), Conflict);
    }

    #[test]
    fn what_was_brought_once_does_not_come_again() {
        assert_eq!(facts('b', 'b', 'a', 'a', 'a').decide(), Keep, "the user has dropped it");
        assert_eq!(facts('b', 'b', 'a', 'c', 'c').decide(), Keep, "the user has changed and committed it");
        assert_eq!(facts('b', 'b', 'a', 'a', 'b').decide(), Equal);
        assert_eq!(facts('b', 'b', 'a', 'b', 'b').decide(), Equal, "the user has committed it");
        assert_eq!(
            facts('a', 'b', 'a', 'b', 'c').decide(),
            Keep,
            "the user has committed the same and gone on"
        );
    }

    /// A sync has written what both sides have in common.
    fn written(facts: PathFacts) -> PathFacts {
        PathFacts { written: vec![facts.base.clone()], ..facts }
    }

    #[test]
    fn what_the_sandbox_took_back_goes_where_the_user_left_it_alone() {
        assert_eq!(written(facts('b', 'a', 'a', 'a', 'b')).decide(), TakeBack(content('a')));
        assert_eq!(written(facts('b', '-', '-', '-', 'b')).decide(), TakeBack(None));
        assert_eq!(written(facts('-', 'a', 'a', 'a', '-')).decide(), TakeBack(content('a')), "removed");
        assert_eq!(written(facts('b', 'a', 'a', 'a', 'c')).decide(), Keep, "edited");
        assert_eq!(staged(written(facts('b', 'a', 'a', 'a', 'b')), 'b').decide(), Keep, "staged");
        assert_eq!(written(facts('b', 'a', 'a', 'b', 'b')).decide(), Keep, "committed");
    }

    #[test]
    fn what_no_sync_has_written_is_not_taken_back() {
        assert_eq!(facts('b', 'a', 'a', 'a', 'b').decide(), Keep, "sent in, or of a commit that was undone");
        assert_eq!(facts('b', '-', '-', '-', 'b').decide(), Keep, "untracked");
        let worked_on = facts('b', 'c', 'a', 'a', 'b');
        assert_eq!((worked_on.decide(), worked_on.host_is_users()), (Write(content('c')), true));
    }

    #[test]
    fn what_an_interrupted_run_has_written_is_not_the_users() {
        let interrupted = |facts| PathFacts { interrupted: vec![content('b')], ..facts };
        assert_eq!(interrupted(facts('a', 'c', 'a', 'a', 'b')).decide(), Write(content('c')));
        assert_eq!(interrupted(facts('a', 'a', 'a', 'a', 'b')).decide(), TakeBack(content('a')));
        assert_eq!(interrupted(facts('a', 'c', 'a', 'a', 'd')).decide(), Conflict);
        let staged_by_it = interrupted(staged(facts('a', 'c', 'a', 'a', 'b'), 'b'));
        assert_eq!(
            (staged_by_it.decide(), staged_by_it.has_interrupted_index()),
            (Write(content('c')), true)
        );
    }

    fn moving(base: char, sandbox: char, heads: (char, char), host: char) -> PathFacts {
        let new_head = if heads.1 == '-' { None } else { content(heads.1) };
        PathFacts {
            new_head: new_head.clone(),
            sandbox_head: new_head,
            ..facts(base, sandbox, heads.1, heads.0, host)
        }
    }

    #[test]
    fn commits_move_past_what_is_not_the_users() {
        assert!(moving('a', 'b', ('a', 'b'), 'a').lets_commits_move());
        assert!(moving('d', 'b', ('a', 'b'), 'd').lets_commits_move(), "written before");
        assert!(moving('a', 'b', ('a', 'b'), 'b').lets_commits_move(), "the same already");
        assert!(moving('a', 'c', ('a', 'b'), 'c').lets_commits_move(), "as it is in the sandbox");
        assert!(!moving('a', 'b', ('a', 'b'), 'c').lets_commits_move(), "edited");
        assert!(!staged(moving('a', 'b', ('a', 'b'), 'a'), 'c').lets_commits_move(), "staged");
        assert!(staged(moving('a', 'b', ('a', 'b'), 'b'), 'b').lets_commits_move(), "the same staged");
        assert!(!moving('-', 'b', ('-', 'b'), 'c').lets_commits_move(), "untracked or ignored");
        assert_eq!(moving('a', 'b', ('a', 'b'), 'a').decide(), Write(content('b')));
        assert_eq!(moving('a', 'c', ('a', 'b'), 'a').decide(), Write(content('c')), "with more on top");
        assert_eq!(moving('a', 'b', ('a', 'b'), 'b').decide(), Equal);
        assert_eq!(moving('a', '-', ('a', '-'), 'a').decide(), Write(None));
    }

    #[test]
    fn what_is_not_committed_waits_with_the_commits_that_it_is_on() {
        let waiting = |facts| PathFacts { waits_with_commits: true, ..facts };
        assert_eq!(waiting(facts('a', 'c', 'b', 'a', 'a')).decide(), Wait);
        assert_eq!(waiting(facts('a', 'b', 'b', 'a', 'a')).decide(), Keep);
    }

    #[test]
    fn a_change_on_top_of_what_the_hosts_commits_changed_is_a_conflict() {
        // The host has `c` where the sandbox still works on top of `a`.
        assert_eq!(facts('a', 'b', 'a', 'c', 'c').decide(), Conflict);
        assert_eq!(facts('a', 'b', 'a', 'b', 'b').decide(), Equal, "the user has committed the same");
        // A merge has made `d` of both sides' commits, and the sandbox has `b` on top of its own.
        let merged = PathFacts { new_head: content('d'), ..facts('a', 'b', 'c', 'a', 'a') };
        assert_eq!((merged.lets_commits_move(), merged.decide()), (true, Conflict));
    }
}
