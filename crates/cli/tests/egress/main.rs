//! The way out of a sandbox, tried from inside with the programs people use, on an internet of the test's own.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod host_ports;
mod load;
mod log;
mod packages;
mod policy;
mod tools;

use palisade_testing::{Instance, Internet, Outcome};

struct Scene {
    internet: Internet,
    instance: Instance,
}

impl Scene {
    fn new(method: &'static str) -> Self {
        Self { internet: Internet::new(), instance: Instance::with_python(method) }
    }

    /// `sh -c script` in a sandbox of its own with these flags.
    #[track_caller]
    fn run(&self, flags: &[&str], script: &str) -> Outcome {
        let words = [&["run"], flags, &["--", "sh", "-c", script]].concat();
        self.internet.run(&self.instance, words)
    }

    /// A script that finds the far end's certificate at `/tmp/ca.pem`.
    fn with_certificate(&self, script: &str) -> String {
        let certificate = std::fs::read_to_string(self.internet.certificate()).unwrap();
        format!("cat >/tmp/ca.pem <<'END'\n{certificate}END\n{script}")
    }

    /// What a Python script prints in a sandbox of its own, which is JSON.
    #[track_caller]
    fn python(&self, flags: &[&str], script: &str, arguments: &[&str]) -> serde_json::Value {
        let words = [&["run"], flags, &["--", "/usr/bin/python3", "-IS", "-c", script], arguments].concat();
        self.internet.run(&self.instance, words).ok().json()
    }
}
