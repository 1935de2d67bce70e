//! What a sequence looks at: both sides before and after a command, and what became of it.

use crate::contents::Contents;
use crate::users_state::{AgentState, UserState};
use palisade_workspace::{ArchiveReport, ExchangeReport};

/// Everything on both sides at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    pub(crate) user: UserState,
    pub(crate) host: Contents,
    pub(crate) inside: Contents,
    /// `None` where there is no repository.
    pub(crate) agent: Option<AgentState>,
}

/// What became of a command.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It has said why it does nothing.
    Refused,
    Started {
        archived: ArchiveReport,
        /// Everything that it reports.
        #[allow(dead_code, reason = "a finding prints it")]
        report: String,
    },
    Synced(Box<ExchangeReport>),
    Archived(ArchiveReport),
    Removed(ArchiveReport),
    Discarded,
    Interrupted,
}
