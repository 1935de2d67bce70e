//! When to run an errand, from what was heard: a pure state machine that is told the time.
//!
//! What is heard comes from inside and may be a lie, or come without end. So errands have a floor between them that
//! grows with the time they take: whatever a sandbox does, the host spends at most a fifth of its time on it. What is
//! heard while an errand runs gives reason to the next one, so nothing is lost.

use super::When;
use palisade_core::SyncTrigger;
use std::time::{Duration, Instant};

/// How long branches have to be at rest: one act of git's often moves several.
const SETTLE: Duration = Duration::from_millis(300);
/// How long an errand is put off at most while branches go on moving.
const LATEST: Duration = Duration::from_secs(5);
/// The least between the end of an errand and the next one, and the most that a long one asks for.
const FLOOR: Duration = Duration::from_secs(2);
const CEILING: Duration = Duration::from_secs(120);
/// An errand is followed by so many times its own length of rest.
const REST: u32 = 4;
/// After a start there is other work first; what was left from before can wait so long.
const FROM_BEFORE: Duration = Duration::from_secs(10);
/// The first pause after a failure; each one doubles it.
const RETRY: Duration = Duration::from_secs(5);
const LONGEST_RETRY: Duration = Duration::from_secs(300);
/// So often a failed errand is tried again without a new reason.
const RETRIES: u32 = 6;

/// What was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// What was there when the listening began.
    Before,
    Branches,
    /// Branches of the host's have moved.
    Host,
    /// Something went in or out.
    Movement,
    SessionEnded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Wait for something to be heard.
    Listen,
    Until(Instant),
    Run(SyncTrigger),
}

#[derive(Debug, Clone, Copy)]
struct Reason {
    trigger: SyncTrigger,
    due: Instant,
    /// It is never put off beyond this.
    latest: Option<Instant>,
}

#[derive(Debug)]
pub(crate) struct Planner {
    when: When,
    reason: Option<Reason>,
    not_before: Option<Instant>,
    running: Option<(SyncTrigger, Instant)>,
    failures: u32,
}

impl Planner {
    pub(crate) fn new(when: When) -> Self {
        Self { when, reason: None, not_before: None, running: None, failures: 0 }
    }

    pub(crate) fn hear(&mut self, heard: Heard, now: Instant) {
        let fresh = match (self.when, heard) {
            (When::OnCommit, Heard::Before) => {
                Reason { trigger: SyncTrigger::Commit, due: now + FROM_BEFORE, latest: None }
            }
            (When::OnCommit, Heard::Branches | Heard::Host) => {
                let latest = self.reason.and_then(|reason| reason.latest).unwrap_or(now + LATEST);
                Reason { trigger: SyncTrigger::Commit, due: now + SETTLE, latest: Some(latest) }
            }
            (When::OnCommit, Heard::Movement | Heard::SessionEnded) => return,
            (When::OnIdle { .. }, Heard::SessionEnded) => {
                Reason { trigger: SyncTrigger::Ended, due: now + SETTLE, latest: Some(now + SETTLE) }
            }
            (When::OnIdle { .. }, Heard::Host) => return,
            (When::OnIdle { after }, Heard::Before | Heard::Branches | Heard::Movement) => {
                // The end of a session is not put off by what others do.
                if self.reason.is_some_and(|reason| reason.trigger == SyncTrigger::Ended) {
                    return;
                }
                Reason { trigger: SyncTrigger::Idle, due: now + after, latest: None }
            }
        };
        self.reason = Some(fresh);
    }

    /// What to do now. Whoever gets [`Plan::Run`] says [`Planner::begun`].
    pub(crate) fn plan(&self, now: Instant) -> Plan {
        let (None, Some(reason)) = (self.running, self.reason) else { return Plan::Listen };
        let due = reason.latest.map_or(reason.due, |latest| reason.due.min(latest));
        let due = self.not_before.map_or(due, |earliest| due.max(earliest));
        if due <= now { Plan::Run(reason.trigger) } else { Plan::Until(due) }
    }

    pub(crate) fn begun(&mut self, now: Instant) {
        self.running = self.reason.take().map(|reason| (reason.trigger, now));
    }

