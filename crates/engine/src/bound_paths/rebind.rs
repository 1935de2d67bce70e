//! `rebind`: the user accepts what the paths of a sandbox or a wrapper lead to now.

use crate::description;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::wrapper::WrapperPaths;
use palisade_core::{BoundPath, HostPath, IdentityMatch};
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebindReport {
    pub paths: Vec<ReboundPath>,
}

/// A path, with what it led to and leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReboundPath {
    pub given: HostPath,
    /// Without links; none when nothing was recorded.
    pub before: Option<HostPath>,
    pub now: HostPath,
    /// Whether another directory is accepted than the one that was recorded.
    pub changed: bool,
}

impl Engine {
    /// Records what the paths of a sandbox lead to now. One that runs has its change with the next start.
    pub async fn rebind(&self, name: &str) -> Result<RebindReport, EngineError> {
        let row = self.row(name)?;
        self.refuse_foreign(&row)?;
        let _turn = self.turn(&row).await?;
        let mut row = self.row(row.id().as_str())?;
        let spec = &mut row.spec;
        let paths = self.record_paths(&spec.policy, &spec.foundation)?;
        let report = compare(&spec.paths, &paths);
        spec.paths = paths;
        self.store()?.record_paths(&row.spec)?;
        description::write(&row.spec, row.created_at)?;
        Ok(report)
    }

    /// The same for the wrapper whose script stands at this path.
    pub fn rebind_wrapper(&self, script: &Path) -> Result<RebindReport, EngineError> {
        let wrapper = WrapperPaths::of_script(self, script)?;
        let paths = self.record_paths(&wrapper.record.policy, &wrapper.record.foundation)?;
        // What cannot be read is replaced: the user has decided.
        let report = compare(&wrapper.read().unwrap_or_default(), &paths);
        wrapper.write(&paths)?;
        Ok(report)
    }
}

fn compare(before: &[BoundPath], now: &[BoundPath]) -> RebindReport {
    let rebound = |new: &BoundPath| {
        let old = before.iter().find(|old| old.given == new.given);
        let is_same = |old: &BoundPath| {
            old.real == new.real && old.identity.compare(&new.identity) == IdentityMatch::Same
        };
        ReboundPath {
            given: new.given.clone(),
            before: old.map(|old| old.real.clone()),
            now: new.real.clone(),
            changed: old.is_some_and(|old| !is_same(old)),
        }
    };
    RebindReport { paths: now.iter().map(rebound).collect() }
}
