//! Directories that are swapped for links while files are copied in and out: nothing outside of the project is read or
//! written.

use crate::support::{OWN, SECRET, Scene};
use crate::swapper::Swapper;
use std::path::Path;

palisade_testing::on_isolating_methods!(
    heavy_no_copy_of_many_follows_what_is_swapped_in_meanwhile,
    a_copy_follows_no_link_that_a_sandbox_made,
);

/// In each direction.
const COPIES: usize = 100;

fn scene(method: &'static str) -> Scene {
    let scene = Scene::new(method);
    scene.instance.started("box");
    scene.instance.shell("box", &format!("printf '%s' \"{OWN}\" > /workspace/mine")).ok();
    // One that may write the project: what is swapped below is as if it had done so.
    scene.instance.run(["create", "--start", "-w", "project", "writer"]).ok();
    scene
}

/// What lies where no copy may write.
fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn heavy_no_copy_of_many_follows_what_is_swapped_in_meanwhile(method: &'static str) {
    let scene = scene(method);
    let (sub, link) = (scene.path("project/sub"), scene.path("project/link"));
    std::os::unix::fs::symlink(scene.outside(), &link).unwrap();
    assert_copies_by_name_leak(&scene);
    let swapper = Swapper::start(sub, link);
    // A tree with the directory in it, the directory itself, and what lies in it; and the same places as targets.
    let (mut whole, mut refused) = (0, 0);
    for number in 0..COPIES {
        let name = format!("box:/workspace/in-{number}");
        let source = ["project", "project/sub", "project/sub/file", "project/sub/."][number % 4];
        match scene.instance.run(["cp", source, &name]).code {
            0 => whole += 1,
            _ => refused += 1,
        }
    }
    for number in 0..COPIES {
        let target = ["project/sub", "project/sub/file", "project/sub/below", "project/sub/new"][number % 4];
        match scene.instance.run(["cp", "box:/workspace/mine", target]).code {
            0 => whole += 1,
            _ => refused += 1,
        }
    }
    drop(swapper);
    eprintln!("{method}: {whole} copies, {refused} refused");
    let leaked = scene.instance.shell("box", &format!("grep -rl '{SECRET}' /workspace"));
    assert_eq!((leaked.stdout.as_str(), leaked.code), ("", 1), "nothing of the secret came in");
    assert_eq!(names(scene.outside()), ["below", "file"], "nothing was written outside");
    assert_eq!(names(&scene.outside().join("below")), ["file"]);
    for file in ["file", "below/file"] {
        assert_eq!(std::fs::read_to_string(scene.outside().join(file)).unwrap(), SECRET);
    }
    assert!(whole > 0 && refused > 0, "the race was never on: {whole} copies, {refused} refused");
    scene.instance.run(["rm", "--force", "writer", "box"]).ok();
}

/// The control: a copy that looks first and then goes by name reads the secret and writes beside it in the same race.
#[track_caller]
fn assert_copies_by_name_leak(scene: &Scene) {
    let (sub, link) = (scene.path("project/sub"), scene.path("project/link"));
    let _swapper = Swapper::start(sub.clone(), link);
    let is_directory = || std::fs::symlink_metadata(&sub).unwrap().is_dir();
    let reads = (0..2_000_000)
        .any(|_| is_directory() && std::fs::read_to_string(sub.join("file")).unwrap_or_default() == SECRET);
    assert!(reads, "a look, then a read by name");
    let planted = scene.outside().join("planted");
    let writes = (0..2_000_000).any(|_| {
        let _ = is_directory() && std::fs::write(sub.join("planted"), "x").is_ok();
        planted.exists()
    });
    assert!(writes, "a look, then a write by name");
    std::fs::remove_file(planted).unwrap();
}

fn a_copy_follows_no_link_that_a_sandbox_made(method: &'static str) {
    let scene = scene(method);
    scene.instance.run(["stop", "writer"]).ok();
    scene.plant_link("sub");
    scene.assert_control_leaks("sub");
    for (source, target) in [
        ("project/sub/file", "box:/workspace/in"),
        ("project/sub/.", "box:/workspace/in"),
        ("project/sub/below", "box:/workspace/in"),
        ("box:/workspace/mine", "project/sub"),
        ("box:/workspace/mine", "project/sub/file"),
        ("box:/workspace/mine", "project/sub/new"),
    ] {
        let refused = scene.instance.run(["cp", source, target]);
        assert_eq!(refused.code, 1, "{source} {target}: {refused:?}");
        assert!(refused.stderr.contains("lies where a sandbox could write"), "{}", refused.stderr);
    }
    assert_eq!(names(scene.outside()), ["below", "file"]);
    // A link that is named itself is copied as a link, and a link of the user's own is followed.
    scene.instance.run(["cp", "project/sub", "box:/workspace/link"]).ok();
    let users = scene.path("users-link");
    std::os::unix::fs::symlink(scene.outside(), users).unwrap();
    scene.instance.run(["cp", "users-link/file", "box:/workspace/by-the-user"]).ok();
    scene.instance.run(["cp", "box:/workspace/mine", "users-link/new"]).ok();
    assert_eq!(std::fs::read_to_string(scene.outside().join("new")).unwrap(), OWN);
}
