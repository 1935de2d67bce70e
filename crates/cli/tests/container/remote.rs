//! An engine on another machine: it does what needs no path of this one, has this one's tools in volumes, and says what
//! it cannot do.

use crate::engine::Engine;
use crate::on_engines;
use crate::proxy::{Mood, Proxy};
use palisade_testing::{Instance, Outcome, requires};
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

on_engines!(
    an_engine_on_another_machine_does_what_needs_no_path_of_this_one,
    tools_of_this_machine_are_sent_once_per_content_and_cannot_be_changed_inside,
);

/// An instance whose engine is behind a port, as far as anybody can tell on another machine.
struct Scene {
    instance: Instance,
    engine: Engine,
    proxy: Proxy,
    variable: &'static str,
    address: String,
}

impl Scene {
    fn new(method: &'static str) -> Self {
        let engine = Engine::of(method);
        let proxy = Proxy::before(engine.socket());
        let address = proxy.behind_a_port();
        let variable = if method == "podman" { "CONTAINER_HOST" } else { "DOCKER_HOST" };
        Self { instance: Instance::with_method(method), engine, proxy, variable, address }
    }

    fn run(&self, words: &[&str]) -> Outcome {
        Instance::finish(self.instance.command(words).env(self.variable, &self.address))
    }

    /// A directory with a program in it that says something, and a link to it.
    fn tool(&self, says: &str) -> PathBuf {
        let tool = self.instance.work().join("tool");
        std::fs::create_dir_all(tool.join("bin")).unwrap();
        let program = tool.join("lib-program");
        std::fs::write(&program, format!("#!/bin/sh\necho {says}\n")).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let _ = symlink("../lib-program", tool.join("bin/speak"));
        tool
    }

    fn tools_volumes(&self) -> Vec<String> {
        let owner = self.instance.owner();
        let volumes = self.engine.get("/volumes");
        let ours = volumes["Volumes"].as_array().into_iter().flatten().filter(|volume| {
            volume["Labels"]["dev.palisade.owner"] == owner.as_str()
                && volume["Labels"]["dev.palisade.kind"] == "tools"
        });
        ours.map(|volume| volume["Name"].as_str().unwrap().to_owned()).collect()
    }

    fn sendings(outcome: &Outcome) -> usize {
        outcome.stderr.lines().filter(|line| line.contains("to the engine at")).count()
    }

    fn remove_volumes(&self) {
        for volume in self.tools_volumes() {
            self.engine.ask("DELETE", &format!("/volumes/{volume}"), &Value::Null);
        }
    }
}

fn an_engine_on_another_machine_does_what_needs_no_path_of_this_one(method: &'static str) {
    let scene = Scene::new(method);
    assert_eq!(scene.run(&["run", "--", "echo", "there"]).ok().stdout, "there\n");
    scene.run(&["create", "--start", "box"]).ok();
    std::fs::write(scene.instance.work().join("file"), "copied").unwrap();
    scene.run(&["cp", "file", "box:/workspace/file"]).ok();
    assert_eq!(scene.run(&["exec", "box", "--", "cat", "file"]).ok().stdout, "copied");
    let data = format!("{}:/data:ro", scene.instance.work().display());
    for option in [["-w", "."], ["--mount", data.as_str()]] {
        let told = scene.run(&[&["run"][..], &option, &["--", "true"]].concat());
        let lines: Vec<&str> = told.stderr.lines().collect();
        let work = std::fs::canonicalize(scene.instance.work()).unwrap();
        let refused = format!(
            "error: method '{method}' cannot do this: {} is on this host, and the engine at {} is not",
            work.display(),
            scene.address
        );
        let fix =
            "hint: copy what the sandbox needs with palisade cp, or use an engine on this machine".to_owned();
        assert_eq!((told.code, lines), (4, vec![refused.as_str(), fix.as_str()]), "{option:?}");
    }
    scene.run(&["rm", "--force", "box"]).ok();
}

