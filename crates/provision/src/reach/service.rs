//! What one service asks of the host, but for its mounts.

use super::{Asker, FixedNames, Found, Reach, build, is_nothing};
use crate::stack::ModelService;
use serde_json::Value;

/// Settings that stay inside the container, or limit it. Whatever is not here and not looked at is a request.
const HARMLESS: &[&str] = &[
    "attach",
    "cap_drop",
    "command",
    "configs",
    "cpu_count",
    "cpu_percent",
    "cpu_period",
    "cpu_quota",
    "cpu_shares",
    "cpus",
    "cpuset",
    "depends_on",
    "dns",
    "dns_opt",
    "dns_search",
    "domainname",
    "entrypoint",
    "env_file",
    "expose",
    "extra_hosts",
    "group_add",
    "healthcheck",
    "hostname",
    "init",
    "links",
    "mac_address",
    "mem_limit",
    "mem_reservation",
    "mem_swappiness",
    "memswap_limit",
    "pids_limit",
    "platform",
    "profiles",
    "pull_policy",
    "read_only",
    "restart",
    "scale",
    "secrets",
    "shm_size",
    "stdin_open",
    "stop_grace_period",
    "stop_signal",
    "tmpfs",
    "tty",
    "ulimits",
    "user",
    "working_dir",
];

/// Labels by which programs that watch the engine do things: route, run, update, back up, or take for their own.
const STEERING_LABELS: &[&str] = &[
    "traefik.",
    "caddy",
    "ofelia.",
    "com.centurylinklabs.watchtower.",
    "docker-volume-backup.",
    "diun.",
    "autoheal",
    "deunhealth.",
    "com.github.nginx-proxy.",
    "chadburn.",
    "swarm.cronjob.",
    "dev.palisade.",
    "palisade.",
    "io.palisade.",
    "com.docker.compose.",
    "com.docker.desktop.",
    "desktop.docker.",
];

pub(super) fn look(found: &mut Found<'_>, asker: &Asker, service: &ModelService, names: FixedNames<'_>) {
    match service.network_mode.as_deref() {
        Some("host") => namespace(found, asker, "network", "the host"),
        Some(mode) if mode.starts_with("container:") => namespace(found, asker, "network", mode),
        Some(mode) if mode == "none" || mode == "bridge" || mode.starts_with("service:") => {}
        // Any other mode is the name of a network of the engine's.
        Some(mode) => found.add(asker, Reach::Existing { what: "network", name: mode.to_owned() }),
        None => {}
    }
    if let Some(build) = &service.build {
        build::look(found, asker, build);
        // Whatever has that name on the engine is replaced, for every other project, too.
        if let Some(image) = service.image.as_ref().filter(|image| names.stays(image)) {
            found.add(asker, Reach::Builds(image.clone()));
        }
    }
    for (key, value) in &service.rest {
        if is_nothing(value) || key.starts_with("x-") || HARMLESS.contains(&key.as_str()) {
            continue;
        }
        setting(found, asker, key, value);
    }
}

fn setting(found: &mut Found<'_>, asker: &Asker, key: &str, value: &Value) {
    match key {
        "privileged" => found.add(asker, Reach::Privileged),
        "cap_add" => each(value, |name| found.add(asker, Reach::Capability(name.to_owned()))),
        "devices" => devices(found, asker, value),
        "gpus" => found.add(asker, Reach::Device("gpu".into())),
        "pid" => shared(found, asker, "processes", value),
        "ipc" => shared(found, asker, "memory (ipc)", value),
        "uts" => shared(found, asker, "host name (uts)", value),
        "userns_mode" => shared(found, asker, "users (userns)", value),
        "cgroup" => shared(found, asker, "control groups", value),
        "volumes_from" => each(value, |text| {
            // Without the prefix it is another service of the same file.
            if let Some(container) = text.strip_prefix("container:") {
                found
                    .add(asker, Reach::Existing { what: "volumes of container", name: container.to_owned() });
            }
        }),
        "external_links" => each(value, |text| {
            found.add(asker, Reach::Existing { what: "container", name: text.to_owned() });
        }),
        "security_opt" => each(value, |option| {
            if !matches!(option, "no-new-privileges" | "no-new-privileges:true" | "no-new-privileges=true") {
                found.setting(asker, "security_opt", &option.into());
            }
        }),
        "labels" => labels(found, asker, value),
        "logging" => logging(found, asker, value),
        "deploy" => deploy(found, asker, value),
        "develop" => develop(found, asker, value),
        "post_start" | "pre_stop" => hooks(found, asker, key, value),
        "provider" => {
            let program = value.get("type").and_then(Value::as_str).unwrap_or("unknown");
            found.add(asker, Reach::Program(program.to_owned()));
        }
        "use_api_socket" => found.setting(asker, "use_api_socket", value),
        _ => found.setting(asker, key, value),
    }
}

