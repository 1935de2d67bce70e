//! Commands on a terminal, and sessions that outlive their viewers.

#![allow(unsafe_code, reason = "the support module prepares a descriptor between fork and exec")]

mod support;

use palisade_protocol::message::{reset_frame, signal_frame, window_frame};
use palisade_protocol::{
    Channel, ExecRequest, Exit, Kind, Open, RefusalCode, Report, SessionInfo, Size, StreamId, flow,
};
use support::{Guest, alive, code, eventually, shell, with_terminal};

fn session(name: &str, script: &str) -> Open {
    Open::Exec(ExecRequest { session: Some(name.to_owned()), ..with_terminal(script) })
}

fn attach(name: &str) -> Open {
    Open::Attach { session: name.to_owned(), size: Size { rows: 24, columns: 80 } }
}

fn sessions(guest: &mut Guest) -> Vec<SessionInfo> {
    let stream = guest.accepted(&Open::Sessions);
    let Report::Sessions(sessions) = guest.report(stream) else { unreachable!("not the report asked for") };
    assert_eq!(guest.finish(stream).exit, code(0));
    sessions
}

#[test]
fn the_size_is_set_before_the_first_byte_and_after_every_resize() {
    let mut guest = Guest::start();
    let stream = guest.accepted(&Open::Exec(with_terminal("stty size; read x; stty size")));
    assert_eq!(guest.read_until(stream, "\n"), "24 80\r\n");
    for size in
        [Size { rows: 1, columns: 1 }, Size { rows: 0, columns: 65_535 }, Size { rows: 50, columns: 132 }]
    {
        guest.send(&size.frame(stream));
    }
    guest.send_data(stream, b"\n");
    assert_eq!(guest.finish(stream).text(), ("\r\n50 132\r\n".into(), String::new(), code(0)));
}

#[test]
fn a_terminal_controls_its_command() {
    let mut guest = Guest::start();
    let stream = guest.accepted(&Open::Exec(with_terminal("echo ready >/dev/tty; exec sleep 1000")));
    guest.read_until(stream, "ready");
    guest.send_data(stream, b"\x03");
    assert_eq!(guest.finish(stream).exit, Some(Exit::Signal(2)));
}

#[test]
fn a_signal_goes_to_the_foreground_of_the_terminal() {
    let mut guest = Guest::start();
    // Under job control the job is in front by the time it speaks, and the shell is behind it.
    let script =
        "set -m; trap 'echo shell was hit' TERM; sh -c 'echo ready; exec sleep 1000'; echo status $?";
    let stream = guest.accepted(&Open::Exec(with_terminal(script)));
    guest.read_until(stream, "ready\r\n");
    guest.send(&signal_frame(stream, libc::SIGTERM as u8));
    let (output, _, exit) = guest.finish(stream).text();
    assert!(output.ends_with("status 143\r\n"), "{output}");
    assert!(!output.contains("shell was hit"));
    assert_eq!(exit, code(0));
}

#[test]
fn nothing_of_the_last_screen_is_lost() {
    let mut guest = Guest::start();
    for round in 0..200 {
        let outcome = guest.run(with_terminal("echo one; echo two >&2; exit 3"));
        assert_eq!(outcome.text(), ("one\r\ntwo\r\n".into(), String::new(), code(3)), "round {round}");
    }
    let count = guest.run(with_terminal("seq 1 100000")).text().0;
    let expected: String = (1..=100_000).map(|number| format!("{number}\r\n")).collect();
    assert!(count == expected);
}

#[test]
fn resetting_a_command_on_a_terminal_kills_it() {
    let mut guest = Guest::start();
    let stream = guest.accepted(&Open::Exec(with_terminal("trap '' HUP; echo $$; exec sleep 1000")));
    let pid: i32 = guest.read_until(stream, "\n").trim().parse().unwrap();
    guest.send(&reset_frame(stream));
    eventually("it is gone", || !alive(pid));
}

