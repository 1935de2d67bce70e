//! What the program knows of its surroundings: directories, settings, and the engine made from them. The only file
//! that reads the environment and the home directory for settings.

use crate::arguments::{FoundationFlag, GlobalFlags, PolicyFlags};
use crate::backends::Backends;
use crate::failure::Failure;
use palisade_agents::Record;
use palisade_backend_container::{ContainerBackend, ContainerConfig, EndpointConfig};
use palisade_backend_process::ProcessConfig;
use palisade_config::infra;
use palisade_config::manifest::{self, Catalogue, CatalogueSources, TimeLimit};
use palisade_config::{
    Flags, ProjectSource, Settings, Sources, Valued, environment, find_project, find_project_environments,
};
use palisade_core::policy::Network;
use palisade_core::{
    Access, ExitCode, Foundation, HostPath, Method, Origin, Policy, SandboxSpec, Secret, Workspace,
};
use palisade_engine::wrapper::{Surroundings, Word, Wrapper};
use palisade_engine::{Engine, EngineConfig, Errand, When};
use palisade_store::{Row, Store, StoreError};
use palisade_workspace::Git;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const SYSTEM_CONFIG: &str = "/etc/palisade/config.toml";
/// Where the guest binary is, when not beside this program.
const GUEST_VARIABLE: &str = "PALISADE_GUEST";
/// Where installations of root's claim the uids of their sandboxes. It survives a boot, as the sandboxes' files do.
const UID_REGISTRY: &str = "/var/lib/palisade/uids";
/// Where to fail or die on purpose; only programs built for tests look at it.
#[cfg(debug_assertions)]
const FAULT_VARIABLE: &str = "PALISADE_FAULT";

/// Lets a test break this program at a step of its choice.
#[cfg(debug_assertions)]
pub(crate) fn arm_faults() {
    if let Some(plan) = std::env::var_os(FAULT_VARIABLE).and_then(|plan| plan.into_string().ok()) {
        palisade_host::fault::arm(&plan);
    }
}

/// What a command was given that counts as settings, beyond what every command takes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Said<'a> {
    pub(crate) policy: Option<&'a PolicyFlags>,
    pub(crate) foundation: Option<&'a FoundationFlag>,
    /// The sync mode of an agent.
    pub(crate) sync: Option<&'a str>,
}

impl<'a> Said<'a> {
    pub(crate) fn of(policy: &'a PolicyFlags, foundation: Option<&'a FoundationFlag>) -> Self {
        Self { policy: Some(policy), foundation, sync: None }
    }
}

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) settings: Settings,
    pub(crate) engine: Engine,
    /// What the sandboxes that this command makes are made from.
    pub(crate) foundation: Foundation,
    /// How long a command of `run` may take there.
    pub(crate) time_limit: Option<TimeLimit>,
    process: ProcessConfig,
    endpoints: EndpointConfig,
}

impl Context {
    /// What a command in a running sandbox came to; when the connection to it was lost, why that was.
    pub(crate) async fn unless_lost<T>(&self, row: &Row, ended: Result<T, Failure>) -> Result<T, Failure> {
        match ended {
            Err(Failure::Engine(error)) => Err(self.engine.loss(row, error).await.into()),
            ended => ended,
        }
    }

    /// For commands that make a policy or show the settings.
    pub(crate) fn with_project(global: &GlobalFlags, said: Said<'_>) -> Result<Self, Failure> {
        Self::found_from(global, said, None)
    }

    /// For a command about a directory that need not be the current one: it is that directory's project which counts.
    pub(crate) fn with_project_of(
        global: &GlobalFlags,
        said: Said<'_>,
        directory: Option<&Path>,
    ) -> Result<Self, Failure> {
        Self::found_from(global, said, directory)
    }

    fn found_from(global: &GlobalFlags, said: Said<'_>, directory: Option<&Path>) -> Result<Self, Failure> {
        let state = state_directory()?;
        let project = project(&state, directory)?;
        let context = Self::new(state, global, said, project)?;
        let selection = context.settings.method();
        crate::telemetry::selected(selection.method, || selection.origin.to_string());
        Ok(context)
    }

