//! All the environments there are: the built-in ones, the user's, and a trusted project's.
//!
//! Invariants: a name means one thing or is refused; a file that is wrong takes its own name away and no other's; and
//! a project's file counts only as the very bytes that the user has trusted. What does not count is kept and told.

use super::Manifest;
use super::read::{name_of, read};
use crate::error::{ConfigError, Problem};
use crate::file;
use palisade_core::{Diagnostic, EnvironmentName, ErrorCode, ExitCode, Method, printable};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The built-in manifests, by the name of their file.
pub const BUILT_IN: [(&str, &str); 5] = [
    ("bash", include_str!("../../../../environments/bash.toml")),
    ("node", include_str!("../../../../environments/node.toml")),
    ("python", include_str!("../../../../environments/python.toml")),
    ("node-repl", include_str!("../../../../environments/node-repl.toml")),
    ("python-venv", include_str!("../../../../environments/python-venv.toml")),
];

/// More files than this in one directory are not read: a project may bring any number.
const MOST_FILES: usize = 200;

/// Whose manifest it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Provenance {
    BuiltIn,
    User { file: PathBuf },
    Project { file: PathBuf },
}

impl Provenance {
    /// For people, as it stands in problems: the file, printable.
    pub fn shown(&self) -> String {
        match self {
            Provenance::BuiltIn => "built in".into(),
            Provenance::User { file } | Provenance::Project { file } => file::shown(file),
        }
    }

    fn holder(&self) -> String {
        match self {
            Provenance::BuiltIn => "a built-in environment".into(),
            Provenance::User { .. } | Provenance::Project { .. } => self.shown(),
        }
    }
}

/// An environment that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    pub manifest: Manifest,
    pub provenance: Provenance,
}

impl Environment {
    /// Whether a method can make a sandbox of it.
    pub fn require(&self, method: Method) -> Result<(), EnvironmentError> {
        if self.manifest.serves(method) {
            return Ok(());
        }
        let missing = match method {
            Method::Bwrap => "root",
            Method::Noop => "root that is the host's own",
            Method::Docker | Method::Podman | Method::Microvm | Method::Kubernetes => "image",
        };
        let others: Vec<&str> = self.manifest.methods().into_iter().map(Method::as_str).collect();
        let name = self.manifest.name.value.to_string();
        Err(EnvironmentError::Method { name, method, missing, others: others.join(", ") })
    }
}

/// A file that is none, with what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub file: PathBuf,
    /// The environment it was meant to be, as far as one can tell.
    pub name: Option<EnvironmentName>,
    pub problems: Vec<Problem>,
}

/// A project's file that the user has not trusted as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untrusted {
    pub file: PathBuf,
    pub name: Option<EnvironmentName>,
}

/// Where plugins are. The caller, who knows home and the store, fills this in.
pub struct CatalogueSources<'a> {
    pub user: Option<PathBuf>,
    pub project: Option<PathBuf>,
    /// The digest under which a file is trusted, if it is.
    pub trusted_digest: &'a dyn Fn(&Path) -> Option<String>,
}

impl std::fmt::Debug for CatalogueSources<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { user, project, .. } = self;
        f.debug_struct("CatalogueSources")
            .field("user", user)
            .field("project", project)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Catalogue {
    environments: Vec<Environment>,
    pub faults: Vec<Fault>,
    pub untrusted: Vec<Untrusted>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    #[error("Environment '{name}' not found. Available: {available}")]
    NotFound { name: String, available: String, near: Option<String> },
    #[error("environment '{name}' comes with this project, and {file} is not trusted as it is now")]
    NotTrusted { name: String, file: String },
    #[error("environment '{name}' cannot be used with method '{method}': it has no {missing}")]
    Method { name: String, method: Method, missing: &'static str, others: String },
    #[error(transparent)]
    Broken(#[from] ConfigError),
}

impl Diagnostic for EnvironmentError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::NotFound { .. } => "environment-not-found",
            Self::NotTrusted { .. } => "environment-not-trusted",
            Self::Method { .. } => "environment-method",
            Self::Broken(error) => error.code(),
        }
    }

    fn exit(&self) -> ExitCode {
        match self {
            Self::NotFound { .. } => ExitCode::NotFound,
            Self::NotTrusted { .. } => ExitCode::Configuration,
            Self::Method { .. } => ExitCode::Preflight,
            Self::Broken(error) => error.exit(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::NotFound { near, .. } => {
                let near = near.as_ref().map(|near| format!("did you mean '{near}'?"));
                let own = "write one of your own: docs/guides/environments.md".into();
                near.into_iter().chain([own]).collect()
            }
            Self::NotTrusted { .. } => vec![
                "read the file, and if you agree with it, allow exactly this version with: palisade trust"
                    .into(),
            ],
            Self::Method { others, .. } => {
                vec![format!(
                    "choose a method that it is for with --method: {others}; or another environment"
                )]
            }
            Self::Broken(error) => error.hints(),
        }
    }
}

