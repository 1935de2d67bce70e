//! Git's answers that hold for good, since objects are named by their content. A sync asks some of them in several
//! places; git is started only once for each.

use crate::refs::ObjectId;
use crate::tree_diff::TreeChange;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Pair = (ObjectId, ObjectId);

/// The answers so far, shared by all copies of a [`crate::Repository`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Answers(Arc<Mutex<Given>>);

#[derive(Debug, Default)]
struct Given {
    differences: HashMap<Pair, Arc<[TreeChange]>>,
    apart: HashMap<Pair, (u32, u32)>,
    trees: HashMap<ObjectId, ObjectId>,
}

impl Answers {
    fn given(&self) -> MutexGuard<'_, Given> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn difference(&self, from: &ObjectId, to: &ObjectId) -> Option<Arc<[TreeChange]>> {
        self.given().differences.get(&(from.clone(), to.clone())).cloned()
    }

    pub(crate) fn remember_difference(
        &self,
        from: &ObjectId,
        to: &ObjectId,
        found: Vec<TreeChange>,
    ) -> Arc<[TreeChange]> {
        let found: Arc<[TreeChange]> = found.into();
        self.given().differences.insert((from.clone(), to.clone()), Arc::clone(&found));
        found
    }

    /// The tree of a commit.
    pub(crate) fn tree(&self, commit: &ObjectId) -> Option<ObjectId> {
        self.given().trees.get(commit).cloned()
    }

    pub(crate) fn remember_tree(&self, commit: &ObjectId, tree: ObjectId) {
        self.given().trees.insert(commit.clone(), tree);
    }

    pub(crate) fn apart(&self, first: &ObjectId, second: &ObjectId) -> Option<(u32, u32)> {
        self.given().apart.get(&(first.clone(), second.clone())).copied()
    }

    pub(crate) fn remember_apart(&self, first: &ObjectId, second: &ObjectId, (left, right): (u32, u32)) {
        let mut given = self.given();
        given.apart.insert((first.clone(), second.clone()), (left, right));
        given.apart.insert((second.clone(), first.clone()), (right, left));
    }
}