    /// For commands about sandboxes that exist already: what a project's file says, or whether it is trusted, must
    /// not keep anyone from stopping or removing one.
    pub(crate) fn without_project(global: &GlobalFlags) -> Result<Self, Failure> {
        Self::new(state_directory()?, global, Said::default(), None)
    }

    /// For a wrapper: everything as it was recorded. Of the caller's environment only logging and telemetry count.
    pub(crate) fn of_wrapper(global: &GlobalFlags, wrapper: &Wrapper) -> Result<Self, Failure> {
        refuse_state_of_another_user(&wrapper.state)?;
        let record = &wrapper.record;
        let logging = [environment::PALISADE_LOG, environment::PALISADE_LOG_FORMAT];
        let environment = setting_variables(&logging)?;
        let mut settings = palisade_config::load(&Sources { environment, ..Sources::default() })?;
        settings.method = Valued { value: record.method, origin: record.origin.clone() };
        settings.uid_base.value = record.surroundings.uid_base;
        crate::logging::start(&settings, &global.command);
        let Surroundings {
            guest,
            search_path,
            user_runtime_dir,
            git_config,
            docker_host,
            container_host,
            ..
        } = &record.surroundings;
        let paths = |words: &[Word]| words.iter().cloned().map(PathBuf::from).collect();
        let process = ProcessConfig {
            guest: guest.clone(),
            state: wrapper.state.clone(),
            search_path: paths(search_path),
            user_runtime_dir: user_runtime_dir.clone().map(PathBuf::from),
            git_config: paths(git_config),
        };
        let endpoints = EndpointConfig {
            docker_host: docker_host.clone(),
            container_host: container_host.clone(),
            runtime_dir: process.user_runtime_dir.clone(),
            home: None,
        };
        let git = recorded_git(&process);
        Self::of(settings, process, endpoints, git)
    }

    /// `git` is for repositories in bound directories.
    fn of(
        settings: Settings,
        process: ProcessConfig,
        endpoints: EndpointConfig,
        git: Git,
    ) -> Result<Self, Failure> {
        let engine = engine(process.clone(), endpoints.clone(), &settings, git)?;
        Ok(Self { settings, engine, foundation: Foundation::default(), time_limit: None, process, endpoints })
    }

    /// What a wrapper made now will find itself in.
    pub(crate) fn surroundings(&self) -> Surroundings {
        let words = |paths: &[PathBuf]| paths.iter().map(|path| Word::from(path.as_os_str())).collect();
        Surroundings {
            guest: self.process.guest.clone(),
            search_path: words(&self.process.search_path),
            user_runtime_dir: self.process.user_runtime_dir.as_ref().map(|path| Word::from(path.as_os_str())),
            git_config: words(&self.process.git_config),
            uid_base: self.settings.uid_base.value,
            docker_host: self.endpoints.docker_host.clone(),
            container_host: self.endpoints.container_host.clone(),
        }
    }

    /// This program itself.
    pub(crate) fn program(&self) -> Result<HostPath, Failure> {
        HostPath::new(this_program()?).map_err(|error| Failure::failed("io", error.to_string()))
    }

    fn new(
        state: HostPath,
        global: &GlobalFlags,
        said: Said<'_>,
        project: Option<ProjectSource>,
    ) -> Result<Self, Failure> {
        let settings = settings(global, said, project)?;
        crate::logging::start(&settings, &global.command);
        let process = process_config(state)?;
        let endpoints = endpoints(&process);
        Self::of(settings, process, endpoints, git())
    }

    /// The engine behind a method, where images can be made; nothing for a method without images.
    pub(crate) fn container_engine(&self, method: Method) -> Result<Option<ContainerBackend>, Failure> {
        let config = container_config(&self.process, self.endpoints.clone(), &self.settings);
        Ok(match method {
            Method::Docker => Some(ContainerBackend::docker(config)),
            Method::Podman => Some(ContainerBackend::podman(config)),
            Method::Bwrap | Method::Noop | Method::Microvm | Method::Kubernetes => None,
        })
    }

