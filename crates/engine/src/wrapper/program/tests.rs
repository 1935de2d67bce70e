//! Installations as they are found on real machines, made of empty files.

use super::*;
use palisade_core::policy::parse_mount;
use std::os::unix::fs::{PermissionsExt, symlink};

/// A host with a home, in which programs are installed. All below one directory without links in its path.
struct Scene {
    root: tempfile::TempDir,
    policy: Policy,
}

impl Scene {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("home/u")).unwrap();
        Self { root, policy: Policy::default() }
    }

    fn path(&self, relative: &str) -> PathBuf {
        std::fs::canonicalize(self.root.path()).unwrap().join(relative)
    }

    fn file(&self, relative: &str, text: &str) -> PathBuf {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    fn link(&self, relative: &str, target: impl AsRef<Path>) -> PathBuf {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, &path).unwrap();
        path
    }

    fn reach(&self, word: impl AsRef<OsStr>) -> Result<Reach, WrapperError> {
        let state = HostPath::new(self.path("home/u/.local/state/palisade")).unwrap();
        let (here, home) = (self.path("work"), self.path("home/u"));
        let search_path = [self.path("home/u/.local/bin"), "/usr/bin".into()];
        let host = Host { search_path: &search_path, here: &here, home: Some(&home), state: &state };
        reach(word.as_ref(), Method::Bwrap, &self.policy, &host)
    }

    /// What starts it inside, what is shown, and where interpreters are looked for.
    #[track_caller]
    fn assert(&self, word: impl AsRef<OsStr>, program: &Path, show: &[PathBuf], search: &[PathBuf]) {
        let reach = self.reach(word).unwrap();
        let shown: Vec<PathBuf> = reach.show.into_iter().map(PathBuf::from).collect();
        let searched: Vec<PathBuf> = reach.search.iter().map(PathBuf::from).collect();
        assert_eq!(
            (Path::new(&reach.program), shown.as_slice(), searched.as_slice()),
            (program, show, search)
        );
    }
}

#[test]
fn a_program_of_the_system_needs_nothing() {
    let scene = Scene::new();
    let sh = std::fs::canonicalize("/bin").unwrap().join("sh");
    scene.assert("/bin/sh", &sh, &[], &[]);
    scene.assert("env", Path::new("/usr/bin/env"), &[], &[]);
}

#[test]
fn a_package_of_node_is_shown_with_the_modules_beside_it() {
    let scene = Scene::new();
    scene.file("home/u/tools/node_modules/@a/agent/cli.js", "#!/usr/bin/env sh\n");
    let called = scene.link("home/u/tools/node_modules/.bin/agent", "../@a/agent/cli.js");
    scene.assert(&called, &called, &[scene.path("home/u/tools/node_modules")], &[]);
    // Nested ones are inside the outermost.
    let nested = scene.file("home/u/tools/node_modules/x/node_modules/y/cli.js", "");
    scene.assert(&nested, &nested, &[scene.path("home/u/tools/node_modules")], &[]);
}

#[test]
fn a_global_package_is_started_by_its_own_path_since_the_link_to_it_is_not_shown() {
    let scene = Scene::new();
    let file = scene.file("home/u/.npm-global/lib/node_modules/agent/cli.js", "#!/usr/bin/env sh\n");
    let called = scene.link("home/u/.npm-global/bin/agent", "../lib/node_modules/agent/cli.js");
    scene.assert(called, &file, &[scene.path("home/u/.npm-global/lib/node_modules")], &[]);
}

#[test]
fn an_interpreter_outside_the_system_comes_along_and_is_found_by_name() {
    let scene = Scene::new();
    let node = scene.file("home/u/.nvm/v20/bin/node-of-test", "\x7fELF");
    scene.link("home/u/.local/bin/node-of-test", &node);
    let file = scene.file("home/u/tools/node_modules/agent/cli.js", "#!/usr/bin/env node-of-test\n");
    let local = scene.path("home/u/.local/bin");
    scene.assert(
        &file,
        &file,
        &[scene.path("home/u/tools/node_modules"), local.join("node-of-test")],
        &[local],
    );
}

