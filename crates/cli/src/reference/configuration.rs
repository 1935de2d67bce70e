//! `docs/reference/config.md`: every key, from the one table of settings.

use super::markdown::{code, codes, heading, table};
use palisade_config::{KEYS, KeyDoc, PROJECT_FILE, ProjectRule};

pub(super) fn page() -> String {
    let mut text = heading("Settings");
    text.push_str(&format!(
        "Settings are TOML. Later wins: built-in defaults, `{}`, `$XDG_CONFIG_HOME/palisade/config.toml`,\n\
         the project's `{PROJECT_FILE}`, the environment, the command line. `palisade config show --origin` shows\n\
         every value in force and where it came from. An unknown key is an error, with the key that was probably\n\
         meant; all problems are told at once, with exit code 3.\n\n",
        crate::context::SYSTEM_CONFIG,
    ));
    let rows = KEYS.iter().map(|doc| {
        [
            codes(doc.spellings()),
            doc.kind.to_owned(),
            code(doc.default),
            doc.help.to_owned(),
            doc.environment.map(code).unwrap_or_default(),
            doc.flag.map(code).unwrap_or_default(),
            rule(doc.project).to_owned(),
        ]
    });
    let header = ["key", "value", "default", "meaning", "variable", "option", "in a project's file"];
    text.push_str(&table(header, rows));
    text.push_str(
        "\n## A project's file\n\n\
         It is found in the current directory or above it, and from a linked git worktree in the main repository. It\n\
         comes with the code and may be hostile, so it can narrow what a sandbox gets and not widen it, until\n\
         `palisade trust` says so. Trust is pinned to the SHA-256 of the file: any change takes it away. What a file\n\
         asks for beyond the user's own settings without being trusted ends the command with exit code 3; nothing is\n\
         silently left out.\n\n",
    );
    text.push_str(&table(
        ["in the table above", "what a project's file may do"],
        [ProjectRule::Narrow, ProjectRule::Trusted, ProjectRule::Free, ProjectRule::Never]
            .map(|known| [rule(known).to_owned(), explained(known).to_owned()]),
    ));
    text.push_str(&format!("\n## Example\n\n```toml\n{}```\n", example()));
    text
}

fn rule(rule: ProjectRule) -> &'static str {
    match rule {
        ProjectRule::Narrow => "narrower",
        ProjectRule::Trusted => "when trusted",
        ProjectRule::Free => "freely",
        ProjectRule::Never => "never",
    }
}

fn explained(rule: ProjectRule) -> &'static str {
    match rule {
        ProjectRule::Narrow => {
            "set a value that is narrower than the user's own; a wider one only when trusted"
        }
        ProjectRule::Trusted => "set it only when trusted, because any value shows more of the host",
        ProjectRule::Free => "set it, because it does not touch the policy",
        ProjectRule::Never => "nothing, trusted or not",
    }
}

/// Every default as a file would have it.
fn example() -> String {
    let line = |doc: &KeyDoc| {
        let key = doc.key.rsplit('.').next().unwrap_or(doc.key);
        format!("{key} = {}\n", value(doc.default))
    };
    let section = |doc: &KeyDoc| doc.key.split_once('.').map(|(section, _)| section);
    let mut text: String = KEYS.iter().filter(|doc| section(doc).is_none()).map(line).collect();
    let mut current = None;
    for doc in KEYS.iter().filter(|doc| section(doc).is_some()) {
        if section(doc) != current {
            current = section(doc);
            text.push_str(&format!("\n[{}]\n", current.unwrap_or_default()));
        }
        text.push_str(&line(doc));
    }
    text
}

fn value(default: &str) -> String {
    let plain = default.parse::<f64>().is_ok() || ["true", "false"].contains(&default);
    let plain = plain || default.starts_with(['[', '{']);
    match default {
        text if plain => text.to_owned(),
        // Nothing is special between these quotes.
        text if text.contains('\\') => format!("'{text}'"),
        text => format!("\"{text}\""),
    }
}

#[test]
fn the_example_of_the_page_is_a_file_that_reads_as_the_defaults() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("config.toml");
    std::fs::write(&file, example()).expect("write the example");
    let sources = palisade_config::Sources { user: Some(file), ..Default::default() };
    let values = |settings: palisade_config::Settings| -> Vec<(&str, String)> {
        settings.entries().into_iter().map(|entry| (entry.key, entry.value)).collect()
    };
    let read = palisade_config::load(&sources).expect("the example is a good file");
    assert_eq!(values(read), values(palisade_config::Settings::default()));
}
