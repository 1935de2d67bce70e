//! The worst moment: a directory becomes a link after it was opened and before it is mounted, every time. That the mount
//! is found to be another one is the control, too: without the comparison it would be shown.

use crate::support::{OWN, SECRET, Scene};
use palisade_testing::{Instance, Outcome, is_root, requires};
use rustix::fs::{CWD, RenameFlags};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A project with a link beside the directory, ready to be exchanged for it.
fn armed(method: &'static str) -> (Scene, String) {
    let scene = Scene::new(method);
    std::os::unix::fs::symlink(scene.outside(), scene.path("project/link")).unwrap();
    let mount = format!("{}:/data:ro", scene.text("project/sub"));
    (scene, mount)
}

#[track_caller]
fn assert_caught(outcome: &Outcome, words: &str) {
    assert_eq!((outcome.code, outcome.stdout.as_str()), (1, ""), "{outcome:?}");
    assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
}

/// Runs with a program `bwrap` that exchanges the two and becomes the real one. `help` is what it says of itself.
fn with_swapping_bwrap(scene: &Scene, mount: &str, help: &str) -> Outcome {
    let programs = scene.path("programs");
    std::fs::create_dir(&programs).unwrap();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --help ] && {{ {help}; exit; }}\n\
         cd {} && mv sub gone && mv link sub && mv gone link\nexec /usr/bin/bwrap \"$@\"\n",
        scene.path("project").display()
    );
    std::fs::write(programs.join("bwrap"), script).unwrap();
    std::fs::set_permissions(programs.join("bwrap"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", programs.display());
    let words = ["run", "--mount", mount, "--", "cat", "/data/file"];
    let outcome = Instance::finish(scene.instance.command(words).env("PATH", path));
    assert!(scene.path("project/sub").is_symlink(), "they were exchanged: {outcome:?}");
    outcome
}

#[test]
fn bwrap_mounts_what_was_opened_or_the_start_fails() {
    requires!(bwrap);
    for (help, takes_descriptors) in [("exec /usr/bin/bwrap --help", true), ("true", false)] {
        let (scene, mount) = armed("bwrap");
        // Started by root, bwrap runs as another user, who may not change the project.
        std::fs::set_permissions(scene.path("project"), std::fs::Permissions::from_mode(0o777)).unwrap();
        let outcome = with_swapping_bwrap(&scene, &mount, help);
        // Root has mounted it before bwrap begins, and a descriptor leads to the directory wherever it is by then.
        match is_root() || takes_descriptors {
            true => assert_eq!(outcome.ok().stdout, OWN),
            false => assert_caught(&outcome, "not what the host opened: /data"),
        }
    }
}

/// Passes everything on to an engine, and exchanges the two paths when a container is about to be started.
fn swapping_relay(engine: &Path, socket: &Path, one: PathBuf, other: PathBuf) {
    let listener = UnixListener::bind(socket).unwrap();
    let engine = engine.to_owned();
    let pass = move |mut client: UnixStream| {
        let mut engine = UnixStream::connect(&engine).unwrap();
        let (mut answers, mut back) = (engine.try_clone().unwrap(), client.try_clone().unwrap());
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut answers, &mut back);
            let _ = back.shutdown(std::net::Shutdown::Write);
        });
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = client.read(&mut bytes) {
            let line = String::from_utf8_lossy(bytes[..count].split(|byte| *byte == b'\r').next().unwrap());
            if line.starts_with("POST ") && line.contains("/start") {
                rustix::fs::renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
            }
            if engine.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = engine.shutdown(std::net::Shutdown::Write);
    };
    // It ends with the test's process.
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let pass = pass.clone();
            std::thread::spawn(move || pass(client));
        }
    });
}

fn an_engine_that_mounts_something_else_is_caught(method: &'static str, variable: &str) {
    let (scene, mount) = armed(method);
    let engine = std::env::var(variable).unwrap();
    let socket = scene.path("relay");
    let (sub, link) = (scene.path("project/sub"), scene.path("project/link"));
    swapping_relay(Path::new(engine.strip_prefix("unix://").unwrap()), &socket, sub.clone(), link);
    let words = ["run", "--mount", &mount, "--", "cat", "/data/file"];
    let mut command = scene.instance.command(words);
    let outcome = Instance::finish(command.env(variable, format!("unix://{}", socket.display())));
    assert!(sub.is_symlink(), "they were exchanged: {outcome:?}");
    assert!(!outcome.stdout.contains(SECRET));
    assert_caught(&outcome, "shows another directory than the one that was opened");
}

#[test]
fn docker_is_caught_when_it_mounts_something_else() {
    requires!(docker, root);
    an_engine_that_mounts_something_else_is_caught("docker", "DOCKER_HOST");
}

/// As root: an ordinary user's Podman dies of commands that take no turns, and this one is reached by another socket.
#[test]
fn podman_is_caught_when_it_mounts_something_else() {
    requires!(podman, root);
    an_engine_that_mounts_something_else_is_caught("podman", "CONTAINER_HOST");
}
