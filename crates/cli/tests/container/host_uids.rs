//! Whom sandboxes run as on the host. On engines of root's each has a uid of its own; an ordinary user's podman runs all of
//! them as that user.

use crate::engine::Engine;
use crate::on_engines;
use palisade_testing::{Instance, is_root};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::PathBuf;

on_engines!(
    sandboxes_have_host_uids_of_their_own_and_share_none_with_another_installation,
    a_sandbox_of_an_earlier_version_keeps_the_uid_that_its_files_have,
    a_bound_directory_decides_whom_a_sandbox_runs_as,
);

/// Neither root's nor one that an image knows.
const ORDINARY: u32 = 54321;

/// Whether the engine is root's: an ordinary user's podman has one uid for all.
fn is_of_root(method: &str) -> bool {
    method == "docker" || is_root()
}

fn id_of(instance: &Instance, name: &str) -> String {
    instance.run(["inspect", name, "--json"]).ok().json()["id"].as_str().unwrap().to_owned()
}

/// The uid of a container's first process, as the host sees it.
fn seen_from_the_host(engine: &Engine, id: &str) -> u32 {
    let told = engine.get(&format!("/containers/palisade-{id}/json"));
    let pid = told["State"]["Pid"].as_u64().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    let uids: BTreeSet<u32> = uids.split_whitespace().map(|uid| uid.parse().unwrap()).collect();
    assert_eq!(uids.len(), 1, "real, effective, saved: {uids:?}");
    *uids.first().unwrap()
}

fn volume(engine: &Engine, id: &str, place: &str) -> Value {
    engine.get(&format!("/volumes/palisade-{id}-{place}"))
}

fn mountpoint(volume: &Value) -> PathBuf {
    volume["Mountpoint"].as_str().unwrap().into()
}

/// The range of uids that `doctor` names.
fn told_by_doctor(instance: &Instance) -> std::ops::RangeInclusive<u32> {
    let told = instance.run(["doctor", "--json"]).ok().json();
    let checks = told["methods"][0]["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == "host uids").expect("a check of uids");
    let detail = check["detail"].as_str().unwrap();
    let range = detail.strip_prefix("a uid of its own for each sandbox, of ").expect(detail);
    let (first, last) = range.split_once('–').expect(detail);
    first.parse().unwrap()..=last.parse().unwrap()
}

fn sandboxes_have_host_uids_of_their_own_and_share_none_with_another_installation(method: &'static str) {
    if !is_of_root(method) {
        return;
    }
    let engine = Engine::of(method);
    let instances = [Instance::with_method(method), Instance::with_method(method)];
    let mut uids = Vec::new();
    for (instance, names) in instances.iter().zip([&["one", "two"][..], &["one"]]) {
        for name in names {
            instance.started(name);
            let id = id_of(instance, name);
            let uid = seen_from_the_host(&engine, &id);
            let look =
                "id -un; id -gn; id -u; id -g; echo $HOME; touch ~/made made; stat -c %U:%G ~ . ~/made made";
            let own = "agent:agent\n".repeat(4);
            assert_eq!(
                instance.shell(name, look).ok().stdout,
                format!("agent\nagent\n{uid}\n{uid}\n/home/agent\n{own}")
            );
            let recorded = instance.run(["inspect", name, "--json"]).ok().json()["host_uid"].clone();
            assert_eq!(recorded, json!(uid));
            if is_root() {
                for place in ["home", "workspace"] {
                    let at = mountpoint(&volume(&engine, &id, place));
                    for path in [at.clone(), at.join("made")] {
                        assert_eq!(path.metadata().unwrap().uid(), uid, "{}", path.display());
                    }
                }
            }
            uids.push(uid);
        }
        assert!(told_by_doctor(instance).contains(uids.last().unwrap()), "{uids:?}");
        let run = instance.run(["run", "--", "sh", "-c", "id -un >&2; id -u"]).ok();
        assert_eq!(run.stderr, "agent\n");
        uids.push(run.stdout.trim().parse().unwrap());
    }
    assert!(uids.iter().all(|uid| ![0, 1000, 65534].contains(uid)), "{uids:?}");
    let different: BTreeSet<&u32> = uids.iter().collect();
    assert_eq!(different.len(), uids.len(), "{uids:?}");
}

/// As volumes were before they said whom they belong to: everything in them was the uid's that images know.
fn make_as_before(engine: &Engine, id: &str) {
    for place in ["home", "workspace"] {
        let mut now = volume(engine, id, place);
        let labels = now["Labels"].as_object_mut().unwrap();
        assert!(labels.remove("dev.palisade.user").is_some());
        let name = now["Name"].as_str().unwrap();
        let made = json!({"Name": name, "Labels": now["Labels"]});
        engine.ask("DELETE", &format!("/volumes/{name}"), &Value::Null);
        engine.ask("POST", "/volumes/create", &made);
        chown(mountpoint(&volume(engine, id, place)), Some(1000), Some(1000)).unwrap();
    }
}

fn a_sandbox_of_an_earlier_version_keeps_the_uid_that_its_files_have(method: &'static str) {
    if !is_root() {
        // Only root can give volumes away.
        return;
    }
    let (engine, instance) = (Engine::of(method), Instance::with_method(method));
    instance.run(["create", "old"]).ok();
    make_as_before(&engine, &id_of(&instance, "old"));
    for _ in 0..2 {
        instance.run(["start", "old"]).ok();
        let look = "id -u; id -un; echo x >> ~/file; echo x >> file; stat -c %u ~/file file";
        assert_eq!(instance.shell("old", look).ok().stdout, "1000\nagent\n1000\n1000\n");
        instance.run(["stop", "old"]).ok();
    }
}

fn a_bound_directory_decides_whom_a_sandbox_runs_as(method: &'static str) {
    if !is_root() {
        // Only root can give directories to another user.
        return;
    }
    let instance = Instance::with_method(method);
    let shared = instance.work().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::write(shared.join("file"), "read\n").unwrap();
    for path in [&shared.join("file"), &shared] {
        chown(path, Some(ORDINARY), Some(ORDINARY)).unwrap();
    }
    let look = "id -u; id -un; touch ~/made; cat file";
    let run = |flag: &str| -> String {
        let told = instance.run(["run", "-w", flag, "--", "sh", "-c", look]).ok();
        told.stdout.lines().collect::<Vec<_>>().join(" ")
    };
    let as_owner = format!("{ORDINARY} agent read");
    assert_eq!(run("shared"), as_owner);
    instance.run(["run", "-w", "shared", "--", "touch", "made"]).ok();
    assert_eq!(shared.join("made").metadata().unwrap().uid(), ORDINARY);
    // What everybody may read, a sandbox of any uid may read.
    assert!(!run("shared:ro").starts_with(&ORDINARY.to_string()));
    // What is closed to others is read by its owner.
    std::fs::set_permissions(&shared, PermissionsExt::from_mode(0o700)).unwrap();
    assert_eq!(run("shared:ro"), as_owner);
    instance.run(["create", "--start", "-w", "shared:ro", "box"]).ok();
    assert_eq!(instance.shell("box", look).ok().stdout, format!("{ORDINARY}\nagent\nread\n"));
}
