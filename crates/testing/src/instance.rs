//! An installation of Palisade of a test's own: its own home, state and configuration, gone at the end.

use crate::traces::owners_levels;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// `PALISADE_BIN`, or the program beside the test's own target directory.
pub fn palisade_binary() -> PathBuf {
    if let Some(path) = std::env::var_os("PALISADE_BIN") {
        return path.into();
    }
    let test = std::env::current_exe().expect("the test's own path");
    let target = test.parent().and_then(Path::parent).expect("a target directory above the test");
    target.join("palisade")
}

/// `PALISADE_GUEST`, or the program beside the test's own target directory.
pub fn guest_binary() -> PathBuf {
    if let Some(path) = std::env::var_os("PALISADE_GUEST") {
        return path.into();
    }
    palisade_binary().with_file_name("palisade-guest")
}

#[derive(Debug)]
pub struct Instance {
    root: tempfile::TempDir,
    method: Option<&'static str>,
    /// What its containers are made from, when not from what is usual.
    image: Option<&'static str>,
}

/// What a command said, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub stdout: String,
    pub stderr: String,
    /// The exit code, or minus the signal.
    pub code: i32,
}

impl Outcome {
    /// The outcome, after checking that the command succeeded.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {}", self.stdout))
    }
}

impl Default for Instance {
    fn default() -> Self {
        Self::new()
    }
}

impl Instance {
    pub fn new() -> Self {
        let root = tempfile::Builder::new().prefix("pt-").tempdir_in("/tmp").expect("a temporary directory");
        for name in ["home", "state", "config", "work"] {
            std::fs::create_dir(root.path().join(name)).expect("directories of the instance");
        }
        Self { root, method: None, image: None }
    }

    /// An instance whose every command uses this method.
    pub fn with_method(method: &'static str) -> Self {
        let mut instance = Self::new();
        instance.method = Some(method);
        instance
    }

    /// The same, with Python inside on every method: bwrap shows the host's, and engines have an image with it.
    pub fn with_python(method: &'static str) -> Self {
        let mut instance = Self::with_method(method);
        instance.image = Some("palisade-python:latest");
        instance
    }

    /// Makes a directory one that a sandbox may be bound to. Engines map no owner to another and nothing in a container
    /// is root, so with them a directory of root's becomes an ordinary user's.
    pub fn give(&self, directory: &Path) {
        const ORDINARY: u32 = 1000;
        if crate::is_root() && matches!(self.method, Some("docker" | "podman")) {
            let mut pending = vec![directory.to_owned()];
            while let Some(path) = pending.pop() {
                std::os::unix::fs::lchown(&path, Some(ORDINARY), Some(ORDINARY)).expect("give it away");
                if path.is_dir() && !path.is_symlink() {
                    let entries = std::fs::read_dir(&path).expect("a directory").flatten();
                    pending.extend(entries.map(|entry| entry.path()));
                }
            }
        }
    }

    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// Palisade's own state directory.
    pub fn state(&self) -> PathBuf {
        self.root.path().join("state/palisade")
    }

    pub fn user_config(&self) -> PathBuf {
        self.root.path().join("config/palisade/config.toml")
    }

    /// An empty directory for the test's own files; commands run in it.
    pub fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// Where commands look for an engine when the tests have none.
    pub fn no_engine(&self) -> PathBuf {
        self.root.path().join("no-engine")
    }

    /// The id under which this instance owns things outside its directories; made by the first command.
    pub fn owner(&self) -> String {
        std::fs::read_to_string(self.state().join("instance")).unwrap_or_default()
    }

    /// The program with the instance's own surroundings and nothing of the test's, but where the guest is.
    pub fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(palisade_binary());
        command
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", self.home())
            .env("XDG_STATE_HOME", self.root.path().join("state"))
            .env("XDG_CONFIG_HOME", self.root.path().join("config"))
            .current_dir(self.work())
            .stdin(Stdio::null());
        if let Some(guest) = std::env::var_os("PALISADE_GUEST") {
            command.env("PALISADE_GUEST", guest);
        }
        // The engines of the tests or none at all, but never the one that the user of this machine works with.
        for variable in ["DOCKER_HOST", "CONTAINER_HOST"] {
            let nobody = || format!("unix://{}", self.no_engine().display()).into();
            command.env(variable, std::env::var_os(variable).unwrap_or_else(nobody));
        }
        if let Some(method) = self.method {
            command.env("SANDBOX_METHOD", method);
        }
        if let Some(image) = self.image {
            command.env("PALISADE_IMAGE", image);
        }
        command
    }

    #[track_caller]
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Outcome {
        Self::finish(&mut self.command(arguments))
    }

    #[track_caller]
    pub fn run_with_input<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        input: &[u8],
    ) -> Outcome {
        let mut command = self.command(arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("palisade starts");
        let mut stdin = child.stdin.take().expect("a pipe to its input");
        let input = input.to_vec();
        let writer = std::thread::spawn(move || {
            // The command may end without reading everything.
            let _ = stdin.write_all(&input);
        });
        let output = child.wait_with_output().expect("palisade ends");
        writer.join().expect("the writer ends");
        Outcome::from(output)
    }

    /// Runs a command made by [`Instance::command`] and changed by the test.
    #[track_caller]
    pub fn finish(command: &mut Command) -> Outcome {
        Outcome::from(command.output().expect("palisade starts"))
    }

    /// A sandbox that runs.
    #[track_caller]
    pub fn started(&self, name: &str) {
        self.run(["create", name]).ok();
        self.run(["start", name]).ok();
    }

    /// `sh -c script` in a running sandbox.
    #[track_caller]
    pub fn shell(&self, name: &str, script: &str) -> Outcome {
        self.run(["exec", name, "--", "sh", "-c", script])
    }
}

impl From<std::process::Output> for Outcome {
    fn from(output: std::process::Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let code = output.status.code().or_else(|| output.status.signal().map(|signal| -signal));
        Self {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: code.expect("an exit code or a signal"),
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Whatever a failed test left running ends here; only this instance's own sandboxes are known to it.
        let listed = self.run(["ls", "--json"]);
        let names: Vec<String> = serde_json::from_str::<serde_json::Value>(&listed.stdout)
            .ok()
            .and_then(|value| value.as_array().cloned())
            .unwrap_or_default()
            .iter()
            .filter_map(|row| row["name"].as_str().map(str::to_owned))
            .collect();
        // Without a look at an agent's work, which may be of a kind that keeps a sandbox from being removed.
        for name in names {
            self.run(["rm", "--discard", &name]);
        }
        self.run(["gc"]);
        // It has no next run. Fails where something is still in it, which then is for a test to find.
        let owner = self.owner();
        if !owner.is_empty() {
            owners_levels(&owner).into_iter().for_each(|level| drop(std::fs::remove_dir(level)));
        }
    }
}
