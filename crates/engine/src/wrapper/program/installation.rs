//! The directory a program was installed into, where it has one that may be shown.

use super::Host;
use std::path::{Component, Path, PathBuf};

/// An error when the only such directory holds what must not be shown.
pub(super) fn installation(file: &Path, host: &Host<'_>) -> Result<Option<PathBuf>, String> {
    let found =
        modules(file).or_else(|| environment(file)).or_else(|| python(file)).or_else(|| package(file));
    match found {
        Some(root) => match too_wide(&root, host) {
            Some(reason) => Err(reason),
            None => Ok(Some(root)),
        },
        None => Ok(None),
    }
}

/// The outermost `node_modules`: packages find one another in it.
fn modules(file: &Path) -> Option<PathBuf> {
    let mut root = PathBuf::new();
    for component in file.parent()?.components() {
        root.push(component);
        if component == Component::Normal("node_modules".as_ref()) {
            return Some(root);
        }
    }
    None
}

/// A virtual environment of Python's.
fn environment(file: &Path) -> Option<PathBuf> {
    file.ancestors().skip(1).find(|above| above.join("pyvenv.cfg").is_file()).map(Path::to_owned)
}

/// A Python that is not the system's, with its library beside it.
fn python(file: &Path) -> Option<PathBuf> {
    let named = file.file_name()?.to_str()?.starts_with("python");
    let prefix = file.parent().filter(|above| above.ends_with("bin"))?.parent()?;
    let library = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("python3");
    let has_library = || std::fs::read_dir(prefix.join("lib")).ok()?.flatten().any(library).then_some(());
    (named && has_library().is_some()).then(|| prefix.to_owned())
}

/// The package of a script for Node that was not installed but linked.
fn package(file: &Path) -> Option<PathBuf> {
    let script = matches!(file.extension()?.to_str()?, "js" | "cjs" | "mjs");
    let root = file.ancestors().skip(1).find(|above| above.join("package.json").is_file());
    root.filter(|_| script).map(Path::to_owned)
}

fn too_wide(root: &Path, host: &Host<'_>) -> Option<String> {
    let root_text = palisade_core::printable(&root.to_string_lossy());
    let home = host.home.and_then(|home| std::fs::canonicalize(home).ok());
    if root.parent().is_none() {
        return Some("it is installed in the root directory itself".into());
    }
    if let Some(home) = &home {
        if home.starts_with(root) {
            return Some(format!("it is installed in {root_text}, which holds your whole home directory"));
        }
        let hidden = root.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if hidden && root.parent() == Some(home.as_path()) {
            return Some(format!("it is installed in {root_text}, which may hold more than programs"));
        }
    }
    let state = std::fs::canonicalize(host.state).unwrap_or_else(|_| host.state.as_path().to_owned());
    let overlaps = state.starts_with(root) || root.starts_with(&state);
    overlaps.then(|| format!("it is installed in {root_text}, where Palisade's own state is"))
}
