//! Paths that are swapped while sandboxes are being started. Whoever wins, a start is shown the project's own directory
//! or does not come up.

use crate::support::{OWN, SECRET, Scene, call, wrap};
use crate::swapper::Swapper;
use palisade_testing::probe::naive_bwrap;
use palisade_testing::requires;
use std::process::Stdio;

palisade_testing::on_isolating_methods!(
    no_start_is_shown_what_is_swapped_in_meanwhile,
    heavy_no_start_of_many_is_shown_what_is_swapped_in_meanwhile,
);

#[derive(Debug, Default)]
struct Tally {
    shown: usize,
    /// Before anything was mounted.
    refused: usize,
    /// When something else was mounted than had been opened.
    caught: usize,
    leaked: usize,
}

/// Starts sandboxes in every form, in turn, while another one could be swapping what they are shown.
fn race(method: &'static str, starts: usize) -> Tally {
    let scene = Scene::new(method);
    let (sub, mount) = (scene.text("project/sub"), format!("{}:/data:ro", scene.text("project/sub")));
    let inside = format!("{sub}/file");
    let forms: [&[&str]; 3] = [
        &["run", "--mount", &mount, "--", "cat", "/data/file"],
        &["run", "--tool", &sub, "--", "cat", &inside],
        &["run", "-w", "project/sub:ro", "--", "cat", "file"],
    ];
    let wrapper = wrap(&scene, &["-w", "project/sub:ro", "--", "cat", "file"]);
    scene.instance.run(["create", "--tool", &sub, "box"]).ok();
    // One that may write the project, and sleeps: it is known as a writer, and the swaps below are its own.
    scene.instance.run(["create", "--start", "-w", "project", "writer"]).ok();
    let link = scene.path("project/link");
    std::os::unix::fs::symlink(scene.outside(), &link).unwrap();
    let swapper = Swapper::start(scene.path("project/sub"), link);
    let mut tally = Tally::default();
    for number in 0..starts {
        let outcome = match number % 5 {
            form @ 0..3 => scene.instance.run(forms[form]),
            3 => call(&wrapper),
            _ => match scene.instance.run(["start", "box"]) {
                started if started.code == 0 => {
                    let said = scene.instance.shell("box", &format!("cat {inside}"));
                    scene.instance.run(["stop", "box"]).ok();
                    said
                }
                refused => refused,
            },
        };
        match outcome.stdout.as_str() {
            SECRET => tally.leaked += 1,
            OWN => tally.shown += 1,
            _ => {
                assert_ne!(outcome.code, 0, "{outcome:?}");
                let is_mounted = ["while the sandbox was being started", "than the one that was opened"];
                match is_mounted.iter().any(|words| outcome.stderr.contains(words)) {
                    true => tally.caught += 1,
                    false => tally.refused += 1,
                }
            }
        }
    }
    drop(swapper);
    scene.instance.run(["rm", "--force", "writer"]).ok();
    scene.instance.run(["rm", "--force", "box"]).ok();
    scene.instance.run(["wrap", "--rm", wrapper.to_str().unwrap()]).ok();
    tally
}

fn assert_no_leak(tally: &Tally) {
    eprintln!("{tally:?}");
    assert_eq!(tally.leaked, 0, "{tally:?}");
    assert!(tally.refused + tally.caught > 0, "the race was never on: {tally:?}");
}

fn no_start_is_shown_what_is_swapped_in_meanwhile(method: &'static str) {
    assert_no_leak(&race(method, 10));
}

/// `PALISADE_RACE_STARTS` makes it more than fits into a run of all tests.
fn heavy_no_start_of_many_is_shown_what_is_swapped_in_meanwhile(method: &'static str) {
    let usual = if method == "bwrap" { 500 } else { 10 };
    let starts = std::env::var("PALISADE_RACE_STARTS").ok().and_then(|text| text.parse().ok());
    assert_no_leak(&race(method, starts.unwrap_or(usual)));
}

/// The control: bwrap by hand, which binds by name, is shown the secret in the same race.
#[test]
fn a_bind_by_name_leaks_in_the_same_race() {
    requires!(bwrap);
    let scene = Scene::new("bwrap");
    let (sub, link) = (scene.path("project/sub"), scene.path("project/link"));
    std::os::unix::fs::symlink(scene.outside(), &link).unwrap();
    let _swapper = Swapper::start(sub.clone(), link);
    let leaked = (0..500).any(|_| {
        // Checked first, as a careful program would that binds by name all the same.
        let is_directory = std::fs::symlink_metadata(&sub).unwrap().is_dir();
        let options = ["--ro-bind", sub.to_str().unwrap(), "/mnt"];
        let mut command = naive_bwrap(&options, &["cat", "/mnt/file"]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        is_directory && output.stdout == SECRET.as_bytes()
    });
    assert!(leaked);
}
