//! The small files beside the store, written by another version or cut off: they save time or remember a detail, so
//! none of them may keep anybody from their sandboxes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

use palisade_testing::{Instance, requires};
use std::fs;

/// What another version, or a crash, might have left there.
const FOREIGN: [&str; 3] = ["", "{\"version\": 99, \"torn", "{\"version\": 99, \"everything\": \"else\"}"];

#[test]
fn side_files_that_cannot_be_read_keep_nobody_from_their_sandboxes() {
    requires!(bwrap);
    for foreign in FOREIGN {
        let instance = Instance::with_method("bwrap");
        instance.started("kept");
        fs::create_dir_all(instance.state().join("fences")).unwrap();
        for file in ["preflight-bwrap.json", "limits-noted", "turns.lock", "fences/foreign.json"] {
            fs::write(instance.state().join(file), foreign).unwrap();
        }
        instance.run(["doctor"]).ok();
        assert_eq!(instance.shell("kept", "echo reached").ok().stdout, "reached\n");
        fs::create_dir(instance.work().join("bound")).unwrap();
        instance.run(["run", "-w", "bound", "--", "true"]).ok();
        instance.run(["gc"]).ok();
        instance.run(["rm", "--force", "kept"]).ok();
        let foreign_journal = instance.state().join("fences/foreign.json");
        assert!(foreign_journal.exists(), "what is not understood is not ours to remove");
    }
}
