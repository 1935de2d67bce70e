//! One installation on which verb after verb is cut short by a kill, put in order by one collection, and used on.

use crate::audit::audit;
use crate::support::{below, gc, keeper, row};
use crate::verb::{Needs, Verb};
use palisade_core::{SandboxId, State};
use palisade_testing::tracer::{Kill, Point, Role, Traced, trace};
use palisade_testing::{Instance, PATIENCE, Random};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const NAMES: [&str; 3] = ["web", "api", "db"];

/// A kill that is to fall on someone in a verb, at a part of the victim's work in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Planned {
    pub(crate) verb: Verb,
    pub(crate) victim: Role,
    /// From 0, the first step, up to 1, the last.
    pub(crate) progress: f64,
}

pub(crate) struct Lane {
    instance: Instance,
    random: Random,
    /// How many steps each makes in a verb, as last seen.
    steps: BTreeMap<Verb, BTreeMap<Role, u64>>,
    /// The sandboxes that have been given work, which must be found again.
    worked: BTreeSet<SandboxId>,
    project: PathBuf,
}

impl Lane {
    pub(crate) fn new(seed: u64) -> Self {
        let instance = Instance::with_method("bwrap");
        let project = instance.work().join("project");
        std::fs::create_dir(&project).unwrap();
        std::fs::write(project.join("mine"), "mine").unwrap();
        // The first command of all makes what every later one finds.
        instance.run(["ls"]).ok();
        Self { instance, random: Random::new(seed), steps: BTreeMap::new(), worked: BTreeSet::new(), project }
    }

    /// Runs the verb until the kill falls, puts everything in order, and uses the sandbox on.
    pub(crate) fn kill(&mut self, planned: Planned) -> Kill {
        let Planned { verb, victim, progress } = planned;
        if !self.steps.contains_key(&verb) {
            self.act(verb, None);
        }
        // How many steps a verb takes differs a little from time to time, so that the point may lie beyond its end.
        const TRIES: u32 = 20;
        for attempt in 0..TRIES {
            let progress = progress * 0.97_f64.powi(attempt as i32);
            let point = self.point(verb, victim, progress);
            if let Some(kill) = self.act(verb, Some(point)) {
                return kill;
            }
        }
        panic!("{planned:?}: the verb always ended before the point; its steps: {:?}", self.steps[&verb]);
    }

    fn point(&self, verb: Verb, victim: Role, progress: f64) -> Point {
        let made = |role: Role| self.steps[&verb].get(&role).copied().unwrap_or(0);
        // Who does nothing in a verb can be killed in it all the same, while the command does its work.
        let clock = if made(victim) > 0 { victim } else { Role::Command };
        Point { victim, clock, step: 1 + (progress * made(clock) as f64) as u64 }
    }

    fn act(&mut self, verb: Verb, point: Option<Point>) -> Option<Kill> {
        let name = *self.random.pick(&NAMES);
        self.bring(name, verb.needs());
        let standing = match verb.needs() {
            Needs::Running => {
                let keeper = keeper(&self.instance, name);
                [keeper.pid]
                    .into_iter()
                    .chain(below(&keeper).into_iter().map(|process| process.pid))
                    .collect()
            }
            _ => Vec::new(),
        };
        let traced = trace(&verb.command(&self.instance, name), verb.surface(), &standing, point);
        match traced.kill {
            None => {
                assert!(traced.status.success(), "{verb:?} of {name} without a kill: {traced:?}");
                self.steps.insert(verb, traced.steps);
            }
            Some(_) => {
                self.put_in_order(verb, name, point, &traced);
                self.use_on(name);
            }
        }
        traced.kill
    }

    /// One collection, and then nothing is there but what the records account for.
    #[track_caller]
    fn put_in_order(&self, verb: Verb, name: &str, point: Option<Point>, traced: &Traced) {
        let collected = gc(&self.instance, &[]);
        let deadline = Instant::now() + PATIENCE;
        // Whoever was not killed may still be on its way, up or out.
        while let Err(difference) =
            audit(&self.instance, &traced.processes).and_then(|()| self.project_is_whole())
        {
            assert!(
                Instant::now() < deadline,
                "after {verb:?} of {name}, {point:?}, {traced:?} and gc ({collected:?}):\n{difference}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(gc(&self.instance, &[]), Vec::<String>::new(), "a second collection finds nothing");
    }

    fn project_is_whole(&self) -> Result<(), String> {
        let entries = std::fs::read_dir(&self.project).unwrap().flatten();
        let names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        if names == ["mine"] { Ok(()) } else { Err(format!("in the user's directory: {names:?}")) }
    }

    /// The next verb on the same name works, and finds the work of the last one.
    #[track_caller]
    fn use_on(&mut self, name: &str) {
        match row(&self.instance, name).map(|row| row.state) {
            None => {
                self.instance.run(["create", name]).ok();
            }
            Some(State::Running) => self.work(name),
            Some(_) => {
                self.instance.run(["start", name]).ok();
                self.work(name);
            }
        }
    }

    /// Looks for the work of a running sandbox, and gives it some when it is new.
    #[track_caller]
    fn work(&mut self, name: &str) {
        let id = row(&self.instance, name).unwrap().id().clone();
        let script = if self.worked.insert(id.clone()) {
            format!("echo {id} | tee work > /home/agent/work")
        } else {
            "true".to_owned()
        };
        let found = self.instance.shell(name, &format!("{script}; cat work /home/agent/work")).ok();
        assert_eq!(found.stdout, format!("{id}\n{id}\n"));
    }

    /// Whatever state the sandbox is in, brings it into the one that is needed.
    #[track_caller]
    fn bring(&mut self, name: &str, needs: Needs) {
        let is = row(&self.instance, name).map(|row| row.state);
        match (needs, is) {
            (Needs::Nothing, _) | (Needs::Absent, None) | (Needs::Running, Some(State::Running)) => {}
            (Needs::Absent, Some(_)) => {
                self.instance.run(["rm", "--force", name]).ok();
            }
            (Needs::Stopped, Some(State::Running)) => {
                self.instance.run(["stop", name]).ok();
            }
            (Needs::Stopped, Some(_)) => {}
            (Needs::Stopped, None) => {
                self.instance.run(["create", name]).ok();
            }
            (Needs::Running, is) => {
                if is.is_none() {
                    self.instance.run(["create", name]).ok();
                }
                self.instance.run(["start", name]).ok();
                self.work(name);
            }
        }
    }

    /// Removes everything; nothing at all is left.
    #[track_caller]
    pub(crate) fn close(self) {
        for name in NAMES {
            if row(&self.instance, name).is_some() {
                self.instance.run(["rm", "--force", name]).ok();
            }
        }
        crate::support::assert_clean(&self.instance);
    }
}
