//! `palisade env show`.

use super::ls::words;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use palisade_config::manifest::{
    Environment, FIELDS, Field, Init, InitMode, Manifest, Provenance, Rule, TimeLimit,
};
use palisade_core::{ByteSize, GuestPath, ImageReference, Method, Network, Root, ToolName};
use serde::Serialize;

/// Show what an environment says, field by field
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name of the environment
    pub(crate) name: String,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a manifest says; `null` is what it leaves to the settings.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Shown<'a> {
    pub(crate) name: &'a str,
    pub(crate) description: &'a str,
    /// Whose manifest it is, and where it lies.
    pub(crate) from: &'a Provenance,
    /// The methods that can make a sandbox of it.
    pub(crate) methods: Vec<Method>,
    pub(crate) image: Option<&'a ImageReference>,
    pub(crate) root: Option<&'a Root>,
    pub(crate) requires: &'a [ToolName],
    /// The program and its arguments; empty for a login shell.
    pub(crate) command: &'a [String],
    pub(crate) workdir: Option<&'a GuestPath>,
    /// In seconds.
    #[cfg_attr(test, schemars(with = "Option<u32>"))]
    pub(crate) timeout: Option<TimeLimit>,
    pub(crate) init: ShownInit<'a>,
    pub(crate) security: ShownSecurity,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ShownInit<'a> {
    pub(crate) mode: InitMode,
    /// In seconds.
    #[cfg_attr(test, schemars(with = "u32"))]
    pub(crate) timeout: TimeLimit,
    pub(crate) allowed: Option<&'a Rule>,
    pub(crate) denied: &'a [Rule],
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ShownSecurity {
    pub(crate) network: Option<Network>,
    pub(crate) read_only_root: bool,
    /// In bytes.
    pub(crate) memory: Option<ByteSize>,
    /// As it would be written.
    pub(crate) cpus: Option<String>,
    pub(crate) pids: Option<u32>,
}

fn shown(environment: &Environment) -> Shown<'_> {
    let Manifest { name, description, image, root, requires, command, workdir, timeout, init, security } =
        &environment.manifest;
    let Init { mode, timeout: init_timeout, allowed, denied } = init;
    Shown {
        name: name.value.as_str(),
        description,
        from: &environment.provenance,
        methods: environment.manifest.methods(),
        image: image.as_ref(),
        root: root.as_ref().map(|root| &root.value),
        requires,
        command,
        workdir: workdir.as_ref(),
        timeout: *timeout,
        init: ShownInit { mode: *mode, timeout: *init_timeout, allowed: allowed.as_ref(), denied },
        security: ShownSecurity {
            network: security.network.map(|network| network.value),
            read_only_root: security.read_only_root.is_none_or(|closed| closed.value),
            memory: security.memory.map(|memory| memory.value),
            cpus: security.cpus.map(|cpus| cpus.value.to_string()),
            pids: security.pids.map(|pids| pids.value),
        },
    }
}

pub(super) fn run(context: &Context, arguments: &Arguments) -> Result<(), Failure> {
    let catalogue = context.catalogue(None)?;
    let shown = shown(catalogue.find(&arguments.name)?);
    if arguments.json {
        return output::json(&shown);
    }
    let mut rows =
        vec![vec!["from".to_owned(), shown.from.shown()], vec!["methods".to_owned(), words(&shown.methods)]];
    for doc in FIELDS {
        let values = values(doc.field, &shown);
        let told = match values.is_empty() {
            true => vec![format!("({})", doc.default.unwrap_or("missing"))],
            false => values,
        };
        rows.extend(told.into_iter().map(|value| vec![doc.key.to_owned(), value]));
    }
    output::data(&output::table(&["FIELD", "VALUE"], &rows))
}

/// What stands in a field, a line each; nothing when it was left out.
fn values(field: Field, shown: &Shown<'_>) -> Vec<String> {
    let one = |value: Option<String>| value.into_iter().collect();
    let patterns = |rule: &Rule| rule.patterns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let security = &shown.security;
    match field {
        Field::Name => vec![shown.name.to_owned()],
        Field::Description => vec![shown.description.to_owned()],
        Field::Image => one(shown.image.map(ToString::to_string)),
        Field::Root => one(shown.root.map(Root::shown)),
        Field::Requires => one((!shown.requires.is_empty())
            .then(|| shown.requires.iter().map(ToolName::as_str).collect::<Vec<_>>().join(", "))),
        Field::Command => one(shown.command.first().map(|word| palisade_core::printable(word))),
        Field::Args => shown.command.iter().skip(1).map(|word| palisade_core::printable(word)).collect(),
        Field::Workdir => one(shown.workdir.map(ToString::to_string)),
        Field::Timeout => one(shown.timeout.map(|limit| limit.to_string())),
        Field::InitMode => vec![shown.init.mode.as_str().to_owned()],
        Field::InitTimeout => vec![shown.init.timeout.to_string()],
        Field::AllowedPatterns => shown.init.allowed.iter().map(|rule| patterns(rule)).collect(),
        Field::AllowedMessage => shown.init.allowed.iter().filter_map(|rule| rule.message.clone()).collect(),
        Field::DeniedPatterns => shown.init.denied.iter().map(patterns).collect(),
        Field::DeniedMessage => shown.init.denied.iter().filter_map(|rule| rule.message.clone()).collect(),
        Field::Network => one(security.network.map(|network| network.as_str().to_owned())),
        Field::ReadOnlyRoot => vec![security.read_only_root.to_string()],
        Field::Memory => one(security.memory.map(|memory| memory.to_string())),
        Field::Cpus => one(security.cpus.clone()),
        Field::Pids => one(security.pids.map(|pids| pids.to_string())),
    }
}
