//! What the program says when something is wrong: the whole of stdout, stderr and the exit code.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking and says why it was skipped"
)]

use palisade_testing::{Instance, Outcome, Traces, palisade_binary, requires};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// Nothing on stdout, and this on stderr.
#[track_caller]
fn assert_refused(outcome: Outcome, code: i32, stderr: &str) {
    assert_eq!(outcome, Outcome { stdout: String::new(), stderr: stderr.into(), code });
}

#[test]
fn an_unknown_command_is_a_usage_error() {
    let instance = Instance::new();
    assert_refused(
        instance.run(["frobnicate"]),
        2,
        "error: unrecognized subcommand 'frobnicate'\n\n\
         Usage: palisade [OPTIONS] <COMMAND>\n\n\
         For more information, try '--help'.\n",
    );
    assert_refused(
        instance.run(["doctr"]),
        2,
        "error: unrecognized subcommand 'doctr'\n\n  \
         tip: a similar subcommand exists: 'doctor'\n\n\
         Usage: palisade [OPTIONS] <COMMAND>\n\n\
         For more information, try '--help'.\n",
    );
    assert_refused(
        instance.run(["run", "--"]),
        2,
        "error: the following required arguments were not provided:\n  <COMMAND>...\n\n\
         Usage: palisade run <COMMAND>...\n\n\
         For more information, try '--help'.\n",
    );
}

#[test]
fn an_unknown_method_is_a_configuration_error_that_names_the_known_ones() {
    let instance = Instance::new();
    let known = "bwrap, docker, podman, microvm, kubernetes, noop";
    let by_flag = format!("error: --method: method: unknown method 'bwarp'; possible are {known}\n");
    assert_refused(instance.run(["--method", "bwarp", "run", "--", "true"]), 3, &by_flag);
    assert_refused(instance.run(["run", "--backend", "bwarp", "--", "true"]), 3, &by_flag);
    for (value, told) in [
        ("Bwrap", format!("unknown method 'Bwrap'; possible are {known}")),
        ("auto", format!("unknown method 'auto'; possible are {known}")),
        // Set to nothing is a mistake to tell, not a choice to guess.
        ("", format!("is empty; write one of {known}")),
    ] {
        let mut command = instance.command(["run", "--", "true"]);
        let outcome = Instance::finish(command.env("SANDBOX_METHOD", value));
        assert_refused(outcome, 3, &format!("error: SANDBOX_METHOD: method: {told}\n"));
    }
}

#[test]
fn a_method_of_a_later_build_ends_before_anything_runs() {
    let instance = Instance::new();
    for method in ["microvm", "kubernetes"] {
        let told = format!(
            "error: method '{method}' cannot be used: not available in this build\n\
             hint: choose another method with --method or SANDBOX_METHOD: bwrap isolates on every Linux\n"
        );
        assert_refused(instance.run(["run", "--method", method, "--", "touch", "ran"]), 4, &told);
        assert_refused(instance.run(["create", "--method", method, "box"]), 4, &told);
        assert_eq!(instance.run(["ls", "--json"]).ok().stdout, "[]\n");
    }
    assert!(Traces::of(&instance).is_clean());
}

#[test]
fn a_method_whose_engine_does_not_answer_ends_before_anything_is_made() {
    let instance = Instance::new();
    for (method, variable, start) in [
        ("docker", "DOCKER_HOST", "start Docker (systemctl start docker)"),
        (
            "podman",
            "CONTAINER_HOST",
            "start Podman's service (systemctl --user start podman.socket; as root without --user)",
        ),
    ] {
        let told = format!(
            "error: method '{method}' cannot be used: no engine answers at unix:///nowhere/engine\n\
             hint: {start}, or say where it listens in {variable}\n"
        );
        for words in
            [&["run", "--method", method, "--", "touch", "ran"][..], &["create", "--method", method, "box"]]
        {
            let outcome = Instance::finish(instance.command(words).env(variable, "unix:///nowhere/engine"));
            assert_refused(outcome, 4, &told);
        }
        assert_eq!(instance.run(["ls", "--json"]).ok().stdout, "[]\n");
    }
    assert!(Traces::of(&instance).is_clean());
}

