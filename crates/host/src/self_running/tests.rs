use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

/// A directory that a sandbox works in.
struct Scene {
    root: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn write(&self, path: &str, text: &str) -> &Self {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), text).unwrap();
        self
    }

    fn baseline(&self) -> Baseline {
        Baseline::take(&HostPath::new(self.root.path()).unwrap())
    }

    fn git(&self, arguments: &[&str]) -> bool {
        let mut command = std::process::Command::new("git");
        command.env_clear().env("PATH", "/usr/bin:/bin").args(["-c", "safe.directory=*", "-C"]);
        command.arg(self.root.path()).args(arguments).output().unwrap().status.success()
    }
}

/// Makes something of a directory that git takes for a repository.
type Layout = fn(&Scene);

/// The paths in a report; also when it is made from what was written down.
fn changed(baseline: &Baseline) -> Vec<String> {
    let paths = |baseline: &Baseline| -> Vec<String> {
        baseline.compare().changed.iter().map(|file| shown(&file.path)).collect()
    };
    let found = paths(baseline);
    let written = serde_json::to_vec(baseline).unwrap();
    assert_eq!(paths(&serde_json::from_slice(&written).unwrap()), found, "after a death it is the same");
    found
}

#[test]
fn only_what_runs_by_itself_and_is_new_or_changed_is_reported() {
    let scene = Scene::new();
    scene.write(".vscode/tasks.json", "{}").write("deep/.envrc", "").write("src/main.rs", "");
    let baseline = scene.baseline();
    assert_eq!(changed(&baseline), Vec::<String>::new());
    scene.write("src/other.rs", "").write("deep/.envrc", "x").write(".npmrc", "");
    scene.write(".vscode/launch.json", "{}");
    assert_eq!(changed(&baseline), ["deep/.envrc", ".vscode/launch.json", ".npmrc"]);
}

#[test]
fn a_file_that_was_changed_a_moment_before_is_not_reported_and_a_change_after_it_is() {
    for _ in 0..20 {
        let scene = Scene::new();
        scene.write(".envrc", "one");
        let baseline = scene.baseline();
        assert_eq!(changed(&baseline), Vec::<String>::new());
        scene.write(".envrc", "two");
        assert_eq!(changed(&baseline), [".envrc"]);
    }
}

#[test]
fn what_lies_in_a_directory_that_was_moved_is_reported_at_its_new_place() {
    let scene = Scene::new();
    scene.write("fixtures/sample/.envrc", "").write("fixtures/sample/repo/HEAD", "ref: refs/heads/main\n");
    fs::create_dir_all(scene.at("fixtures/sample/repo/objects")).unwrap();
    fs::create_dir_all(scene.at("fixtures/sample/repo/refs")).unwrap();
    let baseline = scene.baseline();
    fs::rename(scene.at("fixtures"), scene.at("docs")).unwrap();
    assert_eq!(changed(&baseline), ["docs/sample/repo", "docs/sample/.envrc"]);
    // Two that change places are both reported, though nothing below them has changed.
    let scene = Scene::new();
    scene.write("a/.envrc", "").write("b/.envrc", "");
    let baseline = scene.baseline();
    fs::rename(scene.at("a"), scene.at("c")).unwrap();
    fs::rename(scene.at("b"), scene.at("a")).unwrap();
    fs::rename(scene.at("c"), scene.at("b")).unwrap();
    assert_eq!(changed(&baseline), ["a/.envrc", "b/.envrc"]);
}

#[test]
fn everything_that_git_takes_for_a_repository_is_reported() {
    let layouts: [(&str, Layout); 4] = [
        ("plain", |scene| {
            scene.write("x/HEAD", "ref: refs/heads/main\n");
            fs::create_dir_all(scene.at("x/objects")).unwrap();
            fs::create_dir_all(scene.at("x/refs")).unwrap();
        }),
        ("files and a link that leads nowhere", |scene| {
            fs::create_dir(scene.at("x")).unwrap();
            symlink("refs/heads/none", scene.at("x/HEAD")).unwrap();
            for name in ["x/objects", "x/refs"] {
                scene.write(name, "");
                fs::set_permissions(scene.at(name), fs::Permissions::from_mode(0o755)).unwrap();
            }
        }),
        ("a common directory elsewhere", |scene| {
            scene.write("x/HEAD", "ref: refs/heads/main\n").write("x/commondir", "../data\n");
            fs::create_dir_all(scene.at("data/objects")).unwrap();
            fs::create_dir_all(scene.at("data/refs")).unwrap();
        }),
        ("a file that leads there", |scene| {
            scene.write("x/.git", "gitdir: ../data\n").write("data/HEAD", "ref: refs/heads/main\n");
            fs::create_dir_all(scene.at("data/objects")).unwrap();
            fs::create_dir_all(scene.at("data/refs")).unwrap();
        }),
    ];
    for (what, make) in layouts {
        let scene = Scene::new();
        let baseline = scene.baseline();
        make(&scene);
        // The control: git does take it for one.
        assert!(scene.git(&["-C", "x", "rev-parse", "--git-dir"]), "{what}");
        let found = changed(&baseline);
        assert!(found.iter().any(|path| path == "x" || path == "x/.git"), "{what}: {found:?}");
    }
    // The bound directory itself.
    let scene = Scene::new();
    let baseline = scene.baseline();
    scene.write("HEAD", "ref: refs/heads/main\n").write("objects/x", "").write("refs/x", "");
    assert_eq!(changed(&baseline), ["."]);
}

