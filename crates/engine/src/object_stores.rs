//! Stores of git objects go when the last sandbox that relies on them is gone.

use crate::engine::Engine;
use crate::error::EngineError;
use palisade_core::ObjectStoreName;
use palisade_host::object_store::{self, LockedObjectStore};

impl Engine {
    /// The stores that no sandbox relies on.
    pub(crate) fn unused_objects(&self) -> Result<Vec<ObjectStoreName>, EngineError> {
        let mut names =
            object_store::list(self.state_dir()).map_err(EngineError::io("look for stores of objects"))?;
        if !names.is_empty() {
            let used = self.used_objects()?;
            names.retain(|name| !used(name));
        }
        Ok(names)
    }

    /// Removes a store, unless a sandbox relies on it or somebody is writing it for one. Whether it was removed.
    pub fn remove_unused_objects(&self, name: &ObjectStoreName) -> Result<bool, EngineError> {
        let failed = || EngineError::io(format!("remove the store of objects {name}"));
        let Some(store) = LockedObjectStore::try_open(self.state_dir(), name).map_err(failed())? else {
            return Ok(false);
        };
        if self.used_objects()?(name) {
            return Ok(false);
        }
        store.remove().map_err(failed())?;
        Ok(true)
    }

    /// Whether a sandbox relies on a store: one with a record, or one of which only the description is left.
    fn used_objects(&self) -> Result<impl Fn(&ObjectStoreName) -> bool + use<>, EngineError> {
        let listing = self.store()?.list()?;
        // Nobody knows what a sandbox relies on whose record cannot be read.
        let all = !listing.bad.is_empty();
        let recorded: Vec<ObjectStoreName> =
            listing.rows.into_iter().filter_map(|row| row.spec.policy.objects).collect();
        let directories = std::fs::read_dir(self.state_dir().join("sandboxes")).into_iter().flatten();
        let descriptions: Vec<String> = directories
            .flatten()
            .filter_map(|entry| std::fs::read_to_string(entry.path().join("sandbox.json")).ok())
            .collect();
        Ok(move |name: &ObjectStoreName| {
            let quoted = format!("\"{name}\"");
            all || recorded.contains(name) || descriptions.iter().any(|text| text.contains(&quoted))
        })
    }
}
