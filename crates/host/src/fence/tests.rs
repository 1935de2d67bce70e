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

#[test]
fn a_repository_keeps_what_git_obeys_read_only_and_the_way_to_it_pinned() {
    let root = repository();
    let plan = survey(&host(root.path()), &[]).unwrap();
    assert_eq!(
        describe(&plan),
        [
            "rw .git",
            "ro .git/config",
            "ro .git/config.worktree",
            "ro .git/commondir",
            "ro .git/hooks",
            "ro .git/info",
            "ro .git/modules",
            "ro .git/worktrees",
            "rw .git/objects",
            "rw .git/objects/info",
            "ro .git/objects/info/alternates",
        ]
    );
    let absent: Vec<&Path> = plan.placeholders.iter().map(|placeholder| placeholder.path.as_path()).collect();
    assert_eq!(
        absent,
        [
            ".git/config.worktree",
            ".git/commondir",
            ".git/modules",
            ".git/worktrees",
            ".git/objects/info/alternates"
        ]
        .map(Path::new)
    );
}

#[test]
fn a_directory_without_a_repository_cannot_become_one() {
    let root = tempfile::tempdir().unwrap();
    let plan = survey(&host(root.path()), &[]).unwrap();
    assert_eq!(describe(&plan), ["ro .git"]);
    assert_eq!(plan.placeholders, [Placeholder::directory(".git")]);
}

#[test]
fn hooks_and_includes_of_the_work_tree_are_closed_too() {
    let root = repository();
    let config = "[core]\n hooksPath = tools/hooks\n[include]\n path = ../.gitconfig\n";
    std::fs::write(root.path().join(".git/config"), config).unwrap();
    std::fs::create_dir_all(root.path().join("tools/hooks")).unwrap();
    std::fs::write(root.path().join(".gitconfig"), "").unwrap();
    let lines = describe(&survey(&host(root.path()), &[]).unwrap());
    assert!(
        lines.ends_with(&["rw tools".into(), "ro tools/hooks".into(), "ro .gitconfig".into()]),
        "{lines:?}"
    );
}

#[test]
fn hooks_that_the_users_own_configuration_names_are_closed_too() {
    let (root, home) = (repository(), tempfile::tempdir().unwrap());
    std::fs::create_dir(root.path().join(".githooks")).unwrap();
    let config = home.path().join(".gitconfig");
    std::fs::write(&config, "[core]\n hooksPath = .githooks\n").unwrap();
    let lines = describe(&survey(&host(root.path()), &[config]).unwrap());
    assert_eq!(lines.last().unwrap(), "ro .githooks");
}

#[test]
fn a_worktree_closes_the_hooks_that_its_repository_names() {
    let (root, main) = (tempfile::tempdir().unwrap(), repository());
    let private = main.path().join(".git/worktrees/w");
    std::fs::create_dir_all(&private).unwrap();
    std::fs::write(private.join("commondir"), "../..\n").unwrap();
    std::fs::write(main.path().join(".git/config"), "[core]\nhooksPath=.husky/_\n").unwrap();
    std::fs::write(root.path().join(".git"), format!("gitdir: {}\n", private.display())).unwrap();
    std::fs::create_dir_all(root.path().join(".husky/_")).unwrap();
    assert_eq!(describe(&survey(&host(root.path()), &[]).unwrap()), ["ro .git", "ro .husky"]);
}

#[test]
fn husky_is_closed_with_the_scripts_it_calls() {
    let root = repository();
    std::fs::write(root.path().join(".git/config"), "[core]\nhooksPath=.husky/_\n").unwrap();
    std::fs::create_dir_all(root.path().join(".husky/_")).unwrap();
    let lines = describe(&survey(&host(root.path()), &[]).unwrap());
    assert_eq!(lines.last().unwrap(), "ro .husky");
}

#[test]
fn links_in_any_protected_place_are_refused() {
    for place in [".git", ".git/hooks", ".git/config", ".git/objects", ".git/objects/info/alternates"] {
        let root = repository();
        let path = root.path().join(place);
        let _ = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path));
        symlink("/etc", &path).unwrap();
        let error = survey(&host(root.path()), &[]).unwrap_err();
        assert!(matches!(error, BackendError::HostDirectory { .. }), "{place}: {error}");
    }
}

