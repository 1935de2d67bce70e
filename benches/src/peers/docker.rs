//! An idle container in the Docker engine that `scripts/bench` has started for this run.

use crate::comparison::Result;
use crate::failure::Failure;
use crate::program::Program;
use crate::scene::Scene;
use std::fs::File;
use std::path::Path;

const CONTAINER: &str = "palisade-bench";
const ENDPOINT: &str = "DOCKER_HOST";

/// A running container, removed when dropped; the engine ends with the bench.
#[derive(Debug)]
pub(crate) struct Docker {
    client: Program,
}

impl Docker {
    pub(crate) fn start(scene: &Scene) -> Result<Self> {
        let endpoint = std::env::var(ENDPOINT).map_err(|_| Failure::NoEngine { variable: ENDPOINT })?;
        let docker = Self { client: scene.program(scene.find("docker")?).args(["--host", &endpoint]) };
        docker.run_container(scene)?;
        Ok(docker)
    }

    pub(crate) fn exec(&self, command: &[&str]) -> Program {
        self.client.clone().args(["exec", CONTAINER]).args(command)
    }

    fn run_container(&self, scene: &Scene) -> Result<()> {
        let image = scene.path("image.tar");
        pack_image(&scene.find("busybox")?, &image).map_err(Failure::io("pack the image"))?;
        self.client.clone().args(["import".as_ref(), image.as_os_str(), CONTAINER.as_ref()]).check()?;
        let command = ["/bin/busybox", "sleep", "2147483647"];
        self.client
            .clone()
            .args(["run", "--detach", "--network=none", "--name", CONTAINER, CONTAINER])
            .args(command)
            .check()
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        let _ = self.client.clone().args(["rm", "--force", "--volumes", CONTAINER]).check();
    }
}

/// No image can be pulled on every machine, and the smallest one is made quickly.
fn pack_image(busybox: &Path, image: &Path) -> std::io::Result<()> {
    let mut archive = tar::Builder::new(File::create(image)?);
    archive.append_path_with_name(busybox, "bin/busybox")?;
    archive.into_inner()?.sync_all()
}
