//! Own processes only, and no descriptor but the three standard ones.

use palisade_testing::probe::{Entry, Inside, everywhere, on_host};
use palisade_testing::{Instance, requires};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

palisade_testing::on_isolating_methods!(
    processes_of_the_host_are_neither_seen_nor_reached,
    the_guest_cannot_be_read_or_traced_by_what_it_runs,
    only_the_three_standard_descriptors_are_open_inside,
    a_keeper_does_not_hold_on_to_what_its_starter_had_open,
    two_sandboxes_do_not_see_each_other,
);

/// What a process can see of and do to others. The host's pid is given; no signal is sent.
const OTHERS: &str = "
import ctypes, errno, json, os, sys
def tried(action):
    try:
        action()
        return 'ok'
    except OSError as error:
        return errno.errorcode[error.errno]
pid = int(sys.argv[1])
numbers = sorted(int(name) for name in os.listdir('/proc') if name.isdigit())
print(json.dumps({
    'kill': tried(lambda: os.kill(pid, 0)),
    'status': tried(lambda: open(f'/proc/{pid}/status').close()),
    'few': len(numbers) < 10,
    'parents_are_ours': os.path.exists(f'/proc/{os.getppid()}') if os.getppid() else True,
}))
";

fn processes_of_the_host_are_neither_seen_nor_reached(method: &'static str) {
    requires!(python3);
    let pid = std::process::id().to_string();
    everywhere(method, &[], |inside| {
        assert_eq!(
            inside.python(OTHERS, &[&pid]),
            json!({"kill": "ESRCH", "status": "ENOENT", "few": true, "parents_are_ours": true})
        );
    });
    assert_eq!(
        on_host(OTHERS, &[&pid]),
        json!({"kill": "ok", "status": "ok", "few": false, "parents_are_ours": true})
    );
}

/// Attempts on the guest, which is pid 1 inside and of the same uid.
const GUEST: &str = "
import ctypes, errno, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def tried(action):
    try:
        action()
        return 'ok'
    except OSError as error:
        return errno.errorcode[error.errno]
def traced(pid):
    if libc.ptrace(16, pid, 0, 0) == -1:
        raise OSError(ctypes.get_errno(), 'ptrace')
    os.waitpid(pid, 0)
    libc.ptrace(17, pid, 0, 0)
def victim():
    pid = os.fork()
    if pid == 0:
        libc.pause()
        os._exit(0)
    return pid
pid = int(sys.argv[1]) if len(sys.argv) > 1 else victim()
print(json.dumps({
    'memory': tried(lambda: os.close(os.open(f'/proc/{pid}/mem', os.O_RDWR))),
    'descriptors': tried(lambda: os.listdir(f'/proc/{pid}/fd')),
    'environment': tried(lambda: open(f'/proc/{pid}/environ').read()),
    'root': tried(lambda: os.listdir(f'/proc/{pid}/root/')),
    'trace': tried(lambda: traced(pid)),
}))
";

fn the_guest_cannot_be_read_or_traced_by_what_it_runs(method: &'static str) {
    requires!(python3);
    everywhere(method, &[], |inside| {
        assert_eq!(
            inside.python(GUEST, &["1"]),
            json!({
                "memory": "EACCES", "descriptors": "EACCES", "environment": "EACCES", "root": "EACCES",
                "trace": "EPERM",
            })
        );
        // The control: the same attempts on a child of one's own.
        assert_eq!(
            inside.python(GUEST, &[]),
            json!({"memory": "ok", "descriptors": "ok", "environment": "ok", "root": "ok", "trace": "ok"})
        );
    });
}

const DESCRIPTORS: &str = "
import json, os
def is_open(number):
    try:
        os.fstat(number)
        return True
    except OSError:
        return False
print(json.dumps([number for number in range(4096) if is_open(number)]))
";

/// The command, started by a shell that holds `file` open as descriptor 9 and passes it down.
fn holding(file: &Path, command: &Command) -> Command {
    let mut shell = Command::new("/bin/bash");
    shell
        .args(["-c", "exec 9<\"$0\"; exec \"$@\""])
        .arg(file)
        .arg(command.get_program())
        .args(command.get_args());
    shell.env_clear().stdin(std::process::Stdio::null());
    for (name, value) in command.get_envs() {
        shell.env(name, value.unwrap_or_default());
    }
    if let Some(directory) = command.get_current_dir() {
        shell.current_dir(directory);
    }
    shell
}

fn json_of(command: &mut Command) -> Value {
    Instance::finish(command).ok().json()
}

fn only_the_three_standard_descriptors_are_open_inside(method: &'static str) {
    requires!(python3);
    let probe = ["/usr/bin/python3", "-IS", "-c", DESCRIPTORS];
    for entry in [Entry::Run, Entry::Exec] {
        let instance = Instance::with_python(method);
        let secret = instance.home().join("secret");
        std::fs::write(&secret, "secret").unwrap();
        if entry == Entry::Exec {
            Instance::finish(&mut holding(&secret, &instance.command(["create", "--start", "held"]))).ok();
        }
        let words: &[&str] = if entry == Entry::Run { &["run", "--"] } else { &["exec", "held", "--"] };
        let command = instance.command(words.iter().chain(&probe));
        assert_eq!(json_of(&mut holding(&secret, &command)), json!([0, 1, 2]), "{entry:?}");
        // The control: the same shell passes it to anybody else.
        let mut bare = Command::new(probe[0]);
        bare.args(&probe[1..]);
        let direct = json_of(&mut holding(&secret, &bare));
        assert!(direct.as_array().unwrap().contains(&json!(9)), "{direct}");
    }
}

fn a_keeper_does_not_hold_on_to_what_its_starter_had_open(method: &'static str) {
    let instance = Instance::with_method(method);
    let secret = instance.home().join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let holders = || -> Vec<String> {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter(|process| {
                let descriptors =
                    std::fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
                descriptors
                    .into_iter()
                    .any(|file| std::fs::read_link(file.path()).is_ok_and(|path| path == secret))
            })
            .map(|process| {
                let words = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&words).replace('\0', " ")
            })
            .collect()
    };
    let open = std::fs::File::open(&secret).unwrap();
    assert!(!holders().is_empty(), "the control: the look finds this very process");
    drop(open);
    Instance::finish(&mut holding(&secret, &instance.command(["create", "--start", "held"]))).ok();
    assert_eq!(holders(), Vec::<String>::new());
}

fn two_sandboxes_do_not_see_each_other(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("one");
    instance.started("two");
    let mark = "mark-of-one";
    instance
        .shell("one", &format!("echo {mark} | tee /tmp/{mark} /workspace/{mark} ~/{mark} /dev/shm/{mark}"))
        .ok();
    let look = format!("ls /tmp/{mark} /workspace/{mark} ~/{mark} /dev/shm/{mark} 2>/dev/null | wc -l");
    assert_eq!(instance.shell("two", &look).ok().stdout.trim(), "0");
    assert_eq!(instance.shell("one", &look).ok().stdout.trim(), "4");
    let inside = Inside::new(Instance::with_method(method), Entry::Run, &[] as &[&str]);
    assert_eq!(inside.shell(&look).ok().stdout.trim(), "0");
}
