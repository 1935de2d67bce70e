//! No space, no permission to write, no more files: a clear error or none, and once there is room again everything
//! works as if nothing had been.

use palisade_testing::{Instance, is_root, palisade_binary, requires};
use std::process::Command;

/// What each verb may say when the host has run out of something: that it worked, or why not and what to do.
fn clear(verb: &str, code: &str, text: &str, words: &[&str]) {
    let known = words.iter().any(|word| text.contains(word));
    let told = text.contains("error: ") && text.contains("hint: ") && known;
    assert!(code == "0" || (["1", "4"].contains(&code) && told), "{verb} ended with {code}: {text}");
}

/// The reports of [`PRELUDE`]'s `try`: verb, exit code, what it said.
fn reports(output: &str) -> Vec<(String, String, String)> {
    let report = |part: &str| {
        let (head, text) = part.split_once('\n').unwrap_or((part, ""));
        let (verb, code) = head.rsplit_once(' ').expect("a verb and a code");
        (verb.to_owned(), code.to_owned(), text.to_owned())
    };
    output.split("@@@ ").skip(1).map(report).collect()
}

const PRELUDE: &str = r#"
try() { said=$( (ulimit -n "${limit:-1024}"; exec "$P" "$@") 2>&1 </dev/null); printf '@@@ %s %s\n%s\n' "$1" "$?" "$said"; }
must() { "$P" "$@" </dev/null || { echo "@@@ must $*" >&2; exit 99; }; }
"#;

/// Runs a script of commands with the instance's surroundings; `within` starts the shell.
fn script(instance: &Instance, within: &[&str], text: &str) -> String {
    let surroundings = instance.command(["--version"]);
    let mut command = Command::new(within[0]);
    command.args(&within[1..]).args(["sh", "-c", &format!("{PRELUDE}{text}")]).env_clear();
    for (name, value) in surroundings.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    let outcome = Instance::finish(command.env("P", palisade_binary()).current_dir(instance.work()));
    assert_eq!(outcome.code, 0, "{outcome:#?}");
    outcome.stdout
}

/// A mount of the script's own, which goes with it.
const PRIVATE: [&str; 4] = ["unshare", "--mount", "--propagation", "private"];

#[test]
fn a_full_disk_is_told_and_forgotten_when_there_is_room() {
    requires!(bwrap);
    if !is_root() {
        // Nobody else may mount a small file system.
        return;
    }
    let instance = Instance::with_method("bwrap");
    let said = script(
        &instance,
        &PRIVATE,
        r#"
        mount -t tmpfs -o size=3m,mode=0755 none "$XDG_STATE_HOME" || exit 1
        must create web; must start web; must create idle
        S=$XDG_STATE_HOME/palisade
        fill() { cat /dev/zero > "$S/../fill" 2>/dev/null; }
        fill; try create other
        fill; try run -- true
        fill; try exec web -- true
        fill; try start idle
        fill; try stop --grace 0 web
        fill; try start web
        fill; try rm --force idle
        fill; try ls
        rm "$S/../fill"
        must gc; must ls >&2
        "$P" rm --force idle >/dev/null 2>&1; "$P" rm --force other >/dev/null 2>&1
        must start web; must exec web -- true; must rm --force web; must create other; must rm other
        "$P" ls --json
        "#,
    );
    let reports = reports(&said);
    assert_eq!(reports.len(), 8, "{said}");
    for (verb, code, text) in &reports {
        clear(verb, code, text, &["no space is left"]);
    }
    let (_, code, text) = &reports[0];
    assert!(code == "1" && text.contains("no space is left"), "a create needs space: {said}");
    assert!(said.trim_end().ends_with("[]"), "{said}");
}

