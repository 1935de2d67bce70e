//! The script that a caller starts: it becomes this program, with the record and all of the caller's arguments.

use palisade_core::shell::quoted;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The hidden command that runs a wrapper's record.
const COMMAND: &str = "__wrapped";

/// `launcher` is this program, `directory` the wrapper's own. `exec` keeps the process, so that signals, the terminal
/// and the exit status are the caller's to send and to see.
pub(super) fn script(launcher: &OsStr, directory: &OsStr) -> Vec<u8> {
    let mut text = b"#!/bin/sh\n# Made by `palisade wrap`: runs its command in a sandbox. \
                     Remove it with `palisade wrap --rm`.\nexec "
        .to_vec();
    text.extend_from_slice(quoted(launcher).as_bytes());
    text.extend_from_slice(format!(" {COMMAND} ").as_bytes());
    text.extend_from_slice(quoted(directory).as_bytes());
    text.extend_from_slice(b" -- \"$@\"\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    /// What a shell makes of a script whose launcher prints its arguments, each with a NUL.
    fn read_back(launcher: &[u8], directory: &[u8], arguments: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let place = tempfile::tempdir().unwrap();
        let launcher = place.path().join(OsStr::from_bytes(launcher));
        std::fs::write(&launcher, "#!/bin/sh\nprintf '%s\\0' \"$@\"\n").unwrap();
        let path = place.path().join("script");
        std::fs::write(&path, script(launcher.as_os_str(), OsStr::from_bytes(directory))).unwrap();
        std::fs::set_permissions(&launcher, PermissionsExt::from_mode(0o700)).unwrap();
        // Read by a shell, not executed: another thread's fork may still hold the file open for writing.
        let output = Command::new("/bin/sh")
            .arg(&path)
            .args(arguments.iter().map(|word| OsStr::from_bytes(word)))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut words: Vec<Vec<u8>> = output.stdout.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
        assert_eq!(words.pop(), Some(Vec::new()), "every word ends in a NUL");
        words
    }

    fn expected(directory: &[u8], arguments: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let fixed = [COMMAND.as_bytes(), directory, b"--"].map(<[u8]>::to_vec);
        fixed.into_iter().chain(arguments.iter().cloned()).collect()
    }

    #[test]
    fn awkward_words_are_read_back_exactly() {
        let arguments = [
            &b"-n"[..],
            b"--",
            b"",
            b" ",
            b"*",
            b"a\nb\n",
            b"'",
            b"''\\''",
            b"$HOME `id` $(id)",
            b"\\",
            b"\xff\x81\x88",
        ]
        .map(<[u8]>::to_vec);
        for directory in [&b"/state dir/it's"[..], b"-x", b"\xff\n\x81'\"\\"] {
            assert_eq!(
                read_back(b"pali'sa\nde \xff", directory, &arguments),
                expected(directory, &arguments)
            );
        }
    }

    fn word(most: usize) -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(1u8.., 0..most)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn any_words_are_read_back_exactly(
            name in word(20),
            directory in word(80),
            arguments in proptest::collection::vec(word(60), 0..6),
        ) {
            let mut launcher = b"l".to_vec();
            launcher.extend(name.into_iter().filter(|&byte| byte != b'/'));
            prop_assert_eq!(read_back(&launcher, &directory, &arguments), expected(&directory, &arguments));
        }
    }
}
