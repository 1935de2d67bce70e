//! Policy → bwrap's arguments, as a pure function: what isolates a sandbox can be read and tested here without
//! any privilege.
//!
//! Invariants: nothing of the host is shown but what is listed; every namespace is new; later binds lie over
//! earlier ones, so read-only carve-outs come after the directory they carve; and the root and `/dev` end
//! read-only, so the only writable places are those with a size limit or a directory of their own.

use super::facts::{EtcEntry, HostFacts, RootEntry};
use palisade_core::policy::{HOME, INSIDE_ID, USER, WORKSPACE};
use palisade_core::{Access, ByteSize, HostPath, Network};
use std::ffi::OsString;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub use palisade_core::policy::GUEST;

/// A host path to be shown at a guest path. `host` is where bwrap will find it, which for root is a staged place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    pub host: HostPath,
    pub guest: String,
    pub access: Access,
    /// A descriptor of the same place, by its number, for a bwrap that can be given one.
    pub descriptor: Option<RawFd>,
}

impl Bind {
    /// Of a path that nobody but us can change.
    pub fn named(host: HostPath, guest: impl Into<String>, access: Access) -> Self {
        Self { host, guest: guest.into(), access, descriptor: None }
    }
}

/// What a writable place is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Directory(Bind),
    Memory,
}

#[derive(Debug, Clone)]
pub struct PlanInput<'a> {
    pub facts: &'a HostFacts,
    pub guest_binary: &'a HostPath,
    pub hostname: &'a str,
    pub home: Place,
    pub workspace: Place,
    /// The directory that the facts were gathered from; the host's own root without one.
    pub root: Option<HostPath>,
    /// Tools and extra mounts, in order.
    pub binds: Vec<Bind>,
    /// Read-only carve-outs and pinned directories inside writable binds; they come last.
    pub fence: Vec<Bind>,
    pub opt: bool,
    pub network: Network,
    pub tmp: ByteSize,
}

/// A file that is made inside the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFile {
    pub guest: String,
    pub mode: u32,
    pub content: FileContent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileContent {
    /// Text of our own.
    Text(String),
    /// What this file of the host's holds.
    Host(HostPath),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Options for `--args`, without the ones that name file descriptors.
    pub options: Vec<OsString>,
    /// Written inside through descriptors: `--perms MODE --file FD PATH` each, before `closing`.
    pub files: Vec<PlannedFile>,
    /// Options that must follow the files: they close the root for writing.
    pub closing: Vec<OsString>,
}

/// Collects options; a thin wrapper so that the plan below reads as a list.
#[derive(Default)]
struct Options(Vec<OsString>);

impl Options {
    fn add<T: Into<OsString>>(&mut self, words: impl IntoIterator<Item = T>) {
        self.0.extend(words.into_iter().map(Into::into));
    }

    fn bind(&mut self, bind: &Bind) {
        let (option, source) = match (bind.descriptor, bind.access) {
            (None, Access::ReadOnly) => ("--ro-bind", bind.host.as_path().into()),
            (None, Access::ReadWrite) => ("--bind", bind.host.as_path().into()),
            (Some(number), Access::ReadOnly) => ("--ro-bind-fd", number.to_string().into()),
            (Some(number), Access::ReadWrite) => ("--bind-fd", number.to_string().into()),
        };
        self.add([OsString::from(option), source, OsString::from(&bind.guest)]);
    }

    fn tmpfs(&mut self, size: ByteSize, path: &str) {
        let size = size.0.to_string();
        self.add(["--size", &size, "--tmpfs", path]);
    }

    fn place(&mut self, place: &Place, size: ByteSize, path: &str) {
        match place {
            Place::Directory(bind) => self.bind(bind),
            Place::Memory => {
                self.add(["--perms", "0755"]);
                self.tmpfs(size, path);
            }
        }
    }
}

