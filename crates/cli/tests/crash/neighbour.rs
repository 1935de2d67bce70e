//! What is not ours and must not be touched: another installation's running sandbox on the same machine, and things
//! that look like ours.

use crate::support::{foreign_id, keeper};
use palisade_core::ProcessIdentity;
use palisade_host::process;
use palisade_testing::{Instance, Traces, is_root};
use std::path::PathBuf;

/// Runs as long as this lives; [`Neighbour::assert_untouched`] looks at it.
pub(crate) struct Neighbour {
    instance: Instance,
    keeper: ProcessIdentity,
    traces: Traces,
    lookalikes: Vec<PathBuf>,
}

impl Neighbour {
    pub(crate) fn new() -> Self {
        let instance = Instance::with_method("bwrap");
        instance.started("neighbour");
        let keeper = keeper(&instance, "neighbour");
        let traces = Traces::of(&instance);
        Self { instance, keeper, traces, lookalikes: foreign_cgroups() }
    }

    #[track_caller]
    pub(crate) fn assert_untouched(&self) {
        assert!(process::is_alive(&self.keeper), "the neighbour's keeper lives");
        assert_eq!(Traces::of(&self.instance), self.traces);
        assert_eq!(self.instance.shell("neighbour", "echo well").ok().stdout, "well\n");
        for directory in &self.lookalikes {
            assert!(directory.exists(), "{}", directory.display());
        }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        for directory in &self.lookalikes {
            let _ = std::fs::remove_dir(directory);
            let _ = std::fs::remove_dir(directory.parent().unwrap());
        }
    }
}

/// Groups named like a sandbox's, of an owner that no installation has. Only root can make them.
fn foreign_cgroups() -> Vec<PathBuf> {
    if !is_root() {
        return Vec::new();
    }
    let roots = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten().map(|entry| entry.path());
    let ours = roots.map(|root| root.join("palisade")).filter(|level| level.is_dir());
    let owner = format!("foreign-{}", std::process::id());
    let made = ours.map(|level| level.join(&owner).join(format!("sb-{}", foreign_id())));
    // Other tests' instances may just be making or removing the levels above.
    made.filter(|directory| std::fs::create_dir_all(directory).is_ok()).collect()
}
