//! The engine, asked directly: what is there, whatever Palisade says.

use palisade_testing::{Instance, eventually, is_root};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

pub(crate) struct Engine {
    socket: String,
}

impl Engine {
    pub(crate) fn of(method: &str) -> Self {
        let variable = if method == "podman" { "CONTAINER_HOST" } else { "DOCKER_HOST" };
        let address = std::env::var(variable).expect("the gate has looked");
        Self { socket: address.strip_prefix("unix://").expect("a socket").to_owned() }
    }

    pub(crate) fn socket(&self) -> &str {
        &self.socket
    }

    #[track_caller]
    pub(crate) fn ask(&self, verb: &str, path: &str, body: &Value) -> String {
        let mut curl = Command::new("/usr/bin/curl");
        curl.args(["--silent", "--max-time", "60", "--unix-socket", &self.socket, "--request", verb]);
        if !body.is_null() {
            curl.args(["--header", "Content-Type: application/json", "--data", &body.to_string()]);
        }
        let output = curl.arg(format!("http://engine/v1.41{path}")).output().unwrap();
        assert!(output.status.success(), "{verb} {path}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Podman tells an error as an empty answer where it was asked for processes, also one that passes.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Value {
        let mut text = String::new();
        eventually("the engine answers with something", || {
            text = self.ask("GET", path, &Value::Null);
            !text.is_empty()
        });
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
    }

    /// Stops a container where it stands. An ordinary user's Podman cannot pause without a cgroup of the user's own; there the
    /// first process is stopped by a signal.
    pub(crate) fn pause(&self, container: &str) {
        let answer = self.ask("POST", &format!("/containers/{container}/pause"), &Value::Null);
        let state = self.get(&format!("/containers/{container}/json"))["State"].clone();
        if state["Status"] != "paused" {
            assert!(!is_root(), "{answer}");
            signal(u32::try_from(state["Pid"].as_u64().unwrap()).unwrap(), Signal::STOP);
        }
    }

    /// Lets a paused container go on.
    pub(crate) fn go_on(&self, container: &str) {
        let state = self.get(&format!("/containers/{container}/json"))["State"].clone();
        if state["Status"] == "paused" {
            self.ask("POST", &format!("/containers/{container}/unpause"), &Value::Null);
        } else {
            signal(u32::try_from(state["Pid"].as_u64().unwrap()).unwrap(), Signal::CONT);
        }
    }

    /// Names of the containers and volumes that carry the instance's label.
    pub(crate) fn owned_by(&self, instance: &Instance) -> BTreeSet<String> {
        let owner = instance.owner();
        let mut found = BTreeSet::new();
        let labelled = |thing: &Value| thing["Labels"]["dev.palisade.owner"] == owner.as_str();
        for container in self.get("/containers/json?all=true").as_array().unwrap() {
            if labelled(container) {
                found.insert(container["Names"][0].as_str().unwrap().trim_start_matches('/').to_owned());
            }
        }
        for volume in self.get("/volumes")["Volumes"].as_array().into_iter().flatten() {
            // Volumes with the guest and with tools stay for the next sandbox, whoever made them.
            let shared = ["guest", "tools"].iter().any(|kind| volume["Labels"]["dev.palisade.kind"] == *kind);
            if labelled(volume) && !shared {
                found.insert(volume["Name"].as_str().unwrap().to_owned());
            }
        }
        found
    }
}

/// The host's process that keeps a sandbox.
#[track_caller]
pub(crate) fn keeper(instance: &Instance, name: &str) -> u32 {
    let told = instance.run(["inspect", name, "--json"]).ok().json();
    u32::try_from(told["keeper_pid"].as_u64().expect("a keeper")).unwrap()
}

#[track_caller]
pub(crate) fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

#[track_caller]
fn signal(pid: u32, signal: Signal) {
    rustix::process::kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}
