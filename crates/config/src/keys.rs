//! The one table of settings: files, environment, flags and the reference page all go by it.

use crate::environment;

/// Every setting there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Setting {
    Method,
    Image,
    Network,
    Allow,
    HostPorts,
    Memory,
    Cpus,
    Pids,
    Tmp,
    Opt,
    Tools,
    Mounts,
    MaxNetwork,
    MaxMemory,
    MaxCpus,
    MaxPids,
    WritableRoot,
    Roots,
    LogLevel,
    LogFormat,
    DetachKeys,
    EnvFiles,
    EnvLoad,
    Login,
    MaxFetch,
    MaxFetchTime,
    AgentSync,
    AgentIdle,
    AgentRefs,
    CopySize,
    CopyFiles,
    UidBase,
}

/// What a project's file may do with a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectRule {
    /// Narrower than the user's own value freely, wider only when trusted.
    Narrow,
    /// Only when trusted: any value shows more of the host.
    Trusted,
    /// Anything: it does not touch the policy.
    Free,
    /// Never, trusted or not.
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyDoc {
    pub setting: Setting,
    /// The full path in a file, such as `resources.memory`.
    pub key: &'static str,
    /// Other spellings of the same key.
    pub aliases: &'static [&'static str],
    /// What may be written there.
    pub kind: &'static str,
    pub default: &'static str,
    pub help: &'static str,
    pub environment: Option<&'static str>,
    pub flag: Option<&'static str>,
    pub project: ProjectRule,
}

