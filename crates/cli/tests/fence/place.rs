//! A repository of the user's that is attacked, made quickly from a template.

use palisade_testing::Outcome;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) struct Place {
    pub(crate) path: PathBuf,
    /// The home of the user, with the user's own settings of git.
    pub(crate) home: PathBuf,
    /// A file that appears if something of the sandbox's runs on the host.
    pub(crate) mark: PathBuf,
}

/// Git, or a shell that uses it, on the host, with nothing of the test's own surroundings.
pub(crate) fn on_host(program: &str, home: &Path, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", home);
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_TERMINAL_PROMPT", "0").current_dir(directory);
    // With engines, root's tests use git in a repository of another user.
    for (name, value) in [("COUNT", "1"), ("KEY_0", "safe.directory"), ("VALUE_0", "*")] {
        command.env(format!("GIT_CONFIG_{name}"), value);
    }
    command.stdin(Stdio::null());
    command
}

/// Makes a repository with two commits on the branch main.
pub(crate) fn make_template(path: &Path, home: &Path) {
    std::fs::create_dir_all(path.join(".git/hooks")).unwrap();
    std::fs::create_dir_all(home).unwrap();
    std::fs::write(home.join(".gitconfig"), "[user]\n\tname = host\n\temail = host@example.com\n").unwrap();
    let place = Place { path: path.to_owned(), home: home.to_owned(), mark: path.join("unused") };
    place.git(&["init", "-q", "--initial-branch=main", "--template="]);
    for text in ["first\n", "second\n"] {
        place.write("file", text);
        place.commit();
    }
}

impl Place {
    pub(crate) fn copy_of(template: &Path, path: PathBuf, home: PathBuf, mark: PathBuf) -> Self {
        let copied = Command::new("cp").arg("-a").arg(template).arg(&path).status().unwrap();
        assert!(copied.success());
        Self { path, home, mark }
    }

    #[track_caller]
    pub(crate) fn git(&self, words: &[&str]) {
        Outcome::from(on_host("git", &self.home, &self.path).args(words).output().unwrap()).ok();
    }

    pub(crate) fn commit(&self) {
        self.git(&["add", "."]);
        self.git(&["commit", "-qm", "of the user"]);
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn make_directory(&self, name: &str) {
        std::fs::create_dir_all(self.path.join(name)).unwrap();
    }

    pub(crate) fn link(&self, target: &str, name: &str) {
        std::os::unix::fs::symlink(target, self.path.join(name)).unwrap();
    }

    /// A shell script of the user's, in the tree.
    pub(crate) fn program(&self, name: &str, text: &str) {
        self.write(name, &format!("#!/bin/sh\n{text}\n"));
        std::fs::set_permissions(self.path.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Adds to the settings of the repository.
    pub(crate) fn configure(&self, text: &str) {
        append(&self.path.join(".git/config"), text);
    }

    /// Adds to the user's own settings.
    pub(crate) fn configure_user(&self, text: &str) {
        append(&self.home.join(".gitconfig"), text);
    }

    /// Where a worktree beside the repository is.
    pub(crate) fn beside(&self) -> String {
        format!("{}-beside", self.path.display())
    }

    /// A submodule without its files.
    pub(crate) fn record_submodule(&self, name: &str) {
        let entry = format!("160000,{},{name}", "1".repeat(40));
        self.git(&["update-index", "--add", "--cacheinfo", &entry]);
        self.git(&["commit", "-qm", "with a submodule"]);
    }

    /// A submodule with its files, at `lib/sub`.
    pub(crate) fn add_submodule(&self) {
        let source = format!("{}-library", self.path.display());
        self.git(&["clone", "-q", "--no-hardlinks", ".", &source]);
        let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &source, "lib/sub"];
        self.git(&add);
        self.git(&["commit", "-qm", "with a submodule"]);
    }

    /// A script with what only this place knows.
    pub(crate) fn filled(&self, script: &str) -> String {
        script.replace("MARK", self.mark.to_str().unwrap()).replace("$BESIDE", &self.beside())
    }
}

fn append(path: &Path, text: &str) {
    let mut file = std::fs::File::options().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// For Palisade of root's, which reads a repository as its owner.
pub(crate) fn open_to_all(directory: &Path) {
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
}
