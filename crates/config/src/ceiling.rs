//! How far an environment may widen one setting: not at all, or up to a value that the user has named.

use serde::{Serialize, Serializer};
use std::fmt::{self, Display};

/// The word for "no wider than the setting itself".
pub(crate) const SAME: &str = "same";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ceiling<T> {
    /// Environments stay within the setting.
    Same,
    UpTo(T),
}

impl<T: PartialOrd> Ceiling<T> {
    /// Whether something beyond the setting is still within the ceiling.
    pub fn admits(&self, asked: &T) -> bool {
        match self {
            Ceiling::Same => false,
            Ceiling::UpTo(most) => asked <= most,
        }
    }
}

impl<T: Display> Display for Ceiling<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ceiling::Same => f.write_str(SAME),
            Ceiling::UpTo(most) => write!(f, "{most}"),
        }
    }
}

impl<T: Display> Serialize for Ceiling<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
