//! The keeper is killed: what is inside dies with it, and the work stays.

use crate::neighbour::Neighbour;
use crate::support::{
    Underway, assert_clean, below, collect, gc, keeper, kill, shown, wait_for_state, wait_gone,
};
use palisade_testing::{Instance, Outcome, eventually, requires};

const WORK: &str = "echo work > /workspace/work; echo home > /home/agent/home";

/// Kills the keeper and waits until everything that ran below it is gone.
fn kill_keeper(instance: &Instance) {
    let keeper = keeper(instance, "web");
    let inside = below(&keeper);
    assert!(!inside.is_empty(), "something runs below the keeper");
    kill(&keeper);
    wait_gone(&inside);
}

/// The sandbox starts again and its work is there; then it is removed and nothing is left.
#[track_caller]
pub(crate) fn starts_again_with_its_work(instance: &Instance) {
    instance.run(["start", "web"]).ok();
    let found = instance.shell("web", "cat /workspace/work /home/agent/home").ok();
    assert_eq!(found.stdout, "work\nhome\n");
    instance.run(["rm", "--force", "web"]).ok();
    assert_clean(instance);
}

#[test]
fn heavy_killed_while_idle() {
    requires!(bwrap);
    let neighbour = Neighbour::new();
    let instance = Instance::with_method("bwrap");
    instance.started("web");
    instance.shell("web", WORK).ok();
    kill_keeper(&instance);
    let died = "its keeper died; `palisade gc` puts it in order";
    assert_eq!(shown(&instance, "web"), ("error".into(), died.into()));
    assert_eq!(collect(&instance), ["sandbox web without a keeper: recovered"]);
    assert_eq!(shown(&instance, "web"), ("error".into(), "its keeper died".into()));
    neighbour.assert_untouched();
    starts_again_with_its_work(&instance);
}

#[test]
fn heavy_killed_with_commands_under_way() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.started("web");
    instance.shell("web", WORK).ok();
    let script = "echo up; exec sleep 1000";
    let mut execs: Vec<Underway> = (0..3)
        .map(|_| Underway::start(&mut instance.command(["exec", "web", "--", "sh", "-c", script])))
        .collect();
    for exec in &mut execs {
        assert_eq!(exec.line(), "up\n");
    }
    kill_keeper(&instance);
    for exec in execs {
        let Outcome { code, stderr, .. } = exec.finish();
        assert!(code == 1 && stderr.starts_with("error: "), "the client is told: {code} {stderr}");
    }
    assert_eq!(collect(&instance), ["sandbox web without a keeper: recovered"]);
    starts_again_with_its_work(&instance);
}

#[test]
fn heavy_killed_while_stopping() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.started("web");
    instance.shell("web", WORK).ok();
    let script = "trap '' TERM; echo up; while :; do sleep 1000; done";
    let mut stubborn = Underway::start(&mut instance.command(["exec", "web", "--", "sh", "-c", script]));
    assert_eq!(stubborn.line(), "up\n");
    let stop = Underway::start(&mut instance.command(["stop", "--grace", "1000", "web"]));
    wait_for_state(&instance, "web", "stopping");
    kill_keeper(&instance);
    assert_eq!(stop.finish().ok().stdout, "", "whoever waited for the stop has it");
    stubborn.finish();
    assert_eq!(collect(&instance), Vec::<String>::new(), "the command that waited put it in order");
    assert_eq!(shown(&instance, "web"), ("stopped".into(), String::new()));
    starts_again_with_its_work(&instance);
}

/// A guest that never says a word, so that a start hangs until it is given up.
pub(crate) fn silent_guest(instance: &Instance) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = instance.work().join("silent-guest");
    std::fs::write(&path, "#!/bin/sh\nexec sleep 1000\n").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

#[test]
fn heavy_killed_while_starting() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.started("web");
    instance.shell("web", WORK).ok();
    instance.run(["stop", "web"]).ok();
    let silent = silent_guest(&instance);
    let start = Underway::start(instance.command(["start", "web"]).env("PALISADE_GUEST", &silent));
    let comes_up = || {
        let row = crate::support::row(&instance, "web").unwrap();
        row.keeper.is_some_and(|keeper| !below(&keeper).is_empty())
    };
    eventually("the keeper has started its guest", comes_up);
    assert_eq!(shown(&instance, "web"), ("starting".into(), String::new()));
    assert_eq!(gc(&instance, &[]), Vec::<String>::new(), "somebody is at work on it");
    kill_keeper(&instance);
    let told = start.finish();
    assert!(told.code == 1 && told.stderr.contains("could not be started: it ended early"), "{told:?}");
    assert_eq!(collect(&instance), Vec::<String>::new(), "the command that waited put it in order");
    let (state, why) = shown(&instance, "web");
    assert!(state == "error" && why.contains("it ended early"), "{state}: {why}");
    starts_again_with_its_work(&instance);
}

#[test]
fn heavy_every_command_finds_its_way_without_a_collection() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.started("web");
    instance.shell("web", WORK).ok();
    kill_keeper(&instance);
    assert_eq!(instance.run(["start", "web"]).ok().code, 0);
    kill_keeper(&instance);
    let refused = instance.shell("web", "true");
    assert_eq!(
        (refused.code, refused.stderr.as_str()),
        (
            7,
            "error: sandbox 'web' is error, so this is not possible\nhint: start it with: palisade start web\n"
        )
    );
    instance.run(["start", "web"]).ok();
    kill_keeper(&instance);
    instance.run(["stop", "web"]).ok();
    instance.run(["start", "web"]).ok();
    kill_keeper(&instance);
    instance.run(["rm", "web"]).ok();
    assert_clean(&instance);
}

#[test]
fn heavy_without_isolation_what_was_left_running_is_found_by_its_mark() {
    let instance = Instance::with_method("noop");
    instance.started("web");
    let script = "setsid sh -c 'echo $$ > left; exec sleep 1000' & wait";
    let exec = Underway::start(&mut instance.command(["exec", "web", "--", "sh", "-c", script]));
    let file = crate::support::row(&instance, "web").unwrap().spec.dir.unwrap().workspace().join("left");
    let left = || std::fs::read_to_string(&file).unwrap_or_default().trim().parse::<u32>().ok();
    eventually("the command is at work", || left().is_some());
    let left = palisade_host::process::identify(left().unwrap()).unwrap();
    kill(&keeper(&instance, "web"));
    exec.finish();
    assert_eq!(collect(&instance), ["sandbox web without a keeper: recovered"]);
    wait_gone(&[left]);
    assert!(file.as_path().exists(), "work survives");
    instance.run(["start", "web"]).ok();
    instance.run(["rm", "--force", "web"]).ok();
    assert_clean(&instance);
}

#[test]
fn heavy_a_keeper_whose_socket_is_gone_is_told_with_a_way_on() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.started("web");
    instance.shell("web", WORK).ok();
    let dir = crate::support::row(&instance, "web").unwrap().spec.dir.unwrap();
    std::fs::remove_file(dir.socket()).unwrap();
    let refused = instance.shell("web", "true");
    assert_eq!(
        (refused.code, refused.stderr.as_str()),
        (
            1,
            "error: the keeper of sandbox 'web' cannot be reached: No such file or directory (os error 2)\n\
             hint: its files are kept; end what runs with: palisade stop web; then start it again\n"
        )
    );
    instance.run(["stop", "--grace", "0", "web"]).ok();
    starts_again_with_its_work(&instance);
}
