//! The answers to the questions of `init`, as options. What neither was said nor may be proposed is named all at once.

use super::Found;
use crate::failure::Failure;
use palisade_core::{ProjectPath, SecretReference, VariableName};
use palisade_provision::{Additions, Given, How, MissingFile, Provided};

/// What is asked when there is no check of the services' own to go by.
pub(super) const USUAL_ENDPOINT: &str = "/health";

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Answers")]
pub(crate) struct Flags {
    /// What the project is called; as its tools call it when left out
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// What the names of its ports begin with; the project's name when left out
    #[arg(long, value_name = "WORD")]
    prefix: Option<String>,
    /// The compose file, when it has none of the usual names
    #[arg(long, value_name = "PATH", value_parser = path)]
    compose_file: Option<ProjectPath>,
    /// The path that is asked until the services are healthy, such as /health
    #[arg(long, value_name = "ENDPOINT", conflicts_with = "no_health")]
    health: Option<String>,
    /// The variable of the port on which that is asked
    #[arg(long, value_name = "VARIABLE", conflicts_with = "no_health")]
    health_port: Option<String>,
    /// Start without asking for health
    #[arg(long)]
    no_health: bool,
    /// Provide a variable by a value that is no secret
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = value)]
    env: Vec<Provided>,
    /// Provide a variable by a reference: $VARIABLE or op://vault/item/field
    #[arg(long = "secret", value_name = "NAME=REFERENCE", value_parser = reference)]
    secrets: Vec<Provided>,
    /// Copy an ignored file into sandboxes from SOURCE of the main working tree
    #[arg(long = "file", value_name = "PATH=SOURCE", value_parser = file)]
    files: Vec<(ProjectPath, ProjectPath)>,
    /// Leave a variable or an ignored file undeclared
    #[arg(long = "skip", value_name = "NAME")]
    skip: Vec<String>,
}

/// Everything that had to be answered.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// The endpoint, and the variable of its port.
    pub(super) health: Option<(String, Option<String>)>,
    pub(super) variables: Vec<Provided>,
    pub(super) files: Vec<(ProjectPath, ProjectPath)>,
}

/// What was said about one thing.
pub(super) enum Said<T> {
    This(T),
    /// It is to be left out.
    Skip,
    Nothing,
}

fn pair(text: &str) -> Result<(&str, &str), String> {
    text.split_once('=').ok_or_else(|| "write NAME=VALUE".to_owned())
}

fn value(text: &str) -> Result<Provided, String> {
    let (name, value) = pair(text)?;
    let name = VariableName::new(name).map_err(|error| error.to_string())?;
    Ok(Provided { name: name.to_string(), how: How::Literal(value.to_owned()) })
}

fn reference(text: &str) -> Result<Provided, String> {
    let (name, reference) = pair(text)?;
    let name = VariableName::new(name).map_err(|error| error.to_string())?;
    SecretReference::parse(reference).map_err(|error| error.to_string())?;
    Ok(Provided { name: name.to_string(), how: How::Reference(reference.to_owned()) })
}

fn path(text: &str) -> Result<ProjectPath, String> {
    ProjectPath::new(text).map_err(|error| error.to_string())
}

fn file(text: &str) -> Result<(ProjectPath, ProjectPath), String> {
    let (destination, source) = pair(text)?;
    Ok((path(destination)?, path(source)?))
}

impl Flags {
    pub(super) fn given(&self) -> Given {
        Given {
            name: self.name.clone(),
            prefix: self.prefix.clone(),
            compose_file: self.compose_file.clone(),
        }
    }

