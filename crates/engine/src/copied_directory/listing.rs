//! Which copies there are, and which of them a collection removes.

use super::apply::remaining;
use super::making::list_copy;
use super::place::{CopyPlace, CopyRecord};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::gc::{GcAction, GcItem};
use palisade_core::{Method, printable};
use palisade_host::process;
use serde::Serialize;

/// Whether the run of a copy is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CopyStatus {
    Running,
    Ended,
    /// Its process ended without putting things in order.
    Killed,
}

/// A copy, as `apply --list` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CopySummary {
    /// The id of the run.
    pub run: String,
    /// The directory that was copied.
    pub directory: String,
    /// Where the copy is.
    pub copy: String,
    pub status: CopyStatus,
    /// When the run began.
    pub created_at: i64,
    /// How many changes wait; null when they cannot be counted.
    pub changes: Option<usize>,
}

impl Engine {
    /// Every copy that has a record, the oldest first.
    pub fn list_copies(&self) -> Vec<CopySummary> {
        let all = CopyPlace::all(&self.config.state).into_iter();
        let read = all.filter_map(|place| Some((place.read_record().ok()?, place)));
        let mut copies: Vec<CopySummary> = read.map(|(record, place)| summary(&place, &record)).collect();
        copies.sort_by(|a, b| (a.created_at, &a.run).cmp(&(b.created_at, &b.run)));
        copies
    }

    /// For a collection: copies in which nothing was changed go, and all others are named.
    /// Those of a method that could not be asked may still be written, and wait.
    pub(crate) fn collect_copies(
        &self,
        unasked: &[Method],
        dry_run: bool,
    ) -> Vec<Result<Option<GcItem>, EngineError>> {
        let all = CopyPlace::all(&self.config.state).into_iter();
        // One without a record that can be read may hold anything.
        let read = all.filter_map(|place| Some((place.read_record().ok()?, place)));
        let over = read.filter(|(record, _)| !record.is_running() && !unasked.contains(&record.method));
        over.map(|(record, place)| collect_copy(&place, &record, dry_run)).collect()
    }
}

fn collect_copy(
    place: &CopyPlace,
    record: &CopyRecord,
    dry_run: bool,
) -> Result<Option<GcItem>, EngineError> {
    let Some(_lock) = place.lock()? else { return Ok(None) };
    let directory = printable(&record.directory.lossy());
    let what = format!("copy of {directory} by run {}", place.run().short());
    let hint = || {
        format!(
            "lay its changes: palisade apply {0}; drop them: palisade apply --discard {0}",
            place.run().short()
        )
    };
    let is_unchanged = match place.read_manifest() {
        // Nothing has run in it.
        Ok(None) => !process::is_alive(&record.process),
        Ok(Some(manifest)) => list_copy(place, record).is_ok_and(|found| {
            let is_complete = found.unread.is_empty() && found.special.is_empty();
            is_complete && remaining(&manifest, &found, record).is_empty()
        }),
        Err(_) => false,
    };
    if !is_unchanged {
        return Ok(Some(GcItem::kept(what, hint())));
    }
    if !dry_run {
        place.remove().map_err(EngineError::io(format!("remove {}", place.path())))?;
    }
    Ok(Some(GcItem::new(what, GcAction::Removed)))
}

fn summary(place: &CopyPlace, record: &CopyRecord) -> CopySummary {
    let status = match (record.is_running(), record.ended_at) {
        (true, _) => CopyStatus::Running,
        (false, Some(_)) => CopyStatus::Ended,
        (false, None) => CopyStatus::Killed,
    };
    let count = || {
        // Without a manifest nothing has run in it.
        let Some(manifest) = place.read_manifest().ok()? else { return Some(0) };
        let found = list_copy(place, record).ok()?;
        Some(remaining(&manifest, &found, record).len())
    };
    CopySummary {
        run: place.run().to_string(),
        directory: record.directory.lossy(),
        copy: place.tree().to_string(),
        status,
        created_at: record.created_at,
        changes: if status == CopyStatus::Running { None } else { count() },
    }
}
