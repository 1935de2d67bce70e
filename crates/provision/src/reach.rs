//! What a repository's services ask of the host, beyond containers that keep to themselves.
//!
//! Whoever may start containers may do anything on the host, and a compose file is written by whoever wrote the
//! repository. So what leaves a container is named, one request each, and agreed to by the user: once, and again only
//! for what was not there before. A setting that is not known to stay inside counts as a request.

mod build;
mod mounts;
mod place;
mod service;
mod shared;
mod sources;

pub(crate) use place::resolved;
pub use sources::{HostVariables, RemoteFiles, SourceScan, VariableValue, scan as scan_sources};

use crate::overriding::{CollisionChoice, OverrideInput, is_of};
use crate::stack::Redactor;
use palisade_core::{Diagnostic, ErrorCode, ExitCode, HostPath, printable};
use palisade_host::digest::Digest;
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

/// One thing that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostRequest {
    /// A sentence without a full stop: redacted, and without what would drive a terminal.
    text: String,
    /// Of the request as it is, with what is redacted in the text.
    digest: String,
}

/// Everything that is asked for, in order and without repetition.
pub type HostRequests = BTreeSet<HostRequest>;

/// Who asks.
#[derive(Debug, Clone)]
enum Asker {
    /// The compose file as a whole, or one that it takes services from.
    File,
    /// `infra.toml`.
    Infra,
    Service(String),
    Network(String),
    Volume(String),
    Secret(String),
    Config(String),
}

/// What is asked for.
#[derive(Debug)]
enum Reach {
    Privileged,
    Capability(String),
    /// A namespace that it shares, and with whom.
    Namespace {
        kind: &'static str,
        of: String,
    },
    Device(String),
    /// A path of the host's outside the worktree, as it is once every link is followed.
    Bind {
        path: PathBuf,
        access: BindAccess,
    },
    /// The source of somebody's mount that it can make a link to any other path.
    Moves {
        path: PathBuf,
        of: String,
    },
    /// A file or directory outside the worktree that is read when the services are made.
    Reads {
        what: &'static str,
        path: PathBuf,
    },
    /// A variable of the user's environment.
    Variable(String),
    /// Files from another machine.
    Remote {
        what: &'static str,
        address: String,
    },
    /// A thing of the engine's that is not the sandbox's own.
    Existing {
        what: &'static str,
        name: String,
    },
    /// An image of the engine's that its build replaces.
    Builds(String),
    /// A program that Compose starts on the host.
    Program(String),
    /// A label by which other programs on the host are steered.
    Label(String),
    /// Anything else that is not known to stay inside.
    Setting {
        key: String,
        value: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BindAccess {
    ReadOnly,
    ReadWrite,
}

/// What the rendered services ask for, together with what their override adds to them and undoes. Looks at the links of
/// the worktree, and at nothing else.
pub fn host_requests(input: &OverrideInput<'_>, redactor: &Redactor) -> HostRequests {
    let OverrideInput { model, worktree, .. } = *input;
    let mut found = Found { worktree, redactor, requests: BTreeSet::new() };
    let names = match input.collisions {
        CollisionChoice::Override => FixedNames::Undone,
        CollisionChoice::Leave => FixedNames::Of(&model.name),
    };
    for (name, service) in &model.services {
        service::look(&mut found, &Asker::Service(name.clone()), service, names);
    }
    shared::look(&mut found, model, names);
    mounts::look(&mut found, input);
    if let Some(name) = input.otel.and_then(|otel| otel.network.clone()) {
        found.add(&Asker::Infra, Reach::Existing { what: "network", name });
    }
    found.requests
}

/// Whether names that are not the sandbox's own stay, and so what they name is shared with others.
#[derive(Debug, Clone, Copy)]
enum FixedNames<'a> {
    Undone,
    /// All but those of this compose project.
    Of(&'a str),
}

impl FixedNames<'_> {
    fn stays(self, name: &str) -> bool {
        match self {
            Self::Undone => false,
            Self::Of(project) => !is_of(project, name),
        }
    }
}

/// Where requests are collected.
struct Found<'a> {
    worktree: &'a HostPath,
    redactor: &'a Redactor,
    requests: HostRequests,
}

