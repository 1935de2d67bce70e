//! The user's own terminal: its size, raw mode, and putting it back whatever happens.

use palisade_protocol::Size;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use std::sync::{Mutex, PoisonError};

/// The mode to go back to, kept where a panic can find it.
static ORIGINAL: Mutex<Option<Termios>> = Mutex::new(None);

pub(crate) fn is_interactive() -> bool {
    isatty(rustix::stdio::stdin()) && isatty(rustix::stdio::stdout())
}

/// Whether somebody can be asked: questions go to stderr, since stdout is data.
pub(crate) fn can_ask() -> bool {
    isatty(rustix::stdio::stdin()) && isatty(rustix::stdio::stderr())
}

/// Whether our standard input is `/dev/null`: then there is nothing to relay, ever.
pub(crate) fn has_no_input() -> bool {
    const NULL_DEVICE: (u32, u32) = (1, 3);
    rustix::fs::fstat(rustix::stdio::stdin()).is_ok_and(|stat| {
        let device = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::CharacterDevice
            && device == NULL_DEVICE
    })
}

pub(crate) fn size() -> Size {
    let ask = |descriptor| tcgetwinsize(descriptor).ok().filter(|size| size.ws_row > 0 && size.ws_col > 0);
    match ask(rustix::stdio::stdout()).or_else(|| ask(rustix::stdio::stdin())) {
        Some(size) => Size { rows: size.ws_row, columns: size.ws_col },
        None => Size { rows: 24, columns: 80 },
    }
}

/// Raw mode until dropped.
#[derive(Debug)]
pub(crate) struct RawMode(());

impl RawMode {
    pub(crate) fn enter() -> std::io::Result<Self> {
        let stdin = rustix::stdio::stdin();
        let original = tcgetattr(stdin)?;
        let mut raw = original.clone();
        raw.make_raw();
        *ORIGINAL.lock().unwrap_or_else(PoisonError::into_inner) = Some(original);
        tcsetattr(stdin, OptionalActions::Now, &raw)?;
        Ok(Self(()))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    if let Some(original) = ORIGINAL.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // The terminal may be gone; then there is nothing to put back.
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &original);
    }
}

/// A panic tells its message on a terminal that works again, and ends with the code for internal errors.
pub(crate) fn restore_on_panic() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        restore();
        tell(panic);
        crate::telemetry::finish(palisade_core::ExitCode::Internal as crate::Status);
        std::process::exit(palisade_core::ExitCode::Internal as i32);
    }));
}
