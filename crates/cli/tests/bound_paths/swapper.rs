//! What a sandbox does to a directory that it may write, to win a race.

use rustix::fs::{CWD, RenameFlags};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exchanges a directory and a link to the secret as fast as it can, until it is dropped. A sandbox that has the project
/// bound does the same by the same system call.
pub(crate) struct Swapper {
    end: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<u64>>,
}

impl Swapper {
    pub(crate) fn start(one: PathBuf, other: PathBuf) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&end);
        let swap = move || {
            let mut swaps = 0;
            while !ended.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                swaps += 1;
                // The directory stays long enough, at times, for a start to get past its first look.
                let longest = if swaps % 2 == 0 { 500 } else { 150 };
                std::thread::sleep(std::time::Duration::from_micros(swaps % 11 * longest));
            }
            swaps
        };
        Self { end, thread: Some(std::thread::spawn(swap)) }
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        let swaps = self.thread.take().map(|thread| thread.join().unwrap());
        assert!(swaps.unwrap_or_default() > 0);
    }
}