/// The sandbox itself has filled the disk; nothing is freed by hand.
#[test]
fn stop_rm_and_gc_work_on_a_disk_that_a_sandbox_has_filled() {
    requires!(bwrap);
    if !is_root() {
        return;
    }
    let instance = Instance::with_method("bwrap");
    let said = script(
        &instance,
        &PRIVATE,
        r#"
        mount -t tmpfs -o size=8m,mode=0755 none "$XDG_STATE_HOME" || exit 1
        must create hog; must start hog; must create other; must start other
        fill() { "$P" exec hog -- sh -c 'cat /dev/zero > /workspace/big' 2>/dev/null; cat /dev/zero > "$XDG_STATE_HOME/rest" 2>/dev/null; }
        fill; test "$(stat -f -c %a "$XDG_STATE_HOME")" = 0 || exit 98
        try create more; try start more
        try stop --grace 0 hog
        printf 'STATE %s\n' "$("$P" ls --json | tr -d ' \n')"
        try stop --grace 0 other
        try rm other
        try rm hog
        rm "$XDG_STATE_HOME/rest"
        must gc; must create hog; must start hog; fill
        try gc
        try rm --force hog
        test "$(stat -f -c %a "$XDG_STATE_HOME")" -gt 100 || exit 97
        "$P" ls --json
        "#,
    );
    let codes: Vec<(String, String)> =
        reports(&said).into_iter().map(|(verb, code, _)| (verb, code)).collect();
    let codes: Vec<(&str, &str)> = codes.iter().map(|(verb, code)| (verb.as_str(), code.as_str())).collect();
    let expected = [
        ("create", "1"),
        ("start", "6"),
        ("stop", "0"),
        ("stop", "0"),
        ("rm", "0"),
        ("rm", "0"),
        ("gc", "0"),
        ("rm", "0"),
    ];
    assert_eq!(codes, expected, "{said}");
    assert!(said.contains(r#""name":"hog","#) && said.contains(r#""state":"stopped""#), "{said}");
    assert!(said.trim_end().ends_with("[]"), "{said}");
}

#[test]
fn a_state_directory_that_became_read_only_is_told_and_forgotten() {
    requires!(bwrap);
    if !is_root() {
        return;
    }
    let instance = Instance::with_method("bwrap");
    let said = script(
        &instance,
        &PRIVATE,
        r#"
        mount -t tmpfs -o size=8m,mode=0755 none "$XDG_STATE_HOME" || exit 1
        must create web; must start web
        mount --bind "$XDG_STATE_HOME" "$XDG_STATE_HOME" && mount -o remount,bind,ro "$XDG_STATE_HOME" || exit 1
        try create other; try run -- true; try exec web -- true; try start web; try stop --grace 0 web
        try rm --force web; try ls
        umount "$XDG_STATE_HOME" || exit 1
        must gc >&2; must start web; must exec web -- true; must rm --force web
        "$P" ls --json
        "#,
    );
    for (verb, code, text) in reports(&said) {
        clear(&verb, &code, &text, &["read-only", "cannot be written"]);
    }
    assert!(said.trim_end().ends_with("[]"), "{said}");
}

#[test]
fn a_state_directory_that_may_not_be_written_is_told() {
    requires!(noop);
    if is_root() {
        // Nothing is closed to root.
        return;
    }
    let instance = Instance::with_method("noop");
    let said = script(
        &instance,
        &["env"],
        r#"
        must create web
        chmod 0500 "$XDG_STATE_HOME/palisade"; chmod 0400 "$XDG_STATE_HOME"/palisade/state.db*
        try create other; try start web; try rm web
        chmod 0700 "$XDG_STATE_HOME/palisade"; chmod 0600 "$XDG_STATE_HOME"/palisade/state.db*
        must rm web
        "$P" ls --json
        "#,
    );
    for (verb, code, text) in reports(&said) {
        clear(&verb, &code, &text, &["cannot be written", "Permission denied"]);
        assert_ne!(code, "0", "{verb}");
    }
    assert!(said.trim_end().ends_with("[]"), "{said}");
}

#[test]
fn too_few_files_are_told_and_the_next_command_has_enough() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let said = script(
        &instance,
        &["env"],
        r#"
        must create web; must start web; must create idle
        for limit in 8 16 24 26 28 32 40; do
            try create other; try run -- true; try exec web -- true; try start idle; try stop --grace 0 web
            try rm --force idle
            must gc >&2
            "$P" rm --force other >/dev/null 2>&1
            must start web; must exec web -- true
            "$P" create idle >/dev/null 2>&1
        done
        must rm --force web idle
        "$P" ls --json
        "#,
    );
    let reports = reports(&said);
    for (verb, code, text) in &reports {
        clear(verb, code, text, &["too many files are open"]);
        assert!(!text.contains("reinstall"), "{verb}: {text}");
    }
    assert!(reports.iter().any(|(_, _, text)| text.contains("ulimit -n")), "{said}");
    assert!(said.trim_end().ends_with("[]"), "{said}");
}

/// Root is above such limits, so an ordinary user tries it: with no thread or process more than there are already.
#[test]
fn too_few_processes_are_told_and_the_next_command_has_enough() {
    requires!(bwrap);
    if is_root() {
        return;
    }
    let instance = Instance::with_method("bwrap");
    let said = script(
        &instance,
        &["env"],
        r#"
        must create idle
        few() { said=$(prlimit --nproc=1 "$P" "$@" 2>&1 </dev/null); printf '@@@ %s %s\n%s\n' "$1" "$?" "$said"; }
        few run -- true; few start idle; few create --start other
        "$P" rm --force other >/dev/null 2>&1
        must start idle; must exec idle -- true; few exec idle -- echo lost; must rm --force idle
        "#,
    );
    let reports = reports(&said);
    assert_eq!(reports.len(), 4, "{said}");
    for (verb, code, text) in &reports {
        assert!(
            code == "1" && text.contains("no more processes or threads may be started"),
            "{verb}: {said}"
        );
        assert!(text.contains("ulimit -u") && !text.contains("reinstall"), "{verb}: {said}");
    }
}
