//! Package managers at a registry of the test's own, over TLS: without a word of proxies in their environment, and with
//! what a sandbox says of them there.

use crate::Scene;
use palisade_testing::{Outcome, requires, rust_toolchain};
use std::process::Command;

palisade_testing::on_isolating_methods!(pip_installs_from_an_index,);

const SITE: [&str; 2] = ["--allow", "site.example.net"];
/// `bare PROGRAM …` starts it without any proxy in its environment.
const BARE: &str = "bare() { env -u http_proxy -u https_proxy -u all_proxy -u HTTP_PROXY -u HTTPS_PROXY -u ALL_PROXY \"$@\"; }\n";

/// Makes what a registry serves, by a Python script that runs in the directory which is served.
fn publish(scene: &Scene, script: &str) {
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-IS", "-c", script]).current_dir(scene.internet.files());
    Outcome::from(command.output().unwrap()).ok();
}

#[track_caller]
fn assert_prints(scene: &Scene, flags: &[&str], script: &str, lines: &[&str]) {
    let outcome = scene.run(flags, &scene.with_certificate(&format!("set -e\n{BARE}{script}"))).ok();
    assert_eq!(outcome.stdout.lines().collect::<Vec<_>>(), lines, "{}", outcome.stderr);
}

fn pip_installs_from_an_index(method: &'static str) {
    requires!(python3, pip);
    let scene = Scene::new(method);
    publish(
        &scene,
        "
import os, zipfile
os.makedirs('simple/small')
with zipfile.ZipFile('simple/small/small-1.0-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('small.py', 'word = \"installed by pip\"\\n')
    about = 'small-1.0.dist-info/'
    wheel.writestr(about + 'METADATA', 'Metadata-Version: 2.1\\nName: small\\nVersion: 1.0\\n')
    wheel.writestr(about + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr(about + 'RECORD', '')
open('simple/small/index.html', 'w').write('<a href=\"small-1.0-py3-none-any.whl\">small-1.0-py3-none-any.whl</a>')",
    );
    let script = "for how in bare env; do
            $how /usr/bin/python3 -m pip install -q --disable-pip-version-check --no-cache-dir --cert /tmp/ca.pem \\
                --index-url https://site.example.net/files/simple --target /tmp/$how small
            PYTHONPATH=/tmp/$how /usr/bin/python3 -c 'import small; print(small.word)'
        done";
    assert_prints(&scene, &SITE, script, &["installed by pip"; 2]);
}

/// The toolchain is in somebody's home, so it is shown as a user would show it.
#[test]
fn cargo_builds_with_a_crate_from_a_sparse_registry() {
    requires!(bwrap, python3, cargo);
    let scene = Scene::new("bwrap");
    publish(
        &scene,
        "
import hashlib, io, json, os, tarfile
os.makedirs('index/sm/al')
os.makedirs('crates')
with tarfile.open('crates/small-1.0.0.crate', 'w:gz') as crate:
    for name, text in {'Cargo.toml': '[package]\\nname = \"small\"\\nversion = \"1.0.0\"\\nedition = \"2021\"\\n',
                       'src/lib.rs': 'pub const WORD: &str = \"built with cargo\";\\n'}.items():
        entry = tarfile.TarInfo('small-1.0.0/' + name)
        entry.size = len(text)
        crate.addfile(entry, io.BytesIO(text.encode()))
digest = hashlib.sha256(open('crates/small-1.0.0.crate', 'rb').read()).hexdigest()
json.dump({'dl': 'https://site.example.net/files/crates/{crate}-{version}.crate'}, open('index/config.json', 'w'))
json.dump({'name': 'small', 'vers': '1.0.0', 'deps': [], 'cksum': digest, 'features': {}, 'yanked': False},
          open('index/sm/al/small', 'w'))",
    );
    let script = "mkdir -p /tmp/p/src && cd /tmp/p
        printf '[package]\\nname = \"p\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\n[dependencies]\\n' >Cargo.toml
        echo 'small = { version = \"1\", registry = \"local\" }' >>Cargo.toml
        echo 'fn main() { println!(\"{}\", small::WORD) }' >src/main.rs
        export CARGO_REGISTRIES_LOCAL_INDEX=sparse+https://site.example.net/files/index/ CARGO_HTTP_CAINFO=/tmp/ca.pem
        for how in bare env; do CARGO_HOME=/tmp/$how $how cargo run -q; done";
    let toolchain = rust_toolchain();
    let flags = [&SITE[..], &["--tool", toolchain.to_str().unwrap()]].concat();
    assert_prints(&scene, &flags, script, &["built with cargo"; 2]);
}

#[test]
fn go_fetches_a_module_and_its_programs_reach_an_allowed_name() {
    requires!(bwrap, python3, go);
    let scene = Scene::new("bwrap");
    publish(
        &scene,
        "
import os, zipfile
place = 'modules/example.net/small/@v/'
os.makedirs(place)
module = 'module example.net/small\\n'
open(place + 'list', 'w').write('v1.0.0\\n')
open(place + 'v1.0.0.info', 'w').write('{\"Version\":\"v1.0.0\",\"Time\":\"2026-01-01T00:00:00Z\"}')
open(place + 'v1.0.0.mod', 'w').write(module)
with zipfile.ZipFile(place + 'v1.0.0.zip', 'w') as archive:
    archive.writestr('example.net/small@v1.0.0/go.mod', module)
    archive.writestr('example.net/small@v1.0.0/small.go', 'package small\\n\\nconst Word = \"fetched by go\"\\n')",
    );
    let script = "mkdir /tmp/p && cd /tmp/p
        cat >main.go <<'END'
package main

import (
	\"example.net/small\"
	\"fmt\"
	\"io\"
	\"net/http\"
	\"os\"
)

func main() {
	answer, err := http.Get(\"https://site.example.net/hello\")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(small.Word)
	io.Copy(os.Stdout, answer.Body)
}
END
        printf 'module p\\n\\ngo 1.19\\n\\nrequire example.net/small v1.0.0\\n' >go.mod
        export GOCACHE=/tmp/go GOFLAGS=-mod=mod GOSUMDB=off SSL_CERT_FILE=/tmp/ca.pem
        export GOPROXY=https://site.example.net/files/modules
        for how in bare env; do GOMODCACHE=/tmp/$how $how go run .; done";
    let told = ["fetched by go", "hello from site.example.net"];
    assert_prints(&scene, &SITE, script, &[told, told].concat());
}

#[test]
fn java_reaches_an_allowed_name_by_itself_and_through_the_proxy() {
    requires!(bwrap, python3, java);
    let scene = Scene::new("bwrap");
    let script = "cat >/tmp/T.java <<'END'
import java.io.FileInputStream;
import java.net.URL;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.*;

public class T {
    public static void main(String[] arguments) throws Exception {
        KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null, null);
        try (FileInputStream file = new FileInputStream(\"/tmp/ca.pem\")) {
            trusted.setCertificateEntry(\"ca\", CertificateFactory.getInstance(\"X.509\").generateCertificate(file));
        }
        TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(trusted);
        SSLContext context = SSLContext.getInstance(\"TLS\");
        context.init(null, factory.getTrustManagers(), null);
        HttpsURLConnection.setDefaultSSLSocketFactory(context.getSocketFactory());
        for (String scheme : new String[] {\"http\", \"https\"})
            System.out.write(new URL(scheme + \"://site.example.net/hello\").openStream().readAllBytes());
        System.out.flush();
    }
}
END
        javac -d /tmp /tmp/T.java
        java -cp /tmp T
        java -cp /tmp -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=1080 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1080 T";
    assert_prints(&scene, &SITE, script, &["hello from site.example.net"; 4]);
}
