//! What happens on the way to running services, told as it happens.

use crate::called;
use palisade_core::{HostPath, ProjectPath, one_line, printable, shell};
use palisade_provision::{
    Content, CopyOutcome, Counts, Doing, Event, FailedService, FileFailure, FileFailureCause, HealthProgress,
    ProvisionedFile, ReportedSecret, SecretFailure, SlotCollision,
};
use palisade_workspace::Start;

/// How many files are told one by one.
const TOLD: usize = 20;

pub(super) fn doing(what: Doing) -> &'static str {
    match what {
        Doing::MakingWorktree => "making the worktree",
        Doing::CopyingFiles => "copying files",
        Doing::ResolvingSecrets => "resolving secrets",
        Doing::RenderingServices => "reading the services",
        Doing::StartingServices => "starting the services",
        Doing::WaitingForHealth => "waiting for health",
        Doing::StoppingServices => "stopping the services",
        Doing::RemovingServices => "removing the services",
        Doing::RemovingWorktree => "removing the worktree",
    }
}

pub(super) fn lines(event: &Event) -> Vec<String> {
    match event {
        Event::WorktreeCreated { path, branch, start } => {
            let before = if *start == Start::Existing { " (was there before)" } else { "" };
            vec![format!("Created worktree: {}", place(path)), format!("  Branch: {branch}{before}")]
        }
        Event::WorktreeKept { path, branch } => {
            let branch = branch.as_ref().map_or("none", |branch| branch.as_str());
            vec![format!("Worktree: {}", place(path)), format!("  Branch: {branch}")]
        }
        Event::Differs { file, counts: Counts::Main } => {
            vec![format!("note: {file} of the worktree differs; the main working tree's counts")]
        }
        Event::Differs { file, counts: Counts::Worktree } => vec![format!(
            "note: {file} of the main working tree differs; the worktree has it as it was committed"
        )],
        Event::FilesProvisioned(files) => provisioned(files),
        Event::NotCopied { count } => {
            vec![format!("note: {count} that .worktreeinclude names are no plain files, and stay behind")]
        }
        Event::SecretsResolved(secrets) => {
            let lines = secrets.iter().map(resolved);
            std::iter::once("Resolved secrets:".to_owned()).chain(lines).collect()
        }
        Event::Sandbox { slot, ports } => {
            let ports = ports.iter().map(|(name, port)| format!("  {name}: {port}"));
            ["Sandbox:".to_owned(), format!("  Slot: {slot}")].into_iter().chain(ports).collect()
        }
        Event::Collides(collisions) => {
            let told = |collision: &SlotCollision| {
                format!("warning: {}: {}", printable(&collision.to_string()), collision.remedy())
            };
            collisions.iter().map(told).collect()
        }
        Event::Healthy { url } => vec![format!("  Health: {} ✓", printable(url))],
        Event::Stopped => vec!["Services stopped. Their data stays.".into()],
        Event::Down { compose_project } => vec![format!("Removed services: {compose_project}")],
        Event::SlotReleased { slot } => vec![format!("Removed slot: {slot}")],
        Event::WorktreeRemoved { path, branch } => {
            vec![format!("Removed worktree: {}", place(path)), format!("  Branch: {branch} (kept)")]
        }
        Event::Doing(_) | Event::Compose(_) | Event::Health(_) => Vec::new(),
    }
}

pub(super) fn waiting(progress: &HealthProgress) -> String {
    match progress {
        HealthProgress::Attempt { attempt, .. } => attempt.to_string(),
        HealthProgress::Services(services) => {
            let services = services.iter().map(|service| format!("{} {service}", service.service));
            printable(&services.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Why services failed, as far as they said it themselves.
pub(crate) fn last_words(services: &[FailedService]) -> Vec<String> {
    let mut lines = Vec::new();
    for service in services {
        lines.push(format!("  {}: {}", printable(&service.service), printable(&service.state)));
        lines.extend(service.lines.iter().map(|line| format!("    | {line}")));
    }
    lines
}

fn provisioned(files: &[ProvisionedFile]) -> Vec<String> {
    let mut lines = vec!["Provisioned files:".to_owned()];
    for file in files.iter().take(TOLD) {
        let outcome = match file.outcome {
            CopyOutcome::Copied | CopyOutcome::Same => "✓",
            CopyOutcome::Kept => "kept: it was changed in the worktree (--refresh-files replaces it)",
        };
        lines.push(format!("  {} ← {} {outcome}", file.destination, file.source));
    }
    if files.len() > TOLD {
        lines.push(format!("  and {} more ✓", files.len() - TOLD));
    }
    lines
}

fn resolved(secret: &ReportedSecret) -> String {
    let empty = if secret.content == Content::Empty { " (empty)" } else { "" };
    format!("  {} ← {} ✓{empty}", secret.name, printable(&secret.reference))
}

/// Everything that could not be had, and how to go on.
pub(crate) fn unmet(files: &[FileFailure], secrets: &[SecretFailure]) -> Vec<String> {
    let mut lines = Vec::new();
    if !files.is_empty() {
        lines.extend([String::new(), "✗ File provisioning failed:".to_owned()]);
        for failure in files {
            lines.push(format!("  {} — {}", failure.file.destination, one_line(&failure.cause.to_string())));
            if let FileFailureCause::NotFound { example, .. } = &failure.cause {
                let word = |path: &ProjectPath| shell::shown(path.as_str().as_ref());
                let how = example.as_ref();
                let how = how.map(|example| format!(": cp {} {}", word(example), word(&failure.file.source)));
                lines.push(format!("  Hint: Create it first{}", how.unwrap_or_default()));
            }
        }
    }
    if !secrets.is_empty() {
        lines.extend([String::new(), "✗ Secret resolution failed:".to_owned()]);
        for failure in secrets {
            lines.push(format!("  {} ({})", failure.name, printable(&failure.reference)));
            lines.push(format!("  → {}", one_line(&failure.cause.to_string())));
        }
    }
    lines.push(String::new());
    if secrets.is_empty() {
        lines.push("Sandbox not started.".into());
    } else {
        lines.push("Sandbox not started. To retry after fixing:".into());
        lines.push(format!("  {} sandbox start       (from worktree directory)", called()));
    }
    lines
}

/// A worktree beside the directory we are in is shown as people write it.
pub(crate) fn place(path: &HostPath) -> String {
    let here = std::env::current_dir().ok();
    let beside = here.is_some_and(|here| here.parent() == path.as_path().parent() && here != path.as_path());
    match path.as_path().file_name() {
        Some(name) if beside => printable(&format!("../{}", name.to_string_lossy())),
        _ => printable(&path.as_path().to_string_lossy()),
    }
}
