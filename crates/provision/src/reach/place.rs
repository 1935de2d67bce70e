//! Where a path leads once every link is followed, also a path that is not there yet: the engine makes what is missing.

use palisade_core::HostPath;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// As many links as the kernel follows.
const MOST_LINKS: usize = 40;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    Within,
    Outside(PathBuf),
}

/// A relative path is one of the worktree's.
pub(super) fn of(worktree: &HostPath, path: &Path) -> Place {
    let root = resolved(worktree.as_path());
    let resolved = resolved(&worktree.as_path().join(path));
    if resolved.starts_with(&root) { Place::Within } else { Place::Outside(resolved) }
}

/// Follows links one at a time. What cannot be followed any further stays as it is written, which lies outside.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    Way::along(path).end
}

/// The way that a path leads.
pub(super) struct Way {
    /// Where each link on it is. Whoever can put another there decides where the rest leads.
    pub(super) links: Vec<PathBuf>,
    pub(super) end: PathBuf,
}

impl Way {
    pub(super) fn along(path: &Path) -> Self {
        let mut at = PathBuf::from("/");
        let mut rest: VecDeque<OsString> = components(path);
        let mut links = Vec::new();
        while let Some(part) = rest.pop_front() {
            if part == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&part);
            match std::fs::read_link(&next) {
                Ok(target) if links.len() < MOST_LINKS => {
                    links.push(next);
                    if target.is_absolute() {
                        at = PathBuf::from("/");
                    }
                    for part in components(&target).into_iter().rev() {
                        rest.push_front(part);
                    }
                }
                // A loop: nobody can open it, and it is not the worktree's.
                Ok(_) => return Self { links, end: path.to_owned() },
                Err(_) => at = next,
            }
        }
        Self { links, end: at }
    }

    /// Whether it can be made to lead elsewhere by whoever writes below this directory, whose links are followed.
    pub(super) fn can_be_moved_from(&self, directory: &Path) -> bool {
        let below = |place: &PathBuf| place != directory && place.starts_with(directory);
        self.links.iter().chain([&self.end]).any(below)
    }
}

fn components(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(part) => Some(part.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_of_the_worktree_lead_where_they_lead() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap();
        std::fs::create_dir_all(real.join("w/sub")).unwrap();
        symlink(real.join("w"), real.join("alias")).unwrap();
        let worktree = HostPath::new(real.join("alias")).unwrap();
        let link = |target: &str, name: &str| symlink(target, real.join("w").join(name)).unwrap();
        link("/etc", "etc");
        link("sub/../missing", "dangling-inside");
        link("../elsewhere/missing", "dangling");
        link("sub", "inside");
        link("up", "sub-up");
        link("..", "up");
        link("loop", "loop");
        for path in ["sub", "./inside/x", "not/there", "dangling-inside/x", "sub/..", ".", "up/w/sub"] {
            assert_eq!(of(&worktree, path.as_ref()), Place::Within, "{path}");
        }
        for (path, leads) in [
            ("etc/shadow", "/etc/shadow".into()),
            ("dangling", real.join("elsewhere/missing")),
            ("sub-up/x", real.join("x")),
            ("inside/../../x", real.join("x")),
            ("../w2", real.join("w2")),
            ("/var/run/../run/docker.sock", resolved(Path::new("/run")).join("docker.sock")),
        ] {
            assert_eq!(of(&worktree, path.as_ref()), Place::Outside(leads), "{path}");
        }
        // Nobody can open it, and nobody looks for ever.
        let endless = real.join("w/loop/x");
        assert_eq!(resolved(&endless), endless);
    }
}
