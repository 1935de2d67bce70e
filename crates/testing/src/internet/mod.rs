//! An internet of a test's own: a network in which the host has one cable, and at its other end is a machine with a
//! public, a private and a metadata address. Made of namespaces, so it needs neither root nor a way out.
//!
//! Names there: `site`, `other`, `a.wild` and `mixed` (public, the last one private as well), `private`, `meta`, `loop`
//! (the host's loopback) and `own` (the host's own address), each below `example.net`.

use crate::{Instance, Outcome, is_root};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

const WORLD: &str = include_str!("world.sh");
const SERVER: &str = include_str!("server.py");

#[derive(Debug)]
pub struct Internet {
    place: tempfile::TempDir,
    child: Child,
    /// It ends when this is closed.
    input: Option<ChildStdin>,
    /// A process on the host's side of it, and one at the far end.
    host: String,
    far: String,
}

impl Default for Internet {
    fn default() -> Self {
        Self::new()
    }
}

impl Internet {
    pub fn new() -> Self {
        let place = tempfile::Builder::new().prefix("pi-").tempdir_in("/tmp").expect("a temporary directory");
        std::fs::write(place.path().join("server.py"), SERVER).expect("the server's script");
        std::fs::create_dir(place.path().join("files")).expect("a directory to serve");
        let user: &[&str] = if is_root() { &[] } else { &["--user", "--map-current-user", "--keep-caps"] };
        let mut child = Command::new("unshare")
            .args(user)
            .args(["--net", "--mount", "--", "bash", "-c", WORLD, "world"])
            .arg(place.path())
            .arg("/usr/bin/python3")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare starts");
        let input = child.stdin.take();
        let mut line = String::new();
        let output = child.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut line).expect("its first line");
        let numbers = line.trim().strip_prefix("ready ").and_then(|line| line.split_once(' '));
        let (host, far) = numbers.unwrap_or_else(|| panic!("the internet failed"));
        let (host, far) = (host.to_owned(), far.to_owned());
        Self { place, child, input, host, far }
    }

    /// A directory whose files are served below `/files/`.
    pub fn files(&self) -> PathBuf {
        self.place.path().join("files")
    }

    /// What the far end's certificate is signed with.
    pub fn certificate(&self) -> PathBuf {
        self.place.path().join("cert.pem")
    }

    /// The words that go on with a program, on the host's side.
    fn enter(&self, directory: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.host, "--net", "--mount"]);
        if !is_root() {
            command.args(["--user", "--preserve-credentials"]);
        }
        // Entering puts one at the root of the file system.
        command.arg("--").arg("env").arg("-C").arg(directory);
        command
    }

    /// A command on the machine at the far end, for root only. It sees the host's files, and an empty /run.
    pub fn at_far_end(&self, script: &str) -> Command {
        let own = format!("mount -t tmpfs run /run && {script}");
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.far, "--net", "--", "unshare", "--mount", "--", "sh", "-c", &own]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// A command of the host's, which has all of this internet: the control.
    #[track_caller]
    pub fn on_host(&self, words: &[&str]) -> Outcome {
        Outcome::from(self.enter(Path::new("/")).args(words).output().expect("nsenter starts"))
    }

    /// Palisade, on the host of this internet.
    pub fn command<A: AsRef<OsStr>>(
        &self,
        instance: &Instance,
        arguments: impl IntoIterator<Item = A>,
    ) -> Command {
        let plain = instance.command(arguments);
        let mut command = self.enter(plain.get_current_dir().expect("a directory"));
        command.arg(plain.get_program()).args(plain.get_args());
        command.env_clear().stdin(Stdio::null());
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    }

    #[track_caller]
    pub fn run<A: AsRef<OsStr>>(
        &self,
        instance: &Instance,
        arguments: impl IntoIterator<Item = A>,
    ) -> Outcome {
        Instance::finish(&mut self.command(instance, arguments))
    }
}

impl Drop for Internet {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
