//! `docs/reference/json.md` and `schemas/output`: what `--json` prints, from the very types that are printed.

use super::command_line::{full_name, visible};
use super::markdown::{code, codes, heading, table};
use super::{Documents, command};
use crate::commands;
use crate::commands::doctor::Diagnosis;
use crate::commands::sessions::Listed;
use crate::commands::wrap::Shown;
use palisade_config::Entry;
use palisade_engine::{CopySummary, EgressEntry, GcItem, Inspection, ListedSandbox};
use palisade_store::{StoredEvent, Trusted};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// What one command prints.
struct Output {
    /// As the user calls it.
    command: &'static str,
    prints: &'static str,
    schema: Value,
}

fn outputs() -> Vec<Output> {
    vec![
        output::<Vec<commands::agent::ls::Listed<'_>>>(
            "palisade agent ls",
            "Every sandbox in which an agent works.",
        ),
        output::<Vec<palisade_agents::SyncEntry>>(
            "palisade agent log",
            "With `--sync`: every sync that moved something or failed, oldest first.",
        ),
        output::<Vec<commands::agent::history::ListedAs>>(
            "palisade agent history",
            "Archives of agents' work, the oldest first.",
        ),
        output::<commands::agent::sync::Synced>("palisade agent sync", "What was synced, branch by branch."),
        output::<commands::init::check::Report>(
            "palisade init",
            "With `--check`: what the project's services need, and what of it is not declared.",
        ),
        output::<palisade_provision::SandboxStatus>(
            "palisade sandbox status",
            "The sandbox of the worktree here: its slot, its services and their health.",
        ),
        output::<Vec<palisade_provision::SlotSummary>>("palisade slots", "Every slot that is taken."),
        output::<commands::sync::SyncedCommits>(
            "palisade sync",
            "What was exchanged between a sandbox and the repositories that it shares.",
        ),
        output::<Vec<CopySummary>>("palisade apply", "With `--list`: every copy of a bound directory."),
        output::<Vec<ListedSandbox>>(
            "palisade ls",
            "Every sandbox that can be read, and those of which there is no record.",
        ),
        output::<Inspection>("palisade inspect", "All there is to know about one sandbox."),
        output::<Vec<Listed<'_>>>("palisade sessions", "The sessions of one sandbox."),
        output::<StoredEvent>("palisade logs", "One such object per line and event, oldest first."),
        output::<Vec<EgressEntry>>(
            "palisade egress log",
            "Every destination the sandbox asked for, how it was decided, and how often.",
        ),
        output::<Vec<GcItem>>(
            "palisade gc",
            "What was done, or with `--dry-run` would be, and what is kept.",
        ),
        output::<Diagnosis>("palisade doctor", "The selected method and what was found out about it."),
        output::<Vec<commands::env::ls::Listed<'_>>>(
            "palisade env ls",
            "Every environment that can be used.",
        ),
        output::<commands::env::show::Shown<'_>>(
            "palisade env show",
            "What one environment says; `null` where it leaves something to the settings.",
        ),
        output::<commands::env::check::Verdict>(
            "palisade env check",
            "Whether a file is a good environment.",
        ),
        output::<Vec<palisade_images::Made>>(
            "palisade env build",
            "Every image that was asked for or is built upon, and what became of it.",
        ),
        output::<Vec<Entry>>("palisade config show", "Every setting; a list has an entry per element."),
        output::<Vec<Shown>>("palisade wrap", "The wrapper that was made, or with `--ls` all of them."),
        output::<Vec<Trusted>>("palisade trust", "With `--list`: the files that are trusted."),
    ]
}

fn output<T: JsonSchema>(command: &'static str, prints: &'static str) -> Output {
    let settings =
        SchemaSettings::draft2020_12().for_serialize().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // The name of a Rust type tells a reader nothing.
    schema.insert("title".into(), format!("{command} --json").into());
    schema.insert("description".into(), prints.into());
    Output { command, prints, schema: schema.to_value() }
}

fn schema_path(output: &Output) -> String {
    let name = output.command.trim_start_matches("palisade ").replace(' ', "-");
    format!("schemas/output/{name}.json")
}

pub(super) fn schemas() -> Documents {
    let text = |output: &Output| format!("{:#}\n", output.schema);
    outputs().iter().map(|output| (schema_path(output), text(output))).collect()
}

