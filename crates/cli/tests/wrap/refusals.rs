//! What `wrap` says when something is wrong: the whole of stdout, stderr and the exit code.

use crate::support::{ended, executable, wrap};
use palisade_testing::{Instance, Outcome, Traces, requires};

#[track_caller]
fn assert_refused(outcome: Outcome, code: i32, stderr: &str) {
    assert_eq!(outcome, Outcome { stdout: String::new(), stderr: stderr.into(), code });
}

#[test]
fn a_wrapper_without_its_parts_is_refused() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    std::fs::write(instance.work().join("text"), "").unwrap();
    let program = "hint: give its path, or a name that is on the PATH\n";
    for (words, code, told) in [
        (
            &["--", "sh"][..],
            2,
            "error: a wrapper needs a directory to work in\n\
             hint: name it with -w, as in: palisade wrap -w . -- claude\n"
                .to_owned(),
        ),
        (
            &["-w", "absent", "--", "sh"],
            2,
            "error: cannot use 'absent' as the workspace: No such file or directory (os error 2)\n\
             hint: give an existing directory, as in -w . or -w path/to/project:ro\n"
                .to_owned(),
        ),
        (
            &["-w", ".", "--", "no-such-cli"],
            6,
            format!("error: there is no program 'no-such-cli'\n{program}"),
        ),
        (&["-w", ".", "--", "./absent"], 6, format!("error: there is no program './absent'\n{program}")),
        (
            &["-w", ".", "--", "./text"],
            2,
            "error: './text' is no program that can be executed\n\
             hint: make it executable with chmod +x, or name the program that runs it\n"
                .to_owned(),
        ),
        (
            &["-w", ".", "-e", "1X", "--", "sh"],
            2,
            "error: '1X' is not the name of a variable\n\
             hint: names have letters, digits and '_' and do not start with a digit\n"
                .to_owned(),
        ),
    ] {
        assert_refused(instance.run([&["wrap"], words].concat()), code, &told);
    }
    for words in [
        &["wrap"][..],
        &["wrap", "-w", "."],
        &["wrap", "--rm"],
        &["wrap", "--ls", "-w", ".", "--", "sh"],
        &["wrap", "--rm", "x", "--keep-home"],
        &["wrap", "-w", ".", "--kep-home", "--", "sh"],
    ] {
        assert_eq!(instance.run(words).code, 2, "{words:?}");
    }
    assert!(Traces::of(&instance).is_clean(), "{:?}", Traces::of(&instance));
}

#[test]
fn a_method_that_cannot_be_used_is_told_before_anything_is_made() {
    let instance = Instance::new();
    assert_refused(
        instance.run(["wrap", "--method", "microvm", "-w", ".", "--", "sh"]),
        4,
        "error: method 'microvm' cannot be used: not available in this build\n\
         hint: choose another method with --method or SANDBOX_METHOD: bwrap isolates on every Linux\n",
    );
    let mut command = instance.command(["wrap", "-w", ".", "--", "/bin/sh"]);
    let without_bwrap = Instance::finish(command.env("PATH", "/nonexistent"));
    assert_eq!((without_bwrap.code, without_bwrap.stdout.as_str()), (4, ""), "{}", without_bwrap.stderr);
    assert!(
        without_bwrap.stderr.starts_with("error: method 'bwrap' cannot be used: "),
        "{}",
        without_bwrap.stderr
    );
    assert!(Traces::of(&instance).is_clean(), "{:?}", Traces::of(&instance));
}

#[test]
fn what_would_show_the_whole_home_is_refused_and_a_mount_is_the_way() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.run(["run", "--", "true"]).ok();
    let home = std::fs::canonicalize(instance.home()).unwrap();
    std::fs::write(home.join("package.json"), "{}").unwrap();
    executable(&home.join("agent.js"), "#!/bin/sh\necho reached\n");
    let agent = home.join("agent.js").display().to_string();
    let told = format!(
        "error: '{agent}' cannot be reached from inside: it is installed in {}, which holds your whole home directory\n\
         hint: install it in a directory of its own, or show what it needs with --tool DIR or --mount HOST:GUEST:ro\n",
        home.display()
    );
    assert_refused(instance.run(["wrap", "-w", ".", "--", &agent]), 2, &told);
    let mount = format!("{agent}:/agent/run.js:ro");
    let wrapper = wrap(&instance, &["--mount", &mount, "--", "/agent/run.js"]);
    assert_eq!(ended(&wrapper, &[]).stdout, "reached\n");
}

#[test]
fn a_file_in_the_way_stays() {
    let instance = Instance::with_method("noop");
    let taken = instance.work().join("taken");
    std::fs::write(&taken, "mine").unwrap();
    let outcome = instance.run(["wrap", "-w", ".", "--output", "taken", "--", "sh"]);
    let taken = std::fs::canonicalize(&taken).unwrap();
    assert_eq!(outcome.code, 7);
    let told = format!(
        "error: {} exists already\nhint: choose another --output, or remove that file first\n",
        taken.display()
    );
    assert!(outcome.stderr.ends_with(&told), "{}", outcome.stderr);
    assert_eq!(std::fs::read_to_string(&taken).unwrap(), "mine");
    assert!(Traces::of(&instance).is_clean(), "{:?}", Traces::of(&instance));
}

#[test]
fn a_changed_or_missing_script_and_a_broken_record_are_told_and_can_be_put_away() {
    let instance = Instance::with_method("noop");
    let script = wrap(&instance, &["--output", "agent", "--", "true"]);
    std::fs::write(&script, "#!/bin/sh\necho mine\n").unwrap();
    let remove = || instance.run(["wrap", "--rm", script.to_str().unwrap()]);
    let states = || {
        let rows = instance.run(["wrap", "--ls", "--json"]).ok().json();
        rows.as_array()
            .unwrap()
            .iter()
            .map(|row| row["script"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!((remove().code, states()), (7, vec!["changed".to_owned()]));
    std::fs::remove_file(&script).unwrap();
    assert_eq!(states(), ["missing"]);
    remove().ok();
    assert_eq!(states(), Vec::<String>::new());

    let broken = wrap(&instance, &["--", "true"]);
    for (text, why) in
        [("{", "EOF while parsing"), ("{\"version\":2}", "it has form 2, and this program knows form 1")]
    {
        std::fs::write(broken.with_file_name("../wrapper.json"), text).unwrap();
        let called = ended(&broken, &[]);
        assert_eq!((called.code, called.stderr.contains(why)), (1, true), "{}", called.stderr);
        let listed = instance.run(["wrap", "--ls"]).ok();
        assert!(listed.stderr.contains(why), "{}", listed.stderr);
    }
    instance.run(["wrap", "--rm", broken.to_str().unwrap()]).ok();
    assert!(Traces::of(&instance).is_clean(), "{:?}", Traces::of(&instance));
}