    pub(crate) fn ended(&mut self, success: bool, now: Instant) {
        let Some((trigger, begun)) = self.running.take() else { return };
        let rest = (now.saturating_duration_since(begun) * REST).clamp(FLOOR, CEILING);
        self.not_before = Some(now + rest);
        if success {
            self.failures = 0;
            return;
        }
        self.failures = self.failures.saturating_add(1);
        let pause = RETRY.saturating_mul(1 << (self.failures - 1).min(16)).min(LONGEST_RETRY).max(rest);
        self.not_before = Some(now + pause);
        if self.failures <= RETRIES && self.reason.is_none() {
            self.reason = Some(Reason { trigger, due: now + pause, latest: None });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: When = When::OnIdle { after: Duration::from_secs(30) };

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// Plays what is heard at which second; the errands that ran, with the second they began at.
    fn played(when: When, heard: &[(f64, Heard)], takes: f64, until: f64) -> Vec<(f64, SyncTrigger)> {
        let start = Instant::now();
        let mut planner = Planner::new(when);
        let (mut runs, mut ends, mut heard) = (Vec::new(), None, heard.iter().peekable());
        let mut tenths = 0u32;
        while f64::from(tenths) / 10.0 <= until {
            let second = f64::from(tenths) / 10.0;
            let now = start + Duration::from_millis(u64::from(tenths) * 100);
            while let Some((_, what)) = heard.next_if(|(at, _)| *at <= second) {
                planner.hear(*what, now);
            }
            if ends.is_some_and(|end| end <= now) {
                planner.ended(true, now);
                ends = None;
            }
            if let Plan::Run(trigger) = planner.plan(now) {
                planner.begun(now);
                runs.push((second, trigger));
                ends = Some(now + seconds(takes));
            }
            tenths += 1;
        }
        runs
    }

    #[test]
    fn a_commit_is_brought_soon_and_a_burst_of_them_once() {
        let burst: Vec<_> = (0..10).map(|step| (1.0 + f64::from(step) / 10.0, Heard::Branches)).collect();
        assert_eq!(played(When::OnCommit, &burst, 0.1, 60.0), [(2.2, SyncTrigger::Commit)]);
    }

    #[test]
    fn a_commit_while_an_errand_runs_gives_reason_to_the_next() {
        let heard = [(0.0, Heard::Branches), (0.5, Heard::Branches)];
        let runs = played(When::OnCommit, &heard, 1.0, 60.0);
        assert_eq!(runs, [(0.3, SyncTrigger::Commit), (5.3, SyncTrigger::Commit)]);
    }

    #[test]
    fn branches_that_never_rest_are_brought_all_the_same_and_not_too_often() {
        let flood: Vec<_> = (0..6000).map(|step| (f64::from(step) / 10.0, Heard::Branches)).collect();
        let runs = played(When::OnCommit, &flood, 0.5, 600.0);
        let gaps = runs.windows(2).map(|pair| pair[1].0 - pair[0].0);
        assert!(runs.len() > 100 && gaps.clone().all(|gap| gap >= 2.4), "{runs:?}");
        // A slow repository is left in peace for longer.
        let slow = played(When::OnCommit, &flood, 10.0, 600.0);
        assert!((10..=13).contains(&slow.len()), "{slow:?}");
    }

    #[test]
    fn idle_is_when_nothing_moved_for_a_while_and_comes_once() {
        let heard = [(0.0, Heard::Movement), (20.0, Heard::Branches), (40.0, Heard::Movement)];
        assert_eq!(played(IDLE, &heard, 0.1, 600.0), [(70.0, SyncTrigger::Idle)]);
    }

    #[test]
    fn the_end_of_a_session_is_not_waited_out() {
        let heard = [(0.0, Heard::Movement), (5.0, Heard::SessionEnded), (5.1, Heard::Movement)];
        assert_eq!(played(IDLE, &heard, 0.1, 600.0), [(5.3, SyncTrigger::Ended)]);
    }

    #[test]
    fn sessions_are_nothing_to_those_who_wait_for_commits() {
        let heard = [(0.0, Heard::Before), (3.0, Heard::Movement), (4.0, Heard::SessionEnded)];
        assert_eq!(played(When::OnCommit, &heard, 0.1, 60.0), [(10.0, SyncTrigger::Commit)]);
    }

    #[test]
    fn a_failure_is_tried_again_more_and_more_rarely_and_then_given_up() {
        let mut now = Instant::now();
        let mut planner = Planner::new(When::OnCommit);
        planner.hear(Heard::Branches, now);
        let mut pauses = Vec::new();
        loop {
            match planner.plan(now) {
                Plan::Listen => break,
                Plan::Until(due) => {
                    pauses.push((due - now).as_secs_f64());
                    now = due;
                }
                Plan::Run(_) => {
                    planner.begun(now);
                    planner.ended(false, now);
                }
            }
        }
        assert_eq!(pauses, [0.3, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0]);
        // A new reason counts again, after the pause.
        planner.hear(Heard::Branches, now);
        assert_eq!(planner.plan(now), Plan::Until(now + LONGEST_RETRY));
        planner.begun(now + LONGEST_RETRY);
        planner.ended(true, now + LONGEST_RETRY);
        assert_eq!(planner.failures, 0);
    }
}
