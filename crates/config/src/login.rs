//! One variable of an agent's login, and where its value comes from. A value that is written down in a file is never
//! shown: what is shown is the reference.

use crate::value::{Checked, Written};
use palisade_core::{SecretReference, VariableName};
use serde::{Serialize, Serializer};
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginVariable {
    pub name: VariableName,
    pub reference: SecretReference,
}

impl LoginVariable {
    pub(crate) fn read(name: &str, written: &Written<'_>, expected: &str) -> Checked<Self> {
        let name = VariableName::new(name).map_err(|error| error.to_string())?;
        let reference = written.reference(expected).map_err(|reason| format!("{name}: {reason}"))?;
        Ok(Self { name, reference })
    }
}

impl fmt::Display for LoginVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.name, self.reference)
    }
}

impl Serialize for LoginVariable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
