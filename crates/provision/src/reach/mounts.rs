//! What services have of the host's files, and what they can make of it.
//!
//! The engine follows the links in the source of a mount whenever a container starts, by itself, too. So whoever can
//! write where such a source lies can put a link in its place, and has any path of the host's the next time: root, too.
//! Nothing in a container keeps them from it for certain, so that it is agreed to like a path outside the worktree.

use super::place::{self, Way};
use super::{Asker, BindAccess, Found, Reach, is_nothing};
use crate::overriding::OverrideInput;
use crate::stack::ServiceMount;
use palisade_config::infra::MountAccess;
use std::path::{Path, PathBuf};

/// Which repository the user's own git believes in, and so which programs it runs.
const GIT: &str = ".git";

/// A path that the engine mounts.
struct Source {
    asker: Asker,
    /// From the worktree, where it lies there: an agreement counts for every sandbox of the project.
    shown: PathBuf,
    way: Way,
}

pub(super) fn look(found: &mut Found<'_>, input: &OverrideInput<'_>) {
    let mut sources = Vec::new();
    let mut written: Vec<(Asker, PathBuf)> = Vec::new();
    let mut add = |found: &mut Found<'_>, asker: Asker, path: &Path, access: BindAccess| {
        let source = source(found, asker, path);
        bind(found, &source, access);
        if access == BindAccess::ReadWrite {
            written.push((source.asker.clone(), source.way.end.clone()));
        }
        sources.push(source);
    };
    for (name, service) in &input.model.services {
        for mount in &service.volumes {
            if let Some((path, access)) = bound(found, &Asker::Service(name.clone()), mount) {
                add(found, Asker::Service(name.clone()), path.as_ref(), access);
            }
        }
    }
    for mount in input.mounts {
        let access = match mount.access {
            MountAccess::ReadOnly => BindAccess::ReadOnly,
            MountAccess::ReadWrite => BindAccess::ReadWrite,
        };
        add(found, Asker::Service(mount.service.clone()), mount.source.as_str().as_ref(), access);
    }
    let secrets = input.model.secrets.iter().map(|(key, it)| (Asker::Secret(key.clone()), it));
    let configs = input.model.configs.iter().map(|(key, it)| (Asker::Config(key.clone()), it));
    for (asker, content) in secrets.chain(configs) {
        if let Some(file) = &content.file {
            sources.push(source(found, asker, file.as_ref()));
        }
    }
    for (writer, directory) in &written {
        for source in sources.iter().filter(|source| source.way.can_be_moved_from(directory)) {
            let of = source.asker.to_string();
            found.add(writer, Reach::Moves { path: source.shown.clone(), of });
        }
    }
}

fn source(found: &Found<'_>, asker: Asker, path: &Path) -> Source {
    let path = found.worktree.as_path().join(path);
    let shown = path.strip_prefix(found.worktree.as_path()).unwrap_or(&path).to_owned();
    Source { asker, shown, way: Way::along(&path) }
}

/// The path of the host's that a mount has.
fn bound<'a>(found: &mut Found<'_>, asker: &Asker, mount: &'a ServiceMount) -> Option<(&'a str, BindAccess)> {
    match mount.kind.as_str() {
        "volume" | "tmpfs" => return None,
        "bind" => {}
        other => {
            let value = mount.source.clone().unwrap_or_default();
            found.setting(asker, format!("a mount of type {other}"), &value.into());
            return None;
        }
    }
    let propagation = mount.rest.get("bind").and_then(|bind| bind.get("propagation"));
    if let Some(propagation) =
        propagation.filter(|it| !is_nothing(it) && !matches!(it.as_str(), Some("private" | "rprivate")))
    {
        found.setting(asker, "the propagation of a mount", propagation);
    }
    let access = if mount.read_only { BindAccess::ReadOnly } else { BindAccess::ReadWrite };
    Some((mount.source.as_deref().unwrap_or("/"), access))
}

fn bind(found: &mut Found<'_>, source: &Source, access: BindAccess) {
    let root = place::resolved(found.worktree.as_path());
    match source.way.end.strip_prefix(&root) {
        Err(_) => {
            let path = source.way.end.clone();
            found.add(&source.asker, Reach::Bind { path, access });
        }
        Ok(path) if path.starts_with(GIT) && access == BindAccess::ReadWrite => {
            found.add(&source.asker, Reach::Bind { path: path.to_owned(), access });
        }
        Ok(_) => {}
    }
}
