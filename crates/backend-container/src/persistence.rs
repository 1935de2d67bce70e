//! Waiting for work of an engine's that may take minutes, as long as the engine shows that it lives.
//!
//! Podman copies an image before it makes the first container whose ids are not the image's: once, and for an image of
//! gigabytes for longer than anything else may take.

use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Persistence {
    /// After this the engine is asked for a sign of life, and again as long as it works.
    pub(crate) look: Duration,
    /// How long the sign may take.
    pub(crate) sign: Duration,
    /// How long all of it may take.
    pub(crate) end: Duration,
}

impl Persistence {
    /// What the work brings, or after how long it was given up. `slow` is called when it takes longer than a
    /// look, and the engine lives.
    pub(crate) async fn wait<T, S: Future<Output = bool>>(
        self,
        work: impl Future<Output = T>,
        lives: impl Fn() -> S,
        slow: impl FnOnce(),
    ) -> Result<T, Duration> {
        let began = Instant::now();
        let (mut work, mut slow) = (pin!(work), Some(slow));
        loop {
            if let Ok(done) = timeout(self.look, work.as_mut()).await {
                return Ok(done);
            }
            let lives = timeout_at((Instant::now() + self.sign).min(began + self.end), lives());
            tokio::select! {
                done = work.as_mut() => return Ok(done),
                sign = lives => if sign != Ok(true) || began.elapsed() >= self.end {
                    return Err(began.elapsed());
                }
            }
            if let Some(slow) = slow.take() {
                slow();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::future::{pending, ready};

    const SHORT: Persistence = Persistence {
        look: Duration::from_millis(10),
        sign: Duration::from_millis(20),
        end: Duration::from_secs(20),
    };

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn work_at_hand_asks_for_no_sign() {
        let done =
            run(SHORT.wait(ready(7), || -> std::future::Ready<bool> { panic!("asked") }, || panic!("slow")));
        assert_eq!(done, Ok(7));
    }

    #[test]
    fn work_goes_on_while_the_engine_lives() {
        let (signs, slow) = (Cell::new(0), Cell::new(0));
        let (asked, enough) = (tokio::sync::Notify::new(), 4);
        let lives = || {
            signs.set(signs.get() + 1);
            if signs.get() == enough {
                asked.notify_one();
            }
            ready(true)
        };
        let done = run(SHORT.wait(asked.notified(), lives, || slow.set(slow.get() + 1)));
        assert_eq!((done, signs.get(), slow.get()), (Ok(()), enough, 1));
    }

    #[test]
    fn an_engine_without_a_sign_is_given_up() {
        assert!(run(SHORT.wait(pending::<()>(), || ready(false), || panic!("slow"))).is_err());
        let after = run(SHORT.wait(pending::<()>(), pending::<bool>, || {})).unwrap_err();
        assert!((SHORT.look + SHORT.sign..SHORT.end).contains(&after), "{after:?}");
    }

    #[test]
    fn there_is_an_end_also_for_one_that_lives() {
        let short = Persistence { end: Duration::from_millis(50), ..SHORT };
        let after = run(short.wait(pending::<()>(), || ready(true), || {})).unwrap_err();
        assert!(after >= short.end, "{after:?}");
    }
}
