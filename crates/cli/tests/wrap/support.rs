//! A wrapper, made and called.

use palisade_testing::{Instance, Outcome};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Makes a wrapper for the directory `project`.
#[track_caller]
pub(crate) fn wrap(instance: &Instance, words: &[&str]) -> PathBuf {
    let project = instance.work().join("project");
    std::fs::create_dir_all(&project).unwrap();
    let made = instance.run([&["wrap", "-w", "project"], words].concat()).ok();
    PathBuf::from(made.stdout.strip_suffix('\n').unwrap())
}

/// The wrapper as a service without any environment starts it.
pub(crate) fn call(wrapper: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(wrapper);
    command.args(arguments).env_clear().current_dir("/").stdin(Stdio::null());
    command
}

pub(crate) fn ended(wrapper: &Path, arguments: &[&str]) -> Outcome {
    Instance::finish(&mut call(wrapper, arguments))
}

/// An executable file, with the directories above it.
pub(crate) fn executable(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}
