//! Whether a sandbox will find the programs that its environment needs, before anything is started.

use palisade_core::backend::{SYSTEM_PATH, programs_of};
use palisade_core::{BackendError, HostPath, Root, SandboxSpec, ToolName};
use palisade_host::program::is_executable;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::path::{Path, PathBuf};

/// The host's own places that every sandbox with the host's root sees.
const SHOWN: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/libexec"];

/// All that are missing, told at once.
pub(crate) fn require(spec: &SandboxSpec, is_there: impl Fn(&ToolName) -> bool) -> Result<(), BackendError> {
    let foundation = &spec.foundation;
    let missing: Vec<&str> =
        foundation.requires.iter().filter(|tool| !is_there(tool)).map(ToolName::as_str).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let tools = missing.join(" and ");
    let (place, fix) = match &foundation.root {
        Root::Host => (
            "this host".to_owned(),
            format!("install {tools} on this host, or show the directory it is in with --tool DIR"),
        ),
        Root::Directory { path } => (path.to_string(), format!("add {tools} to {path}")),
    };
    let environment = foundation.environment.as_ref().map(ToString::to_string).unwrap_or_default();
    Err(BackendError::MissingTools { environment, tools, place, fix })
}

/// Whether bwrap will show this program: it must not only be on the host, but in a place that is seen inside.
pub(crate) fn is_shown(spec: &SandboxSpec, tool: &ToolName) -> bool {
    let tools = &spec.policy.tools;
    if tools.iter().flat_map(programs_of).any(|directory| is_executable(&directory.join(tool.as_str()))) {
        return true;
    }
    match &spec.foundation.root {
        Root::Host => SYSTEM_PATH.iter().any(|directory| {
            let real = Path::new(directory).join(tool.as_str()).canonicalize();
            let seen = |path: &PathBuf| {
                SHOWN.iter().any(|place| path.starts_with(place))
                    || (spec.policy.opt && path.starts_with("/opt"))
                    || tools.iter().any(|tool| path.starts_with(tool))
            };
            real.is_ok_and(|real| seen(&real) && is_executable(&real))
        }),
        Root::Directory { path } => SYSTEM_PATH
            .iter()
            .any(|directory| is_executable_in(path, &Path::new(directory).join(tool.as_str()))),
    }
}

/// As a process would find it whose root this is: no link leads out.
fn is_executable_in(root: &HostPath, path: &Path) -> bool {
    let find = || {
        let directory = rustix::fs::open(
            root.as_path(),
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let found = rustix::fs::openat2(&directory, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?;
        rustix::fs::fstat(found)
    };
    match find() {
        Ok(stat) => rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() && stat.st_mode & 0o111 != 0,
        // A kernel before 5.6 cannot be asked; the start itself will tell.
        Err(error) => error == rustix::io::Errno::NOSYS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn links_in_a_root_lead_to_its_own_programs_and_never_to_the_hosts() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        std::fs::create_dir_all(at("usr/bin")).unwrap();
        symlink("usr/bin", at("bin")).unwrap();
        for (name, mode) in [("real", 0o755), ("text", 0o644)] {
            std::fs::write(at("usr/bin").join(name), "").unwrap();
            std::fs::set_permissions(at("usr/bin").join(name), PermissionsExt::from_mode(mode)).unwrap();
        }
        symlink("/bin/real", at("usr/bin/absolute")).unwrap();
        // On the host there is such a file; below this root there is not.
        symlink("/bin/sh", at("usr/bin/out")).unwrap();
        symlink("../../../../../../../../bin/sh", at("usr/bin/up")).unwrap();
        assert!(Path::new("/bin/sh").exists());
        let path = HostPath::new(root.path()).unwrap();
        let found = |name: &str| is_executable_in(&path, &Path::new("/bin").join(name));
        for (name, there) in [
            ("real", true),
            ("absolute", true),
            ("text", false),
            ("out", false),
            ("up", false),
            ("no", false),
        ] {
            assert_eq!(found(name), there, "{name}");
        }
    }
}
