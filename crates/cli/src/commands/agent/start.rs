//! `palisade agent start`.

use super::{here, told, workshop};
use crate::arguments::{PolicyFlags, SessionName};
use crate::commands::attach;
use crate::context::Context;
use crate::failure::Failure;
use crate::relay::{self, Call, Input, Signals, Tty};
use crate::{OK, Status, output, terminal};
use palisade_agents::{Install, Profile, Profiles, Ready, StartRequest, SyncMode, Workshop};
use palisade_core::{ExitCode, GuestPath, HostPath, Layout, SandboxName, Workspace, printable};
use palisade_engine::{Connection, SessionStart};
use palisade_protocol::ExecRequest;
use palisade_workspace::BranchName;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Put an agent to work on a repository, in a sandbox of its own
///
/// The current branch is sent into the sandbox, where the agent works without asking for permission: it sees nothing
/// of the host but that code and the tools. With a terminal, this one is attached to the agent; Ctrl-\ then d detaches.
/// Its work comes home with `palisade agent sync`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The repository [default: the one of the current directory]
    pub(crate) directory: Option<PathBuf>,
    /// Name of the sandbox [default: the repository's]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The agent: claude, codex, gemini, kiro, shell, or one of your own
    #[arg(long, default_value = "claude")]
    pub(crate) agent: String,
    /// Work on this and end
    #[arg(long, value_name = "TEXT", conflicts_with = "task_file")]
    pub(crate) task: Option<String>,
    /// Work on what this file says and end
    #[arg(long, value_name = "FILE")]
    pub(crate) task_file: Option<PathBuf>,
    /// In a worktree for this branch, beside the other ones
    #[arg(long, value_name = "BRANCH")]
    pub(crate) worktree: Option<String>,
    /// Discard the sandbox of an earlier start
    #[arg(long)]
    pub(crate) fresh: bool,
    /// With --fresh: also give up work in it that is not on the host; repeat the sandbox's name
    #[arg(long, value_name = "NAME", requires = "fresh")]
    pub(crate) discard: Option<String>,
    /// Go on with what is committed, and leave other changes behind
    #[arg(long)]
    pub(crate) allow_dirty: bool,
    /// When work comes home by itself, as refs: manual, on-commit or on-idle
    #[arg(long, value_enum, default_value = "manual")]
    pub(crate) sync: Mode,
    /// Start the agent and leave it running
    #[arg(long)]
    pub(crate) detach: bool,
    /// Show a directory of tools read-only at its own path, and find programs in it
    #[arg(long = "tool", value_name = "DIR")]
    pub(crate) tools: Vec<String>,
    /// Memory limit, such as 512M or 8G
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// Processor limit, such as 2 or 0.5
    #[arg(long, value_name = "NUMBER")]
    pub(crate) cpus: Option<String>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Mode {
    Manual,
    OnCommit,
    OnIdle,
}

impl From<Mode> for SyncMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Manual => SyncMode::Manual,
            Mode::OnCommit => SyncMode::OnCommit,
            Mode::OnIdle => SyncMode::OnIdle,
        }
    }
}

impl Arguments {
    pub(crate) fn policy_flags(&self) -> PolicyFlags {
        PolicyFlags {
            tools: self.tools.clone(),
            memory: self.memory.clone(),
            cpus: self.cpus.clone(),
            ..PolicyFlags::default()
        }
    }
}

pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<Status, Failure> {
    let task = task(&arguments)?;
    if task.is_none() && !arguments.detach && !terminal::is_interactive() {
        return Err(Failure::usage(
            "an agent without a task needs a terminal, and this is none",
            "give it work with --task, or leave it running with --detach",
        ));
    }
    let profiles = profiles()?;
    let profile = profiles.get(&arguments.agent).map_err(|error| {
        let near = error.near.as_ref().map(|near| format!("did you mean '{near}'?"));
        Failure::Told {
            code: "unknown-agent",
            exit: ExitCode::NotFound,
            message: error.to_string(),
            hints: near.into_iter().collect(),
        }
    })?;
    let worktree = arguments.worktree.as_deref().map(BranchName::new).transpose();
    let worktree =
        worktree.map_err(|error| Failure::usage(error.to_string(), "for example: feature/login"))?;
    let request = request(context, &arguments)?;
    let workshop = workshop(context)?;
    context.announce(request.method);
    context.require_guest()?;
    if arguments.fresh {
        discard(&workshop, &request, arguments.discard.as_deref()).await?;
    }
    let mut teller = told::Teller::default();
    let ready = workshop.arrive(request, profile, &mut |step| teller.step(&step)).await?;
    let Ready { connection, .. } = &ready;
    let place = match &worktree {
        None => GuestPath::new(connection.layout.workspace.clone())
            .map_err(|error| Failure::internal(error.to_string()))?,
        Some(branch) => workshop.worktree(connection, branch).await?,
    };
    require_program(connection, profile).await?;
    let layout = Layout { workspace: place.as_str().to_owned(), ..connection.layout.clone() };
    let work =
        Work { context, ready: &ready, profile, layout: &layout, session: session(worktree.as_ref())? };
    match task {
        Some(task) if !arguments.detach => work.to_the_end(&task).await,
        task => work.in_a_session(task.as_deref(), arguments.detach).await,
    }
}

/// The name of the session in which an agent works.
pub(crate) fn session(worktree: Option<&BranchName>) -> Result<SessionName, Failure> {
    let name = palisade_agents::session_name(worktree);
    name.parse().map_err(Failure::internal)
}

/// Files beside the code that git does not carry, as shell patterns from the top of the repository.
const ENV_FILES: [&str; 2] = [".env", ".env.*"];

struct Work<'a> {
    context: &'a Context,
    ready: &'a Ready,
    profile: &'a Profile,
    layout: &'a Layout,
    session: SessionName,
}

impl Work<'_> {
    fn call(&self, command: Vec<String>, input: Input, tty: Tty) -> Call {
        let own = self.profile.environment.iter().map(|(name, value)| (name.into(), value.into()));
        // By value over the stream only; what is not set on the host is not set inside.
        let login = self.profile.login.variables.iter();
        let login = login.filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
        Call {
            command: command.into_iter().map(OsString::from).collect(),
            variables: own.chain(login).collect(),
            input,
            tty,
        }
    }

    async fn to_the_end(&self, task: &str) -> Result<Status, Failure> {
        let call = self.call(self.profile.task_command(task), Input::Empty, Tty::No);
        let status = relay::run(&self.ready.connection.client, self.layout, &call, Signals::listen()).await?;
        output::note(&format!("{} ended with exit code {status}", self.profile.name));
        output::note(&format!("bring its work home: palisade agent sync {}", self.ready.sandbox.name()));
        Ok(status)
    }

    async fn in_a_session(&self, task: Option<&str>, detach: bool) -> Result<Status, Failure> {
        let connection = &self.ready.connection;
        let command = match task {
            Some(task) => self.profile.task_command(task),
            None => self.profile.interactive.clone(),
        };
        let call = self.call(command, Input::Relayed, Tty::Yes);
        let request = ExecRequest { detached: detach, ..call.request(self.layout) };
        let back = attach::way_back(connection.row.name.as_str(), &self.session);
        match connection.start_session(self.session.as_str(), request).await? {
            SessionStart::Started(_) if detach => {
                output::note(&format!(
                    "{} works in session '{}'; look at it with: {back}",
                    self.profile.name, self.session
                ));
                Ok(OK)
            }
            SessionStart::Started(streams) => {
                attach::look(self.context, connection, &self.session, streams).await
            }
            SessionStart::Running => Err(Failure::Told {
                code: "session-exists",
                exit: ExitCode::Conflict,
                message: format!("an agent is at work there already, in session '{}'", self.session),
                hints: vec![format!(
                    "look at it with: {back}; or give another one a worktree: --worktree BRANCH"
                )],
            }),
            SessionStart::Refused(refusal) => {
                Ok(relay::refused(&call.program(), &self.layout.workspace, &refusal))
            }
        }
    }
}

