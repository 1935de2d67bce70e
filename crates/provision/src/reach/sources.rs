//! What Compose would read to render the services, found before it is let near it.
//!
//! Rendering starts nothing, but it reads: other compose files, from this machine or another, and env files, whose
//! content ends up in containers and is not seen in the result. So the files are looked through first, as far as they
//! lie in the worktree. What cannot be looked through is a request of its own.

use super::place::{self, Place};
use super::{Asker, Found, HostRequests, Reach};
use crate::foreign;
use crate::interpolation::{Otherwise, references};
use crate::stack::Redactor;
use crate::yaml::{Kind, NodeId, Tree};
use palisade_core::{HostPath, VariableName};
use std::collections::{BTreeSet, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// More files than any project takes its services from.
const MOST_FILES: usize = 200;

/// What is known of variables before Compose is started.
pub trait HostVariables {
    /// The value that Compose will find.
    fn value(&self, name: &str) -> VariableValue;
    /// Whether the user's environment has it and Compose would not be given it without being granted.
    fn is_withheld(&self, name: &str) -> bool;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VariableValue {
    Unset,
    /// It has one, which is a secret.
    Hidden,
    Known(String),
}

/// What the files ask for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceScan {
    pub requests: HostRequests,
    /// The variables of the user's environment among them, which Compose is given once they are agreed to.
    pub variables: Vec<VariableName>,
    pub remote: RemoteFiles,
}

/// Whether services are taken from other machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RemoteFiles {
    #[default]
    None,
    Some,
}

/// Looks through the compose file and through every file in the worktree that it takes services from.
pub fn scan(compose_file: &HostPath, worktree: &HostPath, variables: &dyn HostVariables) -> SourceScan {
    let redactor = Redactor::default();
    let mut scan = Scan {
        found: Found { worktree, redactor: &redactor, requests: BTreeSet::new() },
        known: variables,
        variables: BTreeSet::new(),
        remote: RemoteFiles::None,
        seen: HashSet::new(),
        waiting: vec![(compose_file.as_path().to_owned(), worktree.as_path().to_owned())],
    };
    // It may itself be a link of the repository's.
    scan.found.reads(&Asker::File, "services", &compose_file.as_path().to_string_lossy());
    while let Some((file, directory)) = scan.waiting.pop() {
        if scan.seen.len() >= MOST_FILES {
            scan.opaque("more files than can be looked through");
            break;
        }
        if scan.seen.insert(place::resolved(&file)) {
            scan.file(&file, &directory);
        }
    }
    for name in &scan.variables {
        scan.found.add(&Asker::File, Reach::Variable(name.as_str().to_owned()));
    }
    let Scan { found, variables, remote, .. } = scan;
    SourceScan { requests: found.requests, variables: variables.into_iter().collect(), remote }
}

struct Scan<'a> {
    found: Found<'a>,
    known: &'a dyn HostVariables,
    variables: BTreeSet<VariableName>,
    remote: RemoteFiles,
    seen: HashSet<PathBuf>,
    /// Files, each with the directory that its paths are relative to.
    waiting: Vec<(PathBuf, PathBuf)>,
}