pub const KEYS: &[KeyDoc] = &[
    KeyDoc {
        setting: Setting::Method,
        key: "method",
        aliases: &["keystone.backend"],
        kind: "one of bwrap, docker, podman, microvm, kubernetes, noop",
        default: "bwrap",
        help: "The isolation method. There is no automatic choice and no fallback.",
        environment: Some(environment::SANDBOX_METHOD),
        flag: Some("--method"),
        project: ProjectRule::Narrow,
    },
    KeyDoc {
        setting: Setting::Image,
        key: "image",
        aliases: &[],
        kind: "an image such as \"palisade-bash:latest\"",
        default: "palisade-bash:latest",
        help: "What a sandbox of docker or podman is made from, unless its environment names an image. Kept with the sandbox.",
        environment: Some(environment::PALISADE_IMAGE),
        flag: Some("--image"),
        project: ProjectRule::Trusted,
    },
    KeyDoc {
        setting: Setting::Network,
        key: "network.mode",
        aliases: &["network"],
        kind: "one of none, allowlist, open",
        default: "none",
        help: "How far a sandbox reaches into the network. Unset, it is allowlist as soon as something is allowed.",
        environment: Some(environment::PALISADE_NETWORK),
        flag: Some("--network"),
        project: ProjectRule::Narrow,
    },
    KeyDoc {
        setting: Setting::Allow,
        key: "network.allow",
        aliases: &[],
        kind: "a list of HOST or HOST:PORT, such as \"*.example.org\"",
        default: "[]",
        help: "Whom a sandbox may reach; without a port, on 80 and 443. Layers add up.",
        environment: None,
        flag: Some("--allow"),
        project: ProjectRule::Trusted,
    },
    KeyDoc {
        setting: Setting::HostPorts,
        key: "network.host_ports",
        aliases: &[],
        kind: "a list of PORT or PORT:HOSTPORT",
        default: "[]",
        help: "Ports of the host's loopback that appear on a sandbox's own. Layers add up.",
        environment: None,
        flag: Some("--host-port"),
        project: ProjectRule::Trusted,
    },
    KeyDoc {
        setting: Setting::Memory,
        key: "resources.memory",
        aliases: &[],
        kind: "a size such as \"8G\"",
        default: "8G",
        help: "The most memory a sandbox may use.",
        environment: Some(environment::PALISADE_MEMORY),
        flag: Some("--memory"),
        project: ProjectRule::Narrow,
    },
    KeyDoc {
        setting: Setting::Cpus,
        key: "resources.cpus",
        aliases: &[],
        kind: "a number such as 4 or 0.5",
        default: "4",
        help: "The most processors a sandbox may keep busy.",
        environment: Some(environment::PALISADE_CPUS),
        flag: Some("--cpus"),
        project: ProjectRule::Narrow,
    },
    KeyDoc {
        setting: Setting::Pids,
        key: "resources.pids",
        aliases: &[],
        kind: "a whole number from 1 to 4194304",
        default: "4096",
        help: "The most processes and threads a sandbox may have.",
        environment: Some(environment::PALISADE_PIDS),
        flag: Some("--pids"),
        project: ProjectRule::Narrow,
    },
    KeyDoc {
        setting: Setting::Tmp,
        key: "resources.tmp",
        aliases: &[],
        kind: "a size such as \"1G\"",
        default: "1G",
        help: "The size of each in-memory file system a sandbox can write to, /tmp among them.",
        environment: None,
        flag: Some("--tmp"),
        project: ProjectRule::Narrow,
    },
    KeyDoc {
        setting: Setting::Opt,
        key: "opt",
        aliases: &[],
        kind: "true or false",
        default: "false",
        help: "Show the host's /opt read-only.",
        environment: None,
        flag: Some("--opt"),
        project: ProjectRule::Narrow,
    },
    KeyDoc {
        setting: Setting::Tools,
        key: "tools",
        aliases: &[],
        kind: "a list of absolute paths",
        default: "[]",
        help: "Host directories with tools, each shown read-only at its own path. Layers add up.",
        environment: None,
        flag: Some("--tool"),
        project: ProjectRule::Trusted,
    },
    KeyDoc {
        setting: Setting::Mounts,
        key: "mounts",
        aliases: &[],
        kind: "a list of HOST:GUEST or HOST:GUEST:ro",
        default: "[]",
        help: "Host files and directories shown inside. Layers add up.",
        environment: None,
        flag: Some("--mount"),
        project: ProjectRule::Trusted,
    },
    KeyDoc {
        setting: Setting::MaxNetwork,
        key: "environments.max_network",
        aliases: &[],
        kind: "one of same, none, allowlist, open",
        default: "same",
        help: "How far an environment's own file may reach into the network. Same: no further than network.mode.",
        environment: None,
        flag: None,
        project: ProjectRule::Never,
    },
    KeyDoc {
        setting: Setting::MaxMemory,
        key: "environments.max_memory",
        aliases: &[],
        kind: "a size such as \"16G\", or same",
        default: "same",
        help: "The most memory an environment's own file may ask for. Same: no more than resources.memory.",
        environment: None,
        flag: None,
        project: ProjectRule::Never,
    },
    KeyDoc {
        setting: Setting::MaxCpus,
        key: "environments.max_cpus",
        aliases: &[],
        kind: "a number such as 8, or same",
        default: "same",
        help: "The most processors an environment's own file may ask for. Same: no more than resources.cpus.",
        environment: None,
        flag: None,
        project: ProjectRule::Never,
    },
    KeyDoc {
        setting: Setting::MaxPids,
        key: "environments.max_pids",
        aliases: &[],
        kind: "a whole number from 1 to 4194304, or same",
        default: "same",
        help: "The most processes an environment's own file may ask for. Same: no more than resources.pids.",
        environment: None,
        flag: None,
        project: ProjectRule::Never,
    },
    KeyDoc {
        setting: Setting::WritableRoot,
        key: "environments.writable_root",
        aliases: &[],
        kind: "true or false",
        default: "false",
        help: "Whether an environment's own file may open the system's files for writing.",
        environment: None,
        flag: None,
        project: ProjectRule::Never,
    },
    KeyDoc {
        setting: Setting::Roots,
        key: "environments.roots",
        aliases: &[],
        kind: "a list of absolute paths",
        default: "[]",
        help: "Directories below which an environment's root may lie. Layers add up.",
        environment: None,
        flag: None,
        project: ProjectRule::Never,
    },
    KeyDoc {
        setting: Setting::LogLevel,
        key: "log.level",
        aliases: &[],
        kind: "one of off, error, warn, info, debug, trace",
        default: "warn",
        help: "The least severe log lines that are written.",
        environment: Some(environment::PALISADE_LOG),
        flag: Some("--log-level"),
        project: ProjectRule::Free,
    },
    KeyDoc {
        setting: Setting::LogFormat,
        key: "log.format",
        aliases: &[],
        kind: "one of text, json",
        default: "text",
        help: "The form of log lines.",
        environment: Some(environment::PALISADE_LOG_FORMAT),
        flag: Some("--log-format"),
        project: ProjectRule::Free,
    },
    KeyDoc {
        setting: Setting::DetachKeys,
        key: "attach.detach_keys",
        aliases: &[],
        kind: "two keys such as 'ctrl-\\,d', the first with ctrl-",
        default: "ctrl-\\,d",
        help: "The two keys that leave an attached terminal while its session goes on.",
        environment: None,
        flag: None,
        project: ProjectRule::Never,
    },
    KeyDoc {
        setting: Setting::EnvFiles,
        key: "agent.env_files",
        aliases: &[],
        kind: "a list of patterns from the top of the repository, such as \"apps/*/.env\"",
        default: "[\".env\", \".env.*\"]",
        help: "Files beside the code, not in git, that are copied to an agent. A list replaces an earlier one; a project's may only leave out.",
        environment: None,
        flag: None,
        project: ProjectRule::Narrow,
    },
    KeyDoc {
        setting: Setting::EnvLoad,
        key: "agent.env_load",
        aliases: &[],
        kind: "a list of files from the top of the repository",
        default: "[\".env\", \".env.local\"]",
        help: "Which files an agent's sessions have as variables; later ones win. A list replaces an earlier one.",
        environment: None,
        flag: None,
        project: ProjectRule::Free,
    },
    KeyDoc {
        setting: Setting::Login,
        key: "agent.login",
        aliases: &[],
        kind: "a table of NAME = \"$VARIABLE\", one for each variable of an agent's login",
        default: "{}",
        help: "Where the variables of agents' logins come from. One that is named here must be set. Layers add up.",
        environment: None,
        flag: None,
        project: ProjectRule::Trusted,
    },
    KeyDoc {
        setting: Setting::MaxFetch,
        key: "agent.max_fetch",
        aliases: &[],
        kind: "a size such as \"8G\"",
        default: "8G",
        help: "The most that one sync may bring from a sandbox.",
        environment: None,
        flag: None,
        project: ProjectRule::Never,
    },
    KeyDoc {
        setting: Setting::MaxFetchTime,
        key: "agent.max_fetch_time",
        aliases: &[],
        kind: "a span of time such as \"30m\"",
        default: "30m",
        help: "The longest that a transfer to or from a sandbox may take. One that stands still for a quarter of that time, at most 2m, is given up.",
        environment: None,
        flag: None,
        project: ProjectRule::Never,
    },
    KeyDoc {
        setting: Setting::AgentSync,
        key: "agent.sync",
        aliases: &[],
        kind: "one of manual, on-commit, on-idle",
        default: "manual",
        help: "When an agent's work is archived by itself: only on request, after each commit, or when nothing changes any more.",
        environment: None,
        flag: Some("--sync"),
        project: ProjectRule::Free,
    },
    KeyDoc {
        setting: Setting::AgentIdle,
        key: "agent.idle",
        aliases: &[],
        kind: "a span of time such as \"30s\"",
        default: "30s",
        help: "With agent.sync = \"on-idle\": how long nothing may change before the work is archived.",
        environment: None,
        flag: None,
        project: ProjectRule::Free,
    },
    KeyDoc {
        setting: Setting::AgentRefs,
        key: "agent.refs",
        aliases: &[],
        kind: "one of all, branch",
        default: "all",
        help: "Which of the repository's refs a new agent's sandbox sees: all branches, remote-tracking branches and tags, or only the branch that is checked out.",
        environment: None,
        flag: None,
        project: ProjectRule::Narrow,
    },
    KeyDoc {
        setting: Setting::CopySize,
        key: "copy.max_size",
        aliases: &[],
        kind: "a size such as \"8G\"",
        default: "8G",
        help: "The most bytes of files that cp, or a sync of artifacts, may bring from a sandbox; holes count.",
        environment: None,
        flag: None,
        project: ProjectRule::Never,
    },
    KeyDoc {
        setting: Setting::CopyFiles,
        key: "copy.max_files",
        aliases: &[],
        kind: "a whole number from 1 to 4000000000",
        default: "1000000",
        help: "The most files and directories that cp, or a sync of artifacts, may bring from a sandbox.",
        environment: None,
        flag: None,
        project: ProjectRule::Never,
    },
    KeyDoc {
        setting: Setting::UidBase,
        key: "root.uid_base",
        aliases: &[],
        kind: "a whole number from 65536 to 4000000000",
        default: "1910000000",
        help: "Started by root, or by an engine of root's, sandboxes run under host uids of their own, from this one up.",
        environment: None,
        flag: None,
        project: ProjectRule::Never,
    },
];

