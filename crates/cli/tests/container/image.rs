//! What a sandbox is made from when no environment says: the image of the settings, kept with the sandbox.

use crate::on_engines;
use palisade_testing::{Instance, Outcome};

on_engines!(
    a_sandbox_keeps_the_image_that_it_was_made_from,
    an_image_that_is_missing_is_told_with_what_makes_it,
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
        ("palisade-agent:latest", "palisade env build agent".to_owned()),
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
