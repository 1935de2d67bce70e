//! From a name to running services, against git and Compose by hand: what everything else that `impl` does costs.

use crate::comparison::{Result, Sides};
use crate::failure::Failure;
use crate::peers::engine::{Engine, IMAGE, Kind};
use crate::program::Program;
use crate::repository::Repository;
use crate::scene::Scene;
use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

/// As many as a small project has: a site, its API, a worker, a database, a cache, a queue.
const SERVICES: u32 = 6;
/// Below those that the kernel gives to whoever asks for any.
const PORT: u32 = 28_000;

/// A project with services, and both ways to have them running.
struct Project {
    palisade: Program,
    git: Program,
    compose: Program,
    root: PathBuf,
    /// Every sandbox has a name of its own.
    begun: Cell<u32>,
}

impl Project {
    fn make(scene: &Scene, name: &str) -> Result<Rc<Self>> {
        let engine = Engine::find(scene, Kind::Docker)?;
        let repository = Repository::make(scene, name)?;
        let root = repository.path().to_owned();
        let put = |path: &str, text: String| {
            let path = root.join(path);
            path.parent()
                .map_or(Ok(()), std::fs::create_dir_all)
                .and_then(|()| std::fs::write(&path, text))
                .map_err(Failure::io(format!("write {}", path.display())))
        };
        let services: String = (0..SERVICES).map(service).collect();
        put("docker-compose.yml", format!("services:\n{services}"))?;
        put(".devops-ai/infra.toml", infra(name))?;
        put(".gitignore", "config.yaml\n".into())?;
        put("config.yaml", "a: 1\n".into())?;
        // What `impl` writes, for the other side.
        put("../by-hand.env", format!("WEB_PORT={}\nLEVEL=debug\nTOKEN=local\n", PORT - 1))?;
        let git = scene.git()?.at(&root);
        git.clone().args(["add", "--all"]).check()?;
        git.clone().args(["commit", "--quiet", "--message", "services"]).check()?;
        let palisade = engine.palisade(scene)?.at(&root);
        Ok(Rc::new(Self {
            palisade,
            git,
            compose: engine.client().args(["compose"]),
            root,
            begun: Cell::new(0),
        }))
    }

    fn ours(&self) -> Result<f64> {
        self.begun.set(self.begun.get() + 1);
        let feature = format!("bench/M{}", self.begun.get());
        let took = self.palisade.clone().args(["impl", &feature]).time();
        // Also after a failure, so that nothing is left.
        self.palisade.clone().args(["done", "--force", &feature]).check()?;
        took
    }

    fn by_hand(&self) -> Result<f64> {
        self.begun.set(self.begun.get() + 1);
        let name = format!("by-hand-{}", self.begun.get());
        let worktree = self.root.with_file_name(&name);
        let add = self.git.clone().args(["worktree", "add", "--quiet", "-b", &name]).args([&worktree]);
        let compose = self.compose.clone().at(&self.root).args(["--project-name", &name]);
        let files = ["--env-file", "../by-hand.env", "--project-directory"];
        let file = worktree.join("docker-compose.yml");
        let up = compose.clone().args(files).args([&worktree]).args(["--file"]).args([&file]);
        let up = up.args(["up", "--detach"]);
        let took = add.time().and_then(|added| Ok(added + up.time()?));
        compose.args(["down", "--volumes"]).check()?;
        self.git.clone().args(["worktree", "remove", "--force"]).args([&worktree]).check()?;
        took
    }
}

fn service(number: u32) -> String {
    let ports = if number == 0 { "    ports: [\"${WEB_PORT}:80\"]\n" } else { "" };
    format!(
        "  service-{number}:
    image: {IMAGE}
    command: [/bin/busybox, sleep, \"1000000\"]
    stop_grace_period: 0s
    environment:
      LEVEL: ${{LEVEL}}
      TOKEN: ${{TOKEN}}
{ports}"
    )
}

fn infra(name: &str) -> String {
    format!(
        "[project]
name = \"{name}\"
[sandbox.ports]
WEB_PORT = {PORT}
[sandbox.env]
LEVEL = \"debug\"
[sandbox.secrets]
TOKEN = \"local\"
[sandbox.files]
\"config.yaml\" = \"config.yaml\"
"
    )
}

/// `impl`, whole, against `git worktree add` and `docker compose up --detach` of the same project.
pub(super) fn against_git_and_compose(scene: &Scene) -> Result<Sides> {
    let project = Project::make(scene, "stack")?;
    let peer = Rc::clone(&project);
    Ok(Sides { ours: Box::new(move || project.ours()), peer: Some(Box::new(move || peer.by_hand())) })
}

/// The same, one less the other.
pub(super) fn added(scene: &Scene) -> Result<Sides> {
    let project = Project::make(scene, "added")?;
    Ok(Sides { ours: Box::new(move || Ok(project.ours()? - project.by_hand()?)), peer: None })
}