impl KeyDoc {
    /// Whether it holds a list, to which every layer adds.
    pub(crate) fn is_list(&self) -> bool {
        use Setting::{Allow, HostPorts, Mounts, Roots, Tools};
        matches!(self.setting, Allow | HostPorts | Mounts | Roots | Tools)
    }

    /// Whether it holds a list that replaces that of an earlier layer.
    pub(crate) fn is_whole_list(&self) -> bool {
        matches!(self.setting, Setting::EnvFiles | Setting::EnvLoad)
    }

    /// Whether it holds a table with names of the user's choice.
    pub(crate) fn is_table(&self) -> bool {
        self.setting == Setting::Login
    }

    /// The key and its aliases.
    pub fn spellings(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.key).chain(self.aliases.iter().copied())
    }
}

impl Setting {
    /// The setting's row in [`KEYS`].
    pub fn doc(self) -> &'static KeyDoc {
        // The table has a row for each setting (a test holds it to that); the first row only ends the search.
        KEYS.iter().find(|doc| doc.setting == self).unwrap_or(&KEYS[0])
    }
}

/// The row of a key as written in a file.
pub(crate) fn by_path(path: &str) -> Option<&'static KeyDoc> {
    KEYS.iter().find(|doc| doc.spellings().any(|spelling| spelling == path))
}

