//! A sandbox that wants everything gets its share: the limits hold, the guest survives, and others still answer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

use palisade_testing::probe::{Entry, Inside, everywhere};
use palisade_testing::{Instance, eventually, is_root, requires};
use serde_json::json;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// bomb.py MOST: forks until it may not any more or has MOST children; they wait until the script's input ends.
const BOMB: &str = "
import errno, json, os, sys
reader, writer = os.pipe()
children, why = 0, 'done'
while children < int(sys.argv[1]):
    try:
        if os.fork() == 0:
            os.close(writer)
            os.read(reader, 1)
            os._exit(0)
        children += 1
    except OSError as error:
        why = errno.errorcode[error.errno]
        break
print(json.dumps({'children': children, 'why': why}), flush=True)
sys.stdin.read()
";

/// Starts the script inside and gives it back once it has said its first line.
fn start(inside: &Inside, script: &str, argument: &str) -> (Child, serde_json::Value) {
    let words = ["/usr/bin/python3", "-IS", "-c", script, argument];
    let mut child = inside.command(&words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line)
        .unwrap();
    (child, serde_json::from_str(&line).unwrap())
}

fn end(mut child: Child) {
    drop(child.stdin.take());
    child.wait().unwrap();
}

#[test]
fn heavy_a_fork_bomb_is_stopped_and_another_sandbox_still_answers() {
    requires!(bwrap, python3, root);
    let other = Instance::with_method("bwrap");
    other.started("calm");
    everywhere("bwrap", &["--pids", "64"], |inside| {
        let (bomb, said) = start(inside, BOMB, "500");
        assert_eq!(said["why"], "EAGAIN");
        assert!((30..64).contains(&said["children"].as_u64().unwrap()), "{said}");
        // While it stands at its limit.
        assert_eq!(other.shell("calm", "echo still here").ok().stdout, "still here\n");
        end(bomb);
        assert_eq!(inside.shell("echo and here").ok().stdout, "and here\n");
    });
    // The control: with a higher limit the same script has all the children it wants.
    everywhere("bwrap", &["--pids", "1000"], |inside| {
        let (bomb, said) = start(inside, BOMB, "200");
        assert_eq!(said, json!({"children": 200, "why": "done"}));
        end(bomb);
    });
}

const HOG: &str = "
import sys
hog = bytearray(int(sys.argv[1]) << 20)
for page in range(0, len(hog), 4096):
    hog[page] = 1
print('\"had it all\"')
";

#[test]
fn heavy_a_memory_hog_is_killed_and_the_guest_answers_the_next_command() {
    requires!(bwrap, python3, root);
    let words = ["/usr/bin/python3", "-IS", "-c", HOG, "256"];
    everywhere("bwrap", &["--memory", "64M"], |inside| {
        let outcome = inside.run(&words);
        assert_eq!((outcome.stdout.as_str(), outcome.code), ("", 128 + 9), "{}", outcome.stderr);
        let told =
            "warning: the sandbox reached its memory limit of 64M, and the kernel killed a process in it";
        assert!(outcome.stderr.starts_with(told), "{}", outcome.stderr);
        assert_eq!(inside.shell("echo alive").ok().stdout, "alive\n");
    });
    everywhere("bwrap", &["--memory", "512M"], |inside| {
        assert_eq!(inside.python(HOG, &["256"]), "had it all");
    });
}

#[test]
fn heavy_what_is_written_to_memory_counts_as_memory() {
    requires!(bwrap, root);
    let fill = "dd if=/dev/zero of=/tmp/x bs=1M count=200 2>/dev/null; echo $?";
    let limited =
        Inside::new(Instance::with_method("bwrap"), Entry::Exec, &["--memory", "64M", "--tmp", "1G"]);
    assert_ne!(limited.shell(fill).stdout.trim(), "0");
    limited.shell("rm -f /tmp/x && echo alive").ok();
    let roomy = Inside::new(Instance::with_method("bwrap"), Entry::Exec, &["--memory", "1G", "--tmp", "1G"]);
    assert_eq!(roomy.shell(fill).ok().stdout.trim(), "0");
}

/// The directory of the processor controller for the one sandbox of an instance.
fn cpu_group(instance: &Instance) -> PathBuf {
    let owner = instance.owner();
    let roots = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"].map(PathBuf::from);
    let groups = roots.iter().filter_map(|root| {
        let mut leaves = std::fs::read_dir(root.join("palisade").join(&owner)).ok()?.flatten();
        leaves.find(|leaf| leaf.path().join("cpu.stat").exists()).map(|leaf| leaf.path())
    });
    groups.into_iter().next().expect("a cgroup with a processor controller")
}

fn throttled(group: &Path) -> u64 {
    let stat = std::fs::read_to_string(group.join("cpu.stat")).unwrap();
    let line = stat.lines().find_map(|line| line.strip_prefix("nr_throttled ")).unwrap();
    line.parse().unwrap()
}

