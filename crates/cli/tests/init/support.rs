//! A project to onboard: a repository with the files of the test.

use palisade_testing::{Instance, Outcome};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The specification's new project.
pub(crate) const COMPOSE: &str = "\
# The shop.
services:
  api:
    build: .
    ports:
      - \"8080:80\"   # web
    environment:
      DATABASE_URL: ${DATABASE_URL}
      API_SECRET_KEY: ${API_SECRET_KEY}
    volumes:
      - ./.env:/app/.env:ro

  postgres:
    image: postgres:16
    ports: ['5432:5432']
";

pub(crate) struct Project {
    pub(crate) instance: Instance,
}

impl Project {
    /// In a repository with these files, of which git ignores `ignored`.
    pub(crate) fn new(files: &[(&str, &str)], ignored: &str) -> Self {
        let project = Self { instance: Instance::new() };
        project.put(".gitignore", ignored);
        for (path, text) in files {
            project.put(path, text);
        }
        let git = Command::new("git").args(["init", "--quiet"]).current_dir(project.root()).status();
        assert!(git.unwrap().success());
        project
    }

    /// The one of the specification's first scenario.
    pub(crate) fn shop() -> Self {
        let files = [
            ("docker-compose.yml", COMPOSE),
            ("pyproject.toml", "[project]\nname = \"my-project\"\n"),
            (".env", "A=1\n"),
            (".env.example", "A=\n"),
        ];
        Self::new(&files, ".env\n")
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.instance.work()
    }

    pub(crate) fn put(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.root().join(path)).unwrap()
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.root().join(path).exists()
    }

    #[track_caller]
    pub(crate) fn init(&self, arguments: &[&str]) -> Outcome {
        self.instance.run(std::iter::once("init").chain(arguments.iter().copied()))
    }

    /// The program under another name, as a link that `make install` makes.
    pub(crate) fn link(&self, name: &str) -> PathBuf {
        let link = self.instance.home().join(name);
        std::os::unix::fs::symlink(palisade_testing::palisade_binary(), &link).unwrap();
        link
    }
}

/// The root of the checkout. From the runtime variable: the tests may run in a copy of the sources.
pub(crate) fn repository() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").unwrap();
    Path::new(&manifest).ancestors().nth(2).unwrap().to_owned()
}
