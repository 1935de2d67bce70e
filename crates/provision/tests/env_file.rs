//! What is written into an env file is what the real Compose reads from it, byte for byte.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot set its scene has failed, and says why it was skipped"
)]

use palisade_core::VariableName;
use palisade_provision::{LONGEST_VALUE, write_variable};
use palisade_testing::requires;
use proptest::prelude::*;
use std::process::Command;

/// Values that have bitten: each has a meaning somewhere between us and a container.
const KNOWN: &[&str] = &[
    "",
    " ",
    "plain",
    "a b",
    " lead",
    "trail ",
    "\ttab\t",
    "$X",
    "${X}",
    "${X:-y}",
    "$(id)",
    "`id`",
    "$$",
    "a$",
    "\\$x",
    "it's",
    "'",
    "''",
    "'quoted'",
    "\"",
    "\"\"",
    "\"quoted\"",
    "\\",
    "a\\",
    "\\\\",
    "\\'",
    "\\\"",
    "\\n",
    "\\r\\t\\u0041",
    "a\nb",
    "\n",
    "\n\nx\n",
    "cr\r\nlf",
    "\r",
    "'\r\n\"$x\\",
    "#c",
    "a #c",
    "a # 'c",
    "=",
    "a=b",
    "export A=b",
    "ü€😀",
    "\u{1}\u{7f}\u{85}",
    "\u{a0}x\u{a0}",
    "{\"a\": [\"$b\", 'c']}",
];

/// Each value as Compose gives it to a service.
fn read_back(values: &[String]) -> Vec<String> {
    let project = tempfile::tempdir().unwrap();
    let mut env_file = String::new();
    let mut compose = "services:\n  a:\n    image: x\n    environment:\n".to_owned();
    for (index, value) in values.iter().enumerate() {
        write_variable(&mut env_file, &VariableName::new(&format!("V{index}")).unwrap(), value).unwrap();
        compose += &format!("      V{index}: \"${{V{index}}}\"\n");
    }
    std::fs::write(project.path().join("env"), env_file).unwrap();
    std::fs::write(project.path().join("docker-compose.yml"), compose).unwrap();
    let rendered = Command::new("docker")
        .args(["compose", "--env-file", "env", "config", "--format", "json"])
        .current_dir(project.path())
        .output()
        .unwrap();
    assert!(rendered.status.success(), "{}", String::from_utf8_lossy(&rendered.stderr));
    let rendered: serde_json::Value = serde_json::from_slice(&rendered.stdout).unwrap();
    let environment = &rendered["services"]["a"]["environment"];
    let value = |index: usize| environment[format!("V{index}")].as_str().unwrap();
    // `config` writes a file that can be read again, in which a dollar sign is doubled.
    (0..values.len()).map(|index| value(index).replace("$$", "$")).collect()
}

#[test]
fn values_with_a_meaning_come_back_as_they_are() {
    requires!(compose);
    let values: Vec<String> = KNOWN.iter().map(|value| (*value).to_owned()).collect();
    assert_eq!(read_back(&values), values);
}

#[test]
fn a_value_as_long_as_a_variable_can_be_comes_back() {
    requires!(compose);
    let values = ["x".repeat(LONGEST_VALUE), "'$\\\n".repeat(16 * 1024)];
    assert!(read_back(&values) == values);
}

#[test]
fn any_text_comes_back() {
    requires!(compose);
    let text = "([$'\"\\\\#= \n\r\t{}()]|[^\u{0}]){0,12}";
    // Each case starts Compose once, for many values.
    let configuration = ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(configuration, |(values in prop::collection::vec(text, 150))| {
        prop_assert_eq!(read_back(&values), values);
    });
}
