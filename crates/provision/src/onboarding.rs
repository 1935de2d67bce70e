//! Onboarding a project: what it is called, its compose file, what that needs, and the two files that then say so.
//!
//! Nothing is written before every question is answered, and a file that changed meanwhile is left alone. Which paths
//! git ignores is asked of the caller, who knows the repository.

mod change;
mod error;

pub use change::{Change, write};
pub use error::OnboardingError;

use crate::compose::{ComposeFile, Elsewhere, Service};
use crate::copying::open_beneath;
use crate::discovery::{Findings, ProjectTree, discover_all};
use crate::project::{MARKERS, Marker, usable_name};
use crate::role::Role;
use crate::suggestion::{Additions, Heading};
use palisade_config::infra::{self, INFRA_FILE, Infra};
use palisade_core::{HostPath, ProjectPath};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::collections::HashSet;
use std::io::Read as _;

/// The names by which Compose finds its file, the preferred first.
pub const COMPOSE_FILES: [&str; 4] =
    ["compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"];

/// No compose file that somebody wrote is larger.
const LARGEST: u64 = 4 << 20;

/// More files than any project takes its services from.
const MOST_OTHERS: usize = 32;

/// What was said beforehand and need not be found out.
#[derive(Debug, Clone, Default)]
pub struct Given {
    pub name: Option<String>,
    pub prefix: Option<String>,
    pub compose_file: Option<ProjectPath>,
}

/// What a project is by the file that its tools know it by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectKind {
    pub language: &'static str,
    pub file: &'static str,
    pub name: Option<String>,
}

/// A project as it was found.
#[derive(Debug)]
pub struct Onboarding {
    pub root: HostPath,
    pub name: String,
    pub prefix: String,
    pub kind: Option<ProjectKind>,
    pub compose_file: ProjectPath,
    pub compose: ComposeFile,
    /// What Compose would read besides when it is started by hand; sandboxes have an override of their own.
    pub override_file: Option<ProjectPath>,
    compose_text: String,
    /// The files of the project that it takes services from, and their texts.
    others: Vec<(ProjectPath, ComposeFile)>,
    other_texts: Vec<String>,
    /// Those that could not be looked into, as they are written.
    pub unread: Vec<String>,
    /// What `infra.toml` says already, and its text.
    declared: Option<(Infra, String)>,
}

/// Where the project's health can be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProposedHealth {
    pub service: String,
    /// The variable of the port.
    pub port: String,
    /// As the service's own check has it.
    pub endpoint: Option<String>,
}

impl Onboarding {
    /// Reads what there is at the root of a working tree.
    pub fn open(root: &HostPath, given: &Given) -> Result<Self, OnboardingError> {
        let declared = infra::read_file_and_text(root.as_path())?;
        let compose_file = match &declared {
            Some((infra, _)) => infra.sandbox.compose_file.clone(),
            None => match &given.compose_file {
                Some(path) => path.clone(),
                None => default_compose_file(root)?,
            },
        };
        let text = match read_text(root, &compose_file)? {
            Some(text) => text,
            None => {
                let declared = declared.is_some();
                let others = similar_files(root);
                return Err(OnboardingError::ComposeFileGone { file: compose_file, declared, others });
            }
        };
        let compose = ComposeFile::read_in(text.clone(), compose_file.split().0)
            .map_err(|source| OnboardingError::Compose { file: compose_file.clone(), source })?;
        let kind = kind(root);
        let (name, prefix) = match &declared {
            Some((infra, _)) => (infra.project.name.clone(), infra.project.prefix.clone()),
            None => {
                let name = given.name.clone().unwrap_or_else(|| name(root, kind.as_ref()));
                let prefix = given.prefix.clone().unwrap_or_else(|| name.replace('.', "-"));
                (name, prefix)
            }
        };
        let override_file = override_of(root, &compose_file);
        let Others { files: others, texts: other_texts, unread } = others(root, &compose_file, &compose);
        let root = root.clone();
        let compose_text = text;
        Ok(Self {
            others,
            other_texts,
            unread,
            root,
            name,
            prefix,
            kind,
            compose_file,
            compose,
            override_file,
            compose_text,
            declared,
        })
    }

    pub fn declared(&self) -> Option<&Infra> {
        self.declared.as_ref().map(|(infra, _)| infra)
    }

    fn files(&self) -> impl Iterator<Item = &ComposeFile> {
        std::iter::once(&self.compose).chain(self.others.iter().map(|(_, file)| file))
    }

    /// Whether a compose file has this variable already.
    pub fn has_variable(&self, name: &str) -> bool {
        self.files().flat_map(|file| &file.variables).any(|variable| variable.name == name)
    }

