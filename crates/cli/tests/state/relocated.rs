//! A state directory that was moved is followed; one that was copied becomes an installation of its own.

use palisade_testing::{Instance, Outcome, is_root, requires};
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// An instance's commands with its state directory at another place.
struct Elsewhere<'a> {
    instance: &'a Instance,
    base: PathBuf,
}

impl<'a> Elsewhere<'a> {
    fn of(instance: &'a Instance, name: &str) -> Self {
        Self { instance, base: instance.home().join(name) }
    }

    fn state(&self) -> PathBuf {
        self.base.join("palisade")
    }

    fn owner(&self) -> String {
        fs::read_to_string(self.state().join("instance")).unwrap()
    }

    fn command<A: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.instance.command(words);
        command.env("XDG_STATE_HOME", &self.base);
        command
    }

    #[track_caller]
    fn run<A: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = A>) -> Outcome {
        Instance::finish(&mut self.command(words))
    }

    fn states(&self) -> Vec<(String, String)> {
        states(&self.run(["ls", "--json"]).ok())
    }
}

/// The name and state of every sandbox, sorted.
fn states(listed: &Outcome) -> Vec<(String, String)> {
    let rows = listed.json();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let mut rows: Vec<(String, String)> =
        rows.as_array().unwrap().iter().map(|row| (text(&row["name"]), text(&row["state"]))).collect();
    rows.sort();
    rows
}

fn pair(name: &str, state: &str) -> (String, String) {
    (name.to_owned(), state.to_owned())
}

/// As `cp -a` does it.
fn copy(from: &PathBuf, to: &PathBuf) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    let copied = Command::new("cp").arg("-a").args([from, to]).output().unwrap();
    assert!(copied.status.success(), "{copied:?}");
}

/// One sandbox runs with a session at work, one does not.
fn furnished(method: &'static str) -> Instance {
    let instance = Instance::with_method(method);
    instance.run(["create", "idle"]).ok();
    instance.started("busy");
    instance.run(["exec", "--session", "s", "--detach", "busy", "--", "sleep", "1000"]).ok();
    instance.shell("busy", "echo work > work").ok();
    instance
}

#[test]
fn a_state_directory_that_was_moved_is_followed_also_by_what_runs_and_by_wrappers() {
    requires!(bwrap);
    let instance = furnished("bwrap");
    let owner = instance.owner();
    let script = instance.work().join("agent");
    fs::create_dir(instance.work().join("project")).unwrap();
    let wrap = ["wrap", "-w", "project", "--keep-home", "--output", "agent", "--", "sh", "-c"];
    instance.run(wrap.into_iter().chain(["cat $HOME/kept; echo again > $HOME/kept"])).ok();
    Command::new(&script).output().unwrap();

    let moved = Elsewhere::of(&instance, "moved");
    fs::create_dir(&moved.base).unwrap();
    fs::rename(instance.state(), moved.state()).unwrap();
    let told = moved.run(["ls"]).ok().stderr;
    assert_eq!(
        told,
        format!("warning: the state directory was moved here from {}\n", instance.state().display())
    );
    assert_eq!(moved.run(["ls"]).ok().stderr, "", "it is told once");
    assert_eq!(moved.owner(), owner, "it is the same installation");
    assert_eq!(moved.states(), [pair("busy", "running"), pair("idle", "created")]);

    let wrapped = Command::new(&script).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&wrapped.stdout), "again\n", "{wrapped:?}");
    assert_eq!(moved.run(["exec", "busy", "--", "cat", "work"]).ok().stdout, "work\n");
    assert_eq!(moved.run(["gc", "--json"]).ok().stdout, "[]\n");
    moved.run(["exec", "--session", "other", "--detach", "busy", "--", "true"]).ok();
    moved.run(["stop", "busy"]).ok();
    assert_eq!(moved.states()[0], pair("busy", "stopped"));
    let sessions = moved.run(["sessions", "busy", "--json"]).ok().json();
    assert_eq!(
        sessions.as_array().unwrap().len(),
        2,
        "the keeper wrote them down at the new place: {sessions}"
    );
    let left = fs::read_dir(moved.state().join("leases")).unwrap().count();
    assert_eq!(left, 0, "and took its lease from there");

    moved.run(["start", "busy"]).ok();
    assert_eq!(moved.run(["exec", "busy", "--", "cat", "work"]).ok().stdout, "work\n");
    moved.run(["wrap", "--rm", "agent"]).ok();
    assert!(!script.exists());
    moved.run(["rm", "--force", "busy", "idle"]).ok();
    let directories = fs::read_dir(moved.state().join("sandboxes")).unwrap().count();
    assert_eq!(directories, 0, "what rm says is gone is gone");
    assert!(!instance.state().exists(), "nothing was made at the old place");
}

