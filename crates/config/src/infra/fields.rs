//! The one table of `infra.toml`: the reader, its suggestions, the JSON Schema and the reference page go by it.

use crate::keys::nearest_to;

/// What a section holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Fields with names of ours.
    Fields(&'static [InfraField]),
    /// Names of the project's own, each with a value of one kind.
    Names { name: &'static str, kind: &'static str, help: &'static str },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InfraField {
    pub key: &'static str,
    /// What may be written there.
    pub kind: &'static str,
    /// What holds when it is left out; `None` for a field that must be there.
    pub default: Option<&'static str>,
    pub help: &'static str,
}

pub(super) const PORT: &str = "a port from 1 to 65335";

pub const SECTIONS: &[(&str, Section)] = &[
    (
        "project",
        Section::Fields(&[
            InfraField {
                key: "name",
                kind: "a name of letters, digits, '-', '_' and '.'",
                default: None,
                help: "Begins the names of worktrees, slots and compose projects.",
            },
            InfraField {
                key: "prefix",
                kind: "a word of letters, digits, '-' and '_'",
                default: Some("the name"),
                help: "Begins the variables of ports, in capitals.",
            },
        ]),
    ),
    (
        "sandbox",
        Section::Fields(&[
            InfraField {
                key: "compose_file",
                kind: "a path of the project, such as \"docker-compose.yml\"",
                default: Some("docker-compose.yml"),
                help: "The services.",
            },
            InfraField {
                key: "method",
                kind: "a method, such as \"docker\"",
                default: Some("none"),
                help: "The method that agents of this project run with, as `palisade init` found it to work. Flags, SANDBOX_METHOD and .palisade/config.toml win over it, and a stronger one of your own, too.",
            },
        ]),
    ),
    (
        "sandbox.health",
        Section::Fields(&[
            InfraField {
                key: "endpoint",
                kind: "a path such as \"/health\"",
                default: Some("/"),
                help: "Asked for with HTTP until it answers with success.",
            },
            InfraField {
                key: "port_var",
                kind: "the name of a variable in [sandbox.ports]",
                default: Some("the first of [sandbox.ports]"),
                help: "The port on which it is asked.",
            },
            InfraField {
                key: "timeout",
                kind: "seconds, from 1 to 3600",
                default: Some("60"),
                help: "How long the services may take to be healthy.",
            },
        ]),
    ),
    (
        "sandbox.ports",
        Section::Names {
            name: "the name of a variable",
            kind: PORT,
            help: "The ports that the compose file publishes. Sandbox N gets each plus N.",
        },
    ),
    (
        "sandbox.env",
        Section::Names {
            name: "the name of a variable",
            kind: "a string",
            help: "Variables that are no secrets.",
        },
    ),
    (
        "sandbox.secrets",
        Section::Names {
            name: "the name of a variable",
            kind: "\"op://vault/item/field\", \"$VARIABLE\", a literal, or { ref = \"…\", services = [\"…\"] }",
            help: "Variables that are secrets: by reference, or as a literal that everybody who has the repository knows.",
        },
    ),
    (
        "sandbox.files",
        Section::Names {
            name: "a path in the worktree",
            kind: "a path of the project",
            help: "Files that git does not carry, copied from the main working tree.",
        },
    ),
    (
        "sandbox.mounts",
        Section::Names {
            name: "the name of a service",
            kind: "a list of \"path:/path/inside\" or \"path:/path/inside:ro\"",
            help: "Directories of the worktree that a service sees.",
        },
    ),
    (
        "sandbox.otel",
        Section::Fields(&[
            InfraField {
                key: "endpoint",
                kind: "a URL such as \"http://otel-collector:4317\"",
                default: Some("none"),
                help: "Given to every service as OTEL_EXPORTER_OTLP_ENDPOINT.",
            },
            InfraField {
                key: "network",
                kind: "the name of a network of the engine's",
                default: Some("none"),
                help: "Joined by every service, so that it reaches the collector.",
            },
        ]),
    ),
];

pub(super) fn section(path: &str) -> Option<(&'static str, Section)> {
    SECTIONS.iter().find(|(name, _)| *name == path).copied()
}

/// The headings of all sections, for people.
pub(crate) fn headings() -> String {
    let headings: Vec<String> = SECTIONS.iter().map(|(name, _)| format!("[{name}]")).collect();
    headings.join(", ")
}

/// The known section or field that is nearest to an unknown path.
pub(super) fn nearest(path: &str) -> Option<&'static str> {
    nearest_to(path, paths().iter().copied())
}

/// Every section and every field in full.
fn paths() -> &'static [&'static str] {
    &[
        "project",
        "project.name",
        "project.prefix",
        "sandbox",
        "sandbox.compose_file",
        "sandbox.method",
        "sandbox.health",
        "sandbox.health.endpoint",
        "sandbox.health.port_var",
        "sandbox.health.timeout",
        "sandbox.ports",
        "sandbox.env",
        "sandbox.secrets",
        "sandbox.files",
        "sandbox.mounts",
        "sandbox.otel",
        "sandbox.otel.endpoint",
        "sandbox.otel.network",
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_are_those_of_the_table() {
        let mut expected = Vec::new();
        for (name, section) in SECTIONS {
            expected.push((*name).to_owned());
            if let Section::Fields(fields) = section {
                expected.extend(fields.iter().map(|field| format!("{name}.{}", field.key)));
            }
        }
        assert_eq!(paths(), expected);
    }
}
