//! One file per command. Each parses into its own arguments, calls the engine, and prints.

pub(crate) mod agent;
pub(crate) mod apply;
pub(crate) mod attach;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod cp;
pub(crate) mod create;
pub(crate) mod doctor;
pub(crate) mod done;
pub(crate) mod egress;
pub(crate) mod env;
pub(crate) mod exec;
pub(crate) mod gc;
pub(crate) mod implement;
pub(crate) mod init;
pub(crate) mod inspect;
pub(crate) mod keeper;
pub(crate) mod logs;
pub(crate) mod ls;
pub(crate) mod rebind;
pub(crate) mod rm;
pub(crate) mod run;
pub(crate) mod sandbox;
pub(crate) mod sessions;
pub(crate) mod shell;
pub(crate) mod slots;
pub(crate) mod start;
pub(crate) mod stop;
pub(crate) mod sync;
pub(crate) mod trust;
pub(crate) mod wrap;
pub(crate) mod wrapped;

use crate::Status;
use crate::arguments::{Cli, Command};
use crate::context::{Context, Said};
use crate::failure::Failure;
use crate::output;
use palisade_core::HostTrouble;

pub(crate) fn run(cli: Cli) -> Result<Status, Failure> {
    let global = &cli.global;
    match cli.command {
        // Without settings or state, so that it works when those are broken.
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Run(arguments) => {
            let foundation = Some(&arguments.foundation);
            let context = Context::with_project(global, Said::of(&arguments.policy, foundation))?
                .made_from(foundation, None)?;
            block_on(&context, tidily(&context, run::run(&context, arguments)))
        }
        Command::Create(arguments) => {
            let foundation = Some(&arguments.foundation);
            let context = Context::with_project(global, Said::of(&arguments.policy, foundation))?
                .made_from(foundation, None)?;
            block_on(&context, tidily(&context, create::run(&context, arguments)))
        }
        Command::Wrap(arguments) => {
            let context = match arguments.makes() {
                true => {
                    Context::with_project(global, Said::of(&arguments.policy, None))?.made_from(None, None)?
                }
                false => Context::without_project(global)?,
            };
            block_on(&context, tidily(&context, wrap::run(&context, arguments)))
        }
        Command::Wrapped(arguments) => {
            let wrapper = palisade_engine::wrapper::Wrapper::open(&arguments.directory)?;
            let context = Context::of_wrapper(global, &wrapper)?;
            block_on(&context, wrapped::run(&context, &wrapper, arguments.arguments))
        }
        Command::Agent(arguments) => {
            let context = agent::surroundings(global, &arguments)?;
            block_on(&context, tidily(&context, agent::run(&context, arguments)))
        }
        Command::Trust(arguments) => trust::run(&Context::without_project(global)?.engine, &arguments),
        other => {
            let context = match other {
                Command::Doctor(_) | Command::Config(_) | Command::Env(_) => {
                    Context::with_project(global, Said::default())?
                }
                _ => Context::without_project(global)?,
            };
            block_on(&context, dispatch(&context, other))
        }
    }
}

async fn dispatch(context: &Context, command: Command) -> Result<Status, Failure> {
    match command {
        Command::Start(arguments) => tidily(context, start::run(context, &arguments)).await,
        Command::Stop(arguments) => tidily(context, stop::run(context, &arguments)).await,
        Command::Rm(arguments) => tidily(context, rm::run(context, &arguments)).await,
        Command::Apply(arguments) => tidily(context, apply::run(context, &arguments)).await,
        Command::Sync(arguments) => sync::run(context, &arguments).await,
        Command::Rebind(arguments) => tidily(context, rebind::run(context, &arguments)).await,
        Command::Ls(arguments) => ls::run(context, &arguments).await,
        Command::Inspect(arguments) => inspect::run(context, &arguments).await,
        Command::Egress(arguments) => egress::run(context, &arguments).await,
        Command::Exec(arguments) => exec::run(context, arguments).await,
        Command::Shell(arguments) => shell::run(context, arguments).await,
        Command::Attach(arguments) => attach::run(context, arguments).await,
        Command::Sessions(arguments) => sessions::run(context, &arguments).await,
        Command::Logs(arguments) => logs::run(context, &arguments).await,
        Command::Cp(arguments) => cp::run(context, &arguments).await,
        Command::Init(arguments) => init::run(context, &arguments).await,
        Command::Implement(arguments) => implement::run(context, &arguments).await,
        Command::Done(arguments) => done::run(context, &arguments).await,
        Command::Sandbox(arguments) => sandbox::run(context, &arguments).await,
        Command::Slots(arguments) => slots::run(&arguments),
        Command::Gc(arguments) => gc::run(context, &arguments).await,
        Command::Doctor(arguments) => doctor::run(context, &arguments).await,
        Command::Config(arguments) => config::run(context, &arguments),
        Command::Env(arguments) => env::run(context, &arguments).await,
        Command::BackgroundSync(arguments) => agent::background::run(context, &arguments).await,
        Command::Keeper(arguments) => keeper::run(context, &arguments).await,
        Command::Agent(_)
        | Command::Run(_)
        | Command::Create(_)
        | Command::Wrap(_)
        | Command::Wrapped(_)
        | Command::Trust(_)
        | Command::Completions(_) => Err(Failure::internal("this command is handled before")),
    }
}

/// A command that changes something first puts in order what a crash has left, and says so.
async fn tidily(
    context: &Context,
    command: impl Future<Output = Result<Status, Failure>>,
) -> Result<Status, Failure> {
    for item in context.engine.tidy().await {
        output::note(&format!("recovered from a crash: {}", gc::describe(&item)));
    }
    command.await
}

/// With fewer the runtime itself would panic before anything could be told.
fn require_files() -> Result<(), Failure> {
    const FEWEST: u64 = 24;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    if limit.is_some_and(|limit| limit < FEWEST) {
        return Err(Failure::Engine(HostTrouble::TooManyFiles { what: "start".into() }.into()));
    }
    Ok(())
}

/// One thread is enough for everything this program waits for, and starts fastest.
fn block_on(
    context: &Context,
    future: impl Future<Output = Result<Status, Failure>>,
) -> Result<Status, Failure> {
    require_files()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        match HostTrouble::of_start("start", &error) {
            Some(trouble) => Failure::Engine(trouble.into()),
            None => Failure::failed("io", format!("cannot start: {error}")),
        }
    })?;
    let result = runtime.block_on(future);
    // A thread that waits for input which never comes must not keep the program alive.
    runtime.shutdown_background();
    if let Err(Failure::Engine(error)) = &result {
        context.engine.rescue_if_damaged(error);
    }
    result
}
