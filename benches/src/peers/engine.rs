//! The container engines that `scripts/bench` has started for this run, used as their own programs use them.

use crate::comparison::Result;
use crate::failure::Failure;
use crate::program::Program;
use crate::scene::Scene;
use std::fs::File;
use std::path::Path;

/// The image of both sides, and the environment of ours that is made from it.
pub(crate) const IMAGE: &str = "palisade-bench";
/// In that image.
pub(crate) const TRUE: [&str; 2] = ["/bin/busybox", "true"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Docker,
    Podman,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Docker => "docker",
            Kind::Podman => "podman",
        }
    }

    fn endpoint(self) -> &'static str {
        match self {
            Kind::Docker => "DOCKER_HOST",
            Kind::Podman => "CONTAINER_HOST",
        }
    }
}

/// An engine that has the image.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    kind: Kind,
    endpoint: String,
    client: Program,
}

impl Engine {
    pub(crate) fn find(scene: &Scene, kind: Kind) -> Result<Self> {
        let variable = kind.endpoint();
        let endpoint = std::env::var(variable).map_err(|_| Failure::NoEngine { variable })?;
        let client = scene.program(scene.find(kind.name())?);
        let client = match kind {
            Kind::Docker => client.args(["--host", &endpoint]),
            Kind::Podman => client.args(["--remote", "--url", &endpoint]),
        };
        let image = scene.path("image.tar");
        pack_image(&scene.find("busybox")?, &image).map_err(Failure::io("pack the image"))?;
        client.clone().args(["import".as_ref(), image.as_os_str(), IMAGE.as_ref()]).check()?;
        Ok(Self { kind, endpoint, client })
    }

    /// Palisade, with this engine for its method and the image for an environment.
    pub(crate) fn palisade(&self, scene: &Scene) -> Result<Program> {
        let environments = scene.path("config/palisade/environments");
        let manifest =
            format!("name = \"{IMAGE}\"\ndescription = \"The bench's\"\nimage = \"{IMAGE}:latest\"\n");
        std::fs::create_dir_all(&environments)
            .and_then(|()| std::fs::write(environments.join(format!("{IMAGE}.toml")), manifest))
            .map_err(Failure::io("write the environment of the bench"))?;
        let method = self.kind.name();
        Ok(scene.palisade()?.env(self.kind.endpoint(), &self.endpoint).env("SANDBOX_METHOD", method))
    }

    /// The engine's own program.
    pub(crate) fn client(&self) -> Program {
        self.client.clone()
    }

    /// A running container, removed when dropped.
    pub(crate) fn idle(&self) -> Result<Idle> {
        let sleep = ["/bin/busybox", "sleep", "2147483647"];
        let run = ["run", "--detach", "--network=none", "--name", IMAGE, IMAGE];
        self.client.clone().args(run).args(sleep).check()?;
        Ok(Idle { client: self.client.clone(), volumes: &[] })
    }

    /// The same, with the options of a sandbox and volumes like its own, which are removed along.
    pub(crate) fn idle_with_volumes(&self) -> Result<Idle> {
        let run = self.client.clone().args(["run", "--detach", "--name", IMAGE]).args(isolating());
        let volumes =
            ["--volume", "palisade-bench-home:/home/agent", "--volume", "palisade-bench-work:/workspace"];
        run.args(volumes).args([IMAGE, "/bin/busybox", "sleep", "2147483647"]).check()?;
        Ok(Idle { client: self.client.clone(), volumes: &["palisade-bench-home", "palisade-bench-work"] })
    }

    /// One command in a container of its own, with the options and mounts of a sandbox.
    pub(crate) fn run(&self, guest_volume: &str) -> Program {
        let mut program = self.client.clone().args(["run", "--rm", "--interactive"]).args(isolating());
        for place in ["/tmp", "/var/tmp", "/run", "/home/agent", "/workspace"] {
            program = program.args(["--tmpfs", &format!("{place}:rw,exec,nosuid,nodev,size=1g,mode=1777")]);
        }
        program.args(["--volume", &format!("{guest_volume}:/.palisade:ro,nocopy"), IMAGE]).args(TRUE)
    }

    /// The volumes with Palisade's guest.
    pub(crate) fn guest_volume(&self) -> Result<String> {
        let list = ["volume", "ls", "--quiet", "--filter", "label=dev.palisade.kind=guest"];
        let listed = self.client.clone().args(list).output()?;
        let found = listed.lines().next().map(str::to_owned);
        found.ok_or_else(|| Failure::Plan("the engine has no volume with the guest".into()))
    }

    /// The first process of a container, as the host numbers it.
    pub(crate) fn first_process(&self, container: &str) -> Result<u32> {
        let inspect = ["inspect", "--format", "{{.State.Pid}}", container];
        let told = self.client.clone().args(inspect).output()?;
        told.trim().parse().map_err(|_| Failure::Plan(format!("{container} has no process: {told}")))
    }
}

/// What isolates a sandbox, in the words of the engines' own programs.
fn isolating() -> impl Iterator<Item = &'static str> {
    let words = "--network none --read-only --cap-drop ALL --security-opt no-new-privileges --user 1000:1000 \
                 --memory 1g --memory-swap 1g --cpu-period 100000 --cpu-quota 200000 --pids-limit 4096 \
                 --log-driver none --cgroupns private --ipc private --hostname sandbox";
    words.split_ascii_whitespace()
}

/// A container in which nothing happens.
#[derive(Debug)]
pub(crate) struct Idle {
    client: Program,
    volumes: &'static [&'static str],
}

impl Idle {
    pub(crate) fn exec(&self, command: &[&str]) -> Program {
        self.client.clone().args(["exec", IMAGE]).args(command)
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        let _ = self.client.clone().args(["rm", "--force", "--volumes", IMAGE]).check();
        if !self.volumes.is_empty() {
            let _ = self.client.clone().args(["volume", "rm"]).args(self.volumes).check();
        }
    }
}

/// No image can be pulled on every machine, and the smallest one is made quickly.
fn pack_image(busybox: &Path, image: &Path) -> std::io::Result<()> {
    let mut archive = tar::Builder::new(File::create(image)?);
    archive.append_path_with_name(busybox, "bin/busybox")?;
    archive.into_inner()?.sync_all()
}
