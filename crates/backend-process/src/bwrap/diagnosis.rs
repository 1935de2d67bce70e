//! bwrap's complaint → what is wrong and how to mend it.

use palisade_core::{BackendError, HostTrouble, Method, printable};
use std::path::Path;

/// A bwrap that is there and cannot even be started is as good as none; other errors are passed on.
pub(super) fn unstartable(error: BackendError, program: &Path) -> BackendError {
    match error {
        BackendError::Io { what, source } if what == format!("start {}", program.display()) => {
            BackendError::Unavailable {
                method: Method::Bwrap,
                reason: format!("cannot {what}: {source}"),
                fix: "reinstall bubblewrap".into(),
            }
        }
        other => other,
    }
}

/// Another directory was mounted than the one that was opened: bwrap says so of a descriptor, the guest of every mount.
pub(super) fn changed_path(said: &str) -> Option<BackendError> {
    let line = said.lines().find(|line| {
        line.contains("Race condition binding dirfd") || line.contains("not what the host opened")
    })?;
    Some(BackendError::PathChanged {
        path: "a path of the host's".into(),
        reason: format!("it was replaced while the sandbox was being started ({})", printable(line)),
    })
}

/// What is wrong with a sandbox that did not come up, from what bwrap said on standard error.
pub(super) fn diagnose(said: &str, how_it_ended: &str, apparmor_restricts: bool) -> BackendError {
    if let Some(trouble) = HostTrouble::of_complaint("start the sandbox", said) {
        return trouble.into();
    }
    let contains = |needle: &str| said.contains(needle);
    let quoted = if said.is_empty() {
        how_it_ended.to_owned()
    } else {
        said.lines().last().unwrap_or(said).to_owned()
    };
    let denied = contains("No permissions to creat")
        || contains("setting up uid map: Permission denied")
        || contains("Creating new namespace failed: Operation not permitted");
    let (why, fix) = if denied && apparmor_restricts {
        (
            "AppArmor does not let ordinary programs create user namespaces on this system",
            "install an AppArmor profile for bwrap that allows userns (Ubuntu: package apparmor-profiles, profile \
             bwrap-userns-restrict), or set kernel.apparmor_restrict_unprivileged_userns=0",
        )
    } else if denied {
        (
            "this user may not create user namespaces",
            "set kernel.unprivileged_userns_clone=1 and user.max_user_namespaces to a positive number; in a container, \
             allow user namespaces or choose another method",
        )
    } else if contains("Creating new namespace failed: No space left on device") || contains("ENOSPC") {
        ("the limit of user namespaces is reached or zero", "raise user.max_user_namespaces with sysctl")
    } else if contains("RTM_NEWADDR") || contains("loopback") {
        (
            "the network namespace's loopback could not be set up, as happens inside another sandbox",
            "run Palisade outside that sandbox, or choose another method",
        )
    } else if contains("mount proc on") {
        (
            "a fresh /proc cannot be mounted, as happens inside a container with a masked /proc",
            "run the container with an unmasked /proc (--security-opt systempaths=unconfined), or choose another method",
        )
    } else if contains("Unknown option") {
        ("this bwrap is too old", "install bubblewrap 0.8 or newer")
    } else if contains("not isolated") {
        ("what ran was not isolated", "do not use this method here; report what `palisade doctor` says")
    } else if contains("execvp") {
        (
            "the guest could not be executed inside",
            "reinstall Palisade so that palisade-guest is static and executable",
        )
    } else {
        ("the sandbox did not come up", "run `palisade doctor` for every check")
    };
    let reason = format!("{why} (bwrap: {})", printable(&quoted));
    BackendError::Unavailable { method: Method::Bwrap, reason, fix: fix.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_known_complaint_has_its_own_reason_and_fix() {
        let reason = |said: &str, apparmor| diagnose(said, "exit code 1", apparmor).to_string();
        let userns =
            "bwrap: No permissions to creating new namespace, likely because the kernel does not allow …";
        for (said, apparmor, expected) in [
            (userns, false, "this user may not create user namespaces"),
            (userns, true, "AppArmor does not let"),
            ("bwrap: setting up uid map: Permission denied", true, "AppArmor does not let"),
            (
                "bwrap: Creating new namespace failed: No space left on device",
                false,
                "the limit of user namespaces",
            ),
            (
                "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
                false,
                "the network namespace's loopback",
            ),
            ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", false, "a fresh /proc"),
            ("bwrap: Unknown option --size", false, "this bwrap is too old"),
            (
                "bwrap: execvp /.palisade/guest: No such file or directory",
                false,
                "the guest could not be executed",
            ),
            ("", false, "the sandbox did not come up (bwrap: exit code 1)"),
        ] {
            let found = reason(said, apparmor);
            let expected = format!("method 'bwrap' cannot be used: {expected}");
            assert!(found.starts_with(&expected), "{said}: {found}");
        }
        // It is the machine that lacks something, and bwrap is as good as ever.
        let scarce = diagnose("bwrap: Can't open /proc: Too many open files", "exit code 1", false);
        assert_eq!(scarce.to_string(), "cannot start the sandbox: too many files are open");
    }
}
