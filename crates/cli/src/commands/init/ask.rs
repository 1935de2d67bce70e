//! The questions of `init`, on a terminal. Nothing is written until the last of them is answered, so that whoever
//! leaves in the middle has changed nothing.

use super::answers::{Answers, Flags, Said, USUAL_ENDPOINT};
use super::{Found, told};
use crate::failure::Failure;
use crate::{output, terminal};
use palisade_core::{ProjectPath, SecretReference, printable};
use palisade_provision::{How, MissingFile, OnboardingError, Provided};

const SKIP: &str = "s";

/// Everything that the options leave open.
pub(super) fn all(flags: &Flags, found: &Found) -> Result<Answers, Failure> {
    flags.known(found)?;
    let mut answers = Answers::default();
    let is_new = found.project.declared().is_none();
    if is_new {
        answers.health = match flags.health(found) {
            Said::This(health) => Some(health),
            Said::Skip => None,
            Said::Nothing => health(flags, found)?,
        };
    }
    if is_new && !found.findings.variables.is_empty() {
        output::note(&format!("\n{}", told::variables(found).trim_end()));
    }
    let mut options = Options::Shown;
    for variable in &found.findings.variables {
        match flags.variable(&variable.name) {
            Said::This(given) => answers.variables.push(given),
            Said::Skip => {}
            Said::Nothing => {
                answers.variables.extend(provided(&variable.name, options)?);
                options = Options::Known;
            }
        }
    }
    if is_new && !found.findings.files.is_empty() {
        output::note(&format!("\n{}", told::files(found).trim_end()));
    }
    for file in &found.findings.files {
        match flags.file(&file.path) {
            Said::This(given) => answers.files.push(given),
            Said::Skip => {}
            Said::Nothing => answers.files.extend(source(file)?.map(|source| (file.path.clone(), source))),
        }
    }
    Ok(answers)
}

/// The compose file that is meant, where there is none of the usual names but one of another.
pub(super) fn compose_file(error: OnboardingError) -> Result<ProjectPath, Failure> {
    let OnboardingError::NoComposeFile { others, .. } = &error else { return Err(error.into()) };
    let Some(first) = others.first() else { return Err(error.into()) };
    output::note("There is no compose file of the usual names, but there is:");
    for (number, path) in (1..).zip(others) {
        output::note(&format!("  {number}. {path}"));
    }
    loop {
        let typed = line(&format!("? Compose file? [{first}] "))?;
        let by_number = typed.parse::<usize>().ok().and_then(|number| others.get(number.checked_sub(1)?));
        let by_name = others.iter().find(|path| path.as_str() == typed);
        match by_number.or(by_name) {
            Some(path) => return Ok(path.clone()),
            None if typed.is_empty() => return Ok(first.clone()),
            None => output::note("  Type its number, or Enter for the first."),
        }
    }
}

fn health(flags: &Flags, found: &Found) -> Result<Option<(String, Option<String>)>, Failure> {
    // Only a database publishes a port: there is nothing that speaks HTTP.
    let Some(likely) = found.project.health(&found.findings) else { return Ok(None) };
    let proposed = likely.endpoint.unwrap_or_else(|| USUAL_ENDPOINT.to_owned());
    loop {
        let typed = line(&format!("\n? Health check endpoint? [{proposed}] "))?;
        let endpoint = match typed.as_str() {
            "" => proposed.clone(),
            "none" | "-" => return Ok(None),
            endpoint => endpoint.to_owned(),
        };
        if endpoint.starts_with('/') && endpoint.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Ok(Some((endpoint, flags.health_port(found))));
        }
        output::note("  Type a path such as /health, or none to start without asking.");
    }
}

/// Whether the three ways to provide a variable are told before the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Options {
    Shown,
    /// They were told for the variable before.
    Known,
}

