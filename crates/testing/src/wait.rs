//! Waiting for what a test cannot be told of: the condition is asked again and again, up to a deadline.

use std::time::{Duration, Instant};

/// Long for a person, and long enough for a machine that runs many tests at once.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Returns once `condition` holds, and fails the test when it does not within [`PATIENCE`].
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "did not happen within {} s: {what}", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(10));
    }
}
