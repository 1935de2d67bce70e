//! The person at the command line: told what happens, asked what only they can decide, and not asked twice.

use super::told::{doing, lines, place, waiting};
use crate::context;
use crate::moving::MovingLine;
use crate::output;
use palisade_core::printable;
use palisade_engine::Engine;
use palisade_provision::{Answer, Event, Question, Surface};
use std::io::{BufRead as _, IsTerminal as _};

/// Answers that are given on the command line; shared by the commands that start services.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct ConsentFlags {
    /// Agree to what the services reach on this machine
    #[arg(long)]
    pub(crate) allow_host_access: bool,
    /// What becomes of names and ports that only one sandbox can have
    #[arg(long, value_name = "WHAT")]
    pub(crate) fixed: Option<Fixed>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Fixed {
    /// Each sandbox gets its own
    Override,
    /// They stay as the compose file has them
    Keep,
}

#[derive(Debug)]
pub(crate) struct Teller<'a> {
    moving: MovingLine,
    /// Where agreements are kept. Only opened when there is something to agree to.
    engine: &'a Engine,
    consent: ConsentFlags,
    /// Said on the command line, so that nobody is asked.
    start_existing: bool,
}

impl<'a> Teller<'a> {
    pub(crate) fn new(engine: &'a Engine, consent: ConsentFlags, start_existing: bool) -> Self {
        Self { moving: MovingLine::new(), engine, consent, start_existing }
    }
}

impl Surface for Teller<'_> {
    fn tell(&mut self, event: Event) {
        match event {
            Event::Doing(what) => self.moving.show(format!("  {} …", doing(what))),
            Event::Compose(line) => self.moving.show(format!("  {}", printable(&line))),
            Event::Health(progress) => {
                self.moving.show(format!("  waiting for health: {}", waiting(&progress)));
            }
            event => {
                self.moving.clear();
                lines(&event).iter().for_each(|line| output::note(line));
            }
        }
    }

    fn ask(&mut self, question: &Question) -> Answer {
        self.moving.clear();
        match question {
            Question::StartExisting { .. } if self.start_existing => Answer::Yes,
            Question::StartExisting { worktree } => {
                confirm(&[], &format!("{} exists. Start its services?", place(worktree)), Answer::Yes)
            }
            Question::HostAccess { .. } if self.consent.allow_host_access => Answer::Yes,
            Question::HostAccess { requests } => {
                let mut told = vec!["The services of this repository reach your machine:".to_owned()];
                told.extend(requests.iter().map(|request| format!("  {request}")));
                confirm(&told, "Do you agree?", Answer::No)
            }
            Question::Collisions { collisions } => match self.consent.fixed {
                Some(Fixed::Override) => Answer::Yes,
                Some(Fixed::Keep) => Answer::No,
                None => {
                    let mut told = vec!["Only one sandbox can have this:".to_owned()];
                    for collision in collisions {
                        told.push(format!("  {}", printable(&collision.to_string())));
                        told.push(format!("    → {}", collision.remedy()));
                    }
                    confirm(&told, "Override it in sandboxes?", Answer::Yes)
                }
            },
        }
    }

    fn remembered(&self, key: &str) -> Result<Option<String>, String> {
        let store = self.engine.store().map_err(|error| error.to_string())?;
        store.trust_get(key).map_err(|error| error.to_string())
    }

    fn remember(&mut self, key: &str, answer: &str) -> Result<(), String> {
        let store = self.engine.store().map_err(|error| error.to_string())?;
        store.trust_set(key, answer, context::now()).map_err(|error| error.to_string())
    }
}

/// Asks after telling what it is about, if there is somebody to ask. `otherwise` is what Enter means.
pub(crate) fn confirm(told: &[String], question: &str, otherwise: Answer) -> Answer {
    if !(std::io::stdin().is_terminal() && output::stderr_is_terminal()) {
        return Answer::NobodyToAsk;
    }
    told.iter().for_each(|line| output::note(line));
    let keys = if otherwise == Answer::Yes { "[Y/n]" } else { "[y/N]" };
    output::prompt(&format!("? {question} {keys} "));
    let mut line = String::new();
    match std::io::stdin().lock().read_line(&mut line) {
        Ok(1..) => match line.trim().to_ascii_lowercase().as_str() {
            "" => otherwise,
            "y" | "yes" => Answer::Yes,
            _ => Answer::No,
        },
        _ => Answer::No,
    }
}
