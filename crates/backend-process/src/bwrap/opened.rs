//! Binds from what was opened: bwrap is given descriptors where it takes them, and the guest compares every mount.

use super::plan::{Bind, Place};
use crate::ProcessConfig;
use palisade_core::{BackendError, HostPath};
use palisade_host::bound_path::OpenedPath;
use palisade_host::{private_file, stamp};
use palisade_protocol::{EXPECT_MOUNT, ExpectedMount};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// In the state directory: which bwrap was asked whether it takes descriptors, and the answer.
const ANSWER: &str = "bwrap-bind-fd";

/// What a sandbox is shown of the user's paths, each open since it was checked.
#[derive(Debug, Default)]
pub(super) struct OpenedPaths(Vec<OpenedPath>);

impl OpenedPaths {
    pub(super) fn push(&mut self, opened: OpenedPath) {
        self.0.push(opened);
    }

    pub(super) fn find(&self, host: &HostPath) -> Option<&OpenedPath> {
        self.0.iter().find(|opened| opened.real == *host)
    }

    /// The guest's arguments for every bind of these, in the order in which they are mounted. One that a later bind hides
    /// is left out.
    pub(super) fn expectations(&self, workspace: &Place, binds: &[Bind]) -> Vec<OsString> {
        let workspace = match workspace {
            Place::Directory(bind) => Some(bind),
            Place::Memory => None,
        };
        let all: Vec<&Bind> = workspace.into_iter().chain(binds).collect();
        let mut words = Vec::new();
        for (index, bind) in all.iter().enumerate() {
            let Some(opened) = self.find(&bind.host) else { continue };
            if all[index + 1..].iter().any(|later| Path::new(&bind.guest).starts_with(&later.guest)) {
                continue;
            }
            let path = bind.guest.clone();
            let expected = ExpectedMount { device: opened.device, inode: opened.inode, path };
            words.extend([EXPECT_MOUNT.into(), expected.to_string().into()]);
        }
        words
    }

    /// Has each bind of these name a descriptor, for a bwrap that takes them. bwrap closes a descriptor when it has used
    /// it, so every bind has its own.
    pub(super) fn name_descriptors<'a>(
        &self,
        config: &ProcessConfig,
        bwrap: &Path,
        binds: impl Iterator<Item = &'a mut Bind>,
    ) -> Result<Vec<OwnedFd>, BackendError> {
        // What was staged is found under another name, by which nobody else can reach it.
        let named: Vec<(&mut Bind, &OpenedPath)> =
            binds.filter_map(|bind| self.find(&bind.host).map(|opened| (bind, opened))).collect();
        let mut descriptors = Vec::new();
        if named.is_empty() || !takes_descriptors(config, bwrap) {
            return Ok(descriptors);
        }
        for (bind, opened) in named {
            let copy = rustix::io::fcntl_dupfd_cloexec(opened.as_fd(), 3)
                .map_err(|error| BackendError::io(format!("open {}", bind.host))(error.into()))?;
            bind.descriptor = Some(copy.as_raw_fd());
            descriptors.push(copy);
        }
        Ok(descriptors)
    }
}

/// Whether this bwrap has `--bind-fd`, which Debian's 0.8 has and other builds of that version have not. To ask takes as
/// long as a tenth of a run, so the answer is kept for as long as the program is the same.
fn takes_descriptors(config: &ProcessConfig, bwrap: &Path) -> bool {
    let Some(stamp) = stamp::of(bwrap) else { return help_names_option(bwrap) };
    let file = config.state.join(ANSWER);
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    match kept.rsplit_once(' ') {
        Some((known, answer)) if known == stamp => answer == "yes",
        _ => {
            let has_option = help_names_option(bwrap);
            // Without it, it is asked again next time.
            let answer = format!("{stamp} {}", if has_option { "yes" } else { "no" });
            let _ = private_file::write(&file, answer.as_bytes());
            has_option
        }
    }
}

fn help_names_option(bwrap: &Path) -> bool {
    let help = Command::new(bwrap).arg("--help").stdin(Stdio::null()).output();
    help.is_ok_and(|help| {
        let text = [help.stdout, help.stderr].concat();
        text.windows(b"--ro-bind-fd ".len()).any(|window| window == b"--ro-bind-fd ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_core::Access;
    use palisade_host::bound_path::open_without_links;

    #[test]
    fn every_mount_that_is_seen_is_compared_and_a_hidden_one_is_not() {
        let root = HostPath::new("/").unwrap();
        let mut paths = OpenedPaths::default();
        paths.push(open_without_links(&root).unwrap());
        let bind = |guest: &str| Bind::named(root.clone(), guest, Access::ReadOnly);
        let unknown = Bind::named(HostPath::new("/state").unwrap(), "/objects", Access::ReadOnly);
        let binds = [bind("/hidden/below"), bind("/hidden"), bind("/hidden/above"), unknown];
        let words = paths.expectations(&Place::Directory(bind("/workspace")), &binds);
        let seen: Vec<String> = words
            .chunks(2)
            .map(|pair| {
                assert_eq!(pair[0], EXPECT_MOUNT);
                pair[1].to_str().unwrap().parse::<ExpectedMount>().unwrap().path
            })
            .collect();
        assert_eq!(seen, ["/workspace", "/hidden", "/hidden/above"]);
    }
}
