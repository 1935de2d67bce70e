//! What Palisade knows of an agent: how to start it without anybody to answer its questions, and what it needs. A
//! profile is data, in the same form whether it is built in or a user's own.

use palisade_core::{SecretReference, VariableName};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// In a profile's task command, the word that the task takes the place of.
const TASK: &str = "{task}";
/// In its other commands, the word that a conversation's id takes the place of.
const CONVERSATION: &str = "{conversation}";

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    pub name: String,
    pub description: String,
    /// The program that must be found inside.
    pub program: String,
    pub interactive: Vec<String>,
    /// With the task in the place of the word `{task}`.
    pub task: Vec<String>,
    /// Added to the interactive command to continue a conversation, with its id in the place of `{conversation}`.
    #[serde(default)]
    pub resume: Vec<String>,
    /// Continues a conversation with a task and ends.
    #[serde(default)]
    pub resume_task: Vec<String>,
    /// The files below the home in which it keeps its conversations; their names end with the id.
    #[serde(default)]
    pub conversations: Option<String>,
    /// Why it is right here that it asks for no permission.
    pub unattended: String,
    /// Hosts that it cannot work without.
    #[serde(default)]
    pub endpoints: Vec<String>,
    pub install: Option<Install>,
    #[serde(default)]
    pub login: Login,
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Files that its home has from the start.
    #[serde(default)]
    pub home: Vec<HomeFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub enum Install {
    /// A package of the npm registry.
    Npm(String),
    /// A program that the user has and names.
    Path(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// Variables that are handed in when they are set on the host: keys and long-lived tokens, never files with
    /// tokens that are good for one refresh.
    #[serde(default)]
    pub variables: Vec<String>,
    /// Where variables come from when they are not set under their own names; one that is named here must be there.
    #[serde(default, deserialize_with = "references")]
    pub from: BTreeMap<String, SecretReference>,
    #[serde(default)]
    pub how: String,
}

impl Login {
    /// Every variable of the login.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let named = self.variables.iter().filter(|name| !self.from.contains_key(*name));
        named.chain(self.from.keys()).map(String::as_str)
    }
}

