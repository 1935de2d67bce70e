//! The files of the project that services use: bind mounts, `env_file`, and files behind `secrets` and `configs`.
//! Whether git carries them is somebody else's question.

use crate::interpolation::{Otherwise, references};
use crate::yaml::{Kind, NodeId, Tree};

/// A path of the project that a service uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileUse {
    /// Relative to the project's root, normalised, never leading out of it.
    pub path: String,
    /// None for a file behind a secret or config of the whole project.
    pub service: Option<String>,
    /// As it is written, for people: `./config.yaml:/app/config.yaml:ro`.
    pub written: String,
    pub how: FileKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    Mount,
    EnvironmentFile,
    /// `required: false`: nothing is wrong when it is not there.
    OptionalEnvironmentFile,
    Secret,
    Config,
}

/// `directory` is the compose file's own within the project, empty for the project's root.
pub(crate) fn uses(tree: &Tree, root: NodeId, services: &[(&str, NodeId)], directory: &str) -> Vec<FileUse> {
    let named = |path: &str| named(directory, path);
    let mut found = Vec::new();
    for (name, service) in services {
        let mut add = |path: Option<String>, written: String, how| {
            found.extend(path.map(|path| FileUse { path, service: Some((*name).to_owned()), written, how }));
        };
        for entry in list(tree, *service, "volumes") {
            if let Some((source, written)) = mount(tree, entry) {
                add(is_path(&source).then(|| named(&source)).flatten(), written, FileKind::Mount);
            }
        }
        for entry in list(tree, *service, "env_file") {
            let path = if tree.text(entry).is_some() { Some(entry) } else { tree.get(entry, "path") };
            let required = tree.get(entry, "required").and_then(|it| tree.text(it)) != Some("false");
            let how = if required { FileKind::EnvironmentFile } else { FileKind::OptionalEnvironmentFile };
            if let Some(path) = path.and_then(|path| tree.text(path)) {
                add(named(path), path.to_owned(), how);
            }
        }
    }
    for (section, how) in [("secrets", FileKind::Secret), ("configs", FileKind::Config)] {
        let Some(entries) = tree.get(root, section) else { continue };
        for (_, entry) in tree.entries(entries) {
            let Some(file) = tree.get(entry, "file").and_then(|file| tree.text(file)) else { continue };
            found.extend(named(file).map(|path| FileUse {
                path,
                service: None,
                written: file.to_owned(),
                how,
            }));
        }
    }
    found
}

/// A list, or the single value that stands for a list of one.
fn list(tree: &Tree, service: NodeId, key: &str) -> Vec<NodeId> {
    match tree.get(service, key) {
        Some(node) if tree.text(node).is_some() => vec![node],
        Some(node) => tree.elements(node).to_vec(),
        None => Vec::new(),
    }
}

/// The source of a bind mount as it is written, and the whole entry for people.
fn mount(tree: &Tree, entry: NodeId) -> Option<(String, String)> {
    match &tree.node(entry).kind {
        Kind::Scalar { text, .. } => {
            let variables = references(text);
            let inside = |at: usize| variables.iter().any(|it| it.bytes.contains(&at));
            let colon = text.char_indices().find(|(at, it)| *it == ':' && !inside(*at))?.0;
            Some((text[..colon].to_owned(), text.clone()))
        }
        Kind::Mapping(_) => {
            let text = |key| tree.get(entry, key).and_then(|it| tree.text(it));
            if text("type") != Some("bind") {
                return None;
            }
            let (source, target) = (text("source")?, text("target")?);
            let read_only = if text("read_only") == Some("true") { ":ro" } else { "" };
            Some((source.to_owned(), format!("{source}:{target}{read_only}")))
        }
        Kind::Sequence(_) => None,
    }
}

/// Whether a mount's source is a path of the project. A bare name is a volume.
fn is_path(source: &str) -> bool {
    with_default(source)
        .is_some_and(|source| source.starts_with("./") || source.starts_with("../") || source == ".")
}

/// A path that needs no `./` to be one, from the project's root.
pub(crate) fn named(directory: &str, path: &str) -> Option<String> {
    let path = with_default(path)?;
    if path.starts_with(['/', '~']) {
        return None;
    }
    let mut parts: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            // What lies outside the project is not the project's to provide.
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    if parts.is_empty() { None } else { Some(parts.join("/")) }
}

/// The text with every variable replaced by its default; nothing when one has none.
fn with_default(text: &str) -> Option<String> {
    let mut result = String::new();
    let mut at = 0;
    for reference in references(text) {
        if reference.bytes.start < at {
            continue;
        }
        let Otherwise::Default(default) = reference.otherwise else { return None };
        if default.contains('$') {
            return None;
        }
        result += &text[at..reference.bytes.start];
        result += &default;
        at = reference.bytes.end;
    }
    Some(result + &text[at..])
}

#[cfg(test)]
mod tests {
    use crate::compose::ComposeFile;

    #[test]
    fn every_way_to_use_a_file_is_found() {
        let text = "\
services:
  api:
    env_file: .env
    volumes:
      - ./config.yaml:/app/config.yaml:ro
      - data:/data
      - /etc/ssl:/etc/ssl
      - ~/.aws:/aws
      - ../other:/other
      - .:/src
      - ${CONFIG:-./local.yaml}:/app/local.yaml
      - ${UNKNOWN}:/x
      - {type: bind, source: ./certs/../keys/dev.pem, target: /dev.pem, read_only: true}
      - {type: volume, source: data, target: /d}
  worker:
    env_file:
      - path: ./worker.env
        required: false
      - shared.env
secrets:
  token: {file: ./secrets/token}
configs:
  web: {content: hello}
";
        let found: Vec<(String, String)> =
            ComposeFile::read(text).unwrap().files.into_iter().map(|it| (it.path, it.written)).collect();
        let expected = [
            ("config.yaml", "./config.yaml:/app/config.yaml:ro"),
            ("local.yaml", "${CONFIG:-./local.yaml}:/app/local.yaml"),
            ("keys/dev.pem", "./certs/../keys/dev.pem:/dev.pem:ro"),
            (".env", ".env"),
            ("worker.env", "./worker.env"),
            ("shared.env", "shared.env"),
            ("secrets/token", "./secrets/token"),
        ];
        assert_eq!(found, expected.map(|(path, written)| (path.to_owned(), written.to_owned())));
    }

    #[test]
    fn paths_are_meant_from_the_directory_of_the_compose_file() {
        let text = "services: {api: {volumes: ['./a:/a', '../b:/b', '../../c:/c'], env_file: d}}\n";
        let found = ComposeFile::read_in(text, "deploy").unwrap().files;
        let paths: Vec<&str> = found.iter().map(|it| it.path.as_str()).collect();
        assert_eq!(paths, ["deploy/a", "b", "deploy/d"]);
    }
}