#[test]
fn a_bad_name_says_what_is_wrong_with_it() {
    let instance = Instance::with_method("noop");
    let long = "a".repeat(64);
    let only = "a sandbox name has only a-z, 0-9 and '-'";
    for (name, why) in [
        ("Web", format!("{only}; W is not allowed")),
        ("a/b", format!("{only}; / is not allowed")),
        ("..", format!("{only}; . is not allowed")),
        ("a b", format!("{only};   is not allowed")),
        ("-x", "a sandbox name starts with a letter or a digit".into()),
        ("", "a sandbox name cannot be empty".into()),
        (&long, "a sandbox name has at most 63 characters, this one has 64".into()),
    ] {
        let outcome = instance.run(["create", "--", name]);
        assert_refused(outcome, 2, &format!("error: '{name}': {why}\nhint: for example: web-1\n"));
    }
    // What a terminal would act on is shown, not sent.
    let outcome = instance.run(["create", "\x1b[2Jx"]);
    assert!(!outcome.stderr.contains('\x1b'), "{:?}", outcome.stderr);
    assert_eq!(outcome.code, 2);
}

#[test]
fn a_name_that_is_taken_or_unknown_is_told_with_what_to_do() {
    let instance = Instance::with_method("noop");
    instance.run(["create", "webserver"]).ok();
    let id = instance.run(["inspect", "webserver", "--json"]).ok().json()["id"].as_str().unwrap().to_owned();
    assert_refused(
        instance.run(["create", "webserver"]),
        7,
        &format!(
            "error: a sandbox named 'webserver' already exists (id {id}, created)\n\
             hint: choose another name, or remove that one with: palisade rm webserver\n"
        ),
    );
    let verbs: [&[&str]; 6] =
        [&["start"], &["stop"], &["rm"], &["inspect"], &["inspect", "--json"], &["rm", "--force"]];
    for verb in verbs {
        assert_refused(
            instance.run(verb.iter().copied().chain(["websever"])),
            6,
            "error: there is no sandbox 'websever'\n\
             hint: did you mean 'webserver'? List the sandboxes with: palisade ls\n",
        );
    }
    assert_refused(
        instance.run(["exec", "qqq", "--", "true"]),
        6,
        "error: there is no sandbox 'qqq'\nhint: list the sandboxes with: palisade ls\n",
    );
}

#[test]
fn a_value_out_of_range_names_its_flag_and_what_is_possible() {
    let instance = Instance::with_method("noop");
    let size = "is not a size; write a number of bytes, or one with K, M, G or T, such as 512M";
    for (flag, value, told) in [
        ("--memory", "8X", format!("resources.memory: '8X' {size}")),
        ("--memory", "0", format!("resources.memory: '0' {size}")),
        ("--memory", "", "resources.memory: is empty; write a size such as \"8G\"".into()),
        ("--tmp", "1.5G", format!("resources.tmp: '1.5G' {size}")),
        (
            "--cpus",
            "0",
            "resources.cpus: '0' is not a number of processors between 0.01 and 1024, such as 2 or 0.5"
                .into(),
        ),
        ("--pids", "0", "resources.pids: is out of range; write a whole number from 1 to 4194304".into()),
        (
            "--network",
            "internet",
            "network.mode: unknown network mode 'internet'; possible are none, allowlist, open".into(),
        ),
        ("--mount", "x", "mounts: 'x' is not a mount; write HOST:GUEST or HOST:GUEST:ro".into()),
    ] {
        let outcome = instance.run(["run", flag, value, "--", "true"]);
        assert_refused(outcome, 3, &format!("error: {flag}: {told}\n"));
    }
    assert_refused(
        instance.run(["--log-level", "loud", "ls"]),
        3,
        "error: --log-level: log.level: unknown log level 'loud'; possible are off, error, warn, info, debug, trace\n",
    );
}

#[test]
fn a_workspace_or_mount_that_cannot_be_is_told_before_anything_runs() {
    let instance = Instance::with_method("bwrap");
    std::fs::write(instance.work().join("file"), "").unwrap();
    assert_refused(
        instance.run(["run", "-w", "missing", "--", "true"]),
        2,
        "error: cannot use 'missing' as the workspace: No such file or directory (os error 2)\n\
         hint: give an existing directory, as in -w . or -w path/to/project:ro\n",
    );
    assert_refused(
        instance.run(["create", "-w", "file:ro", "box"]),
        2,
        "error: cannot use 'file' as the workspace: it is not a directory\n\
         hint: give an existing directory, as in -w . or -w path/to/project:ro\n",
    );
    assert_refused(
        instance.run(["run", "--mount", "/usr:/mnt/x:ro", "--mount", "/etc:/mnt//x:ro", "--", "true"]),
        2,
        "error: two mounts have the same target /mnt/x\nhint: give each mount a target of its own\n",
    );
}