    /// The paths of the project of which it matters whether git ignores them.
    pub fn paths(&self) -> Vec<&str> {
        let files = self.files().flat_map(|file| &file.files).map(|file| file.path.as_str());
        std::iter::once(INFRA_FILE).chain(files).collect()
    }

    /// What is not declared; `ignored` are those of [`Self::paths`] that git ignores.
    pub fn findings(&self, ignored: &HashSet<String>) -> Findings {
        let tree = Tree { root: &self.root, ignored };
        discover_all(&self.compose, &self.others, self.declared(), &self.prefix, &tree)
    }

    /// The service that most likely answers for the project, by a check of its own and then by what it seems to be.
    pub fn health(&self, findings: &Findings) -> Option<ProposedHealth> {
        let port = |service: &Service| {
            findings.all_ports().find(|port| port.service == service.name).map(|port| port.name.clone())
        };
        let candidates = self.compose.services.iter().filter_map(|service| Some((service, port(service)?)));
        let likely =
            candidates.filter(|(service, _)| service.health.is_some() || Role::of(service).rank() < 5);
        let (service, port) =
            likely.min_by_key(|(service, _)| (service.health.is_none(), Role::of(service).rank()))?;
        Some(ProposedHealth { service: service.name.clone(), port, endpoint: service.health.clone() })
    }

    /// The files as they are to be. Nothing for one that stays as it is.
    pub fn plan(
        &self,
        findings: &Findings,
        additions: &Additions,
        heading: &Heading,
    ) -> Result<Vec<Change>, OnboardingError> {
        let infra_file = infra_path()?;
        let (before, after) = match &self.declared {
            Some((_, text)) => (Some(text.clone()), additions.added_to(text).map_err(OnboardingError::Toml)?),
            None => (None, additions.headed(heading)),
        };
        // What is written is read again by every command, so it must be good.
        infra::read(INFRA_FILE, after.as_bytes())?;
        let infra = Change { path: infra_file, before, after };
        Ok(std::iter::once(infra).chain(self.compose_changes(findings)).filter(Change::changes).collect())
    }

    /// The compose files whose ports are to become variables.
    pub fn compose_changes(&self, findings: &Findings) -> Vec<Change> {
        let change = |path: &ProjectPath, before: &String, after: &String| Change {
            path: path.clone(),
            before: Some(before.clone()),
            after: after.clone(),
        };
        let first = change(&self.compose_file, &self.compose_text, &findings.parameterised.text);
        let others = findings.others.iter().zip(&self.other_texts);
        let others = others.map(|((path, parameterised), text)| change(path, text, &parameterised.text));
        std::iter::once(first).chain(others).filter(Change::changes).collect()
    }
}

/// What a compose file takes services from.
#[derive(Default)]
struct Others {
    files: Vec<(ProjectPath, ComposeFile)>,
    texts: Vec<String>,
    unread: Vec<String>,
}

/// Reads the files that services are taken from, and those that they take services from. Which services of a file are
/// taken is known only when all were seen, so a file of which more is wanted is read again.
fn others(root: &HostPath, compose_file: &ProjectPath, compose: &ComposeFile) -> Others {
    let mut wanted: Vec<(ProjectPath, Vec<String>)> = Vec::new();
    let mut others = Others::default();
    let mut waiting: Vec<Elsewhere> = compose.elsewhere.clone();
    while let Some(one) = waiting.pop() {
        let Some(path) = one.path.filter(|_| wanted.len() < MOST_OTHERS) else {
            others.unread.push(one.written);
            continue;
        };
        // A file may well extend its own services under its own name.
        if path == *compose_file {
            continue;
        }
        let at = wanted.iter().position(|(known, _)| *known == path).unwrap_or_else(|| {
            wanted.push((path.clone(), one.service.iter().cloned().collect()));
            wanted.len() - 1
        });
        let services = &mut wanted[at].1;
        let read_before = others.files.iter().any(|(known, _)| *known == path);
        match one.service {
            // None named is all of them.
            _ if read_before && services.is_empty() => continue,
            None => services.clear(),
            Some(service) if services.contains(&service) && read_before => continue,
            Some(service) if services.contains(&service) => {}
            Some(service) => services.push(service),
        }
        let read = read_text(root, &path).ok().flatten();
        let file = read.and_then(|text| {
            let file = ComposeFile::read_some(text.clone(), path.split().0, services).ok()?;
            Some((file, text))
        });
        let Some((file, text)) = file else {
            others.unread.push(one.written);
            continue;
        };
        waiting.extend(file.elsewhere.iter().cloned());
        match others.files.iter().position(|(known, _)| *known == path) {
            Some(at) => others.files[at].1 = file,
            None => {
                others.files.push((path, file));
                others.texts.push(text);
            }
        }
    }
    others.unread.sort();
    others.unread.dedup();
    others
}

