//! Commands of this program that its messages name: each is one that the program takes, so that it works when it is
//! copied to a prompt.

use super::command;
use super::sources::{Strings, of_the_program};
use clap::error::ErrorKind;

/// What ends a command within a sentence.
const ENDS: [&str; 13] =
    ["`", ";", ",", ")", "\n", ": ", " && ", " or ", " then ", " again", " starts", " tells", " on the host"];

/// A command that a message names.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    line: String,
    /// Whether it may stand for the command as such, without what it needs.
    is_name: bool,
}

/// The commands that a message names, with words in place of what is only known when it is shown.
fn commands(message: &str) -> Vec<Named> {
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let named = |(at, _): (usize, &str)| {
        let (before, rest) = message.split_at(at);
        let leads =
            [": ", "(", "; ", ", ", " see ", " use ", " then "].iter().any(|end| before.ends_with(end));
        let sentence = rest
            .match_indices(". ")
            .find(|(end, _)| rest[end + 2..].starts_with(|next: char| next.is_uppercase()));
        let ends = ENDS.iter().filter_map(|end| rest.find(end)).chain(sentence.map(|(end, _)| end));
        let line = filled(rest[..ends.min().unwrap_or(rest.len())].trim_end_matches('.'));
        let is_known =
            || command().get_subcommands().any(|known| line.split(' ').nth(1) == Some(known.get_name()));
        let is_quoted = before.ends_with('`');
        // A text may begin with the name of the program and go on with anything.
        let counts = is_quoted || leads || is_known();
        // Within a sentence, as in "copy it with palisade cp", it may be only a name.
        let is_name = is_quoted || (!leads && !before.is_empty());
        counts.then_some(Named { line, is_name })
    };
    message.match_indices("palisade ").filter_map(named).collect()
}

/// `{name}` and `NAME` become a word; what is glued to a word is left out.
fn filled(command: &str) -> String {
    let mut text = String::new();
    let mut rest = command;
    while let Some((before, behind)) = rest.split_once('{') {
        text.push_str(before);
        if before.ends_with([' ', '/', '\'']) {
            text.push('x');
        }
        rest = behind.split_once('}').map_or("", |(_, rest)| rest);
    }
    text.push_str(rest);
    let is_placeholder = |word: &str| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    let word = |word: &str| {
        let parts = word.split('/').map(|part| if is_placeholder(part) { "x" } else { part });
        parts.collect::<Vec<_>>().join("/")
    };
    let line = text.split(' ').map(word).collect::<Vec<_>>().join(" ");
    // These take a feature, which has two words.
    line.replace("palisade done x", "palisade done x/x").replace("x/x/x", "x/x")
}

#[test]
fn every_command_that_a_message_names_is_one_that_this_program_takes() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    let whole = command();
    for message in Strings::of(&of_the_program()).literals {
        for Named { line, is_name } in commands(&message) {
            // `help` is rewritten before anything is parsed; a placeholder stands for any command.
            if line.starts_with("palisade help") || line.starts_with("palisade x") || line.contains('…') {
                continue;
            }
            seen += 1;
            let Err(error) = whole.clone().try_get_matches_from(line.split(' ')) else { continue };
            let is_incomplete = matches!(
                error.kind(),
                ErrorKind::MissingRequiredArgument
                    | ErrorKind::InvalidValue
                    | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            );
            if error.exit_code() != 0 && !(is_name && is_incomplete) {
                wrong.push(format!("{line}: {}", error.to_string().lines().next().unwrap_or_default()));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
    assert!(seen > 60, "only {seen} commands were found");
}

#[test]
fn commands_are_found_within_sentences() {
    let found =
        |message: &str| -> Vec<String> { commands(message).into_iter().map(|named| named.line).collect() };
    assert_eq!(
        found("stop it first (palisade stop {0}), or use palisade rm --force {0}; see `palisade ls`"),
        ["palisade stop x", "palisade rm --force x", "palisade ls"]
    );
    assert_eq!(found("go on: palisade agent sync{worktree} {name}, then NAME"), ["palisade agent sync x"]);
    assert_eq!(found("take one: palisade impl NAME/MILESTONE"), ["palisade impl x/x"]);
    assert_eq!(found("as in: palisade wrap -w . -- claude. Then go on"), ["palisade wrap -w . -- claude"]);
    assert_eq!(found("this palisade knows version 2"), [""; 0]);
    assert_eq!(found("copy it with palisade cp, or not"), ["palisade cp"]);
}
