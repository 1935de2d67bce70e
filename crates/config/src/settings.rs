//! The outcome: every setting with its value and where that came from.

use crate::ceiling::Ceiling;
use crate::detach::DetachKeys;
use crate::keys::Setting;
use crate::layer::Layer;
use crate::logging::{LogFormat, LogLevel};
use crate::login::LoginVariable;
use palisade_core::{
    Access, AllowRule, ByteSize, CpuCount, FilePattern, HostPath, HostPort, ImageReference, Limit,
    LimitSource, Method, Mount, Network, Origin, Policy, RefScope, Resources, Selection, SyncMode, TimeSpan,
    Workspace,
};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Valued<T> {
    pub value: T,
    pub origin: Origin,
}

impl<T> Valued<T> {
    pub(crate) fn default_of(value: T) -> Self {
        Self { value, origin: Origin::Default }
    }

    fn replace_with(&mut self, later: Option<Valued<T>>) {
        if let Some(later) = later {
            *self = later;
        }
    }
}

impl<T: Copy> Valued<T> {
    /// A limit counts as asked for as soon as anybody wrote it down.
    fn limit(&self) -> Limit<T> {
        let source = match self.origin {
            Origin::Default => LimitSource::Default,
            _ => LimitSource::Asked,
        };
        Limit { value: self.value, source }
    }
}

/// The project's file that took part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Project {
    pub path: PathBuf,
    /// The SHA-256 of the bytes that were read.
    pub digest: String,
    pub trusted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Settings {
    pub method: Valued<Method>,
    pub image: Valued<ImageReference>,
    pub network: Valued<Network>,
    pub allow: Vec<Valued<AllowRule>>,
    pub host_ports: Vec<Valued<HostPort>>,
    pub memory: Valued<ByteSize>,
    pub cpus: Valued<CpuCount>,
    pub pids: Valued<u32>,
    pub tmp: Valued<ByteSize>,
    pub opt: Valued<bool>,
    pub tools: Vec<Valued<HostPath>>,
    pub mounts: Vec<Valued<Mount>>,
    pub max_network: Valued<Ceiling<Network>>,
    pub max_memory: Valued<Ceiling<ByteSize>>,
    pub max_cpus: Valued<Ceiling<CpuCount>>,
    pub max_pids: Valued<Ceiling<u32>>,
    pub writable_root: Valued<bool>,
    pub roots: Vec<Valued<HostPath>>,
    /// Not a setting: what an environment was allowed to ask for.
    pub root: Access,
    pub log_level: Valued<LogLevel>,
    pub log_format: Valued<LogFormat>,
    pub detach_keys: Valued<DetachKeys>,
    pub env_files: Valued<Vec<FilePattern>>,
    pub env_load: Valued<Vec<FilePattern>>,
    pub login: Vec<Valued<LoginVariable>>,
    pub max_fetch: Valued<ByteSize>,
    pub max_fetch_time: Valued<TimeSpan>,
    pub copy_size: Valued<ByteSize>,
    pub copy_files: Valued<u32>,
    pub agent_sync: Valued<SyncMode>,
    pub agent_refs: Valued<RefScope>,
    pub agent_idle: Valued<TimeSpan>,
    pub uid_base: Valued<u32>,
    pub project: Option<Project>,
}

/// One line of `config show`. A list has one entry per element, since each has an origin of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Entry {
    /// As in a file, such as `resources.memory`.
    pub key: &'static str,
    /// As it would be written in a file.
    pub value: String,
    pub origin: Origin,
}

impl Default for Settings {
    fn default() -> Self {
        let Policy { network, opt, resources, root, .. } = Policy::default();
        Self {
            method: Valued::default_of(Method::DEFAULT),
            image: Valued::default_of(ImageReference::standard()),
            network: Valued::default_of(network),
            allow: Vec::new(),
            host_ports: Vec::new(),
            memory: Valued::default_of(resources.memory.value),
            cpus: Valued::default_of(resources.cpus.value),
            pids: Valued::default_of(resources.pids.value),
            tmp: Valued::default_of(resources.tmp),
            opt: Valued::default_of(opt),
            tools: Vec::new(),
            mounts: Vec::new(),
            max_network: Valued::default_of(Ceiling::Same),
            max_memory: Valued::default_of(Ceiling::Same),
            max_cpus: Valued::default_of(Ceiling::Same),
            max_pids: Valued::default_of(Ceiling::Same),
            writable_root: Valued::default_of(false),
            roots: Vec::new(),
            root,
            log_level: Valued::default_of(LogLevel::Warn),
            log_format: Valued::default_of(LogFormat::Text),
            detach_keys: Valued::default_of(DetachKeys::default()),
            env_files: Valued::default_of(patterns(&[".env", ".env.*"])),
            env_load: Valued::default_of(patterns(&[".env", ".env.local"])),
            login: Vec::new(),
            max_fetch: Valued::default_of(ByteSize(8 * ByteSize::GIB)),
            max_fetch_time: Valued::default_of(TimeSpan(Duration::from_secs(1800))),
            copy_size: Valued::default_of(ByteSize(8 * ByteSize::GIB)),
            copy_files: Valued::default_of(1_000_000),
            agent_sync: Valued::default_of(SyncMode::Manual),
            agent_refs: Valued::default_of(RefScope::All),
            agent_idle: Valued::default_of(TimeSpan(Duration::from_secs(30))),
            uid_base: Valued::default_of(1_910_000_000),
            project: None,
        }
    }
}

