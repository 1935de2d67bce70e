//! A project that a sandbox may write, with directories in it that others are shown, and a secret outside.

use palisade_testing::{Instance, Outcome};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) const SECRET: &str = "the secret outside";
pub(crate) const OWN: &str = "the project's own";

pub(crate) struct Scene {
    pub(crate) instance: Instance,
    outside: tempfile::TempDir,
}

impl Scene {
    /// Everything is readable to everybody, so that nothing but the identity of the path protects the secret.
    pub(crate) fn new(method: &'static str) -> Self {
        let instance = Instance::with_method(method);
        let outside = tempfile::Builder::new().prefix("pt-outside-").tempdir_in("/tmp").unwrap();
        std::fs::create_dir(outside.path().join("below")).unwrap();
        for directory in [outside.path(), &outside.path().join("below")] {
            std::fs::write(directory.join("file"), SECRET).unwrap();
            open_to_all(directory);
        }
        for directory in ["project/sub/below", "project/bin"] {
            std::fs::create_dir_all(instance.work().join(directory)).unwrap();
        }
        for directory in ["project/sub", "project/sub/below"] {
            std::fs::write(instance.work().join(directory).join("file"), OWN).unwrap();
        }
        instance.give(&instance.work().join("project"));
        // Docker's containers run as another user than the one who made these.
        for directory in ["", "project", "project/sub", "project/sub/below", "project/bin"] {
            open_to_all(&instance.work().join(directory));
        }
        open_to_all(instance.work().parent().unwrap());
        Self { instance, outside }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.instance.work().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn outside(&self) -> &Path {
        self.outside.path()
    }

    /// A sandbox replaces a directory of the project by a link to the secret.
    #[track_caller]
    pub(crate) fn plant_link(&self, name: &str) {
        let script = format!("mv {name} gone && ln -s {} {name}", self.outside().display());
        self.in_project(&script);
        assert!(self.path("project").join(name).is_symlink());
    }

    #[track_caller]
    pub(crate) fn in_project(&self, script: &str) {
        self.instance.run(["run", "-w", "project", "--", "sh", "-c", script]).ok();
    }

    /// The attack where nothing protects: the path is followed when it is used, as `mount` and engines do.
    #[track_caller]
    pub(crate) fn assert_control_leaks(&self, name: &str) {
        let read = std::fs::read_to_string(self.path("project").join(name).join("file")).unwrap();
        assert_eq!(read, SECRET);
    }
}

fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[track_caller]
pub(crate) fn assert_changed(outcome: &Outcome) {
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.stderr.contains("is not the place that was given"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("palisade rebind"), "{}", outcome.stderr);
    assert!(!outcome.stdout.contains(SECRET), "{outcome:?}");
}

/// A wrapper as a service without any environment starts it.
pub(crate) fn call(wrapper: &Path) -> Outcome {
    Instance::finish(Command::new(wrapper).env_clear().current_dir("/").stdin(Stdio::null()))
}

#[track_caller]
pub(crate) fn wrap(scene: &Scene, words: &[&str]) -> PathBuf {
    let made = scene.instance.run([&["wrap"], words].concat()).ok();
    PathBuf::from(made.stdout.trim_end())
}
