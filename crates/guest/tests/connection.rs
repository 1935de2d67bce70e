//! The connection itself: greeting, greeting again, breaking the protocol, and the end.

#![allow(unsafe_code, reason = "the support module prepares a descriptor between fork and exec")]
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod support;

use palisade_protocol::fields::Writer;
use palisade_protocol::frame::{MAX_DATA, RESYNC};
use palisade_protocol::message::{accepted_frame, window_frame};
use palisade_protocol::{
    Channel, ExecRequest, Exit, Frame, Hello, KeeperVerb, Kind, Open, Refusal, RefusalCode, Size, Welcome,
    flow,
};
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};
use support::{Guest, alive, code, eventually, shell, with_terminal};

fn started(guest: &mut Guest, request: ExecRequest) -> i32 {
    let stream = guest.accepted(&Open::Exec(request));
    guest.read_until(stream, "\n").trim().parse().unwrap()
}

#[test]
fn a_second_hello_drops_plain_commands_and_keeps_sessions() {
    let mut guest = Guest::start();
    let plain = started(&mut guest, shell("echo $$; exec sleep 1000"));
    let session =
        ExecRequest { session: Some("kept".to_owned()), ..with_terminal("echo $$; exec sleep 1000") };
    let kept = started(&mut guest, session);
    guest.greet();
    eventually("the plain command is gone", || !alive(plain));
    assert!(alive(kept));
    let size = Size { rows: 24, columns: 80 };
    let stream = guest.accepted(&Open::Attach { session: "kept".to_owned(), size });
    assert_eq!(guest.read_until(stream, "\n").trim(), kept.to_string());
}

#[test]
fn padding_completes_a_frame_that_was_cut() {
    let mut guest = Guest::start();
    let stream = guest.accepted(&Open::Exec(ExecRequest { stdin: true, ..shell("cat") }));
    let mut cut = Vec::new();
    Frame::new(Kind::Data, stream, vec![0; 60_000]).encode(&mut cut);
    guest.send_bytes(&cut[..100]);
    guest.send_bytes(&vec![0; RESYNC]);
    guest.greet();
    assert_eq!(guest.sh("exit 3").exit, code(3));
}

#[test]
fn breaking_the_protocol_ends_the_guest_and_everything_in_it() {
    let too_much = |guest: &mut Guest| {
        let stream = guest.accepted(&Open::Exec(ExecRequest { stdin: true, ..shell("exec sleep 1000") }));
        for _ in 0..=flow::INITIAL as usize / MAX_DATA {
            guest.send_data(stream, &[0; MAX_DATA]);
        }
    };
    let breaches: [&dyn Fn(&mut Guest); 6] = [
        &|guest| guest.send_bytes(&[200]),
        &|guest| guest.send(&Frame::new(Kind::Hello, 0, b"nonsense".to_vec())),
        &|guest| guest.send(&accepted_frame(1)),
        &|guest| guest.send(&Open::Sessions.frame(2)),
        &|guest| {
            let stream = guest.accepted(&Open::Exec(shell("exec sleep 1000")));
            guest.send(&window_frame(stream, Channel::Main, u32::MAX));
        },
        &too_much,
    ];
    for breach in breaches {
        let mut guest = Guest::start();
        let inside = started(&mut guest, shell("echo $$; exec setsid sleep 1000"));
        breach(&mut guest);
        while guest.try_receive().is_some() {}
        assert_eq!(guest.child.wait().unwrap().code(), Some(1));
        eventually("nobody is left", || !alive(inside));
    }
}

#[test]
fn only_padding_may_come_before_the_hello() {
    let mut guest = Guest::silent(&[]);
    guest.send_bytes(&[0; 1000]);
    guest.greet();
    let mut guest = Guest::silent(&[]);
    guest.send(&Open::Sessions.frame(1));
    assert_eq!(guest.try_receive(), None);
    assert_eq!(guest.child.wait().unwrap().code(), Some(1));
}

#[test]
fn a_host_of_another_age_is_told_nothing() {
    let mut guest = Guest::silent(&[]);
    guest.send(&Hello { oldest: 7, newest: 9, nonce: [1; 16] }.frame());
    assert_eq!(guest.try_receive(), None);
    let mut guest = Guest::silent(&[]);
    guest.send(&Hello { oldest: 1, newest: 9, nonce: [1; 16] }.frame());
    assert_eq!(Welcome::decode(&guest.receive().payload).unwrap().version, 1);
}

#[test]
fn a_guest_that_waits_finds_the_next_hello_after_any_garbage() {
    let mut guest = Guest::on_stdio(&["--on-eof", "wait"]);
    guest.greet();
    let plain = started(&mut guest, shell("echo $$; exec sleep 1000"));
    // A violation, then bytes that look like the beginning of a long frame, then a host that starts over.
    guest.send_bytes(&[200, 201, 3, 0, 0, 0, 1, 0, 16, 0, 0, 77, 78, 255]);
    eventually("the plain command is gone", || !alive(plain));
    guest.send_bytes(&vec![0; RESYNC]);
    guest.greet();
    assert_eq!(guest.sh("exit 5").exit, code(5));
    assert_eq!(guest.shut_down(Duration::ZERO).code(), Some(0));
}