    /// What only a new file is told.
    pub(super) fn refuse_for_an_onboarded_project(&self) -> Result<(), Failure> {
        let given = [
            ("--name", self.name.is_some()),
            ("--prefix", self.prefix.is_some()),
            ("--compose-file", self.compose_file.is_some()),
            ("--health", self.health.is_some()),
            ("--health-port", self.health_port.is_some()),
            ("--no-health", self.no_health),
        ];
        let flags: Vec<&str> = given.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).collect();
        if flags.is_empty() {
            return Ok(());
        }
        let message =
            format!("the project has an infra.toml already, so {} would have no effect", flags.join(", "));
        Err(Failure::usage(message, "change it in .devops-ai/infra.toml"))
    }

    pub(super) fn variable(&self, name: &str) -> Said<Provided> {
        match self.env.iter().chain(&self.secrets).find(|given| given.name == name) {
            Some(given) => Said::This(given.clone()),
            None if self.skip.iter().any(|skipped| skipped == name) => Said::Skip,
            None => Said::Nothing,
        }
    }

    pub(super) fn file(&self, path: &ProjectPath) -> Said<(ProjectPath, ProjectPath)> {
        match self.files.iter().find(|(destination, _)| destination == path) {
            Some(given) => Said::This(given.clone()),
            None if self.skip.iter().any(|skipped| skipped == path.as_str()) => Said::Skip,
            None => Said::Nothing,
        }
    }

    /// Whether health is asked for, and how; with the port that is likely when none is said.
    pub(super) fn health(&self, found: &Found) -> Said<(String, Option<String>)> {
        if self.no_health {
            return Said::Skip;
        }
        match &self.health {
            Some(endpoint) => Said::This((endpoint.clone(), self.health_port(found))),
            None => Said::Nothing,
        }
    }

    pub(super) fn health_port(&self, found: &Found) -> Option<String> {
        self.health_port.clone().or_else(|| found.project.health(&found.findings).map(|likely| likely.port))
    }

    /// What was said, and of the rest what is proposed. Health is only asked for when the services do so themselves:
    /// an endpoint that nobody knows to be there would fail every start.
    pub(super) fn with_proposals(&self, found: &Found) -> Result<Answers, Failure> {
        self.known(found)?;
        let proposed = Additions::proposed(&found.findings);
        let health = match self.health(found) {
            Said::This(health) => Some(health),
            Said::Skip => None,
            Said::Nothing => {
                let likely = found.project.health(&found.findings);
                likely.and_then(|likely| Some((likely.endpoint?, Some(likely.port))))
            }
        };
        let variables =
            proposed.variables.into_iter().filter_map(|proposed| match self.variable(&proposed.name) {
                Said::This(given) => Some(given),
                Said::Skip => None,
                Said::Nothing => Some(proposed),
            });
        let files = proposed.files.into_iter().filter_map(|proposed| match self.file(&proposed.0) {
            Said::This(given) => Some(given),
            Said::Skip => None,
            Said::Nothing => Some(proposed),
        });
        Ok(Answers { health, variables: variables.collect(), files: files.collect() })
    }

    /// Nobody can be asked: what was not said is missing.
    pub(super) fn alone(&self, found: &Found, yes: bool) -> Result<Answers, Failure> {
        self.known(found)?;
        let mut answers = Answers::default();
        let mut missing = Vec::new();
        let needs_health =
            found.project.declared().is_none() && found.project.health(&found.findings).is_some();
        match self.health(found) {
            Said::This(health) => answers.health = Some(health),
            Said::Nothing if needs_health => missing.push("--health ENDPOINT or --no-health".to_owned()),
            Said::Nothing | Said::Skip => {}
        }
        for variable in &found.findings.variables {
            let name = &variable.name;
            match self.variable(name) {
                Said::This(given) => answers.variables.push(given),
                Said::Skip => {}
                Said::Nothing => {
                    missing.push(format!("--env {name}=VALUE, --secret {name}=REFERENCE or --skip {name}"));
                }
            }
        }
        for MissingFile { path, .. } in &found.findings.files {
            match self.file(path) {
                Said::This(given) => answers.files.push(given),
                Said::Skip => {}
                Said::Nothing => missing.push(format!("--file {path}=SOURCE or --skip {path}")),
            }
        }
        if !yes {
            missing.push("--yes".to_owned());
        }
        if missing.is_empty() {
            return Ok(answers);
        }
        Err(Failure::usage(
            format!(
                "there is no terminal to ask on, and these answers are missing:\n  {}",
                missing.join("\n  ")
            ),
            "give them, or take what `palisade init --check` suggests with --apply",
        ))
    }

    /// An answer to a question that is not asked was meant for something else.
    pub(super) fn known(&self, found: &Found) -> Result<(), Failure> {
        let findings = &found.findings;
        let variable = |name: &str| {
            findings.variables.iter().chain(&findings.optional).any(|variable| variable.name == name)
        };
        let file = |path: &str| findings.files.iter().any(|file| file.path.as_str() == path);
        let named = self.env.iter().chain(&self.secrets).map(|given| given.name.as_str());
        let unknown: Vec<&str> = named
            .filter(|name| !variable(name))
            .chain(self.files.iter().map(|(path, _)| path.as_str()).filter(|path| !file(path)))
            .chain(self.skip.iter().map(String::as_str).filter(|name| !variable(name) && !file(name)))
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        Err(Failure::usage(
            format!("nothing is missing that is called {}", unknown.join(", ")),
            "see what is missing with: palisade init --check",
        ))
    }

    /// Those that need no declaration and were given one all the same.
    pub(super) fn beyond(&self, found: &Found) -> Vec<Provided> {
        let given = |name: &str| self.env.iter().chain(&self.secrets).find(|given| given.name == name);
        found.findings.optional.iter().filter_map(|variable| given(&variable.name).cloned()).collect()
    }
}
