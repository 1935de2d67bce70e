//! The result of trying a method before it is used: each check with what it found, and the fix when it failed.

use crate::method::Method;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    Ok,
    /// Works, with something the user should know.
    Warning,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Check {
    /// What was looked at.
    pub name: String,
    pub status: CheckStatus,
    /// What was found; for a failure, what failed and why.
    pub detail: String,
    /// What to do about it.
    pub fix: Option<String>,
}

impl Check {
    pub fn ok(name: &str, detail: impl Into<String>) -> Self {
        Self { name: name.into(), status: CheckStatus::Ok, detail: detail.into(), fix: None }
    }

    pub fn warning(name: &str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name: name.into(), status: CheckStatus::Warning, detail: detail.into(), fix: Some(fix.into()) }
    }

    pub fn failed(name: &str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name: name.into(), status: CheckStatus::Failed, detail: detail.into(), fix: Some(fix.into()) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preflight {
    pub method: Method,
    pub checks: Vec<Check>,
}

impl Preflight {
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.status != CheckStatus::Failed)
    }

    pub fn failures(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| check.status == CheckStatus::Failed)
    }
}
