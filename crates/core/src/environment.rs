//! What a sandbox is made from: an environment's name, and what that environment gives each method to build on. The
//! values are settled when the sandbox is made and kept with its record, so that a manifest which changes later, or
//! goes away, does not change a sandbox that exists.

use crate::name::{InvalidName, checked};
use crate::path::{GuestPath, HostPath};
use crate::policy::WORKSPACE;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The name of an environment; as narrow as a sandbox's, so that it is safe in a tag, a label and a file name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct EnvironmentName(String);

/// A container image as one would write it: `[HOST[:PORT]/]NAME[:TAG][@DIGEST]`. It never starts with a dash and holds
/// no blank, so that it is one word wherever it goes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct ImageReference(String);

/// The name of a program without a directory, such as `python3`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct ToolName(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidReference {
    #[error("'{0}' is not an image; write NAME, NAME:TAG or HOST/NAME:TAG, such as palisade-bash:latest")]
    Image(String),
    #[error("'{0}' is not the name of a program; write it without a directory, such as python3")]
    Tool(String),
}

/// Where the programs of a process-backed sandbox come from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Root {
    /// The host's own, read-only.
    #[default]
    Host,
    /// A directory of the host's that holds a whole system, read-only.
    Directory { path: HostPath },
}

/// What a sandbox is made from. Without an environment, each method's own default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Foundation {
    pub environment: Option<EnvironmentName>,
    /// For the methods that start from an image.
    pub image: Option<ImageReference>,
    /// For the methods that start from a directory.
    pub root: Root,
    /// Programs that the root must have.
    pub requires: Vec<ToolName>,
    /// What `shell` starts, and `run` without a command; empty for a login shell.
    pub command: Vec<String>,
    /// Where commands start; the workspace when it is not said.
    pub workdir: Option<GuestPath>,
}

impl Root {
    /// As it is written in a manifest.
    pub fn shown(&self) -> String {
        match self {
            Root::Host => "host".to_owned(),
            Root::Directory { path } => path.to_string(),
        }
    }
}

impl Foundation {
    /// Whether nothing at all was said.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// Where commands start in a sandbox whose workspace stands at this path.
    pub fn directory(&self, workspace: &str) -> String {
        let Some(workdir) = &self.workdir else { return workspace.to_owned() };
        let below = std::path::Path::new(workdir.as_str()).strip_prefix(WORKSPACE);
        match below.ok().and_then(|below| below.to_str()) {
            None => workdir.to_string(),
            Some("") => workspace.to_owned(),
            Some(below) => format!("{workspace}/{below}"),
        }
    }
}

impl EnvironmentName {
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        checked("an environment name", text).map(Self)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// As long as the engines allow.
const LONGEST_IMAGE: usize = 255;
const LONGEST_TAG: usize = 128;

impl ImageReference {
    /// What a sandbox is made from when nobody has named anything.
    pub fn standard() -> Self {
        Self("palisade-bash:latest".to_owned())
    }

    pub fn new(text: &str) -> Result<Self, InvalidReference> {
        let refuse = || InvalidReference::Image(text.escape_debug().to_string());
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        // A colon before the last slash belongs to a host's port.
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (rest, None),
        };
        let good = text.len() <= LONGEST_IMAGE
            && is_repository(name)
            && tag.is_none_or(is_tag)
            && digest.is_none_or(is_digest);
        if good { Ok(Self(text.to_owned())) } else { Err(refuse()) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_repository(name: &str) -> bool {
    let (host, path) = match name.split_once('/') {
        // As the engines have it: the first part is a host only when it looks like one.
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (Some(first), rest),
        _ => (None, name),
    };
    let bounded = |part: &str, inner: &[char], letter: fn(char) -> bool| {
        let allowed = |c: char| letter(c) || inner.contains(&c);
        part.starts_with(letter) && part.ends_with(letter) && part.chars().all(allowed)
    };
    let lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let any = |c: char| c.is_ascii_alphanumeric();
    host.is_none_or(|host| bounded(host, &['.', '-', ':'], any))
        && path.split('/').all(|part| bounded(part, &['.', '_', '-'], lower))
}

fn is_tag(tag: &str) -> bool {
    let first = |c: char| c.is_ascii_alphanumeric() || c == '_';
    tag.len() <= LONGEST_TAG
        && tag.starts_with(first)
        && tag.chars().all(|c| first(c) || c == '.' || c == '-')
}

fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, hex)| {
        algorithm.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
            && algorithm.starts_with(|c: char| c.is_ascii_lowercase())
            && hex.len() >= 32
            && hex.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'))
    })
}

