//! How long it takes to have a large repository in a sandbox, beside git on the same machine.

use crate::comparison::{Probe, Result, Sides};
use crate::failure::Failure;
use crate::generated::Kind;
use crate::program::Program;
use crate::repository::{Repository, Work};
use crate::scene::Scene;
use std::path::PathBuf;

/// A repository in a new sandbox, from `agent start` until a small task in it is done.
struct NewSandbox {
    start: Program,
    remove: Program,
}

impl NewSandbox {
    fn plan(scene: &Scene, repository: &Repository, name: &str) -> Result<Self> {
        let palisade = scene.palisade()?.at(repository.path());
        let words = ["agent", "start", "--agent", "shell", "--name", name, "--task", "git log -1"];
        Ok(Self { start: palisade.clone().args(words), remove: palisade.args(["rm", "--force", name]) })
    }

    /// The time of the start; the sandbox is removed again.
    fn time(&self) -> Result<f64> {
        let took = self.start.time();
        // Also after a failure, so that nothing is left.
        self.remove.check()?;
        took
    }
}

/// A clone of a repository through git's own transport, with a working tree.
struct WholeClone {
    clone: Program,
    path: PathBuf,
}

impl WholeClone {
    fn plan(scene: &Scene, repository: &Repository) -> Result<Self> {
        let path = scene.path("copy");
        let words = ["clone", "--quiet", "--no-local"];
        let clone = scene.git()?.args(words).args([repository.path(), &path]);
        Ok(Self { clone, path })
    }

    fn time(&self) -> Result<f64> {
        let took = self.clone.time()?;
        std::fs::remove_dir_all(&self.path).map_err(Failure::io("remove a clone"))?;
        Ok(took)
    }
}

fn against_clone(scene: &Scene, kind: Kind, name: &str) -> Result<Sides> {
    let repository = Repository::generated(scene, kind)?;
    let sandbox = NewSandbox::plan(scene, &repository, name)?;
    let clone = WholeClone::plan(scene, &repository)?;
    Ok(Sides { ours: Box::new(move || sandbox.time()), peer: Some(Box::new(move || clone.time())) })
}

/// A whole `agent start` of a repository of a thousand commits and 200 MB in a new sandbox; against `git clone` of it.
pub(super) fn binaries_against_clone(scene: &Scene) -> Result<Sides> {
    against_clone(scene, Kind::Binaries, "large")
}

/// The same of a repository of 35 000 commits and 600 MB, of which no sandbox has anything yet.
pub(super) fn history_against_clone(scene: &Scene) -> Result<Sides> {
    against_clone(scene, Kind::LongHistory, "first")
}

/// The same when another sandbox has it; against `git worktree add`.
pub(super) fn second_against_worktree(scene: &Scene) -> Result<Sides> {
    let repository = Repository::generated(scene, Kind::LongHistory)?;
    let first = Work::start_on(scene, &repository, "first")?;
    let second = NewSandbox::plan(scene, &repository, "second")?;
    let worktree = scene.path("worktree");
    let words = |words: &[&str]| repository.git().args(words).args([&worktree]);
    let add = words(&["worktree", "add", "--quiet", "--detach"]);
    let remove = words(&["worktree", "remove", "--force"]);
    Ok(Sides {
        ours: Box::new(move || {
            let _there = &first;
            second.time()
        }),
        peer: Some(Box::new(move || {
            let took = add.time()?;
            remove.check()?;
            Ok(took)
        })),
    })
}

/// A start of a repository with 20 000 refs, less one of the same repository with one.
pub(super) fn many_refs_added(scene: &Scene) -> Result<Sides> {
    let plan = |kind: Kind| NewSandbox::plan(scene, &Repository::generated(scene, kind)?, kind.name());
    let (many, few) = (plan(Kind::ManyRefs)?, plan(Kind::FewRefs)?);
    let ours: Probe = Box::new(move || Ok(many.time()? - few.time()?));
    Ok(Sides { ours, peer: None })
}
