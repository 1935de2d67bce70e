//! What an untrusted project's file asks for beyond what the defaults, the system and the user give.

use crate::error::Problem;
use crate::keys::Setting;
use crate::layer::Layer;
use crate::settings::{Settings, Valued, mount_text};
use palisade_core::{FilePattern, Origin, printable};
use std::fmt::Display;

/// Every widening in `project` relative to `base`, one problem each.
pub(crate) fn find(base: &Settings, project: &Layer) -> Vec<Problem> {
    let mut found = Vec::new();
    if let Some(asked) = &project.method
        && asked.value.strength() < base.method.value.strength()
    {
        let reason = format!("it is weaker than {}", limit(&base.method));
        found.push(widens(Setting::Method, &asked.value, &asked.origin, reason));
    }
    if let Some(asked) = &project.image {
        let reason = "what runs in your sandboxes would come from the project".to_owned();
        found.push(widens(Setting::Image, &asked.value, &asked.origin, reason));
    }
    if let Some(asked) = &project.network
        && asked.value > base.network.value
    {
        let allowed = Valued { value: base.network.value.as_str(), origin: base.network.origin.clone() };
        let reason = format!("it reaches further than {}", limit(&allowed));
        found.push(widens(Setting::Network, &asked.value.as_str(), &asked.origin, reason));
    }
    let reaches = "it reaches further".to_owned();
    found.extend(
        project.allow.iter().map(|rule| widens(Setting::Allow, &rule.value, &rule.origin, reaches.clone())),
    );
    found.extend(
        project
            .host_ports
            .iter()
            .map(|port| widens(Setting::HostPorts, &port.value, &port.origin, reaches.clone())),
    );
    found.extend(larger(Setting::Memory, &base.memory, project.memory.as_ref()));
    found.extend(larger(Setting::Cpus, &base.cpus, project.cpus.as_ref()));
    found.extend(larger(Setting::Pids, &base.pids, project.pids.as_ref()));
    found.extend(larger(Setting::Tmp, &base.tmp, project.tmp.as_ref()));
    if let Some(asked) = &project.opt
        && asked.value
        && !base.opt.value
    {
        let reason = "it shows the host's /opt".to_owned();
        found.push(widens(Setting::Opt, &asked.value, &asked.origin, reason));
    }
    let shows = "it shows a part of the host".to_owned();
    found.extend(
        project.tools.iter().map(|tool| widens(Setting::Tools, &tool.value, &tool.origin, shows.clone())),
    );
    found.extend(
        project
            .mounts
            .iter()
            .map(|mount| widens(Setting::Mounts, &mount_text(&mount.value), &mount.origin, shows.clone())),
    );
    if let Some(asked) = project.agent_refs.as_ref().filter(|asked| asked.value > base.agent_refs.value) {
        let reason = format!("it shows more than {}", limit(&base.agent_refs));
        found.push(widens(Setting::AgentRefs, &asked.value, &asked.origin, reason));
    }
    let unknown = |pattern: &&FilePattern| !base.env_files.value.contains(pattern);
    if let Some(asked) = &project.env_files {
        let sends = "it sends files that your own list does not have".to_owned();
        found.extend(
            asked
                .value
                .iter()
                .filter(unknown)
                .map(|pattern| widens(Setting::EnvFiles, pattern, &asked.origin, sends.clone())),
        );
    }
    let hands = "it hands a variable of yours to an agent".to_owned();
    found.extend(
        project.login.iter().map(|login| widens(Setting::Login, &login.value, &login.origin, hands.clone())),
    );
    found
}

fn larger<T: PartialOrd + Display>(
    setting: Setting,
    base: &Valued<T>,
    asked: Option<&Valued<T>>,
) -> Option<Problem> {
    let asked = asked.filter(|asked| asked.value > base.value)?;
    let reason = format!("it is more than {}", limit(base));
    Some(widens(setting, &asked.value, &asked.origin, reason))
}

fn limit<T: Display>(base: &Valued<T>) -> String {
    format!("{} ({})", base.value, base.origin)
}

fn widens(setting: Setting, value: &dyn Display, origin: &Origin, reason: String) -> Problem {
    let (file, line) = match origin {
        Origin::System { file, line }
        | Origin::User { file, line }
        | Origin::Project { file, line }
        | Origin::Manifest { file, line } => (file.clone(), *line),
        Origin::Default | Origin::Environment { .. } | Origin::Flag { .. } => (origin.to_string(), 0),
    };
    Problem::Widens { file, line, key: setting.doc().key, value: printable(&value.to_string()), reason }
}