pub(super) fn page() -> String {
    let mut text = heading("JSON output");
    text.push_str(
        "With `--json`, stdout is one JSON document and nothing else; warnings and errors go to stderr, and the exit\n\
         codes are the same. Times are milliseconds since 1970 in UTC, sizes are bytes. Fields are added in later\n\
         versions and never change their meaning; readers ignore those they do not know. What came from inside a\n\
         sandbox stands there as it is, escaped only as JSON asks for. Each table has a\n\
         [JSON Schema](../../schemas/output) of the same content.\n",
    );
    for output in outputs() {
        let path = schema_path(&output);
        text.push_str(&format!(
            "\n## {} --json\n\n{} Schema: [`{path}`](../../{path}).\n\n",
            output.command, output.prints
        ));
        let mut rows = Vec::new();
        describe("", &output.schema, &mut rows);
        text.push_str(&table(["field", "type", "meaning"], rows));
    }
    text
}

/// A row for every field, with the path that leads there: `[]` is an element of a list.
fn describe(path: &str, schema: &Value, rows: &mut Vec<[String; 3]>) {
    if let Some(items) = schema.get("items") {
        return describe(&format!("{path}[]"), items, rows);
    }
    let alternatives = alternatives(schema);
    if let [only] = &alternatives[..]
        && !std::ptr::eq(*only, schema)
    {
        return describe(path, only, rows);
    }
    if alternatives.iter().any(|alternative| alternative.get("properties").is_some())
        && alternatives.len() > 1
    {
        for alternative in alternatives {
            describe(path, alternative, rows);
        }
        return;
    }
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let meaning = field.get("description").and_then(Value::as_str).unwrap_or_default();
        let row = [code(&path), kind(field), meaning.replace('\n', " ")];
        // The forms of a value that has several share most of their fields.
        match rows.iter_mut().find(|[known, ..]| *known == row[0]) {
            Some([_, kinds, _]) if !kinds.contains(&row[1]) => kinds.push_str(&format!(", {}", row[1])),
            Some(_) => {}
            None => rows.push(row),
        }
        describe(&path, field, rows);
    }
}

/// What a value may be, `null` left out.
fn alternatives(schema: &Value) -> Vec<&Value> {
    let choices = ["oneOf", "anyOf"].into_iter().find_map(|key| schema.get(key)?.as_array());
    match choices {
        Some(choices) => choices.iter().filter(|choice| choice.get("type") != Some(&"null".into())).collect(),
        None => vec![schema],
    }
}

fn kind(schema: &Value) -> String {
    if let Some(value) = schema.get("const").and_then(Value::as_str) {
        return code(value);
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return codes(values.iter().filter_map(Value::as_str));
    }
    let choices = alternatives(schema);
    if let [first, ..] = &choices[..]
        && !std::ptr::eq(*first, schema)
    {
        let mut kinds: Vec<String> = choices.iter().map(|choice| kind(choice)).collect();
        kinds.dedup();
        let nullable = ["oneOf", "anyOf"].iter().any(|key| {
            schema.get(*key).and_then(Value::as_array).is_some_and(|all| all.len() > choices.len())
        });
        return kinds.join(", ") + if nullable { " or null" } else { "" };
    }
    let one = |name: &str| match (name, schema.get("items"), schema.get("prefixItems")) {
        ("array", Some(items), _) => format!("list of {}", kind(items)),
        ("array", None, Some(Value::Array(parts))) => {
            format!("[{}]", parts.iter().map(kind).collect::<Vec<_>>().join(", "))
        }
        _ => name.to_owned(),
    };
    match schema.get("type") {
        Some(Value::String(name)) => one(name),
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).map(one).collect::<Vec<_>>().join(" or ")
        }
        _ => "any".into(),
    }
}

#[test]
fn every_command_with_json_output_has_a_schema() {
    let root = command();
    let with_json = |command: &&clap::Command| {
        command.get_arguments().any(|argument| argument.get_long() == Some("json"))
    };
    let mut printing: Vec<String> =
        visible(&root).into_iter().filter(with_json).map(|command| full_name(command).to_owned()).collect();
    printing.sort();
    let mut described: Vec<&str> = outputs().iter().map(|output| output.command).collect();
    described.sort_unstable();
    assert_eq!(
        printing, described,
        "each command with --json names the type it prints in crates/cli/src/reference/json.rs; then: make reference"
    );
}
