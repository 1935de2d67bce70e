//! The names of spans and of their attributes: a contract with whoever reads the traces. What is not named here is
//! never exported, so that nothing of a user's command, environment or secrets can get into a trace by accident.

use crate::names;

names! {
    /// Every span.
    SPANS:
    /// One command of the program, from its settings to its exit code; shown as `palisade run`, `palisade start`, …
    COMMAND = "palisade";
    /// A sandbox is recorded and its directories are made.
    CREATE = "sandbox.create";
    /// A sandbox is brought up: for `start` by its keeper, for `run` by the command itself.
    START = "sandbox.start";
    /// A sandbox is ended.
    STOP = "sandbox.stop";
    /// A sandbox and everything in it is removed.
    REMOVE = "sandbox.remove";
    /// What a crash has left is finished or undone.
    GC = "sandbox.gc";
    /// A method is tried for real.
    PREFLIGHT = "sandbox.preflight";
    /// A command inside a sandbox, from the request to its end; of a named session, until the command looks away.
    EXEC = "sandbox.exec";
    /// In the keeper: the guest is started and has answered.
    BOOT = "sandbox.boot";
    /// In the keeper: its whole life. It is exported when the sandbox ends.
    KEEP = "sandbox.keep";
    /// In the keeper: the guest is shut down and everything is put away.
    SHUTDOWN = "sandbox.shutdown";
}

names! {
    /// Every attribute.
    ATTRIBUTES:
    /// The isolation method.
    SELECT = "sandbox.select";
    /// Where the choice of the method came from.
    SELECT_ORIGIN = "sandbox.select.origin";
    /// The sandbox's id.
    ID = "sandbox.id";
    /// The sandbox's name; a one-off run has none.
    NAME = "sandbox.name";
    /// Whether a command inside has a terminal.
    TTY = "sandbox.exec.tty";
    /// Why a keeper ended: `stop-asked`, `terminate-signal`, `guest-gone` or `violation`.
    KEEPER_END = "sandbox.keeper.end";
    /// The exit code; any but 0 makes the span an error.
    EXIT_CODE = "process.exit.code";
    /// The code of the error that Palisade reported; it makes the span an error.
    ERROR = "error.type";
}

/// Gives a span another name than its own. Not an attribute.
pub const RENAMED: &str = "otel.name";
