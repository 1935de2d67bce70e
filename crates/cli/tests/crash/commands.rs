//! The command itself is killed, at chosen and at arbitrary moments: what it asked for goes on, or gc undoes it.

use crate::keeper::{silent_guest, starts_again_with_its_work};
use crate::neighbour::Neighbour;
use crate::support::{
    Underway, assert_clean, below, collect, gc, guest_below, keeper, listed, only_keepers_of_the_record, row,
    shown, wait_for_state, wait_gone,
};
use palisade_testing::{Instance, Pty, eventually, requires};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs a command once to see how long it takes, and then again and again, each time killed a little later, until
/// past its end. Gives what `prepare` gave for each.
pub(crate) fn at_any_moment<T>(times: u32, mut prepare: impl FnMut() -> (Command, T)) -> Vec<T> {
    let (mut command, first) = prepare();
    let began = Instant::now();
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    let whole = began.elapsed();
    let mut given = vec![first];
    for step in 0..times {
        let (mut command, one) = prepare();
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // The moment is the subject here, not the wait for something.
        std::thread::sleep(whole * step / (times - 1));
        child.kill().unwrap();
        child.wait().unwrap();
        given.push(one);
    }
    given
}

#[test]
fn heavy_create_is_killed_at_any_moment() {
    requires!(bwrap);
    let neighbour = Neighbour::new();
    let instance = Instance::with_method("bwrap");
    let mut count = 0;
    let names = at_any_moment(30, || {
        count += 1;
        let name = format!("web-{count}");
        (instance.command(["create", &name]), name)
    });
    for name in names.iter().filter(|name| row(&instance, name).is_some()) {
        let (state, why) = shown(&instance, name);
        match state.as_str() {
            "created" => {}
            "error" => {
                assert_eq!(why, "its create was interrupted; `palisade gc` takes it back");
                let refused = instance.run(["start", name]);
                assert_eq!(refused.code, 7, "work must not get into what gc takes back: {refused:?}");
            }
            other => panic!("{name} is {other}"),
        }
    }
    let whole: Vec<(String, String)> =
        listed(&instance).into_iter().filter(|(_, state)| state == "created").collect();
    collect(&instance);
    assert_eq!(listed(&instance), whole, "what was finished stays, the rest is gone");
    neighbour.assert_untouched();
    for (name, _) in whole {
        instance.run(["rm", &name]).ok();
    }
    assert_clean(&instance);
}

#[test]
fn heavy_start_is_killed_at_any_moment() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.started("web");
    instance.shell("web", "echo work > /workspace/work; echo home > /home/agent/home").ok();
    at_any_moment(10, || {
        // The keeper of the last one may still be coming up.
        eventually("the sandbox is stopped", || {
            instance.run(["stop", "--grace", "0", "web"]).code == 0
                && row(&instance, "web").unwrap().keeper.is_none()
        });
        (instance.command(["start", "web"]), ())
    });
    eventually("it can be started", || instance.run(["start", "web"]).code == 0);
    assert_eq!(gc(&instance, &[]), Vec::<String>::new());
    // A keeper that came too late, or has given its sandbox back, may still be on its way out.
    eventually("the one keeper of the record is the only process", || only_keepers_of_the_record(&instance));
    instance.run(["stop", "web"]).ok();
    starts_again_with_its_work(&instance);
}

#[test]
fn heavy_start_is_killed_before_the_guest_answers() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.run(["create", "web"]).ok();
    let silent = silent_guest(&instance);
    let start = Underway::start(instance.command(["start", "web"]).env("PALISADE_GUEST", &silent));
    eventually("the keeper has started its guest", || {
        row(&instance, "web").unwrap().keeper.is_some_and(|keeper| !below(&keeper).is_empty())
    });
    start.kill();
    assert_eq!(shown(&instance, "web"), ("starting".into(), String::new()), "its keeper still tries");
    assert_eq!(collect(&instance), Vec::<String>::new(), "and is left alone");
    let inside = below(&keeper(&instance, "web"));
    let began = Instant::now();
    instance.run(["stop", "--grace", "0", "web"]).ok();
    assert!(began.elapsed() < Duration::from_secs(8), "a guest that hangs is not waited for");
    wait_gone(&inside);
    instance.run(["start", "web"]).ok();
    instance.run(["rm", "--force", "web"]).ok();
    assert_clean(&instance);
}

