//! `palisade env build` as a user meets it. `scripts/test` has put the image of `bash` into its engines, so nothing is
//! built here; `make images` tries that.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

use palisade_testing::{Instance, Outcome, requires};

#[track_caller]
fn fails(outcome: &Outcome, code: i32, message: &str) {
    assert_eq!(outcome.code, code, "{outcome:?}");
    assert!(outcome.stderr.contains(message), "{outcome:?}");
}

#[test]
fn a_method_without_images_is_told_which_ones_have_some() {
    let instance = Instance::with_method("bwrap");
    for words in [&["env", "build", "bash"][..], &["run", "--image", "palisade-bash:latest", "--", "true"]] {
        fails(&instance.run(words), 2, "method 'bwrap' needs no image; images are for docker and podman");
    }
}

#[test]
fn an_unknown_environment_is_told_with_those_there_are() {
    let told = Instance::with_method("docker").run(["env", "build", "ruby"]);
    fails(&told, 6, "Environment 'ruby' not found. Available: bash, node,");
}

#[test]
fn an_engine_that_is_not_there_ends_the_build_before_it_begins() {
    let instance = Instance::with_method("docker");
    let nowhere = format!("unix://{}", instance.no_engine().display());
    let told = Instance::finish(instance.command(["env", "build", "bash"]).env("DOCKER_HOST", &nowhere));
    fails(&told, 4, &format!("no engine answers at {nowhere}"));
}

fn nothing_is_built_twice(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.run(["env", "build", "bash"]).ok();
    let again = instance.run(["env", "build", "bash", "--json"]).ok().json();
    let told: Vec<(&str, &str)> = again
        .as_array()
        .unwrap()
        .iter()
        .map(|made| (made["image"].as_str().unwrap(), made["outcome"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [("palisade-base:latest", "current"), ("palisade-bash:latest", "current")]);
}

#[test]
fn an_image_of_docker_s_that_is_current_is_not_built_again() {
    requires!(docker);
    nothing_is_built_twice("docker");
}

#[test]
fn an_image_of_podman_s_that_is_current_is_not_built_again() {
    requires!(podman);
    nothing_is_built_twice("podman");
}
