//! The program inside every sandbox, normally its first process. The host talks to nothing else in there.
//!
//! One thread, one poll loop ([`guest`]), one byte stream to the host ([`link`]). Everything a stream of the
//! protocol can be implements [`stream::Stream`]: a command, a look at a session, a connection, a watch on
//! listening ports. Memory is bounded: by credit for what comes in, by the link's congestion for what goes out.

#![cfg_attr(not(test), no_main)]

mod archive;
mod arguments;
mod bridge;
mod changes;
mod command;
mod dial;
mod egress;
mod guest;
mod leaving;
mod link;
mod listeners;
mod loopback;
mod mounts;
mod pipe;
mod processes;
mod repository;
mod scrollback;
mod selfcheck;
mod session;
mod session_changes;
mod shutdown;
mod spawn;
mod startup;
mod stream;
mod system;
mod terminal;

use palisade_protocol::MOUNTS_DIFFER;
use palisade_seccomp::SetIdBits;
use std::io::Write;

/// Words before all others, where nobody has put this program behind the system call filter: it does so itself.
const CONFINED: &str = "confined";
/// The same, where a directory of the host's can be written.
const CONFINED_BOUND: &str = "confined-bound";

/// The C library's entry, not Rust's: the runtime's own start reads and parses the memory map to guard the stack's end,
/// which takes as long as the rest of our start and serves nobody in here.
#[cfg(not(test))]
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "the one symbol the C library calls")]
extern "C" fn main(_count: libc::c_int, _words: *const *const libc::c_char) -> libc::c_int {
    libc::c_int::from(start())
}

#[cfg_attr(test, allow(dead_code, reason = "the test harness has a start of its own"))]
fn start() -> u8 {
    let mut words = std::env::args_os().skip(1).peekable();
    let confined = match words.next_if(|word| word == CONFINED || word == CONFINED_BOUND) {
        Some(word) if word == CONFINED_BOUND => palisade_seccomp::confine(SetIdBits::Denied),
        Some(_) => palisade_seccomp::confine(SetIdBits::Allowed),
        None => Ok(()),
    };
    if confined.is_ok() && words.peek().is_some_and(|word| word == "selfcheck") {
        return report(&selfcheck::faults());
    }
    if words.peek().is_some_and(|word| word == "bridge") {
        // Nobody reads why it is none: whoever asked for it sees that the guest does not answer.
        return u8::from(bridge::cross().is_err());
    }
    if words.next_if(|word| word == "repository").is_some() {
        return repository::run(words);
    }
    let arguments = confined.map_err(|error| error.to_string()).and_then(|()| arguments::parse(words));
    if let Ok(arguments) = &arguments {
        let differing = mounts::differing(&arguments.expected);
        if !differing.is_empty() {
            let _ = writeln!(
                std::io::stderr(),
                "palisade-guest: not what the host opened: {}",
                differing.join(", ")
            );
            startup::wait_for_host(arguments.endpoint);
            return MOUNTS_DIFFER;
        }
    }
    let outcome = arguments
        .and_then(|arguments| startup::prepare(&arguments).map_err(|error| format!("cannot start: {error}")));
    match outcome {
        Ok(guest) => guest.run(),
        Err(message) => {
            // Whoever started us by hand still has a standard error; nobody else reads it.
            let _ = writeln!(std::io::stderr(), "palisade-guest: {message}");
            2
        }
    }
}

#[cfg_attr(test, allow(dead_code, reason = "the test harness has a start of its own"))]
fn report(faults: &[String]) -> u8 {
    if faults.is_empty() {
        return 0;
    }
    let _ = writeln!(std::io::stderr(), "palisade-guest: not isolated: {}", faults.join(", "));
    1
}