#[test]
fn a_variable_that_cannot_be_given_is_told() {
    let instance = Instance::with_method("noop");
    assert_refused(
        instance.run(["run", "-e", "1ST=x", "--", "true"]),
        2,
        "error: '1ST' is not the name of a variable\n\
         hint: names have letters, digits and '_' and do not start with a digit\n",
    );
    assert_refused(
        instance.run(["run", "--env", "NOT_SET", "--", "true"]),
        2,
        "error: the variable NOT_SET is not set here\nhint: export it, or give a value with --env NAME=VALUE\n",
    );
}

#[test]
fn a_terminal_that_is_asked_for_must_be_there() {
    let instance = Instance::with_method("noop");
    instance.started("box");
    assert_refused(
        instance.run(["exec", "-t", "box", "--", "true"]),
        2,
        "error: -t needs a terminal, and this is none\nhint: leave -t out, or use it from a terminal\n",
    );
}

/// Its start is refused, and everything that needs no guest still works.
#[test]
fn a_missing_guest_is_found_before_a_start() {
    let instance = Instance::with_method("bwrap");
    let without = |arguments: &[&str]| {
        let mut command = instance.command(arguments);
        Instance::finish(command.env("PALISADE_GUEST", "/nonexistent/palisade-guest"))
    };
    let told = "error: the guest program is not installed: /nonexistent/palisade-guest is no file\n\
                hint: build it with scripts/build-guest, install with make install, or say where it is in PALISADE_GUEST\n";
    without(&["create", "box"]).ok();
    assert_refused(without(&["run", "--", "true"]), 4, told);
    assert_refused(without(&["start", "box"]), 4, told);
    assert_eq!(without(&["ls", "--json"]).ok().json()[0]["state"], "created");
    assert_eq!(without(&["doctor"]).code, 4);
    without(&["rm", "box"]).ok();
}

#[test]
fn a_missing_bwrap_ends_with_the_fix_and_never_with_a_weaker_run() {
    let instance = Instance::with_method("bwrap");
    instance.run(["create", "box"]).ok();
    let ran = instance.work().join("ran");
    let told = "error: method 'bwrap' cannot be used: the program bwrap is not installed\n\
                hint: install bubblewrap (Debian: apt-get install bubblewrap)\n";
    let without = |arguments: &[&str]| {
        let mut command = instance.command(arguments);
        Instance::finish(command.env("PATH", instance.work()))
    };
    assert_refused(without(&["run", "--", "/usr/bin/touch", ran.to_str().unwrap()]), 4, told);
    assert_refused(without(&["start", "box"]), 4, told);
    assert!(!ran.exists());
    assert_eq!(instance.run(["ls", "--json"]).ok().json()[0]["state"], "error");
}

