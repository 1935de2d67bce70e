//! Whom an agent is signed in as: the variables of its login, from where the user said they come. Files with tokens that
//! are good for one refresh are never copied. Everything that is missing is told at once, before anything starts.

use crate::profile::{Profile, Profiles};
use palisade_core::{Diagnostic, ErrorCode, ExitCode, Secret, SecretReference, VariableName};

/// The values, by how sure it is that they are meant.
#[derive(Debug, Default)]
pub struct Signed {
    /// Set on the host under the very names that the agent knows. What the project's own files say is more particular.
    pub inherited: Vec<(String, Secret)>,
    /// The user named where they come from, so nothing else takes their place.
    pub referenced: Vec<(String, Secret)>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    #[error("the login of {agent} cannot be had: {}", .missing.join("; "))]
    Missing { agent: String, missing: Vec<String> },
    #[error("agent.login has variables that no agent's login has: {}", .names.join(", "))]
    Unknown { names: Vec<String>, near: Option<String> },
}

impl Diagnostic for LoginError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Missing { .. } => "login-missing",
            Self::Unknown { .. } => "login-unknown",
        }
    }

    fn exit(&self) -> ExitCode {
        match self {
            Self::Missing { .. } => ExitCode::Provisioning,
            Self::Unknown { .. } => ExitCode::Configuration,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Missing { .. } => {
                vec!["export what is missing, or change agent.login in the settings or [login.from] in the profile".into()]
            }
            Self::Unknown { near: Some(near), .. } => vec![format!("did you mean '{near}'?")],
            Self::Unknown { near: None, .. } => {
                vec![
                    "a profile of your own names the variables of its login: see docs/guides/agents.md"
                        .into(),
                ]
            }
        }
    }
}

impl Signed {
    /// `settings` are the references of the user's settings, which win over the profile's own; `variable` is the host's
    /// environment.
    pub fn in_for(
        profile: &Profile,
        profiles: &Profiles,
        settings: &[(&VariableName, &SecretReference)],
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, LoginError> {
        unknown(profiles, settings)?;
        let mut signed = Self::default();
        let mut missing = Vec::new();
        for name in profile.login.names() {
            let by_settings = settings.iter().find(|(known, _)| known.as_str() == name).map(|(_, it)| *it);
            match by_settings.or_else(|| profile.login.from.get(name)) {
                Some(reference) => match resolve(reference, variable) {
                    Ok(secret) => signed.referenced.push((name.to_owned(), secret)),
                    Err(reason) => missing.push(format!("{name}: {reason}")),
                },
                None => {
                    let value = variable(name).filter(|value| !value.is_empty());
                    signed.inherited.extend(value.map(|value| (name.to_owned(), Secret::new(value))));
                }
            }
        }
        if missing.is_empty() {
            Ok(signed)
        } else {
            Err(LoginError::Missing { agent: profile.name.clone(), missing })
        }
    }
}

/// The one place that turns a reference of a login into its value.
fn resolve(reference: &SecretReference, variable: &dyn Fn(&str) -> Option<String>) -> Result<Secret, String> {
    match reference {
        SecretReference::Literal(secret) => Ok(secret.clone()),
        SecretReference::Variable(name) => match variable(name.as_str()) {
            Some(value) if value.is_empty() => Err(format!("the environment variable {name} is empty")),
            Some(value) => Ok(Secret::new(value)),
            None => Err(format!("the environment variable {name} is not set")),
        },
        SecretReference::Provider { address, .. } => Err(format!(
            "{address} is an address of a password manager, and a login comes from a variable; write $NAME"
        )),
    }
}

/// A name that nobody reads is a slip, and the login would silently be another one.
fn unknown(profiles: &Profiles, settings: &[(&VariableName, &SecretReference)]) -> Result<(), LoginError> {
    let known: Vec<&str> = profiles.all().flat_map(|profile| profile.login.names()).collect();
    let strange = settings.iter().map(|(name, _)| name.as_str()).filter(|name| !known.contains(name));
    let names: Vec<String> = strange.map(str::to_owned).collect();
    let Some(first) = names.first() else { return Ok(()) };
    let distance = |name: &&str| strsim::damerau_levenshtein(name, first);
    let near = known.into_iter().min_by_key(distance).filter(|name| distance(name) <= 3).map(str::to_owned);
    Err(LoginError::Unknown { names, near })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = r#"
name = "mine"
description = "my own"
program = "mine"
interactive = ["mine"]
task = ["mine", "{task}"]
unattended = "it never asks"
[login]
variables = ["MY_KEY", "MY_URL"]
[login.from]
MY_TOKEN = "$WORK_TOKEN"
"#;

    fn host(name: &str) -> Option<String> {
        let set = [("MY_KEY", "plain"), ("WORK_KEY", "work"), ("WORK_TOKEN", "token"), ("EMPTY", "")];
        set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    fn signed(settings: &[(&str, &str)]) -> Result<(Vec<String>, Vec<String>), LoginError> {
        let profiles = Profiles::load([("mine.toml", OWN)]).unwrap();
        let settings: Vec<(VariableName, SecretReference)> = settings
            .iter()
            .map(|(name, text)| (VariableName::new(name).unwrap(), SecretReference::parse(text).unwrap()))
            .collect();
        let settings: Vec<_> = settings.iter().map(|(name, reference)| (name, reference)).collect();
        let signed = Signed::in_for(profiles.get("mine").unwrap(), &profiles, &settings, &host)?;
        assert!(!format!("{signed:?}").contains("token"));
        let told = |pairs: Vec<(String, Secret)>| -> Vec<String> {
            pairs.into_iter().map(|(name, secret)| format!("{name}={}", secret.expose())).collect()
        };
        Ok((told(signed.inherited), told(signed.referenced)))
    }

    fn lists(inherited: &[&str], referenced: &[&str]) -> (Vec<String>, Vec<String>) {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        (owned(inherited), owned(referenced))
    }

    #[test]
    fn what_is_set_under_its_own_name_is_inherited_and_a_reference_comes_first() {
        assert_eq!(signed(&[]).unwrap(), lists(&["MY_KEY=plain"], &["MY_TOKEN=token"]));
        assert_eq!(
            signed(&[("MY_KEY", "$WORK_KEY")]).unwrap(),
            lists(&[], &["MY_KEY=work", "MY_TOKEN=token"])
        );
        // Another agent's login is no concern of this one's, set or not.
        assert_eq!(signed(&[("OPENAI_API_KEY", "$NONE")]).unwrap(), signed(&[]).unwrap());
        assert_eq!(signed(&[("MY_TOKEN", "written")]).unwrap().1, ["MY_TOKEN=written"]);
    }

    #[test]
    fn everything_that_is_missing_is_told_at_once_by_name() {
        let error =
            signed(&[("MY_KEY", "$NONE"), ("MY_URL", "$EMPTY"), ("MY_TOKEN", "op://v/i/f")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the login of mine cannot be had: MY_KEY: the environment variable NONE is not set; \
             MY_URL: the environment variable EMPTY is empty; MY_TOKEN: op://v/i/f is an address of a password \
             manager, and a login comes from a variable; write $NAME"
        );
        assert_eq!(error.exit(), ExitCode::Provisioning);
    }

    #[test]
    fn a_variable_that_no_agent_reads_is_a_slip() {
        let error = signed(&[("ANTHROPIC_APIKEY", "$WORK_KEY")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "agent.login has variables that no agent's login has: ANTHROPIC_APIKEY"
        );
        assert_eq!(error.hints(), ["did you mean 'ANTHROPIC_API_KEY'?"]);
    }
}
