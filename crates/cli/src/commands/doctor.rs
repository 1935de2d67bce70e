//! `palisade doctor`: tries the methods for real and says what is wrong and how to mend it.

use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_agents::AgentError;
use palisade_core::{Capabilities, Capability, Check, CheckStatus, Diagnostic, ExitCode, Method, Origin};
use palisade_engine::SandboxListing;
use palisade_workspace::Git;
use serde::Serialize;
use std::fmt::Write as _;

/// Check whether the selected method works here
///
/// Every check runs the thing it is about. The exit code is 4 when the selected method cannot be used.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Check every method, not only the selected one
    #[arg(long)]
    pub(crate) all: bool,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Diagnosis {
    selected: Method,
    origin: Origin,
    /// The selected one; with `--all`, every one.
    methods: Vec<MethodReport>,
    /// Programs of the host that some commands need; without them the others still work.
    tools: Vec<Check>,
    /// The record of sandboxes; what is wrong with it keeps no method from being usable.
    state: Vec<Check>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct MethodReport {
    method: Method,
    /// Whether no check failed.
    usable: bool,
    checks: Vec<Check>,
    /// `null` for a method that is not in this build.
    capabilities: Option<Capabilities>,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let selection = context.settings.method();
    let methods = if arguments.all { Method::ALL.to_vec() } else { vec![selection.method] };
    let mut reports = Vec::new();
    for method in methods {
        reports.push(examine(context, method).await);
    }
    let usable = reports.iter().any(|report| report.method == selection.method && report.usable);
    tracing::info!(
        sandbox.select = %selection.method,
        origin = %selection.origin,
        preflight = if usable { "passed" } else { "failed" },
        "sandbox method"
    );
    let diagnosis = Diagnosis {
        selected: selection.method,
        origin: selection.origin,
        methods: reports,
        tools: tools().await,
        state: state(context),
    };
    if arguments.json {
        output::json(&diagnosis)?;
    } else {
        output::data(&describe(&diagnosis))?;
    }
    Ok(if usable { OK } else { ExitCode::Preflight as Status })
}

async fn examine(context: &Context, method: Method) -> MethodReport {
    match context.engine.backend(method) {
        Ok(backend) => {
            let checks = match context.engine.preflight(method).await {
                Ok(preflight) => preflight.checks,
                Err(error) => vec![Check::failed("preflight", error.to_string(), error.hints().join("; "))],
            };
            MethodReport {
                method,
                usable: checks.iter().all(|check| check.status != CheckStatus::Failed),
                checks,
                capabilities: Some(backend.capabilities()),
            }
        }
        Err(error) => {
            let check = Check::failed("build", "not available in this build", error.hints().join("; "));
            MethodReport { method, usable: false, checks: vec![check], capabilities: None }
        }
    }
}

async fn tools() -> Vec<Check> {
    let git = crate::context::git();
    let found = check_git(&git).await;
    let bare = match found.status {
        CheckStatus::Ok => Some(check_bare_repositories(&git).await),
        CheckStatus::Warning | CheckStatus::Failed => None,
    };
    std::iter::once(found).chain(bare).collect()
}

/// Git takes any directory that looks like a repository for one, unless it is told otherwise; and a sandbox that can write a
/// directory of the host's can make one look so.
async fn check_bare_repositories(git: &Git) -> Check {
    const NAME: &str = "bare repositories";
    const SETTING: &str = "safe.bareRepository";
    match git.user_setting(SETTING).await {
        Ok(Some(value)) if value.eq_ignore_ascii_case("explicit") => {
            Check::ok(NAME, format!("{SETTING} is {value}"))
        }
        Ok(_) => Check::warning(
            NAME,
            format!("git obeys any directory with HEAD, objects and refs: {SETTING} is not explicit"),
            "run: git config --global safe.bareRepository explicit. Without it, git status or a prompt runs what a \
             sandbox has written into such a directory below one that was bound with -w",
        ),
        Err(error) => Check::warning(NAME, error.to_string(), "look at the user's git configuration"),
    }
}

/// What `palisade agent` works with.
async fn check_git(git: &Git) -> Check {
    match git.require().await {
        Ok(version) => Check::ok("git", format!("version {version}")),
        Err(error) => {
            let error = AgentError::from(error);
            let fix = format!("for palisade agent, {}", error.hints().join("; "));
            Check::warning("git", error.to_string(), fix)
        }
    }
}

/// Whether the record can be read, and what was set aside of it.
fn state(context: &Context) -> Vec<Check> {
    let listed = match context.engine.list() {
        Ok(SandboxListing { sandboxes, bad, unrecorded }) if bad.is_empty() && unrecorded.is_empty() => {
            Check::ok("records", format!("{} sandboxes, all readable", sandboxes.len()))
        }
        Ok(SandboxListing { bad, unrecorded, .. }) if bad.is_empty() => {
            let ids: Vec<&str> = unrecorded.iter().map(|found| found.id.as_str()).collect();
            let fix = format!(
                "their files are kept; give one up with: palisade rm --discard {}",
                ids.first().unwrap_or(&"ID")
            );
            Check::warning("records", format!("missing for: {}", ids.join(", ")), fix)
        }
        Ok(SandboxListing { bad, .. }) => {
            let names: Vec<String> = bad.iter().map(|row| palisade_core::printable(&row.name)).collect();
            let first = names.first().map_or("NAME", String::as_str);
            let fix = format!("give one up with: palisade rm --discard {first}");
            Check::warning("records", format!("cannot be read: {}", names.join(", ")), fix)
        }
        Err(error) => Check::failed("records", error.to_string(), error.hints().join("; ")),
    };
    let aside = set_aside(context);
    let kept = (!aside.is_empty()).then(|| {
        let fix = "take out what you need, then remove them";
        Check::warning("set aside", aside.join(", "), fix)
    });
    std::iter::once(listed).chain(kept).collect()
}

fn set_aside(context: &Context) -> Vec<String> {
    let entries = std::fs::read_dir(context.engine.state_dir()).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.contains(".corrupt-")).collect();
    names.sort();
    // A journal is reported with its store, unless there is only the journal.
    let stores = names.clone();
    let is_companion = |name: &String| {
        let store = name.strip_suffix("-wal").or_else(|| name.strip_suffix("-shm"));
        store.is_some_and(|store| stores.iter().any(|other| other == store))
    };
    names.retain(|name| !is_companion(name));
    names
}

