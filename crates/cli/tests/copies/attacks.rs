//! A copy that was made to do harm when it is laid, and a directory that was prepared for it.

use crate::support::{Scene, mode, tree};
use palisade_testing::requires;
use std::os::unix::fs::symlink;

#[test]
fn a_link_in_the_directory_leads_no_change_out_of_it() {
    requires!(bwrap);
    let scene = Scene::bwrap();
    let outside = scene.instance.work().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("below"), "outside\n").unwrap();
    scene.inside("echo theirs > sub/deep/below; echo theirs > sub/deep/new; chmod 700 sub/deep; echo theirs > file").ok();
    // Another sandbox, or any program that may write the directory, puts links there.
    std::fs::rename(scene.project.join("sub/deep"), scene.instance.work().join("away")).unwrap();
    symlink(&outside, scene.project.join("sub/deep")).unwrap();
    std::fs::remove_file(scene.project.join("file")).unwrap();
    symlink(outside.join("below"), scene.project.join("file")).unwrap();
    // The control: by its path, the file outside is what is written.
    let control = scene.project.join("sub/deep/control");
    std::fs::write(&control, "x").unwrap();
    assert!(outside.join("control").exists());
    std::fs::remove_file(control).unwrap();
    let before = tree(&outside);
    let outcome = scene.apply(&[]);
    assert_eq!(outcome.code, 7, "{outcome:?}");
    assert!(
        outcome.stderr.contains("sub/deep/new: a symbolic link or a file stands where its directory was"),
        "{}",
        outcome.stderr
    );
    assert_eq!(tree(&outside), before);
    assert!(scene.project.join("file").is_symlink(), "what the user has put there stays");
}

#[test]
fn nested_repositories_are_never_laid_and_what_runs_by_itself_is_named_first() {
    requires!(bwrap);
    let scene = Scene::bwrap();
    // One that was there before.
    std::fs::create_dir_all(scene.project.join("old/.git/hooks")).unwrap();
    std::fs::write(scene.project.join("old/.git/config"), "mine\n").unwrap();
    let script = r#"echo '[core] fsmonitor = touch /tmp/x' > old/.git/config; echo x > old/.git/hooks/post-checkout
        mkdir -p n/.git b/objects b/refs; echo x > n/.git/config; echo ref > b/HEAD; ln -s /etc/passwd out
        echo touch > .envrc; echo '{"scripts":{"postinstall":"x"}}' > package.json; echo '{}' > sub/package.json"#;
    scene.inside(script).ok();
    let outcome = scene.apply(&[]).ok();
    let named = [
        ".envrc runs when you enter the directory",
        "package.json runs when packages are installed",
        "out is a link that leads out of the repository",
        "git would run what these name: b/HEAD, n/.git, n/.git/config, old/.git/config, old/.git/hooks/post-checkout",
    ];
    let laid = outcome.stderr.find("changes laid in").unwrap();
    for line in named {
        assert!(outcome.stderr.find(line).is_some_and(|at| at < laid), "{line}: {}", outcome.stderr);
    }
    assert!(!outcome.stderr.contains("sub/package.json"), "{}", outcome.stderr);
    assert_eq!(scene.read("old/.git/config"), "mine\n");
    for path in ["n/.git", "b/HEAD", "old/.git/hooks/post-checkout"] {
        assert!(!scene.project.join(path).exists(), "{path}");
    }
    assert_eq!((scene.read(".envrc"), scene.read("sub/package.json")), ("touch\n".into(), "{}\n".into()));
    assert_eq!(scene.copies()[0]["changes"], 5, "they stay in the copy");
}

#[test]
fn names_and_files_of_every_kind_do_no_harm() {
    requires!(bwrap);
    let scene = Scene::bwrap();
    let script = r#"printf x > "$(printf 'a\033[2Jb\nc')"; printf x > "$(printf 'bytes\377')"; printf x > '-rf'
        mkfifo pipe; rm script; mkfifo script; chmod 4755 file || true; mkdir closed; echo x > closed/x; chmod 0 closed"#;
    let outcome = scene.inside(script).ok();
    assert!(!outcome.stderr.contains('\u{1b}'), "{}", outcome.stderr);
    let planned = scene.apply(&["--dry-run"]).ok();
    assert!(
        planned.stdout.contains(r"added a\u{1b}[2Jb\nc") || planned.stdout.contains(r"a\u{1b}[2Jb\u{a}c"),
        "{}",
        planned.stdout
    );
    assert!(!planned.stderr.contains('\u{1b}') && !planned.stdout.contains('\u{1b}'));
    assert!(
        planned.stderr.contains("pipe stays in the copy: it is a device, a pipe or a socket"),
        "{}",
        planned.stderr
    );
    scene.apply(&[]).ok();
    assert!(scene.project.join("a\u{1b}[2Jb\nc").exists() && scene.project.join("-rf").exists());
    use std::os::unix::ffi::OsStrExt;
    assert!(scene.project.join(std::ffi::OsStr::from_bytes(b"bytes\xff")).exists());
    assert!(!scene.project.join("pipe").exists());
    assert_eq!(scene.read("script"), "#!/bin/sh\n", "a pipe in its place is no deletion");
    assert_eq!(mode(&scene.project.join("file")) & 0o7000, 0, "nothing is laid that runs as another user");
}

#[test]
fn the_sandbox_sees_nothing_of_the_state_directory_but_its_copy() {
    requires!(bwrap);
    let listing = |method: &'static str| {
        let scene = Scene::new(method);
        let state = scene.instance.state();
        scene.inside(&format!("ls -a .. {0} {0}/copies || true", state.display())).ok().stdout
    };
    let seen = listing("bwrap");
    assert!(!seen.contains("manifest.json") && !seen.contains("copies"), "{seen}");
    // The control: without isolation, the same script finds both.
    let control = listing("noop");
    assert!(control.contains("manifest.json") && control.contains("copies"), "{control}");
    // No other part of it can be bound.
    let scene = Scene::bwrap();
    let mount = format!("{}:/state:ro", scene.instance.state().display());
    let bound = scene.instance.run(["run", "--mount", &mount, "--", "ls", "/state"]);
    assert_ne!(bound.code, 0, "{bound:?}");
    assert!(bound.stderr.contains("Palisade's own state"), "{}", bound.stderr);
    // Nor copied, with a directory above it.
    let above = format!("{}:copy", scene.instance.work().parent().unwrap().display());
    let copied = scene.instance.run(["run", "-w", &above, "--", "true"]);
    assert_ne!(copied.code, 0, "{copied:?}");
    assert!(copied.stderr.contains("Palisade's own state"), "{}", copied.stderr);
}