/// A program that does as the script says, found before the real one of that name.
fn stand_in(instance: &Instance, program: &str, script: &str) -> String {
    // Started by root, a sandbox runs under a uid of its own, which must find the stand-in, too.
    let root = instance.work().parent().unwrap().to_owned();
    for directory in [&root, &instance.work()] {
        std::fs::set_permissions(directory, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let path = instance.work().join(program);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    format!("{}:/usr/bin:/bin", instance.work().display())
}

#[test]
fn a_bwrap_that_does_not_work_is_diagnosed_and_nothing_runs() {
    let cases = [
        (
            "bwrap: Creating new namespace failed: No space left on device",
            "the limit of user namespaces is reached or zero",
            "raise user.max_user_namespaces with sysctl",
        ),
        (
            "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
            "the network namespace's loopback could not be set up, as happens inside another sandbox",
            "run Palisade outside that sandbox, or choose another method",
        ),
        (
            "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
            "a fresh /proc cannot be mounted, as happens inside a container with a masked /proc",
            "run the container with an unmasked /proc (--security-opt systempaths=unconfined), or choose another method",
        ),
        ("bwrap: Unknown option --size", "this bwrap is too old", "install bubblewrap 0.8 or newer"),
        (
            "bwrap: something nobody has seen yet",
            "the sandbox did not come up",
            "run `palisade doctor` for every check",
        ),
    ];
    for (complaint, why, fix) in cases {
        let instance = Instance::with_method("bwrap");
        instance.run(["create", "box"]).ok();
        let path = stand_in(&instance, "bwrap", &format!("echo \"{complaint}\" >&2; exit 1"));
        let ran = instance.work().join("ran");
        let told = format!("error: method 'bwrap' cannot be used: {why} (bwrap: {complaint})\nhint: {fix}\n");
        let commands: [&[&str]; 2] = [&["run", "--", "touch", ran.to_str().unwrap()], &["start", "box"]];
        for command in commands {
            assert_refused(Instance::finish(instance.command(command).env("PATH", &path)), 4, &told);
        }
        assert!(!ran.exists());
        assert_eq!(Instance::finish(instance.command(["doctor"]).env("PATH", &path)).code, 4, "{complaint}");
    }
}

/// What the machine lacks is named, and nobody is sent to reinstall anything.
#[test]
fn a_bwrap_that_complains_of_the_machine_is_not_blamed() {
    let cases = [
        ("bwrap: Can't open /proc/self/fd: Too many open files", "too many files are open", "ulimit -n"),
        (
            "bwrap: Creating new namespace failed: Resource temporarily unavailable",
            "no more processes or threads may be started",
            "ulimit -u",
        ),
        ("bwrap: Out of memory", "there is not enough memory", "ulimit -v"),
    ];
    for (complaint, why, fix) in cases {
        let instance = Instance::with_method("bwrap");
        let path = stand_in(&instance, "bwrap", &format!("echo \"{complaint}\" >&2; exit 1"));
        let told = Instance::finish(instance.command(["run", "--", "true"]).env("PATH", &path));
        let shown = format!("error: cannot start the sandbox: {why}\nhint: ");
        assert!(told.code == 1 && told.stderr.starts_with(&shown) && told.stderr.contains(fix), "{told:?}");
        let doctor = Instance::finish(instance.command(["doctor"]).env("PATH", &path));
        assert!(doctor.stdout.contains(why) && doctor.stdout.contains(fix), "{doctor:?}");
    }
}

/// The same denial has another cause where AppArmor restricts it.
#[test]
fn a_denied_user_namespace_is_explained() {
    let setting = std::fs::read_to_string("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
    let apparmor = setting.is_ok_and(|value| value.trim() == "1");
    let why = if apparmor {
        "AppArmor does not let ordinary programs create user namespaces on this system"
    } else {
        "this user may not create user namespaces"
    };
    for complaint in [
        "bwrap: No permissions to creating new namespace, likely because the kernel does not allow it",
        "bwrap: setting up uid map: Permission denied",
        "bwrap: Creating new namespace failed: Operation not permitted",
    ] {
        let instance = Instance::with_method("bwrap");
        let path = stand_in(&instance, "bwrap", &format!("echo \"{complaint}\" >&2; exit 1"));
        let outcome = Instance::finish(instance.command(["run", "--", "true"]).env("PATH", &path));
        let told = format!("error: method 'bwrap' cannot be used: {why} (bwrap: {complaint})\nhint: ");
        assert!(outcome.stderr.starts_with(&told), "{}", outcome.stderr);
        assert_eq!((outcome.stdout.as_str(), outcome.code), ("", 4));
    }
}

#[test]
fn a_bwrap_that_says_nothing_or_nonsense_is_not_believed() {
    for script in [
        "exit 0",
        "exit 1",
        "kill -KILL $$",
        "head -c 4096 /dev/zero >&3; exit 0",
        "echo HTTP/1.1 200 OK >&3",
    ] {
        let instance = Instance::with_method("bwrap");
        let path = stand_in(&instance, "bwrap", script);
        let ran = instance.work().join("ran");
        let mut command = instance.command(["run", "--", "touch", ran.to_str().unwrap()]);
        let outcome = Instance::finish(command.env("PATH", &path));
        let told = "error: method 'bwrap' cannot be used: the sandbox did not come up (bwrap: ";
        assert!(outcome.stderr.starts_with(told), "{script}: {}", outcome.stderr);
        assert_eq!((outcome.stdout.as_str(), outcome.code), ("", 4), "{script}");
        assert!(!ran.exists());
        assert!(Traces::of(&instance).is_clean(), "{:?}", Traces::of(&instance));
    }
}

#[test]
fn what_a_method_cannot_do_is_an_error_and_not_a_wish() {
    let instance = Instance::with_method("noop");
    let warning = "warning: method 'noop': no isolation, commands run on the host with your own rights\n";
    let unsupported = "hint: choose another method with --method, or leave that option out\n";
    for (arguments, told) in [
        (
            ["--memory", "1G"],
            "error: the memory limit that was asked for cannot be enforced: method 'noop' enforces nothing\n\
             hint: choose another method, or leave the limit out\n"
                .to_owned(),
        ),
        (
            ["--mount", "/usr:/mnt/usr:ro"],
            format!(
                "error: method 'noop' cannot do this: mounts need a file system of the sandbox's own\n{unsupported}"
            ),
        ),
        (
            ["--allow", "example.org"],
            format!(
                "error: method 'noop' cannot do this: an allow-list of hosts needs a network of the sandbox's own\n\
                 {unsupported}"
            ),
        ),
        (
            ["-w", ".:ro"],
            format!(
                "error: method 'noop' cannot do this: a read-only workspace needs a file system of the sandbox's own\n\
                 {unsupported}"
            ),
        ),
    ] {
        let command = ["run"].into_iter().chain(arguments).chain(["--", "touch", "ran"]);
        assert_refused(instance.run(command), 4, &format!("{warning}{told}"));
    }
    assert!(!instance.work().join("ran").exists());
}

#[test]
fn without_a_home_the_directories_must_be_named() {
    let instance = Instance::with_method("noop");
    // Both directories are named, so that no home is needed.
    let outcome = Instance::finish(instance.command(["ls", "--json"]).env_remove("HOME"));
    assert_eq!(outcome, Outcome { stdout: "[]\n".into(), stderr: String::new(), code: 0 });
    for (removed, kept) in [("XDG_STATE_HOME", "XDG_CONFIG_HOME"), ("XDG_CONFIG_HOME", "XDG_STATE_HOME")] {
        let mut command = instance.command(["ls"]);
        let outcome = Instance::finish(command.env("HOME", "not/absolute").env_remove(removed));
        assert_refused(
            outcome,
            3,
            &format!(
                "error: neither {removed} nor HOME is set to an absolute path\nhint: set HOME, or {removed}\n"
            ),
        );
        // A relative directory counts as not set, as the XDG specification has it.
        let mut command = instance.command(["ls", "--json"]);
        Instance::finish(command.env(kept, "relative").env("XDG_STATE_HOME", instance.home())).ok();
    }
}

/// The names by which the specifications know the program.
#[test]
fn under_a_link_name_it_is_that_program() {
    let instance = Instance::with_method("noop");
    let run = |link: &Path, arguments: &[&str]| {
        let palisade = instance.command(arguments);
        let mut command = Command::new(link);
        command.args(arguments).env_clear().current_dir(instance.work());
        command.envs(palisade.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if std::env::var_os("PALISADE_GUEST").is_none() {
            command.env("PALISADE_GUEST", palisade_binary().with_file_name("palisade-guest"));
        }
        Instance::finish(&mut command)
    };
    for name in ["kinfra", "keystone", "budgie"] {
        let link = instance.work().join(name);
        symlink(palisade_binary(), &link).unwrap();
        let help = run(&link, &["--help"]).ok().stdout;
        let usage = format!("Usage: {name} [OPTIONS] <COMMAND>");
        assert!(help.lines().any(|line| line == usage), "{help}");
        let version = run(&link, &["--version"]).ok().stdout;
        assert!(version.starts_with(&format!("{name} ")), "{version}");
        assert_eq!(run(&link, &["run", "--", "echo", "works"]).ok().stdout, "works\n");
        run(&link, &["create", "--start", name]).ok();
        assert_eq!(run(&link, &["exec", name, "--", "echo", "works"]).ok().stdout, "works\n");
    }
    let other = instance.work().join("any-other-name");
    symlink(palisade_binary(), &other).unwrap();
    let help = run(&other, &["--help"]).ok().stdout;
    assert!(help.starts_with("Sandboxes for coding agents and the people who work with them\n"), "{help}");
    assert!(help.contains("Usage: palisade "), "{help}");
}

#[test]
fn a_healthy_bwrap_is_what_the_stand_ins_are_compared_with() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.run(["run", "--", "true"]).ok();
}

#[test]
fn a_mistyped_option_is_an_error_and_not_a_command() {
    let instance = Instance::new();
    for words in [&["run", "--memroy", "1G", "--", "true"][..], &["exec", "--tyt", "box", "--", "true"]] {
        let outcome = instance.run(words);
        assert_eq!(outcome.code, 2, "{words:?}: {outcome:?}");
        assert!(outcome.stderr.contains("unexpected argument"), "{}", outcome.stderr);
    }
}

#[test]
fn a_commands_own_options_are_its_own_with_and_without_a_separator() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    for words in [&["run", "echo", "-n", "--help"][..], &["run", "--", "echo", "-n", "--help"]] {
        assert_eq!(instance.run(words).ok().stdout, "--help", "{words:?}");
    }
}

#[test]
fn what_git_says_is_shown_line_by_line_and_cannot_drive_the_terminal() {
    requires!(git);
    let instance = Instance::with_method("noop");
    let said = "fatal: cannot do it\\n\\033[2Jhint: run this\\nerror: \\ttoo bad";
    let script =
        format!("case $1 in version) exec /usr/bin/git version ;; *) printf '{said}' >&2; exit 128 ;; esac");
    let path = stand_in(&instance, "git", &script);
    let start = ["agent", "start", ".", "--agent", "shell", "--task", "true"];
    let told = Instance::finish(instance.command(start).env("PATH", &path));
    let shown = "\n  fatal: cannot do it\n  \\u{1b}[2Jhint: run this\n  error:     too bad\n";
    assert!(told.code == 1 && told.stderr.contains(shown), "{told:?}");
    assert!(!told.stderr.contains("\\u{a}"), "{}", told.stderr);
}

/// As when the disk of the repository is full: the sandbox stays, and how to give it up is said with its name.
#[test]
fn a_sandbox_whose_work_cannot_be_archived_stays_and_can_be_given_up_by_name() {
    requires!(git);
    let instance = Instance::with_method("noop");
    let repository = instance.home().join("project");
    std::fs::create_dir(&repository).unwrap();
    for line in ["init --quiet --initial-branch=main", "commit --quiet --allow-empty -m first"] {
        let mut git = Command::new("git");
        git.arg("-C").arg(&repository).args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]);
        assert!(git.args(line.split(' ')).env("HOME", instance.home()).status().unwrap().success(), "{line}");
    }
    let work = "echo new > file";
    let project = repository.to_str().unwrap();
    instance.run(["agent", "start", project, "--agent", "shell", "--task", work]).ok();
    let mut command = instance.command(["rm", "--force", "project"]);
    let plan = format!("fail:sync.archived@{}", instance.home().join("marker").display());
    let refused = Instance::finish(command.env("PALISADE_FAULT", plan));
    let hint = "hint: the sandbox stays; to give up what is in it, by name: palisade rm --discard project\n";
    assert!(refused.code != 0 && refused.stderr.ends_with(hint), "{refused:?}");
    assert_eq!(instance.run(["ls", "--json"]).ok().json()[0]["name"], "project");
    instance.run(["rm", "--discard", "project"]).ok();
    assert_eq!(instance.run(["ls", "--json"]).ok().json(), serde_json::json!([]));
}

