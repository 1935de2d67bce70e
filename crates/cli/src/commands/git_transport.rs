//! The program that host git runs in the place of `ssh`: this one, when it is told a host that no other command is called.

use crate::{Status, output};
use palisade_core::ExitCode;
use palisade_workspace::hand_over;
use std::ffi::OsString;

/// The host's name in git's address of a sandbox.
pub(crate) const HOST: &str = "__git-transport";

/// Answers git, if it is git that has started us. Before all else: a sync waits for it, and nothing is needed for it.
pub(crate) fn answer(arguments: &[OsString]) -> Option<Status> {
    let [_, host, command] = arguments else { return None };
    if host != HOST {
        return None;
    }
    let (status, said) = hand_over(&command.to_string_lossy())
        .unwrap_or_else(|error| (ExitCode::Failed as Status, format!("error: {error}")));
    if !said.is_empty() {
        output::note(said.trim_end());
    }
    Some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_gits_own_way_of_asking_is_answered() {
        for words in [&["palisade"][..], &["palisade", "ls"], &["palisade", "ls", "x"], &["palisade", HOST]] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert_eq!(answer(&words), None, "{words:?}");
        }
        let words = ["palisade", HOST, "git-upload-pack '/workspace'"].map(OsString::from);
        assert_eq!(answer(&words), Some(ExitCode::Failed as Status), "nobody has left a socket to this test");
    }
}
