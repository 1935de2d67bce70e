//! `palisade init`: declares once what the sandboxes of a project need, in its `infra.toml` and its compose file.
//!
//! Nothing is written before every question is answered and the difference was shown. Every answer is also an option,
//! so that nothing needs a terminal.

mod answers;
mod ask;
pub(crate) mod check;
mod difference;
mod method;
mod told;

use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output, terminal};
use answers::Answers;
use palisade_agents::AgentError;
use palisade_config::infra::INFRA_FILE;
use palisade_core::{ExitCode, HostPath, ProjectPath};
use palisade_provision::{Additions, Change, Findings, Given, Heading, Onboarding, write_changes};
use palisade_workspace::Repository;
use std::path::PathBuf;

/// Declare what the sandboxes of a project need
///
/// Finds the compose file, its services and ports, the variables and ignored files that they need, and asks how each is
/// to be provided. Writes .devops-ai/infra.toml, and makes the compose file's ports variables, in place. The difference
/// is shown first. In a project that has the file already, only what is missing is asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A directory of the project; the current one when left out
    pub(crate) directory: Option<PathBuf>,
    /// Tell what is missing and change nothing; the exit code is 1 when something is
    #[arg(long, conflicts_with_all = ["apply", "yes"])]
    pub(crate) check: bool,
    /// As JSON, with --check
    #[arg(long, requires = "check")]
    pub(crate) json: bool,
    /// Write what --check suggests, without a question; the options below still win
    #[arg(long)]
    pub(crate) apply: bool,
    /// Write without asking
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) answers: answers::Flags,
}

/// The project and what it lacks.
pub(crate) struct Found {
    pub(crate) project: Onboarding,
    pub(crate) findings: Findings,
    /// Git ignores `infra.toml` itself, so that nobody else would get it.
    pub(crate) infra_is_ignored: bool,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let directory = directory(arguments)?;
    let found = match find(&directory, arguments.answers.given()).await {
        Err(Failure::Onboarding(error)) if wants_to_be_asked(arguments) => {
            let compose_file = ask::compose_file(*error)?;
            find(&directory, Given { compose_file: Some(compose_file), ..arguments.answers.given() }).await?
        }
        found => found?,
    };
    if arguments.check {
        return check::run(&found, arguments.json);
    }
    if found.project.declared().is_some() {
        arguments.answers.refuse_for_an_onboarded_project()?;
        if found.findings.is_complete() {
            output::note(&told::onboarded(&found));
            output::note("\nNothing to do: everything that the compose file needs is declared.");
            return Ok(OK);
        }
        output::note(check::text(&found).trim_end());
    } else {
        output::note(told::inspection(&found).trim_end());
    }
    let answers = answers(arguments, &found)?;
    let heading = Heading {
        name: found.project.name.clone(),
        prefix: found.project.prefix.clone(),
        compose_file: found.project.compose_file.clone(),
        method: match found.project.declared() {
            Some(_) => None,
            None => method::proposed(context).await.map(|method| method.to_string()),
        },
        health: answers.health,
    };
    let additions = Additions {
        ports: Additions::proposed(&found.findings).ports,
        variables: answers.variables.into_iter().chain(arguments.answers.beyond(&found)).collect(),
        files: answers.files,
    };
    let changes = found.project.plan(&found.findings, &additions, &heading)?;
    for change in &changes {
        output::note(&format!("\n{}", difference::shown(change, output::Colours::of_stderr())));
    }
    if !arguments.yes && !arguments.apply && !changes.is_empty() && !ask::confirm("Write these changes?")? {
        return Err(Failure::failed("cancelled", "nothing was written"));
    }
    write_changes(&found.project.root, &changes)?;
    conclude(&found, &changes);
    Ok(OK)
}

fn wants_to_be_asked(arguments: &Arguments) -> bool {
    !arguments.check && !arguments.apply && terminal::can_ask()
}

fn answers(arguments: &Arguments, found: &Found) -> Result<Answers, Failure> {
    let flags = &arguments.answers;
    if arguments.apply {
        return flags.with_proposals(found);
    }
    if terminal::can_ask() {
        return ask::all(flags, found);
    }
    flags.alone(found, arguments.yes)
}

fn conclude(found: &Found, changes: &[Change]) {
    let is_infra = |change: &&Change| change.path.as_str() == INFRA_FILE;
    output::note("");
    for change in changes.iter().filter(is_infra) {
        let made = if change.before.is_none() { "Generated: " } else { "Updated:  " };
        output::note(&format!("{made}{}", change.path));
    }
    for change in changes.iter().filter(|change| !is_infra(change)) {
        output::note(&format!("Updated:  {} (ports parameterized)", change.path));
    }
    if changes.is_empty() {
        output::note("Nothing was left to write.");
    }
    let remarks = told::afterwards(found, changes);
    if !remarks.is_empty() {
        output::note("");
    }
    for remark in remarks {
        output::note(&format!("Note: {remark}"));
    }
    output::note(&format!("\nReady! Try: {} impl my-feature/M1", crate::called()));
}

fn directory(arguments: &Arguments) -> Result<HostPath, Failure> {
    let directory = arguments.directory.clone().unwrap_or_else(|| PathBuf::from("."));
    let absent = |reason: String| Failure::Told {
        code: "project-not-found",
        exit: ExitCode::NotFound,
        message: reason,
        hints: vec!["name a directory of the project".into()],
    };
    let found = std::fs::canonicalize(&directory)
        .map_err(|error| absent(format!("{}: {error}", directory.display())))?;
    HostPath::new(found).map_err(|error| absent(error.to_string()))
}

async fn find(directory: &HostPath, given: Given) -> Result<Found, Failure> {
    let git = crate::context::git();
    let repository = Repository::around(&git, directory).await.map_err(AgentError::from)?;
    let given = Given { compose_file: within(&repository, directory, given.compose_file)?, ..given };
    let project = Onboarding::open(repository.directory(), &given)?;
    let ignored = repository.ignored(&project.paths()).await.map_err(AgentError::from)?;
    let findings = project.findings(&ignored);
    Ok(Found { project, findings, infra_is_ignored: ignored.contains(INFRA_FILE) })
}

/// A path that is given is meant from the directory, and one of the project's from its top.
fn within(
    repository: &Repository,
    directory: &HostPath,
    path: Option<ProjectPath>,
) -> Result<Option<ProjectPath>, Failure> {
    let Some(path) = path else { return Ok(None) };
    let below = directory.as_path().strip_prefix(repository.directory()).unwrap_or(directory.as_path());
    let there = below.join(path.as_str());
    if !repository.directory().join(&there).as_path().exists() {
        return Ok(Some(path));
    }
    let path = ProjectPath::new(&there.to_string_lossy());
    path.map(Some).map_err(|error| Failure::usage(error.to_string(), "name a file of the project"))
}