#[test]
fn a_state_directory_whose_original_is_gone_was_moved() {
    requires!(bwrap);
    let instance = furnished("bwrap");
    let owner = instance.owner();
    instance.run(["stop", "busy"]).ok();
    let moved = Elsewhere::of(&instance, "moved");
    copy(&instance.state(), &moved.state());
    fs::remove_dir_all(instance.state()).unwrap();
    assert_eq!(moved.states(), [pair("busy", "stopped"), pair("idle", "created")]);
    assert_eq!(moved.owner(), owner);
    moved.run(["start", "busy"]).ok();
    assert_eq!(moved.run(["exec", "busy", "--", "cat", "work"]).ok().stdout, "work\n");
    moved.run(["rm", "--force", "busy", "idle"]).ok();
}

#[test]
fn a_link_to_the_state_directory_is_the_same_place() {
    requires!(noop);
    let instance = Instance::with_method("noop");
    instance.run(["create", "web"]).ok();
    let linked = Elsewhere::of(&instance, "linked");
    fs::create_dir(&linked.base).unwrap();
    std::os::unix::fs::symlink(instance.state(), linked.state()).unwrap();
    assert_eq!(linked.run(["ls"]).ok().stderr, "");
    // Also the other way round: the directory is moved, and the old name leads to it.
    let moved = Elsewhere::of(&instance, "moved");
    fs::create_dir(&moved.base).unwrap();
    fs::rename(instance.state(), moved.state()).unwrap();
    std::os::unix::fs::symlink(moved.state(), instance.state()).unwrap();
    for _ in 0..2 {
        assert_eq!(moved.run(["ls"]).ok().stderr, "");
        assert_eq!(instance.run(["ls"]).ok().stderr, "");
    }
}

/// Whatever is done with the copy, the original's sandboxes run on.
fn a_copy_leaves_the_original_alone(method: &'static str) {
    let instance = furnished(method);
    let owner = instance.owner();
    fs::create_dir(instance.work().join("project")).unwrap();
    let wrap = ["wrap", "-w", "project", "--output", "agent", "--", "echo", "wrapped"];
    instance.run(wrap).ok();
    let copied = Elsewhere::of(&instance, "copied");
    copy(&instance.state(), &copied.state());
    let told = copied.run(["ls"]).ok().stderr;
    let original = instance.state().display().to_string();
    let expected = format!(
        "warning: this state directory is a copy of {original}; it is an installation of its own from now on\n"
    );
    assert_eq!(told, expected);
    assert_eq!(copied.run(["ls"]).ok().stderr, "", "it is told once");
    assert_eq!((instance.owner(), copied.owner() == owner), (owner.clone(), false));
    assert_eq!(copied.states(), [pair("busy", "stopped"), pair("idle", "created")]);

    assert_eq!(copied.run(["gc", "--json"]).ok().stdout, "[]\n");
    assert_eq!(copied.run(["stop", "busy"]).ok().stderr, "busy is not running\n");
    copied.run(["start", "busy"]).ok();
    assert_eq!(copied.run(["exec", "busy", "--", "cat", "work"]).ok().stdout, "work\n");
    copied.run(["exec", "busy", "--", "sh", "-c", "echo other > work"]).ok();
    copied.run(["wrap", "--rm", &copied_wrapper(&copied)]).ok();
    copied.run(["rm", "--force", "busy", "idle"]).ok();
    assert_eq!(copied.run(["gc", "--json"]).ok().stdout, "[]\n");

    assert_eq!(
        states(&instance.run(["ls", "--json"]).ok()),
        [pair("busy", "running"), pair("idle", "created")]
    );
    let sessions = instance.run(["sessions", "busy", "--json"]).ok().json();
    assert_eq!((&sessions[0]["name"], &sessions[0]["state"]), (&"s".into(), &"running".into()));
    assert_eq!(instance.shell("busy", "cat work").ok().stdout, "work\n");
    let wrapped = Command::new(instance.work().join("agent")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&wrapped.stdout), "wrapped\n", "{wrapped:?}");
    instance.run(["wrap", "--rm", "agent"]).ok();
}

