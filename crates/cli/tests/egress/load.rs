//! Much at once, and much at all.

use crate::Scene;
use palisade_testing::{Instance, requires};
use serde_json::json;

palisade_testing::on_isolating_methods!(
    heavy_a_thousand_connections_at_once_all_get_their_answer,
    a_large_transfer_arrives_byte_for_byte_both_ways,
    a_slow_reader_holds_up_nobody_and_costs_no_memory,
);

const SITE: [&str; 2] = ["--allow", "site.example.net"];

fn heavy_a_thousand_connections_at_once_all_get_their_answer(method: &'static str) {
    requires!(python3);
    let scene = Scene::new(method);
    let script = "
import json, resource, socket
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
open_at_once = [socket.create_connection(('site.example.net', 80), timeout=60) for _ in range(1000)]
for connection in open_at_once:
    connection.sendall(b'GET /hello HTTP/1.1\\r\\nHost: site.example.net\\r\\nConnection: close\\r\\n\\r\\n')
def rest(connection):
    received = b''
    while piece := connection.recv(4096):
        received += piece
    return received
print(json.dumps(sum(rest(connection).endswith(b'hello from site.example.net\\n') for connection in open_at_once)))";
    assert_eq!(scene.python(&SITE, script, &[]), json!(1000));
}

fn a_large_transfer_arrives_byte_for_byte_both_ways(method: &'static str) {
    requires!(python3, curl);
    let scene = Scene::new(method);
    let script = scene.with_certificate(
        "for how in '--noproxy *' ''; do
             curl -sS -m 120 --cacert /tmp/ca.pem $how https://site.example.net/big/64 | sha256sum
             curl -sS -m 120 $how http://site.example.net/big/64 >/tmp/big
             sha256sum </tmp/big
             curl -sS -m 120 $how --data-binary @/tmp/big http://site.example.net/sum
             echo
         done",
    );
    // Sixty-four times the block that the server repeats.
    let expected = std::process::Command::new("/usr/bin/python3")
        .args(["-c", "import hashlib; print(hashlib.sha256(bytes(range(256)) * 4096 * 64).hexdigest())"])
        .output()
        .unwrap();
    let digest = String::from_utf8(expected.stdout).unwrap().trim().to_owned();
    let seen = scene.run(&SITE, &script).ok().stdout;
    let seen: Vec<&str> = seen.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(seen, [digest.as_str(); 6]);
}

fn a_slow_reader_holds_up_nobody_and_costs_no_memory(method: &'static str) {
    requires!(python3);
    let scene = Scene::new(method);
    scene.internet.run(&scene.instance, ["create", "--start", "box", "--allow", "site.example.net"]).ok();
    let keeper = scene.instance.run(["inspect", "box", "--json"]).ok().json()["keeper_pid"].as_u64().unwrap();
    let resident = || {
        let status = std::fs::read_to_string(format!("/proc/{keeper}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap()
    };
    let before = resident();
    let script = "
import json, socket
def ask(path):
    connection = socket.create_connection(('site.example.net', 80), timeout=60)
    connection.sendall(f'GET {path} HTTP/1.1\\r\\nHost: site.example.net\\r\\nConnection: close\\r\\n\\r\\n'.encode())
    return connection
slow = [ask('/big/256') for _ in range(8)]
quick = ask('/hello')
received = b''
while piece := quick.recv(4096):
    received += piece
print(json.dumps(received.endswith(b'hello from site.example.net\\n')))";
    let words = ["exec", "box", "--", "/usr/bin/python3", "-IS", "-c", script];
    let answered = Instance::finish(&mut scene.instance.command(words)).ok();
    assert_eq!(answered.json(), json!(true));
    let grown = resident().saturating_sub(before);
    // Two gibibytes were asked for; eight streams with all their credit used are four mebibytes.
    assert!(grown < 24 * 1024, "the keeper grew by {grown} KiB");
}
