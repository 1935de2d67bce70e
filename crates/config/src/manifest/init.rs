//! Which init commands an environment takes, as a pure function of its patterns.
//!
//! It helps the author of a lesson and is no fence: a shell has more ways to say a thing than patterns can name. What
//! keeps a command in bounds is the sandbox it runs in.

use super::time_limit::TimeLimit;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// Where init commands run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum InitMode {
    /// In the learner's own shell, which keeps variables and the directory.
    #[default]
    Shell,
    /// Each by itself, before the environment's command starts: that is no shell.
    Exec,
}

impl InitMode {
    pub fn as_str(self) -> &'static str {
        match self {
            InitMode::Shell => "shell",
            InitMode::Exec => "exec",
        }
    }
}

impl FromStr for InitMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "shell" => Ok(InitMode::Shell),
            "exec" => Ok(InitMode::Exec),
            _ => Err(format!("'{}' is no init mode; possible are shell, exec", text.escape_debug())),
        }
    }
}

/// What an environment says about init commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Init {
    pub mode: InitMode,
    pub timeout: TimeLimit,
    /// Without it everything is allowed.
    pub allowed: Option<Rule>,
    pub denied: Vec<Rule>,
}

/// How long init commands may take together when nobody says.
const TIMEOUT: TimeLimit = TimeLimit::seconds(60);

