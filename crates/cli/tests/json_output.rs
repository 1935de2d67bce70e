//! What `--json` really prints is what `schemas/output` promises, and no field more.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

use palisade_testing::{Instance, requires};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[test]
fn every_json_output_is_what_its_schema_says() {
    // The image of bash is in the engine of the tests, so nothing is built.
    requires!(bwrap, docker, compose);
    let instance = Instance::with_method("bwrap");
    let project = instance.work().join(".palisade");
    std::fs::create_dir(&project).unwrap();
    std::fs::write(project.join("config.toml"), "network = \"none\"\ntools = [\"/usr\"]\n").unwrap();
    instance.run(["trust"]).ok();
    std::fs::write(project.join("config.toml"), "network = \"none\"\n").unwrap();
    for name in ["bound", "shared"] {
        std::fs::create_dir(instance.work().join(name)).unwrap();
        instance.give(&instance.work().join(name));
    }
    let ruby = "name = 'ruby'\ndescription = 'Ruby'\nroot = '/srv/ruby'\ntimeout = '10m'\n\
                [init.allowed]\npatterns = ['git *']\n[security]\nnetwork = 'none'\npids = 64\n";
    let environments = instance.user_config().with_file_name("environments");
    std::fs::create_dir_all(&environments).unwrap();
    for place in [instance.work(), environments] {
        std::fs::write(place.join("ruby.toml"), ruby).unwrap();
    }

    instance.run(["create", "idle", "-w", "bound:ro"]).ok();
    instance.run(["run", "-w", "bound:copy", "--", "touch", "new"]).ok();
    instance.run(["create", "--start", "sharing", "-w", "shared"]).ok();
    instance.started("busy");
    for script in ["sleep 1000", "exit 3"] {
        let session = script.split(' ').next().unwrap();
        instance.run(["exec", "busy", "--session", session, "--detach", "--", "sh", "-c", script]).ok();
    }
    instance.run(["create", "--start", "reaching", "--network", "allowlist", "--host-port", "8080"]).ok();
    instance.run(["exec", "reaching", "--", "getent", "hosts", "refused.example"]);
    palisade_testing::eventually("the refusal is written down", || {
        instance.run(["egress", "log", "reaching", "--json"]).ok().json() != serde_json::json!([])
    });
    for line in
        ["init --quiet project", "-C project -c user.name=A -c user.email=a@b commit -qm first --allow-empty"]
    {
        let git =
            std::process::Command::new("git").args(line.split(' ')).current_dir(instance.work()).status();
        assert!(git.unwrap().success());
    }
    let task =
        "echo x > x; printf '*.o\\n.npmrc\\n' >> .git/info/exclude; echo > a.o; mkfifo b.o; echo > .npmrc";
    instance.run(["agent", "start", "--agent", "shell", "--sync", "on-idle", "--task", task, "project"]).ok();
    std::fs::write(instance.work().join("project/a.o"), "mine").unwrap();
    let compose = "services: {api: {ports: ['80:80'], container_name: a, env_file: .env, environment: {A: '${A}', B: '${B:-b}'}}}\n";
    for (path, text) in [("compose.yaml", compose), (".gitignore", ".env\n")] {
        std::fs::write(instance.work().join("project").join(path), text).unwrap();
    }
    let gaps = instance.run(["init", "--check", "--json", "project"]);
    assert_eq!(gaps.code, 1, "{}", gaps.stderr);
    conforms("init", &gaps.json(), &schemas()["init"]);
    instance.run(["init", "--apply", "project"]).ok();
    let seen = [
        ("init", vec!["init", "--check", "--json", "project"]),
        ("agent-log", vec!["agent", "log", "--sync", "--json", "project"]),
        ("agent-ls", vec!["agent", "ls", "--json"]),
        ("agent-sync", vec!["agent", "sync", "project", "--json"]),
        ("agent-sync", vec!["agent", "sync", "project", "--json", "--artifacts"]),
        ("ls", vec!["ls", "--json"]),
        ("inspect", vec!["inspect", "idle", "--json"]),
        ("inspect", vec!["inspect", "busy", "--json"]),
        ("sessions", vec!["sessions", "busy", "--json"]),
        ("egress-log", vec!["egress", "log", "reaching", "--json"]),
        ("gc", vec!["gc", "--json"]),
        ("apply", vec!["apply", "--list", "--json"]),
        ("sync", vec!["sync", "sharing", "--json"]),
        ("doctor", vec!["doctor", "--all", "--json"]),
        ("config-show", vec!["config", "show", "--json", "--log-level", "error"]),
        ("env-ls", vec!["env", "ls", "--json"]),
        ("env-show", vec!["env", "show", "node-repl", "--json"]),
        ("env-show", vec!["env", "show", "ruby", "--json"]),
        ("env-check", vec!["env", "check", "--json", "--init", "git init", "ruby.toml"]),
        ("env-build", vec!["--method", "docker", "env", "build", "bash", "--json"]),
        ("trust", vec!["trust", "--list", "--json"]),
        ("wrap", vec!["wrap", "--json", "-w", "bound", "--", "sh"]),
        ("wrap", vec!["wrap", "--ls", "--json"]),
    ];
    let schemas = schemas();
    let worktree = with_services(&instance);
    for (name, words) in
        [("sandbox-status", ["sandbox", "status", "--json"].as_slice()), ("slots", &["slots", "--json"])]
    {
        let printed = Instance::finish(instance.command(words).current_dir(&worktree)).ok().json();
        conforms(name, &printed, &schemas[name]);
    }
    Instance::finish(instance.command(["done"]).current_dir(&worktree)).ok();
    for (name, arguments) in &seen {
        let printed = instance.run(arguments).ok().json();
        conforms(name, &printed, &schemas[*name]);
    }
    let mut history = instance.command(["agent", "history", "--json"]);
    conforms(
        "agent-history",
        &Instance::finish(history.current_dir(instance.work().join("project"))).ok().json(),
        &schemas["agent-history"],
    );
    for line in instance.run(["logs", "busy", "--json"]).ok().stdout.lines() {
        conforms("logs", &serde_json::from_str(line).unwrap(), &schemas["logs"]);
    }
    // A keeper that is gone is something to put in order.
    let keeper = instance.run(["inspect", "busy", "--json"]).ok().json()["keeper_pid"].as_i64().unwrap();
    let keeper = rustix::process::Pid::from_raw(i32::try_from(keeper).unwrap()).unwrap();
    rustix::process::kill_process(keeper, rustix::process::Signal::KILL).unwrap();
    palisade_testing::eventually("the keeper's end is noticed", || {
        instance.run(["inspect", "busy", "--json"]).json()["state"] == "error"
    });
    let cleaned = instance.run(["gc", "--json"]).ok().json();
    assert_ne!(cleaned, serde_json::json!([]), "there is something to clean up");
    conforms("gc", &cleaned, &schemas["gc"]);

    let mut tried: Vec<&str> = seen.iter().map(|(name, _)| *name).collect();
    tried.extend(["agent-history", "logs", "sandbox-status", "slots"]);
    tried.sort_unstable();
    tried.dedup();
    assert_eq!(schemas.keys().collect::<Vec<_>>(), tried, "every schema is tried against a real output here");
}

