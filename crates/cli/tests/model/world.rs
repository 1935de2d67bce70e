//! A user's repository and a real sandbox while a sequence runs: every step is a command of a shell's on the host, or one
//! of the program's.

use crate::actions::PRELUDE;
use crate::contents::{Contents, SideGit};
use crate::inside::{self, WORKSPACE};
use crate::look::{Look, Outcome};
use crate::report;
use crate::sequence::{Act, Actor, Command};
use crate::template::template;
use crate::users_state::{AgentState, look_at_host};
use palisade_core::{SandboxId, SandboxName};
use palisade_testing::{Instance, Outcome as Run};
use palisade_workspace::SandboxRefs;
use std::fs;
use std::path::PathBuf;

/// The exit code of a command that needs the user.
const NEEDS_USER: i32 = 7;
/// What agents write that cannot be archived.
const REFUSED_FILE: &str = "GIT~1";
/// Why a removal is refused.
const UNSAVED: [&str; 2] = ["has work that is not in your branches and files", "could not be archived"];
/// Settings for git on both sides: collections of garbage in the background would only cost time.
const GIT_SETTINGS: [(&str, &str); 4] = [
    ("GIT_CONFIG_COUNT", "1"),
    ("GIT_CONFIG_KEY_0", "maintenance.auto"),
    ("GIT_CONFIG_VALUE_0", "false"),
    ("GIT_EDITOR", "true"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// There is no sandbox.
    Absent,
    Stopped,
    Running,
}

pub(crate) struct World {
    instance: Instance,
    /// The name of the user's repository, beside which its working trees and its remote are.
    root: String,
    pub(crate) user_git: SideGit,
    state: State,
    /// The refs of this sandbox, and of the one before that had its name.
    refs: [SandboxRefs; 2],
    sandboxes: u8,
    /// Whether the sandbox has the repository that agents clone.
    has_module: bool,
    /// What was seen inside when the sandbox ran last.
    seen: Option<(Contents, AgentState)>,
}

fn refs(id: SandboxId) -> SandboxRefs {
    SandboxRefs::new(id, SandboxName::new("box").unwrap())
}

fn is_verbose() -> bool {
    std::env::var_os("PALISADE_MODEL_VERBOSE").is_some()
}

/// Describes a command that ended in a way that is never right.
fn unexpected(words: &[&str], run: &Run) -> String {
    format!("  palisade {} ended with {}: {}{}", words.join(" "), run.code, run.stdout, run.stderr)
}

fn says(run: &Run, texts: &[&str]) -> bool {
    texts.iter().any(|text| run.stderr.contains(text))
}

impl World {
    pub(crate) fn new(method: &'static str) -> Self {
        let instance = Instance::with_method(method);
        template().copy_to(&instance.work());
        fs::rename(instance.work().join("home/.gitconfig"), instance.home().join(".gitconfig")).unwrap();
        Self {
            root: "host".into(),
            user_git: SideGit { home: instance.home() },
            instance,
            state: State::Absent,
            refs: [0, 1].map(|number| refs(SandboxId::from_random([number; 15]))),
            sandboxes: 1,
            has_module: false,
            seen: None,
        }
    }

    pub(crate) fn host(&self) -> PathBuf {
        self.instance.work().canonicalize().unwrap().join(&self.root)
    }

    pub(crate) fn inside(&self) -> PathBuf {
        WORKSPACE.into()
    }

    pub(crate) fn recent_refs(&self) -> [SandboxRefs; 2] {
        self.refs.clone()
    }

    /// How many sandboxes there were, this one included.
    pub(crate) fn sandboxes(&self) -> u8 {
        self.sandboxes
    }

    fn command(&self, words: &[&str]) -> std::process::Command {
        let mut command = self.instance.command(words);
        command.current_dir(self.host());
        command
    }

    fn palisade(&self, words: &[&str]) -> Run {
        let run = Instance::finish(&mut self.command(words));
        if is_verbose() {
            println!(
                "    {}: {}\n    {}",
                words.iter().take(4).copied().collect::<Vec<_>>().join(" "),
                run.code,
                run.stderr.trim_end().replace('\n', "\n    ")
            );
        }
        run
    }

    /// Whether the action found something to do, and did it.
    pub(crate) fn act(&mut self, act: &Act) -> bool {
        match act.actor {
            Actor::User => self.act_as_user(act),
            Actor::Agent => self.act_as_agent(act),
        }
    }

    fn act_as_user(&mut self, act: &Act) -> bool {
        let mut command = self.user_git.command(&self.host(), "sh");
        command.arg("-c").arg(format!("{PRELUDE}\n{}", act.action().script));
        command.envs(act.variables()).envs(GIT_SETTINGS).env_remove("GIT_OPTIONAL_LOCKS");
        let run = Run::from(command.output().unwrap());
        if is_verbose() && !run.stderr.is_empty() {
            println!("    {}", run.stderr.trim_end().replace('\n', "\n    "));
        }
        let moved = format!("host-{}", act.step);
        if self.instance.work().join(&moved).exists() {
            self.root = moved;
        }
        run.code == 0
    }

    fn act_as_agent(&mut self, act: &Act) -> bool {
        if self.state == State::Absent {
            return false;
        }
        self.start_again();
        let settings = GIT_SETTINGS.map(|(name, value)| (name, value.to_owned()));
        let variables = act.variables().into_iter().chain(settings);
        let variables: String = variables.map(|(name, value)| format!("export {name}='{value}'\n")).collect();
        // The module is beside the workspace where the inside is a directory of the test's.
        let action = act.action().script.replace("../module.git", "\"$HOME/module.git\"");
        // How the script ends is not how the program does.
        let script = format!("{variables}{PRELUDE}\n(\n{action}\n)\necho \"= $?\"");
        let run = self.palisade(&["agent", "exec", "box", "--", "sh", "-c", &script]).ok();
        let code = run.stdout.lines().last().and_then(|line| line.strip_prefix("= "));
        code.unwrap_or_else(|| panic!("{act:?}: {}", run.stdout)) == "0"
    }

    /// Starts a sandbox that was stopped. Nothing in it is other than before.
    fn start_again(&mut self) {
        if self.state != State::Stopped {
            return;
        }
        let run = self.palisade(&["start", "box"]);
        assert_eq!(run.code, 0, "palisade start box: {}", run.stderr);
        self.state = State::Running;
        let before = self.seen.take().map(|(_, agent)| agent);
        let after = self.look_inside().map(|(_, agent)| agent);
        assert_eq!(before, after, "a stop or what followed it has changed the agent's files, index or refs");
    }

    pub(crate) fn look(&mut self) -> Look {
        let (user, host) = look_at_host(&self.user_git, &self.host());
        let (inside, agent) = self.look_inside().unzip();
        Look { user, host, inside: inside.unwrap_or_default(), agent }
    }

    /// A stopped sandbox is not started for that: what is in it then is looked at when it runs again.
    fn look_inside(&mut self) -> Option<(Contents, AgentState)> {
        match self.state {
            State::Absent => self.seen = None,
            State::Stopped => {}
            State::Running => {
                let words = ["exec", "box", "--", "sh", "-c", &inside::script()];
                let run = Instance::finish(&mut self.command(&words));
                assert_eq!((run.code, run.stderr.as_str()), (0, ""), "a look inside: {}", run.stdout);
                self.seen = inside::parse(&run.stdout);
            }
        }
        self.seen.clone()
    }

    /// What the program says of the sandbox after a command that may have made, stopped or removed it.
    fn find_sandbox(&mut self) {
        let listed = Instance::finish(&mut self.command(&["ls", "--json"])).ok().json();
        let Some(sandbox) = listed.as_array().unwrap().first() else {
            if self.state != State::Absent {
                self.sandboxes += 1;
            }
            self.state = State::Absent;
            return;
        };
        let id = SandboxId::parse(sandbox["id"].as_str().unwrap()).unwrap();
        if *self.refs[0].id() != id {
            self.refs = [refs(id), self.refs[0].clone()];
            self.has_module = false;
        }
        self.state = match sandbox["state"].as_str() {
            Some("running") => State::Running,
            Some("stopped") => State::Stopped,
            other => panic!("the sandbox is {other:?}"),
        };
        if self.state == State::Running && !self.has_module {
            let script = "tar -C \"$HOME\" -x ./module.git";
            let words = ["exec", "--interactive", "box", "--", "sh", "-c", script];
            self.instance.run_with_input(words, &template().archive).ok();
            self.has_module = true;
        }
    }

    /// Runs a command of the product's. An error is one that no command should end with.
    #[allow(clippy::unused_async, reason = "the library's is asynchronous")]
    pub(crate) async fn run(&mut self, command: &Command) -> Result<Outcome, String> {
        let outcome = self.run_program(command);
        self.find_sandbox();
        outcome
    }

    fn run_program(&mut self, command: &Command) -> Result<Outcome, String> {
        match command {
            Command::Start { include_changes, follow_host } => self.start(*include_changes, *follow_host),
            // Everything else needs a sandbox.
            _ if self.state == State::Absent => Ok(Outcome::Refused),
            Command::Sync { merge, tags, all, only } => {
                let mut words = vec!["agent", "sync", "box", "--json"];
                let flags = [("--merge", *merge), ("--tags", *tags), ("--all", *all)];
                words.extend(flags.iter().filter(|(_, set)| *set).map(|(flag, _)| *flag));
                words.extend(only.iter().flat_map(|path| ["--", path]));
                self.sync(&words)
            }
            Command::Stop => self.stop(),
            Command::Remove { force } => {
                let flag = force.then_some("--force");
                let words: Vec<&str> = ["agent", "rm", "box"].into_iter().chain(flag).collect();
                let run = self.palisade(&words);
                match run.code {
                    0 => self.collect(Outcome::Removed(report::left_out(&run.stderr))),
                    NEEDS_USER if says(&run, &UNSAVED) => {
                        Ok(Outcome::Archived(report::left_out(&run.stderr)))
                    }
                    _ => Err(unexpected(&words, &run)),
                }
            }
            Command::Discard => {
                let words = ["agent", "rm", "--discard", "box"];
                let run = self.palisade(&words);
                match run.code {
                    0 => self.collect(Outcome::Discarded),
                    _ => Err(unexpected(&words, &run)),
                }
            }
            Command::RemoveWorktrees { force } => self.remove_worktrees(*force),
            Command::Interrupted { fault, kill } => self.interrupt(fault, *kill),
        }
    }

    fn start(&self, include_changes: bool, follow_host: bool) -> Result<Outcome, String> {
        let mut words = vec!["agent", "start", "shell", "--name", "box", "--task", "true"];
        words.push(if follow_host { "--follow-host" } else { "--continue" });
        if include_changes {
            words.push("--include-changes");
        }
        let run = self.palisade(&words);
        match run.code {
            0 => Ok(Outcome::Started { archived: report::left_out(&run.stderr), report: run.stderr }),
            NEEDS_USER if says(&run, &["not committed", "(a detached HEAD)"]) => Ok(Outcome::Refused),
            _ => Err(unexpected(&words, &run)),
        }
    }

    /// The exit code says whether something needs the user, as the report does.
    fn sync(&self, words: &[&str]) -> Result<Outcome, String> {
        let run = self.palisade(words);
        if !matches!(run.code, 0 | NEEDS_USER) || run.stdout.is_empty() {
            return Err(unexpected(words, &run));
        }
        let json = run.json();
        if json["needs_user"] != (run.code == NEEDS_USER) {
            return Err(unexpected(words, &run));
        }
        Ok(Outcome::Synced(Box::new(report::read(&json))))
    }

    fn stop(&self) -> Result<Outcome, String> {
        let words = ["stop", "box"];
        let run = self.palisade(&words);
        let archived = report::left_out(&run.stderr);
        // Only a name that git refuses is a reason.
        let is_archived = !archived.left_out.is_empty() || !run.stderr.contains("not archived");
        match run.code {
            0 if is_archived => self.collect(Outcome::Archived(archived)),
            _ => Err(unexpected(&words, &run)),
        }
    }

    /// A collection of what is not needed any more follows every command after which there may be some.
    fn collect(&self, outcome: Outcome) -> Result<Outcome, String> {
        let run = self.palisade(&["gc"]);
        if run.code == 0 { Ok(outcome) } else { Err(unexpected(&["gc"], &run)) }
    }

    fn remove_worktrees(&self, force: bool) -> Result<Outcome, String> {
        let listed = self.palisade(&["agent", "worktree", "ls", "box"]);
        if listed.code != 0 {
            return Err(unexpected(&["agent", "worktree", "ls", "box"], &listed));
        }
        let trees = listed.stdout.lines().skip(1).filter_map(|line| line.split_once(' '));
        let branches = trees.filter(|(branch, path)| path.trim() != WORKSPACE && *branch != "-");
        let mut outcome = Outcome::Refused;
        for (branch, _) in branches {
            let mut words = vec!["agent", "worktree", "rm", branch, "--name", "box"];
            if force {
                words.push("--force");
            }
            let run = self.palisade(&words);
            // Only what is in the worktree itself is named. Agents write the name that git refuses only beside it.
            let archived = report::left_out(&format!("{}\n{REFUSED_FILE}: git refuses its name", run.stderr));
            outcome = match (run.code, outcome) {
                (0, _) | (NEEDS_USER, Outcome::Removed(_)) => Outcome::Removed(archived),
                (NEEDS_USER, _) if says(&run, &UNSAVED) => Outcome::Archived(archived),
                _ => return Err(unexpected(&words, &run)),
            };
        }
        Ok(outcome)
    }

    /// A sync that is killed or fails at a step. Where the step is not reached, it ends well.
    fn interrupt(&self, fault: &str, kill: bool) -> Result<Outcome, String> {
        let words = ["agent", "sync", "box", "--json"];
        let marker = self.instance.work().join("fault");
        let how = if kill { "kill" } else { "fail" };
        let mut command = self.command(&words);
        let run =
            Instance::finish(command.env("PALISADE_FAULT", format!("{how}:{fault}@{}", marker.display())));
        let is_expected = match fs::remove_file(&marker).is_ok() {
            true if kill => run.code == -9,
            true => run.code > 0 && run.stderr.contains("a fault on purpose"),
            false => matches!(run.code, 0 | NEEDS_USER),
        };
        if is_expected { Ok(Outcome::Interrupted) } else { Err(unexpected(&words, &run)) }
    }
}
