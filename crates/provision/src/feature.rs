//! What a person calls a piece of work, `ux-v1-1/M3`, and the names that follow from it.

use palisade_core::{HostPath, printable};
use palisade_workspace::BranchName;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

const LONGEST: usize = 60;

/// A feature and its milestone. Both go into names of directories, branches and containers, so both are plain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
#[serde(try_from = "String", into = "String")]
pub struct Feature {
    name: String,
    milestone: String,
    branch: Branch,
}

/// Checked once, when the feature is read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Branch(BranchName);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{}' is not NAME/MILESTONE, such as my-feature/M1: two words of letters, digits, '-', '_' and '.', at most {LONGEST} each",
    printable(.0)
)]
pub struct InvalidFeature(String);

impl Feature {
    /// Where its worktree is: beside the main working tree.
    pub fn worktree(&self, project: &str, main: &HostPath) -> HostPath {
        let beside = main.parent().unwrap_or_else(|| main.clone());
        beside.join(format!("{project}-impl-{}-{}", self.name, self.milestone))
    }

    /// `impl/ux-v1-1-M3`.
    pub fn branch(&self) -> &BranchName {
        &self.branch.0
    }
}

impl FromStr for Feature {
    type Err = InvalidFeature;

    fn from_str(text: &str) -> Result<Self, InvalidFeature> {
        let refused = || InvalidFeature(text.chars().take(2 * LONGEST).collect());
        let (name, milestone) = text.split_once('/').ok_or_else(refused)?;
        if !(is_plain(name) && is_plain(milestone)) {
            return Err(refused());
        }
        let branch = BranchName::new(&format!("impl/{name}-{milestone}")).map_err(|_| refused())?;
        Ok(Self { name: name.into(), milestone: milestone.into(), branch: Branch(branch) })
    }
}

fn is_plain(word: &str) -> bool {
    let good = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    word.starts_with(|first: char| first.is_ascii_alphanumeric())
        && word.len() <= LONGEST
        && word.chars().all(good)
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.milestone)
    }
}

impl TryFrom<String> for Feature {
    type Error = InvalidFeature;
    fn try_from(text: String) -> Result<Self, InvalidFeature> {
        text.parse()
    }
}

impl From<Feature> for String {
    fn from(feature: Feature) -> String {
        feature.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_worktree_and_branch_follow_from_the_feature() {
        let feature: Feature = "ux-v1-1/M3".parse().unwrap();
        let main = HostPath::new("/home/karl/dev/khealth").unwrap();
        assert_eq!(feature.to_string(), "ux-v1-1/M3");
        assert_eq!(feature.branch().as_str(), "impl/ux-v1-1-M3");
        assert_eq!(
            feature.worktree("wellness-agent", &main),
            HostPath::new("/home/karl/dev/wellness-agent-impl-ux-v1-1-M3").unwrap()
        );
    }

    #[test]
    fn what_could_be_read_as_something_else_is_refused() {
        let long = format!("{}/M1", "x".repeat(61));
        for bad in [
            "",
            "x",
            "/",
            "x/",
            "/M1",
            "a/b/c",
            "-x/M1",
            "x/-f",
            "../x/M1",
            "x/..",
            ".x/M1",
            "a b/M1",
            "a\n/M1",
            "x/M1.lock",
            "x/M1.",
            "x/a..b",
            "ü/M1",
            &long,
        ] {
            assert!(bad.parse::<Feature>().is_err(), "{bad:?}");
        }
        assert!("x".repeat(60).parse::<Feature>().is_err());
    }
}
