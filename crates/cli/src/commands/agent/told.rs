//! What happens on an agent's way, told as it happens: a line for each step, and one line that moves for a transfer.

use crate::moving::MovingLine;
use crate::output;
use palisade_agents::{LoadedFile, Loader, Step, Surroundings};
use palisade_core::printable;
use palisade_workspace::{Arrival, Progress, StartReport, WhyStayed};

/// Cells of a transfer's bar.
const WIDTH: usize = 24;

/// What is under way is a line that moves; results stay.
#[derive(Debug)]
pub(super) struct Teller {
    moving: MovingLine,
}

impl Teller {
    pub(super) fn new() -> Self {
        Self { moving: MovingLine::new() }
    }

    pub(super) fn step(&mut self, step: &Step) {
        match step {
            Step::Doing(what) => self.moving.show(format!("  {what} …")),
            Step::Sending(progress) => self.progress(progress),
            step => {
                self.moving.clear();
                lines(step).iter().for_each(|line| output::note(line));
            }
        }
    }

    pub(super) fn progress(&mut self, progress: &Progress) {
        self.moving.show(bar(progress));
    }

    /// Takes what moves off the screen.
    pub(super) fn clear(&mut self) {
        self.moving.clear();
    }
}

/// `  sending  ██████████░░░░░░░░░░░░░░  42 %  95.31 MiB | 45.00 MiB/s`
fn bar(progress: &Progress) -> String {
    let full = usize::from(progress.percent) * WIDTH / 100;
    let cells = "█".repeat(full) + &"░".repeat(WIDTH - full);
    let amount = progress.amount.as_deref().unwrap_or_default();
    format!("  {:<16} {cells} {:>3} %  {amount}", progress.step, progress.percent).trim_end().to_owned()
}

fn lines(step: &Step) -> Vec<String> {
    match step {
        Step::Repository { root, branch, commit } => {
            vec![format!(
                "repository {}, {} at {commit}",
                printable(&root.to_string_lossy()),
                printable(branch)
            )]
        }
        Step::Limit(told) => vec![format!("note: {told}")],
        Step::Created(name) => vec![format!("sandbox {name} created")],
        Step::Reused(name) => vec![format!("sandbox {name} is there from before")],
        Step::WithoutEffect(flags) => vec![
            format!(
                "warning: {} {} no effect: the sandbox was made before",
                flags.join(", "),
                if flags.len() == 1 { "has" } else { "have" }
            ),
            "  --fresh makes another one in its place, --name NAME one beside it".into(),
        ],
        Step::RefsStay(scope) => vec![format!(
            "note: the sandbox was created with agent.refs = \"{scope}\" and keeps it; --fresh makes another one"
        )],
        Step::StoreWrittenAgain => vec![
            "warning: the store of the repository's commits was missing or damaged; it was written again"
                .into(),
        ],
        Step::Syncs(mode) => vec![format!("its work is archived by itself: {mode}")],
        Step::SyncsLater => vec![
            "warning: the sandbox runs under an older version: its sync mode counts from its next start on"
                .into(),
        ],
        Step::Running { already: true } | Step::Sending(_) | Step::Doing(_) => Vec::new(),
        Step::Running { already: false } => vec!["sandbox running".into()],
        Step::Arrived(arrival) => arrived(arrival),
        Step::EnvFiles(names) => match names.as_slice() {
            [] => Vec::new(),
            names => {
                let names: Vec<String> = names.iter().map(|name| printable(name)).collect();
                vec![format!(
                    "{} env {} sent: {}",
                    names.len(),
                    plural(names.len(), "file"),
                    names.join(", ")
                )]
            }
        },
        Step::Loaded(surroundings) => loaded(surroundings),
        Step::NotSent(name) => vec![format!("note: {name} is no plain file and stays behind")],
        Step::Key { made: true } => vec!["an SSH key of the sandbox's own is made".into()],
        Step::Key { made: false } => Vec::new(),
    }
}

