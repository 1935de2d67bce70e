//! A Docker engine of the bench's own, with one idle container. Data, sockets and process files lie in the scene's
//! directory, names of cgroups and containerd's namespaces are this process's, and the host's network is not touched.

use super::privilege::Privilege;
use crate::cgroups;
use crate::comparison::Result;
use crate::failure::Failure;
use crate::interrupt;
use crate::program::{Program, ends_within};
use crate::scene::Scene;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);
const CONTAINER: &str = "palisade-bench";

/// A running engine and container, both stopped when dropped.
#[derive(Debug)]
pub(crate) struct Docker {
    client: Program,
    engine: Child,
    directory: PathBuf,
    /// Root's hands: the shell's own `kill`, since the program of that name is not everywhere.
    kill: Program,
    remove_directories: Program,
    remove_tree: Program,
    cgroup: String,
}

impl Docker {
    pub(crate) fn start(scene: &Scene) -> Result<Self> {
        let privilege = Privilege::find(scene, "starting dockerd")?;
        let as_root = |name: &str| Ok(privilege.program(scene, scene.find(name)?));
        let directory = scene.path("d");
        std::fs::create_dir(&directory).map_err(Failure::io("make the engine's directory"))?;
        let log = File::create(directory.join("log")).map_err(Failure::io("make the engine's log"))?;
        let endpoint = format!("unix://{}/s", directory.display());
        let cgroup = format!("{CONTAINER}-{}", std::process::id());
        let engine = as_root("dockerd")?
            .args(["--host", &endpoint])
            .args([
                "--data-root".as_ref(),
                directory.join("data").as_os_str(),
                "--exec-root".as_ref(),
                directory.join("exec").as_os_str(),
                "--pidfile".as_ref(),
                directory.join("pid").as_os_str(),
            ])
            // The socket's group, so that the client needs no sudo, which would cost time.
            .args(["--group", &rustix::process::getegid().as_raw().to_string()])
            .args(["--bridge=none", "--iptables=false", "--ip-masq=false"])
            .args(["--cgroup-parent", &format!("/{cgroup}")])
            // In case the machine has a containerd running, which dockerd would then use.
            .args([
                "--containerd-namespace",
                &cgroup,
                "--containerd-plugins-namespace",
                &format!("{cgroup}-p"),
            ]);
        let client = scene.program(scene.find("docker")?).args(["--host", &endpoint]);
        let (kill, remove_directories, remove_tree) = (
            as_root("sh")?.args(["-c", r#"kill "$1" "$2""#, "kill"]),
            as_root("rmdir")?,
            as_root("rm")?.args(["-rf", "--one-file-system", "--"]),
        );
        let child = engine
            .command()
            .stdout(log.try_clone().map_err(Failure::io("share the engine's log"))?)
            .stderr(Stdio::from(log))
            // A group of its own: on Ctrl-C it must outlive its container, which is removed through it.
            .process_group(0)
            .spawn()
            .map_err(Failure::io(format!("start {}", engine.path().display())))?;
        let mut docker =
            Self { client, engine: child, directory, kill, remove_directories, remove_tree, cgroup };
        docker.wait_until_it_answers(&engine)?;
        docker.run_container(scene)?;
        Ok(docker)
    }

    pub(crate) fn exec(&self, command: &[&str]) -> Program {
        self.client.clone().args(["exec", CONTAINER]).args(command)
    }

    fn wait_until_it_answers(&mut self, engine: &Program) -> Result<()> {
        let version = self.client.clone().args(["version"]);
        let deadline = Instant::now() + PATIENCE;
        // The engine tells nobody when it is ready, so it is asked.
        while version.check().is_err() {
            interrupt::check()?;
            if ends_within(&self.engine, PAUSE).map_err(Failure::io("wait for dockerd"))? {
                return Err(Failure::Ended {
                    command: engine.path().display().to_string(),
                    how: "no answer".into(),
                    said: last_line(&self.directory.join("log")),
                });
            }
            if Instant::now() > deadline {
                return Err(Failure::Hangs { command: version.to_string(), patience: PATIENCE });
            }
        }
        Ok(())
    }

    fn run_container(&self, scene: &Scene) -> Result<()> {
        let image = self.directory.join("image.tar");
        pack_image(&scene.find("busybox")?, &image).map_err(Failure::io("pack the image"))?;
        self.client.clone().args(["import".as_ref(), image.as_os_str(), CONTAINER.as_ref()]).check()?;
        let command = ["/bin/busybox", "sleep", "2147483647"];
        self.client
            .clone()
            .args(["run", "--detach", "--network=none", "--name", CONTAINER, CONTAINER])
            .args(command)
            .check()
    }

    /// Each step is tried whatever the others gave: this is all that stands between a failure and a leftover.
    fn stop(&mut self) {
        let _ = self.client.clone().args(["rm", "--force", "--volumes", CONTAINER]).check();
        let stopped = self.signal("-TERM", "pid") && ends_within(&self.engine, PATIENCE).unwrap_or(false);
        if !stopped {
            self.signal("-KILL", "pid");
            self.signal("-KILL", "exec/containerd/containerd.pid");
        }
        let _ = self.engine.wait();
        for cgroup in cgroups::named(&self.cgroup) {
            let _ = self.remove_directories.clone().args([cgroup]).check();
        }
        let _ = self.remove_tree.clone().args([&self.directory]).check();
    }

    /// Signals the process whose number is in a file of the engine's; it may be sudo's child, not ours.
    fn signal(&self, signal: &str, file: &str) -> bool {
        let Ok(number) = std::fs::read_to_string(self.directory.join(file)) else { return false };
        let number = number.trim();
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number && self.kill.clone().args([signal, number]).check().is_ok()
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        self.stop();
    }
}

/// No image can be pulled on every machine, and the smallest one is made quickly.
fn pack_image(busybox: &Path, image: &Path) -> std::io::Result<()> {
    let mut archive = tar::Builder::new(File::create(image)?);
    archive.append_path_with_name(busybox, "bin/busybox")?;
    archive.into_inner()?.sync_all()
}

fn last_line(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().last().unwrap_or_default().to_owned()
}
