//! What can go wrong with a copy of a bound directory.

use palisade_core::{Diagnostic, ErrorCode, ExitCode, SandboxId};

#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("there is no copy '{0}'")]
    NotFound(String),
    #[error("there is no copy of {0} with changes")]
    NoneHere(String),
    #[error("there are several copies:{}", lines(.0))]
    Ambiguous(Vec<String>),
    #[error("the copy of run {} cannot be changed: {reason}", .run.short())]
    InUse { run: SandboxId, reason: String },
    #[error("{path} is not the directory that was copied: {reason}")]
    DirectoryChanged { path: String, reason: String },
    #[error("{path} has more files than can be copied or compared")]
    TooManyFiles { path: String },
    #[error("the copy in {path} cannot be used: {reason}")]
    Unreadable { path: String, reason: String },
    #[error("no change in the copy is at '{0}'")]
    NoSuchChange(String),
    #[error("{directory} was changed meanwhile, so these stay in the copy:{}", lines(.paths))]
    Conflicts { run: SandboxId, directory: String, tree: String, paths: Vec<String> },
    #[error("not laid in {directory}:{}", lines(.paths))]
    Incomplete { directory: String, paths: Vec<String> },
}

/// Items for people, a line each.
fn lines(items: &[String]) -> String {
    const MOST_SHOWN: usize = 50;
    let mut text: String = items.iter().take(MOST_SHOWN).map(|item| format!("\n  {item}")).collect();
    if items.len() > MOST_SHOWN {
        text.push_str(&format!("\n  and {} more", items.len() - MOST_SHOWN));
    }
    text
}

impl Diagnostic for CopyError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::NotFound(_) | Self::NoneHere(_) => "copy-not-found",
            Self::Ambiguous(_) => "copy-ambiguous",
            Self::InUse { .. } => "copy-in-use",
            Self::DirectoryChanged { .. } => "copy-directory-changed",
            Self::TooManyFiles { .. } => "copy-too-large",
            Self::Unreadable { .. } => "copy-unreadable",
            Self::NoSuchChange(_) => "change-not-found",
            Self::Conflicts { .. } => "apply-conflict",
            Self::Incomplete { .. } => "apply-incomplete",
        }
    }

    fn exit(&self) -> ExitCode {
        match self {
            Self::NotFound(_) | Self::NoneHere(_) | Self::NoSuchChange(_) => ExitCode::NotFound,
            Self::Ambiguous(_) => ExitCode::Usage,
            Self::InUse { .. } | Self::DirectoryChanged { .. } | Self::Conflicts { .. } => ExitCode::Conflict,
            Self::TooManyFiles { .. } | Self::Unreadable { .. } | Self::Incomplete { .. } => ExitCode::Failed,
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NotFound(_) | Self::NoneHere(_) => {
                "`palisade apply --list` lists the copies that have changes"
            }
            Self::Ambiguous(_) => "name one of them: palisade apply RUN",
            Self::InUse { .. } => {
                "wait until it has ended, then try again; `palisade gc` ends what a killed run has left"
            }
            Self::DirectoryChanged { .. } => {
                "move the directory back to its place, or take the files out of the copy by hand: `palisade apply --list \
                 --json` shows where it is"
            }
            Self::TooManyFiles { .. } => {
                "copy a directory further down, or take files out of the copy by hand"
            }
            Self::Unreadable { .. } => {
                "look at its files by hand; remove that directory when nothing in it is needed"
            }
            Self::NoSuchChange(_) => "`palisade apply --dry-run` lists the changes",
            Self::Conflicts { run, tree, .. } => {
                let run = run.short();
                return vec![
                    format!("compare them with the copy in {tree}"),
                    format!("to keep yours: palisade apply --discard {run} -- PATH"),
                    format!("to take the sandbox's: copy the file with `cp -p`, then palisade apply {run}"),
                ];
            }
            Self::Incomplete { .. } => {
                "the rest is laid; the copy keeps these, so try again when the cause is gone"
            }
        };
        vec![hint.to_owned()]
    }
}
