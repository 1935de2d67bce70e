//! One port of the host's loopback, and no other.

use palisade_testing::probe::everywhere;
use palisade_testing::requires;
use serde_json::json;
use std::io::Write;
use std::net::TcpListener;

palisade_testing::on_isolating_methods!(
    a_listed_port_of_the_host_appears_inside_and_no_other,
    it_may_have_another_number_inside_even_a_low_one,
);

const REACH: &str = "
import json, socket, sys
def reach(address, port):
    try:
        with socket.create_connection((address, int(port)), timeout=20) as connection:
            return connection.recv(100).decode()
    except OSError as error:
        return type(error).__name__
print(json.dumps([reach('127.0.0.1', sys.argv[1]), reach('localhost', sys.argv[1]), reach('127.0.0.1', sys.argv[2])]))";

/// A server of the host's that greets everybody.
fn greeter() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let _ = connection.unwrap().write_all(b"welcome");
        }
    });
    port
}

fn a_listed_port_of_the_host_appears_inside_and_no_other(method: &'static str) {
    requires!(python3);
    let (shown, hidden) = (greeter(), greeter());
    let flag = format!("{shown}");
    everywhere(method, &["--host-port", &flag], |inside| {
        assert_eq!(
            inside.python(REACH, &[&shown.to_string(), &hidden.to_string()]),
            json!(["welcome", "welcome", "ConnectionRefusedError"])
        );
    });
}

fn it_may_have_another_number_inside_even_a_low_one(method: &'static str) {
    requires!(python3);
    let port = greeter();
    let flag = format!("80:{port}");
    everywhere(method, &["--host-port", &flag], |inside| {
        assert_eq!(
            inside.python(REACH, &["80", &port.to_string()]),
            json!(["welcome", "welcome", "ConnectionRefusedError"])
        );
    });
}