#[test]
fn a_python_environment_is_shown_whole_with_a_python_that_is_not_the_systems() {
    let scene = Scene::new();
    scene.file("home/u/venv/pyvenv.cfg", "");
    scene.file("home/u/share/uv/cpython/lib/python3.12/os.py", "");
    let python = scene.file("home/u/share/uv/cpython/bin/python3.12", "\x7fELF");
    let link = scene.link("home/u/venv/bin/python", python);
    let file = scene.file("home/u/venv/bin/agent", &format!("#!{}\n", link.display()));
    let shown = [scene.path("home/u/venv"), scene.path("home/u/share/uv/cpython")];
    scene.assert(&file, &file, &shown, &[]);
    // As pipx does it: a link from a directory that is not shown.
    let called = scene.link("home/u/.local/bin/agent", &file);
    scene.assert(&called, &file, &shown, &[]);
    scene.assert("agent", &file, &shown, &[]);
}

#[test]
fn a_single_file_is_shown_alone_under_the_name_it_is_called_by() {
    let scene = Scene::new();
    let file = scene.file("home/u/.local/share/agent/versions/2.1", "\x7fELF");
    scene.assert(&file, &file, std::slice::from_ref(&file), &[]);
    let called = scene.link("home/u/.local/bin/agent", &file);
    scene.assert("agent", &called, std::slice::from_ref(&called), &[]);
}

#[test]
fn a_file_of_the_workspace_is_called_there() {
    let mut scene = Scene::new();
    scene.file("work/scripts/agent", "#!/bin/sh\n");
    let host = HostPath::new(scene.path("work")).unwrap();
    scene.policy.workspace = Workspace::Bound { host, access: palisade_core::Access::ReadWrite };
    scene.assert("./scripts/agent", Path::new("/workspace/scripts/agent"), &[], &[]);
}

#[test]
fn what_would_show_the_home_is_refused_with_what_to_add() {
    let scene = Scene::new();
    scene.file("home/u/package.json", "{}");
    let file = scene.file("home/u/agent.js", "#!/usr/bin/env sh\n");
    let error = scene.reach(&file).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "'{}' cannot be reached from inside: it is installed in {}, which holds your whole home directory",
            file.display(),
            scene.path("home/u").display()
        )
    );
    scene.file("home/u/.local/pyvenv.cfg", "");
    let file = scene.file("home/u/.local/bin/agent", "#!/bin/sh\n");
    assert!(scene.reach(&file).unwrap_err().to_string().contains("may hold more than programs"));
}

#[test]
fn a_mount_or_a_tool_of_the_users_own_always_works() {
    let mut scene = Scene::new();
    scene.file("home/u/package.json", "{}");
    let file = scene.file("home/u/agent.js", "#!/usr/bin/env sh\n");
    let home = scene.path("home/u");
    scene.policy.mounts.push(parse_mount(&format!("{}:/agent:ro", home.display())).unwrap());
    scene.assert("/agent/agent.js", Path::new("/agent/agent.js"), &[], &[]);
    assert!(matches!(scene.reach("/agent/other.js"), Err(WrapperError::NoProgram(_))));
    scene.policy.tools.push(HostPath::new(&home).unwrap());
    scene.assert(&file, &file, &[], &[]);
}

#[test]
fn without_a_file_system_of_its_own_the_path_is_enough() {
    let scene = Scene::new();
    let file = scene.file("home/u/agent", "");
    let state = HostPath::new(scene.path("state")).unwrap();
    let here = scene.path("home/u");
    let host = Host { search_path: &[], here: &here, home: Some(&here), state: &state };
    let reached = reach("./agent".as_ref(), Method::Noop, &scene.policy, &host).unwrap();
    assert_eq!(std::fs::canonicalize(&reached.program).unwrap(), file);
    assert_eq!(reached.show, Vec::<HostPath>::new());
}

#[test]
fn what_is_no_program_is_told() {
    let scene = Scene::new();
    let file = scene.file("work/text", "");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    scene.link("work/loop", "loop");
    for (word, told) in [
        ("no-such-program", "there is no program 'no-such-program'"),
        ("./no\x1bsuch", "there is no program './no\\u{1b}such'"),
        ("", "there is no program ''"),
        ("./loop", "there is no program './loop'"),
        ("./text", "'./text' is no program that can be executed"),
        ("/usr/bin", "'/usr/bin' is no program that can be executed"),
    ] {
        assert_eq!(scene.reach(word).unwrap_err().to_string(), told);
    }
}