    /// With the method that the project's `infra.toml` names for agents, where no flag, variable or file of the project's
    /// settings has said one. One that is weaker than the user's own does not count.
    pub(crate) fn with_method_of_infra(mut self, directory: Option<&Path>) -> Result<Self, Failure> {
        let decided = matches!(
            self.settings.method.origin,
            Origin::Flag { .. } | Origin::Environment { .. } | Origin::Project { .. }
        );
        let here = match directory {
            Some(directory) => directory.canonicalize(),
            None => std::env::current_dir(),
        };
        let Some(root) =
            here.ok().filter(|_| !decided).and_then(|here| Some(infra::find_root(&here)?.to_owned()))
        else {
            return Ok(self);
        };
        let Some(asked) = infra::read_file(&root)?.and_then(|infra| infra.sandbox.method) else {
            return Ok(self);
        };
        if asked.value.strength() < self.method().strength() {
            tracing::debug!(method = %asked.value, "the method of infra.toml is weaker than the user's own");
            return Ok(self);
        }
        let file = palisade_core::printable(&root.join(infra::INFRA_FILE).to_string_lossy());
        let origin = Origin::Project { file, line: asked.line };
        crate::telemetry::selected(asked.value, || origin.to_string());
        self.settings.method = Valued { value: asked.value, origin };
        Ok(self)
    }

    /// The same surroundings, and what is made in them made from this environment and from an image, where the method
    /// takes one. `directory` is where the project is looked for, when that is not the current one.
    pub(crate) fn made_from(
        mut self,
        flag: Option<&FoundationFlag>,
        directory: Option<&Path>,
    ) -> Result<Self, Failure> {
        if let Some(name) = flag.and_then(|flag| flag.environment.as_deref()) {
            let catalogue = self.catalogue(directory)?;
            let environment = catalogue.find(name)?;
            environment.require(self.method())?;
            self.settings = manifest::settle(&self.settings, environment)?;
            self.foundation = manifest::foundation(environment);
            self.time_limit = environment.manifest.timeout;
        }
        let method = self.method();
        if method.starts_from_image() {
            self.foundation.image = Some(self.settings.image(self.foundation.image.as_ref()));
        } else if matches!(self.settings.image.origin, Origin::Flag { .. }) {
            return Err(Failure::no_images(method));
        }
        Ok(self)
    }

    /// The environments there are here, or in another directory. Trust is only looked up when there is a store.
    pub(crate) fn catalogue(&self, directory: Option<&Path>) -> Result<Catalogue, Failure> {
        let state = &self.process.state;
        let here = match directory {
            Some(directory) => directory.canonicalize(),
            None => std::env::current_dir(),
        };
        let project = here.ok().and_then(|here| find_project_environments(&here));
        let store = match &project {
            Some(_) => store_of_trust(state)?,
            None => None,
        };
        let trusted = |file: &Path| store.as_ref()?.trust_get(&file.to_string_lossy()).ok().flatten();
        Ok(Catalogue::load(&CatalogueSources {
            user: Some(config_directory()?.join("palisade/environments")),
            project,
            trusted_digest: &trusted,
        }))
    }

    /// Asked before a start only: a sandbox can be listed, stopped and removed without the guest program.
    pub(crate) fn require_guest(&self) -> Result<(), Failure> {
        if self.process.guest.as_path().is_file() {
            return Ok(());
        }
        Err(Failure::Told {
            code: "no-guest",
            exit: ExitCode::Preflight,
            message: format!("the guest program is not installed: {} is no file", self.process.guest),
            hints: vec![format!(
                "build it with scripts/build-guest, install with make install, or say where it is in {GUEST_VARIABLE}"
            )],
        })
    }

    pub(crate) fn method(&self) -> Method {
        self.settings.method.value
    }

    /// Says which method is used and why. On the fast path the start itself is the check.
    pub(crate) fn announce(&self, method: Method) {
        let origin = || match self.settings.method() {
            selection if selection.method == method => selection.origin.to_string(),
            _ => "recorded when the sandbox was created".to_owned(),
        };
        crate::telemetry::selected(method, origin);
        if tracing::enabled!(tracing::Level::INFO) {
            let preflight = match self.engine.remembered_preflight(method) {
                Some(_) => "passed before",
                None => "by the start itself",
            };
            tracing::info!(sandbox.select = %method, origin = origin(), preflight, "sandbox method");
        }
        if method == Method::Noop {
            crate::output::warning(
                "method 'noop': no isolation, commands run on the host with your own rights",
            );
        }
    }