/// Found before anything is made or brought home: a merge that fails half-way helps nobody.
#[test]
fn an_old_git_is_told_with_what_needs_a_newer_one() {
    requires!(git);
    let instance = Instance::with_method("noop");
    let repository = instance.home().join("project");
    let git = |line: &str| {
        let identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"];
        let mut command = Command::new("git");
        command.arg("-C").arg(&repository).args(identity).args(line.split(' ')).env("HOME", instance.home());
        assert!(command.status().unwrap().success(), "{line}");
    };
    std::fs::create_dir(&repository).unwrap();
    git("init --quiet --initial-branch=main");
    git("commit --quiet --allow-empty -m first");
    let path = stand_in(
        &instance,
        "git",
        "case $1 in version) echo 'git version 2.30.2' ;; *) exec /usr/bin/git \"$@\" ;; esac",
    );
    let project = repository.to_str().unwrap();
    let start = ["agent", "start", project, "--agent", "shell", "--task", "true"];
    let old = |arguments: &[&str]| Instance::finish(instance.command(arguments).env("PATH", &path));
    let told = "error: git 2.30 is too old: version 2.38 or later is needed\n\
                hint: an agent's work is merged with git merge-tree --write-tree, which older versions lack\n\
                hint: install git 2.38 or later and put it first on the PATH\n";
    let refused = old(&start);
    assert_eq!((refused.code, refused.stderr.ends_with(told)), (4, true), "{}", refused.stderr);
    assert_eq!(instance.run(["ls", "--json"]).ok().json(), serde_json::json!([]));

    instance.run(start).ok();
    assert_refused(old(&["agent", "sync", "project"]), 4, told);
    assert!(old(&["doctor"]).ok().stdout.contains("git 2.30 is too old"));
    let found = instance.run(["doctor", "--json"]).ok().json()["tools"][0].clone();
    assert_eq!((&found["name"], &found["status"]), (&"git".into(), &"ok".into()), "{found}");
    instance.run(["agent", "rm", "project"]).ok();
}
