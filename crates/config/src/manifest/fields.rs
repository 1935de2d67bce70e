//! The one table of a manifest's fields: the reader, its refusals, the JSON Schema and the reference page go by it.

use crate::keys::nearest_to;

/// Every field there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    Name,
    Description,
    Image,
    Root,
    Requires,
    Command,
    Args,
    Workdir,
    Timeout,
    InitMode,
    InitTimeout,
    AllowedPatterns,
    AllowedMessage,
    DeniedPatterns,
    DeniedMessage,
    Network,
    ReadOnlyRoot,
    Memory,
    Cpus,
    Pids,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldDoc {
    pub field: Field,
    /// The full path in a file, such as `security.memory`.
    pub key: &'static str,
    /// What may be written there.
    pub kind: &'static str,
    /// What holds when it is left out; `None` for a field that must be there.
    pub default: Option<&'static str>,
    pub help: &'static str,
}

/// The table of which there may be several.
pub(super) const DENIED: &str = "init.denied";

pub const FIELDS: &[FieldDoc] = &[
    FieldDoc {
        field: Field::Name,
        key: "name",
        kind: "a name of a-z, 0-9 and '-', such as \"ruby\"",
        default: None,
        help: "What `--environment` calls it. No two environments have the same.",
    },
    FieldDoc {
        field: Field::Description,
        key: "description",
        kind: "one line of text",
        default: None,
        help: "What it is for; shown by `palisade env ls`.",
    },
    FieldDoc {
        field: Field::Image,
        key: "image",
        kind: "an image such as \"palisade-bash:latest\"",
        default: Some("none: not for docker and podman"),
        help: "What docker and podman start from.",
    },
    FieldDoc {
        field: Field::Root,
        key: "root",
        kind: "\"host\", or the absolute path of a directory that holds a whole system",
        default: Some("none: not for bwrap"),
        help: "What bwrap starts from: the host's own programs, or another system's. Always read-only.",
    },
    FieldDoc {
        field: Field::Requires,
        key: "requires",
        kind: "a list of names of programs, such as [\"git\"]",
        default: Some("[]"),
        help: "Programs that the root must have. Looked for before anything starts.",
    },
    FieldDoc {
        field: Field::Command,
        key: "command",
        kind: "the name of a program, or its absolute path inside",
        default: Some("a login shell"),
        help: "What `palisade shell` starts, and `palisade run` without a command.",
    },
    FieldDoc {
        field: Field::Args,
        key: "args",
        kind: "a list of strings",
        default: Some("[]"),
        help: "The arguments of `command`.",
    },
    FieldDoc {
        field: Field::Workdir,
        key: "workdir",
        kind: "an absolute path inside, such as \"/workspace/app\"",
        default: Some("/workspace"),
        help: "Where commands start.",
    },
    FieldDoc {
        field: Field::Timeout,
        key: "timeout",
        kind: "a time such as \"90s\", \"10m\" or \"2h\", at most a day",
        default: Some("none"),
        help: "How long a command of `palisade run` may take. `--timeout` wins.",
    },
    FieldDoc {
        field: Field::InitMode,
        key: "init.mode",
        kind: "one of shell, exec",
        default: Some("shell"),
        help: "Where a lesson's init commands run: in the learner's own shell, or each by itself before `command` \
               starts, for a command that is no shell.",
    },
    FieldDoc {
        field: Field::InitTimeout,
        key: "init.timeout",
        kind: "a time such as \"90s\", \"10m\" or \"2h\", at most a day",
        default: Some("60s"),
        help: "How long all init commands together may take.",
    },
    FieldDoc {
        field: Field::AllowedPatterns,
        key: "init.allowed.patterns",
        kind: "a list of patterns such as \"git *\"",
        default: Some("everything"),
        help: "Init commands that are taken; others are refused. `*` stands for any text.",
    },
    FieldDoc {
        field: Field::AllowedMessage,
        key: "init.allowed.message",
        kind: "one line of text",
        default: Some("a message that lists the patterns"),
        help: "What the author of a refused command is told.",
    },
    FieldDoc {
        field: Field::DeniedPatterns,
        key: "init.denied.patterns",
        kind: "a list of patterns such as \"git *\"",
        default: Some("nothing"),
        help: "Init commands that are refused, whatever is allowed. `[[init.denied]]` may stand there several times.",
    },
    FieldDoc {
        field: Field::DeniedMessage,
        key: "init.denied.message",
        kind: "one line of text",
        default: Some("a message that names the pattern"),
        help: "What the author of a refused command is told.",
    },
    FieldDoc {
        field: Field::Network,
        key: "security.network",
        kind: "one of none, allowlist, open",
        default: Some("as in the settings"),
        help: "How far a sandbox reaches into the network. Whom an allow-list names stands in the settings.",
    },
    FieldDoc {
        field: Field::ReadOnlyRoot,
        key: "security.read_only_root",
        kind: "true or false",
        default: Some("true"),
        help: "Whether the system's own files are closed for writing. Only containers can open them.",
    },
    FieldDoc {
        field: Field::Memory,
        key: "security.memory",
        kind: "a size such as \"512M\"",
        default: Some("as in the settings"),
        help: "The most memory a sandbox may use.",
    },
    FieldDoc {
        field: Field::Cpus,
        key: "security.cpus",
        kind: "a number such as 2 or 0.5",
        default: Some("as in the settings"),
        help: "The most processors a sandbox may keep busy.",
    },
    FieldDoc {
        field: Field::Pids,
        key: "security.pids",
        kind: "a whole number from 1 to 4194304",
        default: Some("as in the settings"),
        help: "The most processes and threads a sandbox may have.",
    },
];

impl Field {
    /// The field's row in [`FIELDS`].
    pub fn doc(self) -> &'static FieldDoc {
        // The table has a row for each field (a test holds it to that); the first row only ends the search.
        FIELDS.iter().find(|doc| doc.field == self).unwrap_or(&FIELDS[0])
    }

    pub fn key(self) -> &'static str {
        self.doc().key
    }
}

/// The field of a path as written in a file.
pub(super) fn by_path(path: &str) -> Option<&'static FieldDoc> {
    FIELDS.iter().find(|doc| doc.key == path)
}

/// The table of this path, when fields lie in it.
pub(super) fn section(path: &str) -> Option<&'static str> {
    let within = |doc: &FieldDoc| doc.key.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
    FIELDS.iter().find(|doc| within(doc)).map(|doc| &doc.key[..path.len()])
}

/// The known field nearest to an unknown one, if any is near.
pub(super) fn nearest(path: &str) -> Option<&'static str> {
    nearest_to(path, FIELDS.iter().map(|doc| doc.key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_one_row() {
        use Field::*;
        let all = [
            Name,
            Description,
            Image,
            Root,
            Requires,
            Command,
            Args,
            Workdir,
            Timeout,
            InitMode,
            InitTimeout,
            AllowedPatterns,
            AllowedMessage,
            DeniedPatterns,
            DeniedMessage,
            Network,
            ReadOnlyRoot,
            Memory,
            Cpus,
            Pids,
        ];
        assert_eq!(FIELDS.iter().map(|doc| doc.field).collect::<Vec<_>>(), all);
        assert!(all.into_iter().all(|field| field.doc().field == field));
    }

    #[test]
    fn tables_are_those_that_hold_fields() {
        for table in ["init", "init.allowed", DENIED, "security"] {
            assert_eq!(section(table), Some(table));
        }
        for other in ["", "name", "init.mode", "sec", "security.memory", "zzz"] {
            assert_eq!(section(other), None, "{other}");
        }
    }
}
