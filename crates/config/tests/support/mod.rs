//! The scene of the configuration's tests: a directory to write files in, and sources made of them.

#![allow(dead_code, reason = "each test file uses its own part of the scene")]

use palisade_config::{ConfigError, ProjectSource, Sources, digest, load};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(crate) struct Scene {
    directory: TempDir,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn root(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root().join(relative)
    }

    pub(crate) fn write(&self, relative: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn system(&self, text: &str) -> Sources {
        Sources { system: Some(self.write("etc/config.toml", text)), ..Sources::default() }
    }

    pub(crate) fn project_path(&self) -> PathBuf {
        self.path("repo/.palisade/config.toml")
    }

    /// An untrusted project file.
    pub(crate) fn project(&self, text: &str) -> ProjectSource {
        let path = self.write("repo/.palisade/config.toml", text);
        ProjectSource { path, trusted_digest: None }
    }

    pub(crate) fn trusted(&self, text: &str) -> ProjectSource {
        ProjectSource { trusted_digest: Some(digest(text.as_bytes())), ..self.project(text) }
    }

    /// The error's text with the scene's own directory left out.
    pub(crate) fn told(&self, error: &ConfigError) -> String {
        error.to_string().replace(&format!("{}/", self.root().display()), "")
    }

    pub(crate) fn refusal(&self, sources: &Sources) -> String {
        self.told(&load(sources).unwrap_err())
    }
}