fn tools_of_this_machine_are_sent_once_per_content_and_cannot_be_changed_inside(method: &'static str) {
    let scene = Scene::new(method);
    let tool = scene.tool("one");
    let tool = tool.to_str().unwrap();
    let speak = ["run", "--tool", tool, "--", "speak"];
    let first = scene.run(&speak).ok();
    assert_eq!((first.stdout.as_str(), Scene::sendings(&first)), ("one\n", 1));
    scene.run(&["create", "--tool", tool, "box"]).ok();
    let started = scene.run(&["start", "box"]).ok();
    assert_eq!(Scene::sendings(&started), 0, "it is there: {}", started.stderr);
    let attempt = format!("speak; echo x > {tool}/lib-program || ls -l {tool}/lib-program | cut -c 1-10");
    let inside = scene.run(&["exec", "box", "--", "sh", "-c", &attempt]).ok();
    assert_eq!(inside.stdout, "one\n-r-xr-xr-x\n", "{}", inside.stderr);
    let old = scene.tools_volumes();
    assert_eq!(old.len(), 1, "{old:?}");

    scene.tool("another");
    let second = scene.run(&speak).ok();
    assert_eq!((second.stdout.as_str(), Scene::sendings(&second)), ("another\n", 1));
    assert_eq!(scene.run(&["exec", "box", "--", "speak"]).ok().stdout, "one\n", "what runs has what it had");
    assert_eq!(scene.run(&["gc", "--json"]).ok().json(), json!([]), "both are in use or of today");
    scene.run(&["rm", "--force", "box"]).ok();
    let collected = json!([{ "what": format!("volume {}", old[0]), "action": "removed" }]);
    assert_eq!(scene.run(&["gc", "--json"]).ok().json(), collected);
    std::fs::remove_dir_all(tool).unwrap();
    assert_eq!(scene.run(&["gc", "--json"]).ok().json().as_array().unwrap().len(), 1, "nobody wants it");
    assert_eq!(scene.tools_volumes(), Vec::<String>::new());
}

/// Docker alone: what is waited for, filled and put away is the same code.
#[test]
fn a_half_filled_volume_is_never_used() {
    requires!(docker);
    requires!(curl);
    let scene = Scene::new("docker");
    let tool = scene.tool("whole");
    let tool = tool.to_str().unwrap();
    let speak = ["run", "--tool", tool, "--", "speak"];
    scene.run(&["run", "--", "true"]).ok();
    let full = "write /x: no space left on device";
    scene.proxy.set(Mood::Refuses { words: "/archive", status: 500, message: full });
    let told = scene.run(&speak);
    let said = told.stderr.lines().find(|line| line.starts_with("error:")).unwrap_or_default();
    let expected = "error: cannot take an archive (on the disk of docker): no space is left on the device";
    assert_eq!((told.code, said), (1, expected));
    scene.proxy.set(Mood::Passes);
    assert_eq!(scene.tools_volumes(), Vec::<String>::new(), "nothing is left of it");
    assert_eq!(scene.engine.owned_by(&scene.instance).len(), 0);
    assert_eq!(scene.run(&speak).ok().stdout, "whole\n");

    // Somebody who filled it was killed: the volume is there and empty, and so is the filler, without its process.
    let volume = scene.tools_volumes().remove(0);
    let owner = scene.instance.owner();
    scene.remove_volumes();
    let labels = json!({ "dev.palisade.owner": owner, "dev.palisade.kind": "tools" });
    let of_the_dead = json!({
        "dev.palisade.owner": owner,
        "dev.palisade.kind": "filler",
        "dev.palisade.process": "1-1.00000000",
    });
    let plant = || {
        scene.engine.ask("POST", "/volumes/create", &json!({ "Name": volume, "Labels": labels }));
        let body = json!({ "Image": "palisade-bash:latest", "Entrypoint": ["/x"], "Labels": of_the_dead });
        scene.engine.ask("POST", &format!("/containers/create?name={volume}-filler"), &body);
    };
    plant();
    assert_eq!(scene.run(&speak).ok().stdout, "whole\n", "it was filled again");
    assert_eq!(scene.engine.owned_by(&scene.instance).len(), 0, "and the filler is gone");

    // The same, found by gc first: the empty volume goes with its filler.
    scene.remove_volumes();
    plant();
    scene.run(&["gc"]).ok();
    assert_eq!(scene.tools_volumes(), Vec::<String>::new());
    assert_eq!(scene.engine.owned_by(&scene.instance).len(), 0);

    // Removed behind our back, it comes back, although the engine makes an empty one by itself.
    assert_eq!(scene.run(&speak).ok().stdout, "whole\n");
    scene.remove_volumes();
    assert_eq!(scene.run(&speak).ok().stdout, "whole\n");
    scene.remove_volumes();
}
