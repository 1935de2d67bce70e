//! `schemas/environment.json` and `docs/reference/environments.md`: every field of an environment's file, from the one
//! table of fields.

use super::markdown::{code, heading, table};
use palisade_config::manifest::{FIELDS, Field};
use serde_json::{Map, Value, json};

pub(super) fn page() -> String {
    let mut text = heading("Environment files");
    text.push_str(
        "An environment is a TOML file. Those of the user lie in `$XDG_CONFIG_HOME/palisade/environments`, a project's in\n\
         `.palisade/environments`, where they count once `palisade trust` was said. An unknown field is an error, with the\n\
         field that was probably meant; `palisade env check FILE` tells all problems at once. Editors that read JSON Schema\n\
         can be given [`schemas/environment.json`](../../schemas/environment.json). See also\n\
         [the guide](../guides/environments.md).\n\n",
    );
    let rows = FIELDS.iter().map(|doc| {
        let default = doc.default.map_or_else(|| "must be there".to_owned(), str::to_owned);
        [code(doc.key), doc.kind.to_owned(), default, doc.help.to_owned()]
    });
    text.push_str(&table(["field", "value", "when left out", "meaning"], rows));
    text
}

/// The schema of a file, as JSON Schema has it; what a table may hold is closed, as the reader has it.
pub(super) fn schema() -> String {
    let mut root = object();
    root.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    root.insert("title".into(), "A Palisade environment".into());
    root.insert("anyOf".into(), json!([{ "required": ["image"] }, { "required": ["root"] }]));
    for doc in FIELDS {
        let mut field = of(doc.field);
        let default = doc.default.map(|text| format!(" When left out: {text}.")).unwrap_or_default();
        field["description"] = format!("{}{default}", doc.help).into();
        put(&mut root, doc.key, field, doc.default.is_none());
    }
    format!("{:#}\n", Value::Object(root))
}

fn object() -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("type".into(), "object".into());
    object.insert("additionalProperties".into(), false.into());
    object
}

/// Puts a field at its path; tables on the way are made, and `init.denied` is a list of them.
fn put(table: &mut Map<String, Value>, path: &str, field: Value, required: bool) {
    let Some((first, rest)) = path.split_once('.') else {
        list_of(table, "properties", path, field);
        // A rule without patterns is refused.
        if required || path == "patterns" {
            let names = table.entry("required").or_insert_with(|| json!([]));
            names.as_array_mut().expect("a list of names").push(path.into());
        }
        return;
    };
    let properties = table.entry("properties").or_insert_with(|| json!({}));
    let inner =
        properties.as_object_mut().expect("the properties").entry(first).or_insert_with(|| match first {
            "denied" => json!({ "type": "array", "items": Value::Object(object()) }),
            _ => Value::Object(object()),
        });
    let inner = if first == "denied" { &mut inner["items"] } else { inner };
    put(inner.as_object_mut().expect("a table"), rest, field, required);
}

fn list_of(table: &mut Map<String, Value>, list: &str, name: &str, field: Value) {
    let entries = table.entry(list).or_insert_with(|| json!({}));
    entries.as_object_mut().expect("the properties").insert(name.to_owned(), field);
}

fn of(field: Field) -> Value {
    let text = || json!({ "type": "string", "minLength": 1 });
    let line = || json!({ "type": "string", "minLength": 1, "maxLength": 200 });
    let list = |items: Value| json!({ "type": "array", "maxItems": 100, "items": items });
    let time = || json!({ "type": ["string", "integer"], "pattern": "^[0-9]+[smh]?$", "minimum": 1, "maximum": 86_400 });
    match field {
        Field::Name => json!({ "type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,62}$" }),
        Field::Description | Field::AllowedMessage | Field::DeniedMessage => line(),
        Field::Image => {
            json!({ "type": "string", "pattern": "^[a-zA-Z0-9][a-zA-Z0-9._/:@-]*$", "maxLength": 255 })
        }
        Field::Root => json!({ "type": "string", "pattern": "^(host|/.+)$" }),
        Field::Requires => {
            list(json!({ "type": "string", "pattern": "^[a-zA-Z0-9_+\\[][a-zA-Z0-9._+\\[-]*$" }))
        }
        Field::Command => text(),
        Field::Args => list(json!({ "type": "string" })),
        Field::Workdir => json!({ "type": "string", "pattern": "^/" }),
        Field::Timeout | Field::InitTimeout => time(),
        Field::InitMode => json!({ "enum": ["shell", "exec"] }),
        Field::AllowedPatterns | Field::DeniedPatterns => {
            json!({ "type": "array", "minItems": 1, "maxItems": 100, "items": line() })
        }
        Field::Network => json!({ "enum": ["none", "allowlist", "open"] }),
        Field::ReadOnlyRoot => json!({ "type": "boolean" }),
        Field::Memory => {
            json!({ "type": ["string", "integer"], "pattern": "^[0-9]+([kKmMgGtT]([iI]?[bB])?|[bB])?$", "minimum": 1 })
        }
        Field::Cpus => {
            json!({ "type": ["string", "number"], "pattern": "^[0-9.]+$", "minimum": 0.01, "maximum": 1024 })
        }
        Field::Pids => json!({ "type": "integer", "minimum": 1, "maximum": 4_194_304 }),
    }
}

#[test]
fn the_schema_has_every_field_at_its_place() {
    let schema: Value = serde_json::from_str(&schema()).expect("JSON");
    for doc in FIELDS {
        let mut here = &schema;
        for part in doc.key.split('.') {
            here = &here["properties"][part];
            if part == "denied" {
                here = &here["items"];
            }
        }
        assert!(here["description"].is_string(), "{} is not in the schema: {here}", doc.key);
    }
    assert_eq!(schema["required"], json!(["name", "description"]));
}
