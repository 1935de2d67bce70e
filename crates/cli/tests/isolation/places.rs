//! A minimal `/dev`, a read-only root, and limits on everything in memory.

use palisade_testing::probe::{Differences, everywhere, on_host};
use palisade_testing::requires;
use serde_json::json;

palisade_testing::on_isolating_methods!(
    dev_has_the_harmless_devices_and_no_other,
    only_the_places_meant_for_writing_are_writable,
    what_lies_in_memory_is_limited_in_size,
);

const DEVICES: &str = "
import json, os, stat
entries, blocks, characters = [], [], []
for directory, names, files in os.walk('/dev'):
    if directory.startswith('/dev/pts') or directory.startswith('/dev/shm'):
        continue
    for name in names + files:
        path = os.path.join(directory, name)
        mode = os.lstat(path).st_mode
        entries.append(path)
        blocks += [path] if stat.S_ISBLK(mode) else []
        characters += [path] if stat.S_ISCHR(mode) else []
print(json.dumps({'entries': sorted(entries), 'blocks': blocks, 'characters': sorted(characters)}))
";

fn dev_has_the_harmless_devices_and_no_other(method: &'static str) {
    requires!(python3);
    let characters = ["full", "null", "random", "tty", "urandom", "zero"].map(|name| format!("/dev/{name}"));
    everywhere(method, &[], |inside| {
        let seen = inside.python(DEVICES, &[]);
        assert_eq!(seen["blocks"], json!([]));
        assert_eq!(seen["characters"], json!(characters));
        for absent in
            ["/dev/kvm", "/dev/mem", "/dev/kmsg", "/dev/fuse", "/dev/net", "/dev/vsock", "/dev/console"]
        {
            assert!(!seen["entries"].as_array().unwrap().contains(&json!(absent)), "{absent}");
        }
    });
    let outside = on_host(DEVICES, &[]);
    assert!(outside["characters"].as_array().unwrap().len() > characters.len());
}

/// Tries to make a file in each directory and says with what success.
const MAKE: &str = "
import errno, json, os, sys
answers = {}
for directory in sys.argv[1:]:
    path = directory.rstrip('/') + '/made-by-a-probe'
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        os.unlink(path)
        answers[directory] = 'ok'
    except OSError as error:
        answers[directory] = errno.errorcode[error.errno]
print(json.dumps(answers))
";

fn only_the_places_meant_for_writing_are_writable(method: &'static str) {
    requires!(python3);
    let closed =
        ["/", "/dev", "/etc", "/usr", "/usr/bin", "/var", "/run", "/home", "/.palisade", "/etc/ssl/certs"];
    let differences = Differences::of(method);
    let closed: Vec<&str> =
        closed.into_iter().filter(|directory| !differences.writable.contains(directory)).collect();
    let open =
        [&["/tmp", "/var/tmp", "/dev/shm", "/home/agent", "/workspace"], differences.writable].concat();
    everywhere(method, &[], |inside| {
        let closed_answers = inside.python(MAKE, &closed);
        for &directory in &closed {
            let answer = &closed_answers[directory];
            assert!(answer == "EROFS" || answer == "EACCES", "{directory}: {answer}");
        }
        // Not only for want of permission: the root belongs to nobody else, and is read-only.
        assert_eq!(
            (&closed_answers["/"], &closed_answers["/dev"]),
            (&json!("EROFS"), &json!(differences.closed_dev))
        );
        let all_open = open.iter().all(|directory| inside.python(MAKE, &[directory])[directory] == "ok");
        assert!(all_open, "{}", inside.python(MAKE, &open));
    });
}

/// fill.py PATH MIB: how many MiB could be written, and what stopped it.
const FILL: &str = "
import errno, json, os, sys
path, most = sys.argv[1] + '/filler', int(sys.argv[2])
piece, written, why = b'x' * (1 << 20), 0, 'done'
handle = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
try:
    while written < most << 20:
        written += os.write(handle, piece)
except OSError as error:
    why = errno.errorcode[error.errno]
os.close(handle)
os.unlink(path)
print(json.dumps({'mib': written >> 20, 'why': why}))
";

fn what_lies_in_memory_is_limited_in_size(method: &'static str) {
    requires!(python3);
    everywhere(method, &["--tmp", "4M"], |inside| {
        assert_eq!(inside.python(FILL, &["/tmp", "8"]), json!({"mib": 4, "why": "ENOSPC"}));
        assert_eq!(inside.python(FILL, &["/dev/shm", "100"]), json!({"mib": 64, "why": "ENOSPC"}));
        if inside.entry() == palisade_testing::probe::Entry::Run {
            for place in ["/workspace", "/home/agent"] {
                assert_eq!(inside.python(FILL, &[place, "8"]), json!({"mib": 4, "why": "ENOSPC"}), "{place}");
            }
        }
    });
    // The control: with more room the same writes succeed.
    everywhere(method, &["--tmp", "16M"], |inside| {
        assert_eq!(inside.python(FILL, &["/tmp", "8"]), json!({"mib": 8, "why": "done"}));
    });
}
