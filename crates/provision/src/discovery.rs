//! What a compose file needs that `infra.toml` does not declare, and the lines that would declare it.
//!
//! Pure: whether git ignores a path and which files there are is asked of the caller.

use crate::compose::{ComposeFile, Need, ServiceNetwork, Variable};
use crate::examples::siblings;
use crate::files::{FileKind, FileUse};
use crate::parameterise::{Parameterised, PortVariable, Untouched, parameterise_beside};
use palisade_config::infra::{self, Infra};
use palisade_core::ProjectPath;
use std::collections::{BTreeSet, HashSet};

/// Variables that every shell has, and that Compose is given.
const THE_HOSTS: &[&str] = &["HOME", "PATH", "PWD", "TMPDIR", "USER"];
/// Variables of Compose's and the engine's own, and those that `[sandbox.otel]` gives to services.
const NOT_THE_PROJECTS: &[&str] = &["COMPOSE_", "DOCKER_", "OTEL_"];

/// What the caller knows of the project's directory.
pub trait ProjectTree {
    /// Git does not carry it: it would be missing in a worktree.
    fn is_ignored(&self, path: &ProjectPath) -> bool;
    fn is_file(&self, path: &ProjectPath) -> bool;
    fn is_directory(&self, path: &ProjectPath) -> bool;
}

/// A file that services use and that a worktree would lack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingFile {
    pub path: ProjectPath,
    pub uses: Vec<FileUse>,
    /// Where it can be copied from, the file itself first.
    pub sources: Vec<ProjectPath>,
}

/// What would collide between two sandboxes and cannot be made a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Collision {
    ContainerName { service: String, name: String },
    HostNetwork { service: String },
    Port(Untouched),
}

/// Everything found in a compose file, less what is declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Findings {
    pub variables: Vec<Variable>,
    /// Variables with a default everywhere: the file works without them.
    pub optional: Vec<Variable>,
    /// Variables that are needed and that nobody provides: their names steer programs of the host.
    pub undeclarable: Vec<Variable>,
    pub files: Vec<MissingFile>,
    /// Directories that services use and that git ignores: they begin empty in a worktree, which is no gap.
    pub directories: Vec<ProjectPath>,
    /// Ports that no variable of `[sandbox.ports]` stands for.
    pub ports: Vec<PortVariable>,
    /// The compose file with its fixed ports made variables.
    pub parameterised: Parameterised,
    /// There are fixed ports: the text above differs from the file's.
    pub fixed_ports: bool,
    pub collisions: Vec<Collision>,
    /// The same of every file that services are taken from and that was looked at.
    pub others: Vec<(ProjectPath, Parameterised)>,
}

impl Findings {
    /// Nothing is left to declare. What is optional, or collides only while two sandboxes run, is no gap.
    pub fn is_complete(&self) -> bool {
        self.variables.is_empty() && self.files.is_empty() && self.ports.is_empty() && !self.fixed_ports
    }

    /// The variables of ports of all files, those that are there and those that are new.
    pub fn all_ports(&self) -> impl Iterator<Item = &PortVariable> {
        let others = self.others.iter().flat_map(|(_, parameterised)| &parameterised.ports);
        self.parameterised.ports.iter().chain(others)
    }

    /// Together with what was found in another file that services are taken from.
    fn with(mut self, path: ProjectPath, other: Findings) -> Self {
        for variable in other.variables.into_iter().chain(other.optional) {
            self.uses(variable);
        }
        for variable in other.undeclarable {
            together(&mut self.undeclarable, variable);
        }
        for file in other.files {
            match self.files.iter_mut().find(|known| known.path == file.path) {
                Some(known) => known.uses.extend(file.uses),
                None => self.files.push(file),
            }
        }
        for directory in other.directories {
            if !self.directories.contains(&directory) {
                self.directories.push(directory);
            }
        }
        for port in other.ports {
            if !self.ports.iter().any(|known| known.name == port.name) {
                self.ports.push(port);
            }
        }
        let is_port =
            |variable: &Variable| other.parameterised.ports.iter().any(|it| it.name == variable.name);
        self.variables.retain(|variable| !is_port(variable));
        self.optional.retain(|variable| !is_port(variable));
        self.fixed_ports |= other.fixed_ports;
        self.collisions.extend(other.collisions);
        self.others.push((path, other.parameterised));
        self
    }

