//! The variables that sessions in a working tree inside find, from the files that came along with the code. Where the
//! sandbox has direnv, it is direnv that loads them, as it would on the host; otherwise, or when direnv cannot, they are
//! read here (see [`crate::dotenv`]). Either way the values come out of the sandbox and go back into it over the stream:
//! they are on no command line and in no message.

use crate::dotenv::{self, LeftOut};
use crate::error::AgentError;
use crate::inside::run_inside;
use palisade_core::{Layout, VariableName};
use palisade_engine::Connection;
use palisade_workspace::SandboxError;
use std::collections::BTreeMap;
use std::time::Duration;

/// An `.envrc` may do anything, and may hang.
const PATIENCE: Duration = Duration::from_secs(30);
const WHAT: &str = "loading the env files";

/// Who loaded the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loader {
    Direnv,
    /// There is no direnv inside.
    Session,
    /// There is one, and it could not.
    SessionAfterDirenv,
}

/// A file that was found, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedFile {
    pub name: String,
    /// As many as were read here; direnv tells only how many there are in all.
    pub variables: usize,
    pub left_out: Vec<LeftOut>,
}

/// What a session finds, and where it came from.
#[derive(Clone, PartialEq, Eq)]
pub struct Surroundings {
    pub loader: Loader,
    pub files: Vec<LoadedFile>,
    pub variables: Vec<(VariableName, String)>,
}

/// Names only: the values are the user's secrets as often as not.
impl std::fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.variables.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Surroundings")
            .field("loader", &self.loader)
            .field("files", &self.files)
            .field("variables", &names)
            .finish()
    }
}

impl Surroundings {
    /// How many variables there are beside direnv's own.
    pub fn count(&self) -> usize {
        self.variables.iter().filter(|(name, _)| !name.as_str().starts_with("DIRENV_")).count()
    }

    /// Loads `files` in the working tree that `layout` has as its workspace.
    pub async fn load(
        connection: &Connection,
        layout: &Layout,
        files: &[String],
    ) -> Result<Self, AgentError> {
        let script = include_str!("variables.sh");
        let ask = async |way: &str| {
            let words: Vec<String> = std::iter::once(way.to_owned()).chain(files.iter().cloned()).collect();
            run_inside(connection, layout, WHAT, script, &words, &[]).await
        };
        let answer = match tokio::time::timeout(PATIENCE, ask("any")).await {
            Ok(answer) => answer?,
            Err(_) => ask("files").await?,
        };
        match Self::read(&answer, files, layout) {
            Some(Self { loader: Loader::Direnv, variables, .. }) if variables.iter().any(too_long) => {
                Self::read(&ask("files").await?, files, layout)
            }
            read => read,
        }
        .ok_or(AgentError::Inside(SandboxError::Answer { what: WHAT }))
    }

    /// Makes sense of what the script says. It is a stranger's word: whatever does not fit is no answer.
    fn read(answer: &[u8], files: &[String], layout: &Layout) -> Option<Self> {
        let (word, mut rest) = split(answer)?;
        let loader = match word {
            b"direnv" => Loader::Direnv,
            b"failed" => Loader::SessionAfterDirenv,
            b"none" => Loader::Session,
            _ => return None,
        };
        let mut found = Surroundings { loader, files: Vec::new(), variables: Vec::new() };
        while let Some((name, behind)) = split(rest).filter(|(name, _)| !name.is_empty()) {
            let name = files.iter().find(|known| known.as_bytes() == name)?;
            let (size, behind) = split(behind)?;
            let size: usize = std::str::from_utf8(size).ok()?.parse().ok()?;
            rest = behind;
            let mut file = LoadedFile { name: name.clone(), variables: 0, left_out: Vec::new() };
            if loader != Loader::Direnv {
                let text = if size > LARGEST { &[][..] } else { rest.get(..size)? };
                rest = &rest[text.len()..];
                found.take(&mut file, text, size, layout);
            }
            found.files.push(file);
        }
        if loader == Loader::Direnv {
            found.variables = exported(split(rest)?.1)?;
        }
        Some(found)
    }

