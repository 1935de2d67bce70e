//! How a program of the host's is reached from inside: which word starts it there, and what of its installation must
//! be shown for that, read-only and at its own path.
//!
//! As little as will do is shown: the `node_modules` a package was installed into, a Python environment, or the one
//! file. Nothing is shown that holds the home directory, or one of the hidden directories in which a home keeps its
//! secrets beside its programs; that is refused, and the error says what to add.

mod installation;
mod interpreter;

use super::error::WrapperError;
use installation::installation;
use interpreter::{Interpreter, interpreter};
use palisade_core::policy::WORKSPACE;
use palisade_core::{HostPath, Method, Policy, Workspace, printable};
use palisade_host::program::is_executable;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// What must be known of the host.
#[derive(Debug, Clone, Copy)]
pub struct Host<'a> {
    /// Where names are looked up, and from where relative paths are meant.
    pub search_path: &'a [PathBuf],
    pub here: &'a Path,
    pub home: Option<&'a Path>,
    pub state: &'a HostPath,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reach {
    /// The word that starts the program inside.
    pub program: OsString,
    /// To be shown read-only at its own path.
    pub show: Vec<HostPath>,
    /// Directories in which the program's interpreter is looked for by name.
    pub search: Vec<String>,
    /// All that must be executable inside for the program to start.
    pub executables: Vec<OsString>,
}

/// Links and interpreters lead to one another this many times at most.
const MOST_STEPS: usize = 40;
const MOST_INTERPRETERS: usize = 4;

/// What every isolated sandbox shows of the host at its own path. Of `/etc` it is the links between alternatives that
/// count here.
const SYSTEM: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/libexec", "/etc/alternatives"];
/// Where a name is looked for inside, after the tools.
const SYSTEM_SEARCH: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

pub fn reach(word: &OsStr, method: Method, policy: &Policy, host: &Host<'_>) -> Result<Reach, WrapperError> {
    if let Some(inside) = mounted(word, policy) {
        return inside.map(|program| Reach {
            executables: vec![program.clone()],
            program,
            ..Reach::default()
        });
    }
    let path = find(word, policy, host)?;
    if method == Method::Noop {
        let program = path.into_os_string();
        return Ok(Reach { executables: vec![program.clone()], program, ..Reach::default() });
    }
    let mut reach = Reach::default();
    let mut visible: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
    visible.extend(policy.opt.then(|| PathBuf::from("/opt")));
    visible.extend(policy.tools.iter().map(|tool| tool.as_path().to_owned()));
    let own = policy.mounts.iter().filter(|mount| mount.host.as_path() == Path::new(mount.guest.as_str()));
    visible.extend(own.map(|mount| mount.host.as_path().to_owned()));
    reach.program = add(&path, policy, host, &mut visible, &mut reach)?;
    Ok(reach)
}

/// A path below one of the user's own mounts: it is the mount's business what can be reached there.
fn mounted(word: &OsStr, policy: &Policy) -> Option<Result<OsString, WrapperError>> {
    let path = Path::new(word);
    let (mount, rest) = policy
        .mounts
        .iter()
        .find_map(|mount| Some((mount, path.strip_prefix(mount.guest.as_str()).ok()?)))?;
    let real = if rest.as_os_str().is_empty() {
        mount.host.as_path().to_owned()
    } else {
        mount.host.as_path().join(rest)
    };
    Some(executable(&real, word).map(|()| word.to_owned()))
}

/// Shows what this program needs and gives the word that starts it; its interpreter comes with it.
fn add(
    path: &Path,
    policy: &Policy,
    host: &Host<'_>,
    visible: &mut Vec<PathBuf>,
    reach: &mut Reach,
) -> Result<OsString, WrapperError> {
    let mut path = path.to_owned();
    let mut first = None;
    for _ in 0..MOST_INTERPRETERS {
        let hops = hops(&path)?;
        let program = show(&hops, policy, host, visible, &mut reach.show)?;
        reach.executables.push(program.clone());
        first.get_or_insert(program);
        let file = hops.last().unwrap_or(&path);
        path = match interpreter(file) {
            None => break,
            Some(Interpreter::Path(interpreter)) => interpreter,
            Some(Interpreter::Named(name)) => {
                let inside = SYSTEM_SEARCH.iter().map(|directory| Path::new(directory).join(&name));
                let inside = tool_directories(policy).map(|directory| directory.join(&name)).chain(inside);
                match inside.into_iter().find(|path| is_executable(path)) {
                    Some(path) => path,
                    None => {
                        let path = find(&name, policy, host)?;
                        let directory = path.parent().and_then(Path::to_str).map(str::to_owned);
                        reach.search.extend(directory);
                        path
                    }
                }
            }
        };
    }
    Ok(first.unwrap_or_default())
}