/// The wrapper of the copy stands in the copy.
fn copied_wrapper(copied: &Elsewhere<'_>) -> String {
    let listed = copied.run(["wrap", "--ls", "--json"]).ok().json();
    let path = listed[0]["path"].as_str().unwrap().to_owned();
    assert!(path.starts_with(copied.state().to_str().unwrap()), "{path}");
    let run = Instance::finish(Command::new(&path).env_clear().env("PATH", "/usr/bin:/bin"));
    assert_eq!(run.ok().stdout, "wrapped\n");
    path
}

#[test]
fn a_copy_gets_an_identity_of_its_own_and_leaves_the_originals_sandboxes_alone() {
    requires!(bwrap);
    a_copy_leaves_the_original_alone("bwrap");
}

#[test]
fn a_copy_leaves_the_originals_processes_alone_also_without_isolation() {
    requires!(noop);
    a_copy_leaves_the_original_alone("noop");
}

#[test]
fn a_copy_that_is_interrupted_while_it_gets_an_identity_gets_one_later() {
    requires!(noop);
    for step in ["copy.detached", "copy.named"] {
        let instance = Instance::with_method("noop");
        instance.run(["create", "web"]).ok();
        let copied = Elsewhere::of(&instance, "copied");
        copy(&instance.state(), &copied.state());
        let plan = format!("kill:{step}@{}", instance.home().join("marker").display());
        let killed = Instance::finish(copied.command(["ls"]).env("PALISADE_FAULT", plan));
        assert_eq!(killed.code, -9, "{killed:?}");
        let told = copied.run(["ls"]).ok();
        assert!(told.stderr.contains("is a copy of"), "{step}: {}", told.stderr);
        assert_eq!(copied.states(), [pair("web", "created")]);
        assert_ne!(copied.owner(), instance.owner());
        copied.run(["rm", "web"]).ok();
        assert_eq!(states(&instance.run(["ls", "--json"]).ok()), [pair("web", "created")]);
    }
}

#[test]
fn an_original_that_cannot_be_looked_at_is_taken_to_be_there() {
    requires!(noop);
    if is_root() {
        // Nothing is closed to root.
        return;
    }
    let instance = Instance::with_method("noop");
    instance.run(["create", "web"]).ok();
    let copied = Elsewhere::of(&instance, "copied");
    copy(&instance.state(), &copied.state());
    let above = instance.state().parent().unwrap().to_owned();
    let mode =
        |mode| fs::set_permissions(&above, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    mode(0o000);
    let told = copied.run(["ls"]);
    mode(0o755);
    assert!(told.ok().stderr.contains("is a copy of"));
    copied.run(["rm", "web"]).ok();
}

#[test]
fn an_instance_file_with_another_id_is_not_believed() {
    requires!(bwrap);
    let instance = furnished("bwrap");
    let owner = instance.owner();
    let file = instance.state().join("instance");
    let other =
        if owner.starts_with('a') { owner.replacen('a', "b", 1) } else { format!("a{}", &owner[1..]) };
    for without_place in [false, true] {
        fs::write(&file, &other).unwrap();
        if without_place {
            // As an installation of an earlier version has it.
            fs::remove_file(instance.state().join("place.json")).unwrap();
        }
        let told = instance.run(["run", "--", "true"]).ok().stderr;
        assert!(told.contains("held the id of another installation and was set aside"), "{told}");
        assert_eq!(instance.owner(), owner);
    }
    fs::remove_file(&file).unwrap();
    assert_eq!(instance.run(["run", "--", "true"]).ok().stderr, "");
    assert_eq!(instance.owner(), owner);
    assert_eq!(instance.run(["gc", "--json"]).ok().stdout, "[]\n");
    assert_eq!(instance.shell("busy", "cat work").ok().stdout, "work\n");
}