#[test]
fn heavy_a_start_that_hangs_can_be_removed_by_force() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.run(["create", "web"]).ok();
    let silent = silent_guest(&instance);
    let start = Underway::start(instance.command(["start", "web"]).env("PALISADE_GUEST", &silent));
    wait_for_state(&instance, "web", "starting");
    instance.run(["rm", "--force", "web"]).ok();
    let told = start.finish();
    assert!(told.code == 7 && told.stderr.contains("was stopped before it was up"), "{told:?}");
    assert_clean(&instance);
}

#[test]
fn heavy_exec_is_killed() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.started("web");
    let keeper = keeper(&instance, "web");
    let before = below(&keeper);
    let script = "echo up; exec sleep 1000";
    let mut exec = Underway::start(&mut instance.command(["exec", "web", "--", "sh", "-c", script]));
    assert_eq!(exec.line(), "up\n");
    exec.kill();
    eventually("the command ends with its client", || below(&keeper) == before);
    assert_eq!(shown(&instance, "web"), ("running".into(), String::new()));
    assert_eq!(collect(&instance), Vec::<String>::new());
    assert_eq!(instance.shell("web", "echo well").ok().stdout, "well\n");
    instance.run(["rm", "--force", "web"]).ok();
    assert_clean(&instance);
}

#[test]
fn heavy_stop_is_killed_and_the_stop_goes_on() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.started("web");
    instance.shell("web", "echo work > /workspace/work; echo home > /home/agent/home").ok();
    let script = "trap '' TERM; echo up; while :; do sleep 1000; done";
    let mut stubborn = Underway::start(&mut instance.command(["exec", "web", "--", "sh", "-c", script]));
    assert_eq!(stubborn.line(), "up\n");
    let keeper = keeper(&instance, "web");
    let stop = Underway::start(&mut instance.command(["stop", "--grace", "1", "web"]));
    wait_for_state(&instance, "web", "stopping");
    stop.kill();
    wait_gone(&[keeper]);
    stubborn.finish();
    assert_eq!(shown(&instance, "web"), ("stopped".into(), String::new()));
    assert_eq!(collect(&instance), Vec::<String>::new());
    starts_again_with_its_work(&instance);
}

/// A sandbox with so many files that its removal takes a while.
fn filled(instance: &Instance, name: &str) {
    instance.run(["create", name]).ok();
    let workspace = row(instance, name).unwrap().spec.dir.unwrap().workspace();
    for number in 0..10 {
        let directory = workspace.join(format!("d{number}"));
        std::fs::create_dir(&directory).unwrap();
        for number in 0..20 {
            std::fs::write(directory.join(format!("f{number}")), "x").unwrap();
        }
    }
}

