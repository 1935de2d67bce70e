//! A project's `infra.toml` that anybody wrote. Every problem names a line that exists and is safe to show; what is
//! accepted can be added to, keeps what it said, and tells no literal secret.

use crate::environment::assert_place;
use palisade_config::infra::{Infra, read};
use palisade_provision::{Additions, How, Provided};

const FILE: &str = "infra.toml";
/// Longer than what anybody writes by accident.
const NEW: &str = "a_name_that_no_file_has_yet";

pub fn check(input: &[u8]) {
    let lines = input.iter().filter(|byte| **byte == b'\n').count() + 1;
    let infra = match read(FILE, input) {
        Ok(infra) => infra,
        Err(error) => {
            assert!(!error.problems().is_empty(), "refused for no reason");
            return error.problems().iter().for_each(|problem| assert_place(FILE, problem, lines));
        }
    };
    let text = std::str::from_utf8(input).expect("what is accepted is text");
    assert_eq!(Additions::default().added_to(text).as_deref(), Ok(text));
    if known(&infra).any(|name| name == NEW) {
        return;
    }
    for how in [How::Literal("a \"b\"\n".into()), How::Reference("$OTHER".into())] {
        let additions = Additions {
            ports: Vec::new(),
            variables: vec![Provided { name: NEW.into(), how }],
            files: Vec::new(),
        };
        let added = additions.added_to(text).expect("what was read can be added to");
        let again = match read(FILE, added.as_bytes()) {
            Ok(again) => again,
            // A section has its limit.
            Err(_) if known(&infra).count() >= 1000 => continue,
            Err(error) => panic!("{error}\n{added}"),
        };
        let mut names: Vec<&str> = known(&again).collect();
        names.retain(|name| *name != NEW);
        assert_eq!(names, known(&infra).collect::<Vec<_>>());
        assert_eq!(known(&again).count(), names.len() + 1);
    }
}

fn known(infra: &Infra) -> impl Iterator<Item = &str> {
    let sandbox = &infra.sandbox;
    let ports = sandbox.ports.iter().map(|(name, _)| name.as_str());
    let env = sandbox.env.iter().map(|(name, _)| name.as_str());
    ports.chain(env).chain(sandbox.secrets.iter().map(|secret| secret.name.as_str()))
}
