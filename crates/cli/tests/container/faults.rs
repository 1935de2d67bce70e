//! An engine that goes away, hangs or refuses: what is told, which state a sandbox is in, and that everything works again
//! when the engine does.

use crate::engine::Engine;
use crate::on_engines;
use crate::proxy::{Mood, Proxy};
use palisade_testing::{Instance, Outcome, requires};
use serde_json::{Value, json};
use std::process::Command;
use std::time::Instant;

on_engines!(
    an_image_that_is_gone_is_told_and_the_sandbox_starts_when_it_is_back,
    a_name_that_is_taken_is_told_and_whoever_has_it_is_left_alone,
    a_full_disk_of_the_engine_is_told_and_nothing_is_left_of_the_start,
    answers_that_are_not_understood_are_told_by_every_verb,
);

/// An instance that reaches its engine through a proxy of ours.
pub(crate) struct Scene {
    pub(crate) instance: Instance,
    pub(crate) proxy: Proxy,
    variable: &'static str,
}

impl Scene {
    pub(crate) fn new(method: &'static str) -> Self {
        let variable = if method == "podman" { "CONTAINER_HOST" } else { "DOCKER_HOST" };
        Self {
            instance: Instance::with_method(method),
            proxy: Proxy::before(Engine::of(method).socket()),
            variable,
        }
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.instance.command(words);
        command.env(self.variable, self.proxy.endpoint());
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Outcome {
        Instance::finish(&mut self.command(words))
    }

    pub(crate) fn state(&self) -> String {
        self.run(&["ls", "--json"]).ok().json()[0]["state"].as_str().unwrap().to_owned()
    }

    /// What a command that fails tells: its code and the first line.
    pub(crate) fn refused(&self, words: &[&str]) -> (i32, String) {
        let told = self.run(words);
        (told.code, told.stderr.lines().next().unwrap_or_default().to_owned())
    }

    pub(crate) fn id(&self) -> String {
        self.run(&["inspect", "box", "--json"]).ok().json()["id"].as_str().unwrap().to_owned()
    }
}

/// Garbage, answers that break off, closed connections and errors: a failure with its cause, nothing left half made, and
/// everything works when the engine does.
fn answers_that_are_not_understood_are_told_by_every_verb(method: &'static str) {
    let scene = Scene::new(method);
    scene.run(&["create", "box"]).ok();
    scene.run(&["run", "--", "true"]).ok();
    let broken = "error: method '";
    let refused = format!("error: {method} refused to ");
    for (mood, code, told) in [
        (Mood::Babbles, 4, broken),
        (Mood::BreaksOff, 4, broken),
        (Mood::HangsUp, 4, broken),
        (Mood::Refuses { words: "/containers/", status: 500, message: "boom" }, 1, refused.as_str()),
    ] {
        scene.proxy.set(mood.clone());
        for words in [&["run", "--", "true"][..], &["start", "box"], &["rm", "--force", "box"]] {
            let outcome = scene.run(words);
            assert_eq!(outcome.code, code, "{mood:?} {words:?}: {outcome:?}");
            assert!(
                outcome.stderr.contains(told) && outcome.stderr.contains("\nhint: "),
                "{mood:?} {words:?}: {outcome:?}"
            );
        }
        assert!(["error", "created"].contains(&scene.state().as_str()), "{}", scene.state());
    }
    scene.proxy.set(Mood::Passes);
    scene.run(&["start", "box"]).ok();
    assert_eq!(scene.run(&["exec", "box", "--", "echo", "again"]).ok().stdout, "again\n");
    scene.run(&["rm", "--force", "box"]).ok();
    scene.run(&["gc"]).ok();
    assert!(Engine::of(method).owned_by(&scene.instance).is_empty());
}

/// Most of it with Docker alone: what is waited for is the same code, and takes as long as it says. Only Podman may take longer
/// for an image, as long as it gives a sign of life; here it gives none.
#[test]
fn an_engine_that_hangs_is_given_up_on_and_works_again_afterwards() {
    requires!(docker);
    requires!(curl);
    requires!(podman);
    let scene = Scene::new("docker");
    let podman = Scene::new("podman");
    scene.run(&["create", "box"]).ok();
    podman.run(&["create", "box"]).ok();
    scene.run(&["run", "--", "true"]).ok();
    scene.proxy.set(Mood::Hangs);
    podman.proxy.set(Mood::Hangs);
    std::thread::scope(|scope| {
        let silent = |scene: &'_ Scene, engine, words: &'static [&'static str]| {
            let begun = Instant::now();
            let told = scene.run(words);
            assert!(begun.elapsed().as_secs() < 40, "{engine} {words:?}: {:?}", begun.elapsed());
            let expected = format!("{engine} did not answer within");
            let is_told =
                told.stderr.lines().any(|line| line.starts_with("error: ") && line.contains(&expected));
            assert_eq!((told.code, is_told), (8, true), "{words:?}: {}", told.stderr);
        };
        for words in [&["run", "--", "true"] as &[_], &["create", "other"], &["start", "box"], &["gc"]] {
            let scene = &scene;
            scope.spawn(move || silent(scene, "docker", words));
        }
        let podman = &podman;
        scope.spawn(move || silent(podman, "podman", &["start", "box"]));
        silent(podman, "podman", &["run", "--", "true"]);
    });
    assert_eq!(scene.state(), "error");
    scene.proxy.set(Mood::Passes);
    scene.run(&["start", "box"]).ok();
    assert_eq!(scene.run(&["exec", "box", "--", "echo", "again"]).ok().stdout, "again\n");
}

fn an_image_that_is_gone_is_told_and_the_sandbox_starts_when_it_is_back(method: &'static str) {
    let scene = Scene::new(method);
    let engine = Engine::of(method);
    let image = format!("test-{}-{method}", std::process::id());
    let tag = || {
        let found =
            if method == "podman" { "localhost/palisade-bash:latest" } else { "palisade-bash:latest" };
        let repository = if method == "podman" { format!("localhost/{image}") } else { image.clone() };
        engine.ask("POST", &format!("/images/{found}/tag?repo={repository}&tag=latest"), &Value::Null);
    };
    let untag = || {
        let name = if method == "podman" { format!("localhost/{image}") } else { image.clone() };
        engine.ask("DELETE", &format!("/images/{name}:latest"), &Value::Null);
    };
    let environments = scene.instance.user_config().with_file_name("environments");
    std::fs::create_dir_all(&environments).unwrap();
    let manifest = format!("name = \"gone\"\ndescription = \"x\"\nimage = \"{image}:latest\"\n");
    std::fs::write(environments.join("gone.toml"), manifest).unwrap();
    let missing = format!("error: Missing image: {image}:latest. Run: {method} pull {image}:latest");

    assert_eq!(scene.refused(&["create", "--environment", "gone", "box"]), (5, missing.clone()));
    assert_eq!(scene.refused(&["run", "--environment", "gone", "--", "true"]), (5, missing.clone()));
    assert_eq!(scene.run(&["ls", "--json"]).ok().json(), json!([]), "nothing was recorded");
    tag();
    scene.run(&["create", "--environment", "gone", "box"]).ok();
    untag();
    assert_eq!(scene.refused(&["start", "box"]), (5, missing));
    assert_eq!(scene.state(), "error");
    tag();
    scene.run(&["start", "box"]).ok();
    assert_eq!(scene.run(&["exec", "box", "--", "echo", "up"]).ok().stdout, "up\n");
    scene.run(&["rm", "--force", "box"]).ok();
    untag();
}

fn a_name_that_is_taken_is_told_and_whoever_has_it_is_left_alone(method: &'static str) {
    let scene = Scene::new(method);
    let engine = Engine::of(method);
    scene.run(&["create", "box"]).ok();
    let name = format!("palisade-{}", scene.id());
    let image = if method == "podman" { "localhost/palisade-bash:latest" } else { "palisade-bash:latest" };
    let body = json!({ "Image": image, "Cmd": ["true"] });
    engine.ask("POST", &format!("/containers/create?name={name}"), &body);
    let (code, said) = scene.refused(&["start", "box"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.starts_with(&format!("error: {method} refused to make the container: ")), "{said}");
    assert!(said.contains("in use"), "{said}");
    assert_eq!(scene.state(), "error");
    assert_eq!(engine.get(&format!("/containers/{name}/json"))["Config"]["Cmd"], json!(["true"]));
    engine.ask("DELETE", &format!("/containers/{name}?force=true"), &Value::Null);
    scene.run(&["start", "box"]).ok();
    assert_eq!(scene.run(&["exec", "box", "--", "echo", "up"]).ok().stdout, "up\n");
}

fn a_full_disk_of_the_engine_is_told_and_nothing_is_left_of_the_start(method: &'static str) {
    let scene = Scene::new(method);
    scene.run(&["create", "box"]).ok();
    let full = "mkdir /var/lib/x: no space left on device";
    for (words, what) in [("/start", "start"), ("/containers/create", "make")] {
        scene.proxy.set(Mood::Refuses { words, status: 500, message: full });
        let told = format!(
            "error: cannot {what} the container (on the disk of {method}): no space is left on the device"
        );
        assert_eq!(scene.refused(&["run", "--", "true"]), (1, told.clone()));
        assert_eq!(scene.refused(&["start", "box"]), (1, told));
        assert_eq!(scene.state(), "error");
        assert_eq!(Engine::of(method).owned_by(&scene.instance).len(), 2, "only its volumes are there");
    }
    scene.proxy.set(Mood::Passes);
    scene.run(&["start", "box"]).ok();
    assert_eq!(scene.run(&["exec", "box", "--", "echo", "up"]).ok().stdout, "up\n");
}
