//! `palisade agent start`.

use super::{here, rm, service, told};
use crate::arguments::{FoundationFlag, PolicyFlags, SessionName};
use crate::commands::attach;
use crate::commands::sandbox::confirm;
use crate::context::Context;
use crate::failure::Failure;
use crate::relay::{self, Call, Input, Signals, Tty};
use crate::{OK, Status, output, terminal};
use palisade_agents::{
    AgentError, AgentService, Begin, Given, Install, Profile, Profiles, Ready, Signed, StartRequest,
    WorkingLock,
};
use palisade_core::{
    ExitCode, GuestPath, HostPath, Layout, Method, Network, Origin, Policy, SandboxName, Secret, SyncMode,
    SyncTrigger, Workspace, printable,
};
use palisade_engine::wrapper::{Host, Reach, reach, searched_first};
use palisade_engine::{Connection, SessionStart};
use palisade_protocol::ExecRequest;
use palisade_provision::Answer;
use palisade_workspace::{Arrival, BranchName, OnUnapplied, OnUncommitted, WhyStayed};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Start an agent on a repository, in a sandbox of its own
///
/// Your commit and branches go into the sandbox, where the agent works without permission prompts: it sees nothing of
/// the host but that code and the tools. On a terminal, you are attached to the agent; Ctrl-\ then d detaches. Bring its
/// work back with `palisade agent sync`. Without any option about the network, the agent reaches only the hosts that its
/// profile names.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The agent (claude, codex, gemini, kiro, shell, demo, or a profile of your own), the repository, or both
    /// [default: claude, and the repository of the current directory]
    #[arg(value_name = "AGENT|DIRECTORY", num_args = 0..=2)]
    pub(crate) what: Vec<PathBuf>,
    /// Name of the sandbox [default: the repository's]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The agent, as the first argument
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// Work on this and end
    #[arg(long, value_name = "TEXT", conflicts_with = "task_file")]
    pub(crate) task: Option<String>,
    /// Work on what this file says and end
    #[arg(long, value_name = "FILE")]
    pub(crate) task_file: Option<PathBuf>,
    /// In a worktree for this branch, beside the other ones
    #[arg(long, value_name = "BRANCH")]
    pub(crate) worktree: Option<String>,
    /// Remove the sandbox of an earlier start first; refused while it has work that is not in your branches and files
    #[arg(long)]
    pub(crate) fresh: bool,
    /// With --fresh: archive the work in it and remove it, also while an agent works in it
    #[arg(long, requires = "fresh")]
    pub(crate) force: bool,
    /// With --fresh: give up work in it that cannot be archived; repeat the sandbox's name
    #[arg(long, value_name = "NAME", requires = "fresh")]
    pub(crate) discard: Option<String>,
    /// Start from the commit, and leave changes that are not committed on the host
    #[arg(long, conflicts_with = "include_changes")]
    pub(crate) allow_dirty: bool,
    /// Also send in changes that are not committed
    #[arg(long)]
    pub(crate) include_changes: bool,
    /// Where the agent has work that is not in your branches and files: let it continue on that
    #[arg(long = "continue", conflicts_with = "follow_host")]
    pub(crate) go_on: bool,
    /// Where the agent has work that is not in your branches and files: archive it, and follow the host
    #[arg(long)]
    pub(crate) follow_host: bool,
    /// Continue the agent's last conversation, also with a task
    #[arg(long, conflicts_with = "fresh")]
    pub(crate) resume: bool,
    /// Start the agent and leave it running
    #[arg(long)]
    pub(crate) detach: bool,
    /// Archive its work by itself: manual, on-commit or on-idle [default: as before, or manual]
    #[arg(long, value_name = "MODE")]
    pub(crate) sync: Option<String>,
    #[command(flatten)]
    pub(crate) foundation: FoundationFlag,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
}

/// The agent when none is named.
const DEFAULT_AGENT: &str = "claude";

