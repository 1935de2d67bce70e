//! `docs/reference/cli.md`: every command and option, from the parser itself.

use super::markdown::{code, codes, heading, sentence, table};
use clap::{Arg, Command};

pub(super) fn page(root: &Command) -> String {
    let mut text = heading("Commands");
    let commands = visible(root);
    text.push_str("`palisade help COMMAND` shows this page's part about a command. Every command also has a manual page: `man\npalisade`, `man palisade-run`.\n\n");
    text.push_str(&table(
        ["command", "what it does"],
        commands.iter().map(|command| [link(command), sentence(&about(command))]),
    ));
    text.push_str("\n## Global options\n\nThey may stand before or after the command.\n\n");
    text.push_str(&options(root.get_arguments().filter(|argument| argument.is_global_set())));
    for command in commands {
        text.push_str(&section(command));
    }
    text
}

/// The command and all below it that a user may call and that do something themselves.
pub(super) fn visible(command: &Command) -> Vec<&Command> {
    let mut found = Vec::new();
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        // Some commands with subcommands do something by themselves, too.
        if !command.has_subcommands() || command.is_args_conflicts_with_subcommands_set() {
            found.push(command);
        }
        found.extend(visible(command));
    }
    found
}

/// The name with those of the commands above it, such as `palisade config show`.
pub(super) fn full_name(command: &Command) -> &str {
    command.get_bin_name().unwrap_or(command.get_name())
}

fn link(command: &Command) -> String {
    let name = full_name(command);
    format!("[`{name}`](#{})", name.replace(' ', "-"))
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

fn section(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let described = command.get_long_about().map_or_else(|| about(command), ToString::to_string);
    let mut text = format!("\n## {}\n\n", full_name(command));
    for paragraph in described.split("\n\n") {
        text.push_str(&format!("{}\n\n", sentence(paragraph)));
    }
    text.push_str(&format!("```\n{usage}\n```\n"));
    let own =
        |argument: &&Arg| !argument.is_global_set() && !argument.is_hide_set() && argument.get_id() != "help";
    let (positional, named): (Vec<&Arg>, Vec<&Arg>) =
        command.get_arguments().filter(own).partition(|argument| argument.is_positional());
    if !positional.is_empty() {
        let rows = positional.into_iter().map(|argument| [code(&argument.to_string()), meaning(argument)]);
        text.push_str(&format!("\n{}", table(["argument", "meaning"], rows)));
    }
    if !named.is_empty() {
        text.push_str(&format!("\n{}", options(named.into_iter())));
    }
    text
}

fn options<'a>(arguments: impl Iterator<Item = &'a Arg>) -> String {
    table(["option", "meaning"], arguments.map(|argument| [spellings(argument), meaning(argument)]))
}

fn spellings(argument: &Arg) -> String {
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long_and_visible_aliases().unwrap_or_default();
    let mut names: Vec<String> =
        short.into_iter().chain(long.iter().map(|long| format!("--{long}"))).collect();
    if let (true, Some(last)) = (argument.get_action().takes_values(), names.last_mut()) {
        let values = argument.get_value_names().unwrap_or_default();
        last.extend(values.iter().map(|value| format!(" {value}")));
    }
    codes(names)
}

fn meaning(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string);
    let mut parts = vec![sentence(&help.unwrap_or_default())];
    let takes_values = argument.get_action().takes_values();
    let default: Vec<String> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if takes_values && !default.is_empty() {
        parts.push(format!("Default: {}.", codes(default)));
    }
    let possible: Vec<String> =
        argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if takes_values && !possible.is_empty() {
        parts.push(format!("Possible: {}.", codes(possible)));
    }
    if argument.is_required_set() && !argument.is_positional() {
        parts.push("Required.".into());
    }
    if takes_values && !argument.is_positional() && matches!(argument.get_action(), clap::ArgAction::Append) {
        parts.push("May be given more than once.".into());
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" ")
}
