//! From references to secrets, all or none: every failure is collected, so that all can be mended at once.
//!
//! Nothing is cached; each call asks anew. A provider's program gets its reference on its command line, which is no
//! secret, and answers on its standard output. What it writes to its standard error is looked at to know what went
//! wrong and is never shown: it may hold the secret.

mod one_password;

pub use one_password::OnePassword;

use crate::env_file::LONGEST_VALUE;
use palisade_core::shell::quoted;
use palisade_core::{Provider, Secret, SecretReference, VariableName};
use std::ffi::OsString;
use std::time::Duration;

/// A secret that a project declares.
#[derive(Debug, Clone)]
pub struct DeclaredSecret {
    pub name: VariableName,
    pub reference: SecretReference,
    /// The services that get it; all of them when there is no list.
    pub services: Option<Vec<String>>,
}

/// A secret with its value.
#[derive(Debug, Clone)]
pub struct ResolvedSecret {
    pub declared: DeclaredSecret,
    pub value: Secret,
}

/// Why one secret could not be had. Never holds a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFailure {
    pub name: VariableName,
    /// The reference as it is written; `literal` for a value.
    pub reference: String,
    pub cause: SecretFailureCause,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretFailureCause {
    #[error(
        "Environment variable {0} not set. Export it or change to a different resolution type in infra.toml."
    )]
    Unset(VariableName),
    #[error("1Password CLI (op) not found. Install it or use $VAR references instead.")]
    NotInstalled,
    #[error("1Password not authenticated. Run: eval $(op signin)")]
    NotAuthenticated,
    #[error("Secret not found: {0}. Check the reference in infra.toml.")]
    NotFound(String),
    #[error("1Password did not answer within {} seconds. Unlock it, then try again.", .0.as_secs())]
    TimedOut(Duration),
    #[error("1Password CLI (op) failed{}. See why with: op read {}", status(.code), quoted(address.as_ref()).display())]
    Failed { code: Option<i32>, address: String },
    #[error("1Password CLI (op) could not be started: {0}")]
    NotStarted(String),
    #[error("The value is not UTF-8, which an env file cannot hold.")]
    NotText,
    #[error("The value holds a NUL, which no variable can.")]
    Nul,
    #[error("The value is longer than {LONGEST_VALUE} bytes.")]
    TooLong,
}

fn status(code: &Option<i32>) -> String {
    code.map(|code| format!(" with code {code}")).unwrap_or_default()
}

/// Resolves every secret, or tells everything that is in the way, in the order of the declarations.
pub async fn resolve(
    declared: Vec<DeclaredSecret>,
    environment: impl Fn(&VariableName) -> Option<OsString>,
    one_password: &OnePassword,
) -> Result<Vec<ResolvedSecret>, Vec<SecretFailure>> {
    let addresses = declared.iter().filter_map(|secret| match &secret.reference {
        SecretReference::Provider { provider: Provider::OnePassword, address } => Some(address.clone()),
        SecretReference::Variable(_) | SecretReference::Literal(_) => None,
    });
    let mut answers = one_password.read_all(addresses.collect()).await.into_iter();
    let mut resolved = Vec::new();
    let mut failures = Vec::new();
    for secret in declared {
        let value = match &secret.reference {
            SecretReference::Literal(value) => Ok(value.clone()),
            SecretReference::Variable(name) => from_environment(name, environment(name)),
            SecretReference::Provider { address, .. } => {
                answers.next().unwrap_or_else(|| Err(SecretFailureCause::NotFound(address.clone())))
            }
        };
        match value.and_then(usable) {
            Ok(value) => resolved.push(ResolvedSecret { declared: secret, value }),
            Err(cause) => {
                let reference = secret.reference.to_string();
                failures.push(SecretFailure { name: secret.name, reference, cause });
            }
        }
    }
    if failures.is_empty() { Ok(resolved) } else { Err(failures) }
}

fn from_environment(name: &VariableName, value: Option<OsString>) -> Result<Secret, SecretFailureCause> {
    let value = value.ok_or_else(|| SecretFailureCause::Unset(name.clone()))?;
    value.into_string().map(Secret::new).map_err(|_| SecretFailureCause::NotText)
}

fn usable(value: Secret) -> Result<Secret, SecretFailureCause> {
    if value.expose().contains('\0') {
        return Err(SecretFailureCause::Nul);
    }
    if value.expose().len() > LONGEST_VALUE {
        return Err(SecretFailureCause::TooLong);
    }
    Ok(value)
}

#[cfg(test)]
mod tests;
