//! The override as YAML. Every text is in double quotes with its dollar signs doubled, so that neither YAML nor Compose
//! sees anything in it but a text.

use super::{NewImage, Override, OverrideInput, ServiceOverride};
use palisade_config::infra::MountAccess;
use palisade_core::HostPath;
use std::fmt::Write as _;

pub(super) fn write(planned: &Override, input: &OverrideInput<'_>) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ =
        writeln!(out, "# Written by palisade for {}. Each start writes it anew.", comment(&input.model.name));
    let services: Vec<_> = planned.services.iter().filter(|(_, part)| !part.is_empty()).collect();
    out.push_str(if services.is_empty() { "services: {}\n" } else { "services:\n" });
    for (name, part) in services {
        let _ = writeln!(out, "  {}:", quoted(name));
        service(&mut out, part, input);
    }
    let joined = planned.external_network.iter().filter(|(key, _)| !input.model.networks.contains_key(key));
    let mut networks = String::new();
    for (key, name) in joined {
        let _ = writeln!(networks, "  {}:\n    external: true\n    name: {}", quoted(key), quoted(name));
    }
    names(&mut networks, &planned.networks);
    section(&mut out, "networks", &networks);
    let mut volumes = String::new();
    names(&mut volumes, &planned.volumes);
    section(&mut out, "volumes", &volumes);
    out
}

fn section(out: &mut String, name: &str, entries: &str) {
    if !entries.is_empty() {
        let _ = write!(out, "{name}:\n{entries}");
    }
}

fn names(out: &mut String, names: &std::collections::BTreeMap<String, String>) {
    for (key, name) in names {
        let _ = writeln!(out, "  {}:\n    name: {}", quoted(key), quoted(name));
    }
}

fn service(out: &mut String, part: &ServiceOverride, input: &OverrideInput<'_>) {
    if part.forget_container_name {
        out.push_str("    container_name: !reset null\n");
    }
    match &part.image {
        None => {}
        Some(NewImage::Unnamed) => out.push_str("    image: !reset null\n"),
        Some(NewImage::Named(image)) => {
            let _ = writeln!(out, "    image: {}", quoted(image));
        }
    }
    if !part.environment.is_empty() {
        out.push_str("    environment:\n");
        for (name, value) in &part.environment {
            let value = value.as_ref().map_or("null".into(), |value| quoted(value));
            let _ = writeln!(out, "      {}: {value}", quoted(name));
        }
    }
    if !part.networks.is_empty() {
        out.push_str("    networks:\n");
        for network in &part.networks {
            let _ = writeln!(out, "      {}: {{}}", quoted(network));
        }
    }
    if let Some(ports) = &part.ports {
        out.push_str("    ports: !override\n");
        for port in ports {
            let _ = writeln!(out, "      - target: {}", port.target);
            let texts = [
                ("published", port.published.as_ref()),
                ("host_ip", port.host_ip.as_ref()),
                ("protocol", Some(&port.protocol)),
                ("mode", port.mode.as_ref()),
            ];
            for (key, text) in texts {
                if let Some(text) = text {
                    let _ = writeln!(out, "        {key}: {}", quoted(text));
                }
            }
        }
    }
    if !part.mounts.is_empty() || !part.fenced_git.is_empty() {
        out.push_str("    volumes:\n");
        for mount in &part.mounts {
            bind(out, &input.worktree.join(mount.source.as_str()), mount.target.as_str(), mount.access);
        }
        for target in &part.fenced_git {
            bind(out, &input.worktree.join(".git"), target, MountAccess::ReadOnly);
        }
    }
}

fn bind(out: &mut String, source: &HostPath, target: &str, access: MountAccess) {
    let source = quoted(&source.as_path().to_string_lossy());
    let read_only = access == MountAccess::ReadOnly;
    let _ = writeln!(out, "      - type: bind\n        source: {source}\n        target: {}", quoted(target));
    let _ = writeln!(out, "        read_only: {read_only}\n        bind:\n          create_host_path: false");
}

impl ServiceOverride {
    fn is_empty(&self) -> bool {
        let Self { forget_container_name, image, environment, networks, ports, mounts, fenced_git } = self;
        !forget_container_name
            && image.is_none()
            && environment.is_empty()
            && networks.is_empty()
            && ports.is_none()
            && mounts.is_empty()
            && fenced_git.is_empty()
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '$' => out.push_str("$$"),
            other if other.is_control() || matches!(other, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                let _ = write!(out, "\\u{:04x}", u32::from(other));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

fn comment(text: &str) -> String {
    palisade_core::printable(text)
}
