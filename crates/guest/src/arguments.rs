//! The command line: `serve (--fd N | --stdio) [--on-eof exit|wait] [--bridge] [--subreaper] [--expect-mount …]`.

use palisade_protocol::{EXPECT_MOUNT, ExpectedMount};
use std::ffi::OsString;
use std::os::fd::RawFd;

const USAGE: &str = "usage: palisade-guest serve (--fd N | --stdio) [--on-eof exit|wait] [--bridge] [--subreaper] [--expect-mount MOUNT]...";

/// Where the byte stream to the host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// An inherited socket, both ways.
    Inherited(RawFd),
    /// Standard input and output, as a container engine attaches them.
    Stdio,
}

/// What to do when the host goes away or breaks the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnEof {
    /// The sandbox dies with its host.
    Exit,
    /// A host will come back, over the same stream.
    Wait,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) endpoint: Endpoint,
    pub(crate) on_eof: OnEof,
    /// A host may also come over a bridge, see [`crate::bridge`].
    pub(crate) bridge: bool,
    /// Adopt orphaned descendants, where this is not the first process anyway.
    pub(crate) subreaper: bool,
    /// What must be mounted, see [`crate::mounts`].
    pub(crate) expected: Vec<ExpectedMount>,
}

pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Arguments, String> {
    let mut arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    if arguments.next().as_deref() != Some("serve") {
        return Err(USAGE.to_owned());
    }
    let (mut endpoint, mut on_eof, mut bridge, mut subreaper) = (None, OnEof::Exit, false, false);
    let mut expected = Vec::new();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--fd" => {
                let number = arguments.next().and_then(|value| value.parse().ok());
                let number: RawFd =
                    number.filter(|fd| *fd >= 0).ok_or("--fd needs the number of an open socket")?;
                endpoint = Some(Endpoint::Inherited(number));
            }
            "--stdio" => endpoint = Some(Endpoint::Stdio),
            "--on-eof" => {
                on_eof = match arguments.next().as_deref() {
                    Some("exit") => OnEof::Exit,
                    Some("wait") => OnEof::Wait,
                    _ => return Err("--on-eof is either exit or wait".to_owned()),
                };
            }
            "--bridge" => bridge = true,
            "--subreaper" => subreaper = true,
            EXPECT_MOUNT => {
                let mount = arguments.next().unwrap_or_default().parse();
                expected.push(mount.map_err(|error| format!("{EXPECT_MOUNT}: {error}"))?);
            }
            other => return Err(format!("unknown argument {other:?}; {USAGE}")),
        }
    }
    let endpoint = endpoint.ok_or(USAGE)?;
    Ok(Arguments { endpoint, on_eof, bridge, subreaper, expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Arguments, String> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn the_socket_the_end_and_the_adoption_are_read() {
        assert_eq!(
            parsed("serve --fd 7 --on-eof wait --subreaper"),
            Ok(Arguments {
                endpoint: Endpoint::Inherited(7),
                on_eof: OnEof::Wait,
                bridge: false,
                subreaper: true,
                expected: Vec::new(),
            })
        );
        assert_eq!(
            parsed("serve --stdio --bridge"),
            Ok(Arguments {
                endpoint: Endpoint::Stdio,
                on_eof: OnEof::Exit,
                bridge: true,
                subreaper: false,
                expected: Vec::new(),
            })
        );
        let expected = parsed("serve --stdio --expect-mount 1:2:/a --expect-mount 3:4:/b").unwrap().expected;
        assert_eq!(expected.iter().map(ToString::to_string).collect::<Vec<_>>(), ["1:2:/a", "3:4:/b"]);
    }

    #[test]
    fn anything_else_is_an_error_that_says_what_is_possible() {
        assert_eq!(parsed(""), Err(USAGE.to_owned()));
        assert_eq!(parsed("serve"), Err(USAGE.to_owned()));
        assert_eq!(parsed("serve --fd x"), Err("--fd needs the number of an open socket".to_owned()));
        assert_eq!(parsed("serve --fd -1"), Err("--fd needs the number of an open socket".to_owned()));
        assert!(parsed("serve --stdio --expect-mount").is_err());
        assert!(parsed("serve --stdio --expect-mount 1:2").is_err());
        assert_eq!(parsed("serve --stdio --on-eof never"), Err("--on-eof is either exit or wait".to_owned()));
    }
}
