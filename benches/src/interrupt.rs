//! Ctrl-C and its like: remembered, and asked for between runs, so that everything that was started is stopped on
//! the ordinary way out.

use crate::failure::Failure;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{SignalKind, signal};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From here on the signals no longer end this process by themselves.
pub fn watch() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut signals = {
        let _context = runtime.enter();
        [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()]
            .into_iter()
            .map(signal)
            .collect::<std::io::Result<Vec<_>>>()?
    };
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(async {
            let [first, second, third] = &mut signals[..] else { return };
            tokio::select! { _ = first.recv() => {}, _ = second.recv() => {}, _ = third.recv() => {} }
            INTERRUPTED.store(true, Ordering::Relaxed);
            // The signals stay caught, so that a second Ctrl-C does not cut the clean-up short.
            std::future::pending::<()>().await;
        });
    })?;
    Ok(())
}

pub fn check() -> Result<(), Failure> {
    if INTERRUPTED.load(Ordering::Relaxed) { Err(Failure::Interrupted) } else { Ok(()) }
}
