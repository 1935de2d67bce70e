//! What the commands of the product's have left so far, as one who watches both sides remembers it.

use crate::look::{Look, Outcome};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Contents that syncs have written into the user's files, or have brought with commits.
    pub(crate) laid: HashSet<String>,
    /// Contents that starts have sent in.
    pub(crate) sent: HashSet<String>,
    /// What the product has made itself and no working tree has: archives, merges, and replays of the agent's commits with
    /// the files that they merge.
    pub(crate) made: HashSet<String>,
    /// Where a sync has put branches that show waiting commits.
    pub(crate) shown: HashMap<String, HashSet<String>>,
    /// The host's branches when the last exchange of this sandbox ended.
    pub(crate) left: BTreeMap<String, String>,
    /// Branches that both sides had, and that the user has deleted since.
    pub(crate) deleted: BTreeSet<String>,
    /// Branches that both sides had when the last exchange ended.
    common: BTreeSet<String>,
    /// Whether the last sync was interrupted, so that the next one finishes what is named nowhere.
    pub(crate) is_interrupted: bool,
}

/// The contents of the user's files that are others than before.
fn changed_contents<'a>(before: &'a Look, after: &'a Look) -> impl Iterator<Item = String> + 'a {
    let trees = before.user.trees.iter().zip(&after.user.trees);
    trees.flat_map(|(old, new)| {
        let changed = new.files.iter().filter(|(path, state)| old.files.get(*path) != Some(*state));
        changed.map(|(_, (_, id))| id.clone())
    })
}

pub(crate) fn branches(look: &Look) -> impl Iterator<Item = (&String, &String)> {
    look.user.refs.iter().filter(|(name, _)| name.starts_with("refs/heads/"))
}

impl Memory {
    /// Before a command.
    pub(crate) fn look(&mut self, before: &Look) {
        let gone = self.common.iter().filter(|name| !before.user.refs.contains_key(*name));
        self.deleted.extend(gone.cloned());
        self.deleted.retain(|name| !before.user.refs.contains_key(name));
        self.common.retain(|name| before.user.refs.contains_key(name));
    }

    /// After a command.
    pub(crate) fn remember(&mut self, outcome: &Outcome, before: &Look, after: &Look, is_new_sandbox: bool) {
        let is_new =
            |id: &&String| !before.host.reached.contains(*id) && !before.inside.reached.contains(*id);
        let trees = &after.user.trees;
        let in_trees: HashSet<&String> =
            trees.iter().flat_map(|tree| tree.files.values()).map(|(_, id)| id).collect();
        let made = after.host.reached.iter().filter(is_new).filter(|id| !in_trees.contains(id));
        self.made.extend(made.cloned());
        if is_new_sandbox {
            // A namesake knows nothing.
            let (laid, made) = (std::mem::take(&mut self.laid), std::mem::take(&mut self.made));
            *self = Self { laid, made, ..Self::default() };
            return;
        }
        if let Outcome::Synced(_) | Outcome::Interrupted = outcome {
            let is_agents = |id: &&String| !self.sent.contains(*id);
            self.laid.extend(before.inside.reached.iter().filter(is_agents).cloned());
        }
        match outcome {
            Outcome::Started { .. } => self.sent.extend(after.inside.reached.iter().cloned()),
            Outcome::Synced(_) | Outcome::Interrupted => self.laid.extend(changed_contents(before, after)),
            _ => {}
        }
        for (name, id) in branches(after).filter(|(name, _)| name.starts_with("refs/heads/palisade/")) {
            if before.user.refs.get(name) != Some(id) {
                self.shown.entry(name.clone()).or_default().insert(id.clone());
            }
        }
        match outcome {
            Outcome::Synced(_) | Outcome::Started { .. } => {
                self.is_interrupted = false;
                self.left = branches(after).map(|(name, id)| (name.clone(), id.clone())).collect();
                let inside = after.agent.as_ref().map(|agent| agent.branches()).unwrap_or_default();
                self.common =
                    self.left.keys().filter(|name| inside.contains(name.as_str())).cloned().collect();
            }
            Outcome::Interrupted => self.is_interrupted = true,
            _ => {}
        }
    }
}
