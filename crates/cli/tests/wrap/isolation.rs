//! What a wrapped command sees of the host, and what of its own installation.

use crate::support::{call, ended, executable, wrap};
use palisade_testing::{Instance, Outcome, is_root, requires};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, symlink};
use std::process::{Command, Stdio};

fn said(stdout: &str) -> Outcome {
    Outcome { stdout: stdout.into(), stderr: String::new(), code: 0 }
}

/// Nothing of the run's own start, such as the note on limits, belongs to the wrapped command.
fn ready() -> Instance {
    let instance = Instance::with_method("bwrap");
    instance.run(["run", "--", "true"]).ok();
    instance
}

#[test]
fn the_home_of_the_host_is_not_seen_and_the_project_is() {
    requires!(bwrap);
    let instance = ready();
    let secret = instance.home().join(".ssh/id_canary");
    std::fs::create_dir_all(secret.parent().unwrap()).unwrap();
    std::fs::write(&secret, "canary").unwrap();
    let wrapper = wrap(&instance, &["--", "sh", "-c", "cat \"$0\" 2>/dev/null || echo closed; cat file"]);
    std::fs::write(instance.work().join("project/file"), "project\n").unwrap();
    let looked = ended(&wrapper, &[secret.to_str().unwrap()]);
    assert_eq!(looked, said("closed\nproject\n"));
    // The control: without a sandbox it is there.
    let control = Command::new("cat").arg(&secret).output().unwrap();
    assert_eq!(control.stdout, b"canary");
}

#[test]
fn a_command_installed_in_the_home_is_reached_and_nothing_beside_it() {
    requires!(bwrap);
    let instance = ready();
    let tools = instance.home().join("tools");
    let script = "#!/bin/sh\ncat \"$(dirname \"$(readlink -f \"$0\")\")/part\"; ls \"$1\" 2>/dev/null || echo closed\n";
    executable(&tools.join("node_modules/@scope/agent/cli.js"), script);
    std::fs::write(tools.join("node_modules/@scope/agent/part"), "whole package\n").unwrap();
    std::fs::create_dir(tools.join("node_modules/.bin")).unwrap();
    symlink("../@scope/agent/cli.js", tools.join("node_modules/.bin/agent")).unwrap();
    std::fs::write(tools.join("secret"), "").unwrap();
    let path = tools.join("node_modules/.bin/agent").display().to_string();
    let wrapper = wrap(&instance, &["--", &path]);
    assert_eq!(wrapper.file_name().unwrap(), "agent");
    let secret = tools.join("secret").display().to_string();
    assert_eq!(ended(&wrapper, &[&secret]), said("whole package\nclosed\n"));

    // A single file, called by a link, with an interpreter that is not the system's.
    executable(&instance.home().join(".shells/own-shell"), "#!/bin/sh\necho interpreted; exec sh \"$@\"\n");
    executable(&instance.home().join("share/agent-1.0"), "#!/usr/bin/env own-shell\nbasename \"$0\"\n");
    let bin = instance.home().join("bin");
    std::fs::create_dir(&bin).unwrap();
    symlink(instance.home().join("share/agent-1.0"), bin.join("single")).unwrap();
    let mut command = instance.command(["wrap", "-w", "project", "--", "single"]);
    let shells = instance.home().join(".shells");
    command.env("PATH", format!("{}:{}:/usr/bin:/bin", bin.display(), shells.display()));
    let single = Instance::finish(&mut command).ok().stdout.trim_end().to_owned();
    assert_eq!(ended(single.as_ref(), &[]), said("interpreted\nsingle\n"));
}

#[test]
fn a_wrapped_project_has_git_data_of_its_own() {
    requires!(bwrap, git);
    let instance = ready();
    let wrapper = wrap(&instance, &["--", "sh", "-c"]);
    let project = instance.work().join("project");
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.args(words).current_dir(&project).env("HOME", instance.home());
        Outcome::from(command.output().unwrap()).ok()
    };
    git(&["init", "--quiet"]);
    let before = std::fs::read(project.join(".git/config")).unwrap();
    let script = "git config core.fsmonitor x; git config --unset core.fsmonitor; echo work > work && git add work && \
                  git status --short && git -c user.name=a -c user.email=a@b commit -qm inside";
    assert_eq!(ended(&wrapper, &[script]), said("A  work\n"));
    assert_eq!(std::fs::read(project.join(".git/config")).unwrap(), before);
    assert_eq!(git(&["log", "--format=%s"]).stdout, "inside\n");
    assert_eq!(git(&["status", "--short"]).stdout, "");
}

#[test]
fn a_second_call_in_the_same_directory_is_told_that_it_is_in_use() {
    requires!(bwrap);
    let instance = ready();
    let wrapper = wrap(&instance, &["--", "sh", "-c", "echo up; cat"]);
    let mut held = call(&wrapper, &[]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(held.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    let project = std::fs::canonicalize(instance.work().join("project")).unwrap();
    let told = format!(
        "error: {} is in use by another sandbox\n\
         hint: stop the sandbox that has it (palisade ls), give this one a copy with -w DIR:copy, or bind it read-only with :ro\n",
        project.display()
    );
    assert_eq!(ended(&wrapper, &[]), Outcome { stdout: String::new(), stderr: told, code: 7 });
    // Making one, and reading, is possible all the while.
    wrap(&instance, &["--", "true"]);
    let reading = instance.run(["wrap", "-w", "project:ro", "--", "true"]).ok().stdout;
    assert_eq!(ended(reading.trim_end().as_ref(), &[]), said(""));
    drop(held.stdin.take());
    held.wait().unwrap();
    assert_eq!(ended(&wrapper, &[]), said("up\n"));
}

#[test]
fn a_kept_home_belongs_to_nobody_on_the_host_when_root_made_it() {
    requires!(bwrap);
    let instance = ready();
    let wrapper = wrap(
        &instance,
        &["--keep-home", "--", "sh", "-c", "id -un; touch ~/made; ls -l ~/made | cut -d' ' -f3"],
    );
    assert_eq!(ended(&wrapper, &[]), said("agent\nagent\n"));
    let made = std::fs::metadata(wrapper.with_file_name("../home/made")).unwrap();
    let me = rustix::process::geteuid().as_raw();
    assert_eq!(made.uid() == me, !is_root(), "uid {}", made.uid());
}

/// What a mount brings into a kept home is mounted there at every call, through no link that an earlier call left.
#[test]
fn a_link_left_in_a_kept_home_is_not_followed_by_a_mount() {
    requires!(bwrap);
    let instance = ready();
    let outside = instance.work().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::create_dir(instance.work().join("data")).unwrap();
    let mount = format!("{}:/home/agent/place/data:ro", instance.work().join("data").display());
    let wrapper = wrap(&instance, &["--keep-home", "--mount", &mount, "--", "sh", "-c"]);
    assert_eq!(ended(&wrapper, &["ls ~/place"]), said("data\n"));
    let link = format!("mv ~/place ~/old && ln -s {} ~/place && echo linked", outside.display());
    let tried = ended(&wrapper, &[&link]);
    if tried.stdout == "linked\n" {
        assert_eq!(ended(&wrapper, &["true"]).code, 1);
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}
