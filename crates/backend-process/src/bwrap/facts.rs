//! What the planner must know of the host's root, or of another one: gathered once by looking, so that planning itself
//! is pure.

use palisade_core::policy::OWN_FILES;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// An entry of a root that belongs to the system's programs, by its path without the leading slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootEntry {
    /// `/bin -> usr/bin` on merged systems.
    Link { name: String, target: String },
    /// A directory of its own on others, or a file.
    Shown { name: String },
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostFacts {
    pub root: Vec<RootEntry>,
    /// Those of [`ETC`] that exist, and Java's configuration directories.
    pub etc: Vec<EtcEntry>,
    /// What `/etc/localtime` points to.
    pub localtime: Option<String>,
    pub opt: bool,
    /// Kernel files under `/proc` to cover, as far as they exist.
    pub proc_read_only: Vec<String>,
    pub proc_masked_files: Vec<String>,
    pub proc_masked_directories: Vec<String>,
}

/// How a part of the host's `/etc` gets into the sandbox. A mount costs bwrap a fifth of a millisecond, as much as ten small
/// files: it reads the table of all mounts for each. So what is small is copied, and only what has many entries is bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EtcEntry {
    Bound { path: String },
    Directory { path: String },
    Link { path: String, target: String },
    Copied { path: String, mode: u32 },
}

impl EtcEntry {
    /// How something that is listed is shown; nothing when it is not there.
    fn of(path: &str) -> Vec<Self> {
        // Followed where it is a link, as a mount of it would be.
        let Ok(meta) = std::fs::metadata(path) else { return Vec::new() };
        if may_be_copied(&meta) {
            return vec![Self::Copied { path: path.to_owned(), mode: meta.mode() & 0o777 }];
        }
        small_directory(path, &meta).unwrap_or_else(|| vec![Self::Bound { path: path.to_owned() }])
    }
}

/// A directory of few plain files and links as copies of these. Nothing when it has more, or anything that cannot be copied
/// exactly. A large one is told by its size, without listing it.
fn small_directory(path: &str, meta: &Metadata) -> Option<Vec<EtcEntry>> {
    const MOST: usize = 8;
    const ONE_BLOCK: u64 = 4096;
    if !meta.is_dir() || meta.mode() & 0o7777 != 0o755 || meta.nlink() > 2 || meta.len() > ONE_BLOCK {
        return None;
    }
    let mut entries = vec![EtcEntry::Directory { path: path.to_owned() }];
    for entry in std::fs::read_dir(path).ok()? {
        let below = entry.ok()?.path();
        let (meta, path) = (std::fs::symlink_metadata(&below).ok()?, below.to_str()?.to_owned());
        entries.push(match meta.is_symlink() {
            true => EtcEntry::Link { path, target: link_target(&below)? },
            false if may_be_copied(&meta) => EtcEntry::Copied { path, mode: meta.mode() & 0o777 },
            false => return None,
        });
        if entries.len() > MOST {
            return None;
        }
    }
    Some(entries)
}

/// Whether a copy of the file shows what the file shows: everybody may read it. A large one is quicker bound.
pub(super) fn may_be_copied(meta: &Metadata) -> bool {
    const LARGEST: u64 = 256 * 1024;
    const OTHERS_READ: u32 = 0o004;
    const SPECIAL: u32 = 0o7000;
    let mode = meta.mode();
    meta.is_file() && mode & OTHERS_READ != 0 && mode & SPECIAL == 0 && meta.len() <= LARGEST
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
        let java = java_configuration().unwrap_or_default();
        let etc = ETC.into_iter().chain(java.iter().map(String::as_str)).flat_map(EtcEntry::of).collect();
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

/// What every sandbox has of its own, and takes from no root.
const OWN: [&str; 10] = [".palisade", "dev", "etc", "home", "proc", "run", "sys", "tmp", "var", "workspace"];
/// Directories that stand inside as our own, with the root's entries in them.
const OPENED: [&str; 2] = ["etc", "var"];
/// More than any system has there; each is a mount.
const MOST_ENTRIES: usize = 1000;

impl HostFacts {
    /// Of a directory that holds a whole system. Whoever made it may have put anything there: a link is only read, never
    /// followed, and what is neither a file nor a directory is left out.
    pub fn of_root(root: &Path) -> io::Result<Self> {
        let mut entries = entries_of(root, "", |name| OWN.contains(&name))?;
        if !entries.iter().any(|entry| matches!(entry.name(), "bin" | "usr")) {
            return Err(io::Error::other("it holds no system: there is neither a bin nor a usr in it"));
        }
        for directory in OPENED {
            if std::fs::symlink_metadata(root.join(directory)).is_ok_and(|meta| meta.is_dir()) {
                let own = |name: &str| name == "var/tmp" || OWN_FILES.contains(&format!("/{name}").as_str());
                entries.extend(entries_of(root, directory, own)?);
            }
        }
        if entries.len() > MOST_ENTRIES {
            return Err(io::Error::other(format!(
                "there are more than {MOST_ENTRIES} files in it and in its etc"
            )));
        }
        Ok(Self { root: entries, etc: Vec::new(), localtime: None, ..Self::gather() })
    }
}

impl HostFacts {
    /// Whether a path inside is, or lies below, an entry of the root.
    pub fn covers(&self, guest: &str) -> bool {
        let below = |entry: &RootEntry| Path::new(guest).starts_with(Path::new("/").join(entry.name()));
        self.root.iter().any(below)
    }
}

impl RootEntry {
    fn name(&self) -> &str {
        match self {
            RootEntry::Link { name, .. } | RootEntry::Shown { name } => name,
        }
    }
}

/// The entries of a directory of a root that are shown, sorted. Names that are not text are nobody's programs.
fn entries_of(root: &Path, directory: &str, own: impl Fn(&str) -> bool) -> io::Result<Vec<RootEntry>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root.join(directory))? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let name = if directory.is_empty() { name } else { format!("{directory}/{name}") };
        if own(&name) {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            found.extend(link_target(&entry.path()).map(|target| RootEntry::Link { name, target }));
        } else if kind.is_dir() || kind.is_file() {
            found.push(RootEntry::Shown { name });
        }
    }
    found.sort_by(|a, b| a.name().cmp(b.name()));
    Ok(found)
}

