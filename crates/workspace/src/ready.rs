//! Git that was started before its input was known, and waits for it. Where one question follows from the answer to
//! another, the start of a process is most of what the second costs; so it is started while the first is at work.
//!
//! Such a process has done nothing yet but read its configuration. One that is not asked in the end is ended with the
//! last copy of its repository, and so is one whose owner is killed: its input ends, and it goes.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::process::Child;

/// The processes that wait, shared by all that is one repository.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ready(Arc<Mutex<Vec<Waiting>>>);

/// A process, and the words and variables of its own that it was started with.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) child: Child,
}

impl Ready {
    fn waiting(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn keep(&self, process: Waiting) {
        self.waiting().push(process);
    }

    /// One that was started with just these, for one use.
    pub(crate) fn take(&self, arguments: &[OsString], environment: &[(OsString, OsString)]) -> Option<Child> {
        let mut waiting = self.waiting();
        let meant = |process: &Waiting| process.arguments == arguments && process.environment == environment;
        let at = waiting.iter().position(meant)?;
        let mut child = waiting.swap_remove(at).child;
        // Somebody may have ended it, and what it is asked would be lost.
        matches!(child.try_wait(), Ok(None)).then_some(child)
    }

    pub(crate) fn take_all(&self) -> impl Iterator<Item = Child> + use<> {
        std::mem::take(&mut *self.waiting()).into_iter().map(|process| process.child)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting().is_empty()
    }
}
