//! Answers of git's that hold for good, since objects are named by their content. A sync asks some of them in several
//! places; git is started for each but once.

use crate::refs::ObjectId;
use crate::tree::Difference;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Pair = (ObjectId, ObjectId);

/// What was asked so far, shared by all that is one repository.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answers(Arc<Mutex<Given>>);

#[derive(Debug, Default)]
struct Given {
    differences: HashMap<Pair, Arc<[Difference]>>,
    apart: HashMap<Pair, (u32, u32)>,
    sizes: HashMap<String, u64>,
}

impl Answers {
    fn given(&self) -> MutexGuard<'_, Given> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn forget(&self) {
        *self.given() = Given::default();
    }

    pub(crate) fn difference(&self, from: &ObjectId, to: &ObjectId) -> Option<Arc<[Difference]>> {
        self.given().differences.get(&(from.clone(), to.clone())).cloned()
    }

    pub(crate) fn remember_difference(
        &self,
        from: &ObjectId,
        to: &ObjectId,
        found: Vec<Difference>,
    ) -> Arc<[Difference]> {
        let found: Arc<[Difference]> = found.into();
        self.given().differences.insert((from.clone(), to.clone()), Arc::clone(&found));
        found
    }

    pub(crate) fn apart(&self, first: &ObjectId, second: &ObjectId) -> Option<(u32, u32)> {
        self.given().apart.get(&(first.clone(), second.clone())).copied()
    }

    pub(crate) fn remember_apart(&self, first: &ObjectId, second: &ObjectId, counts: (u32, u32)) {
        self.given().apart.insert((first.clone(), second.clone()), counts);
    }

    pub(crate) fn size(&self, content: &str) -> Option<u64> {
        self.given().sizes.get(content).copied()
    }

    pub(crate) fn remember_sizes(&self, sizes: impl IntoIterator<Item = (String, u64)>) {
        self.given().sizes.extend(sizes);
    }
}
