//! Whether a secret for some services reaches others.
//!
//! Compose fills every `${VAR}` of a file from one environment, wherever it stands: in any service, in env files that
//! services name, in files that are included. So the file is rendered with a mark in place of each such secret, and the
//! marks are looked for. No secret is needed for that, and nothing is guessed from the text of the files.

use super::{Compose, Stack, StackError};
use crate::overriding::ScopedSecret;
use palisade_core::{Diagnostic, ErrorCode, ExitCode, VariableName};
use serde_json::Value;
use std::fmt;

/// A service gets a secret that is not for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScopeViolation {
    pub secret: VariableName,
    pub service: String,
}

/// Everything that is in the way of keeping secrets to their services.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct ScopeError(pub Vec<ScopeViolation>);

impl fmt::Display for ScopeViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service {} refers to {}, which is not for it", self.service, self.secret)
    }
}

impl Diagnostic for ScopeError {
    fn code(&self) -> ErrorCode {
        "secret-out-of-scope"
    }

    fn exit(&self) -> ExitCode {
        ExitCode::Configuration
    }

    fn hints(&self) -> Vec<String> {
        vec!["add the service to the secret's 'services' in infra.toml, or take the variable out of the service".into()]
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ScopeCheckError {
    #[error(transparent)]
    Stack(#[from] StackError),
    #[error(transparent)]
    Scope(#[from] ScopeError),
}

impl Stack {
    /// Refuses when a service refers to a secret that is not for it, in whatever way.
    pub async fn check_scopes(&self, secrets: &[ScopedSecret]) -> Result<(), ScopeCheckError> {
        if secrets.is_empty() {
            return Ok(());
        }
        let marks: Vec<String> = secrets.iter().map(|_| mark()).collect::<Result<_, _>>()?;
        let mut compose = Compose::of(self, &["config", "--format", "json"]);
        for (secret, mark) in secrets.iter().zip(&marks) {
            compose = compose.variable(secret.name.as_str(), mark);
        }
        let ended = compose.answer(self.patience.answer).await?;
        let rendered = ended.success("render the compose file").map_err(StackError::of_render)?;
        let model: Value = serde_json::from_slice(&rendered)
            .map_err(|error| StackError::Unreadable { reason: error.to_string() })?;
        let mut found = Vec::new();
        for (secret, mark) in secrets.iter().zip(&marks) {
            found.extend(violations(&model, secret, mark));
        }
        found.sort();
        if found.is_empty() { Ok(()) } else { Err(ScopeError(found).into()) }
    }
}

/// Nothing that stands in a file by accident.
fn mark() -> Result<String, StackError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| StackError::Unreadable { reason: error.to_string() })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn violations(model: &Value, secret: &ScopedSecret, mark: &str) -> Vec<ScopeViolation> {
    let entries = |section: &str| model.get(section).and_then(Value::as_object).into_iter().flatten();
    // What is declared beside the services and holds the secret: whoever uses it has it, too.
    let carriers: Vec<&str> = ["secrets", "configs", "networks", "volumes"]
        .into_iter()
        .flat_map(entries)
        .filter(|(_, entry)| {
            let named = entry.get("environment").and_then(Value::as_str) == Some(secret.name.as_str());
            named || holds(entry, &|text| text.contains(mark))
        })
        .map(|(key, _)| key.as_str())
        .collect();
    let strangers = entries("services").filter(|(name, _)| !secret.services.contains(name));
    let reached = strangers
        .filter(|(_, service)| holds(service, &|text| text.contains(mark)) || uses(service, &carriers));
    reached.map(|(name, _)| ScopeViolation { secret: secret.name.clone(), service: name.clone() }).collect()
}

fn uses(service: &Value, carriers: &[&str]) -> bool {
    let parts = [
        service.get("secrets"),
        service.get("configs"),
        service.get("volumes"),
        service.get("build").and_then(|build| build.get("secrets")),
        service.get("networks"),
    ];
    let is_carrier = |text: &str| carriers.contains(&text);
    parts.into_iter().flatten().any(|part| holds(part, &is_carrier))
}

/// Whether a key or a text in it is meant.
fn holds(value: &Value, meant: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => meant(text),
        Value::Array(elements) => elements.iter().any(|element| holds(element, meant)),
        Value::Object(entries) => entries.iter().any(|(key, value)| meant(key) || holds(value, meant)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