impl Arguments {
    /// The agent and the directory that are meant. A word that is an agent's name is the agent.
    pub(crate) fn target(&self) -> Result<(String, Option<&Path>), Failure> {
        let profiles = profiles()?;
        let is_agent = |word: &Path| word.to_str().is_some_and(|word| profiles.get(word).is_ok());
        let (named, directory) = match self.what.as_slice() {
            [] => (None, None),
            [word] if is_agent(word) => (word.to_str(), None),
            [directory] => (None, Some(directory.as_path())),
            [word, directory, ..] if is_agent(word) => (word.to_str(), Some(directory.as_path())),
            [word, ..] => {
                // Says which agents there are.
                profile(&profiles, &word.to_string_lossy())?;
                (None, None)
            }
        };
        let agent = match (named, &self.agent) {
            (Some(named), Some(given)) if named != given => {
                return Err(Failure::usage(
                    format!("both '{named}' and --agent {} name an agent", printable(given)),
                    "name it once",
                ));
            }
            (Some(named), _) => named.to_owned(),
            (None, Some(given)) => given.clone(),
            (None, None) => DEFAULT_AGENT.to_owned(),
        };
        Ok((agent, directory))
    }
}

pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<Status, Failure> {
    let task = task(&arguments)?;
    if task.is_none() && !arguments.detach && !terminal::is_interactive() {
        return Err(Failure::usage(
            "an agent without a task needs a terminal, and there is none here",
            "give it work with --task, or leave it running with --detach",
        ));
    }
    let profiles = profiles()?;
    let (agent, directory) = arguments.target()?;
    let profile = profile(&profiles, &agent)?;
    refuse_resume(profile, &arguments, task.as_deref())?;
    let worktree = arguments.worktree.as_deref().map(BranchName::new).transpose();
    let worktree =
        worktree.map_err(|error| Failure::usage(error.to_string(), "for example: feature/login"))?;
    let signed = login(context, &profiles, profile)?;
    let mut request = request(context, &arguments, directory)?;
    allow_endpoints(context, profile, &mut request.policy)?;
    let installed = installation(context, profile, &request)?;
    request.policy.programs.clone_from(&installed.show);
    let service = service(context)?;
    context.announce(request.method);
    context.require_guest()?;
    if arguments.fresh {
        remove_earlier(&service, &request, &arguments).await?;
    }
    refuse_other_foundation(context, &service, &request).await?;
    let mut teller = told::Teller::new();
    let ready = begin(&service, &request, profile, &arguments, &mut teller).await?;
    teller.clear();
    let Ready { connection, .. } = &ready;
    let place = match &worktree {
        None => GuestPath::new(connection.layout.workspace.clone())
            .map_err(|error| Failure::internal(error.to_string()))?,
        Some(branch) => service.worktree(connection, branch).await?,
    };
    let program = installed.program.to_string_lossy().into_owned();
    require_program(connection, profile, &program).await?;
    let layout = searched_first(&connection.layout, &installed.search);
    let place = place.as_str().to_owned();
    let layout = Layout { workspace: place.clone(), directory: place, ..layout };
    let begin = match arguments.resume {
        true => resumed(profile, connection, &layout).await?,
        false => Begin::New,
    };
    let session = session(worktree.as_ref())?;
    let mut tell = |step| teller.step(&step);
    let variables = palisade_agents::settle(connection, &layout, profile, &signed, &mut tell).await?;
    let program = program.as_str();
    let work = Work {
        context,
        service: &service,
        ready: &ready,
        profile,
        program,
        layout: &layout,
        session,
        worktree: worktree.as_ref(),
        variables,
    };
    match task {
        Some(task) if !arguments.detach => work.to_the_end(profile.task_command(&task, &begin)).await,
        task => {
            let command = match task {
                Some(task) => profile.task_command(&task, &begin),
                None => profile.interactive_command(&begin),
            };
            work.in_a_session(command, arguments.detach).await
        }
    }
}

/// Before anything is made: an agent that cannot continue a conversation is not asked to.
fn refuse_resume(profile: &Profile, arguments: &Arguments, task: Option<&str>) -> Result<(), Failure> {
    let possible = match task {
        _ if !arguments.resume => true,
        Some(_) => profile.can_resume_with_task(),
        None => !profile.resume.is_empty(),
    };
    if possible {
        return Ok(());
    }
    Err(Failure::usage(
        format!("{} cannot continue a conversation that way", profile.name),
        "leave --resume out",
    ))
}

async fn resumed(profile: &Profile, connection: &Connection, layout: &Layout) -> Result<Begin, Failure> {
    if profile.conversations.is_none() {
        return Ok(Begin::Resume(None));
    }
    match profile.last_conversation(connection, layout).await? {
        Some(id) => Ok(Begin::Resume(Some(id))),
        None => Err(AgentError::NoConversation {
            agent: profile.name.clone(),
            directory: layout.directory.clone(),
        }
        .into()),
    }
}

