//! One layer's own values, before it is laid over the others.

use crate::ceiling::Ceiling;
use crate::detach::DetachKeys;
use crate::error::Problem;
use crate::keys::{KEYS, Setting};
use crate::logging::{LogFormat, LogLevel};
use crate::login::LoginVariable;
use crate::settings::Valued;
use crate::sources::Flags;
use crate::value::Written;
use palisade_core::{
    AllowRule, ByteSize, CpuCount, FilePattern, HostPath, HostPort, ImageReference, Method, Mount, Network,
    Origin, RefScope, SyncMode, TimeSpan, printable,
};

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Layer {
    pub(crate) method: Option<Valued<Method>>,
    pub(crate) image: Option<Valued<ImageReference>>,
    pub(crate) network: Option<Valued<Network>>,
    pub(crate) allow: Vec<Valued<AllowRule>>,
    pub(crate) host_ports: Vec<Valued<HostPort>>,
    pub(crate) memory: Option<Valued<ByteSize>>,
    pub(crate) cpus: Option<Valued<CpuCount>>,
    pub(crate) pids: Option<Valued<u32>>,
    pub(crate) tmp: Option<Valued<ByteSize>>,
    pub(crate) opt: Option<Valued<bool>>,
    pub(crate) tools: Vec<Valued<HostPath>>,
    pub(crate) mounts: Vec<Valued<Mount>>,
    pub(crate) max_network: Option<Valued<Ceiling<Network>>>,
    pub(crate) max_memory: Option<Valued<Ceiling<ByteSize>>>,
    pub(crate) max_cpus: Option<Valued<Ceiling<CpuCount>>>,
    pub(crate) max_pids: Option<Valued<Ceiling<u32>>>,
    pub(crate) writable_root: Option<Valued<bool>>,
    pub(crate) roots: Vec<Valued<HostPath>>,
    pub(crate) log_level: Option<Valued<LogLevel>>,
    pub(crate) log_format: Option<Valued<LogFormat>>,
    pub(crate) detach_keys: Option<Valued<DetachKeys>>,
    pub(crate) env_files: Option<Valued<Vec<FilePattern>>>,
    pub(crate) env_load: Option<Valued<Vec<FilePattern>>>,
    pub(crate) login: Vec<Valued<LoginVariable>>,
    pub(crate) max_fetch: Option<Valued<ByteSize>>,
    pub(crate) max_fetch_time: Option<Valued<TimeSpan>>,
    pub(crate) copy_size: Option<Valued<ByteSize>>,
    pub(crate) copy_files: Option<Valued<u32>>,
    pub(crate) agent_sync: Option<Valued<SyncMode>>,
    pub(crate) agent_idle: Option<Valued<TimeSpan>>,
    pub(crate) agent_refs: Option<Valued<RefScope>>,
    pub(crate) uid_base: Option<Valued<u32>>,
}

impl Layer {
    /// Checks a value and keeps it; for a list, one element of it. The error says what is possible.
    pub(crate) fn put(
        &mut self,
        setting: Setting,
        written: &Written<'_>,
        origin: Origin,
    ) -> Result<(), String> {
        let expected = setting.doc().kind;
        match setting {
            Setting::Method => self.put_method(written.method(expected)?, origin)?,
            Setting::Image => self.image = Some(Valued { value: written.parsed(expected)?, origin }),
            Setting::Network => self.network = Some(Valued { value: written.network(expected)?, origin }),
            Setting::Allow => self.allow.push(Valued { value: written.allow(expected)?, origin }),
            Setting::HostPorts => {
                self.host_ports.push(Valued { value: written.host_port(expected)?, origin });
            }
            Setting::Memory => self.memory = Some(Valued { value: written.size(expected)?, origin }),
            Setting::Cpus => self.cpus = Some(Valued { value: written.cpus(expected)?, origin }),
            Setting::Pids => self.pids = Some(Valued { value: written.pids(expected)?, origin }),
            Setting::Tmp => self.tmp = Some(Valued { value: written.size(expected)?, origin }),
            Setting::Opt => self.opt = Some(Valued { value: written.boolean(expected)?, origin }),
            Setting::Tools => self.tools.push(Valued { value: written.tool()?, origin }),
            Setting::Mounts => self.mounts.push(Valued { value: written.mount()?, origin }),
            Setting::MaxNetwork => {
                self.max_network =
                    Some(Valued { value: written.ceiling(expected, Written::network)?, origin });
            }
            Setting::MaxMemory => {
                self.max_memory = Some(Valued { value: written.ceiling(expected, Written::size)?, origin });
            }
            Setting::MaxCpus => {
                self.max_cpus = Some(Valued { value: written.ceiling(expected, Written::cpus)?, origin });
            }
            Setting::MaxPids => {
                self.max_pids = Some(Valued { value: written.ceiling(expected, Written::pids)?, origin });
            }
            Setting::WritableRoot => {
                self.writable_root = Some(Valued { value: written.boolean(expected)?, origin });
            }
            Setting::Roots => self.roots.push(Valued { value: written.host_path(expected)?, origin }),
            Setting::LogLevel => {
                self.log_level = Some(Valued { value: written.log_level(expected)?, origin })
            }
            Setting::LogFormat => {
                self.log_format = Some(Valued { value: written.log_format(expected)?, origin })
            }
            Setting::DetachKeys => {
                self.detach_keys = Some(Valued { value: written.detach_keys(expected)?, origin })
            }
            Setting::EnvFiles => add_whole(&mut self.env_files, written.pattern(expected)?, origin),
            Setting::EnvLoad => add_whole(&mut self.env_load, written.file(expected)?, origin),
            // Its names are not in the table of keys.
            Setting::Login => return Err(format!("is no table; write {expected}")),
            Setting::MaxFetch => self.max_fetch = Some(Valued { value: written.size(expected)?, origin }),
            Setting::MaxFetchTime => {
                self.max_fetch_time = Some(Valued { value: written.span(expected)?, origin });
            }
            Setting::AgentSync => {
                self.agent_sync = Some(Valued { value: written.sync_mode(expected)?, origin });
            }
            Setting::AgentIdle => self.agent_idle = Some(Valued { value: written.span(expected)?, origin }),
            Setting::AgentRefs => self.agent_refs = Some(Valued { value: written.parsed(expected)?, origin }),
            Setting::CopySize => self.copy_size = Some(Valued { value: written.size(expected)?, origin }),
            Setting::CopyFiles => self.copy_files = Some(Valued { value: written.files(expected)?, origin }),
            Setting::UidBase => self.uid_base = Some(Valued { value: written.uid_base(expected)?, origin }),
        }
        Ok(())
    }

