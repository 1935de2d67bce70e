//! Repositories for the bench to work on, and a sandbox in which an agent has work to bring home.

use crate::comparison::Result;
use crate::failure::Failure;
use crate::generated::CHANGED;
use crate::program::Program;
use crate::scene::{Removed, Scene};
use std::path::{Path, PathBuf};

/// Files of a small repository.
const FILES: usize = 20;

#[derive(Debug)]
pub(crate) struct Repository {
    git: Program,
    path: PathBuf,
}

impl Repository {
    /// A small one with one commit.
    pub(crate) fn make(scene: &Scene, name: &str) -> Result<Self> {
        let repository = Self::empty(scene, name)?;
        for number in 0..FILES {
            repository.write(&format!("file-{number}"), "the first line\n")?;
        }
        repository.git().args(["add", "--all"]).check()?;
        repository.git().args(["commit", "--quiet", "--message", "first"]).check()?;
        Ok(repository)
    }

    pub(crate) fn empty(scene: &Scene, name: &str) -> Result<Self> {
        let path = scene.path(name);
        std::fs::create_dir(&path).map_err(Failure::io(format!("make {}", path.display())))?;
        let repository = Self::at(scene, path)?;
        repository.git().args(["init", "--quiet", "--initial-branch=main"]).check()?;
        repository.set_identity()?;
        Ok(repository)
    }

    /// One that is there.
    pub(crate) fn at(scene: &Scene, path: PathBuf) -> Result<Self> {
        Ok(Self { git: scene.git()?.at(&path), path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Git in its working tree.
    pub(crate) fn git(&self) -> Program {
        self.git.clone()
    }

    pub(crate) fn clone_to(&self, scene: &Scene, name: &str) -> Result<Self> {
        let path = scene.path(name);
        self.git().args(["clone", "--quiet", "."]).args([&path]).check()?;
        let clone = Self::at(scene, path)?;
        clone.set_identity()?;
        Ok(clone)
    }

    fn set_identity(&self) -> Result<()> {
        self.git().args(["config", "user.name", "Bench"]).check()?;
        self.git().args(["config", "user.email", "bench@localhost"]).check()
    }

    /// One more commit that changes one file.
    pub(crate) fn commit(&self, text: &str) -> Result<()> {
        self.write(CHANGED, text)?;
        self.git().args(["commit", "--quiet", "--all", "--message", text]).check()
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.path.join(name);
        std::fs::write(&path, text).map_err(Failure::io(format!("write {}", path.display())))
    }
}

/// A running agent's sandbox.
#[derive(Debug)]
pub(crate) struct Work {
    palisade: Program,
    name: String,
    round: usize,
    _goes: Removed,
}

impl Work {
    /// On a small repository of its own.
    pub(crate) fn start(scene: &Scene, name: &str) -> Result<Self> {
        let repository = Repository::make(scene, name)?;
        Self::start_on(scene, &repository, name)
    }

    pub(crate) fn start_on(scene: &Scene, repository: &Repository, name: &str) -> Result<Self> {
        let palisade = scene.palisade()?.at(repository.path());
        let goes = Removed::new(palisade.clone(), name);
        let words = ["agent", "start", "--agent", "shell", "--name", name, "--task", "true"];
        palisade.clone().args(words).check()?;
        Ok(Self { palisade, name: name.into(), round: 0, _goes: goes })
    }

    /// The agent commits, as the peer's user does.
    pub(crate) fn commit(&mut self) -> Result<()> {
        self.inside("echo $0 > file-0 && git commit --quiet --all --message $0")
    }

    /// The agent changes a file and makes another one.
    pub(crate) fn change(&mut self) -> Result<()> {
        self.inside("echo $0 > file-1 && rm -f new-* && echo $0 > new-$0")
    }

    /// Runs a script in the agent's working tree; `$0` is the number of the round.
    pub(crate) fn inside(&mut self, script: &str) -> Result<()> {
        self.round += 1;
        let script = format!("cd /workspace && {}", script.replace("$0", &self.round.to_string()));
        self.palisade.clone().args(["exec", &self.name, "--", "sh", "-c", &script]).check()
    }

    /// The time that a sync takes.
    pub(crate) fn sync(&self) -> Result<f64> {
        self.palisade.clone().args(["agent", "sync", &self.name]).time()
    }
}
