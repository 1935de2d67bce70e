//! What a keeper notices in passing, for whoever acts on it: that something moves on clients' streams, and that there
//! are new orders. A frame costs one look at a flag while nobody listens.

use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub struct Pulse {
    listening: AtomicBool,
    moved: Notify,
    orders: Notify,
}

impl Pulse {
    /// Something passed.
    pub(super) fn beat(&self) {
        if self.listening.load(Ordering::Relaxed) && self.listening.swap(false, Ordering::Relaxed) {
            self.moved.notify_one();
        }
    }

    pub(super) fn give_orders(&self) {
        self.orders.notify_one();
    }

    /// From now on a beat counts, also one that nobody waits for yet.
    pub(crate) fn listen(&self) {
        self.listening.store(true, Ordering::Relaxed);
    }

    /// Waits for a beat.
    pub(crate) async fn beaten(&self) {
        self.listen();
        self.moved.notified().await;
    }

    /// What passed until now counts for nothing.
    pub(crate) fn forget(&self) {
        self.listening.store(false, Ordering::Relaxed);
        // Enabled and dropped, it takes the beat that may be waiting with it.
        let waiting = std::pin::pin!(self.moved.notified());
        let _ = waiting.enable();
    }

    /// Waits for orders, also for those that came while nobody waited.
    pub(crate) async fn ordered(&self) {
        self.orders.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    async fn comes(what: impl Future<Output = ()>) -> bool {
        tokio::time::timeout(Duration::from_millis(50), what).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_passes_while_somebody_listens_is_a_beat() {
        let pulse = Pulse::default();
        pulse.beat();
        assert!(!comes(pulse.beaten()).await, "nobody listened");
        pulse.beat();
        pulse.beat();
        assert!(comes(pulse.beaten()).await, "a wait was given up, and the beat came after");
        assert!(!comes(pulse.beaten()).await, "one beat, not two");
        pulse.beat();
        pulse.forget();
        assert!(!comes(pulse.beaten()).await, "it was to be forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn orders_wait_for_whoever_takes_them() {
        let pulse = Pulse::default();
        pulse.give_orders();
        assert!(comes(pulse.ordered()).await && !comes(pulse.ordered()).await);
    }
}