    /// The policy from the settings and the flags of this command.
    pub(crate) fn policy(&self, workspace: Workspace) -> Result<Policy, Failure> {
        self.refuse_to_allow_nothing()?;
        let policy = self.settings.policy(workspace);
        let mut targets: Vec<&str> = policy.mounts.iter().map(|mount| mount.guest.as_str()).collect();
        targets.sort_unstable();
        if let Some(pair) = targets.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Failure::usage(
                format!("two mounts have the same target {}", pair[0]),
                "give each mount a target of its own",
            ));
        }
        if self.method() == Method::Noop && policy.network != Network::Open {
            tracing::debug!("noop enforces no network policy");
        }
        Ok(policy)
    }

    /// Allowing somebody while the network is switched off would look as if it worked.
    fn refuse_to_allow_nothing(&self) -> Result<(), Failure> {
        let settings = &self.settings;
        let flag = |origin: &Origin| matches!(origin, Origin::Flag { .. });
        let asked = settings.allow.iter().any(|rule| flag(&rule.origin))
            || settings.host_ports.iter().any(|port| flag(&port.origin));
        if asked && settings.network() == Network::None {
            return Err(Failure::usage(
                format!(
                    "--allow and --host-port need a network, and it is none ({})",
                    settings.network.origin
                ),
                "add --network allowlist",
            ));
        }
        Ok(())
    }
}

fn settings(
    global: &GlobalFlags,
    said: Said<'_>,
    project: Option<ProjectSource>,
) -> Result<Settings, Failure> {
    let mut flags = Flags {
        method: global.method.clone(),
        log_level: global.log_level.clone(),
        log_format: global.log_format.clone(),
        ..Flags::default()
    };
    flags.agent_sync = said.sync.map(str::to_owned);
    flags.image = said.foundation.and_then(|flag| flag.image.clone());
    if let Some(policy) = said.policy {
        flags.network.clone_from(&policy.network);
        flags.allow.clone_from(&policy.allow);
        flags.host_ports.clone_from(&policy.host_ports);
        flags.memory.clone_from(&policy.memory);
        flags.cpus.clone_from(&policy.cpus);
        flags.pids.clone_from(&policy.pids);
        flags.tmp.clone_from(&policy.tmp);
        flags.opt = policy.opt.then_some(true);
        flags.tools.clone_from(&policy.tools);
        flags.mounts = policy.mounts.iter().map(|mount| absolute_mount(mount)).collect::<Result<_, _>>()?;
    }
    let sources = Sources {
        system: Some(SYSTEM_CONFIG.into()),
        user: Some(config_directory()?.join("palisade/config.toml")),
        project,
        environment: setting_variables(&environment::ALL)?,
        flags,
    };
    Ok(palisade_config::load(&sources)?)
}

/// A relative host side of a `--mount` is meant from the current directory.
fn absolute_mount(mount: &str) -> Result<String, Failure> {
    if mount.starts_with('/') || !mount.contains(':') || mount.starts_with(':') {
        return Ok(mount.to_owned());
    }
    let here = std::env::current_dir()
        .map_err(|error| Failure::failed("io", format!("no current directory: {error}")))?;
    Ok(here.join(mount).to_string_lossy().into_owned())
}

/// The project's file, and what the user trusted of it. The store is only opened when there is one.
fn project(state: &HostPath, directory: Option<&Path>) -> Result<Option<ProjectSource>, Failure> {
    let start = match directory {
        Some(directory) => std::fs::canonicalize(directory),
        None => std::env::current_dir(),
    };
    // A directory that is not there is the command's own to tell.
    let Ok(here) = start else { return Ok(None) };
    let Some(path) = find_project(&here) else { return Ok(None) };
    let trusted_digest = match store_of_trust(state)? {
        Some(store) => store.trust_get(&path.to_string_lossy())?,
        None => None,
    };
    Ok(Some(ProjectSource { path, trusted_digest }))
}

/// The store, for looking up what is trusted. Without one, or with one that is damaged, nothing is: the command itself
/// opens it later, and sets it aside when it has to.
fn store_of_trust(state: &HostPath) -> Result<Option<Store>, Failure> {
    match Store::open_existing(state.as_path()) {
        Err(StoreError::Corrupt { .. }) => Ok(None),
        opened => Ok(opened?),
    }
}

