//! Sequences of steps, made from a seed.
//!
//! A sequence is a start and then rounds: some steps of the user's and of the agent's in any order, and a command of
//! the product's. The first steps of each round are taken in turn from all pairs of a user's and an agent's action, two
//! of each at a time, so that every pair occurs.

use crate::actions::{AGENTS, Action, USERS, agents_action, often_of_agent, often_of_user, users_action};
use crate::random::Random;
use std::fmt;

/// Sequences that `make test` runs, and where their seeds begin.
pub(crate) const SEQUENCES: u64 = 300;
pub(crate) const FIRST_SEED: u64 = 12_000;
pub(crate) const ROUNDS: usize = 3;

const FILES: [&str; 7] = ["readme", "code", "d/one", "d/two", "new", "e/new", "u/1"];
const BRANCHES: [&str; 3] = ["one", "two", "main"];
/// Where a sync is interrupted.
pub(crate) const FAULTS: [&str; 5] =
    ["sync.archived", "sync.staged", "sync.placed", "sync.indexed", "sync.moved"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Actor {
    User,
    Agent,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Act {
    pub(crate) actor: Actor,
    /// Which of the actor's actions.
    pub(crate) number: usize,
    /// The step's number in its sequence, which stays the same when others are dropped.
    pub(crate) step: usize,
    pub(crate) file: &'static str,
    pub(crate) other_file: &'static str,
    pub(crate) branch: &'static str,
    pub(crate) at_top: bool,
}

impl Act {
    pub(crate) fn action(&self) -> &'static Action {
        match self.actor {
            Actor::User => users_action(self.number),
            Actor::Agent => agents_action(self.number),
        }
    }

    pub(crate) fn variables(&self) -> [(&'static str, String); 6] {
        [
            ("WHO", if self.actor == Actor::User { "user" } else { "agent" }.into()),
            ("N", self.step.to_string()),
            ("F", self.file.into()),
            ("G", self.other_file.into()),
            ("B", self.branch.into()),
            ("AT", if self.at_top { "top" } else { "end" }.into()),
        ]
    }
}

/// A command of the product's.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Command {
    Start {
        include_changes: bool,
        follow_host: bool,
    },
    Sync {
        merge: bool,
        tags: bool,
        all: bool,
        only: Option<&'static str>,
    },
    Stop,
    /// Without `--force`, and with it.
    Remove {
        force: bool,
    },
    Discard,
    /// The worktrees of the agent, each with `--force` or without.
    RemoveWorktrees {
        force: bool,
    },
    /// A sync that ends at a step: killed, or with an error as on a full disk.
    Interrupted {
        fault: &'static str,
        kill: bool,
    },
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flag = |set: bool, text: &'static str| if set { text } else { "" };
        match self {
            Self::Start { include_changes, follow_host } => {
                let follow = if *follow_host { " --follow-host" } else { " --continue" };
                write!(f, "agent start{follow}{}", flag(*include_changes, " --include-changes"))
            }
            Self::Sync { merge, tags, all, only } => {
                let only = only.map_or(String::new(), |path| format!(" -- {path}"));
                let flags = [flag(*merge, " --merge"), flag(*tags, " --tags"), flag(*all, " --all")];
                write!(f, "agent sync{}{only}", flags.concat())
            }
            Self::Stop => f.write_str("stop"),
            Self::Remove { force } => write!(f, "agent rm{}", flag(*force, " --force")),
            Self::Discard => f.write_str("agent rm --discard box"),
            Self::RemoveWorktrees { force } => write!(f, "agent worktree rm{}", flag(*force, " --force")),
            Self::Interrupted { fault, kill } => {
                write!(f, "agent sync # {} at {fault}", if *kill { "killed" } else { "fails" })
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Act(Act),
    Command(Command),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(command) => write!(f, "palisade {command}"),
            Self::Act(act) => {
                let place = if act.actor == Actor::User { "host  " } else { "inside" };
                let used = act.variables().into_iter().filter(|(name, _)| *name != "WHO");
                let variables: Vec<String> = used.map(|(name, value)| format!("{name}={value}")).collect();
                write!(f, "{place} {}: {}", variables.join(" "), act.action().script)
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sequence {
    pub(crate) seed: u64,
    pub(crate) steps: Vec<Step>,
}

/// Two actions of the user's with two of the agent's: so many of them hold all pairs.
pub(crate) const BLOCKS: u64 = (USERS.div_ceil(2) * AGENTS.div_ceil(2)) as u64;

/// Has no factor in common with the number of blocks, so that each has its turn.
const SPREAD: u64 = 101;

/// The pairs of a round.
fn block(number: u64) -> ([usize; 2], [usize; 2]) {
    // Spread, so that the sequences of a few seeds have little in common.
    let number = (number.wrapping_mul(SPREAD) % BLOCKS) as usize;
    let (user, agent) = (number % USERS.div_ceil(2), number / USERS.div_ceil(2));
    ([user * 2 % USERS, (user * 2 + 1) % USERS], [agent * 2 % AGENTS, (agent * 2 + 1) % AGENTS])
}

impl Sequence {
    pub(crate) fn of_seed(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let (often_of_user, often_of_agent) = (often_of_user(), often_of_agent());
        let mut steps = vec![Step::Command(Command::Start { include_changes: false, follow_host: false })];
        for round in 0..ROUNDS {
            let (users, agents) = block(seed.wrapping_mul(ROUNDS as u64).wrapping_add(round as u64));
            let mut acts: Vec<(Actor, usize)> = users.map(|number| (Actor::User, number)).to_vec();
            acts.extend(agents.map(|number| (Actor::Agent, number)));
            for _ in 0..1 + random.below(4) {
                acts.push(match random.below(5) {
                    0 => (Actor::User, random.below(USERS)),
                    1 => (Actor::Agent, random.below(AGENTS)),
                    2 => (Actor::User, random.choose(&often_of_user)),
                    _ => (Actor::Agent, random.choose(&often_of_agent)),
                });
            }
            random.shuffle(&mut acts);
            // Half of the steps are about the same file and branch, so that they get in each other's way.
            let (file, branch) = (random.choose(&FILES), random.choose(&BRANCHES));
            for (actor, number) in acts {
                let step = steps.len();
                steps.push(Step::Act(Act {
                    actor,
                    number,
                    step,
                    file: if random.below(2) == 0 { file } else { random.choose(&FILES) },
                    other_file: random.choose(&FILES),
                    branch: if random.below(2) == 0 { branch } else { random.choose(&BRANCHES) },
                    at_top: random.below(2) == 0,
                }));
            }
            add_command(&mut random, &mut steps);
        }
        Self { seed, steps }
    }

    /// As many lines as it has steps.
    pub(crate) fn script(&self) -> String {
        self.steps.iter().map(|step| format!("  {step}\n")).collect()
    }
}

/// A command, and what follows it: a namesake where the sandbox may be gone, a sync where one was interrupted.
fn add_command(random: &mut Random, steps: &mut Vec<Step>) {
    let mut yes = |one_in: usize| random.below(one_in) == 0;
    let start = Command::Start { include_changes: yes(2), follow_host: yes(2) };
    let only = yes(6);
    let sync = Command::Sync { merge: yes(3), tags: yes(3), all: yes(3), only: None };
    let force = yes(2);
    let kill = yes(2);
    let commands = match random.below(20) {
        0..8 if only => {
            vec![Command::Sync { merge: false, tags: false, all: false, only: Some(random.choose(&FILES)) }]
        }
        0..8 => vec![sync],
        8..11 => vec![start],
        11 => vec![sync, start],
        12 if force => vec![Command::Stop, start],
        12 => vec![Command::Stop, sync],
        13..15 => vec![Command::Remove { force }, start],
        15 => vec![
            sync,
            Command::Remove { force: false },
            start,
            Command::Sync { merge: true, tags: true, all: true, only: None },
        ],
        16 => vec![Command::Discard, start],
        17 => vec![Command::RemoveWorktrees { force }],
        _ => vec![Command::Interrupted { fault: random.choose(&FAULTS), kill }, sync],
    };
    steps.extend(commands.into_iter().map(Step::Command));
}