#[test]
fn heavy_a_busy_loop_is_held_to_its_share_of_the_processor() {
    requires!(bwrap, root);
    let burn =
        "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\nprint(1)";
    let throttled_by = |flags: &[&str]| {
        let inside = Inside::new(Instance::with_method("bwrap"), Entry::Exec, flags);
        inside.python(burn, &[]);
        throttled(&cpu_group(&inside.instance))
    };
    assert!(throttled_by(&["--cpus", "0.2"]) > 0, "never throttled");
    // The control needs more than one processor: a quota of all of them is none, and makes no group.
    if std::thread::available_parallelism().unwrap().get() > 1 {
        assert_eq!(throttled_by(&["--cpus", "1.5"]), 0);
    }
}

#[test]
fn a_limit_that_was_asked_for_is_enforced_or_refused() {
    requires!(bwrap);
    for (flag, value) in [("--memory", "64M"), ("--cpus", "0.5"), ("--pids", "64")] {
        for words in [&["run", flag, value, "--", "true"][..], &["create", "--start", flag, value, "limited"]]
        {
            let instance = Instance::with_method("bwrap");
            let outcome = instance.run(words);
            if is_root() {
                outcome.ok();
                continue;
            }
            assert_eq!(outcome.code, 4, "{words:?}: {outcome:?}");
            let limit = &flag[2..];
            assert!(
                outcome.stderr.contains(&format!("the {limit} limit that was asked for cannot be enforced")),
                "{}",
                outcome.stderr
            );
        }
    }
    // A default that cannot be enforced is no reason to fail.
    everywhere("bwrap", &[], |inside| {
        inside.shell("true").ok();
    });
}

#[test]
fn a_limit_that_is_too_low_for_a_start_is_named() {
    requires!(bwrap, root);
    for (flag, value) in [("--memory", "4096"), ("--pids", "1")] {
        let instance = Instance::with_method("bwrap");
        let expected = format!("error: the sandbox does not start with its {} limit of ", &flag[2..]);
        let hint = format!("hint: raise it with {flag}\n");
        for words in [&["run", flag, value, "--", "true"][..], &["create", "--start", flag, value, "box"]] {
            let told = instance.run(words);
            assert_eq!(told.code, 4, "{told:?}");
            assert!(told.stderr.starts_with(&expected) && told.stderr.ends_with(&hint), "{told:?}");
        }
    }
    // A kill that has nothing to do with memory is not said to have.
    let instance = Instance::with_method("bwrap");
    let killed = instance.run(["run", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!((killed.code, killed.stderr.contains("memory")), (137, false), "{killed:?}");
}

fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Bytes that a process has read so far.
fn bytes_read(pid: u32) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

/// Palisade's processes of this instance: the client and, where there is one, the keeper.
fn own_processes(instance: &Instance, client: u32) -> Vec<u32> {
    let state = instance.state();
    let listed = std::fs::read_dir("/proc").unwrap().flatten();
    let keepers = listed.filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let words = String::from_utf8_lossy(&std::fs::read(entry.path().join("cmdline")).ok()?).into_owned();
        let home = String::from_utf8_lossy(&std::fs::read(entry.path().join("environ")).ok()?).into_owned();
        let ours = home.contains(state.parent()?.to_str()?) && words.contains("__keeper");
        ours.then_some(pid)
    });
    keepers.chain([client]).collect()
}

#[test]
fn endless_output_that_nobody_reads_stops_its_writer_and_not_our_memory() {
    requires!(bwrap);
    const MOST: u64 = 48 << 20;
    const FLOOD: u64 = 64 << 20;
    everywhere("bwrap", &[], |inside| {
        let mut child = inside.command(&["yes", "endless"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0; 8]).unwrap();
        let processes = own_processes(&inside.instance, child.id());
        assert_eq!(processes.len(), 1 + usize::from(inside.entry() == Entry::Exec));
        // Nobody reads: in the end nothing moves any more.
        let mut seen = Vec::new();
        let mut still = 0;
        eventually("the flood stands still", || {
            let now: Vec<u64> = processes.iter().map(|pid| bytes_read(*pid)).collect();
            still = if now == seen { still + 1 } else { 0 };
            seen = now;
            still > 20
        });
        assert!(seen.iter().all(|bytes| *bytes < MOST), "read without being read: {seen:?}");
        assert!(processes.iter().all(|pid| resident(*pid) < MOST));
        // And once somebody reads, it goes on, with the same memory.
        let mut piece = vec![0; 1 << 20];
        let mut read = 0;
        while read < FLOOD {
            read += stdout.read(&mut piece).unwrap() as u64;
        }
        assert!(processes.iter().all(|pid| resident(*pid) < MOST));
        drop(stdout);
        child.kill().unwrap();
        child.wait().unwrap();
    });
}
