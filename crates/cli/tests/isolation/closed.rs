//! A broken, missing or lying bwrap: exit code 4 with the reason, and the command runs nowhere.

use palisade_testing::Instance;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A directory to be searched first, with a `bwrap` of the test's own.
fn stand_in(instance: &Instance, script: &str) -> PathBuf {
    let directory = instance.work().join("programs");
    std::fs::create_dir(&directory).unwrap();
    let program = directory.join("bwrap");
    std::fs::write(&program, script).unwrap();
    for path in [&directory, &program] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    directory
}

/// What the command would leave on the host, if it ran there.
const MARK: &str = "it-ran-on-the-host";

#[test]
fn a_bwrap_that_isolates_nothing_ends_with_exit_code_4_and_runs_nothing() {
    for (what, script) in [
        ("says it succeeded and does nothing", "#!/bin/sh\nexit 0\n"),
        ("fails", "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"),
        ("is killed", "#!/bin/sh\nkill -9 $$\n"),
        ("cannot be started", "#!/nonexistent/interpreter\n"),
        ("talks nonsense to the stream", "#!/bin/sh\nhead -c 65536 /dev/zero >&3\nexit 0\n"),
    ] {
        for words in [&["run", "--"][..], &["create", "--start", "x"]] {
            let instance = Instance::with_method("bwrap");
            let programs = stand_in(&instance, script);
            let mark = instance.work().join(MARK);
            std::fs::set_permissions(instance.work(), std::fs::Permissions::from_mode(0o777)).unwrap();
            let mut command = instance.command(words);
            if words[0] == "run" {
                command.args(["touch", mark.to_str().unwrap()]);
            }
            command.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
            let outcome = Instance::finish(&mut command);
            assert_eq!(outcome.code, 4, "{words:?}, a bwrap that {what}: {}", outcome.stderr);
            assert!(outcome.stderr.contains("bwrap"), "a bwrap that {what}: {}", outcome.stderr);
            assert!(!mark.exists(), "a bwrap that {what}: the command ran on the host");
        }
    }
}

#[test]
fn a_missing_bwrap_ends_with_exit_code_4_and_says_how_to_get_it() {
    let instance = Instance::with_method("bwrap");
    let empty = instance.work().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let mark = instance.work().join(MARK);
    let mut command = instance.command(["run", "--", "touch", mark.to_str().unwrap()]);
    let outcome = Instance::finish(command.env("PATH", &empty));
    assert_eq!(outcome.code, 4, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("install bubblewrap"), "{}", outcome.stderr);
    assert!(!mark.exists());
}

#[test]
fn the_mark_would_be_seen_where_nothing_isolates() {
    let instance = Instance::with_method("noop");
    let mark = instance.work().join(MARK);
    instance.run(["run", "--", "touch", mark.to_str().unwrap()]).ok();
    assert!(mark.exists());
}

#[test]
fn a_network_that_cannot_be_enforced_is_refused_before_anything_runs() {
    let instance = Instance::with_method("noop");
    let ran = instance.work().join("ran");
    for flags in [["--network", "allowlist"], ["--allow", "example.org"], ["--host-port", "8080"]] {
        let outcome =
            instance.run(["run"].into_iter().chain(flags).chain(["--", "touch", ran.to_str().unwrap()]));
        assert_eq!(outcome.code, 4, "{flags:?}: {}", outcome.stderr);
    }
    assert!(!ran.exists());
}