fn setting_variables(names: &[&str]) -> Result<Vec<(String, String)>, Failure> {
    let mut found = Vec::new();
    for &name in names {
        let Some(value) = std::env::var_os(name) else { continue };
        let value = value.into_string().map_err(|_| Failure::Told {
            code: "config-invalid-value",
            exit: ExitCode::Configuration,
            message: format!("the environment variable {name} is not text"),
            hints: vec![format!("unset {name}, or set it to a proper value")],
        })?;
        found.push((name.to_owned(), value));
    }
    Ok(found)
}

fn state_directory() -> Result<HostPath, Failure> {
    let base = base_directory("XDG_STATE_HOME", ".local/state")?;
    let state =
        HostPath::new(base.join("palisade")).map_err(|error| Failure::failed("io", error.to_string()))?;
    refuse_state_of_another_user(&state)?;
    Ok(state)
}

/// Root does not work in an ordinary user's state, which is what `sudo -E` would do. Root's sandboxes run under uids of
/// their own, so their files could not be given back to the user: they would be in a state that the user can neither use
/// nor clean up. Where there is no state yet, only sudo's own word says that the home is another user's: in a container,
/// root's home may well belong to somebody else.
fn refuse_state_of_another_user(state: &HostPath) -> Result<(), Failure> {
    use std::os::unix::fs::MetadataExt;
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let owner = match std::fs::metadata(state) {
        Ok(found) => Some(found.uid()),
        Err(_) => {
            let above = state.as_path().ancestors().find_map(|path| std::fs::metadata(path).ok());
            let caller = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
            above.map(|found| found.uid()).filter(|owner| Some(*owner) == caller)
        }
    };
    match owner {
        Some(owner) if owner != 0 => Err(Failure::Told {
            code: "state-of-another-user",
            exit: ExitCode::Configuration,
            message: format!("the state directory {state} belongs to uid {owner}, and this is root"),
            hints: vec![
                "run it as that user, without sudo".into(),
                "or let root have a state of its own: sudo -H, or set XDG_STATE_HOME".into(),
            ],
        }),
        _ => Ok(()),
    }
}

/// The state directory has one name wherever it is.
fn environment_of_state(state: &HostPath) -> Option<Vec<(OsString, OsString)>> {
    let base =
        state.as_path().parent().filter(|_| state.as_path().file_name() == Some("palisade".as_ref()))?;
    Some(vec![("XDG_STATE_HOME".into(), base.into())])
}

pub(crate) fn data_directory() -> Result<PathBuf, Failure> {
    base_directory("XDG_DATA_HOME", ".local/share")
}

pub(crate) fn config_directory() -> Result<PathBuf, Failure> {
    base_directory("XDG_CONFIG_HOME", ".config")
}

pub(crate) fn cache_directory() -> Result<PathBuf, Failure> {
    base_directory("XDG_CACHE_HOME", ".cache")
}

/// The proxy that builds of images go through. Its address may hold a password.
pub(crate) fn proxies() -> Vec<(String, Secret)> {
    let names = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"];
    let value = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    names.iter().filter_map(|name| Some(((*name).to_owned(), Secret::new(value(name)?)))).collect()
}

pub(crate) fn home_directory() -> Result<PathBuf, Failure> {
    std::env::home_dir().filter(|home| home.is_absolute()).ok_or_else(|| Failure::Told {
        code: "no-home",
        exit: ExitCode::Configuration,
        message: "HOME is not set to an absolute path".into(),
        hints: vec!["set HOME".into()],
    })
}

/// As the XDG specification has it: the variable when it is an absolute path, else a place in the home directory.
fn base_directory(variable: &str, in_home: &str) -> Result<PathBuf, Failure> {
    match std::env::var_os(variable).map(PathBuf::from) {
        Some(path) if path.is_absolute() => Ok(path),
        _ => match std::env::home_dir() {
            Some(home) if home.is_absolute() => Ok(home.join(in_home)),
            _ => Err(Failure::Told {
                code: "no-home",
                exit: ExitCode::Configuration,
                message: format!("neither {variable} nor HOME is set to an absolute path"),
                hints: vec![format!("set HOME, or {variable}")],
            }),
        },
    }
}

