use super::*;
use rustix::fs::Mode;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

struct Scene {
    _home: tempfile::TempDir,
    main: HostPath,
    worktree: HostPath,
}

fn scene() -> Scene {
    let home = tempfile::tempdir().unwrap();
    let place = |name: &str| {
        let path = HostPath::new(home.path().canonicalize().unwrap().join(name)).unwrap();
        fs::create_dir(&path).unwrap();
        path
    };
    let (main, worktree) = (place("main"), place("worktree"));
    Scene { _home: home, main, worktree }
}

impl Scene {
    fn copy(&self, files: &[(&str, &str)], before: &Digests, changed: Changed) -> Result<Told, Vec<String>> {
        let files: Vec<DeclaredFile> = files.iter().map(|(to, from)| file(to, from)).collect();
        let told = |failures: Vec<FileFailure>| {
            let failures = failures.into_iter().map(|it| format!("{}: {}", it.file.destination, it.cause));
            failures
                .map(|text| text.replace(self.main.as_path().parent().unwrap().to_str().unwrap(), ""))
                .collect()
        };
        copy(&files, &self.main, &self.worktree, before, changed).map_err(told)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.worktree.join(path)).unwrap()
    }
}

type Told = (Vec<CopyOutcome>, Digests);

fn file(destination: &str, source: &str) -> DeclaredFile {
    let path = |text| ProjectPath::new(text).unwrap();
    DeclaredFile { destination: path(destination), source: path(source) }
}

#[test]
fn files_are_copied_with_their_permissions_and_directories_made() {
    let scene = scene();
    fs::create_dir(scene.main.join("bin")).unwrap();
    fs::write(scene.main.join("bin/tool"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(scene.main.join("bin/tool"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::write(scene.main.join(".env.example"), "A=1\n").unwrap();
    let files = [("deep/er/tool", "bin/tool"), (".env", ".env.example")];
    let (outcomes, digests) = scene.copy(&files, &Digests::new(), Changed::Keep).unwrap();
    assert_eq!((outcomes, digests.len()), (vec![CopyOutcome::Copied; 2], 2));
    assert_eq!((scene.read("deep/er/tool"), scene.read(".env")), ("#!/bin/sh\n".into(), "A=1\n".into()));
    let mode = fs::metadata(scene.worktree.join("deep/er/tool")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o750);
}

#[test]
fn what_nobody_changed_is_brought_up_to_date_and_what_somebody_did_is_kept() {
    let scene = scene();
    let files = [("a", "a"), ("b", "b")];
    for name in ["a", "b"] {
        fs::write(scene.main.join(name), "one").unwrap();
    }
    let (_, laid) = scene.copy(&files, &Digests::new(), Changed::Keep).unwrap();
    assert_eq!(scene.copy(&files, &laid, Changed::Keep).unwrap().0, [CopyOutcome::Same; 2]);
    fs::write(scene.worktree.join("b"), "mine").unwrap();
    for name in ["a", "b"] {
        fs::write(scene.main.join(name), "two").unwrap();
    }
    let (outcomes, laid) = scene.copy(&files, &laid, Changed::Keep).unwrap();
    assert_eq!(outcomes, [CopyOutcome::Copied, CopyOutcome::Kept]);
    assert_eq!((scene.read("a"), scene.read("b")), ("two".into(), "mine".into()));
    assert_eq!(
        scene.copy(&files, &laid, Changed::Replace).unwrap().0,
        [CopyOutcome::Same, CopyOutcome::Copied]
    );
    assert_eq!(scene.read("b"), "two");
}

#[test]
fn every_source_that_cannot_be_had_is_told_and_nothing_is_copied() {
    let scene = scene();
    fs::write(scene.main.join("good"), "x").unwrap();
    fs::write(scene.main.join("config.example.yaml"), "x").unwrap();
    fs::create_dir(scene.main.join("directory")).unwrap();
    symlink("/etc/hostname", scene.main.join("link")).unwrap();
    symlink("/etc", scene.main.join("linked")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, scene.main.join("pipe").as_path(), Mode::RWXU).unwrap();
    let names = ["good", "config.yaml", "directory", "link", "linked/hostname", "pipe"];
    let files: Vec<(&str, &str)> = names.iter().map(|name| (*name, *name)).collect();
    let refused = "is a symbolic link, or leads through one, which is not followed";
    assert_eq!(
        scene.copy(&files, &Digests::new(), Changed::Keep).unwrap_err(),
        [
            "config.yaml: source not found at /main/config.yaml".to_owned(),
            "directory: /main/directory is not a regular file".into(),
            format!("link: /main/link {refused}"),
            format!("linked/hostname: /main/linked/hostname {refused}"),
            "pipe: /main/pipe is not a regular file".into(),
        ]
    );
    assert!(!scene.worktree.join("good").as_path().exists());
    let missing = source(&scene.main, &ProjectPath::new("config.yaml").unwrap()).unwrap_err();
    let example = Some(ProjectPath::new("config.example.yaml").unwrap());
    assert_eq!(missing, FileFailureCause::NotFound { path: scene.main.join("config.yaml"), example });
}

#[test]
fn a_link_in_the_worktree_leads_nowhere() {
    let scene = scene();
    let outside = scene.main.join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(scene.main.join("a"), "x").unwrap();
    symlink(outside.as_path(), scene.worktree.join("dir")).unwrap();
    symlink(outside.join("file").as_path(), scene.worktree.join("file")).unwrap();
    for destination in ["dir/a", "file"] {
        let told = scene.copy(&[(destination, "a")], &Digests::new(), Changed::Replace).unwrap_err();
        assert!(told[0].contains("is a symbolic link, or leads through one"), "{told:?}");
    }
    // A control: a plain copy would have followed them.
    fs::copy(scene.main.join("a"), scene.worktree.join("dir/a")).unwrap();
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}
