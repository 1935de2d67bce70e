//! When the store itself is damaged: it is set aside, a new one is begun, and the sandboxes that describe themselves
//! in their own directories are found again.
//!
//! A sandbox's directory holds `sandbox.json`, written last by `create` and taken away first by `rm`, so a directory
//! with a description is a whole sandbox. Nothing is removed here: a directory without one stays, and is told.

use crate::engine::{Engine, now};
use crate::error::EngineError;
use palisade_core::{Event, HostPath, SandboxDir, SandboxSpec, State};
use palisade_store::{Found, Store, StoreError};
use serde::{Deserialize, Serialize};

/// The form of a description; a change that an older program could not read gets another number.
const FORM: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct Description {
    form: u32,
    created_at: i64,
    spec: SandboxSpec,
}

impl Engine {
    pub(crate) fn describe(&self, spec: &SandboxSpec, created_at: i64) -> Result<(), EngineError> {
        let Some(dir) = &spec.dir else { return Ok(()) };
        let text = serde_json::to_vec(&Description { form: FORM, created_at, spec: spec.clone() })
            .unwrap_or_default();
        let file = dir.description();
        std::fs::write(&file, text).map_err(EngineError::io(format!("write {file}")))
    }

    /// Opens the store; one that is damaged is set aside first.
    pub(crate) fn open_store(&self) -> Result<Store, EngineError> {
        let owner = self.owner()?.to_owned();
        match Store::open(self.config.state.as_path(), || owner.clone()) {
            Err(StoreError::Corrupt { why, .. }) => self.rescue(&why),
            other => Ok(other?),
        }
    }

    /// For a damage that shows only when some record is read: sets the store aside when it really is damaged, so
    /// that the next command works.
    pub fn rescue_if_damaged(&self, error: &EngineError) {
        if let EngineError::Store(StoreError::Corrupt { why, .. }) = error
            && let Err(error) = self.rescue(why)
        {
            (self.config.tell)(&format!("the damaged store could not be set aside: {error}"));
        }
    }

    fn rescue(&self, why: &str) -> Result<Store, EngineError> {
        let state = self.config.state.as_path();
        let aside = Store::set_aside(state, now())?;
        let owner = self.owner()?.to_owned();
        let store = Store::open(state, || owner)?;
        if let Some(aside) = aside {
            let (found, unknown) = self.find_again(&store)?;
            let mut told = format!(
                "the store was damaged ({why}) and is set aside as {}; {found} found again",
                aside.display()
            );
            if unknown > 0 {
                told += &format!(
                    ", {unknown} left alone in {} without a description",
                    self.config.state.join("sandboxes")
                );
            }
            (self.config.tell)(&told);
        }
        Ok(store)
    }

    /// Records the sandboxes that describe themselves; how many, and how many directories do not.
    fn find_again(&self, store: &Store) -> Result<(Sandboxes, usize), EngineError> {
        let keepers = self.living_keepers();
        let (mut found, mut unknown) = (0, 0);
        let Ok(entries) = std::fs::read_dir(self.config.state.join("sandboxes")) else {
            return Ok((Sandboxes(0), 0));
        };
        for entry in entries.flatten() {
            let Some(Description { spec, created_at, .. }) =
                HostPath::new(entry.path()).ok().and_then(|path| self.description(&SandboxDir::new(path)))
            else {
                unknown += 1;
                continue;
            };
            let keeper = keepers.iter().find(|(id, _)| *id == spec.id).map(|(_, keeper)| keeper.clone());
            let state = if keeper.is_some() { State::Running } else { State::Stopped };
            let uid = self.uid_base().filter(|base| spec.identity.uid >= *base).map(|_| spec.identity.uid);
            let id = spec.id.clone();
            match store.insert_found(&Found { spec, uid, state, keeper, created_at, at: now() }) {
                Ok(()) => {
                    let what = "found again after the store was set aside".into();
                    store.append_event(&id, &Event::Recovered { what }, now())?;
                    found += 1;
                }
                Err(error) => {
                    tracing::warn!(sandbox.id = %id, %error, "a sandbox could not be recorded again");
                    unknown += 1;
                }
            }
        }
        Ok((Sandboxes(found), unknown))
    }

    /// What a directory says of itself, when it is its own and ours.
    fn description(&self, dir: &SandboxDir) -> Option<Description> {
        let text = std::fs::read(dir.description()).ok()?;
        let description: Description = serde_json::from_slice(&text).ok()?;
        let spec = &description.spec;
        let own = description.form == FORM
            && spec.dir.as_ref() == Some(dir)
            && dir.path().as_path().file_name().is_some_and(|name| name == spec.id.as_str())
            && self.owner().is_ok_and(|owner| owner == spec.owner);
        own.then_some(description)
    }

    /// A way into the store as it is now, for a keeper whose own was set aside under it.
    pub(crate) fn reopened(&self) -> Result<Store, EngineError> {
        Ok(Store::open(self.config.state.as_path(), String::new)?)
    }

    pub(crate) fn describe_if_absent(&self, spec: &SandboxSpec, created_at: i64) -> Result<(), EngineError> {
        match &spec.dir {
            Some(dir) if !dir.description().as_path().exists() => self.describe(spec, created_at),
            _ => Ok(()),
        }
    }
}

struct Sandboxes(usize);

impl std::fmt::Display for Sandboxes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            1 => f.write_str("1 sandbox was"),
            count => write!(f, "{count} sandboxes were"),
        }
    }
}
