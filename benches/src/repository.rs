//! Repositories for the bench to work on, and a sandbox in which an agent has work to bring home.

use crate::comparison::Result;
use crate::failure::Failure;
use crate::program::Program;
use crate::scene::{Removed, Scene};
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

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
        repository.git.clone().args(["add", "--all"]).check()?;
        repository.git.clone().args(["commit", "--quiet", "--message", "first"]).check()?;
        Ok(repository)
    }

    /// One with so many commits, each of which adds a file of so many bytes that cannot be compressed.
    pub(crate) fn large(scene: &Scene, name: &str, commits: usize, bytes: usize) -> Result<Self> {
        let repository = Self::empty(scene, name)?;
        let stream = scene.path("stream");
        let io = || Failure::io("write a large repository");
        let mut random = File::open("/dev/urandom").map_err(io())?;
        let mut content = vec![0; bytes];
        let mut out = BufWriter::new(File::create(&stream).map_err(io())?);
        for number in 1..=commits {
            random.read_exact(&mut content).map_err(io())?;
            write!(
                out,
                "commit refs/heads/main\ncommitter Bench <bench@localhost> {} +0000\ndata 4\nmore\nM 644 inline {}/{number}\ndata {bytes}\n",
                1_700_000_000 + number,
                number % 32
            )
            .and_then(|()| out.write_all(&content))
            .and_then(|()| out.write_all(b"\n"))
            .map_err(io())?;
        }
        out.flush().map_err(io())?;
        let import = repository.git.clone().args(["fast-import", "--quiet"]);
        let status = import.command().stdin(Stdio::from(File::open(&stream).map_err(io())?)).status();
        if !status.map_err(io())?.success() {
            return Err(Failure::Plan(format!("{import} failed")));
        }
        std::fs::remove_file(&stream).map_err(io())?;
        repository.git.clone().args(["reset", "--quiet", "--hard"]).check()?;
        Ok(repository)
    }

    fn empty(scene: &Scene, name: &str) -> Result<Self> {
        let path = scene.path(name);
        std::fs::create_dir(&path).map_err(Failure::io(format!("make {}", path.display())))?;
        let git = scene.git()?.at(&path);
        git.clone().args(["init", "--quiet", "--initial-branch=main"]).check()?;
        git.clone().args(["config", "user.name", "Bench"]).check()?;
        git.clone().args(["config", "user.email", "bench@localhost"]).check()?;
        Ok(Self { git, path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn clone_to(&self, scene: &Scene, name: &str) -> Result<PathBuf> {
        let path = scene.path(name);
        self.git.clone().args(["clone", "--quiet", "."]).args([&path]).check()?;
        Ok(path)
    }

    /// One more commit that changes one file.
    pub(crate) fn commit(&self, text: &str) -> Result<()> {
        self.write("file-0", text)?;
        self.git.clone().args(["commit", "--quiet", "--all", "--message", text]).check()
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
    pub(crate) fn start(scene: &Scene, name: &str) -> Result<Self> {
        let repository = Repository::make(scene, name)?;
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

    fn inside(&mut self, script: &str) -> Result<()> {
        self.round += 1;
        let script = format!("cd /workspace && {}", script.replace("$0", &self.round.to_string()));
        self.palisade.clone().args(["exec", &self.name, "--", "sh", "-c", &script]).check()
    }

    pub(crate) fn sync(&self) -> Result<f64> {
        self.palisade.clone().args(["agent", "sync", &self.name]).time()
    }
}
