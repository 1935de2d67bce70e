//! The verbs under which something is killed, what each needs to find, and who is at work in it.

use palisade_testing::Instance;
use palisade_testing::tracer::{Role, Surface};
use std::process::Command;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Create,
    Start,
    Exec,
    Attach,
    Stop,
    Remove,
    RemoveRunning,
    Run,
    RunInDirectory,
}

/// What a verb needs to find under the name it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    Absent,
    Stopped,
    Running,
    /// It takes no name.
    Nothing,
}

/// How many kills fall on whom. Together they are 200.
pub(crate) const SHARES: [(Verb, &[(Role, u64)]); 9] = [
    (Verb::Create, &[(Role::Command, 22)]),
    (Verb::Start, &[(Role::Command, 12), (Role::Keeper, 14), (Role::Bwrap, 12), (Role::Guest, 8)]),
    (Verb::Exec, &[(Role::Command, 8), (Role::Keeper, 8), (Role::Bwrap, 4), (Role::Guest, 8)]),
    (Verb::Attach, &[(Role::Command, 8), (Role::Keeper, 8), (Role::Bwrap, 2), (Role::Guest, 8)]),
    (Verb::Stop, &[(Role::Command, 8), (Role::Keeper, 10), (Role::Bwrap, 2), (Role::Guest, 6)]),
    (Verb::Remove, &[(Role::Command, 12)]),
    (Verb::RemoveRunning, &[(Role::Command, 8), (Role::Keeper, 6), (Role::Guest, 4)]),
    (Verb::Run, &[(Role::Command, 6), (Role::Bwrap, 4), (Role::Guest, 2)]),
    (Verb::RunInDirectory, &[(Role::Command, 6), (Role::Bwrap, 2), (Role::Guest, 2)]),
];

impl Verb {
    pub(crate) fn needs(self) -> Needs {
        match self {
            Verb::Create => Needs::Absent,
            Verb::Start | Verb::Remove => Needs::Stopped,
            Verb::Exec | Verb::Attach | Verb::Stop | Verb::RemoveRunning => Needs::Running,
            Verb::Run | Verb::RunInDirectory => Needs::Nothing,
        }
    }

    pub(crate) fn surface(self) -> Surface {
        if self == Verb::Attach { Surface::Terminal } else { Surface::Nothing }
    }

    pub(crate) fn command(self, instance: &Instance, name: &str) -> Command {
        let words: &[&str] = match self {
            Verb::Create => &["create", name],
            Verb::Start => &["start", name],
            Verb::Exec => &["exec", name, "--", "sh", "-c", "cat work; echo more > more"],
            Verb::Attach => &["attach", name, "sh", "-c", "cat work; echo more > more"],
            Verb::Stop => &["stop", name],
            Verb::Remove => &["rm", name],
            Verb::RemoveRunning => &["rm", "--force", name],
            Verb::Run => &["run", "--", "true"],
            Verb::RunInDirectory => &["run", "-w", "project", "--", "true"],
        };
        instance.command(words)
    }
}
