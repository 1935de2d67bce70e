//! Where the bench takes place: a temporary directory with state and configuration of its own, and the programs
//! that were built. Nothing of the user's is read or written, and all of it is gone at the end.

use crate::cgroups;
use crate::comparison::Result;
use crate::failure::Failure;
use crate::program::Program;
use palisade_core::SandboxId;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct Scene {
    target: PathBuf,
    directory: tempfile::TempDir,
    search_path: OsString,
}

impl Scene {
    /// `target` is the place Cargo builds into.
    pub fn new(target: &Path, search_path: OsString) -> Result<Self> {
        // Short, because sockets live below it, whose paths have a limit.
        let directory = tempfile::Builder::new()
            .prefix("pb")
            .rand_bytes(4)
            .permissions(std::fs::Permissions::from_mode(0o755))
            .tempdir_in("/tmp")
            .map_err(Failure::io("make a directory in /tmp"))?;
        let scene = Self { target: target.to_owned(), directory, search_path };
        for name in ["state", "config", "empty"] {
            let path = scene.path(name);
            std::fs::create_dir(&path).map_err(Failure::io(format!("make {}", path.display())))?;
        }
        Ok(scene)
    }

    /// A place in the temporary directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Something that was built or installed below the target directory.
    pub fn built(&self, relative: &str) -> Result<PathBuf> {
        let path = self.target.join(relative);
        if path.exists() { Ok(path) } else { Err(Failure::Missing { path, fix: "run `make bench`" }) }
    }

    /// A program of the machine's.
    pub fn find(&self, name: &str) -> Result<PathBuf> {
        std::env::split_paths(&self.search_path)
            .map(|directory| directory.join(name))
            .find(|path| path.is_file())
            .ok_or(Failure::Missing { path: name.into(), fix: "run `scripts/setup run bench`" })
    }

    /// A program in an empty directory, with the search path and a home of its own.
    pub fn program(&self, path: impl Into<PathBuf>) -> Program {
        Program::new(path, self.path("empty"))
            .env("PATH", &self.search_path)
            .env("HOME", self.directory.path())
    }

    /// Where the agents from npm are, as scripts/setup lays them.
    pub fn agents(&self) -> PathBuf {
        std::env::var_os("PALISADE_AGENTS").map_or_else(|| "/var/cache/palisade/agents".into(), PathBuf::from)
    }

    /// The host's git, with no configuration but the repository's own.
    pub fn git(&self) -> Result<Program> {
        Ok(self.program(self.find("git")?).env("GIT_CONFIG_NOSYSTEM", "1"))
    }

    pub fn palisade(&self) -> Result<Program> {
        self.built("release/palisade-guest")?;
        let program = self
            .program(self.built("release/palisade")?)
            .env("XDG_STATE_HOME", self.path("state"))
            .env("XDG_CONFIG_HOME", self.path("config"));
        // An ordinary user's limits go through the manager that listens there, and that is part of our cost.
        Ok(match std::env::var_os("XDG_RUNTIME_DIR") {
            Some(directory) => program.env("XDG_RUNTIME_DIR", directory),
            None => program,
        })
    }
}

impl Drop for Scene {
    /// An instance keeps a cgroup of its own for the next run; this one has no next run.
    fn drop(&mut self) {
        let instance = std::fs::read_to_string(self.path("state/palisade/instance")).unwrap_or_default();
        if let Ok(id) = SandboxId::parse(instance.trim()) {
            for cgroup in cgroups::named(&format!("palisade/{id}")) {
                // Fails where something still runs in it, and then it is not ours to remove.
                let _ = std::fs::remove_dir(cgroup);
            }
        }
    }
}

/// A sandbox of this name is removed when this is dropped, whoever has made it.
#[derive(Debug)]
pub(crate) struct Removed {
    palisade: Program,
    name: String,
}

impl Removed {
    pub(crate) fn new(palisade: Program, name: &str) -> Self {
        Self { palisade, name: name.into() }
    }
}

impl Drop for Removed {
    fn drop(&mut self) {
        // Its state lies in the temporary directory; there is nobody to tell.
        let _ = self.palisade.clone().args(["rm", "--force", &self.name]).check();
    }
}

/// A running sandbox with a name, removed when dropped.
#[derive(Debug)]
pub struct Sandbox {
    palisade: Program,
    name: String,
    _goes: Removed,
}

impl Sandbox {
    pub fn start(scene: &Scene, name: &str) -> Result<Self> {
        Self::start_with(scene.palisade()?, name)
    }

    pub fn start_with(palisade: Program, name: &str) -> Result<Self> {
        Self::create_and_start(palisade, name, &[])
    }

    /// One that may reach this address.
    pub fn start_allowed(palisade: Program, name: &str, allowed: &str) -> Result<Self> {
        Self::create_and_start(palisade, name, &["--allow", allowed])
    }

    /// One that works in a directory of the host's.
    pub(crate) fn start_bound(palisade: Program, name: &str, directory: &str) -> Result<Self> {
        Self::create_and_start(palisade, name, &["-w", directory])
    }

    /// One of an environment.
    pub(crate) fn start_from(palisade: Program, name: &str, environment: &str) -> Result<Self> {
        Self::create_and_start(palisade, name, &["--environment", environment])
    }

    fn create_and_start(palisade: Program, name: &str, flags: &[&str]) -> Result<Self> {
        palisade.clone().args(["create", name]).args(flags).check()?;
        // From here on there is something to remove.
        let goes = Removed::new(palisade.clone(), name);
        let sandbox = Self { palisade, name: name.into(), _goes: goes };
        sandbox.palisade.clone().args(["start", name]).check()?;
        Ok(sandbox)
    }

    pub(crate) fn id(&self) -> Result<String> {
        let told = self.palisade.clone().args(["inspect", &self.name, "--json"]).output()?;
        let told: serde_json::Value = serde_json::from_str(&told).unwrap_or_default();
        let id = told["id"].as_str().map(str::to_owned);
        id.ok_or_else(|| Failure::Plan(format!("{} has no id", self.name)))
    }

    /// A command to be run inside.
    pub fn exec(&self, command: &[&str]) -> Program {
        self.palisade.clone().args(["exec", &self.name, "--"]).args(command)
    }
}