/// Who loads the files, and how much there is in each; never what.
fn loaded(surroundings: &Surroundings) -> Vec<String> {
    let variables = |count: usize| format!("{count} {}", plural(count, "variable"));
    let names: Vec<String> = surroundings.files.iter().map(|file| printable(&file.name)).collect();
    let each = |file: &LoadedFile| format!("{} ({})", printable(&file.name), variables(file.variables));
    let each: Vec<String> = surroundings.files.iter().map(each).collect();
    let mut lines = Vec::new();
    match surroundings.loader {
        Loader::Direnv if surroundings.count() == 0 => {}
        Loader::Direnv if names.is_empty() => {
            lines.push(format!("direnv loads {}", variables(surroundings.count())));
        }
        Loader::Direnv => {
            lines.push(format!("direnv loads {} from {}", variables(surroundings.count()), names.join(", ")));
        }
        Loader::SessionAfterDirenv => lines.push(format!(
            "warning: direnv inside could not load the working tree's files; without it the session loads {}",
            if each.is_empty() { "nothing".into() } else { each.join(", ") }
        )),
        Loader::Session if each.is_empty() => {}
        Loader::Session => {
            lines.push(format!("there is no direnv inside: the session itself loads {}", each.join(", ")));
        }
    }
    for file in &surroundings.files {
        let left = file.left_out.iter();
        lines.extend(left.map(|left| {
            format!("warning: {}:{} is left out: {}", printable(&file.name), left.line, left.reason)
        }));
    }
    lines
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

fn arrived(report: &StartReport) -> Vec<String> {
    let branch = printable(report.branch.as_str());
    let mut lines = match &report.arrival {
        Arrival::Cloned => vec![
            format!("code is in /workspace, on {branch}"),
            format!(
                "visible inside: {} {} and {} {} of this repository",
                report.branches,
                plural(report.branches, "branch").replace("branchs", "branches"),
                report.tags,
                plural(report.tags, "tag")
            ),
        ],
        Arrival::Followed { moved: true } => {
            vec![format!("code in /workspace is at your {branch} ({})", report.commit.short())]
        }
        Arrival::Followed { moved: false } => vec!["code in /workspace is up to date".into()],
        Arrival::Stayed(why) => stayed(why),
    };
    if report.left_behind > 0 {
        lines.push(format!(
            "note: {} that {} not committed {} on the host",
            changes(report.left_behind),
            if report.left_behind == 1 { "is" } else { "are" },
            if report.left_behind == 1 { "stays" } else { "stay" }
        ));
    }
    let large = &report.large_files;
    if large.files > 0 && !large.has_program {
        lines.push("note: the sandbox has no git-lfs: files of Git LFS are pointers there".into());
    }
    if large.missing > 0 {
        lines.push(format!(
            "note: {} of {} files of Git LFS are not on this machine (git lfs pull), and stay pointers",
            large.missing, large.files
        ));
    }
    if let Some(archive) = report.archived.archive() {
        lines.push(format!("archived as {}", archive.reference));
    }
    lines
}

fn changes(count: usize) -> String {
    if count == 1 { "1 change".into() } else { format!("{count} changes") }
}

fn stayed(why: &WhyStayed) -> Vec<String> {
    match why {
        WhyStayed::UnappliedWork => vec![
            "the agent continues on its own work, which is not in your branches and files yet".into(),
            "  bring it with palisade agent sync, or follow the host with --follow-host; it is archived in any case".into(),
        ],
        WhyStayed::NotArchived(files) => {
            let names: Vec<&str> = files.iter().take(3).map(|file| file.path.as_str()).collect();
            vec![
                format!("warning: the agent's working tree stays as it is: {} cannot be archived", names.join(", ")),
                "  it does not follow the host until those files can be read or are gone".into(),
            ]
        }
        WhyStayed::Busy => {
            vec!["an agent is working in /workspace, so its files stay as they are".into()]
        }
        WhyStayed::InWorktree => {
            vec!["your branch is checked out in a worktree of the sandbox, so /workspace stays as it is".into()]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_for_every_percent() {
        let shown = |percent, amount: Option<&str>| {
            bar(&Progress { step: "sending", percent, amount: amount.map(str::to_owned) })
        };
        assert_eq!(shown(0, None), format!("  sending          {}   0 %", "░".repeat(24)));
        assert_eq!(shown(50, None), format!("  sending          {}{}  50 %", "█".repeat(12), "░".repeat(12)));
        assert_eq!(
            shown(100, Some("2.00 MiB | 1.00 MiB/s")),
            format!("  sending          {} 100 %  2.00 MiB | 1.00 MiB/s", "█".repeat(24))
        );
    }
}