/// Starts the sandbox. Where the agent has work of its own, a person is asked what to do with it.
async fn begin(
    service: &AgentService<'_>,
    request: &StartRequest,
    profile: &Profile,
    arguments: &Arguments,
    teller: &mut told::Teller,
) -> Result<Ready, Failure> {
    let mut tell = |step| teller.step(&step);
    let mut ready = service.start(request.clone(), profile, &mut tell).await?;
    let is_open = matches!(ready.report.arrival, Arrival::Stayed(WhyStayed::UnappliedWork));
    if is_open && !arguments.go_on && terminal::is_interactive() {
        let question = "Archive the agent's work and follow your branch instead?";
        if confirm(&[], question, Answer::No) == Answer::Yes {
            service.follow_host(&mut ready, request, &mut tell).await?;
        }
    }
    Ok(ready)
}

/// The name of the session in which an agent works.
pub(crate) fn session(worktree: Option<&BranchName>) -> Result<SessionName, Failure> {
    let name = palisade_agents::session_name(worktree);
    name.parse().map_err(Failure::internal)
}

struct Work<'a> {
    context: &'a Context,
    service: &'a AgentService<'a>,
    ready: &'a Ready,
    profile: &'a Profile,
    /// The word that starts the agent inside.
    program: &'a str,
    layout: &'a Layout,
    session: SessionName,
    worktree: Option<&'a BranchName>,
    variables: Vec<(String, Secret)>,
}

impl Work<'_> {
    fn call(&self, mut command: Vec<String>, input: Input, tty: Tty) -> Call {
        if let Some(first) = command.first_mut().filter(|word| **word == self.profile.program) {
            self.program.clone_into(first);
        }
        Call {
            command: command.into_iter().map(OsString::from).collect(),
            variables: super::exposed(&self.variables),
            input,
            tty,
        }
    }

    async fn to_the_end(&self, command: Vec<String>) -> Result<Status, Failure> {
        let connection = &self.ready.connection;
        let _working = self.lock().await?;
        let call = self.call(command, Input::Empty, Tty::No);
        let ended = relay::run(&connection.client, self.layout, &call, Signals::listen()).await;
        let status = self.context.unless_lost(&connection.row, ended).await?;
        output::note(&format!("{} ended with exit code {status}", self.profile.name));
        if self.ready.sandbox.record.sync != SyncMode::Manual
            && let Err(error) = self.service.archive(&self.ready.sandbox, SyncTrigger::Ended).await
        {
            output::warning(&format!("its work was not archived: {error}"));
        }
        self.next_steps();
        Ok(status)
    }

    /// Notes that an agent works here; refused while another one does.
    async fn lock(&self) -> Result<WorkingLock, Failure> {
        let sessions = self.ready.connection.sessions().await?;
        let in_session = sessions.iter().any(|it| it.name == self.session.as_str() && it.exit.is_none());
        match WorkingLock::take(&self.ready.connection.row, self.worktree)? {
            Some(lock) if !in_session => Ok(lock),
            _ => Err(self.taken()),
        }
    }

    fn taken(&self) -> Failure {
        let back = attach::way_back(self.ready.connection.row.name.as_str(), &self.session);
        Failure::Told {
            code: "agent-working",
            exit: ExitCode::Conflict,
            message: format!("an agent is working there already (session '{}')", self.session),
            hints: vec![
                format!("look at it with: {back}"),
                "or give another one a worktree: --worktree BRANCH".into(),
            ],
        }
    }

    /// What one does when the agent has ended.
    fn next_steps(&self) {
        let (agent, name) = (&self.profile.name, self.ready.sandbox.name());
        let worktree = self.worktree.map(|branch| format!(" --worktree {branch}")).unwrap_or_default();
        output::note(&format!("bring its work back: palisade agent sync{worktree} {name}"));
        if !self.profile.resume.is_empty() {
            output::note(&format!("continue: palisade agent start {agent} --resume{worktree} --name {name}"));
        }
    }

    async fn in_a_session(&self, command: Vec<String>, detach: bool) -> Result<Status, Failure> {
        let connection = &self.ready.connection;
        drop(self.lock().await?);
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
                let status = attach::look(self.context, connection, &self.session, streams).await?;
                let sessions = connection.sessions().await.unwrap_or_default();
                // Unless it was left running.
                if !sessions.iter().any(|it| it.name == self.session.as_str() && it.exit.is_none()) {
                    self.next_steps();
                }
                Ok(status)
            }
            SessionStart::Running => Err(self.taken()),
            SessionStart::Refused(refusal) => {
                Ok(relay::refused(&call.program(), &self.layout.directory, &refusal))
            }
        }
    }
}

