//! `palisade wrap`: an executable that looks like a command and runs it in a sandbox, for programs that can only be
//! told a path.

use crate::arguments::{EnvironmentFlags, PolicyFlags, WorkspaceFlag};
use crate::context::{Context, bound_workspace};
use crate::failure::Failure;
use crate::{OK, Status, output, relay};
use palisade_core::{Assignment, HostPath, Method, Origin, printable};
use palisade_engine::wrapper::{Home, Host, Listed, Reach, ScriptState, Variable, Word, WrapRequest, reach};
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Make an executable that runs a command in a sandbox
///
/// The path of the wrapper is printed. Whoever starts it gets the command, sandboxed in DIR: input and output, signals,
/// the terminal, further arguments and the exit code pass through. The method and the policy are settled now; what the
/// caller's environment says later does not change them.
#[derive(Debug, clap::Args)]
#[command(override_usage = "palisade wrap -w DIR [OPTIONS] -- COMMAND [ARGUMENT]...\n       \
                            palisade wrap --rm PATH...\n       palisade wrap --ls")]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) bound: WorkspaceFlag,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    #[command(flatten)]
    pub(crate) environment: EnvironmentFlags,
    /// Keep the home directory inside between calls, until the wrapper is removed
    #[arg(long)]
    pub(crate) keep_home: bool,
    /// Put the wrapper at PATH, where nothing may be yet
    #[arg(long, short = 'o', value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Remove wrappers, and the homes they kept
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with_all = MAKING)]
    pub(crate) rm: Vec<PathBuf>,
    /// List the wrappers
    #[arg(long, conflicts_with_all = MAKING, conflicts_with = "rm")]
    pub(crate) ls: bool,
    /// As JSON
    #[arg(long, conflicts_with = "rm")]
    pub(crate) json: bool,
    /// The command and the arguments that come before the caller's
    #[arg(required_unless_present_any = ["rm", "ls"], trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// What only means something for a new wrapper.
const MAKING: [&str; 15] = [
    "workspace",
    "mounts",
    "tools",
    "opt",
    "network",
    "allow",
    "host_ports",
    "memory",
    "cpus",
    "pids",
    "tmp",
    "env",
    "keep_home",
    "output",
    "command",
];

impl Arguments {
    /// Whether a wrapper is to be made; otherwise the project's settings do not matter.
    pub(crate) fn makes(&self) -> bool {
        self.rm.is_empty() && !self.ls
    }
}

pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<Status, Failure> {
    if !arguments.rm.is_empty() {
        return remove(context, &arguments.rm);
    }
    if arguments.ls {
        return list(context, arguments.json);
    }
    make(context, arguments).await
}

async fn make(context: &Context, arguments: Arguments) -> Result<Status, Failure> {
    let Some(workspace) = &arguments.bound.workspace else {
        return Err(Failure::usage(
            "a wrapper needs a directory to work in",
            "name it with -w, as in: palisade wrap -w . -- claude",
        ));
    };
    let mut policy = context.policy(bound_workspace(context, workspace)?)?;
    let variables = arguments.environment.env.iter().map(variable).collect::<Result<_, _>>()?;
    let selection = context.settings.method();
    let method = selection.method;
    context.announce(method);
    context.require_guest()?;
    context.engine.require_method(method).await?;
    let surroundings = context.surroundings();
    let search_path: Vec<PathBuf> = surroundings.search_path.iter().cloned().map(PathBuf::from).collect();
    let here = here()?;
    let home = std::env::home_dir();
    let host = Host {
        search_path: &search_path,
        here: &here,
        home: home.as_deref(),
        state: context.engine.state_dir(),
    };
    let mut command = arguments.command.into_iter();
    let word = command.next().unwrap_or_default();
    let Reach { program, show, search, executables } =
        reach(&word, method, &policy, &host).map_err(palisade_engine::EngineError::from)?;
    policy.programs = show;
    let limits =
        context.engine.try_programs(method, &policy, context.foundation.clone(), &executables).await?;
    super::start::note_limits(context, || async { Ok(limits) }).await?;
    let output = arguments.output.map(|path| HostPath::new(here.join(path))).transpose();
    let words = std::iter::once(program).chain(command);
    let record = context.engine.make_wrapper(WrapRequest {
        method,
        origin: selection.origin,
        policy,
        foundation: context.foundation.clone(),
        command: words.map(|word| Word::from(word.as_os_str())).collect(),
        name: Path::new(&word).file_name().unwrap_or(OsStr::new("command")).to_owned(),
        variables,
        search,
        home: if arguments.keep_home { Home::Kept } else { Home::Scratch },
        output: output.map_err(|error| Failure::failed("io", error.to_string()))?,
        launcher: context.program()?,
        surroundings,
    })?;
    if arguments.json {
        output::json(&[Shown::from(&Listed { record, script: ScriptState::Ready })])?;
    } else {
        let mut line = OsString::from(record.path);
        line.push("\n");
        output::bytes(std::os::unix::ffi::OsStrExt::as_bytes(line.as_os_str()))?;
    }
    Ok(OK)
}

