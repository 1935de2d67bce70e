//! What a user, a script or a repository types: names, paths and numbers cannot add an option or leave their place.

use palisade_testing::{Instance, requires};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

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

#[test]
fn a_workspace_with_an_odd_name_is_bound_and_changes_nothing_else() {
    requires!(bwrap);
    for odd in ODD {
        let instance = Instance::with_method("bwrap");
        let directory = instance.work().join(odd);
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("mark"), odd).unwrap();
        let flag: OsString = format!("--workspace={odd}").into();
        let words: Vec<OsString> =
            vec!["run".into(), flag, "--".into(), "sh".into(), "-c".into(), INTERFACES.into()];
        let outcome = instance.run(words).ok();
        assert_eq!(outcome.stdout, format!("all default lo {odd}"));
    }
}

#[test]
fn a_mount_with_an_odd_name_is_bound_and_changes_nothing_else() {
    requires!(bwrap);
    for odd in ODD {
        let instance = Instance::with_method("bwrap");
        std::fs::create_dir(instance.work().join(odd)).unwrap();
        std::fs::write(instance.work().join(odd).join("mark"), odd).unwrap();
        let script = format!("cd /data && {INTERFACES}");
        let mount = format!("--mount={odd}:/data:ro");
        let outcome = instance.run(["run", &mount, "--", "sh", "-c", &script]).ok();
        assert_eq!(outcome.stdout, format!("all default lo {odd}"));
    }
}

#[test]
fn a_colon_in_a_path_is_a_clear_error_and_never_another_meaning() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    for name in ["a:b", "x", "x:ro"] {
        std::fs::create_dir(instance.work().join(name)).unwrap();
        std::fs::write(instance.work().join(name).join("mark"), name).unwrap();
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

#[test]
fn a_command_that_looks_like_an_option_is_a_command() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let outcome = instance.run(["run", "--", "--share-net"]);
    assert_eq!(outcome.code, 127, "{}", outcome.stderr);
    let outcome = instance.run(["run", "--", "printf", "%s|", "--", "-w", "/", "--method=noop"]).ok();
    assert_eq!(outcome.stdout, "--|-w|/|--method=noop|");
}