/// The names of the tables that hold settings, such as `resources`.
fn sections() -> impl Iterator<Item = &'static str> {
    KEYS.iter().flat_map(KeyDoc::spellings).filter_map(|spelling| Some(spelling.split_once('.')?.0))
}

/// The section of this name.
pub(crate) fn section(name: &str) -> Option<&'static str> {
    sections().find(|section| *section == name)
}

/// The section nearest to an unknown table's name, if any is near.
pub(crate) fn nearest_section(name: &str) -> Option<&'static str> {
    if name.len() > LONGEST_COMPARED {
        return None;
    }
    nearest_of(sections().map(|section| (strsim::jaro_winkler(name, section), section)))
}

/// The known key nearest to an unknown one, if any is near.
pub(crate) fn nearest(path: &str) -> Option<&'static str> {
    nearest_to(path, KEYS.iter().map(|doc| doc.key))
}

/// The nearest of the known keys, if any is near. Also finds a key that was written without its section or in the
/// wrong one.
pub(crate) fn nearest_to(path: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    if path.len() > LONGEST_COMPARED {
        return None;
    }
    fn split(path: &str) -> (&str, &str) {
        path.rsplit_once('.').unwrap_or(("", path))
    }
    let (section, last) = split(path);
    let similarity = |known: &str| {
        let (known_section, known_last) = split(known);
        let alone = strsim::jaro_winkler(last, known_last);
        // In the right section only the key itself can be the slip; the same beginning would make everything near.
        if section == known_section { alone } else { strsim::jaro_winkler(path, known).max(0.97 * alone) }
    };
    nearest_of(known.map(|key| (similarity(key), key)))
}

/// Longer than any key with a few slips in it. A project's file may be anybody's, and comparing costs time.
const LONGEST_COMPARED: usize = 64;

fn nearest_of(scored: impl Iterator<Item = (f64, &'static str)>) -> Option<&'static str> {
    let near = scored.filter(|(score, _)| *score >= 0.8);
    near.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_one_row() {
        use Setting::{
            AgentIdle, AgentRefs, AgentSync, Allow, CopyFiles, CopySize, Cpus, DetachKeys, EnvFiles, EnvLoad,
            HostPorts, Image, LogFormat, LogLevel, Login, MaxCpus, MaxFetch, MaxFetchTime, MaxMemory,
            MaxNetwork, MaxPids, Memory, Method, Mounts, Network, Opt, Pids, Roots, Tmp, Tools, UidBase,
            WritableRoot,
        };
        let all = [
            Method,
            Image,
            Network,
            Allow,
            HostPorts,
            Memory,
            Cpus,
            Pids,
            Tmp,
            Opt,
            Tools,
            Mounts,
            MaxNetwork,
            MaxMemory,
            MaxCpus,
            MaxPids,
            WritableRoot,
            Roots,
            LogLevel,
            LogFormat,
            DetachKeys,
            EnvFiles,
            EnvLoad,
            Login,
            MaxFetch,
            MaxFetchTime,
            AgentSync,
            AgentIdle,
            AgentRefs,
            CopySize,
            CopyFiles,
            UidBase,
        ];
        assert_eq!(KEYS.iter().map(|doc| doc.setting).collect::<Vec<_>>(), all);
        assert!(all.into_iter().all(|setting| setting.doc().setting == setting));
    }

    #[test]
    fn every_variable_belongs_to_one_setting() {
        let named: Vec<&str> = KEYS.iter().filter_map(|doc| doc.environment).collect();
        assert_eq!(named, environment::ALL);
    }

    #[test]
    fn near_misses_are_recognised_and_nonsense_is_not() {
        for (written, meant) in [
            ("metod", Some("method")),
            ("netwrok", Some("network.mode")),
            ("resources.memroy", Some("resources.memory")),
            ("memory", Some("resources.memory")),
            ("mount", Some("mounts")),
            ("log.memory", Some("resources.memory")),
            ("root.uidbase", Some("root.uid_base")),
            ("attach.detach_key", Some("attach.detach_keys")),
            ("detach-keys", Some("attach.detach_keys")),
            ("resources.zzz", None),
            ("agent.env_file", Some("agent.env_files")),
            ("max_fetch", Some("agent.max_fetch")),
            ("zzz", None),
            ("", None),
        ] {
            assert_eq!(nearest(written), meant, "{written}");
        }
        assert_eq!(nearest_section("resorces"), Some("resources"));
        assert_eq!(nearest_section("zzz"), None);
    }
}
