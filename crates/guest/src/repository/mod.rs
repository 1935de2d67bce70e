//! `palisade-guest repository …`: what the host asks of the git repositories in a sandbox.
//!
//! The host starts these commands as it starts any other, in the sandbox and as its user. They call the sandbox's own
//! git, so hooks, filters and settings of its repositories have their effect inside and nowhere else. An answer is a
//! list of words, each ended by a NUL; a name may hold any other byte. The host treats every answer as a claim.

mod advance;
mod follow;
mod git;
mod ignored;
mod large;
mod receive;
mod records;
mod remote;
mod snapshot;
mod state;
mod status;
mod survey;
mod unpublished;
mod working_tree;

use git::GitFailure;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use survey::Scope;

/// Runs one of the commands; the exit code.
pub(crate) fn run(words: impl Iterator<Item = OsString>) -> u8 {
    // A git that ends before it has read everything is an error of its own, and not the end of this program.
    crate::system::ignore_broken_pipes();
    let words: Vec<OsString> = words.collect();
    if let [command, remote, ..] = words.as_slice()
        && command == "remote"
    {
        return u8::from(remote::serve(&remote.to_string_lossy()).is_err());
    }
    if let [command, directory] = words.as_slice()
        && command == "large-send"
    {
        return u8::from(large::send(directory.as_ref()).is_err());
    }
    let Some(answer) = answer(&words) else {
        // As this program refuses all words that it does not know: the host takes it for an older version.
        let _ = writeln!(std::io::stderr(), "palisade-guest: {USAGE}");
        return 2;
    };
    match answer {
        Ok(answer) => {
            let mut output = std::io::stdout().lock();
            // It is not flushed at the end of this program, which does not end as Rust programs do.
            let written = output.write_all(&answer).and_then(|()| output.flush());
            u8::from(written.is_err())
        }
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "{message}");
            1
        }
    }
}

const USAGE: &str = "usage: palisade-guest repository survey|commits|follow|advance|ignored|unpublished|large-send|large-receive DIRECTORY, \
                     receive DIRECTORY FORMAT [OBJECTS], or remote NAME";

/// `None` when there is no such command.
fn answer(words: &[OsString]) -> Option<Result<Vec<u8>, GitFailure>> {
    let text: Vec<Option<&str>> = words.iter().map(|word| word.to_str()).collect();
    let answer = match (text.as_slice(), words.get(1).map(PathBuf::from)) {
        ([Some("survey"), _], Some(directory)) => survey::survey(&directory, Scope::Everything),
        ([Some("commits"), _], Some(directory)) => survey::survey(&directory, Scope::Commits),
        ([Some("receive"), _, Some(format)], Some(directory)) => receive::receive(&directory, format, None),
        ([Some("receive"), _, Some(format), Some(objects)], Some(directory)) => {
            receive::receive(&directory, format, Some(objects))
        }
        ([Some("follow"), _], Some(directory)) => follow::follow(&directory),
        ([Some("advance"), _], Some(directory)) => advance::advance(&directory),
        ([Some("ignored"), _], Some(directory)) => ignored::ignored(&directory),
        ([Some("unpublished"), _], Some(directory)) => unpublished::unpublished(&directory),
        ([Some("large-receive"), _], Some(directory)) => large::receive(&directory),
        _ => return None,
    };
    Some(answer)
}
