//! Commands with pipes: exact ends, exact output, exact surroundings.

#![allow(unsafe_code, reason = "the support module clears a flag between fork and exec")]

mod support;

use palisade_protocol::frame::MAX_DATA;
use palisade_protocol::message::{reset_frame, signal_frame, window_frame};
use palisade_protocol::{Channel, ExecRequest, Exit, Kind, Open, RefusalCode, flow};
use support::{Guest, alive, code, command, eventually, memory_of, shell};

#[test]
fn every_exit_code_and_signal_arrives_as_it_was() {
    let mut guest = Guest::start();
    for status in [0, 1, 2, 42, 126, 127, 128, 255] {
        assert_eq!(guest.sh(&format!("exit {status}")).exit, code(status));
    }
    for signal in [1, 2, 3, 6, 9, 15, 34, 64] {
        assert_eq!(guest.sh(&format!("kill -{signal} $$")).exit, Some(Exit::Signal(signal)));
    }
}

#[test]
fn what_cannot_be_started_is_told_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let plain = directory.path().join("plain");
    std::fs::write(&plain, "#!/bin/sh\n").unwrap();
    let path = format!("PATH=/nonexistent:{}", directory.path().display()).into_bytes();
    let mut guest = Guest::start();
    let mut why = |request: ExecRequest| {
        let refusal = guest.refused(&Open::Exec(request));
        (refusal.code, refusal.errno)
    };
    assert_eq!(why(command(&["missing"], vec![path.clone()])), (RefusalCode::Exec, libc::ENOENT));
    assert_eq!(why(command(&["/missing"], vec![])), (RefusalCode::Exec, libc::ENOENT));
    assert_eq!(why(command(&["plain"], vec![path])), (RefusalCode::Exec, libc::EACCES));
    assert_eq!(why(command(&[plain.to_str().unwrap()], vec![])), (RefusalCode::Exec, libc::EACCES));
    assert_eq!(why(command(&["/"], vec![])), (RefusalCode::Exec, libc::EACCES));
    assert_eq!(why(command(&[""], vec![])), (RefusalCode::Exec, libc::ENOENT));
    assert_eq!(why(command(&[], vec![])), (RefusalCode::Exec, libc::EINVAL));
    assert_eq!(why(command(&["a\0b"], vec![])), (RefusalCode::Exec, libc::EINVAL));
    assert_eq!(why(command(&["true"], vec![b"A=\0".to_vec()])), (RefusalCode::Exec, libc::EINVAL));
    let elsewhere = |cwd: &str| ExecRequest { cwd: cwd.as_bytes().to_vec(), ..shell("true") };
    assert_eq!(why(elsewhere("/missing")), (RefusalCode::Cwd, libc::ENOENT));
    assert_eq!(why(elsewhere("/etc/passwd")), (RefusalCode::Cwd, libc::ENOTDIR));
    assert_eq!(guest.sh("exit 7").exit, code(7), "the guest goes on");
}

#[test]
fn output_and_errors_arrive_apart_complete_and_in_order() {
    let mut guest = Guest::start();
    let outcome = guest.sh("seq 1 1500000 & seq 1 900000 >&2; wait; exit 3");
    let count = |to: u32| (1..=to).map(|number| format!("{number}\n")).collect::<String>().into_bytes();
    assert!(outcome.output.len() > 10 * 1024 * 1024);
    assert!(outcome.output == count(1_500_000), "standard output is not what was written");
    assert!(outcome.error == count(900_000), "standard error is not what was written");
    assert_eq!(outcome.exit, code(3));
}

#[test]
fn the_last_words_of_a_command_are_never_lost() {
    let mut guest = Guest::start();
    for _ in 0..200 {
        let outcome = guest.sh("echo out; echo err >&2; exit 5");
        assert_eq!(outcome.text(), ("out\n".into(), "err\n".into(), code(5)));
    }
}

