use super::judge::{self, Change, change, require_users_change};
use super::writers::{Writer, Writers, written};
use palisade_core::{BoundPath, HostPath, PathIdentity, Policy, SandboxId};
use palisade_host::bound_path::{FoundPath, find};
use std::os::unix::fs::symlink;

/// A directory `project` that a sandbox could write, and one beside it that it could not.
struct Place {
    _root: tempfile::TempDir,
    root: HostPath,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let real = HostPath::new(root.path().canonicalize().unwrap()).unwrap();
        for name in ["project/sub", "secret"] {
            std::fs::create_dir_all(real.join(name)).unwrap();
        }
        Self { _root: root, root: real }
    }

    fn path(&self, name: &str) -> HostPath {
        self.root.join(name)
    }

    fn found(&self, name: &str) -> FoundPath {
        find(&self.path(name), 100).unwrap()
    }

    fn replace_by_link(&self, name: &str, target: &str) {
        std::fs::rename(self.path(name), self.path(&format!("{name}.moved"))).unwrap();
        symlink(self.path(target), self.path(name)).unwrap();
    }

    fn replace_by_directory(&self, name: &str) {
        std::fs::rename(self.path(name), self.path(&format!("{name}.moved"))).unwrap();
        std::fs::create_dir(self.path(name)).unwrap();
    }

    fn writer(&self, until: Option<i64>) -> Vec<Writer> {
        vec![Writer { path: self.path("project"), until }]
    }
}

fn is_refused(old: &BoundPath, found: &FoundPath, writers: &[Writer]) -> bool {
    let change = change(old, found);
    assert_ne!(change, Change::None);
    require_users_change(old, found, change, writers).is_err()
}

#[test]
fn what_a_sandbox_could_have_moved_is_refused_and_what_it_could_not_is_the_users() {
    let place = Place::new();
    let old = place.found("project/sub").bound;
    assert_eq!(change(&old, &place.found("project/sub")), Change::None);
    place.replace_by_link("project/sub", "secret");
    let found = place.found("project/sub");
    // While it runs, and when it ended after the record was made.
    assert!(is_refused(&old, &found, &place.writer(None)));
    assert!(is_refused(&old, &found, &place.writer(Some(100))));
    // It had ended before, or there was none.
    assert!(!is_refused(&old, &found, &place.writer(Some(99))));
    assert!(!is_refused(&old, &found, &[]));
}

#[test]
fn another_directory_at_the_same_path_counts_as_a_change() {
    let place = Place::new();
    let old = place.found("project/sub").bound;
    place.replace_by_directory("project/sub");
    assert!(is_refused(&old, &place.found("project/sub"), &place.writer(None)));
    assert!(!is_refused(&old, &place.found("project/sub"), &[]));
}

#[test]
fn the_bound_directory_itself_cannot_be_moved_from_inside() {
    let place = Place::new();
    let old = place.found("project").bound;
    place.replace_by_directory("project");
    assert!(!is_refused(&old, &place.found("project"), &place.writer(None)));
}

#[test]
fn a_directory_above_is_known_whatever_its_name() {
    let place = Place::new();
    symlink(place.path("project"), place.path("alias")).unwrap();
    let old = place.found("alias/sub").bound;
    assert_eq!(old.real, place.path("project/sub"));
    place.replace_by_link("project/sub", "secret");
    assert!(is_refused(&old, &place.found("alias/sub"), &place.writer(None)));
}

#[test]
fn without_handles_a_restart_of_the_machine_asks_only_where_a_sandbox_could_write() {
    let place = Place::new();
    let mut old = place.found("project/sub").bound;
    old.identity = PathIdentity::Inode { device: 1, inode: 2, boot: "another".into() };
    let found = place.found("project/sub");
    assert_eq!(change(&old, &found), Change::Unknown);
    assert!(is_refused(&old, &found, &place.writer(None)));
    assert!(!is_refused(&old, &found, &[]));
}

fn trusted(found: &FoundPath, writers: &[Writer]) -> Result<(), crate::EngineError> {
    judge::require_trusted_links(&found.bound.given, &found.bound.real, &found.links, writers)
}

#[test]
fn a_link_that_a_sandbox_could_have_made_leads_out_of_its_directory_for_nobody() {
    let place = Place::new();
    place.replace_by_link("project/sub", "secret");
    let refused = trusted(&place.found("project/sub"), &place.writer(Some(1)));
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("lies where a sandbox could write"), "{message}");
    // The control: without a sandbox it is the user's own link.
    trusted(&place.found("project/sub"), &[]).unwrap();
    // It may lead to what the sandbox could write anyway.
    symlink(place.path("project/sub.moved"), place.path("project/inner")).unwrap();
    trusted(&place.found("project/inner"), &place.writer(Some(1))).unwrap();
}

#[test]
fn what_could_be_written_is_known_while_it_runs_and_after_it_ended() {
    let place = Place::new();
    let writers = Writers::new(&place.path("state"));
    let id = SandboxId::from_random([1; 15]);
    assert_eq!(writers.list(), []);
    let writing = writers.begin(&id, vec![place.path("project")]).unwrap();
    assert_eq!(writers.list(), place.writer(None));
    // Another one that fails at once does not end the first.
    drop(writers.begin(&SandboxId::from_random([2; 15]), vec![place.path("project")]).unwrap());
    assert!(writers.list().contains(&place.writer(None)[0]));
    drop(writing);
    let ended = writers.list();
    assert!(
        matches!(&ended[..], [Writer { path, until: Some(_) }] if *path == place.path("project")),
        "{ended:?}"
    );
}

#[test]
fn what_a_killed_process_could_write_counts_as_of_now() {
    let place = Place::new();
    let writers = Writers::new(&place.path("state"));
    let id = SandboxId::from_random([1; 15]);
    std::mem::forget(writers.begin(&id, vec![place.path("project")]).unwrap());
    let file = place.path("state").join("writing").join(id.as_str());
    let text = std::fs::read_to_string(&file).unwrap();
    let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
    record["process"]["boot"] = "another".into();
    std::fs::write(&file, record.to_string()).unwrap();
    assert!(matches!(&writers.list()[..], [Writer { until: Some(_), .. }]));
    assert!(!file.as_path().exists());
}

#[test]
fn only_writable_paths_are_written_and_under_their_real_names() {
    let place = Place::new();
    symlink(place.path("project"), place.path("alias")).unwrap();
    let mut policy = Policy::default();
    for mount in ["alias:/a", "secret:/b:ro"] {
        let text = format!("{}", place.path(mount));
        policy.mounts.push(palisade_core::policy::parse_mount(&text).unwrap());
    }
    let paths: Vec<BoundPath> = ["alias", "secret"].map(|name| place.found(name).bound).to_vec();
    assert_eq!(written(&policy, &paths), [place.path("project")]);
}