fn root_entry(name: &str) -> Option<RootEntry> {
    let path = Path::new("/").join(name);
    match link_target(&path) {
        Some(target) => Some(RootEntry::Link { name: name.into(), target }),
        None => path.is_dir().then(|| RootEntry::Shown { name: name.into() }),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn small_files_are_copied_and_what_others_cannot_read_is_not() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
        let write = |name: &str, mode: u32| {
            std::fs::write(at(name), "x").unwrap();
            std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let bound = |name: &str| vec![EtcEntry::Bound { path: at(name) }];
        let copied = |name: &str, mode: u32| EtcEntry::Copied { path: at(name), mode };
        write("plain", 0o644);
        write("program", 0o755);
        write("secret", 0o640);
        symlink("plain", at("link")).unwrap();
        std::fs::File::create(at("large")).unwrap().set_len(1 << 20).unwrap();
        assert_eq!(EtcEntry::of(&at("plain")), [copied("plain", 0o644)]);
        assert_eq!(EtcEntry::of(&at("program")), [copied("program", 0o755)]);
        assert_eq!(EtcEntry::of(&at("link")), [copied("link", 0o644)], "as a mount of it would show it");
        assert_eq!(EtcEntry::of(&at("secret")), bound("secret"));
        assert_eq!(EtcEntry::of(&at("large")), bound("large"));
        assert_eq!(EtcEntry::of(&at("absent")), []);

        std::fs::create_dir(at("few")).unwrap();
        std::fs::set_permissions(at("few"), std::fs::Permissions::from_mode(0o755)).unwrap();
        symlink("../plain", at("few/link")).unwrap();
        let link = EtcEntry::Link { path: at("few/link"), target: "../plain".into() };
        assert_eq!(EtcEntry::of(&at("few")), [EtcEntry::Directory { path: at("few") }, link]);
        write("few/secret", 0o600);
        assert_eq!(EtcEntry::of(&at("few")), bound("few"), "one of them cannot be copied");
        std::fs::remove_file(at("few/secret")).unwrap();
        (0..8).for_each(|number| write(&format!("few/{number}"), 0o644));
        assert_eq!(EtcEntry::of(&at("few")), bound("few"), "there are many");
    }

    #[test]
    fn a_root_is_surveyed_without_following_what_its_maker_put_there() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for directory in
            ["usr/bin", "opt", "etc/ssl", "var/lib", "var/tmp", "home/user", "proc", "tmp", "workspace"]
        {
            std::fs::create_dir_all(at(directory)).unwrap();
        }
        for file in ["etc/passwd", "etc/resolv.conf", "etc/profile", "notes.txt"] {
            std::fs::write(at(file), "").unwrap();
        }
        for (name, target) in [
            ("bin", "usr/bin"),
            ("lib", "/etc"),
            ("srv", "../../../../root"),
            ("run", "/run"),
            ("etc/shadow", "/etc/shadow"),
            ("etc/hosts", "/etc/hosts"),
            ("var/log", "/var/log"),
        ] {
            symlink(target, at(name)).unwrap();
        }
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let link = |name: &str, target: &str| RootEntry::Link { name: name.into(), target: target.into() };
        let shown = |name: &str| RootEntry::Shown { name: name.into() };
        let facts = HostFacts::of_root(root.path()).unwrap();
        assert_eq!(
            facts.root,
            [
                link("bin", "usr/bin"),
                link("lib", "/etc"),
                shown("notes.txt"),
                shown("opt"),
                link("srv", "../../../../root"),
                shown("usr"),
                shown("etc/profile"),
                link("etc/shadow", "/etc/shadow"),
                shown("etc/ssl"),
                shown("var/lib"),
                link("var/log", "/var/log"),
            ]
        );
        assert_eq!((facts.etc, facts.localtime), (Vec::new(), None));
    }

    #[test]
    fn an_etc_that_is_a_link_is_not_entered() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("usr")).unwrap();
        symlink("/etc", root.path().join("etc")).unwrap();
        let facts = HostFacts::of_root(root.path()).unwrap();
        assert_eq!(facts.root, [RootEntry::Shown { name: "usr".into() }]);
    }

    #[test]
    fn a_directory_without_programs_is_no_root() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("src")).unwrap();
        let told = HostFacts::of_root(root.path()).unwrap_err().to_string();
        assert_eq!(told, "it holds no system: there is neither a bin nor a usr in it");
    }
}
