//! The `palisade` program: reads the command line, the environment and the home directory, calls the engine, and
//! prints. The only room that does any of these.

#![cfg_attr(not(test), no_main)]

mod arguments;
mod backends;
mod commands;
mod context;
mod detach;
mod failure;
mod keyboard;
mod logging;
mod moving;
mod output;
#[cfg(test)]
mod reference;
mod relay;
mod telemetry;
mod terminal;
mod view;
mod writer;

use arguments::Cli;
use clap::{CommandFactory, FromArgMatches};
use failure::Failure;
use palisade_core::ExitCode;
use std::ffi::OsString;
use std::path::Path;

/// The C library's entry, not Rust's: the runtime's own start reads and parses the memory map, which `palisade run`
/// would pay for in every run. What else it does for us is done in `start`.
#[cfg(not(test))]
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "the one symbol the C library calls")]
extern "C" fn main(_count: i32, _words: *const *const u8) -> i32 {
    start()
}

#[cfg_attr(test, allow(dead_code, reason = "the test harness has a start of its own"))]
fn start() -> i32 {
    // Writing to a reader that has gone away is an error to handle, not the end.
    palisade_host::descriptors::ignore_broken_pipes();
    palisade_host::program::start_without_copying();
    terminal::restore_on_panic();
    // Older kernels cannot; then a caller's descriptors reach our keepers, never a sandbox.
    let _ = palisade_host::descriptors::keep_to_ourselves();
    #[cfg(debug_assertions)]
    context::arm_faults();
    let arguments = called_as(std::env::args_os().collect());
    let status = match parse(&arguments).and_then(commands::run) {
        Ok(status) => status,
        Err(failure) => {
            telemetry::failed(&failure);
            failure.report()
        }
    };
    telemetry::finish(status);
    // Helper threads may still wait for input that nobody needs any more, so the process is ended outright.
    std::process::exit(i32::from(status))
}

fn parse(arguments: &[OsString]) -> Result<Cli, Failure> {
    let name = program_name(arguments);
    let command = Cli::command().name(name).bin_name(name);
    // Not freed: the program is short and the tree of commands is large.
    let mut command = std::mem::ManuallyDrop::new(command);
    let matches = command.try_get_matches_from_mut(arguments).map_err(Failure::Usage)?;
    let mut cli = Cli::from_arg_matches(&matches).map_err(Failure::Usage)?;
    cli.global.command = matches.subcommand_name().unwrap_or_default().to_owned();
    Ok(cli)
}

/// The name by which this program was called, for commands that it tells people to type.
pub(crate) fn called() -> &'static str {
    program_name(&std::env::args_os().take(1).collect::<Vec<_>>())
}

/// The names under which the specifications know this program; each is a link to it.
const LINK_NAMES: [&str; 3] = ["kinfra", "keystone", "budgie"];

fn program_name(arguments: &[OsString]) -> &'static str {
    let called = arguments.first().map(Path::new).and_then(Path::file_name);
    LINK_NAMES.into_iter().find(|name| called.is_some_and(|called| called == *name)).unwrap_or("palisade")
}

/// `palisade help COMMAND` is `palisade COMMAND --help`: rewritten here, because the parser would build its whole tree of
/// commands a second time for it, in every run. `budgie --sandbox …` is `palisade mcp --sandbox …`; the other link
/// names take Palisade's commands as they are.
fn called_as(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let sandbox = |word: &OsString| word.to_str().is_some_and(|word| word.starts_with("--sandbox"));
    if program_name(&arguments) == "budgie" && arguments.get(1).is_some_and(sandbox) {
        arguments.insert(1, "mcp".into());
    }
    if arguments.get(1).is_some_and(|word| word == "help") {
        arguments.remove(1);
        arguments.push("--help".into());
    }
    arguments
}

/// Exit status of the program.
type Status = u8;

const OK: Status = ExitCode::Ok as Status;

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn link_names_are_recognised_by_the_last_part_of_the_path() {
        assert_eq!(program_name(&words("/usr/bin/keystone ls")), "keystone");
        assert_eq!(program_name(&words("./kinfra")), "kinfra");
        assert_eq!(program_name(&words("palisade")), "palisade");
        assert_eq!(program_name(&[]), "palisade");
    }

    #[test]
    fn help_may_be_asked_for_in_words() {
        assert_eq!(called_as(words("palisade help")), words("palisade --help"));
        assert_eq!(called_as(words("palisade help config show")), words("palisade config show --help"));
        assert_eq!(called_as(words("palisade run help")), words("palisade run help"));
    }

    #[test]
    fn budgie_with_its_own_flag_means_mcp() {
        assert_eq!(called_as(words("budgie --sandbox")), words("budgie mcp --sandbox"));
        assert_eq!(called_as(words("budgie ls")), words("budgie ls"));
        assert_eq!(called_as(words("palisade --sandbox")), words("palisade --sandbox"));
    }
}
