//! Files that git ignores, from an agent that means harm: what a tree inside can hold, and what it can become while it is
//! read. What no honest guest would send is tried in the tests beside the reception.

use crate::{git, inside, repository};
use palisade_testing::{Instance, eventually, requires};
use rustix::fs::{CWD, RenameFlags};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

const IGNORE: &str = "echo build > .gitignore && git add .gitignore && git commit -qm ignore";

/// Everything below a directory by its path, with what it is.
fn found(root: &Path) -> BTreeMap<Vec<u8>, String> {
    let mut found = BTreeMap::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            let (path, meta) = (entry.path(), entry.path().symlink_metadata().unwrap());
            let what = if meta.is_dir() {
                pending.push(path.clone());
                "directory".to_owned()
            } else if meta.is_file() {
                format!(
                    "{:o} {} {}",
                    meta.mode() & 0o7777,
                    meta.nlink(),
                    std::fs::read_to_string(&path).unwrap()
                )
            } else {
                format!("link {}", std::fs::read_link(&path).unwrap().display())
            };
            found.insert(path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec(), what);
        }
    }
    found
}

#[test]
fn a_hostile_tree_comes_home_as_plain_files_of_its_own() {
    requires!(bwrap, git);
    let instance = repository();
    let script = r#"
        mkdir -p build/dir build/repo/.git/hooks build/.GIT && cd build
        echo honest > plain && chmod 644 plain; echo honest > run && chmod 777 run
        echo honest > setuid && chmod 6755 setuid
        ln plain hard; ln -s plain near; ln -s ../plain dir/up; ln -s /etc/passwd away; ln -s ../../code above
        ln -s ../.git/config config
        mkfifo fifo; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
        echo evil > repo/.git/hooks/post-checkout; echo evil > .GIT/config
        printf honest > "$(printf 'odd\377\n\033[31m')"
        long=$(printf %0250d 0); (for i in $(seq 20); do mkdir $long && cd $long; done; echo long > file)
    "#;
    inside(&instance, &format!("{IGNORE}; {script}"));
    let told = instance.run(["agent", "sync", "box", "--artifacts", "--json"]).ok().json();
    let mut found = found(&instance.work().join("build"));
    let long = |path: &[u8]| path.split(|byte| *byte == b'/').any(|name| name.len() == 250);
    let deepest = found.keys().filter(|path| long(path)).map(Vec::len).max().unwrap();
    assert!(deepest < 4096, "{deepest}");
    found.retain(|path, _| !long(path));
    let plain = |mode: &str| format!("{mode} 1 honest\n");
    let expected = [
        ("dir", "directory".to_owned()),
        ("dir/up", "link ../plain".into()),
        ("hard", plain("644")),
        ("near", "link plain".into()),
        ("plain", plain("644")),
        ("repo", "directory".into()),
        ("run", plain("755")),
        ("setuid", plain("755")),
    ];
    let mut expected: BTreeMap<Vec<u8>, String> =
        expected.into_iter().map(|(path, what)| (path.as_bytes().to_vec(), what)).collect();
    expected.insert(b"odd\xff\n\x1b[31m".to_vec(), "644 1 honest".into());
    assert_eq!(found, expected);
    let told = told["artifacts"][0]["left_out"].to_string();
    for left in
        ["above", "away", "config", "fifo", "socket", "repo/.git/hooks", ".GIT", "longer than a program"]
    {
        assert!(told.contains(left), "{left} is not told: {told}");
    }
    assert_eq!(git(&instance, "status --porcelain"), "?? notes");
    // The control: all of it is there inside, as it was made.
    let control = inside(
        &instance,
        "cd build && cat away | head -c 4 && find . -links 2 -type f | wc -l && find . -type p | wc -l && cat repo/.git/hooks/post-checkout",
    );
    assert_eq!(control, "root2\n1\nevil\n");
}

