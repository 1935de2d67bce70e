//! What others on the machine can see of a state directory: nothing; and whose files are in it.

use palisade_testing::{Instance, is_root, palisade_binary, requires};
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::Command;

/// The files that are open to others, or to the group. What a sandbox has written itself is its own business.
fn exposed(directory: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let meta = entry.metadata().unwrap();
        let path = entry.path();
        let kind = meta.file_type();
        let is_own_place = ["home", "workspace"].iter().any(|name| path.ends_with(name));
        if kind.is_symlink() {
            continue;
        }
        let allowed = if kind.is_dir() { 0o700 } else { 0o600 };
        // A wrapper's script is run by its user.
        let is_script = path.components().any(|part| part.as_os_str() == "bin");
        let allowed = if is_script { 0o700 } else { allowed };
        if meta.mode() & 0o777 & !allowed != 0 {
            found.push(format!("{} {:o}", path.display(), meta.mode() & 0o7777));
        }
        if kind.is_dir() && !is_own_place {
            exposed(&path, found);
        }
    }
}

/// With a umask that takes nothing away.
fn openly(instance: &Instance, words: &[&str]) {
    let surroundings = instance.command(["--version"]);
    let mut command = Command::new("sh");
    command.args(["-c", "umask 000; exec \"$@\"", "sh"]).arg(palisade_binary()).args(words).env_clear();
    command.envs(surroundings.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Instance::finish(command.current_dir(instance.work())).ok();
}

fn a_busy_state_is_its_owners_alone(method: &'static str) {
    let instance = Instance::with_method(method);
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(instance.work()).args(["-c", "user.name=Ada", "-c", "user.email=a@example.org"]);
        assert!(command.args(words).env("HOME", instance.home()).status().unwrap().success(), "{words:?}");
    };
    fs::remove_dir_all(instance.state()).ok();
    git(&["init", "--quiet", "--initial-branch=main", "."]);
    git(&["commit", "--quiet", "--allow-empty", "-m", "first"]);
    fs::create_dir(instance.work().join("bound")).unwrap();
    instance.give(&instance.work().join("bound"));
    openly(&instance, &["doctor"]);
    openly(&instance, &["run", "-w", "bound", "--", "true"]);
    openly(&instance, &["create", "--start", "box", "--allow", "example.org"]);
    openly(&instance, &["exec", "box", "--session", "s", "--detach", "--", "sleep", "1000"]);
    openly(&instance, &["wrap", "-w", "bound", "--keep-home", "--output", "../wrapped", "--", "true"]);
    openly(&instance, &["agent", "start", ".", "--agent", "shell", "--name", "worker", "--detach"]);
    openly(&instance, &["agent", "sync", "worker"]);
    openly(&instance, &["stop", "box"]);
    openly(&instance, &["start", "box"]);
    openly(&instance, &["create", "gone"]);
    openly(&instance, &["rm", "gone"]);
    openly(&instance, &["gc"]);
    let mut found = Vec::new();
    exposed(&instance.state(), &mut found);
    // Another user's git reads it inside.
    found.retain(|line| !line.contains("/objects/"));
    assert_eq!(fs::metadata(instance.state()).unwrap().mode() & 0o777, 0o700);
    assert_eq!(found, [""; 0]);
    openly(&instance, &["wrap", "--rm", "../wrapped"]);
    openly(&instance, &["rm", "--force", "box", "worker"]);
}

#[test]
fn a_busy_state_of_bwrap_is_its_owners_alone() {
    requires!(bwrap, git);
    a_busy_state_is_its_owners_alone("bwrap");
}

#[test]
fn root_does_not_work_in_a_users_state() {
    requires!(noop);
    if !is_root() {
        // Only root could.
        return;
    }
    const USER: u32 = 54321;
    let instance = Instance::with_method("noop");
    let base = instance.state().parent().unwrap().to_owned();
    chown(&base, Some(USER), Some(USER)).unwrap();
    // There is no state yet, and sudo says whose home this is.
    let told = |sudo: Option<u32>| {
        let mut command = instance.command(["create", "box"]);
        Instance::finish(command.envs(sudo.map(|uid| ("SUDO_UID", uid.to_string()))))
    };
    let refused = told(Some(USER));
    let message = format!(
        "error: the state directory {} belongs to uid {USER}, and this is root\n",
        instance.state().display()
    );
    assert!(refused.code == 3 && refused.stderr.starts_with(&message), "{refused:?}");
    assert!(!instance.state().exists());
    // In a container, root's home may be anybody's.
    told(None).ok();
    assert_eq!(fs::metadata(instance.state()).unwrap().uid(), 0);
    // A state of the user's is refused, whoever called.
    chown(instance.state(), Some(USER), Some(USER)).unwrap();
    let before = fs::read_dir(instance.state()).unwrap().count();
    for words in [&["ls"][..], &["run", "--", "true"], &["gc"], &["rm", "box"]] {
        let refused = instance.run(words);
        assert!(refused.code == 3 && refused.stderr.starts_with(&message), "{words:?}: {refused:?}");
    }
    assert_eq!(fs::read_dir(instance.state()).unwrap().count(), before);
    chown(instance.state(), Some(0), Some(0)).unwrap();
    instance.run(["rm", "box"]).ok();
}

/// The files of a sandbox are its uid's, so a uid that two have is a hole between them.
#[test]
fn sandboxes_of_two_installations_of_roots_have_different_host_uids() {
    requires!(bwrap);
    if !is_root() {
        return;
    }
    let instances = [Instance::with_method("bwrap"), Instance::with_method("bwrap")];
    let uid = |instance: &Instance, name: &str| {
        instance.run(["create", name]).ok();
        instance.run(["inspect", name, "--json"]).ok().json()["host_uid"].as_u64().unwrap()
    };
    let mut uids = Vec::new();
    for name in ["one", "two"] {
        uids.extend(instances.iter().map(|instance| uid(instance, name)));
    }
    assert_eq!(uids[2], uids[0] + 1, "one after the other within an installation: {uids:?}");
    uids.sort_unstable();
    uids.dedup();
    assert_eq!(uids.len(), 4, "{uids:?}");
    for instance in &instances {
        instance.run(["rm", "one", "two"]).ok();
    }
}
