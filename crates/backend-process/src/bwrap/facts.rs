//! What the planner must know of the host's root: gathered once by looking, so that planning itself is pure.

use std::io;
use std::path::Path;

/// An entry of the host's root that belongs to the system's programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootEntry {
    /// `/bin -> usr/bin` on merged systems.
    Link { name: String, target: String },
    /// A directory of its own on others.
    Directory { name: String },
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostFacts {
    pub root: Vec<RootEntry>,
    /// Those of [`ETC`] that exist, and Java's configuration directories.
    pub etc: Vec<String>,
    /// What `/etc/localtime` points to.
    pub localtime: Option<String>,
    pub opt: bool,
    /// Kernel files under `/proc` to cover, as far as they exist.
    pub proc_read_only: Vec<String>,
    pub proc_masked_files: Vec<String>,
    pub proc_masked_directories: Vec<String>,
}

const ROOT: [&str; 7] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32", "libexec"];

/// The host's configuration that programs need to run, and nothing that tells of the host or its users.
const ETC: [&str; 15] = [
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/mime.types",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
];

const PROC_READ_ONLY: [&str; 6] =
    ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/pressure"];
const PROC_MASKED_FILES: [&str; 7] = [
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/kmsg",
];
const PROC_MASKED_DIRECTORIES: [&str; 3] = ["/proc/acpi", "/proc/asound", "/proc/scsi"];

impl HostFacts {
    pub fn gather() -> Self {
        let existing = |paths: &[&str]| -> Vec<String> {
            paths.iter().filter(|path| Path::new(path).exists()).map(|path| (*path).to_owned()).collect()
        };
        let mut etc = existing(&ETC);
        etc.extend(java_configuration().unwrap_or_default());
        Self {
            root: ROOT.iter().filter_map(|name| root_entry(name)).collect(),
            etc,
            localtime: link_target(Path::new("/etc/localtime")),
            opt: Path::new("/opt").is_dir(),
            proc_read_only: existing(&PROC_READ_ONLY),
            proc_masked_files: existing(&PROC_MASKED_FILES),
            proc_masked_directories: existing(&PROC_MASKED_DIRECTORIES),
        }
    }
}

fn root_entry(name: &str) -> Option<RootEntry> {
    let path = Path::new("/").join(name);
    match link_target(&path) {
        Some(target) => Some(RootEntry::Link { name: name.into(), target }),
        None => path.is_dir().then(|| RootEntry::Directory { name: name.into() }),
    }
}

fn link_target(path: &Path) -> Option<String> {
    std::fs::read_link(path).ok().and_then(|target| target.into_os_string().into_string().ok())
}

/// Debian keeps the JDK's own configuration outside `/usr`.
fn java_configuration() -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/etc")? {
        let entry = entry?;
        if let Some(name) = entry.file_name().to_str()
            && name.starts_with("java-")
            && entry.file_type()?.is_dir()
        {
            found.push(format!("/etc/{name}"));
        }
    }
    found.sort();
    Ok(found)
}
