//! The allow list is not fooled, and what is private stays out of reach, whatever the way.

use crate::Scene;
use palisade_testing::{eventually, requires};
use serde_json::{Value, json};

palisade_testing::on_isolating_methods!(
    only_what_is_listed_is_reached_however_it_is_written,
    what_is_private_is_reached_when_its_address_is_listed_too,
    open_reaches_everything_public_and_nothing_else,
    a_redirect_does_not_lead_where_the_policy_does_not,
    other_sandboxes_are_out_of_reach,
);

/// Asks the proxy to CONNECT to each argument, and tells the status; with a leading "=", only looks the name up.
const ASK: &str = "
import json, socket, sys
def connect(target):
    with socket.create_connection(('127.0.0.1', 1080), timeout=30) as proxy:
        proxy.sendall(b'CONNECT ' + target.encode('latin-1') + b' HTTP/1.1\\r\\n\\r\\n')
        return int(proxy.recv(4096).split(b' ')[1])
def lookup(name):
    try:
        found = {a[4][0] for a in socket.getaddrinfo(name, 80)}
        return 'its own' if all(a.startswith('127.64.') for a in found) else sorted(found)
    except socket.gaierror as error:
        return 'unknown'
print(json.dumps({t: lookup(t[1:]) if t[0] == '=' else connect(t) for t in sys.argv[1:]}))";

fn answers(expected: &[(&str, Value)]) -> Value {
    expected
        .iter()
        .map(|(target, answer)| ((*target).to_owned(), answer.clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[track_caller]
fn assert_answers(scene: &Scene, flags: &[&str], expected: &[(&str, Value)]) {
    let targets: Vec<&str> = expected.iter().map(|(target, _)| *target).collect();
    assert_eq!(scene.python(flags, ASK, &targets), answers(expected));
}

const LISTED: [&str; 14] = [
    "--allow",
    "site.example.net",
    "--allow",
    "*.wild.example.net",
    "--allow",
    "private.example.net",
    "--allow",
    "meta.example.net",
    "--allow",
    "loop.example.net",
    "--allow",
    "own.example.net",
    "--allow",
    "mixed.example.net",
];

fn only_what_is_listed_is_reached_however_it_is_written(method: &'static str) {
    requires!(python3);
    let scene = Scene::new(method);
    let (yes, no) = (json!(200), json!(403));
    assert_answers(
        &scene,
        &LISTED,
        &[
            ("site.example.net:80", yes.clone()),
            ("SITE.Example.NET.:443", yes.clone()),
            ("a.wild.example.net:80", yes.clone()),
            ("mixed.example.net:80", yes),
            ("site.example.net:22", no.clone()),
            ("other.example.net:80", no.clone()),
            ("wild.example.net:80", no.clone()),
            ("xsite.example.net:80", no.clone()),
            ("site.example.net.evil.com:80", no.clone()),
            ("site.example.net\\0.evil.com:80", no.clone()),
            ("site.example.net..:80", no.clone()),
            ("93.184.215.14:80", no.clone()),
            ("[::ffff:93.184.215.14]:80", no.clone()),
            ("1572394766:80", no.clone()),
            ("0x5db8d70e:80", no.clone()),
            // Listed, and private all the same.
            ("private.example.net:80", no.clone()),
            ("meta.example.net:80", no.clone()),
            ("loop.example.net:80", no.clone()),
            ("own.example.net:80", no.clone()),
            ("10.9.8.7:80", no.clone()),
            ("169.254.169.254:80", no.clone()),
            ("127.0.0.1:80", no.clone()),
            ("localhost:80", no),
            ("=site.example.net", json!("its own")),
            ("=Site.Example.Net.", json!("its own")),
            ("=b.wild.example.net", json!("its own")),
            ("=other.example.net", json!("unknown")),
            ("=evil.com", json!("unknown")),
        ],
    );
    // The control: without the policy, the private and the metadata address are there.
    for name in ["private.example.net", "meta.example.net"] {
        let reached =
            scene.internet.on_host(&["curl", "-sS", "-m", "20", &format!("http://{name}/hello")]).ok();
        assert_eq!(reached.stdout, format!("hello from {name}\n"));
    }
}

fn what_is_private_is_reached_when_its_address_is_listed_too(method: &'static str) {
    requires!(python3);
    let scene = Scene::new(method);
    let flags = ["--allow", "private.example.net", "--allow", "10.9.8.0/24", "--allow", "93.184.215.14"];
    assert_answers(
        &scene,
        &flags,
        &[
            ("private.example.net:80", json!(200)),
            ("10.9.8.7:80", json!(200)),
            ("93.184.215.14:80", json!(200)),
            ("meta.example.net:80", json!(403)),
        ],
    );
}

fn open_reaches_everything_public_and_nothing_else(method: &'static str) {
    requires!(python3);
    let scene = Scene::new(method);
    let (yes, no) = (json!(200), json!(403));
    assert_answers(
        &scene,
        &["--network", "open"],
        &[
            ("site.example.net:80", yes.clone()),
            ("other.example.net:22", yes.clone()),
            ("93.184.215.14:80", yes),
            ("private.example.net:80", no.clone()),
            ("meta.example.net:80", no.clone()),
            ("169.254.169.254:80", no.clone()),
            ("loop.example.net:80", no.clone()),
            ("127.0.0.1:80", no.clone()),
            ("own.example.net:80", no.clone()),
            ("93.184.215.1:80", no),
            ("=other.example.net", json!("its own")),
            ("=printer", json!("unknown")),
        ],
    );
}

fn a_redirect_does_not_lead_where_the_policy_does_not(method: &'static str) {
    requires!(python3, curl);
    let scene = Scene::new(method);
    let script =
        "for how in '--noproxy *' ''; do curl -sSL -m 20 $how http://site.example.net/redirect; done; true";
    let inside = scene.run(&LISTED, script).ok();
    assert!(!inside.stdout.contains("hello"), "{}", inside.stdout);
    let outside = scene.internet.on_host(&["curl", "-sSL", "-m", "20", "http://site.example.net/redirect"]);
    assert_eq!(outside.ok().stdout, "hello from private.example.net\n");
}

fn other_sandboxes_are_out_of_reach(method: &'static str) {
    requires!(python3);
    let scene = Scene::new(method);
    let create = ["create", "--start", "--network", "open", "neighbour"];
    scene.internet.run(&scene.instance, create).ok();
    let serve = "nohup /usr/bin/python3 -m http.server 8000 >/dev/null 2>&1 &";
    scene.instance.shell("neighbour", serve).ok();
    // The control: it does listen, as it finds itself.
    let own =
        "/usr/bin/python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8000), timeout=5)'";
    eventually("the neighbour listens", || scene.instance.shell("neighbour", own).code == 0);
    assert_answers(
        &scene,
        &["--network", "open"],
        &[("127.0.0.1:8000", json!(403)), ("neighbour:8000", json!(403)), ("localhost:8000", json!(403))],
    );
}