pub(super) fn profile<'a>(profiles: &'a Profiles, name: &str) -> Result<&'a Profile, Failure> {
    profiles.get(name).map_err(|error| {
        let near = error.near.as_ref().map(|near| format!("did you mean '{near}'?"));
        Failure::Told {
            code: "unknown-agent",
            exit: ExitCode::NotFound,
            message: error.to_string(),
            hints: near.into_iter().collect(),
        }
    })
}

/// The built-in agents and the user's own, one file each.
pub(super) fn profiles() -> Result<Profiles, Failure> {
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

fn request(
    context: &Context,
    arguments: &Arguments,
    directory: Option<&Path>,
) -> Result<StartRequest, Failure> {
    let directory = match directory {
        None => here()?,
        Some(path) => {
            let real = std::fs::canonicalize(path).map_err(|error| {
                Failure::usage(
                    format!("{}: {error}", printable(&path.to_string_lossy())),
                    "name an agent (see palisade agent start --help) or a directory in a git repository",
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
        on_uncommitted: match (arguments.include_changes, arguments.allow_dirty) {
            (true, _) => OnUncommitted::Include,
            (false, true) => OnUncommitted::LeaveBehind,
            (false, false) => OnUncommitted::Refuse,
        },
        on_unapplied: match arguments.follow_host {
            true => OnUnapplied::FollowHost,
            false => OnUnapplied::Continue,
        },
        refs: context.settings.agent_refs.value,
        method: context.method(),
        policy: context.policy(Workspace::Own)?,
        foundation: context.foundation.clone(),
        given: given(&arguments.policy, context),
        sync: arguments.sync.as_ref().map(|_| context.settings.agent_sync.value),
        default_sync: context.settings.agent_sync.value,
        idle_seconds: u32::try_from(context.settings.agent_idle.value.0.as_secs()).unwrap_or(u32::MAX),
        env_files: context.settings.env_files.value.clone(),
        env_load: context.settings.env_load.value.clone(),
    })
}

/// Before anything is made: an agent that cannot sign in is of no use.
fn login(context: &Context, profiles: &Profiles, profile: &Profile) -> Result<Signed, Failure> {
    let references = context.settings.login.iter().map(|login| (&login.value.name, &login.value.reference));
    let references: Vec<_> = references.collect();
    let variable = |name: &str| std::env::var(name).ok();
    let signed = Signed::in_for(profile, profiles, &references, &variable);
    Ok(signed.map_err(palisade_agents::AgentError::from)?)
}

/// The options about the policy that were said on the command line.
fn given(flags: &PolicyFlags, context: &Context) -> Vec<Given> {
    let method = matches!(context.settings.method.origin, Origin::Flag { .. });
    let all = [
        (Given::Method, method),
        (Given::Network, flags.network.is_some()),
        (Given::Allow, !flags.allow.is_empty()),
        (Given::HostPorts, !flags.host_ports.is_empty()),
        (Given::Memory, flags.memory.is_some()),
        (Given::Cpus, flags.cpus.is_some()),
        (Given::Pids, flags.pids.is_some()),
        (Given::Tmp, flags.tmp.is_some()),
        (Given::Opt, flags.opt),
        (Given::Tools, !flags.tools.is_empty()),
        (Given::Mounts, !flags.mounts.is_empty()),
    ];
    all.into_iter().filter_map(|(option, said)| said.then_some(option)).collect()
}

/// Removes the sandbox of an earlier start, as `agent rm` does.
async fn remove_earlier(
    service: &AgentService<'_>,
    request: &StartRequest,
    arguments: &Arguments,
) -> Result<(), Failure> {
    let Some(sandbox) = service.earlier(request).await? else { return Ok(()) };
    let mode = rm::mode(&sandbox, arguments.force, arguments.discard.as_deref())?;
    let report = service.engine.remove(sandbox.row.id().as_str(), mode).await?;
    rm::print(&report);
    output::note(&format!("removed the earlier sandbox {}", sandbox.name()));
    Ok(())
}

/// A sandbox from before stays what it was made from; asking for something else must not look as if it worked.
async fn refuse_other_foundation(
    context: &Context,
    service: &AgentService<'_>,
    request: &StartRequest,
) -> Result<(), Failure> {
    let environment = request.foundation.environment.as_ref();
    let named = matches!(context.settings.image.origin, Origin::Flag { .. });
    let image = request.foundation.image.as_ref().filter(|_| named);
    if environment.is_none() && image.is_none() {
        return Ok(());
    }
    let Some(sandbox) = service.earlier(request).await? else { return Ok(()) };
    let made_from = &sandbox.row.spec.foundation;
    let refuse = |from: String, wanted: &str| Failure::Told {
        code: "environment-differs",
        exit: ExitCode::Conflict,
        message: format!("sandbox '{}' was made from {from}, not from '{wanted}'", sandbox.name()),
        hints: vec!["make a new one with --fresh, or another one with --name".into()],
    };
    let told = |what: &str, name: Option<String>| match name {
        Some(name) => format!("{what} '{name}'"),
        None => format!("no {what}"),
    };
    if let Some(wanted) = environment.filter(|wanted| made_from.environment.as_ref() != Some(wanted)) {
        let from = told("environment", made_from.environment.as_ref().map(ToString::to_string));
        return Err(refuse(from, wanted.as_str()));
    }
    if let Some(wanted) = image.filter(|wanted| made_from.image.as_ref() != Some(wanted)) {
        let from = told("image", made_from.image.as_ref().map(ToString::to_string));
        return Err(refuse(from, wanted.as_str()));
    }
    Ok(())
}

/// Unless somebody said how far the sandbox reaches, the agent reaches what it cannot work without.
fn allow_endpoints(context: &Context, profile: &Profile, policy: &mut Policy) -> Result<(), Failure> {
    let said = context.settings.network.origin != Origin::Default;
    // Without isolation there is no network to narrow.
    if said || profile.endpoints.is_empty() || context.method() == Method::Noop {
        return Ok(());
    }
    policy.network = Network::Allowlist;
    for endpoint in &profile.endpoints {
        let rule = endpoint.parse().map_err(|error| Failure::Told {
            code: "agent-profile-invalid",
            exit: ExitCode::Configuration,
            message: format!("the profile of {} names an endpoint that is none: {error}", profile.name),
            hints: Vec::new(),
        })?;
        if !policy.allow.contains(&rule) {
            policy.allow.push(rule);
        }
    }
    Ok(())
}

/// What of the agent's installation must be shown, and which word starts it inside.
fn installation(context: &Context, profile: &Profile, request: &StartRequest) -> Result<Reach, Failure> {
    let mut search_path: Vec<PathBuf> = super::install::programs(profile)?.into_iter().collect();
    search_path.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    let home = std::env::home_dir();
    let host = Host {
        search_path: &search_path,
        here: request.directory.as_path(),
        home: home.as_deref(),
        state: context.engine.state_dir(),
    };
    let word = std::ffi::OsStr::new(&profile.program);
    reach(word, request.method, &request.policy, &host).map_err(|error| Failure::Told {
        code: "agent-not-installed",
        exit: ExitCode::Preflight,
        message: format!("{} cannot be shown to a sandbox: {error}", profile.description),
        hints: vec![how_to_install(profile)],
    })
}

fn how_to_install(profile: &Profile) -> String {
    match &profile.install {
        Some(Install::Npm(_)) => format!("install it with: palisade agent install {}", profile.name),
        Some(Install::Path(_)) | None => format!("put the directory of {} on the PATH", profile.program),
    }
}

/// A sandbox from before may have been made without the agent.
async fn require_program(connection: &Connection, profile: &Profile, program: &str) -> Result<(), Failure> {
    if palisade_agents::has_program(connection, program).await? {
        return Ok(());
    }
    Err(Failure::Told {
        code: "agent-not-installed",
        exit: ExitCode::Preflight,
        message: format!(
            "{} is not shown to sandbox '{}': it was made without it",
            profile.name, connection.row.name
        ),
        hints: vec!["make a new one with --fresh, or another one with --name".into()],
    })
}