/// As long as a file's name.
const LONGEST_TOOL: usize = 255;

impl ToolName {
    pub fn new(text: &str) -> Result<Self, InvalidReference> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '+' | '-' | '[');
        let good = (1..=LONGEST_TOOL).contains(&text.len())
            && !text.starts_with(['-', '.'])
            && text.chars().all(allowed);
        if good {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidReference::Tool(text.escape_debug().to_string()))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What every text that was checked once can do.
macro_rules! checked_text {
    ($($name:ident: $error:ty),+) => {$(
        impl FromStr for $name {
            type Err = $error;
            fn from_str(text: &str) -> Result<Self, $error> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = $error;
            fn try_from(text: String) -> Result<Self, $error> {
                Self::new(&text)
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

checked_text!(EnvironmentName: InvalidName, ImageReference: InvalidReference, ToolName: InvalidReference);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_written_as_the_engines_write_them() {
        for good in [
            "bash",
            "palisade-bash:latest",
            "team/node_20:20.1",
            "localhost/palisade-bash",
            "localhost:5000/a/b:c",
            "Registry.example.org:443/a",
            "a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "a:b@sha256:0123456789abcdef0123456789abcdef",
        ] {
            assert_eq!(ImageReference::new(good).unwrap().as_str(), good);
        }
        assert_eq!(ImageReference::new("palisade-bash:latest"), Ok(ImageReference::standard()));
        let long = "a".repeat(256);
        for bad in [
            "",
            "-v",
            "a b",
            "a:",
            ":a",
            "a/",
            "/a",
            "a//b",
            "A",
            "a:b:c",
            "a:-b",
            "a@b",
            "a@sha256:xyz",
            "a\n",
            "../a",
            "a/..",
            "é",
            &long,
            "a,b",
            "a=b",
        ] {
            assert!(ImageReference::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_tool_is_a_name_and_never_a_path_or_an_option() {
        for good in ["git", "python3", "g++", "node-20.1", "x_y", "["] {
            assert_eq!(ToolName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "-rf", "..", ".hidden", "/bin/sh", "a/b", "a b", "a\0", "é"] {
            assert!(ToolName::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn commands_start_where_the_environment_says_wherever_the_workspace_stands() {
        let at = |workdir: &str| Foundation {
            workdir: Some(GuestPath::new(workdir).unwrap()),
            ..Foundation::default()
        };
        assert_eq!(Foundation::default().directory("/state/w"), "/state/w");
        for (workdir, workspace, directory) in [
            ("/workspace", "/workspace", "/workspace"),
            ("/workspace/app", "/workspace", "/workspace/app"),
            ("/workspace/app", "/state/w", "/state/w/app"),
            ("/workspaces", "/state/w", "/workspaces"),
            ("/srv", "/workspace", "/srv"),
        ] {
            assert_eq!(at(workdir).directory(workspace), directory, "{workdir} of {workspace}");
        }
    }

    #[test]
    fn an_environment_name_says_what_it_is_when_it_is_wrong() {
        assert_eq!(EnvironmentName::new("python-venv").unwrap().as_str(), "python-venv");
        let told = EnvironmentName::new("Ruby").unwrap_err().to_string();
        assert_eq!(told, "an environment name has only a-z, 0-9 and '-'; R is not allowed");
    }
}