/// The files in which git looks for settings beyond a repository's own.
fn git_config() -> Vec<PathBuf> {
    let home = std::env::home_dir().map(|home| home.join(".gitconfig"));
    let config = config_directory().ok().map(|config| config.join("git/config"));
    [Some(PathBuf::from("/etc/gitconfig")), config, home].into_iter().flatten().collect()
}

pub(crate) fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::failed("io", format!("cannot find this program itself: {error}")))
}

/// Where the guest program is or should be: as the variable says, beside this program, or in the libexec directory of
/// the same installation.
fn guest_binary() -> Result<HostPath, Failure> {
    let path = match std::env::var_os(GUEST_VARIABLE) {
        Some(path) => path.into(),
        None => {
            let program = this_program()?;
            let directory = program.parent().unwrap_or(Path::new("/"));
            let beside = directory.join("palisade-guest");
            let libexec = directory.join("../libexec/palisade/palisade-guest");
            let found = [&beside, &libexec].into_iter().find_map(|path| std::fs::canonicalize(path).ok());
            found.unwrap_or(beside)
        }
    };
    HostPath::new(path).map_err(|error| Failure::failed("no-guest", error.to_string()))
}

/// A keeper lives long and needs little: nothing of the user's environment but where things are.
fn keeper_environment() -> Vec<(OsString, OsString)> {
    const KEPT: &[&str] = &[
        "HOME",
        "PATH",
        "XDG_STATE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_RUNTIME_DIR",
        "DOCKER_HOST",
        "CONTAINER_HOST",
        "PALISADE_GUEST",
        "PALISADE_LOG",
        "PALISADE_LOG_FORMAT",
        "TMPDIR",
        "RUST_BACKTRACE",
        #[cfg(debug_assertions)]
        FAULT_VARIABLE,
    ];
    let kept = KEPT.iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
    kept.chain(crate::telemetry::keeper_environment()).collect()
}

pub(crate) fn now() -> i64 {
    let elapsed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| elapsed.as_millis() as i64)
}

/// The host's git, as the PATH has it: looked for once, and not at each of its many starts.
pub(crate) fn git() -> Git {
    let found = palisade_host::program::find(search_path(), "git");
    Git::new(found.unwrap_or_else(|| "git".into()), std::env::vars_os())
}

/// The host's git with the settings that the user had when a wrapper was made: a caller's own must not leave out what the
/// user's git will run.
fn recorded_git(process: &ProcessConfig) -> Git {
    let found = palisade_host::program::find(&process.search_path, "git");
    let above = |file: &PathBuf, names: &str| {
        file.ends_with(names)
            .then(|| file.ancestors().nth(Path::new(names).components().count()).map(Path::to_owned))
    };
    let files = &process.git_config;
    let home = files.iter().rev().find_map(|file| above(file, ".gitconfig").flatten());
    let config = files.iter().rev().find_map(|file| above(file, "git/config").flatten());
    let path = std::env::join_paths(&process.search_path).ok().map(PathBuf::from);
    let variables = [("PATH", path), ("HOME", home), ("XDG_CONFIG_HOME", config)];
    let variables = variables.into_iter().filter_map(|(name, value)| Some((name.into(), value?.into())));
    Git::new(found.unwrap_or_else(|| "git".into()), variables)
}

fn search_path() -> Vec<PathBuf> {
    std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
}

fn process_config(state: HostPath) -> Result<ProcessConfig, Failure> {
    Ok(ProcessConfig {
        guest: guest_binary()?,
        state,
        search_path: search_path(),
        user_runtime_dir: std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from),
        git_config: git_config(),
    })
}

/// Where engines are looked for.
fn endpoints(process: &ProcessConfig) -> EndpointConfig {
    let text = |name: &str| std::env::var_os(name).and_then(|value| value.into_string().ok());
    EndpointConfig {
        docker_host: text("DOCKER_HOST"),
        container_host: text("CONTAINER_HOST"),
        runtime_dir: process.user_runtime_dir.clone(),
        home: std::env::home_dir(),
    }
}

