//! The specification's own name for the program.

use crate::support::{Project, repository};
use palisade_testing::{Instance, requires};
use std::process::Command;

/// Runs that line of `make install` which makes the links, beside a program of the same name.
fn install_links(directory: &std::path::Path) {
    let planned = Command::new("make")
        .args([
            "--dry-run",
            "--no-print-directory",
            "install",
            "PREFIX=/",
            &format!("DESTDIR={}", directory.display()),
        ])
        .current_dir(repository())
        .output()
        .unwrap();
    let lines = String::from_utf8(planned.stdout).unwrap();
    let line = lines.lines().find(|line| line.starts_with("for name in")).unwrap();
    std::fs::create_dir(directory.join("bin")).unwrap();
    assert!(Command::new("sh").args(["-c", line]).status().unwrap().success());
}

#[test]
fn make_install_links_kinfra_and_it_is_the_program() {
    requires!(git);
    let project = Project::shop();
    let directory = project.instance.home();
    install_links(&directory);
    let link = directory.join("bin/kinfra");
    assert_eq!(std::fs::read_link(&link).unwrap().to_str(), Some("palisade"));
    std::os::unix::fs::symlink(palisade_testing::palisade_binary(), directory.join("bin/palisade")).unwrap();
    let plain = project.instance.command(["init"]);
    let run = |words: &[&str]| {
        let mut command = Command::new(&link);
        command.args(words).env_clear().current_dir(project.root());
        Instance::finish(command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?)))))
    };
    let told = run(&["init", "--check"]);
    assert_eq!((told.code, told.stderr.as_str()), (1, "\nWrite them with: kinfra init --apply\n"));
    assert!(run(&["init", "--help"]).ok().stdout.contains("Usage: kinfra init"));
}