/// A worktree whose services run.
fn with_services(instance: &Instance) -> PathBuf {
    let root = instance.work().join("shop");
    let infra = "[project]\nname = 'shop'\n[sandbox.health]\n[sandbox.ports]\nWEB = 20900\n";
    let services = "services:\n  web:\n    image: palisade-services\n    command: sh -c 'touch /www/index.html; exec httpd -f -h /www'\n    \
                    stop_grace_period: 0s\n    ports: ['${WEB}:80']\n";
    std::fs::create_dir_all(root.join(".devops-ai")).unwrap();
    std::fs::write(root.join(".devops-ai/infra.toml"), infra).unwrap();
    std::fs::write(root.join("docker-compose.yml"), services).unwrap();
    for line in ["init --quiet", "add .", "-c user.name=A -c user.email=a@b commit -qm services"] {
        let git = std::process::Command::new("git").args(line.split(' ')).current_dir(&root).status();
        assert!(git.unwrap().success());
    }
    Instance::finish(instance.command(["impl", "pay/M1"]).current_dir(&root)).ok();
    root.with_file_name("shop-impl-pay-M1")
}

fn schemas() -> BTreeMap<String, Value> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").unwrap();
    let directory = Path::new(&manifest).join("../../schemas/output");
    let read = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
    };
    std::fs::read_dir(directory).unwrap().map(|entry| read(entry.unwrap().path())).collect()
}

