//! From a path as a user gave it to the same without links, with every link that was followed: who could have put it
//! there decides whether it may be.

use palisade_core::HostPath;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// As many as the kernel follows.
const MOST_LINKS: usize = 40;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedPath {
    pub real: HostPath,
    pub links: Vec<FollowedLink>,
}

/// A link on the way. The path above it has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowedLink {
    pub path: HostPath,
}

enum Step {
    Up,
    Down(OsString),
}

/// Follows the links of an absolute path. Nothing is held open: what was found is to be opened without following links.
pub fn resolve(path: &Path) -> io::Result<ResolvedPath> {
    let mut real = PathBuf::from("/");
    let mut links = Vec::new();
    let mut ahead = steps(path);
    while let Some(step) = ahead.pop_front() {
        let name = match step {
            Step::Up => {
                if !std::fs::symlink_metadata(&real)?.is_dir() {
                    return Err(rustix::io::Errno::NOTDIR.into());
                }
                real.pop();
                continue;
            }
            Step::Down(name) => name,
        };
        let next = real.join(&name);
        if !std::fs::symlink_metadata(&next)?.is_symlink() {
            real = next;
            continue;
        }
        let target = std::fs::read_link(&next)?;
        links.push(FollowedLink { path: host_path(next)? });
        if links.len() > MOST_LINKS {
            return Err(rustix::io::Errno::LOOP.into());
        }
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        let mut found = steps(&target);
        found.append(&mut ahead);
        ahead = found;
    }
    Ok(ResolvedPath { real: host_path(real)?, links })
}

fn steps(path: &Path) -> VecDeque<Step> {
    let step = |component: Component<'_>| match component {
        Component::Normal(name) => Some(Step::Down(name.to_owned())),
        Component::ParentDir => Some(Step::Up),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(step).collect()
}

fn host_path(path: PathBuf) -> io::Result<HostPath> {
    HostPath::new(path).map_err(io::Error::other)
}
