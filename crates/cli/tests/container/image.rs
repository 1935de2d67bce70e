//! What a sandbox is made from when no environment says: the image of the settings, kept with the sandbox.

use crate::engine::Engine;
use crate::on_engines;
use palisade_backend_container::{ContainerBackend, ContainerConfig, EndpointConfig};
use palisade_core::{HostPath, ImageReference, Secret};
use palisade_images::{Build, ImageEngine};
use palisade_testing::{Instance, Outcome};
use serde_json::Value;
use std::collections::HashMap;

on_engines!(
    a_sandbox_keeps_the_image_that_it_was_made_from,
    an_image_that_is_missing_is_told_with_what_makes_it,
    the_password_of_a_proxy_is_there_for_the_build_and_not_in_the_image,
);

/// The bare image that the other ones build on, which has no git.
const BARE: &str = "palisade-base:latest";
const USUAL: &str = "palisade-bash:latest";
const LOOK: [&str; 4] = ["--", "sh", "-c", "command -v git || echo none"];

fn image(instance: &Instance, name: &str) -> String {
    let told = instance.run(["inspect", name, "--json"]).ok().json();
    told["foundation"]["image"].as_str().unwrap().to_owned()
}

fn a_sandbox_keeps_the_image_that_it_was_made_from(method: &'static str) {
    let instance = Instance::with_method(method);
    let run = |options: &[&str]| -> String {
        instance.run(["run"].iter().chain(options).chain(&LOOK)).ok().stdout.trim().to_owned()
    };
    instance.run(["create", "usual"]).ok();
    std::fs::create_dir_all(instance.user_config().parent().unwrap()).unwrap();
    std::fs::write(instance.user_config(), format!("image = \"{BARE}\"\n")).unwrap();
    instance.run(["create", "bare"]).ok();
    assert_eq!([image(&instance, "usual"), image(&instance, "bare")], [USUAL, BARE]);
    instance.run(["start", "usual"]).ok();
    assert_eq!(instance.shell("usual", LOOK[3]).ok().stdout, "/usr/bin/git\n");
    // What is said for a call wins over the settings, and over an environment; that over the settings.
    assert_eq!(run(&[]), "none");
    assert_eq!(run(&["--image", USUAL]), "/usr/bin/git");
    assert_eq!(run(&["--environment", "bash"]), "/usr/bin/git");
    assert_eq!(run(&["--environment", "bash", "--image", BARE]), "none");
    let mut command = instance.command(["run"].iter().chain(&LOOK));
    assert_eq!(Instance::finish(command.env("PALISADE_IMAGE", USUAL)).ok().stdout, "/usr/bin/git\n");
}

fn an_image_that_is_missing_is_told_with_what_makes_it(method: &'static str) {
    let instance = Instance::with_method(method);
    for (image, fix) in [
        // No test has it, since it is far larger than the others.
        ("palisade-agent:latest", format!("palisade env build agent --method {method}")),
        ("no-such-image:1", format!("{method} pull no-such-image:1")),
    ] {
        let told = format!("error: Missing image: {image}. Run: {fix}\n");
        for words in [&["run", "--image", image, "--", "true"][..], &["create", "--image", image, "box"]] {
            let refused = instance.run(words);
            assert_eq!(refused, Outcome { stdout: String::new(), stderr: told.clone(), code: 5 });
        }
    }
    assert_eq!(instance.run(["ls", "--json"]).ok().stdout, "[]\n");
}

/// A recipe that proves by its own success that it had the secret, and keeps nothing of it.
fn the_password_of_a_proxy_is_there_for_the_build_and_not_in_the_image(method: &'static str) {
    let canary = "canary-41c7";
    let recipe = format!("ARG BASE\nFROM ${{BASE}}\nRUN echo \"$https_proxy\" | grep -q {}\n", &canary[..6]);
    let mut context = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(recipe.len() as u64);
    header.set_mode(0o644);
    context.append_data(&mut header, "Dockerfile", recipe.as_bytes()).unwrap();
    let context = context.into_inner().unwrap();
    let image = format!("test-proxy-{}-{method}:latest", std::process::id());
    let address = |canary: &str| Secret::new(format!("http://me:{canary}@127.0.0.1:9"));
    let build = |proxies: Vec<(String, Secret)>| Build {
        image: image.clone(),
        context: context.clone(),
        base: BARE.into(),
        proxies,
        labels: HashMap::new(),
        reuse: false,
    };
    let state = tempfile::tempdir().unwrap();
    let config = ContainerConfig {
        guest: HostPath::new("/nowhere").unwrap(),
        state: HostPath::new(state.path()).unwrap(),
        image: ImageReference::standard(),
        endpoints: EndpointConfig {
            docker_host: std::env::var("DOCKER_HOST").ok(),
            container_host: std::env::var("CONTAINER_HOST").ok(),
            ..EndpointConfig::default()
        },
        tell: |_| {},
    };
    let backend = match method {
        "podman" => ContainerBackend::podman(config),
        _ => ContainerBackend::docker(config),
    };
    let mut said = Vec::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (with, without) = runtime.block_on(async {
        let proxies = ["http_proxy", "https_proxy"].map(|name| (name.to_owned(), address(canary)));
        let with = backend.build(build(proxies.into()), &mut |line| said.push(line.to_owned())).await;
        (with, backend.build(build(Vec::new()), &mut |_| {}).await)
    });
    assert!(with.is_ok() && without.is_err(), "{with:?} {without:?} {said:?}");
    let engine = Engine::of(method);
    let name = if method == "podman" { format!("localhost/{image}") } else { image };
    for path in [format!("/images/{name}/history"), format!("/images/{name}/json")] {
        let told = engine.ask("GET", &path, &Value::Null);
        assert!(told.len() > 100 && !told.contains(canary), "{path}: {told}");
    }
    assert!(!said.concat().contains(canary), "{said:?}");
    engine.ask("DELETE", &format!("/images/{name}"), &Value::Null);
}