#[test]
fn what_a_guest_does_not_do_is_refused_and_it_goes_on() {
    let mut guest = Guest::start();
    let outward = Open::Outward { host: "example.org".to_owned(), port: 443 };
    for open in [outward, Open::Keeper(KeeperVerb::Status)] {
        assert_eq!(guest.refused(&open).code, RefusalCode::Unsupported);
    }
    // A verb of a later version, and a session name that none can have.
    let session = Writer::new().u8(1, 2).bytes(6, &[0, 1, 0, 1]).bytes(7, b"No Name").finish();
    for (stream, payload) in [(1001, Writer::new().u8(1, 99).finish()), (1003, session)] {
        guest.send(&Frame::new(Kind::Open, stream, payload));
        let refusal = Refusal::decode(&guest.receive_on(stream).payload).unwrap();
        assert_eq!(refusal.code, RefusalCode::Unsupported);
    }
    // Late words on a stream that is over.
    guest.send_data(1001, b"late");
    guest.end_input(1001);
    assert_eq!(guest.sh("exit 2").exit, code(2));
}

#[test]
fn there_is_a_limit_to_streams() {
    let mut guest = Guest::start();
    for _ in 0..1024 {
        guest.open(&Open::Listeners);
    }
    assert_eq!(guest.refused(&Open::Dial { port: 1 }).code, RefusalCode::Limit);
}

#[test]
fn a_shutdown_asks_first_and_then_insists() {
    let mut guest = Guest::start();
    let polite = guest
        .accepted(&Open::Exec(shell("trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.01; done")));
    guest.read_until(polite, "up\n");
    let stubborn = started(&mut guest, shell("trap '' TERM; echo $$; while :; do sleep 1000; done"));
    let began = Instant::now();
    guest.send(&palisade_protocol::message::shutdown_frame(300));
    let (output, _, exit) = guest.finish(polite).text();
    assert_eq!((output.as_str(), exit), ("bye\n", code(7)));
    while guest.try_receive().is_some() {}
    assert_eq!(guest.child.wait().unwrap().code(), Some(0));
    assert!(began.elapsed() >= Duration::from_millis(300), "the grace was given");
    assert!(!alive(stubborn));
}

#[test]
fn a_shutdown_does_not_wait_for_nobody() {
    let mut guest = Guest::start();
    let stream = guest.accepted(&Open::Exec(shell("echo up; exec sleep 1000")));
    guest.read_until(stream, "up\n");
    let began = Instant::now();
    guest.send(&palisade_protocol::message::shutdown_frame(20_000));
    assert_eq!(guest.finish(stream).exit, Some(Exit::Signal(15)));
    assert_eq!(guest.child.wait().unwrap().code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_host_that_hangs_up_takes_everything_with_it() {
    let mut guest = Guest::start();
    let plain = started(&mut guest, shell("trap '' TERM HUP; echo $$; while :; do sleep 1000; done"));
    let daemon = started(&mut guest, shell("setsid sh -c 'echo $$; exec sleep 1000' & wait"));
    let session =
        ExecRequest { session: Some("gone".to_owned()), ..with_terminal("echo $$; exec sleep 1000") };
    let session = started(&mut guest, session);
    let status = guest.hang_up();
    assert_eq!((status.code(), status.signal()), (Some(0), None));
    assert!(![plain, daemon, session].into_iter().any(alive));
}

#[test]
fn a_termination_signal_is_a_shutdown() {
    let mut guest = Guest::start();
    let inside = started(&mut guest, shell("echo $$; exec sleep 1000"));
    // SAFETY: sends a signal to our own child.
    assert_eq!(unsafe { libc::kill(guest.pid(), libc::SIGTERM) }, 0);
    while guest.try_receive().is_some() {}
    assert_eq!(guest.child.wait().unwrap().code(), Some(0));
    assert!(!alive(inside));
}

/// It would spin for ever otherwise, deaf to the host.
#[test]
fn a_guest_that_can_wait_for_nothing_any_more_ends() {
    let mut guest = Guest::start();
    let inside = started(&mut guest, shell("echo $$; exec sleep 1000"));
    let none = libc::rlimit { rlim_cur: 1, rlim_max: 1 };
    // SAFETY: changes a limit of our own child; the new one is read, the old one is not asked for.
    let set = unsafe { libc::prlimit(guest.pid(), libc::RLIMIT_NOFILE, &none, std::ptr::null_mut()) };
    assert_eq!(set, 0);
    // Something to wake it up with.
    guest.send(&palisade_protocol::message::window_frame(1, palisade_protocol::Channel::Main, 1));
    while guest.try_receive().is_some() {}
    assert_eq!(guest.child.wait().unwrap().code(), Some(1));
    // The first process of a pid namespace takes all others with it. Here it is not, and cannot even look for them.
    // SAFETY: sends a signal to a process that this test has started.
    unsafe { libc::kill(inside, libc::SIGKILL) };
}
