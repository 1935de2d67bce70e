//! Programs that know nothing of us, and some that like proxies.

use crate::Scene;
use palisade_testing::{Instance, Outcome, eventually, requires};

palisade_testing::on_isolating_methods!(
    curl_reaches_an_allowed_name_by_itself_and_through_either_proxy,
    python_reaches_an_allowed_name_with_and_without_the_proxy,
    git_clones_over_ssh,
    git_clones_over_http,
    a_port_below_1024_that_is_no_web_port_works_when_it_is_listed,
);

const SITE: [&str; 2] = ["--allow", "site.example.net"];

#[track_caller]
fn assert_prints(outcome: Outcome, lines: &[&str]) {
    let outcome = outcome.ok();
    assert_eq!(outcome.stdout.lines().collect::<Vec<_>>(), lines, "{}", outcome.stderr);
}

fn curl_reaches_an_allowed_name_by_itself_and_through_either_proxy(method: &'static str) {
    requires!(python3, curl);
    let scene = Scene::new(method);
    let script = scene.with_certificate(
        "for how in '--noproxy *' '' '--socks5-hostname 127.0.0.1:1080' '--socks5 127.0.0.1:1080'; do
             for scheme in http https; do
                 curl -sS -m 20 --cacert /tmp/ca.pem $how $scheme://site.example.net/hello || exit
             done
         done
         curl -sS -m 20 --data-binary hello http://site.example.net/sum",
    );
    let digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let hello = "hello from site.example.net";
    assert_prints(scene.run(&SITE, &script), &[[hello; 8].as_slice(), &[digest]].concat());
}

fn python_reaches_an_allowed_name_with_and_without_the_proxy(method: &'static str) {
    requires!(python3);
    let scene = Scene::new(method);
    let script = scene.with_certificate(
        "cat >/tmp/t.py <<'END'
import ssl, urllib.request as r
context = ssl.create_default_context(cafile='/tmp/ca.pem')
for proxies in (None, {}):
    handler = r.ProxyHandler(proxies)
    opener = r.build_opener(handler, r.HTTPSHandler(context=context))
    for scheme in ('http', 'https'):
        print(opener.open(scheme + '://site.example.net/hello', timeout=20).read().decode(), end='')
END
/usr/bin/python3 /tmp/t.py",
    );
    assert_prints(scene.run(&SITE, &script), &["hello from site.example.net"; 4]);
}

#[test]
fn node_reaches_an_allowed_name_although_it_ignores_proxies() {
    requires!(bwrap, python3, node);
    let scene = Scene::new("bwrap");
    let script = scene.with_certificate(
        "export NODE_EXTRA_CA_CERTS=/tmp/ca.pem
         exec node -e '
            (async () => {
                for (const scheme of [\"http\", \"https\"]) {
                    const answer = await fetch(scheme + \"://site.example.net/hello\");
                    process.stdout.write(await answer.text());
                    await new Promise((done, failed) => require(scheme).get(scheme + \"://site.example.net/hello\",
                        answer => answer.pipe(process.stdout, {end: false}) && answer.on(\"end\", done)).on(\"error\", failed));
                }
            })()'",
    );
    assert_prints(scene.run(&SITE, &script), &["hello from site.example.net"; 4]);
}

#[test]
fn npm_reads_a_registry() {
    requires!(bwrap, python3, npm);
    let scene = Scene::new("bwrap");
    let script = "npm view left-pad version --registry http://site.example.net/npm/ --no-update-notifier";
    assert_prints(scene.run(&SITE, script), &["1.3.0"]);
}

/// Stops when dropped.
struct Server(std::process::Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The login at the far end is this very user's, which a shell must be there for: root's.
fn git_clones_over_ssh(method: &'static str) {
    requires!(python3, git, root, sshd);
    // The usual image has an ssh; the one with Python has none.
    let scene = Scene { instance: Instance::with_method(method), ..Scene::new(method) };
    let files = scene.internet.files();
    repository(&files);
    let script = "ssh-keygen -q -t ed25519 -N '' -f host && ssh-keygen -q -t ed25519 -N '' -f key";
    let made = std::process::Command::new("sh").args(["-c", script]).current_dir(&files).status().unwrap();
    assert!(made.success());
    let place = files.display();
    let config = format!(
        "Port 2222\nHostKey {place}/host\nAuthorizedKeysFile {place}/key.pub\nStrictModes no\nUsePAM no\n\
         PidFile none\nPermitRootLogin yes\n"
    );
    std::fs::write(files.join("sshd_config"), config).unwrap();
    let serve = format!("mkdir /run/sshd && exec /usr/sbin/sshd -D -f {place}/sshd_config");
    let _server = Server(scene.internet.at_far_end(&serve).spawn().unwrap());
    let knock = "import socket; socket.create_connection(('site.example.net', 2222), timeout=5)";
    eventually("sshd listens", || scene.internet.on_host(&["/usr/bin/python3", "-c", knock]).code == 0);
    let key = std::fs::read_to_string(files.join("key")).unwrap();
    let script = format!(
        "umask 077; cat >/tmp/key <<'END'\n{key}END\n\
         export GIT_SSH_COMMAND='ssh -i /tmp/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR'\n\
         git clone -q ssh://root@site.example.net:2222{place}/repo.git /tmp/r && git -C /tmp/r log --format=%s"
    );
    assert_prints(scene.run(&["--allow", "site.example.net:2222"], &script), &["one"]);
}

fn repository(files: &std::path::Path) {
    let made = std::process::Command::new("sh")
        .args([
            "-c",
            "git init -q w && git -C w -c user.name=a -c user.email=a@b commit -q --allow-empty -m one \
             && git clone -q --bare w repo.git && git -C repo.git update-server-info",
        ])
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .current_dir(files)
        .status()
        .unwrap();
    assert!(made.success());
}

fn git_clones_over_http(method: &'static str) {
    requires!(python3, git);
    let scene = Scene::new(method);
    let files = scene.internet.files();
    repository(&files);
    let script = "git clone -q http://site.example.net/files/repo.git /tmp/r && git -C /tmp/r log --format=%s
                  git -c http.proxy= clone -q http://site.example.net/files/repo.git /tmp/s && git -C /tmp/s log --format=%s";
    assert_prints(scene.run(&SITE, script), &["one", "one"]);
}

fn a_port_below_1024_that_is_no_web_port_works_when_it_is_listed(method: &'static str) {
    requires!(python3);
    let scene = Scene::new(method);
    let script = "
import json, socket
def greeting():
    try:
        with socket.create_connection(('site.example.net', 22), timeout=20) as connection:
            return connection.recv(100).decode()
    except OSError as error:
        return type(error).__name__
print(json.dumps(greeting()))";
    assert_eq!(scene.python(&["--allow", "site.example.net:22"], script, &[]), "SSH-2.0-greeting\r\n");
    assert_eq!(scene.python(&SITE, script, &[]), "ConnectionRefusedError");
}
