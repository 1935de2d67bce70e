//! What a sandbox is, written down beside its files and on its volumes, for a program that has lost the record of it.

use crate::spec::SandboxSpec;
use serde::{Deserialize, Serialize};

/// The form of a description; a change that an older program could not read gets another number.
const FORM: u32 = 1;

/// Enough to record a sandbox again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxDescription {
    form: u32,
    /// Unix milliseconds.
    pub created_at: i64,
    pub spec: SandboxSpec,
}

/// Why a description does not describe a sandbox to this program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// Written by another version of this program, so it is not guessed at.
    #[error("its description has form {found}, and this palisade knows form {FORM}")]
    Form { found: u64 },
    #[error("its description cannot be read: {reason}")]
    Unreadable { reason: String },
}

impl SandboxDescription {
    pub fn new(spec: SandboxSpec, created_at: i64) -> Self {
        Self { form: FORM, created_at, spec }
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub fn parse(text: &[u8]) -> Result<Self, DescriptionError> {
        let unreadable =
            |error: serde_json::Error| DescriptionError::Unreadable { reason: error.to_string() };
        let value: serde_json::Value = serde_json::from_slice(text).map_err(unreadable)?;
        match value.get("form").and_then(serde_json::Value::as_u64) {
            Some(form) if form == u64::from(FORM) => serde_json::from_value(value).map_err(unreadable),
            Some(found) => Err(DescriptionError::Form { found }),
            None => Err(DescriptionError::Unreadable { reason: "it has no form".into() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Foundation, HostIdentity, HostPath, Method, Policy, SandboxDir, SandboxId, SandboxName};

    #[test]
    fn a_description_reads_back_and_another_form_is_told_from_damage() {
        let id = SandboxId::from_random([1; 15]);
        let spec = SandboxSpec {
            dir: Some(SandboxDir::of(&HostPath::new("/state").unwrap(), &id)),
            id,
            name: Some(SandboxName::new("web").unwrap()),
            method: Method::Docker,
            policy: Policy::default(),
            foundation: Foundation::default(),
            paths: Vec::new(),
            identity: HostIdentity { uid: 7, gid: 8 },
            owner: "owner".into(),
            git: Vec::new(),
        };
        let description = SandboxDescription::new(spec, 5);
        let text = description.to_json();
        assert_eq!(SandboxDescription::parse(text.as_bytes()), Ok(description));
        let later = text.replace(r#""form":1"#, r#""form":2"#);
        assert_eq!(SandboxDescription::parse(later.as_bytes()), Err(DescriptionError::Form { found: 2 }));
        for damaged in [&text[..20], "", "null", "{}", r#"{"form":1}"#] {
            let parsed = SandboxDescription::parse(damaged.as_bytes());
            assert!(matches!(parsed, Err(DescriptionError::Unreadable { .. })), "{damaged:?}: {parsed:?}");
        }
    }
}
