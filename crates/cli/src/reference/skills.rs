//! The skills that agents are given: every command line in them is one that this program takes.

use super::repository;
use crate::arguments::Cli;
use clap::CommandFactory;

/// The lines of a document's shell blocks that call this program, as a shell splits them.
fn command_lines(document: &str) -> Vec<Vec<String>> {
    let blocks = document.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines = blocks.flat_map(str::lines).filter(|line| line.starts_with("palisade "));
    lines.map(words).collect()
}

/// Blanks separate, single quotes hold together.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (index, part) in line.split('\'').enumerate() {
        let mut pieces = if index % 2 == 1 { vec![part] } else { part.split(' ').collect() };
        let rest = pieces.split_off(1);
        words.last_mut().expect("a word").push_str(pieces[0]);
        words.extend(rest.into_iter().map(str::to_owned));
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn every_command_line_in_a_skill_is_one_that_this_program_takes() {
    let directory = repository().join("skills");
    let mut seen = 0;
    for entry in std::fs::read_dir(directory).expect("the skills") {
        let path = entry.expect("an entry").path().join("SKILL.md");
        let text = std::fs::read_to_string(&path).expect("a skill");
        assert!(text.starts_with("---\nname: ") && text.contains("\ndescription: "), "{}", path.display());
        for line in command_lines(&text) {
            let parsed = Cli::command().try_get_matches_from(&line);
            assert!(parsed.is_ok(), "{}: {line:?}: {}", path.display(), parsed.expect_err("refused"));
            seen += 1;
        }
    }
    assert!(seen > 2, "the command lines were not found");
    assert_eq!(words("palisade a 'b c' --d='e $f'"), ["palisade", "a", "b c", "--d=e $f"]);
}
