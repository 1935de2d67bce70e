//! The first thing a user does.

use palisade_testing::{Instance, Traces, requires};

#[test]
fn a_command_runs_isolated_and_leaves_nothing() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let outcome = instance.run(["run", "--", "sh", "-c", "echo hello; echo oops >&2; exit 7"]);
    assert_eq!((outcome.stdout.as_str(), outcome.code), ("hello\n", 7));
    assert!(outcome.stderr.ends_with("oops\n"), "{}", outcome.stderr);
    assert!(Traces::of(&instance).is_clean(), "{:?}", Traces::of(&instance));
}

#[test]
fn what_programs_need_of_etc_is_as_on_the_host_and_cannot_be_changed() {
    use std::os::unix::fs::PermissionsExt;
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let listed =
        ["/etc/bash.bashrc", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/services", "/etc/ssl/openssl.cnf"];
    let below = std::fs::read_dir("/etc/ld.so.conf.d").into_iter().flatten().flatten();
    let below: Vec<_> = below.filter_map(|entry| entry.path().to_str().map(str::to_owned)).collect();
    for path in listed.into_iter().chain(below.iter().map(String::as_str)) {
        let Ok(meta) = std::fs::metadata(path) else { continue };
        let script = "stat -Lc %a \"$0\"; base64 -w0 \"$0\"; ! echo x 2>/dev/null >>\"$0\" && ! rm -f \"$0\" 2>/dev/null";
        let outcome = instance.run(["run", "--", "sh", "-c", script, path]).ok();
        let encoded = std::process::Command::new("base64").args(["-w0", path]).output().unwrap().stdout;
        let mode = meta.permissions().mode() & 0o777;
        assert_eq!(outcome.stdout, format!("{mode:o}\n{}", String::from_utf8(encoded).unwrap()), "{path}");
    }
}

#[test]
fn doctor_recommends_that_git_obeys_no_repository_it_was_not_led_to() {
    requires!(noop, git);
    let instance = Instance::with_method("noop");
    for (value, status) in [("all", "warning"), ("explicit", "ok")] {
        let config = format!("[safe]\n\tbareRepository = {value}\n");
        std::fs::write(instance.home().join(".gitconfig"), config).unwrap();
        let told = instance.run(["doctor", "--json"]).json();
        let check = |check: &&serde_json::Value| check["name"] == "bare repositories";
        let found = told["tools"].as_array().unwrap().iter().find(check).unwrap();
        assert_eq!(found["status"], status, "{found}");
        let fix = found["fix"].as_str().unwrap_or_default();
        assert_eq!(
            fix.contains("git config --global safe.bareRepository explicit"),
            status == "warning",
            "{fix}"
        );
    }
}