#[test]
fn heavy_rm_is_killed_at_any_moment() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let mut count = 0;
    let names = at_any_moment(16, || {
        count += 1;
        let name = format!("web-{count}");
        filled(&instance, &name);
        (instance.command(["rm", &name]), name)
    });
    for name in names.iter().filter(|name| row(&instance, name).is_some()) {
        let (state, why) = shown(&instance, name);
        match state.as_str() {
            "created" => {}
            "error" => {
                assert_eq!(why, "its rm was interrupted; `palisade gc` finishes it");
                // A command that changes something first finishes what the dead one had begun, here and for all.
                let start = instance.run(["start", name]);
                assert_eq!(start.code, 6, "{}", start.stderr);
                let told = format!("recovered from a crash: interrupted rm of sandbox {name}");
                assert!(start.stderr.contains(&told), "{}", start.stderr);
            }
            other => panic!("{name} is {other}"),
        }
    }
    let whole: Vec<(String, String)> =
        listed(&instance).into_iter().filter(|(_, state)| state == "created").collect();
    collect(&instance);
    assert_eq!(listed(&instance), whole, "what was not begun stays, the rest is gone");
    for (name, _) in whole {
        let workspace = row(&instance, &name).unwrap().spec.dir.unwrap().workspace();
        assert_eq!(std::fs::read_dir(workspace).unwrap().count(), 10, "with all that was in it");
        instance.run(["rm", &name]).ok();
    }
    assert_clean(&instance);
}

#[test]
fn heavy_rm_of_a_running_sandbox_is_killed_at_any_moment() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let mut count = 0;
    let names = at_any_moment(8, || {
        count += 1;
        let name = format!("web-{count}");
        instance.started(&name);
        (instance.command(["rm", "--force", &name]), name)
    });
    gc(&instance, &[]);
    for name in names.iter().filter(|name| row(&instance, name).is_some()) {
        instance.run(["rm", "--force", name]).ok();
    }
    assert_clean(&instance);
}

#[test]
fn heavy_cp_is_killed_at_any_moment_and_nothing_partial_is_seen() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.started("web");
    const SIZE: usize = 8 << 20;
    std::fs::write(instance.work().join("big"), vec![b'x'; SIZE]).unwrap();
    let out = instance.work().join("out");
    std::fs::create_dir(&out).unwrap();
    at_any_moment(8, || (instance.command(["cp", "big", "web:/workspace/in"]), ()));
    instance.run(["cp", "big", "web:/workspace/whole"]).ok();
    at_any_moment(8, || {
        let _ = std::fs::remove_file(out.join("whole"));
        (instance.command(["cp", "web:/workspace/whole", "out"]), ())
    });
    for entry in std::fs::read_dir(&out).unwrap().flatten() {
        let size = entry.metadata().unwrap().len();
        assert_eq!((entry.file_name().to_str().unwrap(), size), ("whole", SIZE as u64));
    }
    // The guest is told of the lost client, and takes back what it had half written.
    eventually("nothing partial is left inside", || {
        let found = instance.shell("web", "cd /workspace; stat -c '%n %s' $(ls -A)").ok().stdout;
        found.lines().all(|line| line == format!("in {SIZE}") || line == format!("whole {SIZE}"))
    });
    assert_eq!(collect(&instance), Vec::<String>::new());
    instance.run(["rm", "--force", "web"]).ok();
    assert_clean(&instance);
}