impl Default for Init {
    fn default() -> Self {
        Self { mode: InitMode::default(), timeout: TIMEOUT, allowed: None, denied: Vec::new() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rule {
    pub patterns: Vec<Pattern>,
    /// What the author of a refused command is told.
    pub message: Option<String>,
}

/// A command with gaps: `*` stands for any text, and one that ends in ` *` also matches the command without arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Pattern(String);

/// Longer than any command one would want to name; matching takes time in proportion.
const LONGEST_PATTERN: usize = 200;

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() || text.chars().any(char::is_control) || text.len() > LONGEST_PATTERN {
            let shown = super::read::abridged(text);
            return Err(format!("'{shown}' is no pattern; write a command such as \"git *\""));
        }
        Ok(Self(words.join(" ")))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Pattern {
    fn matches(&self, command: &str) -> bool {
        let alone = self.0.strip_suffix(" *").is_some_and(|bare| fits(bare, command));
        alone || fits(&self.0, command)
    }
}

/// Whether text fits a pattern in which `*` is any text: what stands between stars is found from left to right.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(first) else { return false };
    let Some((middle, last)) = rest.rsplit_once('*') else { return text.ends_with(rest) };
    let Some(mut text) = text.strip_suffix(last) else { return false };
    for part in middle.split('*') {
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// One init command that an environment does not take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Refusal {
    /// As it was given.
    pub command: String,
    /// The part of it that is refused.
    pub part: String,
    pub message: String,
}

impl Init {
    /// Every command that is not taken, each once, with the message of the first rule that refuses it. What is denied
    /// is denied even when it is allowed.
    pub fn refusals<S: AsRef<str>>(&self, commands: &[S]) -> Vec<Refusal> {
        commands.iter().filter_map(|command| self.refusal(command.as_ref())).collect()
    }

    fn refusal(&self, command: &str) -> Option<Refusal> {
        parts(command).into_iter().find_map(|part| {
            let message = self.objection(&part)?;
            Some(Refusal { command: command.to_owned(), part, message })
        })
    }

    fn objection(&self, part: &str) -> Option<String> {
        for rule in &self.denied {
            if let Some(pattern) = rule.patterns.iter().find(|pattern| pattern.matches(part)) {
                let own = || format!("init commands like '{pattern}' are not allowed in this environment");
                return Some(rule.message.clone().unwrap_or_else(own));
            }
        }
        let allowed = self.allowed.as_ref()?;
        if allowed.patterns.iter().any(|pattern| pattern.matches(part)) {
            return None;
        }
        let own = || {
            let known: Vec<&str> = allowed.patterns.iter().map(|pattern| pattern.0.as_str()).collect();
            format!("this environment takes only these init commands: {}", known.join(", "))
        };
        Some(allowed.message.clone().unwrap_or_else(own))
    }
}

/// The simple commands of a line: cut at `;`, `&`, `|` and newlines outside of quotes, blanks made one, and without the
/// variables that are set in front. Nothing is left of an empty line.
fn parts(line: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            (';' | '&' | '|' | '\n', None) => {
                parts.push(String::new());
                continue;
            }
            ('\'' | '"', None) => quote = Some(letter),
            (closing, Some(open)) if closing == open => quote = None,
            _ => {}
        }
        let Some(part) = parts.last_mut() else { continue };
        part.push(letter);
        if letter == '\\' && quote != Some('\'') {
            part.extend(letters.next());
        }
    }
    parts.iter().map(|part| bare(part)).filter(|part| !part.is_empty()).collect()
}

fn bare(part: &str) -> String {
    let is_assignment = |word: &&str| {
        word.split_once('=').is_some_and(|(name, _)| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
    };
    let words: Vec<&str> = part.split_whitespace().skip_while(is_assignment).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(patterns: &[&str], message: Option<&str>) -> Rule {
        Rule {
            patterns: patterns.iter().map(|pattern| pattern.parse().unwrap()).collect(),
            message: message.map(str::to_owned),
        }
    }

    #[test]
    fn a_pattern_matches_the_whole_command() {
        for (pattern, command, matches) in [
            ("git *", "git init", true),
            ("git *", "git", true),
            ("git *", "gitk", false),
            ("git *", "sudo git init", false),
            ("npm install", "npm install", true),
            ("npm install", "npm install x", false),
            ("*", "anything at all", true),
            ("* --force", "git push --force", true),
            ("* --force", "git push --forced", false),
            ("a*b*c", "abc", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("ab*ba", "aba", false),
            ("echo é*", "echo éa", true),
        ] {
            assert_eq!(
                pattern.parse::<Pattern>().unwrap().matches(command),
                matches,
                "{pattern} on {command}"
            );
        }
    }

    #[test]
    fn a_pattern_is_a_line_of_bounded_length() {
        for bad in ["", "  ", "a\nb", &"x".repeat(201)] {
            assert!(bad.parse::<Pattern>().is_err(), "{bad:?}");
        }
        assert_eq!("  git   * ".parse::<Pattern>().unwrap().to_string(), "git *");
    }

    #[test]
    fn every_simple_command_of_a_line_is_looked_at() {
        for (line, found) in [
            ("git init", vec!["git init"]),
            ("cd app && npm\tinstall", vec!["cd app", "npm install"]),
            ("a; b | c || d & e\nf", vec!["a", "b", "c", "d", "e", "f"]),
            ("echo 'a; b' \"c && d\" e\\;f", vec!["echo 'a; b' \"c && d\" e\\;f"]),
            ("echo 'it\\'; npm i", vec!["echo 'it\\'", "npm i"]),
            ("NODE_ENV=test A= npm i", vec!["npm i"]),
            ("", vec![]),
            ("X=1", vec![]),
            ("echo 'open", vec!["echo 'open"]),
            ("trailing \\", vec!["trailing \\"]),
        ] {
            assert_eq!(parts(line), found, "{line:?}");
        }
    }

    #[test]
    fn what_is_denied_is_told_with_its_own_message_and_wins_over_what_is_allowed() {
        let npm = "npm commands not allowed in init (use yarn or pnpm)";
        let init = Init {
            allowed: Some(rule(&["git *", "npm *"], None)),
            denied: vec![rule(&["npm *"], Some(npm)), rule(&["git push *"], None)],
            ..Init::default()
        };
        let refusal = |command: &str, part: &str, message: &str| Refusal {
            command: command.into(),
            part: part.into(),
            message: message.into(),
        };
        assert_eq!(
            init.refusals(&["git init", "cd x; npm i", "git init && npm i", "git push origin", ""]),
            [
                refusal(
                    "cd x; npm i",
                    "cd x",
                    "this environment takes only these init commands: git *, npm *"
                ),
                refusal("git init && npm i", "npm i", npm),
                refusal(
                    "git push origin",
                    "git push origin",
                    "init commands like 'git push *' are not allowed in this environment"
                ),
            ]
        );
        assert_eq!(Init::default().refusals(&["rm -rf /"]), []);
    }
}