    /// A list that replaces an earlier one is given, be it empty.
    pub(crate) fn begin_list(&mut self, setting: Setting, origin: Origin) {
        let list = match setting {
            Setting::EnvFiles => &mut self.env_files,
            Setting::EnvLoad => &mut self.env_load,
            _ => return,
        };
        *list = Some(Valued { value: Vec::new(), origin });
    }

    /// One line of a table with names of the user's choice.
    pub(crate) fn put_named(
        &mut self,
        setting: Setting,
        name: &str,
        written: &Written<'_>,
        origin: Origin,
    ) -> Result<(), String> {
        let value = LoginVariable::read(name, written, setting.doc().kind)?;
        self.login.push(Valued { value, origin });
        Ok(())
    }

    /// The method has two spellings; one file may use both only to say the same.
    fn put_method(&mut self, value: Method, origin: Origin) -> Result<(), String> {
        match &self.method {
            Some(earlier) if earlier.value != value => Err(format!(
                "is given twice and differently, as method and as keystone.backend: {} ({}) and {value}",
                earlier.value,
                printable(&earlier.origin.to_string())
            )),
            Some(_) => Ok(()),
            None => {
                self.method = Some(Valued { value, origin });
                Ok(())
            }
        }
    }

    /// The variables that are settings; others are not looked at.
    pub(crate) fn from_environment(variables: &[(String, String)], problems: &mut Vec<Problem>) -> Self {
        let mut layer = Self::default();
        for doc in KEYS {
            let Some(variable) = doc.environment else { continue };
            let Some((_, text)) = variables.iter().find(|(name, _)| name == variable) else { continue };
            let origin = Origin::Environment { variable: variable.into() };
            layer.put_untyped(doc.setting, text, variable, origin, problems);
        }
        layer
    }

    pub(crate) fn from_flags(flags: &Flags, problems: &mut Vec<Problem>) -> Self {
        let mut layer = Self::default();
        let opt = flags.opt.map(|value| value.to_string());
        let single = [
            (Setting::Method, &flags.method),
            (Setting::Image, &flags.image),
            (Setting::Network, &flags.network),
            (Setting::Memory, &flags.memory),
            (Setting::Cpus, &flags.cpus),
            (Setting::Pids, &flags.pids),
            (Setting::Tmp, &flags.tmp),
            (Setting::Opt, &opt),
            (Setting::AgentSync, &flags.agent_sync),
            (Setting::LogLevel, &flags.log_level),
            (Setting::LogFormat, &flags.log_format),
        ];
        let lists = [
            (Setting::Allow, &flags.allow),
            (Setting::HostPorts, &flags.host_ports),
            (Setting::Tools, &flags.tools),
            (Setting::Mounts, &flags.mounts),
        ];
        let given =
            single.into_iter().flat_map(|(setting, text)| text.iter().map(move |text| (setting, text)));
        let listed =
            lists.into_iter().flat_map(|(setting, texts)| texts.iter().map(move |text| (setting, text)));
        for (setting, text) in given.chain(listed) {
            let flag = setting.doc().flag.unwrap_or_default();
            layer.put_untyped(setting, text, flag, Origin::Flag { flag: flag.into() }, problems);
        }
        layer
    }

    fn put_untyped(
        &mut self,
        setting: Setting,
        text: &str,
        place: &str,
        origin: Origin,
        problems: &mut Vec<Problem>,
    ) {
        if let Err(reason) = self.put(setting, &Written::Untyped(text), origin) {
            problems.push(Problem::InvalidValue { place: place.to_owned(), key: setting.doc().key, reason });
        }
    }
}

fn add_whole<T>(list: &mut Option<Valued<Vec<T>>>, element: T, origin: Origin) {
    list.get_or_insert(Valued { value: Vec::new(), origin }).value.push(element);
}
