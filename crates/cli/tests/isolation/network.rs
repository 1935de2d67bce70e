//! No interface but loopback, and that one is the sandbox's own.

use palisade_testing::probe::{everywhere, nonce, on_host};
use palisade_testing::requires;
use serde_json::json;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

palisade_testing::on_isolating_methods!(
    the_hosts_own_servers_are_out_of_reach,
    no_address_beyond_loopback_has_a_route,
    loopback_inside_works_and_names_fail_at_once,
);

/// network.py PORT ABSTRACT-NAME
const REACH: &str = "
import errno, json, socket, sys, time
port, name = int(sys.argv[1]), sys.argv[2]
def tried(family, address, kind=socket.SOCK_STREAM):
    try:
        with socket.socket(family, kind) as s:
            s.settimeout(5)
            s.connect(address)
            return 'ok'
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
print(json.dumps({
    'interfaces': [name for _, name in socket.if_nameindex()],
    'host loopback': tried(socket.AF_INET, ('127.0.0.1', port)),
    'host loopback 6': tried(socket.AF_INET6, ('::ffff:127.0.0.1', port)),
    'abstract': tried(socket.AF_UNIX, '\\0' + name),
}))
";

/// Addresses that some machine may well have; only ever tried from inside.
const FAR: &str = "
import errno, json, socket
def tried(family, address, kind):
    try:
        with socket.socket(family, kind) as s:
            s.settimeout(5)
            s.connect((address, 80))
            return 'ok'
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
four = ['169.254.169.254', '10.0.0.1', '192.168.0.1', '172.17.0.1', '100.100.100.200', '1.1.1.1']
six = ['fd00:ec2::254', 'fe80::1', '2606:4700::1111']
kinds = (socket.SOCK_STREAM, socket.SOCK_DGRAM)
answers = {tried(socket.AF_INET, a, k) for a in four for k in kinds}
answers |= {tried(socket.AF_INET6, a, k) for a in six for k in kinds}
routes = open('/proc/net/route').read().splitlines()[1:]
print(json.dumps({'answers': sorted(answers), 'routes': routes}))
";

fn the_hosts_own_servers_are_out_of_reach(method: &'static str) {
    requires!(python3);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let name = nonce();
    let _abstract =
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(name.as_bytes()).unwrap()).unwrap();
    everywhere(method, &[], |inside| {
        assert_eq!(
            inside.python(REACH, &[&port, &name]),
            json!({
                "interfaces": ["lo"], "host loopback": "ECONNREFUSED", "host loopback 6": "ECONNREFUSED",
                "abstract": "ECONNREFUSED",
            })
        );
    });
    let outside = on_host(REACH, &[&port, &name]);
    assert_eq!((&outside["host loopback"], &outside["abstract"]), (&json!("ok"), &json!("ok")));
}

fn no_address_beyond_loopback_has_a_route(method: &'static str) {
    requires!(python3);
    everywhere(method, &[], |inside| {
        let seen = inside.python(FAR, &[]);
        assert_eq!(seen["routes"], json!([]));
        let answers = seen["answers"].as_array().unwrap();
        let unreachable = |answer: &serde_json::Value| {
            ["ENETUNREACH", "EADDRNOTAVAIL", "EINVAL"].iter().any(|known| answer == known)
        };
        assert!(!answers.is_empty() && answers.iter().all(unreachable), "{answers:?}");
    });
}

fn loopback_inside_works_and_names_fail_at_once(method: &'static str) {
    requires!(python3);
    let script = "
import json, socket, time
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname(), timeout=5)
began = time.monotonic()
try:
    socket.getaddrinfo('example.com', 80)
    name = 'resolved'
except socket.gaierror:
    name = 'failed'
quick = time.monotonic() - began < 3
print(json.dumps({'loopback': 'ok', 'name': name, 'quick': quick, 'localhost': socket.gethostbyname('localhost')}))
";
    everywhere(method, &[], |inside| {
        assert_eq!(
            inside.python(script, &[]),
            json!({"loopback": "ok", "name": "failed", "quick": true, "localhost": "127.0.0.1"})
        );
    });
}
