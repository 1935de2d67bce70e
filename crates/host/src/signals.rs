//! Signals held back while handlers for them are set up.
#![allow(unsafe_code, reason = "pthread_sigmask(3), which neither std nor rustix offers")]

/// Runs `act` with these signals held back for this thread; those that come meanwhile are delivered afterwards. A
/// handler is in place before the library that installs it knows what to do with a signal, and one that came in
/// between would be lost. Holds for the process as long as it has no other thread.
pub fn held_back<T>(signals: &[i32], act: impl FnOnce() -> T) -> T {
    // SAFETY: an all-zero set is valid memory, made a valid empty set, and filled with numbers that sigaddset checks.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    let mut before = set;
    // SAFETY: both sets are ours and live through the call.
    unsafe {
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
    }
    let result = act();
    // SAFETY: `before` was filled by the call above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_comes_meanwhile_is_delivered_afterwards() {
        use std::sync::atomic::{AtomicBool, Ordering};
        static HEARD: AtomicBool = AtomicBool::new(false);
        extern "C" fn hear(_signal: i32) {
            HEARD.store(true, Ordering::SeqCst);
        }
        // SAFETY: the handler only stores to an atomic; the signal goes to this thread alone.
        unsafe { libc::signal(libc::SIGUSR1, hear as *const () as libc::sighandler_t) };
        let raise = || {
            // SAFETY: a signal to this very thread.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR1) };
            HEARD.load(Ordering::SeqCst)
        };
        assert!(!held_back(&[libc::SIGUSR1], raise), "heard while it was held back");
        assert!(HEARD.load(Ordering::SeqCst), "lost");
    }
}
