//! A `.env` file that anybody wrote, through our reader. Nothing it says is longer or more than a session can have, every
//! line that is left out is one of the file's, what is in single quotes is taken as it is, and what was read, written
//! down plainly, reads back.

use palisade_agents::dotenv::{LONGEST, MOST, MOST_VARIABLES, Said, parse};
use palisade_core::VariableName;
use std::collections::BTreeSet;

/// What is there before the file.
fn known(name: &str) -> Option<String> {
    (name == "KNOWN").then(|| "from around".to_owned())
}

pub fn check(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let said = parse(&text, &known);
    let lines = text.matches('\n').count() + 1;
    assert!(said.left_out.len() <= lines && said.variables.len() <= lines.min(MOST_VARIABLES));
    assert!(said.left_out.iter().all(|left| (1..=lines).contains(&left.line)), "{:?}", said.left_out);
    assert!(said.left_out.windows(2).all(|pair| pair[0].line < pair[1].line), "{:?}", said.left_out);
    let names: BTreeSet<&str> = said.variables.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), said.variables.len(), "a name has two values");
    for (_, value) in &said.variables {
        assert!(value.len() <= LONGEST && !value.contains('\0'), "{} bytes", value.len());
    }
    let bytes: usize = said.variables.iter().map(|(_, value)| value.len()).sum();
    // What is in single quotes is as long as it is in the file, and what escapes stand for is shorter.
    assert!(bytes <= MOST + text.len(), "{bytes} bytes of {}", text.len());
    assert_eq!(parse(&written(&said), &|_| None), Said { left_out: Vec::new(), ..said });
}

/// In single quotes, or, where a value has one, in double quotes with everything escaped that can be.
fn written(said: &Said) -> String {
    let escaped = |letter: char| match letter {
        '\\' | '"' | '$' => format!("\\{letter}"),
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        other => other.to_string(),
    };
    let line = |(name, value): &(VariableName, String)| match value.contains('\'') {
        false => format!("{name}='{value}'\n"),
        true => format!("{name}=\"{}\"\n", value.chars().map(escaped).collect::<String>()),
    };
    said.variables.iter().map(line).collect()
}
