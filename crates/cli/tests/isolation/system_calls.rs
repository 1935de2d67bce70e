//! The system call filter, call by call. Inside each is refused by the filter; outside the kernel answers it.

use palisade_testing::probe::{SYSTEM_CALLS, everywhere, on_host};
use palisade_testing::{is_root, requires};
use serde_json::{Map, Value};

palisade_testing::on_isolating_methods!(
    each_refused_system_call_answers_as_the_filter_says_and_not_as_the_kernel_would,
    nothing_can_be_typed_into_a_terminal,
    the_guests_limits_and_priorities_cannot_be_changed,
);

/// Changes limits, priorities and processors of a process and says how each call was answered. Without a number, that is a
/// process of its own.
const FIRST_PROCESS: &str = "
import ctypes, errno, json, os, resource, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
child = subprocess.Popen(['sleep', '100'])
pid = int(sys.argv[1]) if len(sys.argv) > 1 else child.pid
IOPRIO_SET = {'x86_64': 251, 'aarch64': 30}[os.uname().machine]
def ioprio(which, who):
    if libc.syscall(IOPRIO_SET, which, who, (2 << 13) | 4) != 0:
        raise OSError(ctypes.get_errno(), 'ioprio_set')
calls = {
    'limits': lambda: resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0)),
    'priority': lambda: os.setpriority(os.PRIO_PROCESS, pid, 1),
    'processors': lambda: os.sched_setaffinity(pid, os.sched_getaffinity(child.pid)),
    'scheduler': lambda: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0)),
    'parameters': lambda: os.sched_setparam(pid, os.sched_param(0)),
    'i/o': lambda: ioprio(1, pid),
}
if len(sys.argv) > 1:
    calls['priority of the user'] = lambda: os.setpriority(os.PRIO_USER, os.getuid(), 1)
    calls['i/o of the user'] = lambda: ioprio(3, os.getuid())
    calls['priority of the group'] = lambda: os.setpriority(os.PRIO_PGRP, 1, 1)
    calls['limits, only read'] = lambda: resource.prlimit(pid, resource.RLIMIT_CORE)
answers = {}
for name, call in calls.items():
    try:
        call()
        answers[name] = 'ok'
    except OSError as error:
        answers[name] = errno.errorcode[error.errno]
child.kill()
print(json.dumps(answers))
";

fn the_guests_limits_and_priorities_cannot_be_changed(method: &'static str) {
    requires!(python3);
    let own = on_host(FIRST_PROCESS, &[]);
    assert!(own.as_object().unwrap().values().all(|answer| answer == "ok"), "{own}");
    everywhere(method, &[], |inside| {
        // A process of one's own is changed as anywhere.
        assert_eq!(inside.python(FIRST_PROCESS, &[]), own, "{:?}", inside.entry());
        let answers = inside.python(FIRST_PROCESS, &["1"]);
        for (name, answer) in answers.as_object().unwrap() {
            let expected = if name == "limits, only read" { "ok" } else { "EPERM" };
            assert_eq!(answer, expected, "{name}: {answers}");
        }
    });
}

/// Calls that the filter leaves alone: the probe itself works inside.
const ALLOWED: [(&str, &str); 2] = [("clone()", "ok"), ("another ioctl", "EBADF")];
/// Answered as "not implemented", so that libraries fall back.
const NOT_IMPLEMENTED: [&str; 2] = ["clone3", "x32 getpid"];
const KILLED: &str = "int 0x80";
/// Refused to an ordinary user by the kernel in the same words, so that only root's run tells the difference.
const PRIVILEGED: [&str; 11] = [
    "pivot_root",
    "move_mount",
    "fsopen",
    "fsmount",
    "fspick",
    "fanotify_init",
    "reboot",
    "swapon",
    "swapoff",
    "acct",
    "syslog",
];

fn expected(name: &str) -> &'static str {
    match ALLOWED.iter().find(|(allowed, _)| *allowed == name) {
        Some((_, answer)) => answer,
        None if NOT_IMPLEMENTED.contains(&name) => "ENOSYS",
        None if name == KILLED => "SIGSYS",
        None => "EPERM",
    }
}

fn each_refused_system_call_answers_as_the_filter_says_and_not_as_the_kernel_would(method: &'static str) {
    requires!(python3);
    let outside = on_host(SYSTEM_CALLS, &[]);
    let outside = outside.as_object().unwrap();
    assert!(outside.len() > 50, "the probe tried {} calls", outside.len());
    let wanted: Map<String, Value> =
        outside.keys().map(|name| (name.clone(), expected(name).into())).collect();
    for (name, answer) in outside {
        // A kernel without x32 answers the same as the filter; without i386 the instruction is a fault.
        let same_words = ALLOWED.iter().any(|(allowed, _)| allowed == name)
            || name == "x32 getpid"
            || (PRIVILEGED.contains(&name.as_str()) && !is_root());
        assert!(same_words || answer != expected(name), "{name} answers {answer} without the filter, too");
    }
    for flags in [&[][..], &["--tmp", "16M"]] {
        everywhere(method, flags, |inside| {
            assert_eq!(
                inside.python(SYSTEM_CALLS, &[]),
                Value::Object(wanted.clone()),
                "{:?}",
                inside.entry()
            );
        });
    }
}

/// Types into the terminal of the process itself, as a program would into the one it was started from.
const TERMINAL: &str = "
import errno, fcntl, json, os, pty, termios
pid, master = pty.fork()
if pid == 0:
    try:
        fcntl.ioctl(0, termios.TIOCSTI, b'x')
        answer = 'ok'
    except OSError as error:
        answer = errno.errorcode[error.errno]
    os.write(1, ('[' + answer + ']').encode())
    os._exit(0)
text = b''
while b']' not in text:
    text += os.read(master, 100)
os.waitpid(pid, 0)
print(json.dumps(text.decode().split('[')[1].split(']')[0]))
";

fn nothing_can_be_typed_into_a_terminal(method: &'static str) {
    requires!(python3);
    everywhere(method, &[], |inside| {
        assert_eq!(inside.python(TERMINAL, &[]), "EPERM");
    });
    // Where the kernel itself has it switched off, it says so in other words.
    let outside = on_host(TERMINAL, &[]);
    assert!(outside == "ok" || outside == "EIO", "{outside}");
}
