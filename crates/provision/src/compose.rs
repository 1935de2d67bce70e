//! What a compose file says of a project: its services, the ports they publish, the variables they need and the
//! files of the project that they use. Read from the text alone; what the file includes from elsewhere is named.

use crate::files::{self, FileUse};
use crate::interpolation::{Otherwise, references};
use crate::ports::{self, Port};
use crate::yaml::{Kind, NodeId, Tree, YamlError};
use palisade_core::{ProjectPath, VariableName};
use std::collections::BTreeMap;

/// A compose file that has been read.
#[derive(Debug)]
pub struct ComposeFile {
    pub(crate) text: String,
    pub(crate) tree: Tree,
    pub services: Vec<Service>,
    pub variables: Vec<Variable>,
    pub files: Vec<FileUse>,
    /// Other files that this one takes services from (`include`, `extends`). What they publish is not seen here.
    pub elsewhere: Vec<Elsewhere>,
}

/// A file that services are taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// As it is written, for people.
    pub written: String,
    /// From the project's root; nothing for one that lies outside of it, or whose name is put together.
    pub path: Option<ProjectPath>,
    /// The one service that is taken; all of them without.
    pub service: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    pub name: String,
    /// From 1.
    pub line: usize,
    pub ports: Vec<Port>,
    /// A name that only one container on the engine can have.
    pub container_name: Option<String>,
    pub image: Option<String>,
    pub network: ServiceNetwork,
    /// The path that its own `healthcheck` asks for with HTTP.
    pub health: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceNetwork {
    Own,
    /// `network_mode: host`: what the service listens on is a port of the host, whatever `ports` says.
    Host,
}

/// A variable that the file leaves to whoever starts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    /// The services that use it; none for one that only networks, volumes and the like use.
    pub services: Vec<String>,
    pub need: Need,
}