    /// Adds what one file says to what was said before it.
    fn take(&mut self, file: &mut LoadedFile, text: &[u8], size: usize, layout: &Layout) {
        let whole = |reason| LeftOut { line: 1, reason };
        let text = match std::str::from_utf8(text) {
            _ if size > LARGEST => return file.left_out.push(whole("the file is larger than 256 KiB")),
            Err(_) => return file.left_out.push(whole("the file is not UTF-8")),
            Ok(text) => text,
        };
        let earlier = std::mem::take(&mut self.variables);
        let around = |name: &str| {
            let said = earlier.iter().find(|(known, _)| known.as_str() == name);
            let given = layout.environment.iter().find(|(known, _)| known == name);
            said.map(|(_, value)| value.clone()).or_else(|| Some(given?.1.clone()))
        };
        let said = dotenv::parse(text, &around);
        file.variables = said.variables.len();
        file.left_out = said.left_out;
        let again = |name: &VariableName| said.variables.iter().any(|(later, _)| later == name);
        self.variables = earlier.into_iter().filter(|(name, _)| !again(name)).collect();
        self.variables.extend(said.variables);
    }
}

/// As in the script.
const LARGEST: usize = 256 * 1024;

fn too_long((_, value): &(VariableName, String)) -> bool {
    value.len() > dotenv::LONGEST
}

/// What stands before the next NUL, and what behind it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|byte| *byte == 0)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

/// What direnv exports; a variable that it takes away is `null`, and stays as it is here.
fn exported(json: &[u8]) -> Option<Vec<(VariableName, String)>> {
    if json.trim_ascii().is_empty() {
        return Some(Vec::new());
    }
    let given: BTreeMap<String, Option<String>> = serde_json::from_slice(json).ok()?;
    let named = given.into_iter().filter_map(|(name, value)| {
        let value = value.filter(|value| !value.contains('\0'))?;
        Some((VariableName::new(&name).ok()?, value))
    });
    Some(named.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        let environment = vec![("HOME".to_owned(), "/home/agent".to_owned())];
        Layout {
            workspace: "/workspace".into(),
            directory: "/workspace".into(),
            home: "/home/agent".into(),
            user: "agent".into(),
            guest: "/.palisade/guest".into(),
            objects: None,
            environment,
        }
    }

    fn read(answer: &[u8]) -> Option<Surroundings> {
        Surroundings::read(answer, &[".env".to_owned(), ".env.local".to_owned()], &layout())
    }

    fn pairs(surroundings: &Surroundings) -> Vec<(&str, &str)> {
        surroundings.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    #[test]
    fn a_later_file_wins_and_sees_the_earlier_one() {
        let found = read(b"none\0.env\x008\0A=1\nB=1\n.env.local\x0010\0B=$A$HOME\n").unwrap();
        assert_eq!((found.loader, pairs(&found)), (Loader::Session, vec![("A", "1"), ("B", "1/home/agent")]));
        let counts: Vec<(&str, usize)> =
            found.files.iter().map(|file| (file.name.as_str(), file.variables)).collect();
        assert_eq!((counts, found.count()), (vec![(".env", 2), (".env.local", 1)], 2));
        assert!(!format!("{found:?}").contains("/home/agent"));
    }

    #[test]
    fn what_direnv_exports_is_taken_and_its_own_variables_are_not_counted() {
        let found = read(
            b"direnv\0.env\x003\0\0{\"A\":\"1\",\"DIRENV_DIR\":\"-/workspace\",\"GONE\":null,\"a b\":\"x\"}",
        )
        .unwrap();
        assert_eq!(pairs(&found), [("A", "1"), ("DIRENV_DIR", "-/workspace")]);
        assert_eq!((found.count(), found.files.len()), (1, 1));
        assert_eq!(read(b"direnv\0\0").unwrap().variables, []);
    }

    #[test]
    fn an_answer_that_makes_no_sense_is_none() {
        for answer in [
            &b""[..],
            b"other\0",
            b"none",
            b"none\0/etc/passwd\x003\0A=1",
            b"none\0.env\0many\0",
            b"none\0.env\x0099\0A=1",
            b"direnv\0.env\x003\0",
            b"direnv\0\0[1]",
        ] {
            assert_eq!(read(answer), None, "{}", answer.escape_ascii());
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_told() {
        let found = read(b"failed\0.env\x00300000\0.env.local\x002\0\xff\xfe").unwrap();
        let told: Vec<&str> = found.files.iter().map(|file| file.left_out[0].reason).collect();
        assert_eq!(told, ["the file is larger than 256 KiB", "the file is not UTF-8"]);
        assert_eq!(found.loader, Loader::SessionAfterDirenv);
    }
}