pub fn plan(input: &PlanInput<'_>) -> Plan {
    let mut options = Options::default();
    namespaces(&mut options, input.hostname);
    system(&mut options, input);
    kernel_files(&mut options, input.facts);
    options.add(["--perms", "1777"]);
    options.tmpfs(input.tmp, "/tmp");
    options.add(["--dir", "/var", "--symlink", "/tmp", "/var/tmp", "--dir", "/run", "--dir", "/home"]);
    options.place(&input.home, input.tmp, HOME);
    options.place(&input.workspace, input.tmp, WORKSPACE);
    for bind in input.binds.iter().chain(&input.fence) {
        options.bind(bind);
    }
    options.add(["--dir", "/.palisade"]);
    options.bind(&Bind::named(input.guest_binary.clone(), GUEST, Access::ReadOnly));
    let mut closing = Options::default();
    closing.add(["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]);
    let mut files = copied_files(input.facts);
    files.extend(text_files(input.hostname, input.network));
    Plan { options: options.0, files, closing: closing.0 }
}

fn namespaces(options: &mut Options, hostname: &str) {
    let id = INSIDE_ID.to_string();
    options.add([
        "--unshare-user",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-uts",
        "--unshare-cgroup",
        "--uid",
        &id,
        "--gid",
        &id,
        "--hostname",
        hostname,
        "--cap-drop",
        "ALL",
        "--clearenv",
        "--new-session",
        "--die-with-parent",
        "--as-pid-1",
    ]);
}

/// The programs and what they need of `/etc`, read-only: the host's, or those of another root. Links are made anew, so
/// that they lead nowhere but to a place inside.
fn system(options: &mut Options, input: &PlanInput<'_>) {
    match &input.root {
        None => options.add(["--ro-bind", "/usr", "/usr"]),
        Some(_) => options.add(["--dir", "/etc", "--dir", "/var"]),
    }
    for entry in &input.facts.root {
        match entry {
            RootEntry::Link { name, target } => options.add(["--symlink", target, &format!("/{name}")]),
            RootEntry::Shown { name } => {
                let guest = format!("/{name}");
                let host = match &input.root {
                    None => OsString::from(&guest),
                    Some(root) => root.join(name).as_path().into(),
                };
                options.add([OsString::from("--ro-bind"), host, OsString::from(guest)]);
            }
        }
    }
    options.add(["--dir", "/etc"]);
    for entry in &input.facts.etc {
        match entry {
            EtcEntry::Bound { path } => options.add(["--ro-bind", path, path]),
            EtcEntry::Directory { path } => options.add(["--dir", path]),
            EtcEntry::Link { path, target } => options.add(["--symlink", target, path]),
            // Made from a descriptor, see `Plan::files`.
            EtcEntry::Copied { .. } => {}
        }
    }
    if let Some(target) = &input.facts.localtime {
        options.add(["--symlink", target, "/etc/localtime"]);
    }
    if input.opt && input.facts.opt {
        options.add(["--ro-bind", "/opt", "/opt"]);
    }
}

/// A private `/proc` whose writable kernel files are closed, and a minimal `/dev`.
fn kernel_files(options: &mut Options, facts: &HostFacts) {
    options.add(["--proc", "/proc"]);
    for path in &facts.proc_read_only {
        options.add(["--ro-bind", path, path]);
    }
    for path in &facts.proc_masked_files {
        options.add(["--ro-bind", "/dev/null", path]);
    }
    for path in &facts.proc_masked_directories {
        options.add(["--size", "4096", "--tmpfs", path, "--remount-ro", path]);
    }
    options.add(["--dev", "/dev", "--perms", "1777"]);
    options.tmpfs(ByteSize(64 * ByteSize::MIB), "/dev/shm");
}

fn copied_files(facts: &HostFacts) -> Vec<PlannedFile> {
    let file = |entry: &EtcEntry| match entry {
        EtcEntry::Copied { path, mode } => {
            let content = FileContent::Host(HostPath::new(path).ok()?);
            Some(PlannedFile { guest: path.clone(), mode: *mode, content })
        }
        _ => None,
    };
    facts.etc.iter().filter_map(file).collect()
}

fn text_files(hostname: &str, network: Network) -> Vec<PlannedFile> {
    let name_server = match network {
        Network::None => "# There is no name server here: this sandbox has no network.\n",
        Network::Allowlist | Network::Open => "nameserver 127.0.0.1\n",
    };
    let file = |guest: &str, text: String| PlannedFile {
        guest: guest.into(),
        mode: 0o644,
        content: FileContent::Text(text),
    };
    vec![
        file(
            "/etc/passwd",
            format!(
                "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n{USER}:x:{INSIDE_ID}:{INSIDE_ID}:{USER}:{HOME}:/bin/bash\n"
            ),
        ),
        file("/etc/group", format!("root:x:0:\n{USER}:x:{INSIDE_ID}:\n")),
        file("/etc/hosts", format!("127.0.0.1 localhost {hostname}\n::1 localhost {hostname}\n")),
        file("/etc/hostname", format!("{hostname}\n")),
        file("/etc/resolv.conf", name_server.into()),
        file("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n".into()),
    ]
}

/// Arguments in the form `--args` reads: each ended by a NUL.
pub fn nul_separated<'a>(arguments: impl IntoIterator<Item = &'a OsString>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for argument in arguments {
        bytes.extend_from_slice(argument.as_bytes());
        bytes.push(0);
    }
    bytes
}

/// Paths that bwrap can open whoever it runs as; everything else is staged when started by root.
pub fn is_system_path(path: &Path) -> bool {
    path.starts_with("/usr") || path.starts_with("/etc")
}

#[cfg(test)]
mod tests;
