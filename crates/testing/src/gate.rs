//! What a test may need, and how its presence is told.

use crate::wait::PATIENCE;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    Open,
    Skip(String),
}

impl Gate {
    /// Panics when the thing is missing although `PALISADE_REQUIRE` (names separated by commas) asks for it.
    pub fn check(what: &str) -> Gate {
        let Err(reason) = present(what) else { return Gate::Open };
        let required = std::env::var("PALISADE_REQUIRE").unwrap_or_default();
        assert!(
            !required.split(',').any(|name| name.trim() == what),
            "{what} is required here, but {reason}"
        );
        Gate::Skip(format!("{what}: {reason}"))
    }
}

fn present(what: &str) -> Result<(), String> {
    match what {
        "bwrap" => works("bwrap", &["--unshare-user", "--ro-bind", "/", "/", "true"]),
        // It needs nothing; named so that a test over all methods can ask for each in the same way.
        "noop" => Ok(()),
        "git" => works("git", &["--version"]),
        "git_lfs" => works("/usr/bin/git-lfs", &["version"]),
        "tmux" => works("tmux", &["-V"]),
        "agents" => agents_are_installed(),
        "docker" => engine_answers("DOCKER_HOST"),
        "podman" => engine_answers("CONTAINER_HOST"),
        "compose" => works("docker", &["compose", "version"]),
        // The system's own, which a sandbox sees, too; with the modules that probes use.
        "python3" => works("/usr/bin/python3", &["-IS", "-c", "import ctypes, json, mmap, pty, socket"]),
        // Where a sandbox sees it, too.
        "direnv" => works("/usr/bin/direnv", &["version"]),
        "curl" => works("/usr/bin/curl", &["--version"]),
        "node" => works("/usr/bin/node", &["--version"]),
        "npm" => works("/usr/bin/npm", &["--version"]),
        "java" => works("/usr/bin/javac", &["-version"]),
        "pip" => works("/usr/bin/python3", &["-m", "pip", "--version"]),
        "go" => works("/usr/bin/go", &["version"]),
        "cargo" => works(&rust_toolchain().join("bin/cargo").to_string_lossy(), &["--version"]),
        "sshd" => works("/usr/bin/test", &["-x", "/usr/sbin/sshd"]),
        "root" if is_root() => Ok(()),
        "root" => Err("this test needs root, and this is an ordinary user".into()),
        "user" if !is_root() => Ok(()),
        "user" => Err("this test needs an ordinary user, and this is root".into()),
        other => panic!("requires!({other}): nobody knows how to look for it; add it to the gate"),
    }
}

/// Where the agents from npm are: `PALISADE_AGENTS`, or the place where scripts/setup puts them as root.
pub fn agents() -> PathBuf {
    std::env::var_os("PALISADE_AGENTS").map_or_else(|| "/var/cache/palisade/agents".into(), PathBuf::from)
}

/// Where the compiler and Cargo are that build this project; an empty path when there are none.
pub fn rust_toolchain() -> PathBuf {
    let asked = Command::new("rustc").args(["--print", "sysroot"]).stdin(Stdio::null()).output();
    asked.map(|told| String::from_utf8_lossy(&told.stdout).trim().into()).unwrap_or_default()
}

fn agents_are_installed() -> Result<(), String> {
    for name in ["claude", "codex", "gemini"] {
        let path = agents().join("node_modules/.bin").join(name);
        works(&path.to_string_lossy(), &["--version"])?;
    }
    Ok(())
}

/// An engine is used only when its address is given, so that no test touches the one that the user works with.
fn engine_answers(variable: &str) -> Result<(), String> {
    let hint = "scripts/engines starts one for the tests";
    let address = std::env::var(variable).map_err(|_| format!("{variable} is not set; {hint}"))?;
    let path = address.strip_prefix("unix://").ok_or(format!("{variable} is no unix socket: {address}"))?;
    let ping = || -> std::io::Result<String> {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n")?;
        let mut status = String::new();
        BufReader::new(stream).read_line(&mut status)?;
        Ok(status)
    };
    match ping() {
        Ok(status) if status.contains(" 200 ") => Ok(()),
        Ok(status) => Err(format!("{address} answers {:?}; {hint}", status.trim())),
        Err(error) => Err(format!("{address}: {error}; {hint}")),
    }
}

fn works(program: &str, arguments: &[&str]) -> Result<(), String> {
    let ran = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    match ran {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{program} fails: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{program}: {error}")),
    }
}