/// Shows what a file and the links to it need, and says under which path the file is then found.
fn show(
    hops: &[PathBuf],
    policy: &Policy,
    host: &Host<'_>,
    visible: &mut Vec<PathBuf>,
    shown: &mut Vec<HostPath>,
) -> Result<OsString, WrapperError> {
    let (Some(called), Some(file)) = (hops.first(), hops.last()) else { return Ok(OsString::new()) };
    let seen = |visible: &[PathBuf], path: &Path| visible.iter().any(|root| path.starts_with(root));
    let all_seen = |visible: &[PathBuf]| hops.iter().all(|hop| seen(visible, hop));
    if all_seen(visible) {
        return Ok(called.clone().into_os_string());
    }
    let mut show_one = |visible: &mut Vec<PathBuf>, path: &Path| -> Result<(), WrapperError> {
        if !seen(visible, path) {
            visible.push(path.to_owned());
            shown.push(HostPath::new(path).map_err(|error| unreachable(called, error.to_string()))?);
        }
        Ok(())
    };
    for hop in hops {
        if let Some(root) = installation(hop, host).map_err(|reason| unreachable(called, reason))? {
            show_one(visible, &root)?;
        }
    }
    if !seen(visible, file) {
        // One file of its own. Below the workspace it is there already.
        if let Workspace::Bound { host: workspace, .. } = &policy.workspace
            && let Ok(relative) = file.strip_prefix(workspace)
        {
            return Ok(Path::new(WORKSPACE).join(relative).into_os_string());
        }
        let above = called.parent().unwrap_or(Path::new("/"));
        // It keeps the name it is called by, where that name can be given to it inside.
        let place = if seen(visible, above) { file } else { called };
        show_one(visible, place)?;
        if place == called {
            return Ok(called.clone().into_os_string());
        }
    }
    let start = if all_seen(visible) { called } else { file };
    Ok(start.clone().into_os_string())
}

fn unreachable(program: &Path, reason: String) -> WrapperError {
    WrapperError::Unreachable {
        program: printable(&program.to_string_lossy()),
        reason,
        fix: "install it in a directory of its own, or show what it needs with --tool DIR or --mount HOST:GUEST:ro"
            .into(),
    }
}

fn tool_directories(policy: &Policy) -> impl Iterator<Item = PathBuf> {
    policy.tools.iter().flat_map(|tool| [tool.as_path().join("bin"), tool.as_path().to_owned()])
}

/// A program by its path, or by its name as a shell would find it.
fn find(word: &OsStr, policy: &Policy, host: &Host<'_>) -> Result<PathBuf, WrapperError> {
    if word.is_empty() {
        return Err(WrapperError::NoProgram(String::new()));
    }
    if Path::new(word).components().count() > 1 || Path::new(word).is_absolute() {
        let path = host.here.join(word);
        return executable(&path, word).map(|()| path);
    }
    let directories =
        tool_directories(policy).chain(host.search_path.iter().filter(|path| path.is_absolute()).cloned());
    let mut candidates = directories.map(|directory| directory.join(word));
    candidates
        .find(|path| is_executable(path))
        .ok_or_else(|| WrapperError::NoProgram(printable(&word.to_string_lossy())))
}

fn executable(path: &Path, word: &OsStr) -> Result<(), WrapperError> {
    let word = printable(&word.to_string_lossy());
    match std::fs::metadata(path) {
        Err(_) => Err(WrapperError::NoProgram(word)),
        Ok(_) if is_executable(path) => Ok(()),
        Ok(_) => Err(WrapperError::NotExecutable(word)),
    }
}

/// The path as it is called, every link on the way, and the file; each with a directory part free of links.
fn hops(path: &Path) -> Result<Vec<PathBuf>, WrapperError> {
    let lost = |error: std::io::Error| unreachable(path, error.to_string());
    let mut hops = vec![without_links_above(path).map_err(lost)?];
    while let Some(last) = hops.last()
        && let Ok(target) = std::fs::read_link(last)
    {
        let next = last.parent().unwrap_or(Path::new("/")).join(target);
        hops.push(without_links_above(&next).map_err(lost)?);
        if hops.len() > MOST_STEPS {
            return Err(unreachable(path, "its links lead nowhere".into()));
        }
    }
    Ok(hops)
}

fn without_links_above(path: &Path) -> std::io::Result<PathBuf> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok(std::fs::canonicalize(parent)?.join(name)),
        _ => std::fs::canonicalize(path),
    }
}

#[cfg(test)]
mod tests;
