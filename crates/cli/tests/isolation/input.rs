//! What a user, a script or a repository types: names, paths and numbers cannot add an option or leave their place.

use palisade_testing::probe::Differences;
use palisade_testing::{Instance, Outcome, requires};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

palisade_testing::on_isolating_methods!(
    a_workspace_with_an_odd_name_is_bound_and_changes_nothing_else,
    a_mount_with_an_odd_name_is_bound_and_changes_nothing_else,
    a_colon_in_a_path_is_a_clear_error_and_never_another_meaning,
    a_command_that_looks_like_an_option_is_a_command,
);

#[test]
fn names_outside_the_allowed_form_are_refused_and_make_nothing() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let long = "a".repeat(64);
    for bad in ["", "..", ".", "a/b", "/etc", "A", "a b", "a\nb", "a\u{1b}[31m", "a;id", "$(id)", "é", &long]
    {
        let outcome = instance.run(["create", "--", bad]);
        assert_eq!(outcome.code, 2, "{bad:?}: {}", outcome.stderr);
        assert!(!outcome.stderr.contains('\u{1b}') && outcome.stdout.is_empty(), "{bad:?}: {outcome:?}");
        for verb in ["start", "stop", "rm", "inspect"] {
            assert_ne!(instance.run([verb, "--", bad]).code, 0, "{verb} {bad:?}");
        }
    }
    for bad in ["-rf", "--start", "-"] {
        assert_eq!(instance.run(["create", "--", bad]).code, 2, "{bad}");
    }
    let raw = [OsStr::new("create"), OsStr::from_bytes(b"a\xff")];
    assert_eq!(instance.run(raw).code, 2);
    assert_eq!(instance.run(["ls", "--json"]).ok().json(), serde_json::json!([]));
    // The control: a good name is taken, at the greatest length.
    instance.run(["create", &"a".repeat(63)]).ok();
}

/// Paths that would be options or fields, were they ever read as such.
const ODD: [&str; 9] =
    ["--share-net", "--cap-add", "--args", "-w", "a,b=c", "a=b", "with space", "line\nbreak", "$(id)"];

const INTERFACES: &str = "ls /proc/sys/net/ipv4/conf | tr '\\n' ' '; cat mark";

/// Shown as it is, and nothing else with it; or refused before anything starts.
#[track_caller]
fn assert_shown_or_refused(method: &str, odd: &str, outcome: Outcome) {
    if odd.contains(Differences::of(method).refused_in_names) {
        assert_eq!((outcome.stdout.as_str(), outcome.code), ("", 1), "{odd:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("give it a plain name"), "{odd:?}: {}", outcome.stderr);
    } else {
        assert_eq!(outcome.ok().stdout, format!("all default lo {odd}"));
    }
}

fn a_workspace_with_an_odd_name_is_bound_and_changes_nothing_else(method: &'static str) {
    for odd in ODD {
        let instance = Instance::with_method(method);
        let directory = instance.work().join(odd);
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("mark"), odd).unwrap();
        instance.give(&directory);
        let flag: OsString = format!("--workspace={odd}").into();
        let words: Vec<OsString> =
            vec!["run".into(), flag, "--".into(), "sh".into(), "-c".into(), INTERFACES.into()];
        assert_shown_or_refused(method, odd, instance.run(words));
    }
}

fn a_mount_with_an_odd_name_is_bound_and_changes_nothing_else(method: &'static str) {
    for odd in ODD {
        let instance = Instance::with_method(method);
        std::fs::create_dir(instance.work().join(odd)).unwrap();
        std::fs::write(instance.work().join(odd).join("mark"), odd).unwrap();
        let script = format!("cd /data && {INTERFACES}");
        let mount = format!("--mount={odd}:/data:ro");
        assert_shown_or_refused(method, odd, instance.run(["run", &mount, "--", "sh", "-c", &script]));
    }
}

fn a_colon_in_a_path_is_a_clear_error_and_never_another_meaning(method: &'static str) {
    let instance = Instance::with_method(method);
    for name in ["a:b", "x", "x:ro"] {
        std::fs::create_dir(instance.work().join(name)).unwrap();
        std::fs::write(instance.work().join(name).join("mark"), name).unwrap();
        instance.give(&instance.work().join(name));
    }
    let cat = |workspace: &str| instance.run(["run", "-w", workspace, "--", "cat", "mark"]);
    assert_eq!(cat("a:b").ok().stdout, "a:b");
    // The ending is read as documented; a directory so named needs its own ending.
    assert_eq!(cat("x:ro").ok().stdout, "x");
    assert_eq!(cat("x:ro:ro").ok().stdout, "x:ro");
    for bad in
        ["a:b:/data", "x:/data:exec", "x:/data:ro:/etc", "x:data", "x:/data/../etc", ":/data", "x:", "x"]
    {
        let outcome = instance.run(["run", "--mount", bad, "--", "true"]);
        assert!([2, 3].contains(&outcome.code), "{bad}: {outcome:?}");
        assert!(outcome.stderr.contains("mount"), "{bad}: {}", outcome.stderr);
    }
    for reserved in ["/", "/etc", "/usr/bin", "/proc/sys", "/dev", "/workspace", "/home/agent", "/.palisade"]
    {
        let outcome = instance.run(["run", "--mount", &format!("x:{reserved}"), "--", "true"]);
        assert!([2, 3].contains(&outcome.code), "{reserved}: {outcome:?}");
    }
}

#[test]
fn numbers_out_of_range_are_refused_by_the_name_of_their_field() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    for (flag, values) in [
        ("--memory", &["0", "-1", "1.5G", "8 G", "99999999999999999999", "99999999T", "lots", ""][..]),
        ("--cpus", &["0", "-1", "nan", "inf", "1e9", "2000", "0.001", ""]),
        ("--pids", &["0", "-1", "1.5", "4294967296", "many", ""]),
        ("--tmp", &["0", "-1", "x", "99999999T", ""]),
    ] {
        for value in values {
            let outcome = instance.run(["run", &format!("{flag}={value}"), "--", "true"]);
            assert!([2, 3].contains(&outcome.code), "{flag}={value}: {outcome:?}");
            assert!(outcome.stderr.contains(&flag[2..]), "{flag}={value}: {}", outcome.stderr);
        }
    }
    instance.run(["run", "--tmp", "1M", "--", "true"]).ok();
}

fn a_command_that_looks_like_an_option_is_a_command(method: &'static str) {
    let instance = Instance::with_method(method);
    let outcome = instance.run(["run", "--", "--share-net"]);
    assert_eq!(outcome.code, 127, "{}", outcome.stderr);
    let outcome = instance.run(["run", "--", "printf", "%s|", "--", "-w", "/", "--method=noop"]).ok();
    assert_eq!(outcome.stdout, "--|-w|/|--method=noop|");
}
