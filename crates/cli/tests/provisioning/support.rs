//! A project with services, its repository, and everything that its sandboxes may leave behind.

use palisade_testing::{Instance, Outcome, one_password_stand_in};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Ports that a test has for itself.
pub(crate) const PORTS: u16 = 60;

/// The secret that nobody may see.
pub(crate) const CANARY: &str = "c4n4ry-t0ken$with'odd\"bytes";
/// What of it stays as it is however it is quoted.
pub(crate) const MARK: &str = "c4n4ry-t0ken";

pub(crate) struct Project {
    pub(crate) instance: Instance,
    pub(crate) base: u16,
    /// Held while the ports are this test's.
    _ports: UnixListener,
}

/// The first port of a range that no other test has.
fn ports() -> (UnixListener, u16) {
    (0..150)
        .find_map(|index| {
            let name = format!("palisade-test-ports-{index}");
            let address = SocketAddr::from_abstract_name(name).unwrap();
            Some((UnixListener::bind_addr(&address).ok()?, 21_000 + index * PORTS))
        })
        .expect("a free range of ports")
}

impl Project {
    /// A repository `khealth` with these two files committed. `@BASE@` in them stands for the first of the test's
    /// ports, which sandbox N adds N to; `@BASE+20@` and `@BASE+40@` leave room for others.
    pub(crate) fn new(infra: &str, compose: &str) -> Self {
        let (held, base) = ports();
        let project = Self { instance: Instance::new(), base, _ports: held };
        project.write(".devops-ai/infra.toml", infra);
        project.write("docker-compose.yml", compose);
        project.write(".gitignore", "config.yaml\n.env\n*.local\n");
        project.git(
            "git init --quiet --initial-branch=main && git config user.name Karl && git config user.email karl@example.org",
        );
        project.commit("start");
        project.op("printf %s \"$(cat \"$(dirname \"$0\")/canary\")\"");
        std::fs::write(project.programs().join("canary"), CANARY).unwrap();
        project
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.instance.work().canonicalize().unwrap().join("khealth")
    }

    pub(crate) fn slots(&self) -> PathBuf {
        self.instance.home().join(".devops-ai/slots")
    }

    fn programs(&self) -> PathBuf {
        self.instance.home().join("programs")
    }

    /// What stands for 1Password from now on.
    pub(crate) fn op(&self, script: &str) {
        one_password_stand_in(&self.programs(), script);
    }

    pub(crate) fn without_op(&self) {
        std::fs::remove_file(self.programs().join("op")).unwrap();
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.instance.work().join("khealth").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = text
            .replace("@BASE@", &self.base.to_string())
            .replace("@BASE+20@", &(self.base + 20).to_string())
            .replace("@BASE+40@", &(self.base + 40).to_string());
        std::fs::write(path, text).unwrap();
    }

    /// A shell script in the repository.
    #[track_caller]
    pub(crate) fn git(&self, script: &str) -> String {
        in_shell(&self.root(), script)
    }

    pub(crate) fn commit(&self, message: &str) {
        self.git(&format!("git add -A && git commit --quiet -m '{message}'"));
    }

    pub(crate) fn worktree(&self, name: &str) -> PathBuf {
        self.root().with_file_name(name)
    }

    pub(crate) fn command<'a>(&self, directory: &Path, words: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = self.instance.command(words);
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.programs().display());
        command.env("PATH", path).current_dir(directory);
        command
    }

    /// A command in the repository.
    #[track_caller]
    pub(crate) fn run<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Outcome {
        Instance::finish(&mut self.command(&self.root(), words))
    }

    #[track_caller]
    pub(crate) fn run_in<'a>(&self, directory: &Path, words: impl IntoIterator<Item = &'a str>) -> Outcome {
        Instance::finish(&mut self.command(directory, words))
    }

    /// The names of the slots.
    pub(crate) fn taken(&self) -> Vec<String> {
        let slots = self.run(["slots", "--json"]).ok().json();
        let name =
            |slot: &serde_json::Value| format!("{}-{}", slot["project"].as_str().unwrap(), slot["slot"]);
        slots.as_array().unwrap().iter().map(name).collect()
    }

    /// The compose projects of the slots.
    pub(crate) fn stacks(&self) -> Vec<String> {
        let slots = self.run(["slots", "--json"]).ok().json();
        let name = |slot: &serde_json::Value| slot["compose_project"].as_str().unwrap().to_owned();
        slots.as_array().unwrap().iter().map(name).collect()
    }

    /// What a running container of a service has as a variable.
    pub(crate) fn variable(&self, stack: &str, service: &str, name: &str) -> Option<String> {
        let label = |key: &str, value: &str| format!("label=com.docker.compose.{key}={value}");
        let (project, service) = (label("project", stack), label("service", service));
        let container = docker(&["ps", "--quiet", "--filter", &project, "--filter", &service]);
        let told = docker(&["inspect", "--format", "{{json .Config.Env}}", container.trim()]);
        let variables: Option<Vec<String>> = serde_json::from_str(&told).unwrap();
        variables
            .unwrap_or_default()
            .iter()
            .find_map(|variable| variable.strip_prefix(&format!("{name}=")).map(str::to_owned))
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let stacks = self.run(["slots", "--json"]);
        let stacks: Vec<serde_json::Value> = serde_json::from_str(&stacks.stdout).unwrap_or_default();
        for stack in &stacks {
            let feature = stack["feature"].as_str().unwrap_or_default();
            let removed = self.run(["done", "--force", feature]);
            if removed.code != 0 && !std::thread::panicking() {
                panic!("not removed: {}", removed.stderr);
            }
        }
    }
}

/// What the engine has of a compose project, by kind.
pub(crate) fn left_of(stack: &str) -> Vec<String> {
    let label = format!("label=com.docker.compose.project={stack}");
    let kinds =
        [("container", &["ps", "--all"][..]), ("network", &["network", "ls"]), ("volume", &["volume", "ls"])];
    let mut left = Vec::new();
    for (kind, list) in kinds {
        let told = docker(&[list, &["--quiet", "--filter", &label]].concat());
        left.extend(told.lines().map(|id| format!("{kind} {id}")));
    }
    left
}

/// What Docker's own program says.
#[track_caller]
pub(crate) fn docker(arguments: &[&str]) -> String {
    let told = Command::new("docker").args(arguments).output().unwrap();
    assert!(told.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&told.stderr));
    String::from_utf8(told.stdout).unwrap()
}

#[track_caller]
fn in_shell(directory: &Path, script: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(directory).env("GIT_CONFIG_GLOBAL", "/dev/null");
    let told = command.output().unwrap();
    assert!(told.status.success(), "{script}: {}", String::from_utf8_lossy(&told.stderr));
    String::from_utf8(told.stdout).unwrap().trim_end().to_owned()
}

/// A file over HTTP on this machine's loopback.
pub(crate) fn fetch(port: u16, path: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(palisade_testing::PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
}