#[test]
fn a_session_survives_its_viewer_and_replays_to_the_next() {
    let mut guest = Guest::start();
    let first = guest.accepted(&session("work", "echo before; read line; echo got $line; exit 9"));
    guest.read_until(first, "before\r\n");
    guest.send(&reset_frame(first));
    let size = Size { rows: 24, columns: 80 };
    let entry = |viewers, size, exit: Option<Exit>| SessionInfo {
        name: "work".to_owned(),
        viewers,
        size,
        exit,
        seen: exit.is_some(),
    };
    assert_eq!(sessions(&mut guest), [entry(0, size, None)]);

    let size = Size { rows: 40, columns: 100 };
    let second = guest.accepted(&Open::Attach { session: "work".to_owned(), size });
    assert_eq!(guest.read_until(second, "before\r\n"), "before\r\n");
    assert_eq!(sessions(&mut guest), [entry(1, size, None)]);
    guest.send_data(second, b"hello\n");
    assert_eq!(guest.finish(second).text(), ("hello\r\ngot hello\r\n".into(), String::new(), code(9)));
    assert_eq!(sessions(&mut guest), [entry(0, size, code(9))]);

    let late = guest.accepted(&attach("work"));
    assert_eq!(
        guest.finish(late).text(),
        ("before\r\nhello\r\ngot hello\r\n".into(), String::new(), code(9))
    );
}

#[test]
fn a_session_that_is_only_started_ends_its_stream_at_once_and_goes_on() {
    let mut guest = Guest::start();
    let only_started = |script| match session("agent", script) {
        Open::Exec(request) => Open::Exec(ExecRequest { detached: true, ..request }),
        other => other,
    };
    let stream = guest.accepted(&only_started("read line; exit 6"));
    assert_eq!(guest.finish(stream).text(), (String::new(), String::new(), code(0)));
    let size = Size { rows: 24, columns: 80 };
    let entry = |exit, seen| SessionInfo { name: "agent".to_owned(), viewers: 0, size, exit, seen };
    assert_eq!(sessions(&mut guest), [entry(None, false)]);
    let viewer = guest.accepted(&attach("agent"));
    guest.send_data(viewer, b"\n");
    assert_eq!(guest.finish(viewer).exit, code(6));
    assert_eq!(sessions(&mut guest), [entry(code(6), true)]);
    // Nobody looks at this one's end.
    guest.accepted(&only_started("exit 7"));
    eventually("it ends", || sessions(&mut guest) == [entry(code(7), false)]);
}

#[test]
fn a_name_belongs_to_one_running_session_and_can_be_taken_again() {
    let mut guest = Guest::start();
    let first = guest.accepted(&session("one", "read line"));
    assert_eq!(guest.refused(&session("one", "true")).code, RefusalCode::Exists);
    guest.send_data(first, b"\n");
    guest.finish(first);
    let again = guest.accepted(&session("one", "echo anew"));
    assert_eq!(guest.finish(again).text().0, "anew\r\n");
    let listed = sessions(&mut guest);
    assert_eq!(listed.len(), 1);
}

#[test]
fn what_is_no_session_is_refused() {
    let mut guest = Guest::start();
    assert_eq!(guest.refused(&attach("nobody")).code, RefusalCode::NotFound);
    let plain = ExecRequest { session: Some("plain".to_owned()), ..shell("true") };
    assert_eq!(guest.refused(&Open::Exec(plain)).code, RefusalCode::Failed);
    let missing = ExecRequest { argv: vec![b"/missing".to_vec()], ..with_terminal("") };
    let missing = Open::Exec(ExecRequest { session: Some("missing".to_owned()), ..missing });
    let refusal = guest.refused(&missing);
    assert_eq!((refusal.code, refusal.errno), (RefusalCode::Exec, libc::ENOENT));
    assert_eq!(sessions(&mut guest), []);
}

#[test]
fn two_viewers_see_and_steer_the_same_terminal() {
    let mut guest = Guest::start();
    let first = guest.accepted(&session("pair", "stty -echo; echo up; while read line; do stty size; done"));
    guest.read_until(first, "up\r\n");
    let size = Size { rows: 30, columns: 90 };
    let second = guest.accepted(&Open::Attach { session: "pair".to_owned(), size });
    guest.read_until(second, "up\r\n");
    guest.send_data(first, b"\n");
    assert_eq!(guest.read_until(first, "\n"), "30 90\r\n");
    assert_eq!(guest.read_until(second, "\n"), "30 90\r\n");
    guest.send(&Size { rows: 25, columns: 70 }.frame(first));
    guest.send_data(second, b"\n");
    assert_eq!(guest.read_until(first, "\n"), "25 70\r\n");
    assert_eq!(guest.read_until(second, "\n"), "25 70\r\n");
    guest.send_data(first, b"\x04");
    assert_eq!((guest.finish(first).exit, guest.finish(second).exit), (code(0), code(0)));
}