impl Settings {
    /// Lays a later layer over this: single values replace, lists grow.
    pub(crate) fn lay(&mut self, layer: Layer) {
        self.method.replace_with(layer.method);
        self.image.replace_with(layer.image);
        self.network.replace_with(layer.network);
        self.memory.replace_with(layer.memory);
        self.cpus.replace_with(layer.cpus);
        self.pids.replace_with(layer.pids);
        self.tmp.replace_with(layer.tmp);
        self.opt.replace_with(layer.opt);
        self.max_network.replace_with(layer.max_network);
        self.max_memory.replace_with(layer.max_memory);
        self.max_cpus.replace_with(layer.max_cpus);
        self.max_pids.replace_with(layer.max_pids);
        self.writable_root.replace_with(layer.writable_root);
        self.log_level.replace_with(layer.log_level);
        self.log_format.replace_with(layer.log_format);
        self.detach_keys.replace_with(layer.detach_keys);
        self.env_files.replace_with(layer.env_files);
        self.env_load.replace_with(layer.env_load);
        self.max_fetch.replace_with(layer.max_fetch);
        self.max_fetch_time.replace_with(layer.max_fetch_time);
        self.copy_size.replace_with(layer.copy_size);
        self.copy_files.replace_with(layer.copy_files);
        self.agent_sync.replace_with(layer.agent_sync);
        self.agent_refs.replace_with(layer.agent_refs);
        self.agent_idle.replace_with(layer.agent_idle);
        self.uid_base.replace_with(layer.uid_base);
        for variable in layer.login {
            self.login.retain(|known| known.value.name != variable.value.name);
            self.login.push(variable);
        }
        add(&mut self.allow, layer.allow);
        add(&mut self.host_ports, layer.host_ports);
        add(&mut self.tools, layer.tools);
        add(&mut self.mounts, layer.mounts);
        add(&mut self.roots, layer.roots);
    }

    /// The isolation method and who chose it.
    pub fn method(&self) -> Selection {
        Selection { method: self.method.value, origin: self.method.origin.clone() }
    }

    pub fn policy_resources(&self) -> Resources {
        Resources {
            memory: self.memory.limit(),
            cpus: self.cpus.limit(),
            pids: self.pids.limit(),
            tmp: self.tmp.value,
        }
    }

    /// How far a sandbox reaches: as somebody said, or as far as what was allowed without a word about it.
    pub fn network(&self) -> Network {
        let something = !(self.allow.is_empty() && self.host_ports.is_empty());
        match &self.network.origin {
            Origin::Default if something => Network::Allowlist,
            _ => self.network.value,
        }
    }

    /// The policy these settings give a sandbox with this workspace.
    pub fn policy(&self, workspace: Workspace) -> Policy {
        let network = self.network();
        let (allow, host_ports): (&[_], &[_]) = match network {
            Network::None => (&[], &[]),
            Network::Allowlist | Network::Open => (&self.allow, &self.host_ports),
        };
        Policy {
            network,
            allow: allow.iter().map(|rule| rule.value.clone()).collect(),
            host_ports: host_ports.iter().map(|port| port.value).collect(),
            workspace,
            mounts: self.mounts.iter().map(|mount| mount.value.clone()).collect(),
            tools: self.tools.iter().map(|tool| tool.value.clone()).collect(),
            opt: self.opt.value,
            resources: self.policy_resources(),
            root: self.root,
            ..Policy::default()
        }
    }

    /// What a sandbox of a method that starts from an image is made from, when its environment names this one or none:
    /// what was said for this call wins over the environment, and that over the files.
    pub fn image(&self, of_environment: Option<&ImageReference>) -> ImageReference {
        let said = matches!(self.image.origin, Origin::Environment { .. } | Origin::Flag { .. });
        of_environment.filter(|_| !said).unwrap_or(&self.image.value).clone()
    }