impl Found<'_> {
    fn add(&mut self, asker: &Asker, reach: Reach) {
        // The names of the variants and fields are part of what is agreed to.
        let digest = Digest::of_bytes(format!("{asker:?} {reach:?}").as_bytes()).to_string();
        let text = printable(&self.redactor.text(&format!("{asker} {reach}")));
        self.requests.insert(HostRequest { text, digest });
    }

    fn setting(&mut self, asker: &Asker, key: impl Into<String>, value: &serde_json::Value) {
        let value = match value {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        self.add(asker, Reach::Setting { key: key.into(), value });
    }

    /// A path that is read when services are made; one within the worktree is the repository's own.
    fn reads(&mut self, asker: &Asker, what: &'static str, path: &str) {
        if let place::Place::Outside(path) = place::of(self.worktree, path.as_ref()) {
            self.add(asker, Reach::Reads { what, path });
        }
    }
}

/// Nothing was asked for with it: `null`, `false`, `""`, `[]` and `{}`.
fn is_nothing(value: &serde_json::Value) -> bool {
    use serde_json::Value;
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

impl fmt::Display for HostRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => f.write_str("the compose file"),
            Self::Infra => f.write_str("infra.toml"),
            Self::Service(name) => write!(f, "service {name}"),
            Self::Network(name) => write!(f, "network {name}"),
            Self::Volume(name) => write!(f, "volume {name}"),
            Self::Secret(name) => write!(f, "secret {name}"),
            Self::Config(name) => write!(f, "config {name}"),
        }
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Privileged => f.write_str("runs privileged: it can do all that root can on this machine"),
            Self::Capability(name) => write!(f, "has the capability {name}"),
            Self::Namespace { kind, of } => write!(f, "shares the {kind} of {of}"),
            Self::Device(name) => write!(f, "uses the device {name}"),
            Self::Bind { path, access: BindAccess::ReadOnly } => write!(f, "reads {}", path.display()),
            Self::Bind { path, access: BindAccess::ReadWrite } => {
                write!(f, "reads and writes {}", path.display())
            }
            Self::Moves { path, of } => {
                let path = path.display();
                write!(f, "can make {path}, which {of} has mounted, lead to any path of this machine")
            }
            Self::Reads { what, path } => write!(f, "takes its {what} from {}", path.display()),
            Self::Variable(name) => write!(f, "takes {name} from your environment"),
            Self::Remote { what, address } => write!(f, "takes its {what} from {address}"),
            Self::Existing { what, name } => write!(f, "uses the {what} {name}, which is not its own"),
            Self::Builds(name) => write!(f, "builds the image {name}, which is not its own alone"),
            Self::Program(name) => write!(f, "runs the program {name} on this machine"),
            Self::Label(name) => write!(f, "has the label {name}, which steers other programs"),
            Self::Setting { key, value } => write!(f, "sets {key} to {value}"),
        }
    }
}

impl HostRequest {
    /// Under what the user's agreement is kept, and the digest that it is pinned to. It is the repository's, so that
    /// every sandbox of a project shares one agreement.
    pub fn trust(&self, repository: &HostPath) -> (String, String) {
        let [allows, _] = trust_prefixes(repository);
        (format!("{allows}{self}"), self.digest.clone())
    }
}

/// What the keys of a repository's agreements begin with: to what reaches the host, and to what becomes of fixed names.
pub fn trust_prefixes(repository: &HostPath) -> [String; 2] {
    let repository = printable(&repository.to_string());
    [format!("{repository} allows: "), format!("{repository} settles: ")]
}

/// The requests that the user has not agreed to. `agreed` gives the digest that is kept for a key.
pub fn not_agreed<E>(
    requests: &HostRequests,
    repository: &HostPath,
    agreed: impl Fn(&str) -> Result<Option<String>, E>,
) -> Result<Vec<HostRequest>, E> {
    let mut left = Vec::new();
    for request in requests {
        let (key, digest) = request.trust(repository);
        if agreed(&key)? != Some(digest) {
            left.push(request.clone());
        }
    }
    Ok(left)
}

/// The services reach the host, and nobody could be asked whether they may.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the services reach the host, and you have not agreed to it: {}", list(.requests))]
pub struct NotAgreed {
    pub requests: Vec<HostRequest>,
    /// The flag with which the user agrees.
    pub flag: &'static str,
}

fn list(requests: &[HostRequest]) -> String {
    requests.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl Diagnostic for NotAgreed {
    fn code(&self) -> ErrorCode {
        "host-access-not-agreed"
    }

    fn exit(&self) -> ExitCode {
        ExitCode::Conflict
    }

    fn hints(&self) -> Vec<String> {
        vec![format!("when this is what you want, agree with {}; it is asked again only for more", self.flag)]
    }
}

#[cfg(test)]
mod tests;