#[test]
fn a_file_of_a_terabyte_without_content_fills_nothing() {
    requires!(bwrap, git);
    let instance = repository();
    inside(
        &instance,
        &format!("{IGNORE}; mkdir build && echo honest > build/a && truncate -s 1T build/sparse"),
    );
    let size = 1u64 << 40;
    for command in [vec!["agent", "sync", "box", "--artifacts"], vec!["cp", "box:build", "."]] {
        let refused = instance.run(&command);
        assert_eq!(refused.code, 1, "{}", refused.stderr);
        let what = format!("error: build/sparse has {size} bytes, and ");
        assert!(refused.stderr.contains(&what), "{}", refused.stderr);
        assert!(refused.stderr.contains("raise copy.max_size"), "{}", refused.stderr);
        assert_eq!(std::fs::read_to_string(instance.work().join("build/a")).unwrap(), "honest\n");
        assert!(!instance.work().join("build/sparse").exists());
    }
    // The control: inside it is a file as any other.
    assert_eq!(inside(&instance, "stat -c %s build/sparse"), format!("{size}\n"));
    std::fs::create_dir_all(instance.user_config().parent().unwrap()).unwrap();
    std::fs::write(instance.user_config(), "[copy]\nmax_files = 1\n").unwrap();
    let refused = instance.run(["agent", "sync", "box", "--artifacts"]);
    assert!(refused.stderr.contains("raise copy.max_files"), "{}", refused.stderr);
}

/// The agent swaps a directory for a link while it is listed and read.
#[test]
fn a_directory_that_becomes_a_link_inside_brings_nothing_it_leads_to() {
    requires!(bwrap, git);
    let instance = repository();
    inside(
        &instance,
        &format!("{IGNORE}; mkdir -p build/dir && echo honest > build/dir/passwd && ln -s /etc build/swap"),
    );
    let swap = "import ctypes\nlibc = ctypes.CDLL(None)\nwhile True: libc.renameat2(-100, b'build/dir', -100, b'build/swap', 2)";
    instance.run(["agent", "exec", "box", "--session", "swap", "--detach", "--", "python3", "-c", swap]).ok();
    eventually("the control: a plain read is led astray", || {
        inside(&instance, "cat build/dir/passwd build/swap/passwd || true").contains("root:")
    });
    for _ in 0..12 {
        instance.run(["agent", "sync", "box", "--artifacts"]).ok();
        let found = found(&instance.work().join("build"));
        let honest = |path: &[u8], what: &str| match path {
            b"dir" | b"swap" => what == "directory",
            b"dir/passwd" | b"swap/passwd" => what.ends_with(" honest\n"),
            _ => false,
        };
        assert!(found.iter().all(|(path, what)| honest(path, what)), "{found:?}");
    }
}

/// Somebody swaps a directory of the host for a link while it is written to.
#[test]
fn a_directory_that_becomes_a_link_on_the_host_is_not_written_through() {
    requires!(bwrap, git);
    let instance = repository();
    let outside = instance.home().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let (build, link) = (instance.work().join("build"), instance.home().join("link"));
    inside(&instance, IGNORE);
    std::fs::create_dir(&build).unwrap();
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(CWD, &build, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        // Also when an assertion fails, or the other would go on for ever.
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _end = End(&ended);
        for round in 0..6 {
            inside(
                &instance,
                &format!("mkdir -p build && for i in $(seq 40); do echo {round} > build/$i; done"),
            );
            instance.run(["agent", "sync", "box", "--artifacts"]).ok();
            assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
        }
    });
    // The control: a plain write goes where the link leads.
    let link = if build.is_symlink() { build } else { link };
    std::fs::write(link.join("hit"), "").unwrap();
    assert!(outside.join("hit").exists());
}

#[test]
fn what_runs_by_itself_among_artifacts_is_told() {
    requires!(bwrap, git);
    let instance: Instance = repository();
    inside(&instance, &format!("{IGNORE}; mkdir -p build/.vscode && echo '{{}}' > build/.vscode/tasks.json"));
    let told = instance.run(["agent", "sync", "box", "--artifacts"]).ok().stderr;
    let expected = "warning: main: 1 of the changed files run by themselves; look at them first\n  \
                    build/.vscode/tasks.json may run when an editor opens the directory\n";
    assert!(told.ends_with(expected), "{told}");
}
