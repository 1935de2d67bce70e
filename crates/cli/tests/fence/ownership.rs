//! Set-id bits cannot be set on the host's files, and who owns what is the same inside and outside.

use crate::support::Repository;
use palisade_testing::probe::{everywhere, on_host};
use palisade_testing::{Instance, is_root, requires};
use serde_json::json;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

/// Sets the set-uid and set-gid bits by every call that has a mode; numbers of x86-64.
const SET_ID: &str = "
import ctypes, errno, json, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
os.umask(0)
os.chdir(sys.argv[1])
def call(number, *arguments):
    ctypes.set_errno(0)
    words = [ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_long(a) for a in arguments]
    return 'ok' if libc.syscall(ctypes.c_long(number), *words) != -1 else errno.errorcode[ctypes.get_errno()]
HERE, CREATE = -100, os.O_CREAT | os.O_WRONLY | os.O_EXCL
def fresh(name):
    os.close(os.open(name, CREATE, 0o755))
    return name.encode()
def descriptor(name):
    fresh(name)
    return os.open(name, os.O_RDONLY)
how = struct.pack('QQQ', CREATE, 0o4755, 0)
buffer = ctypes.create_string_buffer(how, len(how))
answers = {
    'chmod 4755': call(90, fresh('a'), 0o4755),
    'chmod 2755': call(90, fresh('b'), 0o2755),
    'fchmod': call(91, descriptor('c'), 0o4755),
    'fchmodat': call(268, HERE, fresh('d'), 0o4755),
    'fchmodat2': call(452, HERE, fresh('e'), 0o4755, 0),
    'open': call(2, b'f', CREATE, 0o4755),
    'openat': call(257, HERE, b'g', CREATE, 0o4755),
    'creat': call(85, b'h', 0o4755),
    'mknod': call(133, b'i', 0o104755, 0),
    'mknodat': call(259, HERE, b'j', 0o104755, 0),
    'openat2': call(437, HERE, b'k', ctypes.addressof(buffer), len(how)),
    'mkdir': call(83, b'l', 0o2755),
}
marked = sorted(name for name in os.listdir('.') if os.lstat(name).st_mode & 0o6000)
print(json.dumps({'answers': sorted(set(answers.values())), 'marked': marked, 'plain chmod': call(90, b'a', 0o700)}))
";

#[test]
fn set_id_bits_cannot_be_set_where_the_host_can_see_them() {
    requires!(bwrap, python3);
    for flag in ["-w", "--mount"] {
        for verb in ["run", "create"] {
            let instance = Instance::with_method("bwrap");
            std::fs::create_dir(instance.work().join("shown")).unwrap();
            let (value, place) =
                if flag == "-w" { ("shown", "/workspace") } else { ("shown:/data", "/data") };
            let probe = ["/usr/bin/python3", "-IS", "-c", SET_ID, place];
            let outcome = if verb == "run" {
                instance.run([&["run", flag, value, "--"], &probe[..]].concat())
            } else {
                instance.run(["create", "--start", flag, value, "marks"]).ok();
                instance.run([&["exec", "marks", "--"], &probe[..]].concat())
            };
            assert_eq!(
                outcome.ok().json(),
                json!({"answers": ["ENOSYS", "EPERM"], "marked": [], "plain chmod": "ok"}),
                "{verb} {flag}"
            );
            let seen = std::fs::read_dir(instance.work().join("shown")).unwrap().flatten();
            assert!(seen.map(|entry| entry.metadata().unwrap().mode()).all(|mode| mode & 0o6000 == 0));
        }
    }
    let outside = tempfile::tempdir().unwrap();
    let seen = on_host(SET_ID, &[outside.path().to_str().unwrap()]);
    assert_eq!(seen["answers"], json!(["ok"]));
    // A new directory takes its set-gid bit from the one above only.
    assert_eq!(seen["marked"], json!(["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"]));
}

#[test]
fn what_is_made_inside_belongs_to_the_directorys_owner() {
    requires!(bwrap, git);
    let repository = Repository::new();
    let private = repository.path.join("private");
    std::fs::write(&private, "for the owner only\n").unwrap();
    std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o600)).unwrap();
    let owner = std::fs::metadata(&repository.path).unwrap();
    let outcome =
        repository.inside("cat private && echo made > made && mkdir d && stat -c %u:%g . private made").ok();
    assert_eq!(outcome.stdout, "for the owner only\n1000:1000\n1000:1000\n1000:1000\n");
    for name in ["made", "d"] {
        let meta = std::fs::metadata(repository.path.join(name)).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (owner.uid(), owner.gid()), "{name}");
    }
}

#[test]
fn files_of_other_users_stay_theirs() {
    requires!(bwrap, root);
    let repository = Repository::new();
    let foreign = repository.path.join("foreign");
    std::fs::write(&foreign, "of another user\n").unwrap();
    std::fs::set_permissions(&foreign, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::chown(&foreign, Some(12345), Some(12345)).unwrap();
    assert_ne!(repository.inside("cat foreign").code, 0);
    assert_ne!(repository.inside("echo x > foreign").code, 0);
    assert_eq!(std::fs::read_to_string(&foreign).unwrap(), "of another user\n");
    assert!(is_root());
}

#[test]
fn a_sandboxs_own_files_are_its_own() {
    requires!(bwrap);
    everywhere("bwrap", &[], |inside| {
        let seen =
            inside.shell("touch ~/x /workspace/x /tmp/x && stat -c %u:%g ~/x /workspace/x /tmp/x").ok();
        assert_eq!(seen.stdout, "1000:1000\n".repeat(3));
    });
}