#[test]
fn a_repository_is_reported_when_something_in_it_that_names_programs_changes() {
    for (change, reported) in [
        ("sub/.git/config", true),
        ("sub/.git/hooks/post-checkout", true),
        ("sub/.git/info/attributes", true),
        ("sub/.git/modules/lib/config", true),
        ("sub/.git/modules/deep/lib/hooks/pre-push", true),
        ("sub/.git/sequencer/opts", true),
        ("sub/.git/objects/12/3456", false),
        ("sub/.git/refs/heads/topic", false),
        ("sub/.git/index", false),
        ("other/.hg/hgrc", true),
        ("other/.hg/store/00changelog.i", false),
        ("third/.jj/repo/config.toml", true),
    ] {
        let scene = Scene::new();
        for file in ["sub/.git/HEAD", "sub/.git/config", "sub/.git/modules/lib/HEAD", "other/.hg/requires"] {
            scene.write(file, "");
        }
        for directory in ["sub/.git/objects", "sub/.git/refs", "sub/.git/modules/deep/lib", "third/.jj/repo"]
        {
            fs::create_dir_all(scene.at(directory)).unwrap();
        }
        let baseline = scene.baseline();
        scene.write(change, "x");
        let repository = change.split_inclusive('/').take(2).collect::<String>();
        let expected = if reported { vec![repository.trim_end_matches('/').to_owned()] } else { Vec::new() };
        assert_eq!(changed(&baseline), expected, "{change}");
    }
}

#[test]
fn a_manifest_is_reported_when_it_has_scripts_that_run_at_an_installation() {
    let scene = Scene::new();
    let baseline = scene.baseline();
    let hostile = r#"{"scripts":{"postinstall":"x"}}"#;
    scene.write("package.json", r#"{"scripts":{"test":"jest"}}"#);
    scene.write("node_modules/a/package.json", hostile).write("packages/b/package.json", hostile);
    assert_eq!(changed(&baseline), ["packages/b/package.json"]);
    // One that is a pipe is not waited for.
    fs::remove_file(scene.at("package.json")).unwrap();
    let pipe = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
    rustix::fs::mknodat(rustix::fs::CWD, scene.at("package.json"), pipe.0, pipe.1, 0).unwrap();
    assert_eq!(changed(&baseline), ["package.json", "packages/b/package.json"]);
}

#[test]
fn links_in_the_repository_itself_are_reported() {
    let scene = Scene::new();
    scene.write(".git/HEAD", "ref: refs/heads/main\n").write(".git/logs/x", "");
    let baseline = scene.baseline();
    for link in [".git/COMMIT_EDITMSG", ".git/logs/HEAD"] {
        symlink("/nonexistent", scene.at(link)).unwrap();
    }
    assert_eq!(changed(&baseline), [".git/COMMIT_EDITMSG", ".git/logs/HEAD"]);
}

#[test]
fn what_cannot_be_listed_is_named() {
    let scene = Scene::new();
    let baseline = scene.baseline();
    // Longer than any path that the kernel takes, which also root cannot open.
    let mut directory = rustix::fs::open(scene.root.path(), walk_flags(), rustix::fs::Mode::empty()).unwrap();
    let name = "d".repeat(200);
    for _ in 0..25 {
        rustix::fs::mkdirat(&directory, name.as_str(), rustix::fs::Mode::RWXU).unwrap();
        directory =
            rustix::fs::openat(&directory, name.as_str(), walk_flags(), rustix::fs::Mode::empty()).unwrap();
    }
    scene.write("closed/.envrc", "");
    fs::set_permissions(scene.at("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let report = baseline.compare();
    let unread: Vec<&str> = report.unread.iter().map(|unread| unread.reason.as_str()).collect();
    let expected: &[&str] = match rustix::process::geteuid().is_root() {
        true => &["File name too long (os error 36)"],
        false => &["Permission denied (os error 13)", "File name too long (os error 36)"],
    };
    assert_eq!(unread, expected);
    let warnings = report.warnings(None);
    assert!(warnings.last().unwrap().contains("not looked at in"), "{warnings:?}");
    fs::set_permissions(scene.at("closed"), fs::Permissions::from_mode(0o700)).unwrap();
}

fn walk_flags() -> rustix::fs::OFlags {
    rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY
}

#[test]
fn no_find_is_lost_among_many() {
    let scene = Scene::new();
    let baseline = scene.baseline();
    for number in 0..50 {
        scene.write(&format!("packages/{number:02}/AGENTS.md"), "");
    }
    scene.write("zzz/.git/config", "");
    let report = baseline.compare();
    assert_eq!(report.changed.len(), 51);
    let warning = report.warnings(Some(Path::new("/state/reports/x.txt"))).remove(0);
    // A repository comes first, whatever its name.
    assert!(warning.contains("tools: zzz/.git (is a repository"), "{warning}");
    assert!(warning.ends_with(", and 31 more; see /state/reports/x.txt"), "{warning}");
    assert_eq!(report.render().lines().count(), 52);
    assert_eq!(report.warnings(None)[0].matches("AGENTS.md").count(), 50, "all, where there is no file");
}

#[test]
fn names_that_are_not_text_are_shown_and_written_down() {
    use std::os::unix::ffi::OsStrExt;
    let scene = Scene::new();
    let odd = std::ffi::OsStr::from_bytes(b"odd\xff\x1b[2J");
    fs::create_dir(scene.root.path().join(odd)).unwrap();
    fs::write(scene.root.path().join(odd).join(".envrc"), "").unwrap();
    let baseline = scene.baseline();
    assert_eq!(changed(&baseline), Vec::<String>::new());
    fs::write(scene.root.path().join(odd).join(".envrc"), "x").unwrap();
    let found = changed(&baseline);
    assert_eq!(found.len(), 1);
    assert!(!found[0].contains('\x1b'), "{found:?}");
}