    /// A variable is needed as soon as one file has no default for it; one that stands for a port is none of these.
    fn uses(&mut self, variable: Variable) {
        if self.all_ports().any(|port| port.name == variable.name) {
            return;
        }
        let optional = self.optional.iter().position(|known| known.name == variable.name);
        match (optional, &variable.need) {
            (Some(at), Need::Needed) => {
                let mut known = self.optional.remove(at);
                known.need = Need::Needed;
                self.variables.push(known);
                together(&mut self.variables, variable);
            }
            (Some(_), Need::Optional { .. }) => together(&mut self.optional, variable),
            (None, need) => {
                let needed =
                    *need == Need::Needed || self.variables.iter().any(|it| it.name == variable.name);
                together(if needed { &mut self.variables } else { &mut self.optional }, variable);
            }
        }
    }
}

fn together(variables: &mut Vec<Variable>, variable: Variable) {
    match variables.iter_mut().find(|known| known.name == variable.name) {
        Some(known) => {
            let new = variable.services.into_iter().filter(|service| !known.services.contains(service));
            let new: Vec<String> = new.collect();
            known.services.extend(new);
        }
        None => variables.push(variable),
    }
}

/// What is found in a file and in those that it takes services from, together.
pub fn discover_all(
    file: &ComposeFile,
    others: &[(ProjectPath, ComposeFile)],
    declared: Option<&Infra>,
    prefix: &str,
    tree: &dyn ProjectTree,
) -> Findings {
    let all = std::iter::once(file).chain(others.iter().map(|(_, file)| file));
    let used: Vec<&str> = all.flat_map(|file| &file.variables).map(|it| it.name.as_str()).collect();
    let first = found_in(file, declared, tree, parameterise_beside(file, prefix, &used));
    others.iter().fold(first, |found, (path, other)| {
        let ports: Vec<&str> = found.all_ports().map(|port| port.name.as_str()).collect();
        let taken: Vec<&str> = used.iter().copied().chain(ports).collect();
        let parameterised = parameterise_beside(other, prefix, &taken);
        let new = found_in(other, declared, tree, parameterised);
        found.with(path.clone(), new)
    })
}

/// `prefix` begins the names of ports that have no variable yet.
pub fn discover(
    file: &ComposeFile,
    declared: Option<&Infra>,
    prefix: &str,
    tree: &dyn ProjectTree,
) -> Findings {
    discover_all(file, &[], declared, prefix, tree)
}

fn found_in(
    file: &ComposeFile,
    declared: Option<&Infra>,
    tree: &dyn ProjectTree,
    parameterised: Parameterised,
) -> Findings {
    let fixed_ports = parameterised.text != file.text;
    let known = known_names(declared);
    let of_ports: HashSet<&str> = parameterised.ports.iter().map(|port| port.name.as_str()).collect();
    let (mut variables, mut optional, mut undeclarable) = (Vec::new(), Vec::new(), Vec::new());
    for variable in &file.variables {
        let name = variable.name.as_str();
        if known.contains(name) || of_ports.contains(name) || is_somebody_elses(name) {
            continue;
        }
        match variable.need {
            Need::Needed if infra::is_reserved(name) => undeclarable.push(variable.clone()),
            Need::Optional { .. } if infra::is_reserved(name) => {}
            Need::Needed => variables.push(variable.clone()),
            Need::Optional { .. } => optional.push(variable.clone()),
        }
    }
    let ports =
        parameterised.ports.iter().filter(|port| !known.contains(port.name.as_str())).cloned().collect();
    let (files, directories) = missing(file, declared, tree);
    Findings {
        variables,
        optional,
        undeclarable,
        files,
        directories,
        ports,
        collisions: collisions(file, &parameterised),
        parameterised,
        fixed_ports,
        others: Vec::new(),
    }
}

