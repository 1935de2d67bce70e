//! A Debian of our own, for where none can be pulled: planned here without I/O, made by `mmdebstrap` from the machine's
//! own source of packages, and kept, because every engine of this machine can be given the same one.

use crate::error::ImageError;
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

/// What an engine calls it.
pub const IMAGE: &str = "palisade-root:latest";
const SUITE: &str = "trixie";
/// mmdebstrap lends it the host's own name and name servers, which are no part of a Debian.
const FORGET: &str = r#"--customize-hook=rm -f "$1/etc/resolv.conf" "$1/etc/hostname""#;
/// How many lines of a failure are told.
const LAST_WORDS: usize = 3;

/// Where apt gets Debian from on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources(Vec<String>);

/// Asks apt for each source of Debian packages, as `SITE RELEASE`.
const APT: &str = "apt-get";
const APT_ARGUMENTS: [&str; 5] =
    ["indextargets", "--format", "$(SITE) $(RELEASE)", "Created-By: Packages", "Origin: Debian"];

impl Sources {
    /// The lines of a sources.list for our suite, from apt's own answer. Nothing when it knows of no Debian: mmdebstrap
    /// then uses Debian's own servers. An address with a password in it is not taken, for it would stay in the image.
    pub fn of_targets(answer: &str) -> Self {
        let mut lines = Vec::new();
        for line in answer.lines() {
            let Some((site, release)) = line.split_once(' ') else { continue };
            if site.contains('@') || !site.contains("://") || site.contains(char::is_whitespace) {
                continue;
            }
            let suites: &[&str] = match release.rsplit_once('-').map(|(_, suffix)| suffix) {
                Some("security") => &["-security"],
                Some(_) => &[],
                None => &["", "-updates"],
            };
            lines.extend(suites.iter().map(|suffix| format!("deb {site} {SUITE}{suffix} main")));
        }
        lines.sort();
        lines.dedup();
        Self(lines)
    }

    /// What apt of this machine says; nothing where there is no apt.
    pub async fn of_machine() -> Self {
        let asked = Command::new(APT).args(APT_ARGUMENTS).stdin(Stdio::null()).output().await;
        match asked {
            Ok(output) if output.status.success() => {
                Self::of_targets(&String::from_utf8_lossy(&output.stdout))
            }
            _ => Self::default(),
        }
    }
}

/// How the archive is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootPlan {
    arguments: Vec<String>,
}

impl RootPlan {
    pub fn new(sources: &Sources) -> Self {
        let options = ["--variant=minbase", "--format=tar", "--include=ca-certificates", FORGET, SUITE];
        Self {
            arguments: options
                .into_iter()
                .chain(["-"])
                .map(str::to_owned)
                .chain(sources.0.iter().cloned())
                .collect(),
        }
    }

    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// The file below a directory of caches.
    pub fn file(&self, cache: &Path) -> PathBuf {
        let digest = Sha256::digest(self.arguments.join("\n"));
        let short: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        cache.join(format!("root-{SUITE}-{short}.tar"))
    }
}

/// How making it went.
#[derive(Debug)]
pub enum RootFailure {
    /// There is no mmdebstrap.
    NotInstalled,
    Failed(ImageError),
}

/// Makes the archive, unless there is one already and it will do. `said` hears what mmdebstrap tells.
pub async fn make(
    plan: &RootPlan,
    cache: &Path,
    reuse: bool,
    said: &mut dyn FnMut(&str),
) -> Result<PathBuf, RootFailure> {
    let failed = |what: &str, error| RootFailure::Failed(ImageError::io(what, error));
    let file = plan.file(cache);
    if reuse && file.is_file() {
        return Ok(file);
    }
    std::fs::create_dir_all(cache).map_err(|error| failed(&format!("make {}", cache.display()), error))?;
    // Another process may be at the same: each writes its own, and the last one's name wins.
    let partial = file.with_extension(format!("{}.partial", std::process::id()));
    let _unfinished = Unfinished(&partial);
    let out = std::fs::File::create(&partial)
        .map_err(|error| failed(&format!("make {}", partial.display()), error))?;
    let spawned = Command::new("mmdebstrap")
        .args(plan.arguments())
        // The same packages give the same bytes.
        .env("SOURCE_DATE_EPOCH", "0")
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let mut child = match spawned {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(RootFailure::NotInstalled),
        spawned => spawned.map_err(|error| failed("start mmdebstrap", error))?,
    };
    let mut words = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        let mut lines = BufReader::new(stderr).split(b'\n');
        while let Ok(Some(line)) = lines.next_segment().await {
            let line = String::from_utf8_lossy(&line).trim().to_owned();
            said(&line);
            words.push(line);
        }
    }
    let status = child.wait().await.map_err(|error| failed("wait for mmdebstrap", error))?;
    if !status.success() {
        let last = words.split_off(words.len().saturating_sub(LAST_WORDS)).join("; ");
        return Err(RootFailure::Failed(ImageError::Root { how: status.to_string(), said: last }));
    }
    std::fs::rename(&partial, &file).map_err(|error| failed(&format!("name {}", file.display()), error))?;
    Ok(file)
}

/// Removes what was not finished; after a success there is nothing under that name.
struct Unfinished<'a>(&'a Path);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_of_the_machine_are_used_for_our_suite() {
        let answer = "http://packages.example/debian bookworm\n\
                      http://packages.example/debian bookworm\n\
                      http://packages.example/debian bookworm-updates\n\
                      http://packages.example/debian-security bookworm-security\n\
                      https://user:word@private.example/debian bookworm\n\
                      broken\n";
        assert_eq!(
            RootPlan::new(&Sources::of_targets(answer)).arguments(),
            [
                "--variant=minbase",
                "--format=tar",
                "--include=ca-certificates",
                FORGET,
                "trixie",
                "-",
                "deb http://packages.example/debian trixie main",
                "deb http://packages.example/debian trixie-updates main",
                "deb http://packages.example/debian-security trixie-security main",
            ]
        );
    }

    #[test]
    fn without_sources_debian_s_own_servers_are_used() {
        assert_eq!(Sources::of_targets(""), Sources::default());
        assert_eq!(RootPlan::new(&Sources::default()).arguments().last().unwrap(), "-");
    }

    #[test]
    fn each_plan_has_a_file_of_its_own() {
        let cache = Path::new("/cache");
        let one = RootPlan::new(&Sources::default()).file(cache);
        let other =
            RootPlan::new(&Sources::of_targets("http://packages.example/debian bookworm")).file(cache);
        assert_ne!(one, other);
        assert!(one.to_string_lossy().starts_with("/cache/root-trixie-"), "{}", one.display());
    }
}