#[test]
fn environment_and_working_directory_are_exactly_those_given() {
    let directory = tempfile::tempdir().unwrap();
    let cwd = directory.path().canonicalize().unwrap();
    let mut guest = Guest::start();
    let odd = b"ODD=\xff\xfe \n=$x".to_vec();
    let env = vec![b"ONE=1".to_vec(), odd.clone(), b"EMPTY=".to_vec()];
    let outcome = guest.run(ExecRequest {
        cwd: cwd.to_str().unwrap().as_bytes().to_vec(),
        ..command(&["/usr/bin/env", "-0"], env)
    });
    assert_eq!(outcome.output, [b"ONE=1\0".as_slice(), &odd, b"\0EMPTY=\0"].concat());
    let outcome = guest.run(ExecRequest {
        cwd: cwd.to_str().unwrap().as_bytes().to_vec(),
        ..command(&["/bin/pwd"], vec![])
    });
    assert_eq!(outcome.text().0.trim_end(), cwd.to_str().unwrap());
}

#[test]
fn a_command_finds_three_descriptors_default_signals_and_a_session_of_its_own() {
    let mut guest = Guest::start();
    let listing = guest.run(command(&["/bin/ls", "/proc/self/fd"], vec![])).text().0;
    // The fourth is the directory that is being listed.
    assert_eq!(listing, "0\n1\n2\n3\n");
    let status = guest.run(command(&["/bin/cat", "/proc/self/status"], vec![])).text().0;
    let masks: Vec<&str> =
        status.lines().filter(|line| line.starts_with("SigBlk") || line.starts_with("SigIgn")).collect();
    assert_eq!(masks, ["SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000"]);
    let stat = guest.sh("cut -d' ' -f1,5,6 /proc/$$/stat; umask; cat /proc/self/oom_score_adj").text().0;
    let lines: Vec<&str> = stat.lines().collect();
    let ids: Vec<&str> = lines[0].split(' ').collect();
    assert_eq!((ids[0], ids[0]), (ids[1], ids[2]));
    assert_eq!(&lines[1..], ["0022", "500"]);
    let own = std::fs::read_to_string(format!("/proc/{}/oom_score_adj", guest.pid())).unwrap();
    assert_ne!(own.trim(), "500", "the guest itself is not to be killed first");
}

#[test]
fn input_is_echoed_whole_to_a_slow_reader() {
    let mut guest = Guest::start();
    let stream = guest.accepted(&Open::Exec(ExecRequest { stdin: true, ..command(&["/bin/cat"], vec![]) }));
    let sent: Vec<u8> = (0..2_000_000u32).flat_map(u32::to_le_bytes).collect();
    let (mut credit, mut echoed, mut pieces) = (flow::INITIAL as usize, Vec::new(), sent.chunks(10_007));
    let mut piece = pieces.next();
    while echoed.len() < sent.len() {
        while let Some(data) = piece
            && credit >= data.len()
        {
            credit -= data.len();
            guest.send_data(stream, data);
            piece = pieces.next();
            if piece.is_none() {
                guest.end_input(stream);
            }
        }
        let frame = guest.receive_on(stream);
        match frame.kind {
            Kind::Data => echoed.extend_from_slice(&frame.payload[1..]),
            Kind::Window => {
                credit += palisade_protocol::message::decode_window(&frame.payload).unwrap().1 as usize;
            }
            // Standard error is over as soon as the command is, before the reader has taken everything.
            other => assert_eq!((other, frame.payload), (Kind::Eof, vec![Channel::Error as u8])),
        }
    }
    assert!(echoed == sent);
    assert_eq!(guest.finish(stream).exit, code(0));
}

#[test]
fn a_command_that_does_not_read_its_input_does_not_stall_its_host() {
    let mut guest = Guest::start();
    let stream = guest.accepted(&Open::Exec(ExecRequest { stdin: true, ..shell("exec <&-; sleep 1000") }));
    let mut credit = flow::INITIAL as usize;
    for _ in 0..100 {
        while credit < MAX_DATA {
            let frame = guest.receive_on(stream);
            assert_eq!(frame.kind, Kind::Window);
            credit += palisade_protocol::message::decode_window(&frame.payload).unwrap().1 as usize;
        }
        credit -= MAX_DATA;
        guest.send_data(stream, &[0; MAX_DATA]);
    }
    guest.send(&signal_frame(stream, libc::SIGTERM as u8));
    assert_eq!(guest.finish(stream).exit, Some(Exit::Signal(15)));
}