fn here() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| Failure::failed("io", format!("no current directory: {error}")))
}

/// A value is only written down when it was written on the command line.
fn variable(word: &OsString) -> Result<Variable, Failure> {
    let Assignment { name, value } = relay::assignment(word)?;
    Ok(Variable { name: name.to_string(), value: value.as_deref().map(Word::from) })
}

fn remove(context: &Context, paths: &[PathBuf]) -> Result<Status, Failure> {
    let here = here()?;
    let mut first = None;
    // One that cannot be removed does not keep the others.
    for path in paths {
        if let Err(error) = context.engine.remove_wrapper(&here.join(path)) {
            first.get_or_insert(Failure::from(error).report());
        }
    }
    Ok(first.unwrap_or(OK))
}

/// A wrapper as it is told. What is not text is told as far as it can be; the record has the bytes.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Shown {
    id: String,
    /// What to start, and what `--rm` takes.
    path: String,
    script: ScriptState,
    method: Method,
    origin: Origin,
    /// The host directory it works in.
    workspace: Option<String>,
    /// As it is called inside; the caller's arguments follow.
    command: Vec<String>,
    home: Home,
    created_at: i64,
}

impl From<&Listed> for Shown {
    fn from(listed: &Listed) -> Self {
        let record = &listed.record;
        let workspace = match &record.policy.workspace {
            palisade_core::Workspace::Bound { host, .. } => Some(host.to_string()),
            _ => None,
        };
        Self {
            id: record.id.to_string(),
            path: record.path.lossy(),
            script: listed.script,
            method: record.method,
            origin: record.origin.clone(),
            workspace,
            command: record.command.iter().map(Word::lossy).collect(),
            home: record.home,
            created_at: record.created_at,
        }
    }
}

fn list(context: &Context, json: bool) -> Result<Status, Failure> {
    let listing = context.engine.wrappers();
    for (place, reason) in &listing.bad {
        output::warning(&format!("the wrapper in {place} cannot be read: {reason}"));
    }
    let shown: Vec<Shown> = listing.wrappers.iter().map(Shown::from).collect();
    if json {
        output::json(&shown)?;
        return Ok(OK);
    }
    if shown.is_empty() {
        output::note("no wrappers; make one with: palisade wrap -w DIR -- COMMAND");
        return Ok(OK);
    }
    let state = |script| match script {
        ScriptState::Ready => "",
        ScriptState::Missing => "the script is gone",
        ScriptState::Changed => "the script was changed",
    };
    let row = |shown: &Shown| {
        vec![
            printable(&shown.command.join(" ")),
            shown.method.to_string(),
            printable(shown.workspace.as_deref().unwrap_or_default()),
            printable(&shown.path),
            state(shown.script).to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = shown.iter().map(row).collect();
    output::data(&output::table(&["COMMAND", "METHOD", "WORKSPACE", "WRAPPER", ""], &rows))?;
    Ok(OK)
}
