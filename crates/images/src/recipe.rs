//! The recipes, in the order in which they build on each other, and what identifies the result of one.

use crate::context::Certificates;
use palisade_core::ImageReference;
use sha2::{Digest as _, Sha256};

/// The digest of the recipe that an image was made from.
pub const RECIPE_LABEL: &str = "dev.palisade.recipe";
/// The id of the image that it was made upon.
pub const PARENT_LABEL: &str = "dev.palisade.parent";
/// What the very first image is made of when the user names nothing else.
pub const DEBIAN: &str = "debian:trixie-slim";

/// Raised when images must be made again although no recipe has changed.
const GENERATION: &str = "palisade image 2";

#[derive(Debug, PartialEq, Eq)]
pub struct Recipe {
    pub name: &'static str,
    /// The recipe whose image it builds on; the first one builds on a Debian.
    pub parent: Option<&'static str>,
    pub dockerfile: &'static str,
    /// What is in it, for people.
    pub holds: &'static str,
}

/// Every recipe, parents first.
pub const RECIPES: &[Recipe] = &[
    Recipe {
        name: "base",
        parent: None,
        dockerfile: include_str!("../../../images/base/Dockerfile"),
        holds: "Debian, the host's own certificates, the user inside",
    },
    Recipe {
        name: "bash",
        parent: Some("base"),
        dockerfile: include_str!("../../../images/bash/Dockerfile"),
        holds: "git, vim, nano, manual pages",
    },
    Recipe {
        name: "node",
        parent: Some("base"),
        dockerfile: include_str!("../../../images/node/Dockerfile"),
        holds: "Node.js, npm, yarn, pnpm",
    },
    Recipe {
        name: "python",
        parent: Some("base"),
        dockerfile: include_str!("../../../images/python/Dockerfile"),
        holds: "Python, pip, venv",
    },
    Recipe {
        name: "agent",
        parent: Some("node"),
        dockerfile: include_str!("../../../images/agent/Dockerfile"),
        holds: "build tools, a JDK, kubectl, and the coding agents",
    },
];

pub fn recipe(name: &str) -> Option<&'static Recipe> {
    RECIPES.iter().find(|recipe| recipe.name == name)
}

/// The recipe of an image, when it is one of ours: `palisade-NAME:latest`.
pub fn of_image(image: &ImageReference) -> Option<&'static Recipe> {
    RECIPES.iter().find(|recipe| recipe.image() == image.to_string())
}

/// These and everything they build on, parents first, each once.
pub fn with_parents(wanted: &[&Recipe]) -> Vec<&'static Recipe> {
    let needs = |recipe: &Recipe| wanted.iter().any(|wanted| wanted.lineage().any(|one| one == recipe));
    RECIPES.iter().filter(|recipe| needs(recipe)).collect()
}

impl Recipe {
    pub fn image(&self) -> String {
        format!("palisade-{}:latest", self.name)
    }

    /// The recipe itself and what it builds on, down to the first.
    fn lineage(&self) -> impl Iterator<Item = &'static Recipe> {
        std::iter::successors(recipe(self.name), |one| one.parent.and_then(recipe))
    }

    /// What identifies the result: the recipe, what it builds on, and the files it is given.
    pub fn digest(&self, debian: &str, certificates: &Certificates) -> String {
        let mut hasher = Sha256::new();
        // Each part with its length, so that no two lists of parts are told the same way.
        let mut part = |bytes: &[u8]| {
            hasher.update((bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        part(GENERATION.as_bytes());
        part(debian.as_bytes());
        for recipe in self.lineage() {
            part(recipe.name.as_bytes());
            part(recipe.dockerfile.as_bytes());
        }
        for (name, contents) in certificates.files() {
            part(name.as_bytes());
            part(contents);
        }
        hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(recipes: &[&Recipe]) -> Vec<&'static str> {
        recipes.iter().map(|recipe| recipe.name).collect()
    }

    #[test]
    fn a_parent_comes_before_its_children_and_once() {
        for (position, recipe) in RECIPES.iter().enumerate() {
            let parent = recipe.parent.map(|parent| {
                names(&RECIPES.iter().collect::<Vec<_>>()).iter().position(|name| *name == parent).unwrap()
            });
            assert!(parent.is_none_or(|parent| parent < position), "{}", recipe.name);
        }
        let wanted = [recipe("agent").unwrap(), recipe("python").unwrap()];
        assert_eq!(names(&with_parents(&wanted)), ["base", "node", "python", "agent"]);
        assert_eq!(names(&with_parents(&[])), Vec::<&str>::new());
    }

    #[test]
    fn every_recipe_takes_its_base_as_an_argument_and_ends_as_an_ordinary_user() {
        for recipe in RECIPES {
            let base = recipe.parent.map_or(DEBIAN.to_owned(), |parent| format!("palisade-{parent}:latest"));
            let begins = format!("ARG BASE={base}\nFROM ${{BASE}}\n");
            assert!(recipe.dockerfile.contains(&begins), "{}: {begins}", recipe.name);
            let user = recipe.dockerfile.lines().rfind(|line| line.starts_with("USER "));
            assert_eq!(user, Some("USER agent"), "{}", recipe.name);
        }
    }

    #[test]
    fn only_our_own_images_have_a_recipe() {
        let named = |text: &str| of_image(&text.parse().unwrap()).map(|recipe| recipe.name);
        assert_eq!(named("palisade-node:latest"), Some("node"));
        assert_eq!(named("palisade-node:18"), None);
        assert_eq!(named("node:latest"), None);
    }

    #[test]
    fn what_a_recipe_builds_on_is_part_of_its_digest() {
        let none = Certificates::default();
        let some = Certificates::new([("a.crt".to_owned(), b"A".to_vec())]);
        let digest =
            |name: &str, debian: &str, certificates| recipe(name).unwrap().digest(debian, certificates);
        let told = [
            digest("base", DEBIAN, &none),
            digest("base", DEBIAN, &some),
            digest("base", "debian:other", &none),
            digest("bash", DEBIAN, &none),
            digest("node", DEBIAN, &none),
            digest("agent", DEBIAN, &none),
        ];
        let unique: std::collections::BTreeSet<&String> = told.iter().collect();
        assert_eq!(unique.len(), told.len(), "{told:?}");
        assert_eq!(digest("base", DEBIAN, &none), told[0]);
    }
}
