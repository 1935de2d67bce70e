//! Connections to ports inside, and the report of who listens.

#![allow(unsafe_code, reason = "the support module prepares a descriptor between fork and exec")]

mod support;

use palisade_protocol::{Open, RefusalCode, Report};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use support::{Guest, code};

#[test]
fn bytes_and_ends_pass_both_ways() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let listener = TcpListener::bind(address).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            connection.write_all(b"welcome\n").unwrap();
            let mut received = Vec::new();
            connection.read_to_end(&mut received).unwrap();
            // The other direction is still open after the caller's end.
            connection.write_all(&received.repeat(1000)).unwrap();
        });
        let mut guest = Guest::start();
        let stream = guest.accepted(&Open::Dial { port });
        assert_eq!(guest.read_until(stream, "\n"), "welcome\n");
        guest.send_data(stream, b"a line of some length\n");
        guest.end_input(stream);
        let outcome = guest.finish(stream);
        assert!(outcome.output == b"a line of some length\n".repeat(1000));
        assert_eq!(outcome.exit, code(0));
        server.join().unwrap();
    }
}

#[test]
fn data_sent_before_the_answer_is_not_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut guest = Guest::start();
    let stream = guest.open(&Open::Dial { port });
    guest.send_data(stream, b"early");
    guest.end_input(stream);
    let mut received = String::new();
    listener.accept().unwrap().0.read_to_string(&mut received).unwrap();
    assert_eq!(received, "early");
}

#[test]
fn the_far_end_may_finish_first() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut guest = Guest::start();
    let stream = guest.accepted(&Open::Dial { port });
    let (mut connection, _) = listener.accept().unwrap();
    connection.shutdown(Shutdown::Write).unwrap();
    assert_eq!(guest.receive_on(stream).kind, palisade_protocol::Kind::Eof);
    guest.send_data(stream, b"still here");
    guest.end_input(stream);
    let mut received = String::new();
    connection.read_to_string(&mut received).unwrap();
    assert_eq!(received, "still here");
    assert_eq!(guest.finish(stream).exit, code(0));
}

#[test]
fn a_port_where_nobody_listens_is_refused_with_the_reason() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let refusal = Guest::start().refused(&Open::Dial { port: free });
    assert_eq!((refusal.code, refusal.errno), (RefusalCode::Failed, libc::ECONNREFUSED));
}

/// Reads reports until one says so of the port.
fn reported(guest: &mut Guest, stream: u32, port: u16, listens: bool) {
    loop {
        let Report::Listeners(ports) = guest.report(stream) else { unreachable!("not the report asked for") };
        assert!(ports.is_sorted());
        if ports.contains(&port) == listens {
            return;
        }
    }
}

#[test]
fn listening_ports_are_told_as_they_come_and_go() {
    let first = TcpListener::bind("127.0.0.1:0").unwrap();
    let first_port = first.local_addr().unwrap().port();
    let mut guest = Guest::start();
    let stream = guest.accepted(&Open::Listeners);
    reported(&mut guest, stream, first_port, true);
    let second = TcpListener::bind("[::1]:0").unwrap();
    let second_port = second.local_addr().unwrap().port();
    reported(&mut guest, stream, second_port, true);
    drop(second);
    reported(&mut guest, stream, second_port, false);
}