/// The built-in agents and the user's own, one file each.
fn profiles() -> Result<Profiles, Failure> {
    let directory = crate::context::config_directory()?.join("palisade/agents");
    let unreadable = |path: &Path, error: std::io::Error| Failure::Told {
        code: "config-unreadable",
        exit: ExitCode::Configuration,
        message: format!("cannot read {}: {error}", path.display()),
        hints: Vec::new(),
    };
    let mut own = Vec::new();
    match std::fs::read_dir(&directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(unreadable(&directory, error)),
        Ok(entries) => {
            let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
            paths.sort();
            for path in paths {
                let text = std::fs::read_to_string(&path).map_err(|error| unreadable(&path, error))?;
                own.push((path.display().to_string(), text));
            }
        }
    }
    let own = own.iter().map(|(origin, text)| (origin.as_str(), text.as_str()));
    Profiles::load(own).map_err(|error| Failure::Told {
        code: "agent-profile-invalid",
        exit: ExitCode::Configuration,
        message: error.to_string(),
        hints: vec!["docs/guides/agents.md tells what a profile has".into()],
    })
}

fn task(arguments: &Arguments) -> Result<Option<String>, Failure> {
    match &arguments.task_file {
        None => Ok(arguments.task.clone()),
        Some(path) => std::fs::read_to_string(path).map(Some).map_err(|error| {
            Failure::usage(format!("cannot read the task in {}: {error}", path.display()), "give a text file")
        }),
    }
}

fn request(context: &Context, arguments: &Arguments) -> Result<StartRequest, Failure> {
    let directory = match &arguments.directory {
        None => here()?,
        Some(path) => {
            let real = std::fs::canonicalize(path).map_err(|error| {
                Failure::usage(
                    format!("{}: {error}", printable(&path.to_string_lossy())),
                    "name a directory in a git repository",
                )
            })?;
            HostPath::new(real).map_err(|error| Failure::failed("io", error.to_string()))?
        }
    };
    let name = arguments.name.as_deref().map(SandboxName::new).transpose();
    let name = name.map_err(|error| Failure::usage(error.to_string(), "for example: web-1"))?;
    Ok(StartRequest {
        directory,
        name,
        allow_dirty: arguments.allow_dirty,
        method: context.method(),
        policy: context.policy(Workspace::Own)?,
        sync: arguments.sync.into(),
        env_files: ENV_FILES.map(str::to_owned).into(),
    })
}

/// Removes the sandbox of an earlier start, unless something in it would be lost.
async fn discard(
    workshop: &Workshop<'_>,
    request: &StartRequest,
    given_up: Option<&str>,
) -> Result<(), Failure> {
    let Some(sandbox) = workshop.earlier(request).await? else { return Ok(()) };
    super::rm::remove(workshop, &sandbox, given_up).await?;
    output::note(&format!("discarded {}", sandbox.name()));
    Ok(())
}

async fn require_program(connection: &Connection, profile: &Profile) -> Result<(), Failure> {
    let missing = |hint: String| Failure::Told {
        code: "agent-not-installed",
        exit: ExitCode::Preflight,
        message: format!(
            "{} is not in the sandbox: no program '{}' is found there",
            profile.name, profile.program
        ),
        hints: vec![hint],
    };
    if palisade_agents::has_program(connection, &profile.program).await? {
        return Ok(());
    }
    let package = match &profile.install {
        Some(Install::Npm(package)) => format!(
            "install it with: npm install --prefix DIR {package}, and show it with --tool DIR/node_modules/.bin"
        ),
        Some(Install::Path(_)) | None => {
            format!("show the directory of your {} with --tool DIR", profile.program)
        }
    };
    Err(missing(package))
}
