use super::*;
use std::os::unix::fs::symlink;

fn host(path: &Path) -> HostPath {
    HostPath::new(path).unwrap()
}

fn repository() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for directory in [".git/objects/info", ".git/hooks", ".git/info", ".git/refs"] {
        std::fs::create_dir_all(root.path().join(directory)).unwrap();
    }
    std::fs::write(root.path().join(".git/config"), "[core]\n").unwrap();
    root
}

fn describe(plan: &FencePlan) -> Vec<String> {
    let mode = |access: &Access| if *access == Access::ReadOnly { "ro" } else { "rw" };
    plan.binds.iter().map(|(path, access)| format!("{} {}", mode(access), path.display())).collect()
}

/// Git data of its own for some working trees, and paths that are closed.
fn private(root: &Path, trees: &[&str], read_only: &[(&str, WhenAbsent)]) -> PrivateGit {
    PrivateGit {
        directory: host(root),
        binds: Vec::new(),
        trees: trees.iter().map(PathBuf::from).collect(),
        read_only: read_only
            .iter()
            .map(|(path, when_absent)| ReadOnlyPath { path: path.into(), when_absent: *when_absent })
            .collect(),
        git_when_absent: WhenAbsent::File,
        notice: None,
        sharing: Sharing::WithHost,
        nested: None,
    }
}

#[test]
fn git_data_that_the_sandbox_has_no_own_for_is_read_only() {
    let root = repository();
    let plan = survey(&host(root.path()), None).unwrap();
    assert_eq!(describe(&plan), ["ro .git"]);
    assert_eq!(plan.placeholders, []);
    let own = private(root.path(), &[""], &[]);
    assert_eq!(survey(&host(root.path()), Some(&own)).unwrap(), FencePlan::default());
}

#[test]
fn a_directory_without_a_repository_cannot_become_one() {
    let root = tempfile::tempdir().unwrap();
    let plan = survey(&host(root.path()), None).unwrap();
    assert_eq!(describe(&plan), ["ro .git"]);
    assert_eq!(plan.placeholders, [Placeholder::file(".git", NOWHERE)]);
    // What the sandbox has of its own is mounted over what stands there.
    let own = private(root.path(), &[""], &[]);
    let plan = survey(&host(root.path()), Some(&own)).unwrap();
    assert_eq!(describe(&plan), [""; 0]);
    assert_eq!(plan.placeholders, [Placeholder::file(".git", NOWHERE)]);
    let passed_by = PrivateGit { git_when_absent: WhenAbsent::Directory, ..own };
    let plan = survey(&host(root.path()), Some(&passed_by)).unwrap();
    assert_eq!(plan.placeholders, [Placeholder::directory(".git")]);
}

#[test]
fn other_repositories_below_are_read_only_and_the_way_to_them_is_pinned() {
    let root = repository();
    std::fs::create_dir_all(root.path().join("a/b/.git")).unwrap();
    std::fs::create_dir_all(root.path().join("lib/sub")).unwrap();
    std::fs::write(root.path().join("lib/sub/.git"), "gitdir: ../../.git/modules/sub").unwrap();
    let own = private(root.path(), &["", "lib/sub"], &[]);
    let plan = survey(&host(root.path()), Some(&own)).unwrap();
    assert_eq!(describe(&plan), ["rw a", "rw lib", "rw a/b", "rw lib/sub", "ro a/b/.git"]);
}

#[test]
fn more_repositories_than_can_be_closed_are_refused() {
    let root = repository();
    for number in 0..=nested::MOST {
        std::fs::create_dir_all(root.path().join(format!("r{number}/.git"))).unwrap();
    }
    let error = survey(&host(root.path()), None).unwrap_err().to_string();
    assert!(error.contains("more than 64"), "{error}");
}

#[test]
fn what_settings_name_is_closed_and_stood_in_for() {
    let root = repository();
    std::fs::create_dir_all(root.path().join("tools/hooks")).unwrap();
    let named = [
        ("tools/hooks", WhenAbsent::Directory),
        (".gitconfig", WhenAbsent::File),
        ("none", WhenAbsent::Directory),
    ];
    let own = private(root.path(), &[""], &named);
    let plan = survey(&host(root.path()), Some(&own)).unwrap();
    assert_eq!(describe(&plan), ["rw tools", "ro .gitconfig", "ro none", "ro tools/hooks"]);
    assert_eq!(plan.placeholders, [Placeholder::file(".gitconfig", ""), Placeholder::directory("none")]);
    let whole = private(root.path(), &[""], &[("", WhenAbsent::Directory)]);
    let error = survey(&host(root.path()), Some(&whole)).unwrap_err().to_string();
    assert!(error.contains("core.hooksPath"), "{error}");
}