/// A guest that is stopped, as by `docker pause`, answers nothing. Commands end on the first signal, or by themselves.
#[test]
fn commands_do_not_wait_for_a_sandbox_that_does_not_answer() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.started("box");
    let guest = guest_below(&keeper(&instance, "box"));
    let guest = rustix::process::Pid::from_raw(guest.pid as i32).unwrap();
    let signal = |pid, signal| rustix::process::kill_process(pid, signal).unwrap();
    let mut running =
        Underway::start(&mut instance.command(["exec", "box", "--", "sh", "-c", "echo ready; sleep 1000"]));
    assert_eq!(running.line(), "ready\n");
    signal(guest, Signal::STOP);
    let silent = "the sandbox does not answer; the command in it may still be running";
    // One that runs, and one that has not begun.
    signal(rustix::process::Pid::from_raw(running.identity().pid as i32).unwrap(), Signal::INT);
    let ended = running.finish();
    assert!(ended.code == 130 && ended.stderr.contains(silent), "{ended:?}");
    let begun = Instant::now();
    let mut waiting = instance.command(["exec", "box", "--", "true"]).stderr(Stdio::piped()).spawn().unwrap();
    let pid = rustix::process::Pid::from_child(&waiting);
    // It listens for signals before it asks the sandbox for anything.
    eventually("it listens", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", waiting.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim().to_owned();
        u64::from_str_radix(&caught, 16).unwrap() & (1 << 14) != 0
    });
    signal(pid, Signal::TERM);
    assert_eq!(waiting.wait().unwrap().code(), Some(143));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    // Whatever waits for the sandbox ends by itself, after the same time and with the same words.
    let silent = "error: sandbox 'box' did not answer for 30 s\n\
                  hint: it may be paused, stopped by a signal, or overloaded; to end it: palisade stop box\n";
    let mut attached = Pty::start(&mut instance.command(["attach", "box"]), 24, 80);
    std::thread::scope(|scope| {
        let waits: [&[&str]; 5] = [
            &["exec", "box", "--", "true"],
            &["exec", "box", "--session", "s", "--detach", "--", "true"],
            &["sessions", "box"],
            &["cp", "box:/etc/hosts", "copied"],
            &["cp", "big", "box:/workspace/in"],
        ];
        std::fs::write(instance.work().join("big"), vec![0; 4 << 20]).unwrap();
        for words in waits {
            let instance = &instance;
            scope.spawn(move || {
                let begun = Instant::now();
                let ended = instance.run(words);
                assert_eq!((ended.code, ended.stderr.as_str()), (8, silent), "{words:?}");
                let time = begun.elapsed();
                assert!((20..40).contains(&time.as_secs()), "{words:?}: {time:?}");
            });
        }
        // Those that need nothing of the guest do not wait for it.
        assert_eq!(listed(&instance), [("box".to_owned(), "running".to_owned())]);
    });
    assert_eq!(attached.wait(), 8, "{}", attached.screen());
    let mut waiting = instance.command(["sessions", "box"]).spawn().unwrap();
    signal(rustix::process::Pid::from_child(&waiting), Signal::TERM);
    waiting.wait().unwrap();
    signal(guest, Signal::CONT);
    assert_eq!(instance.shell("box", "echo again").ok().stdout, "again\n");
    signal(guest, Signal::STOP);
    let begun = Instant::now();
    instance.run(["stop", "--grace", "1", "box"]).ok();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(listed(&instance), [("box".to_owned(), "stopped".to_owned())]);
}

/// A guest that is stopped for a while: what runs in the sandbox goes on with it, input and end included.
#[test]
fn a_command_goes_on_when_its_sandbox_does() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.started("box");
    let guest = guest_below(&keeper(&instance, "box"));
    let guest = rustix::process::Pid::from_raw(guest.pid as i32).unwrap();
    let words = ["exec", "-i", "box", "--", "sh", "-c", "echo ready; read line; echo $line; exit 7"];
    let mut command = instance.command(words);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(output.next().unwrap().unwrap(), "ready");
    rustix::process::kill_process(guest, Signal::STOP).unwrap();
    child.stdin.take().unwrap().write_all(b"sent meanwhile\n").unwrap();
    assert_eq!(listed(&instance), [("box".to_owned(), "running".to_owned())]);
    rustix::process::kill_process(guest, Signal::CONT).unwrap();
    assert_eq!(output.next().unwrap().unwrap(), "sent meanwhile");
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

/// A keeper that is stopped itself takes no signal and greets nobody.
#[test]
fn a_keeper_that_does_not_answer_is_given_up_and_ended() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.started("box");
    let pid = rustix::process::Pid::from_raw(keeper(&instance, "box").pid as i32).unwrap();
    rustix::process::kill_process(pid, Signal::STOP).unwrap();
    let begun = Instant::now();
    let stopped = instance.run(["stop", "--grace", "0", "box"]).ok();
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    assert_eq!(stopped.stdout, "");
    assert_eq!(listed(&instance), [("box".to_owned(), "stopped".to_owned())]);
}