/// Everything that comes while no credit is given back.
fn read_until_credit_ends(guest: &mut Guest, stream: StreamId, credit: usize) -> Vec<u8> {
    guest.grants = false;
    let mut read = Vec::new();
    while read.len() < credit {
        let frame = guest.receive_on(stream);
        assert_eq!(frame.kind, Kind::Data);
        read.extend_from_slice(&frame.payload[1..]);
    }
    guest.grants = true;
    read
}

#[test]
fn a_viewer_that_stalls_holds_up_nobody_and_goes_on_with_a_whole_line() {
    let mut guest = Guest::start();
    let script = "stty -echo; echo ready; read go; seq 100001 300000; echo END; read bye; exit 4";
    let stalled = guest.accepted(&session("flood", script));
    guest.read_until(stalled, "ready\r\n");
    let lively = guest.accepted(&attach("flood"));
    guest.send_data(lively, b"go\n");
    // The command gets to its end although one viewer takes nothing beyond its credit.
    guest.read_until(lively, "END\r\n");
    let first = read_until_credit_ends(&mut guest, stalled, flow::INITIAL as usize);
    assert_eq!(first.len(), flow::INITIAL as usize);
    assert!(first.starts_with(b"100001\r\n100002\r\n"));

    guest.send(&window_frame(stalled, Channel::Main, 1024 * 1024));
    let rest = guest.read_until(stalled, "END\r\n");
    let rest = rest.strip_prefix('\u{18}').expect("the cut sequence is cancelled first");
    let numbers: Vec<u32> =
        rest.lines().take_while(|line| *line != "END").map(|line| line.parse().unwrap()).collect();
    assert!(numbers.len() > 30_000, "nearly the whole scrollback");
    assert_eq!(numbers, (300_001 - numbers.len() as u32..=300_000).collect::<Vec<_>>());

    guest.send_data(lively, b"\n");
    assert_eq!((guest.finish(lively).exit, guest.finish(stalled).exit), (code(4), code(4)));
}

#[test]
fn there_is_a_limit_to_sessions_and_ended_ones_make_room() {
    let mut guest = Guest::start();
    let mut streams: Vec<StreamId> =
        (0..64).map(|number| guest.accepted(&session(&format!("s{number}"), "exec sleep 1000"))).collect();
    assert_eq!(guest.refused(&session("more", "true")).code, RefusalCode::Limit);
    let ended = streams.pop().unwrap();
    guest.send(&signal_frame(ended, libc::SIGKILL as u8));
    assert_eq!(guest.finish(ended).exit, Some(Exit::Signal(9)));
    let more = guest.accepted(&session("more", "exit 2"));
    assert_eq!(guest.finish(more).exit, code(2));
    assert_eq!(sessions(&mut guest).len(), 64);
}

#[test]
fn whoever_follows_hears_of_every_session_that_starts_and_ends() {
    let mut guest = Guest::start();
    let following = guest.accepted(&Open::SessionChanges);
    let hear = |guest: &mut Guest| -> Vec<(String, Option<Exit>)> {
        let Report::Sessions(sessions) = guest.report(following) else { unreachable!("another report") };
        sessions.into_iter().map(|session| (session.name, session.exit)).collect()
    };
    assert_eq!(hear(&mut guest), []);
    let detached =
        ExecRequest { detached: true, session: Some("job".into()), ..with_terminal("read x; exit 7") };
    let stream = guest.accepted(&Open::Exec(detached));
    assert_eq!(guest.finish(stream).exit, code(0));
    assert_eq!(hear(&mut guest), [("job".to_owned(), None)]);
    let viewer = guest.accepted(&attach("job"));
    guest.send_data(viewer, b"\n");
    assert_eq!(guest.finish(viewer).exit, code(7));
    assert_eq!(hear(&mut guest), [("job".to_owned(), code(7))]);
}
