//! What an agent has done, brought to the host; beside git between two clones on the same machine.

use crate::comparison::{Probe, Result, Sides};
use crate::generated::Kind;
use crate::program::Program;
use crate::repository::{Repository, Work};
use crate::scene::Scene;

/// Makes 20 000 files in 100 directories, and commits them. `$0` is the number of the round.
const ADD_FILES: &str = "for d in $(seq 100); do mkdir -p more/$d; for f in $(seq 200); do echo $0 $d $f > more/$d/$f; done; done \
     && git add --all && git commit --quiet --message $0";
const REMOVE_FILES: &str = "git rm -r --quiet more && git commit --quiet --message $0";

/// A repository and a clone of it, and what brings new commits into the clone.
struct Clone {
    origin: Repository,
    clone: Repository,
    shell: Program,
    round: usize,
}

impl Clone {
    fn make(scene: &Scene, name: &str) -> Result<Self> {
        let origin = Repository::make(scene, &format!("{name}-origin"))?;
        let clone = origin.clone_to(scene, &format!("{name}-clone"))?;
        let shell = scene.program(scene.find("sh")?).env("GIT_CONFIG_NOSYSTEM", "1").at(origin.path());
        Ok(Self { origin, clone, shell, round: 0 })
    }

    fn commit(&mut self) -> Result<()> {
        self.round += 1;
        self.origin.commit(&self.round.to_string())
    }

    /// Runs a script in the origin's working tree; `$0` is the number of the round.
    fn run(&mut self, script: &str) -> Result<()> {
        self.round += 1;
        self.shell.clone().args(["-c", &script.replace("$0", &self.round.to_string())]).check()
    }

    fn fetch_and_merge(&self) -> Result<f64> {
        let fetched = self.clone.git().args(["fetch", "--quiet"]).time()?;
        Ok(fetched + self.clone.git().args(["merge", "--quiet", "--ff-only"]).time()?)
    }

    fn fetch_and_status(&self) -> Result<f64> {
        let fetched = self.clone.git().args(["fetch", "--quiet"]).time()?;
        Ok(fetched + self.clone.git().args(["status"]).time()?)
    }
}

/// `agent sync` of one commit into a clean working tree; against `git fetch` and `git merge --ff-only` of such a commit.
pub(super) fn commit(scene: &Scene) -> Result<Sides> {
    let mut work = Work::start(scene, "sync")?;
    let mut clone = Clone::make(scene, "sync")?;
    Ok(Sides {
        ours: Box::new(move || {
            work.commit()?;
            work.sync()
        }),
        peer: Some(Box::new(move || {
            clone.commit()?;
            clone.fetch_and_merge()
        })),
    })
}

/// `agent sync` when nothing has changed; against `git fetch` that brings nothing, and `git status`.
pub(super) fn nothing(scene: &Scene) -> Result<Sides> {
    let mut work = Work::start(scene, "nothing")?;
    // As in the middle of a day: there were commits before.
    work.commit()?;
    work.sync()?;
    let mut clone = Clone::make(scene, "nothing")?;
    clone.commit()?;
    clone.fetch_and_merge()?;
    Ok(Sides { ours: Box::new(move || work.sync()), peer: Some(Box::new(move || clone.fetch_and_status())) })
}

/// `agent sync` of a commit with 20 000 new files; against the same git commands as for one file.
pub(super) fn many_files(scene: &Scene) -> Result<Sides> {
    let mut work = Work::start(scene, "files")?;
    let mut clone = Clone::make(scene, "files")?;
    Ok(Sides {
        ours: Box::new(move || {
            work.inside(ADD_FILES)?;
            let took = work.sync()?;
            work.inside(REMOVE_FILES)?;
            work.sync()?;
            Ok(took)
        }),
        peer: Some(Box::new(move || {
            clone.run(ADD_FILES)?;
            let took = clone.fetch_and_merge()?;
            clone.run(REMOVE_FILES)?;
            clone.fetch_and_merge()?;
            Ok(took)
        })),
    })
}

/// The same sync again, when all of it is there.
pub(super) fn many_files_again(scene: &Scene) -> Result<Sides> {
    let mut work = Work::start(scene, "again")?;
    work.inside(ADD_FILES)?;
    work.sync()?;
    Ok(Sides { ours: Box::new(move || work.sync()), peer: None })
}

/// `agent sync` of changes that are not committed, one file changed and one new.
pub(super) fn uncommitted(scene: &Scene) -> Result<Sides> {
    let mut work = Work::start(scene, "loose")?;
    let ours: Probe = Box::new(move || {
        work.change()?;
        work.sync()
    });
    Ok(Sides { ours, peer: None })
}

/// `agent sync` of a commit, in whichever repository of the bench it takes longest.
pub(super) fn slowest(scene: &Scene) -> Result<Sides> {
    let start = |kind: Kind| {
        let repository = Repository::generated(scene, kind)?;
        Work::start_on(scene, &repository, &format!("sync-{}", kind.name()))
    };
    let mut works = Kind::ALL.into_iter().map(start).collect::<Result<Vec<_>>>()?;
    let ours: Probe = Box::new(move || {
        let mut longest: f64 = 0.0;
        for work in &mut works {
            work.commit()?;
            longest = longest.max(work.sync()?);
        }
        Ok(longest)
    });
    Ok(Sides { ours, peer: None })
}