#[test]
fn placeholders_come_and_go_and_leave_the_tree_as_it_was() {
    let (root, state) = (repository(), tempfile::tempdir().unwrap());
    let before = tree(root.path());
    let journals = host(&state.path().join("fences"));
    let plan = survey(&host(root.path()), &[]).unwrap();
    let journal = Journal::begin(&journals, "x", &host(root.path()), plan.placeholders).unwrap().unwrap();
    assert_eq!(std::fs::read_to_string(root.path().join(".git/commondir")).unwrap(), ".\n");
    journal.end();
    assert_eq!(tree(root.path()), before);
    assert_eq!(tree(&state.path().join("fences")), Vec::<String>::new());
}

#[test]
fn what_a_user_put_into_a_placeholder_stays() {
    let (root, state) = (repository(), tempfile::tempdir().unwrap());
    let plan = survey(&host(root.path()), &[]).unwrap();
    let journals = host(&state.path().join("fences"));
    let journal = Journal::begin(&journals, "x", &host(root.path()), plan.placeholders).unwrap().unwrap();
    std::fs::create_dir(root.path().join(".git/worktrees/mine")).unwrap();
    std::fs::write(root.path().join(".git/config.worktree"), "[user]\n").unwrap();
    journal.end();
    assert!(root.path().join(".git/worktrees/mine").is_dir());
    assert!(root.path().join(".git/config.worktree").is_file());
    assert!(!root.path().join(".git/commondir").exists());
}

#[test]
fn the_entry_of_a_living_process_is_left_alone() {
    let (root, state) = (repository(), tempfile::tempdir().unwrap());
    let journals = host(&state.path().join("fences"));
    let plan = survey(&host(root.path()), &[]).unwrap();
    let _journal = Journal::begin(&journals, "x", &host(root.path()), plan.placeholders).unwrap().unwrap();
    assert_eq!(Journal::sweep(&journals, false), Vec::<String>::new());
    assert!(root.path().join(".git/commondir").exists());
}

#[test]
fn paths_that_configuration_names_are_closed_however_they_are_written() {
    let place = tempfile::tempdir().unwrap();
    let real = std::fs::canonicalize(place.path()).unwrap();
    let root = real.join("home/me/repo");
    std::fs::create_dir_all(root.join(".git")).unwrap();
    std::os::unix::fs::symlink(&root, real.join("alias")).unwrap();
    std::fs::create_dir(root.join("through-a-link")).unwrap();
    std::fs::write(root.join("included"), "[core]\nhooksPath = from-an-included-file\n").unwrap();
    let text = format!(
        "[user]\nname = Ren\u{e9}\n[core]\nhooksPath = ~/repo/from-home\nhooksPath = .git/own-hooks\n\
         hooksPath = {}/through-a-link\nhooksPath =\n[include]\npath = ../included\npath = beside\n",
        real.join("alias").display()
    );
    // In another encoding than ours, as old configurations are.
    let bytes: Vec<u8> = text.chars().map(|c| c as u8).collect();
    std::fs::write(root.join(".git/config"), bytes).unwrap();
    let plan = survey(&host(&root), &[]).unwrap();
    for closed in
        ["from-home", ".git/own-hooks", "through-a-link", "included", "from-an-included-file", ".git/beside"]
    {
        assert!(plan.binds.contains(&(closed.into(), Access::ReadOnly)), "{closed}: {:?}", plan.binds);
    }
}

#[test]
fn a_repository_where_the_fence_does_not_reach_is_refused() {
    let refused = |make: &dyn Fn(&Path)| {
        let place = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(place.path()).unwrap();
        make(&root);
        survey(&host(&root), &[]).unwrap_err().to_string()
    };
    let pointer = refused(&|root| std::fs::write(root.join(".git"), "gitdir: real.git\n").unwrap());
    assert!(pointer.contains("real.git"), "{pointer}");
    let bare = refused(&|root| {
        std::fs::create_dir(root.join("objects")).unwrap();
        std::fs::create_dir(root.join("refs")).unwrap();
        std::fs::write(root.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    });
    assert!(bare.contains("HEAD"), "{bare}");
    let whole = refused(&|root| {
        std::fs::create_dir(root.join(".git")).unwrap();
        std::fs::write(root.join(".git/config"), "[core]\nhooksPath = .\n").unwrap();
    });
    assert!(whole.contains("core.hooksPath"), "{whole}");
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
