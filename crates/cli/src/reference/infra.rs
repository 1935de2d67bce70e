//! `schemas/infra.json` and `docs/reference/infra-toml.md`: every section and field of `infra.toml`, from the one table
//! that its reader goes by.

use super::markdown::{code, heading, table};
use palisade_config::infra::{InfraField, SECTIONS, Section};
use serde_json::{Map, Value, json};

pub(super) fn page() -> String {
    let mut text = heading("infra.toml");
    text.push_str(
        "What the sandboxes of a project need, declared once, in `.devops-ai/infra.toml` of its repository. `palisade init`\n\
         writes the file, and `palisade init --check` tells what it lacks; see [the guide](../guides/provisioning.md). Every\n\
         section is optional but `[project]` with its `name`, so that a file from before a section existed goes on\n\
         working. An unknown key is an error with exit code 3, and all problems are told at once, each with its line.\n\
         Editors that read JSON Schema can be given [`schemas/infra.json`](../../schemas/infra.json).\n",
    );
    for (name, section) in SECTIONS {
        text.push_str(&format!("\n## [{name}]\n\n"));
        match section {
            Section::Fields(fields) => {
                let rows = fields.iter().map(|field| {
                    let default = field.default.map_or_else(|| "must be there".to_owned(), str::to_owned);
                    [code(field.key), field.kind.to_owned(), default, field.help.to_owned()]
                });
                text.push_str(&table(["field", "value", "when left out", "meaning"], rows));
            }
            Section::Names { name, kind, help } => {
                text.push_str(&format!("{help}\n\n"));
                let row = [(*name).to_owned(), (*kind).to_owned()];
                text.push_str(&table(["key", "value"], [row]));
            }
        }
    }
    text.push_str(
        "\nA variable is declared in one section only. Names by which programs of the host are steered (`PATH`, `LD_…`,\n\
         `DOCKER_…`, `COMPOSE_…`, `GIT_…` and their like) are refused in all of them. Paths are relative, stay within the\n\
         project and never lead into its `.git`.\n",
    );
    text
}

/// The schema of the file, as JSON Schema has it; what a table may hold is closed, as the reader has it.
pub(super) fn schema() -> String {
    let mut root = closed();
    root["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    root["title"] = "A project's .devops-ai/infra.toml".into();
    root["required"] = json!(["project"]);
    for (path, section) in SECTIONS {
        *place(&mut root, path) = match section {
            Section::Fields(fields) => of_fields(path, fields),
            Section::Names { help, .. } => {
                let mut names = of_names(path);
                names["type"] = "object".into();
                names["description"] = (*help).into();
                names
            }
        };
    }
    format!("{root:#}\n")
}

fn closed() -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": {} })
}

/// Where the schema of a section stands in the whole.
fn place<'a>(root: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('.').fold(root, |here, name| &mut here["properties"][name])
}

fn of_fields(section: &str, fields: &[InfraField]) -> Value {
    let mut table = closed();
    let mut properties = Map::new();
    for field in fields {
        let mut schema = of_field(section, field.key);
        let default = field.default.map(|text| format!(" When left out: {text}.")).unwrap_or_default();
        schema["description"] = format!("{}{default}", field.help).into();
        properties.insert(field.key.into(), schema);
    }
    let required: Vec<&str> =
        fields.iter().filter(|field| field.default.is_none()).map(|field| field.key).collect();
    if !required.is_empty() {
        table["required"] = json!(required);
    }
    table["properties"] = properties.into();
    table
}

fn of_field(section: &str, key: &str) -> Value {
    let name = || json!({ "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$" });
    match (section, key) {
        ("project", "name") | ("sandbox.otel", "network") => name(),
        ("project", "prefix") => json!({ "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$" }),
        ("sandbox", "compose_file") => path(),
        ("sandbox", "method") => json!({ "enum": palisade_core::Method::ALL }),
        ("sandbox.health", "endpoint") => json!({ "type": "string", "pattern": "^/[!-~]*$" }),
        ("sandbox.health", "port_var") => json!({ "type": "string", "pattern": VARIABLE }),
        ("sandbox.health", "timeout") => json!({ "type": "integer", "minimum": 1, "maximum": 3600 }),
        ("sandbox.otel", "endpoint") => json!({ "type": "string", "pattern": "^https?://[!-~]*$" }),
        (section, key) => panic!("say in the schema what {section}.{key} may be"),
    }
}

const VARIABLE: &str = "^[A-Za-z_][A-Za-z0-9_]*$";

fn path() -> Value {
    json!({ "type": "string", "minLength": 1, "pattern": "^[^/]" })
}

fn of_names(section: &str) -> Value {
    let (names, values) = match section {
        "sandbox.ports" => {
            (json!({ "pattern": VARIABLE }), json!({ "type": "integer", "minimum": 1, "maximum": 65_335 }))
        }
        "sandbox.env" => (json!({ "pattern": VARIABLE }), json!({ "type": "string" })),
        "sandbox.secrets" => {
            let services = json!({ "type": "array", "items": { "type": "string", "minLength": 1 } });
            let scoped = json!({
                "type": "object",
                "additionalProperties": false,
                "required": ["ref"],
                "properties": { "ref": { "type": "string" }, "services": services },
            });
            (json!({ "pattern": VARIABLE }), json!({ "anyOf": [{ "type": "string" }, scoped] }))
        }
        "sandbox.files" => (path(), path()),
        "sandbox.mounts" => {
            let mount = json!({ "type": "string", "pattern": "^[^/:][^:]*:/[^:]*(:ro)?$" });
            (json!({ "minLength": 1 }), json!({ "type": "array", "items": mount }))
        }
        other => panic!("say in the schema what stands in {other}"),
    };
    json!({ "propertyNames": names, "additionalProperties": values })
}

#[test]
fn the_schema_has_every_section_and_field_at_its_place() {
    let mut schema: Value = serde_json::from_str(&schema()).expect("JSON");
    for (path, section) in SECTIONS {
        let here = place(&mut schema, path).clone();
        match section {
            Section::Fields(fields) => {
                assert_eq!(here["additionalProperties"], json!(false), "{path}: {here}");
                for field in *fields {
                    let described = &here["properties"][field.key]["description"];
                    assert!(described.is_string(), "{path}.{} is not in the schema: {here}", field.key);
                }
            }
            Section::Names { .. } => assert!(here["description"].is_string(), "{path}: {here}"),
        }
    }
    assert_eq!(schema["properties"]["project"]["required"], json!(["name"]));
}
