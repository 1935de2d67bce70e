//! What a host is told of changes inside: once for every question, and nothing that happens in between is lost.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails panics")]
#![allow(unsafe_code, reason = "the support passes a descriptor to a child under the number it expects")]

mod support;

use palisade_protocol::{Changes, ChangesRequest, ExecRequest, Open, Report};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use support::{Guest, code, with_terminal};

fn question(repository: &Path, known: Option<Changes>, sessions: bool) -> Open {
    Open::Changes(ChangesRequest { repository: repository.as_os_str().as_bytes().to_vec(), known, sessions })
}

/// Asks, and waits for the one answer.
fn asked(guest: &mut Guest, open: &Open) -> Changes {
    let stream = guest.accepted(open);
    answer(guest, stream)
}

fn answer(guest: &mut Guest, stream: u32) -> Changes {
    let Report::Changes(changes) = guest.report(stream) else { panic!("not the report asked for") };
    assert_eq!(guest.finish(stream).exit, code(0));
    changes
}

#[test]
fn a_branch_that_moves_between_two_questions_is_told_at_once() {
    let place = tempfile::tempdir().unwrap();
    let heads = place.path().join(".git/refs/heads");
    std::fs::create_dir_all(&heads).unwrap();
    let mut guest = Guest::start();
    let first = asked(&mut guest, &question(place.path(), None, false));
    std::fs::write(heads.join("main"), "1").unwrap();
    let second = asked(&mut guest, &question(place.path(), Some(first), false));
    assert_ne!(second.branches, first.branches);

    let waiting = guest.accepted(&question(place.path(), Some(second), false));
    std::fs::write(heads.join("other"), "1").unwrap();
    assert_ne!(answer(&mut guest, waiting).branches, second.branches);
}

#[test]
fn sessions_count_for_those_who_ask_for_them() {
    let place = tempfile::tempdir().unwrap();
    let mut guest = Guest::start();
    let talker = ExecRequest { session: Some("talker".to_owned()), ..with_terminal("printf busy") };
    let talker = Open::Exec(talker);
    let none = asked(&mut guest, &question(place.path(), None, true));
    let waiting = guest.accepted(&question(place.path(), Some(none), true));
    let unmoved = guest.accepted(&question(place.path(), Some(none), false));
    let command = guest.accepted(&talker);
    assert_ne!(answer(&mut guest, waiting), none);
    assert_eq!(guest.finish(command).exit, code(0));
    let end = asked(&mut guest, &question(place.path(), Some(Changes { ended: 7, ..none }), true));
    assert_eq!((end.ended, end.branches), (1, none.branches));

    // Whoever asked for branches only has heard nothing of it.
    std::fs::create_dir_all(place.path().join(".git/refs/heads")).unwrap();
    std::fs::write(place.path().join(".git/refs/heads/main"), "1").unwrap();
    assert_ne!(answer(&mut guest, unmoved).branches, none.branches);
}
