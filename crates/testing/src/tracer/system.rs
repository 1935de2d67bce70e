//! The few calls of ptrace(2) that the tracer needs. All are made by one thread, because the kernel knows a tracer by
//! its thread.
#![allow(unsafe_code, reason = "neither std nor rustix offers ptrace")]

use super::Step;
use std::io;

/// Not in the bindings for this platform: a stop that was asked for, or a process that is new to us.
const EVENT_STOP: i32 = 128;

/// A process or thread that was waited for, and what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// It has ended; the raw status.
    Ended(i32),
    /// It is about to make, or has just made, a system call.
    Call,
    /// It has made a process or a thread of this number.
    Made(i32),
    Executed,
    /// It stands still because it is new, or because it was asked to.
    Paused,
    /// It is about to be sent this signal.
    Signal(i32),
}

/// Waits for the next event of this thread's own tracees and children; `None` when there are none left, or, unless
/// `block`, when nothing has happened.
pub(super) fn next_event(block: bool) -> Option<(i32, Event)> {
    let mut status = 0;
    let flags = libc::__WALL | libc::__WNOTHREAD | if block { 0 } else { libc::WNOHANG };
    // SAFETY: the status is written to a variable of our own.
    let id = unsafe { libc::waitpid(-1, &raw mut status, flags) };
    if id <= 0 {
        return None;
    }
    if !libc::WIFSTOPPED(status) {
        return Some((id, Event::Ended(status)));
    }
    let signal = libc::WSTOPSIG(status);
    let event = match status >> 16 {
        0 if signal == libc::SIGTRAP | 0x80 => Event::Call,
        0 => Event::Signal(signal),
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
            Event::Made(message(id))
        }
        libc::PTRACE_EVENT_EXEC => Event::Executed,
        EVENT_STOP => Event::Paused,
        _ => Event::Signal(0),
    };
    Some((id, event))
}

fn message(id: i32) -> i32 {
    let mut number: libc::c_ulong = 0;
    // SAFETY: the number is written to a variable of our own, of the size the kernel expects.
    let done = unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, id, 0, &raw mut number) };
    if done == 0 { number as i32 } else { 0 }
}

/// Begins to trace a thread, and every process and thread that it makes from now on. It goes on running.
pub(super) fn seize(id: i32) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEEXEC;
    // SAFETY: only numbers go in.
    check(unsafe { libc::ptrace(libc::PTRACE_SEIZE, id, 0, options) })
}

/// Asks a running tracee to stand still; says whether it is still a tracee.
pub(super) fn interrupt(id: i32) -> bool {
    // SAFETY: only numbers go in.
    let asked = check(unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, id, 0, 0) });
    !asked.is_err_and(|error| error.raw_os_error() == Some(libc::ESRCH))
}

/// Lets a tracee that stands still go on to its next system call; it may have been killed meanwhile.
pub(super) fn go_on(id: i32, signal: i32) {
    // SAFETY: only numbers go in.
    unsafe { libc::ptrace(libc::PTRACE_SYSCALL, id, 0, signal) };
}

/// Lets a tracee that stands still go its own way; it may have been killed meanwhile.
pub(super) fn release(id: i32, signal: i32) {
    // SAFETY: only numbers go in.
    unsafe { libc::ptrace(libc::PTRACE_DETACH, id, 0, signal) };
}

/// What the call is that a tracee is about to make; `None` after a call, and for one that leaves no trace.
pub(super) fn step(id: i32) -> Option<Step> {
    // SAFETY: a plain structure of integers, for which zero is a value.
    let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::ptrace_syscall_info>();
    // SAFETY: the kernel writes at most `size` bytes to a variable of ours.
    let written = unsafe { libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, id, size, &raw mut info) };
    if written <= 0 || info.op != libc::PTRACE_SYSCALL_INFO_ENTRY {
        return None;
    }
    // SAFETY: the kernel said that it has filled this member.
    let entry = unsafe { info.u.entry };
    Step::of(entry.nr, &entry.args)
}

pub(super) fn kill(process: i32) {
    // SAFETY: only numbers go in.
    unsafe { libc::kill(process, libc::SIGKILL) };
}

/// Lets a process that has stopped itself run again.
pub(super) fn wake(process: i32) {
    // SAFETY: only numbers go in.
    unsafe { libc::kill(process, libc::SIGCONT) };
}

/// Waits until a child of this thread has stopped itself.
pub(super) fn wait_until_stopped(process: i32) {
    let mut status = 0;
    // SAFETY: the status is written to a variable of our own.
    let found = unsafe { libc::waitpid(process, &raw mut status, libc::WUNTRACED) };
    assert!(found == process && libc::WIFSTOPPED(status), "the traced command did not wait for its tracer");
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
