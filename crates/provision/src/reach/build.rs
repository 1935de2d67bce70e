//! What the build of an image asks of the host.

use super::{Asker, Found, Reach, is_nothing};
use crate::stack::Build;
use serde_json::Value;

/// Settings by which a build reaches nothing but its context.
const HARMLESS: &[&str] = &[
    "args",
    "dockerfile_inline",
    "extra_hosts",
    "labels",
    "no_cache",
    "platforms",
    "provenance",
    "pull",
    "sbom",
    "secrets",
    "shm_size",
    "target",
    "ulimits",
];
/// What begins so is fetched from elsewhere, as an image is; Compose leaves it as it is written.
const REMOTE: &[&str] =
    &["http://", "https://", "git://", "ssh://", "git@", "github.com/", "docker-image://"];
/// Another part of the same file.
const OWN: &[&str] = &["service:", "target:"];

pub(super) fn look(found: &mut Found<'_>, asker: &Asker, build: &Build) {
    let context = build.context.as_deref().unwrap_or(".");
    source(found, asker, "build context", context);
    if let Some(dockerfile) = build.dockerfile.as_deref()
        && !is_remote(context)
    {
        // A path that begins at the root replaces the context.
        let path = std::path::Path::new(context).join(dockerfile);
        found.reads(asker, "Dockerfile", &path.to_string_lossy());
    }
    for (key, value) in &build.rest {
        if is_nothing(value) || key.starts_with("x-") || HARMLESS.contains(&key.as_str()) {
            continue;
        }
        match key.as_str() {
            "privileged" => found.add(asker, Reach::Privileged),
            "additional_contexts" => {
                for context in value.as_object().into_iter().flatten().filter_map(|(_, it)| it.as_str()) {
                    source(found, asker, "build context", context);
                }
            }
            "network" if matches!(value.as_str(), Some("none" | "default")) => {}
            "cache_from" | "cache_to" => caches(found, asker, key, value),
            _ => found.setting(asker, format!("build.{key}"), value),
        }
    }
}

fn source(found: &mut Found<'_>, asker: &Asker, what: &'static str, context: &str) {
    if is_remote(context) || OWN.iter().any(|prefix| context.starts_with(prefix)) {
        return;
    }
    if context.contains("://") {
        return found.setting(asker, what, &context.into());
    }
    found.reads(asker, what, context);
}

fn is_remote(context: &str) -> bool {
    REMOTE.iter().any(|prefix| context.starts_with(prefix))
}

/// A cache in a registry is like an image, and one within the image goes nowhere; any other is a place on the host.
fn caches(found: &mut Found<'_>, asker: &Asker, key: &str, value: &Value) {
    for cache in value.as_array().into_iter().flatten().filter_map(Value::as_str) {
        let inside = cache == "type=inline" || cache.starts_with("type=registry,") || !cache.contains('=');
        if !inside {
            found.setting(asker, format!("build.{key}"), &cache.into());
        }
    }
}