fn known_names(declared: Option<&Infra>) -> HashSet<&str> {
    let Some(Infra { sandbox, .. }) = declared else { return HashSet::new() };
    let ports = sandbox.ports.iter().map(|(name, _)| name.as_str());
    let env = sandbox.env.iter().map(|(name, _)| name.as_str());
    ports.chain(env).chain(sandbox.secrets.iter().map(|secret| secret.name.as_str())).collect()
}

fn is_somebody_elses(name: &str) -> bool {
    THE_HOSTS.contains(&name) || NOT_THE_PROJECTS.iter().any(|prefix| name.starts_with(prefix))
}

fn missing(
    file: &ComposeFile,
    declared: Option<&Infra>,
    tree: &dyn ProjectTree,
) -> (Vec<MissingFile>, Vec<ProjectPath>) {
    let provided: BTreeSet<&ProjectPath> =
        declared.iter().flat_map(|infra| &infra.sandbox.files).map(|file| &file.destination).collect();
    let (mut files, mut directories): (Vec<MissingFile>, Vec<ProjectPath>) = (Vec::new(), Vec::new());
    for one in &file.files {
        let Ok(path) = ProjectPath::new(&one.path) else { continue };
        if provided.contains(&path) || directories.contains(&path) {
            continue;
        }
        if let Some(known) = files.iter_mut().find(|known| known.path == path) {
            known.uses.push(one.clone());
            continue;
        }
        if !tree.is_ignored(&path) {
            continue;
        }
        let candidates = std::iter::once(path.clone()).chain(siblings(&path));
        let sources: Vec<ProjectPath> = candidates.filter(|candidate| tree.is_file(candidate)).collect();
        if one.how == FileKind::OptionalEnvironmentFile && sources.is_empty() {
            continue;
        }
        if is_directory(one, &path, &sources, tree) {
            directories.push(path);
        } else {
            files.push(MissingFile { path, uses: vec![one.clone()], sources });
        }
    }
    (files, directories)
}

/// What is not there and has no example is told by its name: engines make a directory of a mount's source that is
/// missing, and those are rarely written with an ending.
fn is_directory(one: &FileUse, path: &ProjectPath, sources: &[ProjectPath], tree: &dyn ProjectTree) -> bool {
    tree.is_directory(path) || one.how == FileKind::Mount && sources.is_empty() && !path.name().contains('.')
}

fn collisions(file: &ComposeFile, parameterised: &Parameterised) -> Vec<Collision> {
    let mut found = Vec::new();
    for service in &file.services {
        let name = service.name.clone();
        if let Some(container) = &service.container_name
            && !container.contains('$')
        {
            found.push(Collision::ContainerName { service: name.clone(), name: container.clone() });
        }
        if service.network == ServiceNetwork::Host {
            found.push(Collision::HostNetwork { service: name });
        }
    }
    found.extend(parameterised.untouched.iter().cloned().map(Collision::Port));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Git ignores what begins with `i-`, and there is what is listed.
    struct Tree(&'static [&'static str]);

    impl ProjectTree for Tree {
        fn is_ignored(&self, path: &ProjectPath) -> bool {
            path.name().starts_with("i-")
        }

        fn is_file(&self, path: &ProjectPath) -> bool {
            self.0.contains(&path.as_str())
        }

        fn is_directory(&self, path: &ProjectPath) -> bool {
            path.name().ends_with(".d")
        }
    }

    const COMPOSE: &str = "\
services:
  api:
    container_name: shop
    environment:
      A: ${A}
      B: ${B:-b}
      C: ${DECLARED}
      D: ${HOME} ${COMPOSE_PROJECT_NAME} ${OTEL_EXPORTER_OTLP_ENDPOINT}
      E: ${GIT_SHA} ${LD_X:-x}
      not a name:
    ports: ['${SHOP_API_PORT:-8080}:80', '9090:90', '${OLD}:91']
    volumes:
      - ./i-config.yaml:/app/config.yaml:ro
      - ./tracked.yaml:/app/tracked.yaml
      - ./i-given:/given
      - ./i-conf.d:/conf.d
      - ./i-data:/data
  worker:
    network_mode: host
    volumes: ['./i-config.yaml:/c', './i-data:/data']