impl Scan<'_> {
    fn file(&mut self, file: &Path, directory: &Path) {
        let shown = file.strip_prefix(self.found.worktree.as_path()).unwrap_or(file).display().to_string();
        let text = match foreign::read_text(file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            Err(_) => return self.opaque(&shown),
        };
        // Compose merges the documents of a file; only the first is looked through here.
        if has_several_documents(&text) {
            self.opaque(&shown);
        }
        match Tree::read(&text) {
            Ok(tree) => {
                if let Some(root) = tree.root() {
                    self.tree(&tree, root, directory);
                }
            }
            Err(_) => self.opaque(&shown),
        }
    }

    fn opaque(&mut self, what: &str) {
        self.found.setting(&Asker::File, "a part that cannot be looked through", &what.into());
    }

    fn tree(&mut self, tree: &Tree, root: NodeId, directory: &Path) {
        self.variables(tree, root);
        for entry in tree.get(root, "include").map(|it| tree.elements(it).to_vec()).unwrap_or_default() {
            self.include(tree, entry, directory);
        }
        let services = tree.get(root, "services").map(|it| tree.entries(it)).unwrap_or_default();
        for (_, service) in services {
            if let Some(file) = tree.get(service, "extends").and_then(|it| tree.get(it, "file")) {
                self.compose_file(tree.text(file).unwrap_or_default(), directory, None);
            }
            for key in ["env_file", "label_file"] {
                for file in paths(tree, tree.get(service, key)) {
                    self.reads(file, directory);
                }
            }
        }
    }

    fn include(&mut self, tree: &Tree, entry: NodeId, directory: &Path) {
        let long = tree.text(entry).is_none();
        let files = if long { paths(tree, tree.get(entry, "path")) } else { paths(tree, Some(entry)) };
        let text = |key| tree.get(entry, key).and_then(|it| tree.text(it));
        let own = if long { text("project_directory") } else { None };
        let own = own.and_then(|own| self.path(own)).map(|own| directory.join(own));
        for file in &files {
            self.compose_file(file, directory, own.as_deref());
        }
        let env_files = if long { paths(tree, tree.get(entry, "env_file")) } else { Vec::new() };
        for file in &env_files {
            self.reads(file, directory);
        }
        // Without one that is named, the project's own is read.
        if env_files.is_empty()
            && let Some(base) = own.or_else(|| Some(directory.join(files.first()?).parent()?.to_owned()))
        {
            self.place(&base.join(".env"));
        }
    }

    /// `own` is the directory that the file's paths are relative to, when the file does not decide it.
    fn compose_file(&mut self, written: &str, directory: &Path, own: Option<&Path>) {
        if is_remote(written) {
            self.remote = RemoteFiles::Some;
            let address = written.to_owned();
            return self.found.add(&Asker::File, Reach::Remote { what: "services", address });
        }
        let Some(path) = self.path(written) else { return };
        let path = directory.join(path);
        match place::of(self.found.worktree, &path) {
            Place::Outside(path) => self.found.add(&Asker::File, Reach::Reads { what: "services", path }),
            Place::Within => {
                let parent = path.parent().unwrap_or(directory).to_owned();
                self.waiting.push((path, own.map_or(parent, Path::to_owned)));
            }
        }
    }

    fn reads(&mut self, written: &str, directory: &Path) {
        if let Some(path) = self.path(written) {
            self.place(&directory.join(path));
        }
    }

    fn place(&mut self, path: &Path) {
        self.found.reads(&Asker::File, "variables", &path.to_string_lossy());
    }

    /// A path with its variables filled in. One that cannot be known now is a request as it is written.
    fn path(&mut self, written: &str) -> Option<String> {
        let known = substituted(written, self.known);
        if known.is_none() {
            self.found.setting(&Asker::File, "a path that depends on variables", &written.into());
        }
        known
    }

    /// Variables of the user's environment that the file refers to, in whatever part.
    fn variables(&mut self, tree: &Tree, root: NodeId) {
        let mut scalars = Vec::new();
        crate::compose::below(tree, root, &mut scalars);
        let mut names: Vec<String> = Vec::new();
        for text in scalars.iter().filter_map(|scalar| tree.text(*scalar)) {
            names.extend(references(text).into_iter().map(|reference| reference.name));
            // Passed through: an entry of a list without a value, or the `environment` of a secret. Any word that is the
            // name of a variable is looked at, since only those that the user has count.
            names.push(text.to_owned());
        }
        for (_, service) in tree.get(root, "services").map(|it| tree.entries(it)).unwrap_or_default() {
            for key in ["environment", "args"] {
                let place = if key == "args" { tree.get(service, "build") } else { Some(service) };
                let Some(map) = place.and_then(|place| tree.get(place, key)) else { continue };
                if let Kind::Mapping(_) = tree.node(map).kind {
                    names.extend(
                        tree.entries(map)
                            .into_iter()
                            .filter(|(_, value)| {
                                tree.text(*value).is_some_and(|text| matches!(text, "" | "~" | "null"))
                            })
                            .map(|(name, _)| name.to_owned()),
                    );
                }
            }
        }
        let withheld = names.iter().filter(|name| self.known.is_withheld(name));
        self.variables.extend(withheld.filter_map(|name| VariableName::new(name).ok()));
    }
}

fn has_several_documents(text: &str) -> bool {
    let mut content = false;
    for line in text.trim_start_matches('\u{feff}').lines() {
        let marks = line.starts_with("---") || line.starts_with("...");
        if marks && content {
            return true;
        }
        content |= !marks && !line.trim().is_empty() && !line.trim_start().starts_with(['#', '%']);
    }
    false
}

/// The texts of a list, of one value, or of the `path` of each element.
fn paths(tree: &Tree, node: Option<NodeId>) -> Vec<&str> {
    let Some(node) = node else { return Vec::new() };
    if let Some(text) = tree.text(node) {
        return vec![text];
    }
    let elements = tree.elements(node).iter();
    let path = |element: &NodeId| tree.text(*element).or_else(|| tree.text(tree.get(*element, "path")?));
    elements.filter_map(path).collect()
}

/// What Compose fetches: a repository, or an artifact of a registry.
fn is_remote(path: &str) -> bool {
    path.contains("://")
        || path.starts_with("git@")
        || path.starts_with("github.com/")
        || path.contains(".git#")
}

