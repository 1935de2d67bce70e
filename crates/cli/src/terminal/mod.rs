//! The user's own terminal: its size, raw mode, and putting it back whatever happens.
//!
//! To be put back are the attributes of the line and the modes that the program inside has switched on. What to do is
//! kept in one place from which a regular end, a panic and a suspension do it, and with a [`watch`], which does it
//! when this program can't any more.

pub(crate) mod watch;

use palisade_protocol::Size;
use palisade_terminal::Modes;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use watch::Watch;

/// Where a panic can find it, too.
static BORROWED: Mutex<Option<Borrowed>> = Mutex::new(None);

/// A terminal in raw mode, and how it was.
struct Borrowed {
    original: Termios,
    raw: Termios,
    modes: Modes,
    /// What the watch was told last.
    undo: Vec<u8>,
    watch: Option<Watch>,
}

fn borrowed() -> MutexGuard<'static, Option<Borrowed>> {
    BORROWED.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn is_interactive() -> bool {
    isatty(rustix::stdio::stdin()) && isatty(rustix::stdio::stdout())
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
        let original = tcgetattr(rustix::stdio::stdin())?;
        let mut raw = original.clone();
        raw.make_raw();
        let watch = Watch::start(&original);
        set(&raw)?;
        *borrowed() = Some(Borrowed { original, raw, modes: Modes::default(), undo: Vec::new(), watch });
        Ok(Self(()))
    }

    /// For a terminal that takes no output: only the line is put back, and the watch does the rest when it can.
    pub(crate) fn leave_to_the_watch(self) {
        if let Some(mut borrowed) = borrowed().take() {
            let _ = set(&borrowed.original);
            if let Some(watch) = borrowed.watch.take() {
                watch.let_go();
            }
        }
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        if let Some(borrowed) = borrowed().take() {
            borrowed.give_back();
        }
    }
}

impl Borrowed {
    fn give_back(mut self) {
        self.lay_down();
        if let Some(watch) = self.watch.take() {
            watch.dismiss();
        }
    }

    fn lay_down(&self) {
        // The terminal may be gone; then there is nothing to put back.
        show(&self.modes.undo());
        let _ = set(&self.original);
    }
}

/// Follows what is about to be shown on a terminal in raw mode.
pub(crate) fn follow(output: &[u8]) {
    let mut borrowed = borrowed();
    let Some(borrowed) = borrowed.as_mut() else { return };
    borrowed.modes.see(output);
    let undo = borrowed.modes.undo();
    if undo != borrowed.undo {
        if let Some(watch) = &mut borrowed.watch {
            watch.tell(&undo);
        }
        borrowed.undo = undo;
    }
}

/// Stops this program as Ctrl-Z would, with the terminal in order meanwhile. [`resume`] takes it up again.
pub(crate) fn suspend() {
    if let Some(borrowed) = borrowed().as_ref() {
        borrowed.lay_down();
    }
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
}

/// After a stop of any kind: whether the terminal had to be made raw again, and its screen is to be drawn anew.
pub(crate) fn resume() -> bool {
    let borrowed = borrowed();
    let Some(borrowed) = borrowed.as_ref() else { return false };
    let raw = tcgetattr(rustix::stdio::stdin()).is_ok_and(|now| same_line(&now, &borrowed.raw));
    if raw {
        return false;
    }
    let _ = set(&borrowed.raw);
    show(&borrowed.modes.redo());
    true
}

/// Whether the attributes that raw mode changes are the same.
fn same_line(one: &Termios, other: &Termios) -> bool {
    one.input_modes == other.input_modes
        && one.output_modes == other.output_modes
        && one.control_modes == other.control_modes
        && one.local_modes == other.local_modes
}

fn set(attributes: &Termios) -> std::io::Result<()> {
    Ok(tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, attributes)?)
}

/// Past the standard library's buffer and its lock, which a thread that waits for the terminal may hold.
fn show(mut text: &[u8]) {
    while !text.is_empty() {
        match rustix::io::write(rustix::stdio::stdout(), text) {
            Ok(count) => text = &text[count..],
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// A panic tells its message on a terminal that works again, and ends with the code for internal errors.
pub(crate) fn restore_on_panic() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // Whoever holds it may be the one that panics; then the watch notices the end.
        let borrowed = match BORROWED.try_lock() {
            Ok(mut borrowed) => borrowed.take(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(borrowed) = borrowed {
            borrowed.give_back();
        }
        tell(panic);
        crate::telemetry::finish(palisade_core::ExitCode::Internal as crate::Status);
        std::process::exit(palisade_core::ExitCode::Internal as i32);
    }));
}

#[cfg(test)]
mod tests;