fn provided(name: &str, options: Options) -> Result<Option<Provided>, Failure> {
    let tell = || {
        output::note("  1. Literal value (safe for dev)");
        output::note(&format!("  2. Host environment variable (${name})"));
        output::note("  3. 1Password reference (op://vault/item/field)");
    };
    output::note(&format!("\n? How should {name} be provided?"));
    if options == Options::Shown {
        tell();
    }
    loop {
        let typed = line("  > ")?;
        let (choice, rest) = match typed.split_once(':') {
            Some((choice @ ("1" | "2" | "3"), rest)) => (choice, rest.trim()),
            _ => (typed.as_str(), ""),
        };
        let how = match choice {
            "1" => Ok(How::Literal(if rest.is_empty() { line("  Value: ")? } else { rest.to_owned() })),
            "2" => {
                let variable = rest.trim_start_matches('$');
                reference(&format!("${}", if variable.is_empty() { name } else { variable }))
            }
            "3" => {
                let address = if rest.is_empty() { line("  Reference: ")? } else { rest.to_owned() };
                match address.contains("://") {
                    true => reference(&address),
                    false => Err("a reference begins with op://".to_owned()),
                }
            }
            SKIP => return Ok(None),
            // Typed without its number.
            text if text.starts_with('$') || text.starts_with("op://") => reference(text),
            _ => Err(format!("type 1: VALUE, 2, 3: op://vault/item/field, or {SKIP} to leave it undeclared")),
        };
        match how {
            Ok(how) => return Ok(Some(Provided { name: name.to_owned(), how })),
            Err(reason) => {
                output::note(&format!("  {reason}"));
                tell();
            }
        }
    }
}

fn reference(text: &str) -> Result<How, String> {
    SecretReference::parse(text).map_err(|error| error.to_string())?;
    Ok(How::Reference(text.to_owned()))
}

fn source(file: &MissingFile) -> Result<Option<ProjectPath>, Failure> {
    let path = &file.path;
    let examples: Vec<&ProjectPath> = file.sources.iter().filter(|source| *source != path).collect();
    let there = file.sources.first() == Some(path);
    let choices: Vec<&ProjectPath> = std::iter::once(path).chain(examples.iter().copied()).collect();
    let default = if there || examples.is_empty() { 0 } else { 1 };
    output::note(&format!("\n? Source for {path} in sandboxes?"));
    let state = if there { "exists" } else { "not there yet" };
    output::note(&format!("  1. Copy from main repo ({path} — {state})"));
    for (number, example) in (2..).zip(&examples) {
        output::note(&format!("  {number}. Copy from template ({example} — exists)"));
    }
    loop {
        let typed = line("  > ")?;
        if typed == SKIP {
            return Ok(None);
        }
        let chosen = match typed.is_empty() {
            true => choices.get(default),
            false => typed.parse::<usize>().ok().and_then(|number| choices.get(number.checked_sub(1)?)),
        };
        match chosen {
            Some(source) => return Ok(Some((*source).clone())),
            None => output::note(&format!(
                "  type a number, Enter for {}, or {SKIP} to leave it undeclared",
                default + 1
            )),
        }
    }
}

/// Yes unless it is declined.
pub(super) fn confirm(question: &str) -> Result<bool, Failure> {
    if !terminal::can_ask() {
        return Err(Failure::usage("there is no terminal to ask on", "add --yes to write without asking"));
    }
    loop {
        match line(&format!("\n? {question} [Y/n] "))?.to_ascii_lowercase().as_str() {
            "" | "y" | "yes" => return Ok(true),
            "n" | "no" => return Ok(false),
            other => output::note(&format!("  '{}' is neither yes nor no", printable(other))),
        }
    }
}

/// What was typed, without the blanks around it.
fn line(question: &str) -> Result<String, Failure> {
    output::prompt(question);
    let mut typed = String::new();
    match std::io::stdin().read_line(&mut typed) {
        Ok(1..) => Ok(typed.trim().to_owned()),
        // Ctrl-D.
        Ok(0) => {
            output::note("");
            Err(Failure::failed("cancelled", "nothing was written"))
        }
        Err(error) => Err(Failure::failed("io", format!("cannot read what is typed: {error}"))),
    }
}