/// `None` when a variable's value is a secret, empty, or replaced by another text.
fn substituted(text: &str, known: &dyn HostVariables) -> Option<String> {
    let mut out = String::new();
    let mut at = 0;
    for reference in references(text) {
        // One within the default of another has been dealt with.
        if reference.bytes.start < at {
            continue;
        }
        out.push_str(&text[at..reference.bytes.start]);
        match (known.value(&reference.name), &reference.otherwise) {
            (
                VariableValue::Known(value),
                Otherwise::Nothing | Otherwise::Default(_) | Otherwise::Refused(_),
            ) if !value.is_empty() => {
                out.push_str(&value);
            }
            (VariableValue::Unset, Otherwise::Default(default)) => {
                out.push_str(&substituted(default, known)?)
            }
            (VariableValue::Unset, Otherwise::Nothing) => {}
            _ => return None,
        }
        at = reference.bytes.end;
    }
    out.push_str(&text[at..]);
    Some(out.replace("$$", "$"))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Known;

    impl HostVariables for Known {
        fn value(&self, name: &str) -> VariableValue {
            match name {
                "STAGE" => VariableValue::Known("dev".into()),
                "EMPTY" => VariableValue::Known(String::new()),
                "SECRET" => VariableValue::Hidden,
                _ => VariableValue::Unset,
            }
        }

        fn is_withheld(&self, name: &str) -> bool {
            name.starts_with("MY_")
        }
    }

    #[test]
    fn a_path_is_known_when_all_its_variables_are() {
        let path = |text: &str| substituted(text, &Known);
        assert_eq!(path("a/${STAGE}.env"), Some("a/dev.env".into()));
        assert_eq!(path("${NONE:-${STAGE:-x}}-$$"), Some("dev-$".into()));
        assert_eq!(path("x${NONE}y"), Some("xy".into()));
        for unknown in
            ["${SECRET}", "${SECRET:-x}", "${EMPTY:-x}", "${STAGE:+x}", "${NONE:?}", "${NONE:-$SECRET}"]
        {
            assert_eq!(path(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn everything_compose_would_read_from_elsewhere_is_found_before_it_does() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap();
        let worktree = HostPath::new(real.join("w")).unwrap();
        let write = |path: &str, text: &str| {
            let path = real.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "w/docker-compose.yml",
            "\
include:
  - sub/more.yml
  - https://example.invalid/x.git
  - path: [../outside.yml, oci://example.invalid/x]
    env_file: /etc/environment
x-base: &base {extends: {file: '${SECRET}.yml', service: y}}
services:
  a: {<<: *base, env_file: [fine.env, link.env], environment: [MY_TOKEN, 'A=${MY_KEY:-x}']}
  b: {extends: {file: '../$STAGE/base.yml', service: x}, environment: {MY_OTHER: }}
  c: {image: 'x:${MY_TAG}', profiles: [off]}
secrets: {s: {environment: MY_SECRET}}
",
        );
        write(
            "w/sub/more.yml",
            "services:\n  d: {image: x, env_file: ../../deep.env}\n---\ninclude: [/etc/x.yml]\n",
        );
        std::os::unix::fs::symlink("/etc/hostname", real.join("w/link.env")).unwrap();
        let scan = scan(&worktree.join("docker-compose.yml"), &worktree, &Known);
        let told: Vec<String> =
            scan.requests.iter().map(|it| it.to_string().replace(&*real.to_string_lossy(), "R")).collect();
        assert_eq!(
            told,
            [
                "the compose file sets a part that cannot be looked through to sub/more.yml",
                "the compose file sets a path that depends on variables to ${SECRET}.yml",
                "the compose file takes MY_KEY from your environment",
                "the compose file takes MY_OTHER from your environment",
                "the compose file takes MY_SECRET from your environment",
                "the compose file takes MY_TAG from your environment",
                "the compose file takes MY_TOKEN from your environment",
                "the compose file takes its services from R/dev/base.yml",
                "the compose file takes its services from R/outside.yml",
                "the compose file takes its services from https://example.invalid/x.git",
                "the compose file takes its services from oci://example.invalid/x",
                "the compose file takes its variables from /etc/environment",
                "the compose file takes its variables from /etc/hostname",
                "the compose file takes its variables from R/deep.env",
            ]
        );
        assert_eq!((scan.variables.len(), scan.remote), (5, RemoteFiles::Some));
    }

    #[test]
    fn a_compose_file_that_is_a_link_to_elsewhere_is_a_request() {
        let root = tempfile::tempdir().unwrap();
        let worktree = HostPath::new(root.path().canonicalize().unwrap()).unwrap();
        std::os::unix::fs::symlink("/nonexistent/c.yml", worktree.join("c.yml")).unwrap();
        let scan = scan(&worktree.join("c.yml"), &worktree, &Known);
        let told: Vec<String> = scan.requests.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["the compose file takes its services from /nonexistent/c.yml"]);
    }

    #[test]
    fn a_project_that_keeps_to_itself_asks_for_nothing() {
        let root = tempfile::tempdir().unwrap();
        let worktree = HostPath::new(root.path().canonicalize().unwrap()).unwrap();
        std::fs::write(
            worktree.join("c.yml"),
            "---\n# one document\nservices:\n  a:\n    image: 'x:${TAG:-1}'\n    env_file: .env\n    environment: {A: '${HOME}'}\n",
        )
        .unwrap();
        assert_eq!(scan(&worktree.join("c.yml"), &worktree, &Known), SourceScan::default());
    }
}
