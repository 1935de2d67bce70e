//! What a dead process leaves of a wrapper it was making or removing is put away; whole wrappers are not.

use crate::support::{ended, wrap};
use palisade_testing::{Instance, Traces};
use std::path::Path;

/// No process has this number and this start.
const DEAD: &str = "1-1";

/// Puts a wrapper back to the moment before its last step.
fn unfinished(wrapper: &Path, instance: &Instance, prefix: &str, label: &str) {
    let record = std::fs::read_dir(instance.state().join("wrappers")).unwrap().flatten().find_map(|entry| {
        let text = std::fs::read_to_string(entry.path().join("wrapper.json")).ok()?;
        text.contains(wrapper.to_str()?).then(|| entry.path())
    });
    let place = record.unwrap();
    let id = place.file_name().unwrap().to_str().unwrap();
    std::fs::rename(&place, place.with_file_name(format!("{prefix}{label}.{id}"))).unwrap();
}

#[test]
fn gc_undoes_what_a_dead_maker_left_and_finishes_what_a_dead_remover_began() {
    let instance = Instance::with_method("noop");
    let whole = wrap(&instance, &["--keep-home", "--", "true"]);
    let half = wrap(&instance, &["--output", "half", "--", "true"]);
    let removed = wrap(&instance, &["--output", "removed", "--", "true"]);
    unfinished(&half, &instance, ".making-", DEAD);
    unfinished(&removed, &instance, ".removing-", DEAD);
    let gone = ended(&half, &[]);
    assert_eq!(
        (gone.code, gone.stderr.contains("this wrapper has been removed")),
        (6, true),
        "{}",
        gone.stderr
    );

    let told = |dry: &[&str]| {
        let mut lines: Vec<String> =
            instance.run([&["gc"], dry].concat()).ok().stdout.lines().map(str::to_owned).collect();
        lines.sort();
        lines.iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(told(&["--dry-run"]), ["half-made", "interrupted"]);
    assert!(half.exists() && removed.exists(), "a dry run changes nothing");
    assert_eq!(told(&[]), ["half-made", "interrupted"]);
    assert!(!half.exists() && !removed.exists());
    assert_eq!(told(&[]), Vec::<String>::new());
    assert_eq!(ended(&whole, &[]).code, 0);
    instance.run(["wrap", "--rm", whole.to_str().unwrap()]).ok();
    assert!(Traces::of(&instance).is_clean(), "{:?}", Traces::of(&instance));
}

#[test]
fn gc_leaves_alone_what_a_living_process_is_making_and_a_script_that_is_somebody_elses() {
    let instance = Instance::with_method("noop");
    let busy = wrap(&instance, &["--output", "busy", "--", "true"]);
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let start = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap();
    unfinished(&busy, &instance, ".making-", &format!("{}-{start}", std::process::id()));
    let changed = wrap(&instance, &["--output", "changed", "--", "true"]);
    std::fs::write(&changed, "mine").unwrap();
    unfinished(&changed, &instance, ".making-", DEAD);
    instance.run(["gc"]).ok();
    assert!(busy.exists());
    assert_eq!(std::fs::read_to_string(&changed).unwrap(), "mine");
    assert_eq!(std::fs::read_dir(instance.state().join("wrappers")).unwrap().count(), 1);
}