    /// Every setting in the order of the table of keys.
    pub fn entries(&self) -> Vec<Entry> {
        crate::keys::KEYS.iter().flat_map(|doc| self.entries_of(doc.setting)).collect()
    }

    fn entries_of(&self, setting: Setting) -> Vec<Entry> {
        let key = setting.doc().key;
        let one = |value: String, origin: &Origin| vec![Entry { key, value, origin: origin.clone() }];
        match setting {
            Setting::Method => one(self.method.value.to_string(), &self.method.origin),
            Setting::Image => one(self.image.value.to_string(), &self.image.origin),
            Setting::Network => one(self.network().as_str().into(), &self.network.origin),
            Setting::Allow => list(key, &self.allow, ToString::to_string),
            Setting::HostPorts => list(key, &self.host_ports, ToString::to_string),
            Setting::Memory => one(self.memory.value.to_string(), &self.memory.origin),
            Setting::Cpus => one(self.cpus.value.to_string(), &self.cpus.origin),
            Setting::Pids => one(self.pids.value.to_string(), &self.pids.origin),
            Setting::Tmp => one(self.tmp.value.to_string(), &self.tmp.origin),
            Setting::Opt => one(self.opt.value.to_string(), &self.opt.origin),
            Setting::Tools => list(key, &self.tools, ToString::to_string),
            Setting::Mounts => list(key, &self.mounts, mount_text),
            Setting::MaxNetwork => one(self.max_network.value.to_string(), &self.max_network.origin),
            Setting::MaxMemory => one(self.max_memory.value.to_string(), &self.max_memory.origin),
            Setting::MaxCpus => one(self.max_cpus.value.to_string(), &self.max_cpus.origin),
            Setting::MaxPids => one(self.max_pids.value.to_string(), &self.max_pids.origin),
            Setting::WritableRoot => one(self.writable_root.value.to_string(), &self.writable_root.origin),
            Setting::Roots => list(key, &self.roots, ToString::to_string),
            Setting::LogLevel => one(self.log_level.value.to_string(), &self.log_level.origin),
            Setting::LogFormat => one(self.log_format.value.to_string(), &self.log_format.origin),
            Setting::DetachKeys => one(self.detach_keys.value.to_string(), &self.detach_keys.origin),
            Setting::EnvFiles => one(whole(&self.env_files.value), &self.env_files.origin),
            Setting::EnvLoad => one(whole(&self.env_load.value), &self.env_load.origin),
            Setting::Login if self.login.is_empty() => one("{}".into(), &Origin::Default),
            Setting::Login => list(key, &self.login, ToString::to_string),
            Setting::MaxFetch => one(self.max_fetch.value.to_string(), &self.max_fetch.origin),
            Setting::MaxFetchTime => one(self.max_fetch_time.value.to_string(), &self.max_fetch_time.origin),
            Setting::AgentSync => one(self.agent_sync.value.to_string(), &self.agent_sync.origin),
            Setting::AgentIdle => one(self.agent_idle.value.to_string(), &self.agent_idle.origin),
            Setting::AgentRefs => one(self.agent_refs.value.to_string(), &self.agent_refs.origin),
            Setting::CopySize => one(self.copy_size.value.to_string(), &self.copy_size.origin),
            Setting::CopyFiles => one(self.copy_files.value.to_string(), &self.copy_files.origin),
            Setting::UidBase => one(self.uid_base.value.to_string(), &self.uid_base.origin),
        }
    }
}

/// Adds what is not there yet; the earliest layer that names an element is its origin.
fn add<T: PartialEq>(list: &mut Vec<Valued<T>>, later: Vec<Valued<T>>) {
    for element in later {
        if !list.iter().any(|known| known.value == element.value) {
            list.push(element);
        }
    }
}

fn list<T>(key: &'static str, elements: &[Valued<T>], text: impl Fn(&T) -> String) -> Vec<Entry> {
    if elements.is_empty() {
        return vec![Entry { key, value: "[]".into(), origin: Origin::Default }];
    }
    elements
        .iter()
        .map(|element| Entry { key, value: text(&element.value), origin: element.origin.clone() })
        .collect()
}

fn patterns(texts: &[&str]) -> Vec<FilePattern> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

/// A list that replaces an earlier one, as it is written in a file.
pub(crate) fn whole(patterns: &[FilePattern]) -> String {
    patterns.iter().map(FilePattern::as_str).collect::<toml_edit::Array>().to_string()
}

/// A mount as it is written in a file.
pub(crate) fn mount_text(mount: &Mount) -> String {
    let access = match mount.access {
        Access::ReadOnly => ":ro",
        Access::ReadWrite => "",
    };
    format!("{}:{}{access}", mount.host, mount.guest)
}
