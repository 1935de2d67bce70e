//! Commands that the host has let go of. They are asked to end, and killed when they do not: a git that is killed
//! outright leaves its locks behind, and nobody could use the repository any more.

use crate::processes;
use rustix::process::Pid;
use std::time::{Duration, Instant};

/// What a command has to put its things away.
const GRACE: Duration = Duration::from_secs(1);

/// Their leaders, and when they are killed.
#[derive(Debug, Default)]
pub(crate) struct Leaving(Vec<(Pid, Instant)>);

impl Leaving {
    /// Asks all of a session that a living child leads, its background jobs included.
    pub(crate) fn ask(&mut self, leader: Pid) {
        // A stopped process would not notice.
        processes::signal_session(leader, &[libc::SIGTERM, libc::SIGCONT]);
        self.0.push((leader, Instant::now() + GRACE));
    }

    /// With the last of its session, a leader's number is free for others.
    pub(crate) fn child_ended(&mut self, pid: Pid) {
        self.0.retain(|(leader, _)| *leader != pid || processes::session_lives(pid));
    }

    /// Kills those whose time is over.
    pub(crate) fn tidy(&mut self) {
        let now = Instant::now();
        self.0.retain(|(leader, kill_at)| {
            let stays = now < *kill_at;
            if !stays {
                processes::kill_session(*leader);
            }
            stays
        });
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.0.iter().map(|(_, kill_at)| *kill_at).min()
    }
}
