//! A debugger's view of one command of Palisade: who makes which steps, and a kill of a chosen process at a chosen
//! step. Unlike a kill after some time, the point does not depend on how busy the machine is.
//!
//! After the kill everything else is let go at once: what happens next happens as if nobody had watched.

mod call;
mod system;

pub use call::Step;

use crate::PATIENCE;
use crate::pty::on_new_terminal;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Instant;
use system::Event;

/// Who a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The command itself.
    Command,
    Keeper,
    Bwrap,
    Guest,
    /// A process that one of the others has made, before it becomes another program; and what runs in a sandbox.
    Other,
}

/// What a command stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    Nothing,
    /// A terminal of its own, on which nobody types.
    Terminal,
}

/// When to kill whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    pub victim: Role,
    /// Whose steps are counted.
    pub clock: Role,
    /// The kill falls right before this step of the clock, the first being 1.
    pub step: u64,
}

/// A kill that fell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kill {
    pub process: u32,
    /// What the clock was about to do.
    pub before: Step,
}

/// What was seen of a command.
#[derive(Debug)]
pub struct Traced {
    /// The steps that each has made, up to the kill or the command's end.
    pub steps: BTreeMap<Role, u64>,
    /// `None` when the command ended before the point was reached.
    pub kill: Option<Kill>,
    /// Every process that was part of it.
    pub processes: BTreeSet<u32>,
    pub status: ExitStatus,
}

