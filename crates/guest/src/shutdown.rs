//! The end: a request to every process, some time, force, and only then this process itself.

use crate::processes::Household;
use std::time::{Duration, Instant};

/// How often to look whether everybody is gone, for ends that are not reported to us.
const TICK: Duration = Duration::from_millis(20);
/// How long what was killed may take to disappear.
const KILLED: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Shutdown {
    household: Household,
    kill_at: Instant,
    give_up_at: Instant,
}

impl Shutdown {
    /// Asks everybody of the household to end.
    pub(crate) fn begin(household: Household, grace: Duration) -> Self {
        let now = Instant::now();
        // A grace beyond what the clock can say is as good as a day.
        let kill_at = now.checked_add(grace).unwrap_or(now + Duration::from_secs(86_400));
        household.signal(libc::SIGTERM);
        household.hang_up();
        // A stopped process would not notice.
        household.signal(libc::SIGCONT);
        Self { household, kill_at, give_up_at: kill_at + KILLED }
    }

    /// A new request may only shorten the grace.
    pub(crate) fn hasten(&mut self, grace: Duration) {
        if let Some(sooner) = Instant::now().checked_add(grace)
            && sooner < self.kill_at
        {
            self.kill_at = sooner;
            self.give_up_at = sooner + KILLED;
        }
    }

    /// Whether everybody is gone, as far as we can have it.
    pub(crate) fn advance(&mut self) -> bool {
        if self.household.is_empty() {
            return true;
        }
        let now = Instant::now();
        if now >= self.kill_at {
            // Again and again: somebody may have been born in between.
            self.household.signal(libc::SIGKILL);
        }
        now >= self.give_up_at
    }

    pub(crate) fn due(&self) -> Instant {
        Instant::now() + TICK
    }
}

/// Leaves nobody behind, at once.
pub(crate) fn kill_everybody(mut reap: impl FnMut()) {
    let household = Household::mine();
    let give_up_at = Instant::now() + KILLED;
    loop {
        household.signal(libc::SIGKILL);
        reap();
        if household.is_empty() || Instant::now() >= give_up_at {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
