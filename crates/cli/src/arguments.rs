//! The command line. Each command's own arguments are in its own file.

use crate::commands;
use clap::{Args, Parser, Subcommand};

/// Sandboxes for coding agents and the people who work with them.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalFlags,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
pub(crate) struct GlobalFlags {
    /// Isolation method: bwrap, docker, podman, microvm, kubernetes or noop
    #[arg(
        long,
        global = true,
        visible_alias = "backend",
        value_name = "METHOD",
        help_heading = "Global options"
    )]
    pub(crate) method: Option<String>,
    /// Least severe log level on stderr: off, error, warn, info, debug or trace
    #[arg(long, global = true, value_name = "LEVEL", help_heading = "Global options")]
    pub(crate) log_level: Option<String>,
    /// Form of log lines: text or json
    #[arg(long, global = true, value_name = "FORMAT", help_heading = "Global options")]
    pub(crate) log_format: Option<String>,
    /// The name of the command, as the parser found it.
    #[arg(skip)]
    pub(crate) command: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Agent(commands::agent::Arguments),
    Init(Box<commands::init::Arguments>),
    #[command(name = "impl")]
    Implement(commands::implement::Arguments),
    Done(commands::done::Arguments),
    Sandbox(commands::sandbox::Arguments),
    Slots(commands::slots::Arguments),
    Run(commands::run::Arguments),
    Apply(commands::apply::Arguments),
    Create(commands::create::Arguments),
    Start(commands::start::Arguments),
    Stop(commands::stop::Arguments),
    Rm(commands::rm::Arguments),
    Sync(commands::sync::Arguments),
    Rebind(commands::rebind::Arguments),
    Ls(commands::ls::Arguments),
    Inspect(commands::inspect::Arguments),
    Logs(commands::logs::Arguments),
    Egress(commands::egress::Arguments),
    Exec(commands::exec::Arguments),
    Shell(commands::shell::Arguments),
    Attach(commands::attach::Arguments),
    Sessions(commands::sessions::Arguments),
    Cp(commands::cp::Arguments),
    Wrap(commands::wrap::Arguments),
    Gc(commands::gc::Arguments),
    Doctor(commands::doctor::Arguments),
    Env(commands::env::Arguments),
    Config(commands::config::Arguments),
    Trust(commands::trust::Arguments),
    Completions(commands::completions::Arguments),
    #[command(name = commands::agent::BACKGROUND, hide = true)]
    BackgroundSync(commands::agent::background::Arguments),
    #[command(name = crate::telemetry::KEEPER, hide = true)]
    Keeper(commands::keeper::Arguments),
    #[command(name = "__wrapped", hide = true)]
    Wrapped(commands::wrapped::Arguments),
}

/// A directory of the host's as the workspace; shared by `create` and `wrap`.
#[derive(Debug, Args, Default)]
pub(crate) struct WorkspaceFlag {
    /// Show DIR as /workspace; writable unless it ends in :ro
    #[arg(short = 'w', long = "workspace", value_name = "DIR[:ro]")]
    pub(crate) workspace: Option<String>,
}

/// A directory of the host's, or a copy of one, as the workspace of `run`.
#[derive(Debug, Args, Default)]
pub(crate) struct CopyableWorkspaceFlag {
    /// Show DIR as /workspace: writable, read-only with :ro, or a copy with :copy, whose changes wait for palisade apply
    #[arg(short = 'w', long = "workspace", value_name = "DIR[:ro|:copy]")]
    pub(crate) workspace: Option<String>,
}

/// What a sandbox is made from; shared by `run`, `create` and `agent start`.
#[derive(Debug, Args, Default)]
pub(crate) struct FoundationFlag {
    /// Make it from this environment (see palisade env ls); other options win over what that says
    #[arg(long, value_name = "NAME")]
    pub(crate) environment: Option<String>,
    /// Start from this image, which the engine must have (docker and podman)
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
}

/// What a sandbox may see and use; shared by all commands that make one.
#[derive(Debug, Args, Default)]
pub(crate) struct PolicyFlags {
    /// Show a host path inside; writable unless it ends in :ro
    #[arg(long = "mount", value_name = "HOST:GUEST[:ro]")]
    pub(crate) mounts: Vec<String>,
    /// Show a directory of tools read-only at its own path, and find programs in it
    #[arg(long = "tool", value_name = "DIR")]
    pub(crate) tools: Vec<String>,
    /// Show the host's /opt read-only
    #[arg(long)]
    pub(crate) opt: bool,
    /// Network mode: none, allowlist or open
    #[arg(long, value_name = "MODE")]
    pub(crate) network: Option<String>,
    /// Let it reach HOST (or *.DOMAIN, an address, a range) on PORT, else on 80 and 443
    #[arg(long = "allow", value_name = "HOST[:PORT]")]
    pub(crate) allow: Vec<String>,
    /// Show a port of this host's loopback on the sandbox's own
    #[arg(long = "host-port", value_name = "PORT[:HOSTPORT]")]
    pub(crate) host_ports: Vec<String>,
    /// Memory limit, such as 512M or 8G
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// Processor limit, such as 2 or 0.5
    #[arg(long, value_name = "NUMBER")]
    pub(crate) cpus: Option<String>,
    /// Limit on processes and threads
    #[arg(long, value_name = "NUMBER")]
    pub(crate) pids: Option<String>,
    /// Size of /tmp and other in-memory places, such as 1G
    #[arg(long, value_name = "SIZE")]
    pub(crate) tmp: Option<String>,
}

/// Variables for a command inside; shared by `run`, `exec`, `shell` and `wrap`.
#[derive(Debug, Args, Default)]
pub(crate) struct EnvironmentFlags {
    /// Set a variable inside; without a value, take it from this environment
    #[arg(short = 'e', long = "env", value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<std::ffi::OsString>,
}

/// The name of a session inside a sandbox, as narrow as the names of sandboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionName(String);

impl SessionName {
    /// The session that is meant when none is named.
    pub(crate) const MAIN: &str = "main";

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for SessionName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match palisade_protocol::is_session_name(text) {
            true => Ok(Self(text.to_owned())),
            false => Err(format!(
                "a session's name has 1 to {} of a-z, 0-9 and '-', and does not start with '-'",
                palisade_protocol::message::MAX_SESSION_NAME
            )),
        }
    }
}

impl std::fmt::Display for SessionName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
