//! What happens on the way to a running stack, as it happens. A surface renders it; nothing here is a secret.

use crate::copying::CopyOutcome;
use crate::health::HealthProgress;
use crate::overriding::SlotCollision;
use crate::reach::HostRequest;
use crate::slots::SlotNumber;
use palisade_core::{HostPath, ProjectPath, VariableName};
use palisade_workspace::{BranchName, Start};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Something takes a while.
    Doing(Doing),
    WorktreeCreated {
        path: HostPath,
        branch: BranchName,
        start: Start,
    },
    /// It was there before.
    WorktreeKept {
        path: HostPath,
        branch: Option<BranchName>,
    },
    /// A file that the main working tree has otherwise than the worktree.
    Differs {
        file: ProjectPath,
        counts: Counts,
    },
    FilesProvisioned(Vec<ProvisionedFile>),
    /// Files that `.worktreeinclude` names and that are no plain files.
    NotCopied {
        count: usize,
    },
    SecretsResolved(Vec<ReportedSecret>),
    /// What two sandboxes cannot both have, and what no override can undo.
    Collides(Vec<SlotCollision>),
    /// A line of what Compose says.
    Compose(String),
    Sandbox {
        slot: SlotNumber,
        ports: Vec<(VariableName, u16)>,
    },
    /// How the wait for health goes on.
    Health(HealthProgress),
    Healthy {
        url: String,
    },
    Stopped,
    Down {
        compose_project: String,
    },
    SlotReleased {
        slot: String,
    },
    WorktreeRemoved {
        path: HostPath,
        branch: BranchName,
    },
}

/// What takes a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    MakingWorktree,
    CopyingFiles,
    ResolvingSecrets,
    RenderingServices,
    StartingServices,
    WaitingForHealth,
    StoppingServices,
    RemovingServices,
    RemovingWorktree,
}

/// Which of two files is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    Main,
    Worktree,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvisionedFile {
    pub destination: ProjectPath,
    pub source: ProjectPath,
    pub outcome: CopyOutcome,
}

/// A secret, without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedSecret {
    pub name: VariableName,
    /// As it is written; `literal` for a value.
    pub reference: String,
    pub content: Content,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    Something,
    /// Allowed, and worth a word.
    Empty,
}

/// What only a person can decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The worktree is there, and its services do not run.
    StartExisting { worktree: HostPath },
    /// The services reach the host.
    HostAccess { requests: Vec<HostRequest> },
    /// Two sandboxes cannot both have this; an override can give each its own.
    Collisions { collisions: Vec<SlotCollision> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Yes,
    No,
    /// There is nobody to ask, and no flag said it.
    NobodyToAsk,
}

/// Where events go and questions are answered: the command line, a server, a test.
pub trait Surface {
    fn tell(&mut self, event: Event);
    fn ask(&mut self, question: &Question) -> Answer;
    /// What was agreed to under a key, before; an error in words when that cannot be known.
    fn remembered(&self, key: &str) -> Result<Option<String>, String>;
    fn remember(&mut self, key: &str, answer: &str) -> Result<(), String>;
}