fn container_config(
    process: &ProcessConfig,
    endpoints: EndpointConfig,
    settings: &Settings,
) -> ContainerConfig {
    ContainerConfig {
        guest: process.guest.clone(),
        state: process.state.clone(),
        image: settings.image.value.clone(),
        endpoints,
        tell: crate::output::note,
    }
}

fn engine(
    process: ProcessConfig,
    endpoints: EndpointConfig,
    settings: &Settings,
    git: Git,
) -> Result<Engine, Failure> {
    let container = container_config(&process, endpoints, settings);
    let state = process.state.clone();
    Ok(Engine::new(EngineConfig {
        state: state.clone(),
        uid_base: settings.uid_base.value,
        uid_registry: UID_REGISTRY.into(),
        keeper_command: vec![this_program()?.into(), crate::telemetry::KEEPER.into()],
        keeper_environment: Box::new(keeper_environment),
        errand: Box::new(errand),
        environment_of_state: Box::new(environment_of_state),
        backends: Box::new(Backends::new(process, container)),
        unsaved_work: Arc::new(crate::commands::agent::work(settings)),
        bound_repositories: Arc::new(crate::commands::agent::bound(settings, state, git)),
        tell: Box::new(crate::output::warning),
    }))
}

/// What a sandbox's keeper is to do besides: an agent's work is archived, and commits in a bound directory come to the
/// host. Only keepers ask.
fn errand(row: &Row) -> Option<Errand> {
    let record = Record::read(row.spec.dir.as_ref()?);
    let record = record.inspect_err(|error| tracing::warn!(%error, "the agent's record cannot be read"));
    let command = vec![this_program().ok()?.into(), crate::commands::agent::BACKGROUND.into()];
    match record.ok()? {
        Some(record) => record.errand(command),
        None => shares_repository(&row.spec).then_some(Errand { when: When::OnCommit, command }),
    }
}

/// Whether a sandbox has git data of its own in its workspace.
fn shares_repository(spec: &SandboxSpec) -> bool {
    match &spec.policy.workspace {
        Workspace::Bound { host, access: Access::ReadWrite } => {
            spec.method != Method::Noop && host.join(".git").as_path().exists()
        }
        _ => false,
    }
}

/// How a sandbox has the directory that `-w` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkspaceMode {
    Bound(Access),
    /// A copy, which it may write.
    Copy,
}

/// Reads `DIR[:ro]`, for a command that makes no copies.
pub(crate) fn bound_workspace(context: &Context, text: &str) -> Result<Workspace, Failure> {
    match workspace(context, text)? {
        (host, WorkspaceMode::Bound(access)) => Ok(Workspace::Bound { host, access }),
        (_, WorkspaceMode::Copy) => Err(Failure::usage(
            "only `palisade run` can work in a copy of a directory (:copy)",
            "use palisade run -w DIR:copy, bind the directory read-only with :ro, or give an agent files of its own: palisade \
             agent start",
        )),
    }
}

/// Reads `DIR[:ro|:copy]`: the directory, without links, and how the sandbox has it.
pub(crate) fn workspace(context: &Context, text: &str) -> Result<(HostPath, WorkspaceMode), Failure> {
    let (path, mode) = match text.rsplit_once(':') {
        Some((path, "ro")) => (path, WorkspaceMode::Bound(Access::ReadOnly)),
        Some((path, "rw")) => (path, WorkspaceMode::Bound(Access::ReadWrite)),
        Some((path, "copy")) => (path, WorkspaceMode::Copy),
        _ => (text, WorkspaceMode::Bound(Access::ReadWrite)),
    };
    let refuse = |reason: String| Failure::Told {
        code: "host-directory-refused",
        exit: ExitCode::Usage,
        message: format!("cannot use '{}' as the workspace: {reason}", path.escape_debug()),
        hints: vec!["give an existing directory, as in -w . or -w path/to/project:ro".into()],
    };
    // What does not exist is reported in the words of this flag.
    if !std::fs::metadata(path).map_err(|error| refuse(error.to_string()))?.is_dir() {
        return Err(refuse("it is not a directory".into()));
    }
    let absolute = std::path::absolute(path).map_err(|error| refuse(error.to_string()))?;
    let given = HostPath::new(absolute).map_err(|error| refuse(error.to_string()))?;
    Ok((context.engine.canonical_path(&given)?, mode))
}
