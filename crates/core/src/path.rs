//! A path on the host and a path inside a sandbox are different things and never share a type.

use crate::dot_git::stands_for_git;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Component, Path, PathBuf};

/// An absolute path on the host, without NUL: where arguments are ended by NULs, one would start the next argument.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "PathBuf", into = "PathBuf")]
pub struct HostPath(PathBuf);

/// An absolute, normalised path inside a sandbox: no `..`, no `.`, no NUL, no control character.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct GuestPath(String);

/// A path within a project: relative, normalised, leading neither out of it nor into its `.git`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct ProjectPath(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    #[error("a host path must be absolute: {0}")]
    HostNotAbsolute(String),
    #[error("a host path cannot hold a NUL: {0}")]
    HostWithNul(String),
    #[error("a path inside the sandbox must be absolute, without '.', '..' or control characters: {0}")]
    Guest(String),
    #[error("a path of the project must be relative and stay within it: {0}")]
    Project(String),
    #[error("a path of the project cannot lead into its .git: {0}")]
    ProjectGit(String),
}

impl HostPath {
    pub fn new(path: impl Into<PathBuf>) -> Result<Self, InvalidPath> {
        let path = path.into();
        let shown = || path.display().to_string().escape_debug().to_string();
        if !path.is_absolute() {
            return Err(InvalidPath::HostNotAbsolute(shown()));
        }
        if path.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(InvalidPath::HostWithNul(shown()));
        }
        Ok(Self(path))
    }

    pub fn as_path(&self) -> &Path {
        &self.0
    }

    pub fn join(&self, relative: impl AsRef<Path>) -> HostPath {
        HostPath(self.0.join(relative))
    }

    pub fn parent(&self) -> Option<HostPath> {
        self.0.parent().map(|path| HostPath(path.to_owned()))
    }
}

impl AsRef<Path> for HostPath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl TryFrom<PathBuf> for HostPath {
    type Error = InvalidPath;
    fn try_from(path: PathBuf) -> Result<Self, InvalidPath> {
        Self::new(path)
    }
}

impl From<HostPath> for PathBuf {
    fn from(path: HostPath) -> PathBuf {
        path.0
    }
}

impl fmt::Display for HostPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.display())
    }
}

impl GuestPath {
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidPath> {
        let text = text.into();
        let refuse = || Err(InvalidPath::Guest(text.escape_debug().to_string()));
        if !text.starts_with('/') || text.chars().any(char::is_control) {
            return refuse();
        }
        let mut normal = String::with_capacity(text.len());
        for component in Path::new(&text).components() {
            match component {
                Component::RootDir => {}
                Component::Normal(part) => {
                    normal.push('/');
                    normal.push_str(&part.to_string_lossy());
                }
                // `components` folds inner `.` away; a leading one cannot follow `/`.
                Component::CurDir => {}
                Component::ParentDir | Component::Prefix(_) => return refuse(),
            }
        }
        if normal.is_empty() {
            normal.push('/');
        }
        Ok(Self(normal))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is `other` or lies below it.
    pub fn is_within(&self, other: &GuestPath) -> bool {
        Path::new(&self.0).starts_with(&other.0)
    }
}

impl ProjectPath {
    pub fn new(text: &str) -> Result<Self, InvalidPath> {
        let refuse = || InvalidPath::Project(text.escape_debug().to_string());
        if text.chars().any(char::is_control) {
            return Err(refuse());
        }
        let mut parts: Vec<&str> = Vec::new();
        for component in Path::new(text).components() {
            match component {
                Component::Normal(part) => parts.extend(part.to_str()),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(refuse()),
            }
        }
        if parts.is_empty() {
            return Err(refuse());
        }
        if parts.iter().any(|part| stands_for_git(part.as_bytes())) {
            return Err(InvalidPath::ProjectGit(text.escape_debug().to_string()));
        }
        Ok(Self(parts.join("/")))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last part.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// The directory it lies in, empty for one at the top, and its last part.
    pub fn split(&self) -> (&str, &str) {
        self.0.rsplit_once('/').unwrap_or(("", &self.0))
    }
}

impl TryFrom<String> for ProjectPath {
    type Error = InvalidPath;
    fn try_from(text: String) -> Result<Self, InvalidPath> {
        Self::new(&text)
    }
}

impl From<ProjectPath> for String {
    fn from(path: ProjectPath) -> String {
        path.0
    }
}

impl fmt::Display for ProjectPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for GuestPath {
    type Error = InvalidPath;
    fn try_from(text: String) -> Result<Self, InvalidPath> {
        Self::new(text)
    }
}

impl From<GuestPath> for String {
    fn from(path: GuestPath) -> String {
        path.0
    }
}

impl fmt::Display for GuestPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_paths_are_normalised_or_refused() {
        assert_eq!(GuestPath::new("/a//b/./c/").unwrap().as_str(), "/a/b/c");
        assert_eq!(GuestPath::new("/").unwrap().as_str(), "/");
        for bad in ["", "a/b", "/a/../b", "/..", "/a\0b", "/a\nb"] {
            assert!(GuestPath::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_project_path_stays_in_the_project() {
        assert_eq!(ProjectPath::new("./a//b/").unwrap().as_str(), "a/b");
        assert_eq!(ProjectPath::new("a/b").unwrap().split(), ("a", "b"));
        assert_eq!(ProjectPath::new(".env").unwrap().split(), ("", ".env"));
        for bad in ["", ".", "/a", "../a", "a/../b", "a\0b", "a\nb", ".git/hooks/x", "sub/.GIT", "GIT~1/x"] {
            assert!(ProjectPath::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn within_compares_whole_components() {
        let base = GuestPath::new("/home").unwrap();
        assert!(GuestPath::new("/home/x").unwrap().is_within(&base));
        assert!(base.is_within(&base));
        assert!(!GuestPath::new("/homestead").unwrap().is_within(&base));
    }

    #[test]
    fn a_host_path_is_absolute_and_without_nul() {
        assert!(HostPath::new("/tmp").is_ok());
        assert_eq!(HostPath::new("tmp"), Err(InvalidPath::HostNotAbsolute("tmp".into())));
        assert_eq!(HostPath::new("/a\0--bind"), Err(InvalidPath::HostWithNul("/a\\0--bind".into())));
    }
}
