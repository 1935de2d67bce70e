//! Who could have moved a path: the rules, over what was found and which directories sandboxes could write.

use super::refuse;
use super::writers::Writer;
use crate::error::EngineError;
use palisade_core::{BackendError, BoundPath, HostPath, IdentityMatch, printable};
use palisade_host::bound_path::{FollowedLink, FoundPath};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// How what a path leads to relates to its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    None,
    /// It is another place.
    Moved,
    /// Its name is the same, and nothing says whether the place is.
    Unknown,
}

pub(super) fn change(old: &BoundPath, found: &FoundPath) -> Change {
    if old.real != found.bound.real {
        return Change::Moved;
    }
    match old.identity.compare(&found.bound.identity) {
        IdentityMatch::Same => Change::None,
        IdentityMatch::Different => Change::Moved,
        IdentityMatch::Unknown => Change::Unknown,
    }
}

/// Refuses a change that a sandbox could have made since the record.
pub(super) fn require_users_change(
    old: &BoundPath,
    found: &FoundPath,
    change: Change,
    writers: &[Writer],
) -> Result<(), EngineError> {
    let is_recent = |writer: &&Writer| writer.until.is_none_or(|until| until >= old.recorded_at);
    let concerned =
        [&old.real, &found.bound.real].into_iter().chain(found.links.iter().map(|link| &link.path));
    for path in concerned {
        let Some(writer) = writers.iter().filter(is_recent).find(|writer| is_below(path, writer)) else {
            continue;
        };
        let what = match change {
            Change::Unknown => {
                "its file system has no lasting file handles and the machine was restarted, so it may have been \
                 replaced"
                    .to_owned()
            }
            _ if old.real == found.bound.real => "another directory has taken its place".to_owned(),
            _ => format!("it leads to {} now", printable(&found.bound.real.to_string())),
        };
        return Err(refuse(&old.given, &what, writer.path.as_path()));
    }
    Ok(())
}

/// Refuses a path that is given now when a link on the way was made where a sandbox could write at any time, unless it
/// leads to something that the same sandbox could reach anyway.
pub(super) fn require_trusted_links(
    given: &HostPath,
    real: &HostPath,
    links: &[FollowedLink],
    writers: &[Writer],
) -> Result<(), EngineError> {
    for link in links {
        let writer = writers.iter().find(|writer| is_below(&link.path, writer));
        if writer.is_none_or(|writer| real.as_path().starts_with(&writer.path)) {
            continue;
        }
        return Err(BackendError::HostDirectory {
            path: printable(&given.to_string()),
            reason: format!(
                "the symbolic link {} lies where a sandbox could write, and leads to {}",
                printable(&link.path.to_string()),
                printable(&real.to_string())
            ),
            fix: "give the path that you mean, without that link".into(),
        }
        .into());
    }
    Ok(())
}

/// Whether a directory above a path could be written. By name, and by the directories themselves: one may be known by
/// several names.
fn is_below(path: &HostPath, writer: &Writer) -> bool {
    let above = path.as_path().ancestors().skip(1);
    let same =
        |above: &Path| match (std::fs::symlink_metadata(above), std::fs::symlink_metadata(&writer.path)) {
            (Ok(above), Ok(written)) => (above.dev(), above.ino()) == (written.dev(), written.ino()),
            _ => false,
        };
    above.into_iter().any(|above| above == writer.path.as_path() || same(above))
}
