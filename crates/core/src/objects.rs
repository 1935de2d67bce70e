//! Stores of git objects that the host alone writes, and that sandboxes are shown read-only.

use crate::path::HostPath;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Where a store of objects stands inside.
pub const OBJECTS: &str = "/.palisade-objects";
/// Longer than any name of ours.
const MAX_LENGTH: usize = 80;

/// The name of a store: a directory in Palisade's state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct ObjectStoreName(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not the name of an object store")]
pub struct InvalidObjectStoreName;

impl ObjectStoreName {
    pub fn new(text: &str) -> Result<Self, InvalidObjectStoreName> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let well_formed = (1..=MAX_LENGTH).contains(&text.len()) && text.bytes().all(is_plain);
        if well_formed { Ok(Self(text.to_owned())) } else { Err(InvalidObjectStoreName) }
    }

    /// Where all stores are.
    pub fn all_in(state: &HostPath) -> HostPath {
        state.join("objects")
    }

    pub fn directory(&self, state: &HostPath) -> HostPath {
        Self::all_in(state).join(&self.0)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ObjectStoreName {
    type Error = InvalidObjectStoreName;
    fn try_from(text: String) -> Result<Self, InvalidObjectStoreName> {
        Self::new(&text)
    }
}

impl From<ObjectStoreName> for String {
    fn from(name: ObjectStoreName) -> String {
        name.0
    }
}

impl fmt::Display for ObjectStoreName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_lead_out_of_the_state() {
        let state = HostPath::new("/state").unwrap();
        let name = ObjectStoreName::new("r-0a9z").unwrap();
        assert_eq!(name.directory(&state), HostPath::new("/state/objects/r-0a9z").unwrap());
        for bad in ["", ".", "..", "a/b", "A", "a_b", &"a".repeat(MAX_LENGTH + 1)] {
            assert_eq!(ObjectStoreName::new(bad), Err(InvalidObjectStoreName), "{bad}");
            assert!(serde_json::from_str::<ObjectStoreName>(&format!("\"{bad}\"")).is_err(), "{bad}");
        }
    }
}
