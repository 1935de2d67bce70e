//! Where a secret comes from, and the secret itself. A reference may be shown; a secret never is: its `Debug` says
//! nothing, it has no `Display`, and it cannot be serialised.

use crate::sanitize::printable;
use crate::variable::VariableName;
use std::fmt;

/// A value that must not be seen. It is taken out with [`Secret::expose`], in the one place that hands it on, and is
/// wiped from memory when it is dropped.
#[derive(Clone)]
pub struct Secret(secrecy::SecretString);

impl Secret {
    pub fn new(value: impl Into<String>) -> Self {
        Self(secrecy::SecretString::from(value.into()))
    }

    pub fn expose(&self) -> &str {
        secrecy::ExposeSecret::expose_secret(&self.0)
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A program that keeps secrets, known by how its references begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// `op://vault/item/field`.
    OnePassword,
}

impl Provider {
    pub const ALL: [Provider; 1] = [Provider::OnePassword];

    pub fn scheme(self) -> &'static str {
        match self {
            Provider::OnePassword => "op://",
        }
    }
}

/// How a secret is written in a file: `$NAME`, a provider's address, or the value itself. A value that begins with a
/// dollar sign is written with two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretReference {
    Variable(VariableName),
    Provider { provider: Provider, address: String },
    Literal(Secret),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSecretReference {
    // The text may be a secret that somebody wrote down, so it is not repeated.
    #[error(
        "it begins with '$' but is not the name of a variable; a value that begins with '$' is written with '$$'"
    )]
    NotAVariable,
    #[error("{0} names nothing; write {0}vault/item/field")]
    EmptyAddress(&'static str),
    #[error("the address holds a control character: {0}")]
    ControlCharacter(String),
}

impl SecretReference {
    pub fn parse(text: &str) -> Result<Self, InvalidSecretReference> {
        if let Some(value) = text.strip_prefix("$$") {
            return Ok(Self::Literal(Secret::new(format!("${value}"))));
        }
        if let Some(name) = text.strip_prefix('$') {
            return match VariableName::new(name) {
                Ok(name) => Ok(Self::Variable(name)),
                Err(_) => Err(InvalidSecretReference::NotAVariable),
            };
        }
        for provider in Provider::ALL {
            let Some(rest) = text.strip_prefix(provider.scheme()) else { continue };
            if rest.trim_matches('/').is_empty() {
                return Err(InvalidSecretReference::EmptyAddress(provider.scheme()));
            }
            if text.chars().any(char::is_control) {
                return Err(InvalidSecretReference::ControlCharacter(printable(text)));
            }
            return Ok(Self::Provider { provider, address: text.to_owned() });
        }
        Ok(Self::Literal(Secret::new(text)))
    }
}

/// As it was written, but for a literal, which is the secret.
impl fmt::Display for SecretReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "${name}"),
            Self::Provider { address, .. } => f.write_str(address),
            Self::Literal(_) => f.write_str("literal"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, String> {
        SecretReference::parse(text).map(|it| format!("{it} {it:?}")).map_err(|error| error.to_string())
    }

    #[test]
    fn references_are_told_apart_and_only_literals_hide() {
        assert_eq!(shown("$KEY").unwrap(), "$KEY Variable(VariableName(\"KEY\"))");
        assert!(shown("op://vault/item/field").unwrap().starts_with("op://vault/item/field Provider"));
        for literal in ["localdev", "postgres://dev:dev@postgres:5432/mydb", "", "$$2b$10$hash", "a$b"] {
            assert_eq!(shown(literal).unwrap(), "literal Literal(Secret(…))", "{literal}");
        }
    }

    #[test]
    fn two_dollar_signs_begin_a_value_that_begins_with_one() {
        let Ok(SecretReference::Literal(secret)) = SecretReference::parse("$$2b$10") else { panic!() };
        assert_eq!(secret.expose(), "$2b$10");
    }

    #[test]
    fn what_is_neither_is_refused_without_repeating_it() {
        for text in ["$", "$1", "$A-B", "${A}", "$A B"] {
            assert_eq!(
                SecretReference::parse(text).unwrap_err(),
                InvalidSecretReference::NotAVariable,
                "{text}"
            );
        }
        assert_eq!(
            SecretReference::parse("op://").unwrap_err(),
            InvalidSecretReference::EmptyAddress("op://")
        );
        assert_eq!(
            SecretReference::parse("op://a/b\n").unwrap_err().to_string(),
            "the address holds a control character: op://a/b\\u{a}"
        );
    }
}