/// Whether the file works without a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// At least one use has no default.
    Needed,
    /// Every use has a default; this is the first.
    Optional { default: String },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ComposeError {
    #[error(transparent)]
    Yaml(#[from] YamlError),
    #[error("it has no services")]
    NoServices,
}

impl ComposeFile {
    /// Of a file that lies in the project's root.
    pub fn read(text: impl Into<String>) -> Result<Self, ComposeError> {
        Self::read_in(text, "")
    }

    /// `directory` is the file's own within the project.
    pub fn read_in(text: impl Into<String>, directory: &str) -> Result<Self, ComposeError> {
        Self::read_some(text, directory, &[])
    }

    /// Of a file from which only these services are taken, and what they extend in it; all of them when none is named.
    pub fn read_some(
        text: impl Into<String>,
        directory: &str,
        only: &[String],
    ) -> Result<Self, ComposeError> {
        let text = text.into();
        let tree = Tree::read(&text)?;
        let root = tree.root().ok_or(ComposeError::NoServices)?;
        let all = tree.get(root, "services").map(|services| tree.entries(services)).unwrap_or_default();
        let entries = if only.is_empty() { all } else { extended(&tree, all, only) };
        if entries.is_empty() {
            return Err(ComposeError::NoServices);
        }
        let services = entries.iter().map(|(name, node)| service(&tree, name, *node)).collect();
        let variables = variables(&tree, root, &entries);
        let files = files::uses(&tree, root, &entries, directory);
        let elsewhere = elsewhere(&tree, root, &entries, directory);
        Ok(Self { text, tree, services, variables, files, elsewhere })
    }
}

fn service(tree: &Tree, name: &str, node: NodeId) -> Service {
    let text = |key| tree.get(node, key).and_then(|it| tree.text(it)).map(str::to_owned);
    Service {
        name: name.to_owned(),
        line: tree.node(node).line,
        ports: tree.get(node, "ports").map(|list| ports::ports(tree, list)).unwrap_or_default(),
        container_name: text("container_name"),
        image: text("image"),
        network: match text("network_mode").as_deref() {
            Some("host") => ServiceNetwork::Host,
            _ => ServiceNetwork::Own,
        },
        health: health(tree, node),
    }
}

/// The path of the first address of its own that a service's check asks: `/health` of
/// `curl -f http://localhost:8080/health || exit 1`.
fn health(tree: &Tree, service: NodeId) -> Option<String> {
    let test = tree.get(tree.get(service, "healthcheck")?, "test")?;
    let words = std::iter::once(test).chain(tree.elements(test).iter().copied());
    words.filter_map(|word| tree.text(word)).find_map(|text| {
        let address = &text[text.find("http://")? + "http://".len()..];
        let end = address.find(|it: char| it.is_whitespace() || "'\"|;)<>".contains(it));
        let (host, path) = address[..end.unwrap_or(address.len())].split_once('/')?;
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let own = ["localhost", "127.0.0.1", "0.0.0.0", "[::1]"].contains(&name);
        (own && !path.contains('$') && path.bytes().all(|it| it.is_ascii_graphic()))
            .then(|| format!("/{path}"))
    })
}

/// Variables by name in the order of their first use, those of the services first.
fn variables(tree: &Tree, root: NodeId, services: &[(&str, NodeId)]) -> Vec<Variable> {
    let mut found = Found::default();
    for (name, node) in services {
        let mut scalars = Vec::new();
        below(tree, *node, &mut scalars);
        for scalar in scalars {
            found.text(tree.text(scalar).unwrap_or_default(), Some(name));
        }
        for variable in passed_through(tree, *node).iter().filter(|name| VariableName::new(name).is_ok()) {
            found.use_of(variable, Some(name), None);
        }
    }
    for (key, node) in tree.entries(root) {
        // Extensions are seen where they are used.
        if key == "services" || key.starts_with("x-") {
            continue;
        }
        if key == "secrets" || key == "configs" {
            for (_, entry) in tree.entries(node) {
                let variable = tree.get(entry, "environment").and_then(|name| tree.text(name));
                if let Some(variable) = variable.filter(|name| VariableName::new(name).is_ok()) {
                    found.use_of(variable, None, None);
                }
            }
        }
        let mut scalars = Vec::new();
        below(tree, node, &mut scalars);
        for scalar in scalars {
            found.text(tree.text(scalar).unwrap_or_default(), None);
        }
    }
    found.variables
}

/// `environment` entries without a value take that of whoever starts the file.
fn passed_through(tree: &Tree, service: NodeId) -> Vec<String> {
    let Some(environment) = tree.get(service, "environment") else { return Vec::new() };
    match &tree.node(environment).kind {
        Kind::Sequence(elements) => {
            let words = elements.iter().filter_map(|element| tree.text(*element));
            words.filter(|word| !word.contains(['=', '$']) && !word.is_empty()).map(str::to_owned).collect()
        }
        Kind::Mapping(_) => {
            let entries = tree.entries(environment).into_iter();
            entries.filter(|(_, value)| is_null(tree, *value)).map(|(name, _)| name.to_owned()).collect()
        }
        Kind::Scalar { .. } => Vec::new(),
    }
}

fn is_null(tree: &Tree, id: NodeId) -> bool {
    use crate::yaml::Quoting;
    match &tree.node(id).kind {
        Kind::Scalar { text, quoting: Quoting::Plain } => matches!(text.as_str(), "" | "~" | "null"),
        _ => false,
    }
}

/// The scalars below a node that are not keys, what it merges in and what it aliases included. Each node is looked
/// at once, however many aliases lead to it.
pub(crate) fn below(tree: &Tree, id: NodeId, found: &mut Vec<NodeId>) {
    let mut seen = std::collections::HashSet::new();
    let mut waiting = vec![id];
    while let Some(id) = waiting.pop() {
        if !seen.insert(id) {
            continue;
        }
        match &tree.node(id).kind {
            Kind::Scalar { .. } => found.push(id),
            Kind::Sequence(elements) => waiting.extend(elements.iter().rev()),
            Kind::Mapping(_) => waiting.extend(tree.entries(id).into_iter().rev().map(|(_, value)| value)),
        }
    }
}

#[derive(Default)]
struct Found {
    variables: Vec<Variable>,
    places: BTreeMap<String, usize>,
}

impl Found {
    fn text(&mut self, text: &str, service: Option<&str>) {
        for reference in references(text) {
            let default = match reference.otherwise {
                Otherwise::Default(default) => Some(default),
                // What is replaced when it is set needs no value to work.
                Otherwise::Replaced(_) => Some(String::new()),
                Otherwise::Nothing | Otherwise::Refused(_) => None,
            };
            self.use_of(&reference.name, service, default);
        }
    }

    fn use_of(&mut self, name: &str, service: Option<&str>, default: Option<String>) {
        let need = default.map_or(Need::Needed, |default| Need::Optional { default });
        let at = *self.places.entry(name.to_owned()).or_insert_with(|| {
            let (name, need) = (name.to_owned(), need.clone());
            self.variables.push(Variable { name, services: Vec::new(), need });
            self.variables.len() - 1
        });
        let variable = &mut self.variables[at];
        if need == Need::Needed {
            variable.need = need;
        }
        if let Some(service) = service
            && !variable.services.iter().any(|known| known == service)
        {
            variable.services.push(service.to_owned());
        }
    }
}

/// The named services, and those of the same file that they extend.
fn extended<'tree>(
    tree: &'tree Tree,
    all: Vec<(&'tree str, NodeId)>,
    only: &[String],
) -> Vec<(&'tree str, NodeId)> {
    let mut names: Vec<&str> = only.iter().map(String::as_str).collect();
    let mut next = 0;
    while let Some(name) = names.get(next) {
        let service = all.iter().find(|(known, _)| known == name);
        let base = service.and_then(|(_, node)| tree.get(*node, "extends")).and_then(|extends| {
            let named = tree.get(extends, "service").filter(|_| tree.get(extends, "file").is_none());
            tree.text(extends).or_else(|| tree.text(named?))
        });
        names.extend(base.filter(|base| !names.contains(base)));
        next += 1;
    }
    all.into_iter().filter(|(name, _)| names.contains(name)).collect()
}

fn elsewhere(tree: &Tree, root: NodeId, services: &[(&str, NodeId)], directory: &str) -> Vec<Elsewhere> {
    let mut found: Vec<(&str, Option<&str>)> = Vec::new();
    if let Some(include) = tree.get(root, "include") {
        for entry in tree.elements(include) {
            let paths = if tree.text(*entry).is_some() { Some(*entry) } else { tree.get(*entry, "path") };
            let Some(paths) = paths else { continue };
            let several = tree.elements(paths).iter().copied();
            let texts = std::iter::once(paths).chain(several).filter_map(|path| tree.text(path));
            found.extend(texts.map(|path| (path, None)));
        }
    }
    for (_, service) in services {
        let Some(extends) = tree.get(*service, "extends") else { continue };
        let text = |key| tree.get(extends, key).and_then(|it| tree.text(it));
        found.extend(text("file").map(|file| (file, text("service"))));
    }
    let mut unique: Vec<Elsewhere> = Vec::new();
    for (written, service) in found {
        let path = files::named(directory, written).and_then(|path| ProjectPath::new(&path).ok());
        let one = Elsewhere { written: written.to_owned(), path, service: service.map(str::to_owned) };
        if !unique.contains(&one) {
            unique.push(one);
        }
    }
    unique
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str, services: &[&str], need: Need) -> Variable {
        Variable { name: name.into(), services: services.iter().map(|it| (*it).to_owned()).collect(), need }
    }

    #[test]
    fn variables_are_found_wherever_they_are() {
        let text = "\
x-common: &common
  environment: &env
    LOG: ${LOG:-info}
services:
  api:
    <<: *common
    image: api:${TAG:?set TAG}
    environment:
      <<: *env
      DATABASE_URL: postgres://${USER_NAME}:$PASSWORD@db/${DB:-app}
      PASSED:
      PRICE: 5$$
    ports: ['${API_PORT:-8080}:80']
  worker:
    image: api:${TAG:-latest}
    environment: [TOKEN, \"LEVEL=${LOG:-debug}\"]
volumes:
  data:
    name: ${VOLUME}
secrets:
  token: {environment: FROM_OUTSIDE}
";
        let needed = || Need::Needed;
        let optional = |default: &str| Need::Optional { default: default.into() };
        assert_eq!(
            ComposeFile::read(text).unwrap().variables,
            [
                variable("TAG", &["api", "worker"], needed()),
                variable("USER_NAME", &["api"], needed()),
                variable("PASSWORD", &["api"], needed()),
                variable("DB", &["api"], optional("app")),
                variable("LOG", &["api", "worker"], optional("info")),
                variable("API_PORT", &["api"], optional("8080")),
                variable("PASSED", &["api"], needed()),
                variable("TOKEN", &["worker"], needed()),
                variable("VOLUME", &[], needed()),
                variable("FROM_OUTSIDE", &[], needed()),
            ]
        );
    }

    #[test]
    fn files_it_takes_services_from_are_named_once() {
        let text = "\
include:
  - one.yml
  - path: [two.yml, ../../three.yml]
services:
  a: {extends: {file: ../base.yml, service: a}}
  b: {extends: {file: ../base.yml, service: b}}
  b2: {extends: {file: ../base.yml, service: b}}
  c: {extends: a}
";
        let found = ComposeFile::read_in(text, "deploy").unwrap().elsewhere;
        let shown: Vec<(&str, Option<&str>, Option<&str>)> = found
            .iter()
            .map(|it| (it.written.as_str(), it.path.as_ref().map(ProjectPath::as_str), it.service.as_deref()))
            .collect();
        assert_eq!(
            shown,
            [
                ("one.yml", Some("deploy/one.yml"), None),
                ("two.yml", Some("deploy/two.yml"), None),
                ("../../three.yml", None, None),
                ("../base.yml", Some("base.yml"), Some("a")),
                ("../base.yml", Some("base.yml"), Some("b")),
            ]
        );
    }

    #[test]
    fn of_a_file_that_is_taken_from_only_what_is_taken_counts() {
        let text = "\
services:
  base: {environment: {A: '${A}'}}
  middle: {extends: {service: base}, environment: {B: '${B}'}}
  taken: {extends: middle, environment: {C: '${C}'}}
  other: {environment: {D: '${D}'}, ports: ['80:80']}
";
        let file = ComposeFile::read_some(text, "", &["taken".to_owned()]).unwrap();
        let names = file.services.iter().map(|it| it.name.as_str()).collect::<Vec<_>>();
        assert_eq!((names, file.variables.len()), (vec!["base", "middle", "taken"], 3));
        assert!(ComposeFile::read_some(text, "", &["none".to_owned()]).is_err());
    }

    #[test]
    fn the_path_of_a_services_own_check_is_found() {
        for (test, expected) in [
            ("[CMD, curl, -f, 'http://localhost:8080/health']", Some("/health")),
            ("curl -f http://127.0.0.1/api/v1/up?full=1 || exit 1", Some("/api/v1/up?full=1")),
            ("[CMD-SHELL, \"wget -qO- 'http://[::1]:80/' || exit 1\"]", Some("/")),
            ("curl http://other/health", None),
            ("curl http://localhost:${PORT}/health", Some("/health")),
            ("curl http://localhost/$PATH", None),
            ("pg_isready -U postgres", None),
            ("[NONE]", None),
        ] {
            let text = format!("services:\n  api:\n    healthcheck:\n      test: {test}\n");
            let health = ComposeFile::read(text).unwrap().services.remove(0).health;
            assert_eq!(health.as_deref(), expected, "{test}");
        }
    }

    #[test]
    fn a_file_without_services_is_refused() {
        for text in ["", "version: '3'\n", "services:\n", "[]"] {
            assert_eq!(ComposeFile::read(text).unwrap_err(), ComposeError::NoServices, "{text:?}");
        }
    }
}
