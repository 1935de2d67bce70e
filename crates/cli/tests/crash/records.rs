//! What a `kill -9` leaves at each step of a verb, written down as it would be, by a process that is dead.

use crate::support::{assert_clean, collect, dead_process, foreign_id, gc, row, shown, store};
use palisade_core::{ProcessIdentity, SandboxDir, SandboxId, SandboxName, State};
use palisade_host::process;
use palisade_store::{IntentKind, NewSandbox};
use palisade_testing::{Instance, requires};

/// Records the sandbox `half` as `create` does before it makes anything.
fn begun(instance: &Instance, owner: &ProcessIdentity) -> SandboxDir {
    instance.run(["create", "model"]).ok();
    let mut spec = row(instance, "model").unwrap().spec;
    instance.run(["rm", "model"]).ok();
    let place = spec.dir.as_ref().unwrap().path().as_path().parent().unwrap().to_owned();
    spec.id = SandboxId::from_random([7; 15]);
    spec.name = Some(SandboxName::new("half").unwrap());
    let dir = SandboxDir::new(palisade_core::HostPath::new(place.join(spec.id.as_str())).unwrap());
    spec.dir = Some(dir.clone());
    store(instance).insert(&NewSandbox { spec, uids: None, at: 0 }, owner).unwrap();
    dir
}

#[test]
fn a_create_that_died_before_it_made_anything_is_undone() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    begun(&instance, &dead_process());
    let interrupted = "its create was interrupted; `palisade gc` takes it back";
    assert_eq!(shown(&instance, "half"), ("error".into(), interrupted.into()));
    assert_eq!(collect(&instance), ["interrupted create of sandbox half: undone"]);
    assert_clean(&instance);
}

#[test]
fn a_create_that_died_half_way_is_undone_and_cannot_be_started_before() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let dir = begun(&instance, &dead_process());
    std::fs::create_dir_all(dir.home()).unwrap();
    let refused = instance.run(["start", "half"]);
    assert_eq!(
        (refused.code, refused.stderr.as_str()),
        (
            7,
            "error: the create of sandbox 'half' was interrupted, so it is not whole\n\
             hint: put it in order with: palisade gc; or remove it with: palisade rm half\n"
        )
    );
    assert_eq!(collect(&instance), ["interrupted create of sandbox half: undone"]);
    assert_clean(&instance);
}

#[test]
fn an_interrupted_create_can_be_removed_without_a_collection() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let dir = begun(&instance, &dead_process());
    std::fs::create_dir_all(dir.home()).unwrap();
    instance.run(["rm", "half"]).ok();
    assert_clean(&instance);
}

#[test]
fn what_a_living_process_has_begun_is_left_alone() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let dir = begun(&instance, &process::this_process());
    std::fs::create_dir_all(dir.home()).unwrap();
    assert_eq!(shown(&instance, "half"), ("created".into(), String::new()));
    assert_eq!(gc(&instance, &[]), Vec::<String>::new());
    assert!(dir.home().as_path().exists());
    instance.run(["rm", "half"]).ok();
    assert_clean(&instance);
}

#[test]
fn a_removal_that_died_is_finished() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.run(["create", "web"]).ok();
    let id = row(&instance, "web").unwrap().id().clone();
    let nothing = serde_json::Value::Null;
    store(&instance).begin_intent(&id, IntentKind::Remove, &nothing, &dead_process(), 0).unwrap();
    let interrupted = "its rm was interrupted; `palisade gc` finishes it";
    assert_eq!(shown(&instance, "web"), ("error".into(), interrupted.into()));
    assert_eq!(instance.run(["start", "web"]).code, 7);
    assert_eq!(collect(&instance), ["interrupted rm of sandbox web: finished"]);
    assert_clean(&instance);
}

#[test]
fn a_start_that_died_before_its_keeper_is_undone_and_the_work_stays() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.run(["create", "web"]).ok();
    let web = row(&instance, "web").unwrap();
    let work = web.spec.dir.as_ref().unwrap().workspace().join("work");
    std::fs::write(&work, "work\n").unwrap();
    let nothing = serde_json::Value::Null;
    let store = store(&instance);
    store.begin_intent(web.id(), IntentKind::Start, &nothing, &dead_process(), 0).unwrap();
    store.transition(web.id(), State::Starting, None, 0).unwrap();
    let interrupted = "its start was interrupted; `palisade gc` puts it in order";
    assert_eq!(shown(&instance, "web"), ("error".into(), interrupted.into()));
    assert_eq!(collect(&instance), ["interrupted start of sandbox web: undone"]);
    assert_eq!(shown(&instance, "web"), ("error".into(), "its start was interrupted".into()));
    instance.run(["start", "web"]).ok();
    assert_eq!(instance.shell("web", "cat work").ok().stdout, "work\n");
    instance.run(["rm", "--force", "web"]).ok();
    assert_clean(&instance);
}

#[test]
fn a_directory_without_a_record_is_not_ours_to_remove() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.run(["create", "web"]).ok();
    let stray = instance.state().join("sandboxes").join(foreign_id().as_str());
    std::fs::create_dir_all(stray.join("workspace")).unwrap();
    std::fs::write(stray.join("workspace/work"), "work").unwrap();
    let kept = format!(
        "sandbox {} without a record: it has no description (directory {}): kept",
        foreign_id(),
        stray.display()
    );
    for arguments in [&["--dry-run"][..], &[], &[]] {
        assert_eq!(gc(&instance, arguments), [kept.as_str()], "it is named every time");
    }
    instance.run(["rm", "web"]).ok();
    assert_eq!(std::fs::read_to_string(stray.join("workspace/work")).unwrap(), "work");
}
