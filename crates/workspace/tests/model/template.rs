//! The directory that is there at the beginning of every sequence: the user's repository, its remote, and a module that
//! the agent clones.

use crate::contents::{Contents, SideGit};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const SCRIPT: &str = "
    git init -q --initial-branch=main; git config user.name user; git config user.email user@example.org
    seq 1 9 > readme; seq 11 19 > code; mkdir d; seq 21 29 > d/one; seq 31 39 > d/two; echo '*.ignored' > .gitignore
    git add -A; git commit -q -m first; seq 1 10 > readme; git commit -q -a -m second; git branch one
    seq 1 11 > readme; git commit -q -a -m third
    git clone -q --bare . ../remote.git; git remote add origin ../remote.git; git fetch -q
    git init -q --initial-branch=main ../module; cd ../module; echo module > one; git add one
    git -c user.name=m -c user.email=m@example.org commit -q -m module; git clone -q --bare . ../module.git; rm -r ../module";

/// Made once in a process, and copied for every sequence.
pub(crate) struct Template {
    /// `host`, `home`, `remote.git` and `module.git`.
    pub(crate) archive: Vec<u8>,
    module: Contents,
}

impl Template {
    fn make() -> Self {
        let directory = new_directory();
        let top = directory.path();
        for name in ["host", "home"] {
            fs::create_dir(top.join(name)).unwrap();
        }
        // Collections of garbage in the background would only cost time.
        fs::write(top.join("home/.gitconfig"), "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n").unwrap();
        let git = SideGit { home: top.join("home") };
        let made = git.command(&top.join("host"), "sh").args(["-ec", SCRIPT]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut module = Contents::default();
        module.add_repository(&git, &top.join("module.git"));
        let packed = Command::new("tar").arg("-C").arg(top).args(["-c", "."]).output().unwrap();
        assert!(packed.status.success());
        Self { archive: packed.stdout, module }
    }

    pub(crate) fn copy_to(&self, directory: &Path) {
        let mut command = Command::new("tar");
        let mut child = command.arg("-C").arg(directory).arg("-x").stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&self.archive).unwrap();
        assert!(child.wait().unwrap().success());
    }
}

pub(crate) fn template() -> &'static Template {
    static TEMPLATE: OnceLock<Template> = OnceLock::new();
    TEMPLATE.get_or_init(Template::make)
}

/// What the remote holds that the agent clones: a clone of it that has nothing else is only named.
pub(crate) fn remote_contents() -> &'static Contents {
    &template().module
}

/// In memory, where there is such a place: a sequence writes thousands of small files.
pub(crate) fn new_directory() -> tempfile::TempDir {
    let mut builder = tempfile::Builder::new();
    builder.prefix("palisade-model-");
    builder.tempdir_in("/dev/shm").or_else(|_| builder.tempdir()).unwrap()
}