impl Catalogue {
    /// Reads every source. What is wrong is kept in the catalogue and keeps nobody from the rest.
    pub fn load(sources: &CatalogueSources<'_>) -> Self {
        let mut catalogue = Self::default();
        for (name, text) in BUILT_IN {
            catalogue.add(Path::new(&format!("{name}.toml")), text.as_bytes(), Provenance::BuiltIn);
        }
        if let Some(directory) = &sources.user {
            for file in catalogue.files(directory) {
                match file::read_own(&file) {
                    Ok(Some(bytes)) => catalogue.add(&file, &bytes, Provenance::User { file: file.clone() }),
                    Ok(None) => {}
                    Err(problem) => catalogue.fault(&file, None, vec![problem]),
                }
            }
        }
        if let Some(directory) = &sources.project {
            for file in catalogue.project_files(directory) {
                match file::read_foreign(&file) {
                    Ok(Some(bytes)) => match (sources.trusted_digest)(&file) {
                        Some(digest) if digest == file::digest(&bytes) => {
                            catalogue.add(&file, &bytes, Provenance::Project { file: file.clone() });
                        }
                        _ => catalogue.untrusted.push(Untrusted { name: name_of(&bytes), file }),
                    },
                    Ok(None) => {}
                    Err(problem) => catalogue.fault(&file, None, vec![problem]),
                }
            }
        }
        catalogue
    }

    /// Those that can be used, the built-in ones first.
    pub fn environments(&self) -> &[Environment] {
        &self.environments
    }

    pub fn find(&self, name: &str) -> Result<&Environment, EnvironmentError> {
        let meant =
            |other: &Option<EnvironmentName>| other.as_ref().is_some_and(|other| other.as_str() == name);
        let problems: Vec<Problem> = self
            .faults
            .iter()
            .filter(|fault| meant(&fault.name))
            .flat_map(|fault| fault.problems.clone())
            .collect();
        ConfigError::unless_empty(problems)?;
        if let Some(found) = self.environments.iter().find(|known| known.manifest.name.value.as_str() == name)
        {
            return Ok(found);
        }
        if let Some(untrusted) = self.untrusted.iter().find(|untrusted| meant(&untrusted.name)) {
            let file = file::shown(&untrusted.file);
            return Err(EnvironmentError::NotTrusted { name: name.to_owned(), file });
        }
        let names: Vec<&str> = self.names().collect();
        let near = names.iter().filter(|known| strsim::damerau_levenshtein(known, name) <= 2);
        let near = near.min_by_key(|known| strsim::damerau_levenshtein(known, name));
        Err(EnvironmentError::NotFound {
            name: printable(name),
            available: names.join(", "),
            near: near.map(|near| (*near).to_owned()),
        })
    }

    /// Everything that is wrong with the files, as one error.
    pub fn whole(&self) -> Result<(), ConfigError> {
        ConfigError::unless_empty(self.faults.iter().flat_map(|fault| fault.problems.clone()).collect())
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.environments.iter().map(|known| known.manifest.name.value.as_str())
    }

    fn add(&mut self, file: &Path, bytes: &[u8], provenance: Provenance) {
        let manifest = match read(&file::shown(file), bytes) {
            Ok(manifest) => manifest,
            Err(problems) => return self.fault(file, name_of(bytes), problems),
        };
        let name = &manifest.name;
        match self.environments.iter().find(|known| known.manifest.name.value == name.value) {
            Some(known) => {
                let problem = Problem::NameTaken {
                    file: file::shown(file),
                    line: name.line,
                    name: name.value.to_string(),
                    holder: known.provenance.holder(),
                };
                self.fault(file, Some(name.value.clone()), vec![problem]);
            }
            None => self.environments.push(Environment { manifest, provenance }),
        }
    }

    /// A file that does not tell its name is taken to mean the name it bears.
    fn fault(&mut self, file: &Path, name: Option<EnvironmentName>, problems: Vec<Problem>) {
        let stem = || file.file_stem()?.to_str()?.parse().ok();
        self.faults.push(Fault { file: file.to_owned(), name: name.or_else(stem), problems });
    }

    /// The manifests of a project, unless a link leads to them: the trust is in what lies at that very place.
    fn project_files(&mut self, directory: &Path) -> Vec<PathBuf> {
        let linked = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
        if linked(directory) || directory.parent().is_some_and(linked) {
            let reason = "it is a symbolic link, or lies in a directory that is one";
            let problem = Problem::Refused { file: file::shown(directory), reason };
            self.faults.push(Fault { file: directory.to_owned(), name: None, problems: vec![problem] });
            return Vec::new();
        }
        self.files(directory)
    }

    /// The manifests of a directory in the order of their names. One that is not there is empty.
    fn files(&mut self, directory: &Path) -> Vec<PathBuf> {
        match manifests_in(directory) {
            Ok(files) => files,
            Err(problem) => {
                self.faults.push(Fault { file: directory.to_owned(), name: None, problems: vec![problem] });
                Vec::new()
            }
        }
    }
}

/// The files in a directory that are manifests by their name, sorted; none when there is no such directory.
pub(crate) fn manifests_in(directory: &Path) -> Result<Vec<PathBuf>, Problem> {
    let unreadable = |error: std::io::Error| Problem::Unreadable {
        file: file::shown(directory),
        reason: error.to_string(),
    };
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
        if files.len() > MOST_FILES {
            let reason = "it holds more than 200 environments";
            return Err(Problem::Refused { file: file::shown(directory), reason });
        }
    }
    files.sort();
    Ok(files)
}