fn namespace(found: &mut Found<'_>, asker: &Asker, kind: &'static str, of: &str) {
    let of = of.replace("container:", "container ");
    found.add(asker, Reach::Namespace { kind, of });
}

/// `host`, `container:NAME` and whatever a newer engine knows. Another service of the same file is no stranger.
fn shared(found: &mut Found<'_>, asker: &Asker, kind: &'static str, value: &Value) {
    match value.as_str() {
        Some("private" | "shareable" | "none") => {}
        Some(mode) if mode.starts_with("service:") => {}
        Some("host") => namespace(found, asker, kind, "the host"),
        Some(other) => namespace(found, asker, kind, other),
        None => found.setting(asker, kind, value),
    }
}

/// `HOST:CONTAINER:RIGHTS`, or a table with the source.
fn devices(found: &mut Found<'_>, asker: &Asker, value: &Value) {
    for device in value.as_array().into_iter().flatten() {
        let name = match device {
            Value::String(text) => text.split(':').next().unwrap_or(text).to_owned(),
            other => {
                other.get("source").and_then(Value::as_str).map_or_else(|| other.to_string(), str::to_owned)
            }
        };
        found.add(asker, Reach::Device(name));
    }
}

fn labels(found: &mut Found<'_>, asker: &Asker, value: &Value) {
    let names: Vec<&str> = match value {
        Value::Object(entries) => entries.keys().map(String::as_str).collect(),
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    for name in names {
        let name = name.split('=').next().unwrap_or(name);
        let lower = name.to_ascii_lowercase();
        if STEERING_LABELS.iter().any(|prefix| lower.starts_with(prefix)) {
            found.add(asker, Reach::Label(name.to_owned()));
        }
    }
}

/// The engine writes the logs, on the host: to files of its own, or to wherever another driver is told.
fn logging(found: &mut Found<'_>, asker: &Asker, value: &Value) {
    let driver = value.get("driver").and_then(Value::as_str).unwrap_or("json-file");
    if !matches!(driver, "json-file" | "local" | "none" | "") {
        found.setting(asker, "the driver of its logs", &driver.into());
    }
}

fn deploy(found: &mut Found<'_>, asker: &Asker, value: &Value) {
    let reserved = value.get("resources").and_then(|it| it.get("reservations"));
    for device in reserved.and_then(|it| it.get("devices")).and_then(Value::as_array).into_iter().flatten() {
        let names = device.get("capabilities").and_then(Value::as_array).into_iter().flatten();
        let names: Vec<&str> = names.filter_map(Value::as_str).collect();
        found.add(asker, Reach::Device(names.join(", ")));
    }
}

/// Only `compose watch` uses it, which a sandbox does not; a path outside is named all the same.
fn develop(found: &mut Found<'_>, asker: &Asker, value: &Value) {
    for watch in value.get("watch").and_then(Value::as_array).into_iter().flatten() {
        if let Some(path) = watch.get("path").and_then(Value::as_str) {
            found.reads(asker, "watched files", path);
        }
    }
}

fn hooks(found: &mut Found<'_>, asker: &Asker, key: &str, value: &Value) {
    let privileged = |hook: &Value| hook.get("privileged").is_some_and(|it| !is_nothing(it));
    if value.as_array().into_iter().flatten().any(privileged) {
        found.setting(asker, format!("a {key} hook"), &"privileged".into());
    }
}

/// Each text of a list, or a text alone; anything else as it is written.
fn each(value: &Value, mut one: impl FnMut(&str)) {
    match value {
        Value::Array(elements) => {
            for element in elements {
                match element {
                    Value::String(text) => one(text),
                    other => one(&other.to_string()),
                }
            }
        }
        Value::String(text) => one(text),
        other => one(&other.to_string()),
    }
}