#[track_caller]
fn conforms(place: &str, value: &Value, schema: &Value) {
    if let Err(why) = check(place, value, schema) {
        panic!("{why}\nin {value:#}");
    }
}

/// As JSON Schema has it, for the words our schemas use; any other word is a failure, so that none is passed over.
/// Stricter in one thing: a field that the schema does not name is refused.
fn check(place: &str, value: &Value, schema: &Value) -> Result<(), String> {
    let object = schema.as_object().ok_or_else(|| format!("{place}: not a schema: {schema}"))?;
    for (word, rule) in object {
        let holds = match word.as_str() {
            "$schema" | "title" | "description" | "format" | "default" | "required" | "properties" => true,
            "type" => match rule {
                Value::Array(types) => types.iter().any(|name| has_type(value, name)),
                name => has_type(value, name),
            },
            "const" => value == rule,
            "enum" => rule.as_array().is_some_and(|values| values.contains(value)),
            // These say something about numbers and lists only.
            "minimum" => value.as_i64().is_none_or(|number| Some(number) >= rule.as_i64()),
            "maximum" => value.as_i64().is_none_or(|number| Some(number) <= rule.as_i64()),
            "minItems" => value.as_array().is_none_or(|list| Some(list.len() as u64) >= rule.as_u64()),
            "maxItems" => value.as_array().is_none_or(|list| Some(list.len() as u64) <= rule.as_u64()),
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(&format!("{place}[{index}]"), item, rule)?;
                }
                true
            }
            // For names that are not ours, such as those of variables.
            "additionalProperties" => {
                for (name, field) in value.as_object().into_iter().flatten() {
                    check(&format!("{place}.{name}"), field, rule)?;
                }
                true
            }
            "prefixItems" => {
                let (items, rules) =
                    (value.as_array().into_iter().flatten(), rule.as_array().into_iter().flatten());
                for (item, rule) in items.zip(rules) {
                    check(&format!("{place}[]"), item, rule)?;
                }
                true
            }
            "oneOf" | "anyOf" => rule.as_array().is_some_and(|rules| {
                rules.iter().any(|rule| check(place, value, &joined(object, rule)).is_ok())
            }),
            other => return Err(format!("{place}: this test does not know the word '{other}'")),
        };
        if !holds {
            return Err(format!("{place}: {value} is not {word} {rule}"));
        }
    }
    check_fields(place, value, object)
}

/// An alternative together with the fields that all of them have.
fn joined(schema: &serde_json::Map<String, Value>, alternative: &Value) -> Value {
    let mut joined = alternative.clone();
    for (name, rule) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        joined["properties"][name] = rule.clone();
    }
    joined
}

fn check_fields(place: &str, value: &Value, schema: &serde_json::Map<String, Value>) -> Result<(), String> {
    let (Some(fields), Some(Value::Object(rules))) = (value.as_object(), schema.get("properties")) else {
        return Ok(());
    };
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        if !name.as_str().is_some_and(|name| fields.contains_key(name)) {
            return Err(format!("{place}: {name} is missing"));
        }
    }
    for (name, field) in fields {
        let rule = match rules.get(name) {
            Some(rule) => rule,
            // One of the alternatives names it, see `joined`.
            None if schema.contains_key("oneOf") => continue,
            None => return Err(format!("{place}: {name} is not in the schema")),
        };
        check(&format!("{place}.{name}"), field, rule)?;
    }
    Ok(())
}

fn has_type(value: &Value, name: &Value) -> bool {
    match name.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => false,
    }
}

#[test]
fn the_comparison_with_a_schema_can_fail() {
    let schema = serde_json::json!({
        "type": "object",
        "properties": { "a": { "type": ["string", "null"] }, "b": { "oneOf": [{ "const": "x" }, { "const": "y" }] } },
        "required": ["a"],
    });
    let good = [serde_json::json!({ "a": null }), serde_json::json!({ "a": "1", "b": "y" })];
    for value in good {
        assert_eq!(check("it", &value, &schema), Ok(()));
    }
    let bad = ["[]", "{}", r#"{"a":1}"#, r#"{"a":"1","b":"z"}"#, r#"{"a":"1","c":0}"#];
    for text in bad {
        assert!(check("it", &serde_json::from_str(text).unwrap(), &schema).is_err(), "{text}");
    }
    assert!(check("it", &Value::Null, &serde_json::json!({ "pattern": "x" })).is_err());
}
