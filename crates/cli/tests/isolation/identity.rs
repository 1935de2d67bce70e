//! Nothing inside is host root, has privileges or can gain any; the kernel's own files stay closed.

use palisade_testing::probe::{
    Differences, Inside, KERNEL_FILES, Uid, everywhere, nonce, on_host, under_naive_bwrap,
};
use palisade_testing::{is_root, requires};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

palisade_testing::on_isolating_methods!(
    seen_from_the_host_a_process_inside_is_never_root,
    no_kernel_file_opens_for_writing,
    there_are_no_privileges_and_no_new_ones,
    a_set_uid_program_gains_nothing,
);

/// A process inside that says "up" and waits for its input to end; its last argument is the nonce.
struct Waiting {
    child: Child,
}

impl Waiting {
    fn start(inside: &Inside, nonce: &str) -> Self {
        // Palisade's own command line has the nonce in two parts, so that only the process inside has it whole.
        let (head, tail) = nonce.split_at(nonce.len() / 2);
        let script = format!("exec /usr/bin/env sh -c 'echo up; read line; exit 0' {head}\"\"{tail}");
        let mut command = inside.command(&["sh", "-c", &script]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "up\n");
        Self { child }
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

/// `/proc/<pid>` of the processes whose command line has the nonce, as the host sees them.
fn on_host_by_nonce(nonce: &str) -> Vec<PathBuf> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    processes
        .filter(|path| {
            let words = std::fs::read(path.join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).contains(nonce)
        })
        .collect()
}

fn status_line(process: &Path, name: &str) -> Vec<String> {
    let status = std::fs::read_to_string(process.join("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').split_whitespace().map(str::to_owned).collect()
}

fn seen_from_the_host_a_process_inside_is_never_root(method: &'static str) {
    let own = rustix_uid();
    everywhere(method, &[], |inside| {
        let nonce = nonce();
        let waiting = Waiting::start(inside, &nonce);
        let found = on_host_by_nonce(&nonce);
        assert_eq!(found.len(), 1, "{found:?}");
        for name in ["Uid", "Gid"] {
            let ids = status_line(&found[0], name);
            if is_root() || Differences::of(method).uid == Uid::OfTheHost {
                let others = ["0", "1000", "65534", own.as_str()];
                assert!(ids.iter().all(|id| !others.contains(&id.as_str())), "{name} {ids:?}");
            } else {
                assert!(name != "Uid" || ids.iter().all(|id| *id == own), "{name} {ids:?}");
            }
        }
        // No group but the one of everything inside; bwrap started by root gives not even that.
        let groups = status_line(&found[0], "Groups");
        let own_group = status_line(&found[0], "Gid").remove(0);
        assert!(groups.iter().all(|group| *group == own_group), "{groups:?}");
        assert!(method != "bwrap" || groups.len() == usize::from(!is_root()), "{groups:?}");
        waiting.end();
    });
    // The control: bwrap by hand leaves root root, whatever uid it shows inside.
    if is_root() {
        let script = "import os, json; print(json.dumps(os.stat('/proc/self').st_uid), flush=True)";
        assert_eq!(under_naive_bwrap(script, &[]), json!(1000));
        assert_eq!(
            under_naive_bwrap(KERNEL_FILES, &["/proc/sys/kernel/core_pattern"]).as_array().unwrap().len(),
            1
        );
    }
}

fn rustix_uid() -> String {
    status_line(Path::new("/proc/self"), "Uid").remove(0)
}

fn no_kernel_file_opens_for_writing(method: &'static str) {
    requires!(python3);
    everywhere(method, &[], |inside| {
        assert_eq!(inside.python(KERNEL_FILES, &["/proc", "/sys"]), json!([]), "{:?}", inside.entry());
    });
    // bwrap by hand leaves the first open to root, which is host root enough.
    let dangerous = ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger"];
    if is_root() {
        assert_eq!(under_naive_bwrap(KERNEL_FILES, &dangerous), json!([dangerous[0]]));
        let present: Vec<&str> = dangerous.into_iter().filter(|path| Path::new(path).exists()).collect();
        assert_eq!(on_host(KERNEL_FILES, &dangerous), json!(present));
    } else {
        // What an ordinary user may write on the host is a process's own; the probe sees that much.
        assert_eq!(on_host(KERNEL_FILES, &["/proc/self/comm"]), json!(["/proc/self/comm"]));
    }
}

const STATUS: &str = "
import json
wanted = ('NoNewPrivs', 'Seccomp', 'CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'Uid', 'Gid')
status = dict(line.rstrip().split(':', 1) for line in open('/proc/self/status'))
print(json.dumps({name: status[name].split() for name in wanted}))
";

fn there_are_no_privileges_and_no_new_ones(method: &'static str) {
    requires!(python3);
    let none = json!(["0000000000000000"]);
    everywhere(method, &[], |inside| {
        let found = inside.python(STATUS, &[]);
        let id = user_inside(&found["Uid"][0], method);
        let ids = json!([id, id, id, id]);
        assert_eq!(
            found,
            json!({
                "NoNewPrivs": ["1"], "Seccomp": ["2"], "CapInh": none, "CapPrm": none, "CapEff": none,
                "CapBnd": none, "CapAmb": none, "Uid": ids, "Gid": ids,
            })
        );
    });
    let outside = on_host(STATUS, &[]);
    assert_ne!(outside["CapBnd"], none);
    assert_eq!((&outside["NoNewPrivs"], &outside["Seccomp"]), (&json!(["0"]), &json!(["0"])));
}

/// The uid that everything inside should have: the usual one, or the one found if it is one of those for sandboxes.
fn user_inside(found: &Value, method: &str) -> String {
    const FIRST: u32 = 1_910_000_000;
    let found = found.as_str().unwrap();
    let is_of_a_sandbox = found.parse::<u32>().unwrap() >= FIRST;
    match Differences::of(method).uid {
        Uid::OfTheHost if is_of_a_sandbox => found.to_owned(),
        Uid::OfTheHost => format!("{FIRST} or higher"),
        Uid::Usual => "1000".to_owned(),
    }
}

/// Starts a set-uid program and looks with which effective uid it runs; it waits for a password meanwhile.
const SET_UID: &str = "
import json, os, subprocess, sys
if len(sys.argv) > 1:
    os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
mode = os.stat('/usr/bin/su').st_mode
child = subprocess.Popen(['/usr/bin/su'], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
while True:
    status = dict(line.rstrip().split(':', 1) for line in open(f'/proc/{child.pid}/status'))
    # Its rights are settled once it runs and waits; before, it is still on its way there.
    if status['Name'].strip() == 'su' and status['State'].strip()[0] in 'SZ':
        break
child.kill(); child.wait()
print(json.dumps({'marked': bool(mode & 0o4000), 'effective': status['Uid'].split()[1],
                  'nosuid': bool(os.statvfs('/usr').f_flag & os.ST_NOSUID)}))
";

fn a_set_uid_program_gains_nothing(method: &'static str) {
    requires!(python3);
    let nosuid = Differences::of(method).without_set_uid;
    everywhere(method, &[], |inside| {
        let found = inside.python(SET_UID, &[]);
        let own = user_inside(&found["effective"], method);
        assert_eq!(found, json!({"marked": true, "effective": own, "nosuid": nosuid}));
    });
    let nobody: &[&str] = if is_root() { &["as nobody"] } else { &[] };
    assert_eq!(on_host(SET_UID, nobody), json!({"marked": true, "effective": "0", "nosuid": false}));
}