fn infra_path() -> Result<ProjectPath, OnboardingError> {
    ProjectPath::new(INFRA_FILE).map_err(|error| OnboardingError::Toml(error.to_string()))
}

/// The project's directory, as [`discover`] asks for it.
struct Tree<'a> {
    root: &'a HostPath,
    ignored: &'a HashSet<String>,
}

impl ProjectTree for Tree<'_> {
    fn is_ignored(&self, path: &ProjectPath) -> bool {
        self.ignored.contains(path.as_str())
    }

    fn is_file(&self, path: &ProjectPath) -> bool {
        self.root.join(path.as_str()).as_path().is_file()
    }

    fn is_directory(&self, path: &ProjectPath) -> bool {
        self.root.join(path.as_str()).as_path().is_dir()
    }
}

fn default_compose_file(root: &HostPath) -> Result<ProjectPath, OnboardingError> {
    let there = |name: &&str| root.join(name).as_path().is_file();
    let found = COMPOSE_FILES.into_iter().find(there).and_then(|name| ProjectPath::new(name).ok());
    found.ok_or_else(|| OnboardingError::NoComposeFile { root: root.clone(), others: similar_files(root) })
}

/// `compose.override.yaml` beside `compose.yaml`, when it is there.
fn override_of(root: &HostPath, compose_file: &ProjectPath) -> Option<ProjectPath> {
    let (stem, ending) = compose_file.as_str().rsplit_once('.')?;
    let path = ProjectPath::new(&format!("{stem}.override.{ending}")).ok()?;
    root.join(path.as_str()).as_path().is_file().then_some(path)
}

/// What might be meant by a compose file: `docker-compose.dev.yml`, `deploy/compose.yaml`.
fn similar_files(root: &HostPath) -> Vec<ProjectPath> {
    let names = |directory: &HostPath| -> Vec<String> {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).take(1000).collect();
        names.sort();
        names
    };
    let is_similar = |name: &str| {
        name.contains("compose")
            && (name.ends_with(".yml") || name.ends_with(".yaml"))
            && !name.contains("override")
    };
    let here = names(root);
    let below = here.iter().filter(|name| !name.starts_with('.')).flat_map(|directory| {
        let inner = names(&root.join(directory)).into_iter().filter(|name| is_similar(name));
        inner.map(move |name| format!("{directory}/{name}"))
    });
    let found = here.iter().filter(|name| is_similar(name)).cloned().chain(below);
    found.filter_map(|path| ProjectPath::new(&path).ok()).take(8).collect()
}

/// A text of the project. `None` when it is not there; a link is not followed, since what it leads to would be
/// replaced by a file.
fn read_text(root: &HostPath, path: &ProjectPath) -> Result<Option<String>, OnboardingError> {
    let file = || path.clone();
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = match open_beneath(root.as_path(), path.as_str(), flags) {
        Ok(opened) => std::fs::File::from(opened),
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(Errno::LOOP | Errno::XDEV) => return Err(OnboardingError::Link { file: file() }),
        Err(error) => return Err(OnboardingError::Io { file: file(), source: error.into() }),
    };
    let io = |source| OnboardingError::Io { file: file(), source };
    if !opened.metadata().map_err(io)?.is_file() {
        return Err(OnboardingError::NotAText { file: file() });
    }
    let mut bytes = Vec::new();
    opened.take(LARGEST + 1).read_to_end(&mut bytes).map_err(io)?;
    match String::from_utf8(bytes) {
        Ok(text) if text.len() as u64 <= LARGEST => Ok(Some(text)),
        _ => Err(OnboardingError::NotAText { file: file() }),
    }
}

fn kind(root: &HostPath) -> Option<ProjectKind> {
    let text = |marker: &Marker| {
        let path = ProjectPath::new(marker.file).ok()?;
        read_text(root, &path).ok().flatten()
    };
    MARKERS.iter().find_map(|marker| {
        let text = text(marker)?;
        Some(ProjectKind { language: marker.language, file: marker.file, name: marker.name(&text) })
    })
}

/// As its tools call it, else as its directory is called.
fn name(root: &HostPath, kind: Option<&ProjectKind>) -> String {
    let directory = root.as_path().file_name().map(|name| name.to_string_lossy().into_owned());
    let named = kind.and_then(|kind| kind.name.clone());
    named.or_else(|| usable_name(&directory.unwrap_or_default())).unwrap_or_else(|| "project".to_owned())
}

#[cfg(test)]
mod tests;
