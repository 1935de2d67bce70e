//! A compose file that anybody wrote. What is read can be changed, reads back, has nothing left to change then, and
//! what is suggested for it is an `infra.toml` that the reader takes and that leaves no gap.

use palisade_config::infra;
use palisade_core::ProjectPath;
use palisade_provision::{Additions, ComposeFile, Heading, ProjectTree, discover};

/// More than a section of `infra.toml` takes.
const MOST: usize = 1000;

/// Git ignores everything, and nothing is there.
struct Tree;

impl ProjectTree for Tree {
    fn is_ignored(&self, _: &ProjectPath) -> bool {
        true
    }

    fn is_file(&self, _: &ProjectPath) -> bool {
        false
    }

    fn is_directory(&self, _: &ProjectPath) -> bool {
        false
    }
}

pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(file) = ComposeFile::read_in(text, "below") else { return };
    let found = discover(&file, None, "shop", &Tree);
    let after = &found.parameterised.text;
    let again =
        ComposeFile::read_in(after.as_str(), "below").unwrap_or_else(|error| panic!("{error}\n{after}"));
    let services = |file: &ComposeFile| file.services.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
    assert_eq!(services(&again), services(&file));
    let twice = discover(&again, None, "shop", &Tree);
    assert_eq!((&twice.parameterised.text, &twice.ports), (after, &found.ports));
    if [found.ports.len(), found.variables.len(), found.files.len()].into_iter().any(|count| count > MOST) {
        return;
    }
    let suggested = Additions::proposed(&found).headed(&Heading {
        name: "shop".into(),
        prefix: "shop".into(),
        compose_file: ProjectPath::new("below/compose.yaml").expect("a path"),
        method: None,
        health: None,
    });
    let declared = infra::read("infra.toml", suggested.as_bytes())
        .unwrap_or_else(|error| panic!("{error}\n{suggested}"));
    let left = discover(&again, Some(&declared), "shop", &Tree);
    assert!(left.is_complete(), "{left:#?}");
}
