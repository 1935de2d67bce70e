//! What is declared beside the services: networks, volumes, secrets and configs.

use super::{Asker, FixedNames, Found, Reach, is_nothing};
use crate::stack::{Model, ModelNetwork, ModelSource, ModelVolume};
use serde_json::Value;

pub(super) fn look(found: &mut Found<'_>, model: &Model, names: FixedNames<'_>) {
    for (key, network) in &model.networks {
        self::network(found, &Asker::Network(key.clone()), network, names);
    }
    for (key, volume) in &model.volumes {
        self::volume(found, &Asker::Volume(key.clone()), volume, names);
    }
    for (key, secret) in &model.secrets {
        source(found, &Asker::Secret(key.clone()), "content", secret);
    }
    for (key, config) in &model.configs {
        source(found, &Asker::Config(key.clone()), "content", config);
    }
    for (key, value) in model.rest.iter().filter(|(key, value)| !key.starts_with("x-") && !is_nothing(value))
    {
        found.setting(&Asker::File, key.as_str(), value);
    }
}

fn network(found: &mut Found<'_>, asker: &Asker, network: &ModelNetwork, names: FixedNames<'_>) {
    if network.external {
        let name = network.name.clone().unwrap_or_default();
        return found.add(asker, Reach::Existing { what: "network", name });
    }
    // What has that name already is joined, whoever made it.
    if let Some(name) = network.name.clone().filter(|name| names.stays(name)) {
        found.add(asker, Reach::Existing { what: "network", name });
    }
    // Others join the networks that the host itself is in.
    if let Some(driver) =
        network.driver.as_deref().filter(|driver| !matches!(*driver, "" | "bridge" | "default"))
    {
        found.setting(asker, "driver", &driver.into());
    }
    let harmless = ["attachable", "enable_ipv4", "enable_ipv6", "internal", "ipam", "labels"];
    rest(found, asker, &network.rest, &harmless);
}

fn volume(found: &mut Found<'_>, asker: &Asker, volume: &ModelVolume, names: FixedNames<'_>) {
    if volume.external {
        let name = volume.name.clone().unwrap_or_default();
        return found.add(asker, Reach::Existing { what: "volume", name });
    }
    // What has that name already is used, whoever made it, and removed with the sandbox.
    if let Some(name) = volume.name.clone().filter(|name| names.stays(name)) {
        found.add(asker, Reach::Existing { what: "volume", name });
    }
    if let Some(driver) = volume.driver.as_deref().filter(|driver| !matches!(*driver, "" | "local")) {
        found.setting(asker, "driver", &driver.into());
    }
    // The local driver mounts what it is told: a directory of the host's, another machine's, a disk.
    let mounts = volume.driver_opts.iter().filter(|(_, value)| !is_nothing(value));
    let in_memory = volume.driver_opts.get("type").and_then(Value::as_str) == Some("tmpfs");
    if !in_memory {
        let options: serde_json::Map<String, Value> =
            mounts.map(|(key, value)| (key.clone(), value.clone())).collect();
        if !options.is_empty() {
            found.setting(asker, "driver_opts", &Value::Object(options));
        }
    }
    rest(found, asker, &volume.rest, &["labels"]);
}

fn source(found: &mut Found<'_>, asker: &Asker, what: &'static str, source: &ModelSource) {
    if let Some(file) = &source.file {
        found.reads(asker, what, file);
    }
    if source.external {
        found.setting(asker, "external", &true.into());
    }
    // Whether the variable is the user's or the sandbox's own is seen where the files are looked through.
    rest(found, asker, &source.rest, &["content", "labels", "name", "template_driver"]);
}

fn rest(
    found: &mut Found<'_>,
    asker: &Asker,
    rest: &std::collections::BTreeMap<String, Value>,
    harmless: &[&str],
) {
    for (key, value) in rest {
        if !is_nothing(value) && !key.starts_with("x-") && !harmless.contains(&key.as_str()) {
            found.setting(asker, key.as_str(), value);
        }
    }
}
