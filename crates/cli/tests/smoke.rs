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
