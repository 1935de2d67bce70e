//! What an image says its programs find in their environment, and how that and the sandbox's own come together.
//!
//! The engine gives it to the first process alone, whose children get what the host says; so the host says this, too.
//! It is what the image had when the container was made, and public: whoever may ask the engine reads it.

use palisade_core::backend::SYSTEM_PATH;
use palisade_core::{HostPath, Layout, SandboxSpec};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

pub(crate) type Variables = Vec<(String, String)>;

/// What an engine says of a container rather than an image of its programs.
const THE_ENGINES: [&str; 5] = ["HOME", "HOSTNAME", "PWD", "TERM", "container"];
/// What the sandbox has a value for that an image may know better.
const THE_IMAGES: [&str; 2] = ["LANG", "SHELL"];
const SEARCH_PATH: &str = "PATH";

/// From the lines of an image's configuration.
pub(crate) fn read(lines: &[String]) -> Variables {
    let variables = lines.iter().filter_map(|line| line.split_once('='));
    let sensible = |name: &str| !name.is_empty() && !THE_ENGINES.contains(&name);
    let no_nul = |(name, value): &(&str, &str)| !name.contains('\0') && !value.contains('\0');
    let kept = variables.filter(|(name, _)| sensible(name)).filter(no_nul);
    kept.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The sandbox's own variables stand, with the image's beside them. The image's search path takes the place of the
/// usual one, behind the sandbox's tools.
pub(crate) fn merged(mut layout: Layout, image: &[(String, String)]) -> Layout {
    for (name, value) in image {
        let known = layout.environment.iter_mut().find(|(known, _)| known == name);
        match known {
            Some((_, ours)) if name == SEARCH_PATH => {
                if let Some(tools) = ours.strip_suffix(&SYSTEM_PATH.join(":")) {
                    *ours = format!("{tools}{value}");
                }
            }
            Some((_, ours)) if THE_IMAGES.contains(&name.as_str()) => ours.clone_from(value),
            Some(_) => {}
            None => layout.environment.push((name.clone(), value.clone())),
        }
    }
    layout
}

fn file(spec: &SandboxSpec) -> Option<HostPath> {
    spec.dir.as_ref().map(|dir| dir.path().join("image-environment.json"))
}

/// For the commands that will be run in a sandbox with a record. Without it they have the sandbox's own variables.
pub(crate) fn keep(spec: &SandboxSpec, variables: &Variables) {
    let Some(file) = file(spec) else { return };
    let text = serde_json::to_vec(variables).unwrap_or_default();
    let mut options = std::fs::OpenOptions::new();
    let written = options.write(true).create(true).truncate(true).mode(0o600).open(&file);
    if let Err(error) = written.and_then(|mut opened| opened.write_all(&text)) {
        tracing::warn!(%error, "the variables of the image are not kept");
    }
}

pub(crate) fn kept(spec: &SandboxSpec) -> Variables {
    let text = file(spec).and_then(|file| std::fs::read(file).ok()).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(list: &[(&str, &str)]) -> Variables {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn layout(path: &str) -> Layout {
        Layout {
            workspace: "/workspace".into(),
            directory: "/workspace".into(),
            home: "/home/agent".into(),
            user: "agent".into(),
            guest: "/.palisade/guest".into(),
            objects: None,
            environment: variables(&[("PATH", path), ("HOME", "/home/agent"), ("LANG", "C.UTF-8")]),
        }
    }

    #[test]
    fn what_an_engine_says_of_its_container_is_not_the_images() {
        let lines = ["A=1=2", "HOME=/root", "TERM=xterm", "container=podman", "=x", "B", "C="];
        assert_eq!(read(&lines.map(str::to_owned)), variables(&[("A", "1=2"), ("C", "")]));
    }

    #[test]
    fn the_images_search_path_comes_behind_the_tools_and_its_language_wins() {
        let system = SYSTEM_PATH.join(":");
        let image = variables(&[("PATH", "/go/bin:/bin"), ("LANG", "de_DE.UTF-8"), ("GOPATH", "/go")]);
        let merged = |path: &str| merged(layout(path), &image).environment;
        let expected = |path: &str| {
            variables(&[("PATH", path), ("HOME", "/home/agent"), ("LANG", "de_DE.UTF-8"), ("GOPATH", "/go")])
        };
        assert_eq!(merged(&system), expected("/go/bin:/bin"));
        assert_eq!(merged(&format!("/opt/t/bin:{system}")), expected("/opt/t/bin:/go/bin:/bin"));
    }

    #[test]
    fn the_sandboxs_own_variables_stand() {
        let image = variables(&[("HTTP_PROXY", "http://elsewhere")]);
        let mut ours = layout("/bin");
        ours.environment.push(("HTTP_PROXY".into(), "http://127.0.0.1:1".into()));
        assert_eq!(merged(ours.clone(), &image), ours);
    }
}
