//! A small image for services of compose files: a static busybox with a shell, a web server and nothing else. It is made
//! by importing an archive, so no registry, no build and no network are needed.

use std::path::Path;
use std::process::{Command, Stdio};

const NAME: &str = "palisade-test-service";
/// The commands that services of tests use, each a link to busybox.
const COMMANDS: &[&str] = &[
    "sh", "ash", "cat", "echo", "env", "false", "hostname", "httpd", "id", "ls", "mkdir", "nc", "printf",
    "rm", "sleep", "stat", "test", "touch", "true", "wget",
];

/// The image's name, once the engine at `DOCKER_HOST` has it. What is there already is not made again.
///
/// A web service is `httpd -f -p 80 -h /www`: `/www/health` answers `ok`.
pub fn service_image() -> String {
    let name = format!("{NAME}:1");
    let known = Command::new("docker").args(["image", "inspect", &name]).output().unwrap();
    if known.status.success() {
        return name;
    }
    let root = tempfile::tempdir().unwrap();
    lay_out(root.path());
    let mut tar = Command::new("tar")
        .args(["--create", "--owner=0", "--group=0", "--numeric-owner", "."])
        .current_dir(root.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let archive = tar.stdout.take().unwrap();
    let imported = Command::new("docker").args(["import", "-", &name]).stdin(archive).output().unwrap();
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    assert!(tar.wait().unwrap().success());
    name
}

fn lay_out(root: &Path) {
    for directory in ["bin", "www", "tmp", "etc"] {
        std::fs::create_dir(root.join(directory)).unwrap();
    }
    std::fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
    for command in COMMANDS {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(command)).unwrap();
    }
    std::fs::write(root.join("www/health"), "ok\n").unwrap();
    std::fs::write(root.join("etc/passwd"), "root:x:0:0:root:/:/bin/sh\n").unwrap();
}