/// What is written may be a secret, so no refusal repeats it.
fn references<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, SecretReference>, D::Error> {
    let texts = BTreeMap::<String, String>::deserialize(from)?;
    let mut found = BTreeMap::new();
    for (name, text) in texts {
        VariableName::new(&name).map_err(D::Error::custom)?;
        let refused = |error| D::Error::custom(format!("login.from.{name}: {error}"));
        found.insert(name.clone(), SecretReference::parse(&text).map_err(refused)?);
    }
    Ok(found)
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HomeFile {
    /// Below the sandbox's home.
    pub path: String,
    /// `{tail:NAME}` stands for the last characters of a login variable: an agent may know by them which keys its user
    /// has agreed to, and would ask otherwise.
    pub text: String,
    /// Only when this variable of the login is set. Of several files for one path, the first that may be written is.
    #[serde(default)]
    pub when: Option<String>,
}

/// As many characters as Claude Code keeps of a key.
const TAIL: usize = 20;

impl HomeFile {
    /// The text with tails filled in; a variable that is not set has an empty one.
    pub(crate) fn rendered(&self, variable: &dyn Fn(&str) -> Option<String>) -> String {
        let mut text = String::new();
        let mut rest = self.text.as_str();
        while let Some((before, after)) = rest.split_once("{tail:") {
            let Some((name, after)) = after.split_once('}') else { break };
            let value = variable(name).unwrap_or_default();
            let characters: Vec<char> = value.chars().collect();
            text.push_str(before);
            text.extend(&characters[characters.len().saturating_sub(TAIL)..]);
            rest = after;
        }
        text + rest
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProfile {
    #[error("{origin}: {reason}")]
    Form { origin: String, reason: String },
    #[error("{origin}: {field} {reason}")]
    Field { origin: String, field: &'static str, reason: String },
}

impl Profile {
    /// Reads a profile; `origin` names it in errors.
    pub fn parse(origin: &str, text: &str) -> Result<Self, InvalidProfile> {
        // The error's own form shows the line, and a line may hold a secret.
        let profile: Profile = toml_edit::de::from_str(text).map_err(|error| InvalidProfile::Form {
            origin: match error.span() {
                Some(span) => {
                    format!("{origin}:{}", text[..span.start.min(text.len())].matches('\n').count() + 1)
                }
                None => origin.into(),
            },
            reason: palisade_core::one_line(error.message()),
        })?;
        profile.objection().map_or(Ok(profile.clone()), |(field, reason)| {
            Err(InvalidProfile::Field { origin: origin.into(), field, reason })
        })
    }

    fn objection(&self) -> Option<(&'static str, String)> {
        if let Err(error) = palisade_core::SandboxName::new(&self.name) {
            return Some(("name", error.to_string().replace("sandbox name", "name")));
        }
        if self.interactive.is_empty() {
            return Some(("interactive", "is empty".into()));
        }
        if self.task.iter().filter(|word| *word == TASK).count() != 1 {
            return Some(("task", format!("needs the word {TASK} once")));
        }
        let resume_task = &self.resume_task;
        if !resume_task.is_empty() && resume_task.iter().filter(|word| *word == TASK).count() != 1 {
            return Some(("resume_task", format!("needs the word {TASK} once")));
        }
        let names_id = |words: &[String]| words.iter().any(|word| word == CONVERSATION);
        if self.conversations.is_none() && (names_id(&self.resume) || names_id(resume_task)) {
            return Some((
                "conversations",
                "is missing: it says where the ids of conversations are found".into(),
            ));
        }
        let bad = self.home.iter().find(|file| !is_below(&file.path))?;
        Some(("home", format!("has a file that is not below the home: {}", bad.path.escape_debug())))
    }

    /// The command for a person, from the start or from where a conversation ended.
    pub fn interactive_command(&self, begin: &Begin) -> Vec<String> {
        match begin {
            Begin::New => self.interactive.clone(),
            Begin::Resume(id) => {
                self.interactive.iter().chain(&self.resume).map(|word| with_id(word, id)).collect()
            }
        }
    }

    /// Whether it can continue a conversation with a task.
    pub fn can_resume_with_task(&self) -> bool {
        !self.resume_task.is_empty()
    }

    /// The files of the home for somebody who is signed in by these variables.
    pub(crate) fn home_for(&self, variable: &dyn Fn(&str) -> Option<String>) -> Vec<&HomeFile> {
        let mut files: Vec<&HomeFile> = Vec::new();
        for file in &self.home {
            let is_set = file.when.as_ref().is_none_or(|name| variable(name).is_some());
            if is_set && files.iter().all(|known| known.path != file.path) {
                files.push(file);
            }
        }
        files
    }

    /// The command that works on one task and ends.
    pub fn task_command(&self, task: &str, begin: &Begin) -> Vec<String> {
        let with_task = |word: &String| if word == TASK { task.to_owned() } else { word.clone() };
        match begin {
            Begin::New => self.task.iter().map(with_task).collect(),
            Begin::Resume(id) => {
                self.resume_task.iter().map(|word| with_id(word, id)).map(|word| with_task(&word)).collect()
            }
        }
    }
}

fn with_id(word: &str, id: &Option<String>) -> String {
    match id {
        Some(id) if word == CONVERSATION => id.clone(),
        _ => word.to_owned(),
    }
}

/// How an agent begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begin {
    New,
    /// With an earlier conversation: by its id, or by what the agent itself takes for the last.
    Resume(Option<String>),
}

fn is_below(path: &str) -> bool {
    let good =
        |part: &str| !part.is_empty() && part != "." && part != ".." && !part.chars().any(char::is_control);
    path.split('/').all(good)
}

const BUILT_IN: [(&str, &str); 6] = [
    ("claude", include_str!("../profiles/claude.toml")),
    ("codex", include_str!("../profiles/codex.toml")),
    ("demo", include_str!("../profiles/demo.toml")),
    ("gemini", include_str!("../profiles/gemini.toml")),
    ("kiro", include_str!("../profiles/kiro.toml")),
    ("shell", include_str!("../profiles/shell.toml")),
];

/// The profiles there are. A user's own replaces a built-in one of the same name.
#[derive(Debug, Clone, Default)]
pub struct Profiles(BTreeMap<String, Profile>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no agent '{name}'; there are {known}")]
pub struct UnknownAgent {
    pub name: String,
    pub known: String,
    pub near: Option<String>,
}

impl Profiles {
    /// `own` are a user's profiles: where each comes from, and its text.
    pub fn load<'a>(own: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, InvalidProfile> {
        let mut profiles = BTreeMap::new();
        for (origin, text) in BUILT_IN.into_iter().chain(own) {
            let profile = Profile::parse(origin, text)?;
            profiles.insert(profile.name.clone(), profile);
        }
        Ok(Self(profiles))
    }

    pub fn get(&self, name: &str) -> Result<&Profile, UnknownAgent> {
        self.0.get(name).ok_or_else(|| {
            let near = self.0.keys().filter(|known| strsim::damerau_levenshtein(known, name) <= 2);
            UnknownAgent {
                name: palisade_core::printable(name),
                known: self.0.keys().cloned().collect::<Vec<_>>().join(", "),
                near: near.min_by_key(|known| strsim::damerau_levenshtein(known, name)).cloned(),
            }
        })
    }

    pub fn all(&self) -> impl Iterator<Item = &Profile> {
        self.0.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = r#"
name = "mine"
description = "my own"
program = "mine"
interactive = ["mine"]
task = ["mine", "--do", "{task}"]
unattended = "it never asks"
"#;

    #[test]
    fn the_built_in_profiles_are_good_and_named_as_their_files() {
        let profiles = Profiles::load([]).unwrap();
        let names: Vec<&str> = profiles.all().map(|profile| profile.name.as_str()).collect();
        assert_eq!(names, BUILT_IN.map(|(name, _)| name));
    }

    #[test]
    fn a_users_profile_joins_or_replaces() {
        let again = OWN.replace("\"mine\"", "\"claude\"");
        let profiles = Profiles::load([("a.toml", OWN), ("b.toml", again.as_str())]).unwrap();
        assert_eq!(profiles.get("claude").unwrap().description, "my own");
        assert_eq!(
            profiles.get("mine").unwrap().task_command("fix it", &Begin::New),
            ["mine", "--do", "fix it"]
        );
        let codex = profiles.get("codex").unwrap();
        let resume = Begin::Resume(Some("an-id".into()));
        assert_eq!(codex.interactive_command(&resume)[2..], ["resume", "an-id"]);
        assert_eq!(codex.interactive_command(&Begin::New), codex.interactive);
        let task = codex.task_command("{conversation}", &resume);
        assert_eq!(task[task.len() - 2..], ["an-id", "{conversation}"], "a task stays as it is");
    }

    #[test]
    fn the_tail_of_a_key_is_filled_in_and_nothing_else_of_it() {
        let file =
            HomeFile { path: "f".into(), text: "a {tail:KEY} b {tail:NONE} {tail:".into(), when: None };
        let variable = |name: &str| (name == "KEY").then(|| "secret-0123456789012345".to_owned());
        assert_eq!(file.rendered(&variable), "a ret-0123456789012345 b  {tail:");
    }

    #[test]
    fn of_several_files_for_one_path_the_first_whose_variable_is_set_is_written() {
        let profiles = Profiles::load([]).unwrap();
        let codex = profiles.get("codex").unwrap();
        let condition = |set: &[&str]| -> Vec<Option<&str>> {
            let variable = |name: &str| set.contains(&name).then(|| "x".to_owned());
            codex.home_for(&variable).iter().map(|file| file.when.as_deref()).collect()
        };
        assert_eq!(condition(&["OPENAI_API_KEY"]), [Some("OPENAI_API_KEY")]);
        assert_eq!(condition(&["OPENAI_API_KEY", "CODEX_API_KEY"]), [Some("CODEX_API_KEY")]);
        assert_eq!(condition(&[]), [None]);
    }

    #[test]
    fn an_unknown_agent_is_told_with_what_there_is() {
        let error = Profiles::load([]).unwrap().get("cluade").unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no agent 'cluade'; there are claude, codex, demo, gemini, kiro, shell"
        );
        assert_eq!(error.near.as_deref(), Some("claude"));
    }

    #[test]
    fn a_bad_profile_is_told_by_file_and_field() {
        let told = |text: &str| Profile::parse("p.toml", text).unwrap_err().to_string();
        assert!(told(&format!("{OWN}\ntypo = 1")).contains("typo"), "{}", told(&format!("{OWN}\ntypo = 1")));
        assert_eq!(told(&OWN.replace("{task}", "task")), "p.toml: task needs the word {task} once");
        let login = told(&format!("{OWN}\n[login.from]\nKEY = '$canary-secret'"));
        assert!(login.contains("login.from.KEY: it begins with '$'") && !login.contains("canary"), "{login}");
        let open = told(&format!("{OWN}\n[login.from]\nKEY = 'canary-secret"));
        assert!(open.starts_with("p.toml:") && !open.contains("canary"), "{open}");
        let home = format!("{OWN}\n[[home]]\npath = \"../x\"\ntext = \"\"");
        assert_eq!(told(&home), "p.toml: home has a file that is not below the home: ../x");
    }
}