#[test]
fn links_in_any_protected_place_are_refused() {
    for place in [".git", "hooks"] {
        let root = repository();
        let path = root.path().join(place);
        let _ = std::fs::remove_dir_all(&path);
        symlink("/etc", &path).unwrap();
        let own = private(root.path(), &[""], &[("hooks", WhenAbsent::Directory)]);
        let error = survey(&host(root.path()), Some(&own)).unwrap_err();
        assert!(matches!(error, BackendError::HostDirectory { .. }), "{place}: {error}");
    }
}

/// A directory that is closed as no repository, and the journal of that.
fn closed(root: &Path, state: &Path) -> Option<Journal> {
    let plan = survey(&host(root), None).unwrap();
    Journal::begin(&host(&state.join("fences")), "x", &host(root), plan.placeholders).unwrap()
}

#[test]
fn placeholders_come_and_go_and_leave_the_tree_as_it_was() {
    let (root, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(root.path().join("file"), "").unwrap();
    let before = tree(root.path());
    let journal = closed(root.path(), state.path()).unwrap();
    assert_eq!(std::fs::read_to_string(root.path().join(".git")).unwrap(), NOWHERE);
    journal.end();
    assert_eq!(tree(root.path()), before);
    assert_eq!(tree(&state.path().join("fences")), Vec::<String>::new());
}

#[test]
fn what_a_user_put_in_the_place_of_a_placeholder_stays() {
    let (root, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let journal = closed(root.path(), state.path()).unwrap();
    std::fs::write(root.path().join(".git"), "gitdir: /mine\n").unwrap();
    journal.end();
    assert!(root.path().join(".git").is_file());
}

#[test]
fn the_file_that_stops_git_stays_where_a_repository_was_planted() {
    let (root, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let policy = Policy {
        workspace: palisade_core::Workspace::Bound { host: host(root.path()), access: Access::ReadWrite },
        ..Policy::default()
    };
    let journal = closed(root.path(), state.path()).unwrap();
    // As git accepts it, and a look for files and directories does not.
    symlink("nowhere", root.path().join("HEAD")).unwrap();
    for name in ["objects", "refs"] {
        std::fs::write(root.path().join(name), "").unwrap();
    }
    journal.end();
    assert!(root.path().join(".git").is_file());
    assert_eq!(still_closed(&policy).len(), 1);
    std::fs::remove_file(root.path().join("HEAD")).unwrap();
    assert_eq!(still_closed(&policy), Vec::<String>::new());
}

#[test]
fn the_entry_of_a_living_process_is_left_alone() {
    let (root, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let _journal = closed(root.path(), state.path()).unwrap();
    assert_eq!(Journal::sweep(&host(&state.path().join("fences")), false), Vec::<String>::new());
    assert!(root.path().join(".git").exists());
}

#[test]
fn a_repository_without_a_working_tree_is_refused() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("objects")).unwrap();
    std::fs::create_dir(root.path().join("refs")).unwrap();
    std::fs::write(root.path().join("HEAD"), "ref: refs/heads/main\n").unwrap();
    let bare = survey(&host(root.path()), None).unwrap_err().to_string();
    assert!(bare.contains("HEAD"), "{bare}");
}

fn tree(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            found.push(entry.path().display().to_string());
            if entry.file_type().unwrap().is_dir() {
                pending.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_file_that_could_be_written_by_another_name_is_refused() {
    let root = repository();
    std::fs::write(root.path().join("watch.sh"), "").unwrap();
    let own = private(root.path(), &[""], &[("watch.sh", WhenAbsent::Program)]);
    survey(&host(root.path()), Some(&own)).unwrap();
    std::fs::hard_link(root.path().join("watch.sh"), root.path().join("other")).unwrap();
    let refused = survey(&host(root.path()), Some(&own)).unwrap_err().to_string();
    assert!(refused.contains("watch.sh has another name"), "{refused}");
}

#[test]
fn a_program_that_is_absent_is_stood_in_for_by_one_that_fails() {
    let root = repository();
    let own = private(root.path(), &[""], &[("tools/clean", WhenAbsent::Program)]);
    let plan = survey(&host(root.path()), Some(&own)).unwrap();
    assert_eq!(describe(&plan), ["rw tools", "ro tools/clean"]);
    assert_eq!(
        plan.placeholders,
        [Placeholder::directory("tools"), Placeholder::file("tools/clean", "exit 1\n")]
    );
}
