//! Instances do not know each other's sandboxes, and sandboxes do not share files.

use crate::support::{inspect, outcome, states};
use palisade_testing::Instance;

contracts!(
    two_instances_do_not_see_each_others_sandboxes,
    two_sandboxes_have_files_of_their_own,
    two_runs_have_files_of_their_own,
);

fn two_instances_do_not_see_each_others_sandboxes(method: &'static str) {
    let (mine, yours) = (Instance::with_method(method), Instance::with_method(method));
    mine.started("box");
    let id = inspect(&mine, "box")["id"].as_str().expect("an id").to_owned();
    assert_eq!(states(&yours), []);
    for text in ["box", id.as_str()] {
        for verb in [&["stop"][..], &["rm", "--force"], &["inspect"], &["start"]] {
            assert_eq!(yours.run(verb.iter().copied().chain([text])).code, 6, "{verb:?} {text}");
        }
        assert_eq!(yours.run(["exec", text, "--", "true"]).code, 6);
    }
    assert_eq!(yours.run(["gc", "--json"]).stdout, "[]\n");
    // The same name again is nobody's business.
    yours.started("box");
    yours.run(["rm", "--force", "box"]).ok();
    assert_eq!(states(&mine), [("box".into(), "running".into())]);
    assert_eq!(mine.shell("box", "echo mine"), outcome("mine\n", "", 0));
}

fn two_sandboxes_have_files_of_their_own(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("one");
    instance.started("two");
    instance.shell("one", "echo secret > file; echo secret > $HOME/file").ok();
    assert_eq!(instance.shell("two", "ls -A . $HOME"), outcome_of_two_empty(&instance, "two"));
    instance.shell("two", "echo other > file").ok();
    assert_eq!(instance.shell("one", "cat file $HOME/file"), outcome("secret\nsecret\n", "", 0));
}

fn outcome_of_two_empty(instance: &Instance, name: &str) -> palisade_testing::Outcome {
    let home = inspect(instance, name)["layout"]["home"].as_str().expect("a path").to_owned();
    outcome(&format!(".:\n\n{home}:\n"), "", 0)
}

fn two_runs_have_files_of_their_own(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.run(["run", "--", "sh", "-c", "echo secret > file; echo secret > $HOME/file"]).ok();
    let second = instance.run(["run", "--", "sh", "-c", "ls -A . ; ls -A $HOME"]).ok();
    assert_eq!(second.stdout, "");
}
