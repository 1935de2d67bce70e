//! The program inside every sandbox, normally its first process. The host talks to nothing else in there.
//!
//! One thread, one poll loop ([`guest`]), one byte stream to the host ([`link`]). Everything a stream of the
//! protocol can be implements [`stream::Stream`]: a command, a look at a session, a connection, a watch on
//! listening ports. Memory is bounded: by credit for what comes in, by the link's congestion for what goes out.

mod archive;
mod arguments;
mod command;
mod dial;
mod guest;
mod link;
mod listeners;
mod loopback;
mod pipe;
mod processes;
mod scrollback;
mod selfcheck;
mod session;
mod shutdown;
mod spawn;
mod startup;
mod stream;
mod system;
mod terminal;

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|word| word == "selfcheck") {
        return report(&selfcheck::faults());
    }
    let outcome = arguments::parse(std::env::args_os().skip(1))
        .and_then(|arguments| startup::prepare(&arguments).map_err(|error| format!("cannot start: {error}")));
    match outcome {
        Ok(guest) => ExitCode::from(guest.run()),
        Err(message) => {
            // Whoever started us by hand still has a standard error; nobody else reads it.
            let _ = writeln!(std::io::stderr(), "palisade-guest: {message}");
            ExitCode::from(2)
        }
    }
}

fn report(faults: &[String]) -> ExitCode {
    if faults.is_empty() {
        return ExitCode::SUCCESS;
    }
    let _ = writeln!(std::io::stderr(), "palisade-guest: not isolated: {}", faults.join(", "));
    ExitCode::FAILURE
}