#[test]
fn without_an_input_there_is_an_empty_one() {
    let mut guest = Guest::start();
    assert_eq!(guest.sh("cat; echo done").text(), ("done\n".into(), String::new(), code(0)));
}

#[test]
fn a_signal_reaches_the_whole_group() {
    let mut guest = Guest::start();
    let script = "trap 'exit 9' USR1; (trap 'echo child; exit' USR1; echo ready; while :; do sleep 0.01; done) & \
                  while :; do wait; done";
    let stream = guest.accepted(&Open::Exec(shell(script)));
    guest.read_until(stream, "ready");
    guest.send(&signal_frame(stream, libc::SIGUSR1 as u8));
    let exit = guest.finish(stream).exit;
    assert_eq!(exit, code(9));
}

#[test]
fn resetting_a_command_kills_it_and_its_children() {
    let mut guest = Guest::start();
    // Monitor mode gives the background job a group of its own, in the same session.
    let script = "set -m; echo $$; sleep 1000 & echo $!; exec sleep 1000";
    let stream = guest.accepted(&Open::Exec(command(&["/bin/bash", "-c", script], shell("").env)));
    let mut text = String::new();
    while text.lines().count() < 2 || !text.ends_with('\n') {
        text += &guest.read_until(stream, "\n");
    }
    let pids: Vec<i32> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert!(pids.iter().all(|pid| alive(*pid)));
    guest.send(&reset_frame(stream));
    eventually("both are gone", || !pids.iter().any(|pid| alive(*pid)));
    assert_eq!(guest.sh("exit 4").exit, code(4));
}

#[test]
fn a_background_process_does_not_hold_the_exit_and_lives_on() {
    let mut guest = Guest::start();
    let outcome = guest.sh("(while :; do echo noise; done) & sleep 1000 & echo $!; exit 6");
    assert_eq!(outcome.exit, code(6));
    let text = outcome.text().0;
    let pid: i32 = text.lines().find_map(|line| line.parse().ok()).unwrap();
    assert!(alive(pid));
    // The noise ends with its pipe; the silent one ends with the guest.
    guest.hang_up();
    eventually("the background process went with the guest", || !alive(pid));
}

#[test]
fn orphans_are_adopted_and_reaped() {
    let mut guest = Guest::start();
    let pid: i32 = guest.sh("(sleep 0.05 & echo $!)").text().0.trim().parse().unwrap();
    let listed = format!("/proc/{pid}");
    eventually("no zombie is left", || !std::path::Path::new(&listed).exists());
}

#[test]
fn endless_output_without_a_reader_leaves_memory_flat() {
    let mut guest = Guest::start();
    guest.grants = false;
    let stream = guest.accepted(&Open::Exec(shell("exec yes")));
    let mut received = 0;
    while received < flow::INITIAL as usize {
        let frame = guest.receive_on(stream);
        assert_eq!(frame.kind, Kind::Data);
        received += frame.payload.len() - 1;
    }
    assert_eq!(received, flow::INITIAL as usize, "not a byte more than the credit");
    // Another command passes by, so the guest is still at work; then its peak tells.
    assert_eq!(guest.sh("exit 8").exit, code(8));
    let peak = memory_of(guest.pid(), "VmHWM");
    assert!(peak < 8 * 1024, "{peak} KiB at most");
    guest.send(&window_frame(stream, Channel::Main, 100));
    assert_eq!(guest.receive_on(stream).payload.len(), 101);
}

#[test]
fn many_commands_at_once_each_get_their_own() {
    let mut guest = Guest::start();
    let streams: Vec<_> =
        (0..200u8).map(|n| guest.open(&Open::Exec(shell(&format!("echo {n}; exit {n}"))))).collect();
    for (number, stream) in (0u8..).zip(streams) {
        assert_eq!(guest.receive_on(stream).kind, Kind::Accepted);
        assert_eq!(guest.finish(stream).text(), (format!("{number}\n"), String::new(), code(number)));
    }
}