";
    const INFRA: &str = "\
[project]
name = \"shop\"
[sandbox.ports]
SHOP_API_PORT = 8080
[sandbox.secrets]
DECLARED = \"x\"
[sandbox.files]
\"i-given\" = \"i-given\"
";

    fn found(declared: Option<&str>) -> Findings {
        let infra = declared.map(|text| infra::read("infra.toml", text.as_bytes()).unwrap());
        let file = ComposeFile::read(COMPOSE).unwrap();
        discover(&file, infra.as_ref(), "shop", &Tree(&["i-config.yaml", "i-config.example.yaml"]))
    }

    #[test]
    fn what_is_declared_is_not_found() {
        let found = found(Some(INFRA));
        let names = |variables: &[Variable]| variables.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
        assert_eq!((names(&found.variables), names(&found.optional)), (vec!["A".into()], vec!["B".into()]));
        assert_eq!(names(&found.undeclarable), ["GIT_SHA"]);
        let ports: Vec<(&str, u16)> =
            found.ports.iter().map(|port| (port.name.as_str(), port.base)).collect();
        assert_eq!(ports, [("SHOP_API_PORT_90", 9090), ("OLD", 91)]);
        let [file] = &found.files[..] else { panic!("{:?}", found.files) };
        let sources: Vec<&str> = file.sources.iter().map(ProjectPath::as_str).collect();
        assert_eq!((file.path.as_str(), file.uses.len()), ("i-config.yaml", 2));
        assert_eq!(sources, ["i-config.yaml", "i-config.example.yaml"]);
        let directories: Vec<&str> = found.directories.iter().map(ProjectPath::as_str).collect();
        assert_eq!(directories, ["i-conf.d", "i-data"]);
        assert!(found.fixed_ports && !found.is_complete());
        assert_eq!(
            found.collisions,
            [
                Collision::ContainerName { service: "api".into(), name: "shop".into() },
                Collision::HostNetwork { service: "worker".into() }
            ]
        );
    }

    #[test]
    fn what_another_file_needs_is_needed_too_and_its_ports_have_names_of_their_own() {
        let main =
            "services:\n  api: {ports: ['80:80'], environment: {A: '${A:-a}', P: '${OTHER_PORT:-1}'}}\n";
        let other = "services:\n  api: {ports: ['81:81', '${OTHER_PORT:-82}:82'], environment: {A: '${A}', B: '${B}'}, env_file: i-x.env}\n";
        let files = [(ProjectPath::new("other.yml").unwrap(), ComposeFile::read(other).unwrap())];
        let found = discover_all(&ComposeFile::read(main).unwrap(), &files, None, "shop", &Tree(&[]));
        let names = |variables: &[Variable]| variables.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
        assert_eq!((names(&found.variables), names(&found.optional)), (vec!["A".into(), "B".into()], vec![]));
        let ports: Vec<&str> = found.ports.iter().map(|port| port.name.as_str()).collect();
        assert_eq!(ports, ["SHOP_API_PORT", "SHOP_API_PORT_81", "OTHER_PORT"]);
        assert_eq!((found.files.len(), found.fixed_ports), (1, true));
        let again = [(
            ProjectPath::new("other.yml").unwrap(),
            ComposeFile::read(found.others[0].1.text.clone()).unwrap(),
        )];
        let main = ComposeFile::read(found.parameterised.text.clone()).unwrap();
        let twice = discover_all(&main, &again, None, "shop", &Tree(&[]));
        assert_eq!((twice.ports, twice.fixed_ports), (found.ports, false));
    }

    #[test]
    fn without_a_declaration_everything_is_found() {
        let found = found(None);
        assert_eq!((found.variables.len(), found.ports.len(), found.files.len()), (2, 3, 1));
    }

    #[test]
    fn a_hundred_services_are_looked_through_at_once() {
        let mut text = "services:\n".to_owned();
        for index in 0..100 {
            text += &format!(
                "  s{index}:\n    image: x\n    environment:\n      A{index}: ${{A{index}}}\n    ports: ['{0}:80']\n    volumes: ['./i-{index}.yaml:/x']\n",
                10_000 + index
            );
        }
        let found = discover(&ComposeFile::read(text).unwrap(), None, "p", &Tree(&[]));
        assert_eq!((found.variables.len(), found.ports.len(), found.files.len()), (100, 100, 100));
    }
}