fn describe(diagnosis: &Diagnosis) -> String {
    let mut text = format!("selected: {} (from {})\n\n", diagnosis.selected, diagnosis.origin);
    let mut rows = Vec::new();
    let methods = diagnosis.methods.iter().map(|report| (report.method.to_string(), &report.checks));
    let parts: Vec<(String, &Vec<Check>)> = methods
        .chain([("(tools)".to_owned(), &diagnosis.tools), ("(state)".to_owned(), &diagnosis.state)])
        .collect();
    for (part, checks) in &parts {
        for check in *checks {
            let mark = match check.status {
                CheckStatus::Ok => "ok",
                CheckStatus::Warning => "warning",
                CheckStatus::Failed => "FAILED",
            };
            rows.push(vec![part.clone(), check.name.clone(), mark.to_owned(), check.detail.clone()]);
        }
    }
    text.push_str(&output::table(&["METHOD", "CHECK", "RESULT", "DETAIL"], &rows));
    for (part, checks) in &parts {
        for check in checks.iter().filter(|check| check.status != CheckStatus::Ok) {
            if let Some(fix) = &check.fix {
                // Writing to a String cannot fail.
                let _ = write!(text, "\n{} / {}: {}", part, check.name, fix);
            }
        }
    }
    text.push_str("\n\n");
    text.push_str(&capabilities(diagnosis));
    text
}

fn capabilities(diagnosis: &Diagnosis) -> String {
    let name = |capability: &Capability| {
        serde_json::to_value(capability)
            .ok()
            .and_then(|value| value.as_str().map(str::to_owned))
            .unwrap_or_default()
    };
    let names: Vec<String> = Capability::ALL.iter().map(name).collect();
    let mut header = vec!["METHOD"];
    header.extend(names.iter().map(String::as_str));
    let rows: Vec<Vec<String>> = diagnosis
        .methods
        .iter()
        .map(|report| {
            let cell = |capability: &Capability| match &report.capabilities {
                Some(capabilities) if capabilities.has(*capability) => "yes".to_owned(),
                Some(_) => "no".to_owned(),
                None => "-".to_owned(),
            };
            std::iter::once(report.method.to_string()).chain(Capability::ALL.iter().map(cell)).collect()
        })
        .collect();
    output::table(&header, &rows)
}
