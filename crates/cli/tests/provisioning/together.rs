//! Twenty sandboxes of one project at once share nothing, and leave nothing.

use crate::scenarios::wellness;
use crate::support::{MARK, Project, fetch, left_of};
use palisade_testing::requires;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

const COUNT: usize = 20;

/// Starts a command for each feature, and gives what each said, with its code.
fn all_at_once(project: &Project, verb: &str) -> Vec<(i32, String)> {
    let start = |index: usize| {
        let mut command = project.command(&project.root(), [verb, &format!("f{index}/M1")]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<Child> = (0..COUNT).map(start).collect();
    let ended = children.into_iter().map(|child| child.wait_with_output().unwrap());
    ended
        .map(|output| {
            let said = [output.stdout, output.stderr].concat();
            (output.status.code().unwrap_or(-1), String::from_utf8(said).unwrap())
        })
        .collect()
}

/// Whether any process of this machine has the secret in its command line.
fn in_a_command_line() -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.any(|line| holds(&line))
}

fn holds(bytes: &[u8]) -> bool {
    bytes.windows(MARK.len()).any(|window| window == MARK.as_bytes())
}

/// The files below a directory that hold the secret.
fn holding(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(path) = pending.pop() {
        if path.is_dir() && !path.is_symlink() {
            pending.extend(std::fs::read_dir(path).unwrap().flatten().map(|entry| entry.path()));
        } else if path.exists() && std::fs::read(&path).is_ok_and(|bytes| holds(&bytes))
            || holds(path.as_os_str().as_bytes())
        {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn heavy_twenty_sandboxes_at_once_share_nothing_and_leave_nothing() {
    requires!(docker, compose, git);
    let project = wellness();
    let over = AtomicBool::new(false);
    let (begun, seen) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut seen = false;
            while !over.load(Ordering::Relaxed) && !seen {
                seen = in_a_command_line();
            }
            seen
        });
        let begun = all_at_once(&project, "impl");
        over.store(true, Ordering::Relaxed);
        (begun, watch.join().unwrap())
    });
    for (code, said) in &begun {
        assert_eq!(*code, 0, "{said}");
        assert!(!said.contains(MARK), "{said}");
    }
    assert!(!seen, "the secret was in a command line");

    let slots = project.run(["slots", "--json"]).ok().json();
    let slots = slots.as_array().unwrap();
    let distinct = |key: &str| slots.iter().map(|slot| slot[key].to_string()).collect::<BTreeSet<_>>().len();
    assert_eq!(slots.len(), COUNT);
    for key in ["slot", "compose_project", "ports", "worktree", "branch", "directory"] {
        assert_eq!(distinct(key), COUNT, "{key}");
    }
    for slot in slots {
        let port = slot["ports"]["WELLNESS_AGENT_WELLNESS_AGENT_PORT"].as_u64().unwrap();
        assert_eq!(fetch(u16::try_from(port).unwrap(), "/api/v1/health"), "mine\n");
        let secrets = Path::new(slot["directory"].as_str().unwrap()).join(".env.secrets");
        assert_eq!(std::fs::metadata(secrets).unwrap().permissions().mode() & 0o777, 0o600);
    }
    // The secret is in the slots' own files, and in the stand-in that gave it.
    let work = project.instance.work();
    assert_eq!(holding(&work), Vec::<PathBuf>::new());
    let home = project.instance.home();
    let expected: BTreeSet<PathBuf> = slots
        .iter()
        .map(|slot| Path::new(slot["directory"].as_str().unwrap()).join(".env.secrets"))
        .chain([home.join("programs/canary")])
        .collect();
    assert_eq!(holding(&home).into_iter().collect::<BTreeSet<_>>(), expected);
    assert_eq!(holding(&project.instance.state()), Vec::<PathBuf>::new());

    let stacks = project.stacks();
    for (code, said) in all_at_once(&project, "done") {
        assert_eq!(code, 0, "{said}");
    }
    for stack in stacks {
        assert_eq!(left_of(&stack), [""; 0]);
    }
    assert_eq!(project.taken(), [""; 0]);
    let left: Vec<_> = std::fs::read_dir(&work).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["khealth"]);
    assert_eq!(project.git("git worktree list | wc -l"), "1");
    assert_eq!(project.git("git branch --list 'impl/*' | wc -l"), COUNT.to_string());
    for port in project.base..project.base + 40 {
        assert!(std::net::TcpListener::bind(("0.0.0.0", port)).is_ok(), "{port} is in use");
    }
}