/// Runs a command under trace, together with processes that are there already, until it has ended; kills at the point.
pub fn trace(command: &Command, surface: Surface, standing: &[u32], point: Option<Point>) -> Traced {
    // On a thread of its own, so that waiting for everybody never takes a child of the test's.
    std::thread::scope(|scope| scope.spawn(|| Tracer::run(command, surface, standing, point)).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[derive(Debug)]
struct Tracer {
    root: i32,
    point: Option<Point>,
    /// Threads that are traced.
    traced: BTreeSet<i32>,
    /// Who the processes are.
    roles: BTreeMap<i32, Role>,
    steps: BTreeMap<Role, u64>,
    kill: Option<Kill>,
    ended: Option<ExitStatus>,
}

impl Tracer {
    fn run(command: &Command, surface: Surface, standing: &[u32], point: Option<Point>) -> Traced {
        let mut stopped = stopping_first(command);
        // The terminal lasts until the command has ended; what it shows is less than a terminal holds.
        let _terminal = match surface {
            Surface::Nothing => None,
            Surface::Terminal => Some(on_new_terminal(&mut stopped, 24, 80)),
        };
        let child = stopped.spawn().expect("a shell");
        system::wait_until_stopped(child.id() as i32);
        let root = child.id() as i32;
        let mut tracer = Self {
            root,
            point,
            traced: BTreeSet::new(),
            roles: BTreeMap::new(),
            steps: BTreeMap::new(),
            kill: None,
            ended: None,
        };
        for process in standing {
            tracer.seize_standing(*process);
        }
        system::seize(root).expect("trace the command");
        tracer.traced.insert(root);
        system::wake(root);
        tracer.follow();
        tracer.let_go();
        let status = tracer.ended.unwrap_or_else(|| wait(child));
        Traced {
            steps: tracer.steps,
            kill: tracer.kill,
            processes: tracer.roles.keys().map(|process| *process as u32).collect(),
            status,
        }
    }

    fn seize_standing(&mut self, process: u32) {
        for thread in std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
            let Some(id) = thread.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            // It may just have ended; one that may not be traced is an error of the test's surroundings.
            match system::seize(id) {
                Ok(()) => {
                    system::interrupt(id);
                    self.know(id);
                }
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => panic!("trace process {process}: {error}"),
            }
        }
    }

    /// Follows everybody until the kill or the command's end.
    fn follow(&mut self) {
        while self.kill.is_none()
            && self.ended.is_none()
            && let Some((id, event)) = system::next_event(true)
        {
            match event {
                Event::Ended(status) => self.forget(id, status),
                Event::Made(new) => {
                    self.know(new);
                    system::go_on(id, 0);
                }
                Event::Executed => {
                    self.roles.insert(id, self.role(id));
                    system::go_on(id, 0);
                }
                Event::Paused => {
                    self.know(id);
                    system::go_on(id, 0);
                }
                Event::Signal(signal) => system::go_on(id, signal),
                Event::Call => {
                    self.count(id);
                    system::go_on(id, 0);
                }
            }
        }
    }

    fn count(&mut self, id: i32) {
        let Some(step) = system::step(id) else { return };
        let Some(role) = process_of(id).and_then(|process| self.roles.get(&process)).copied() else { return };
        let made = self.steps.entry(role).or_default();
        *made += 1;
        let Some(point) = self.point.filter(|point| point.clock == role && point.step == *made) else {
            return;
        };
        let victim = if point.victim == role { process_of(id) } else { self.first(point.victim) };
        if let Some(victim) = victim {
            system::kill(victim);
            self.kill = Some(Kill { process: victim as u32, before: step });
        }
    }

    fn first(&self, role: Role) -> Option<i32> {
        let alive = |process: &&i32| self.traced.contains(*process);
        self.roles
            .iter()
            .filter(|(_, other)| **other == role)
            .map(|(process, _)| process)
            .find(alive)
            .copied()
    }

    /// Lets everybody go who is still traced. Whoever is new appears here as well.
    fn let_go(&mut self) {
        // A thread that another one's exec has ended never reports that itself.
        self.traced.retain(|id| system::interrupt(*id));
        loop {
            let Some((id, event)) = system::next_event(!self.traced.is_empty()) else { return };
            match event {
                Event::Ended(status) => self.forget(id, status),
                Event::Made(new) => {
                    self.know(new);
                    self.leave(id, 0);
                }
                Event::Signal(signal) => self.leave(id, signal),
                Event::Executed | Event::Paused | Event::Call => {
                    self.know(id);
                    self.leave(id, 0);
                }
            }
        }
    }

    fn leave(&mut self, id: i32, signal: i32) {
        system::release(id, signal);
        self.traced.remove(&id);
    }

    fn forget(&mut self, id: i32, status: i32) {
        self.traced.remove(&id);
        if id == self.root {
            self.ended = Some(ExitStatus::from_raw(status));
        }
    }

    fn know(&mut self, id: i32) {
        self.traced.insert(id);
        if let Some(process) = process_of(id)
            && !self.roles.contains_key(&process)
        {
            let role = if process == self.root { Role::Other } else { self.role_of_new(process) };
            self.roles.insert(process, role);
        }
    }

    /// A process that was just made is not yet who it will be, but for the halves of bwrap, which all are bwrap.
    fn role_of_new(&self, process: i32) -> Role {
        let role = self.role(process);
        let is_fork = parent_of(process).is_some_and(|parent| self.roles.get(&parent) == Some(&role));
        if is_fork && role != Role::Bwrap { Role::Other } else { role }
    }

    fn role(&self, process: i32) -> Role {
        if process == self.root {
            return Role::Command;
        }
        let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let program = words.next().unwrap_or_default();
        match program.rsplit('/').next() {
            Some("palisade") if words.next().as_deref() == Some("__keeper") => Role::Keeper,
            // Its starter is part of its name.
            Some(name) if name == "bwrap" || name.starts_with("bwrap-") => Role::Bwrap,
            Some("guest") => Role::Guest,
            _ => Role::Other,
        }
    }
}

/// A field of a process's or thread's status.
fn field(id: i32, name: &str) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
}

/// The process that a thread belongs to.
fn process_of(id: i32) -> Option<i32> {
    field(id, "Tgid")
}

fn parent_of(process: i32) -> Option<i32> {
    field(process, "PPid")
}

/// The command behind a shell that stops itself first, so that the command is traced from its first call on.
fn stopping_first(command: &Command) -> Command {
    let mut stopped = Command::new("/bin/sh");
    stopped
        .args(["-c", "kill -STOP $$; exec \"$0\" \"$@\""])
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear()
        .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(directory) = command.get_current_dir() {
        stopped.current_dir(directory);
    }
    let null = std::process::Stdio::null;
    stopped.stdin(null()).stdout(null()).stderr(null());
    stopped
}

/// Waits for a command that was let go.
fn wait(mut child: Child) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().expect("the command's end") {
            return status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("the command did not end within {} s after the kill", PATIENCE.as_secs());
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}
