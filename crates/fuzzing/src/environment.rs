//! An environment's file that anybody wrote, through the reader and over the settings. Every problem names a line that
//! exists and is safe to show; what is accepted can be shown, too; and laid over the settings of a user who has allowed
//! nothing, it never widens.

use palisade_config::manifest::{Environment, Provenance, read, settle};
use palisade_config::{Problem, Settings};
use palisade_core::{Access, Root, Workspace, printable};

const FILE: &str = "environment.toml";

pub fn check(input: &[u8]) {
    let lines = input.iter().filter(|byte| **byte == b'\n').count() + 1;
    let manifest = match read(FILE, input) {
        Ok(manifest) => manifest,
        Err(problems) => {
            assert!(!problems.is_empty(), "refused for no reason");
            return problems.iter().for_each(|problem| assert_place(FILE, problem, lines));
        }
    };
    assert!(!manifest.methods().is_empty(), "no method can have it");
    assert_eq!(printable(&manifest.description), manifest.description);
    // Its own words are as good as any for commands.
    let text = String::from_utf8_lossy(input);
    let commands: Vec<&str> = text.lines().collect();
    assert!(manifest.init.refusals(&commands).len() <= commands.len());
    let own_root = matches!(manifest.root.as_ref().map(|root| &root.value), Some(Root::Directory { .. }));
    let environment = Environment { manifest, provenance: Provenance::User { file: FILE.into() } };
    let base = Settings::default();
    match settle(&base, &environment) {
        Err(error) => error.problems().iter().for_each(|problem| assert_place(FILE, problem, lines)),
        Ok(settled) => {
            let (narrow, wide) = (settled.policy(Workspace::Own), base.policy(Workspace::Own));
            assert!(narrow.network <= wide.network && narrow.root == Access::ReadOnly && !own_root);
            let (asked, most) = (narrow.resources, wide.resources);
            assert!(asked.memory.value <= most.memory.value, "more memory");
            assert!(asked.cpus.value <= most.cpus.value, "more processors");
            assert!(asked.pids.value <= most.pids.value, "more processes");
            assert_eq!((narrow.mounts, narrow.tools, narrow.allow), (wide.mounts, wide.tools, wide.allow));
        }
    }
}

/// It is told of the file, or of a line that the file has, and can be shown on a terminal.
pub(crate) fn assert_place(file: &str, problem: &Problem, lines: usize) {
    let shown = problem.to_string();
    assert_eq!(printable(&shown), shown);
    let rest = shown.strip_prefix(file).unwrap_or_else(|| panic!("no such file: {shown}"));
    if let Some((line, _)) = rest.strip_prefix(':').and_then(|rest| rest.split_once(':'))
        && let Ok(line) = line.parse::<usize>()
    {
        assert!((1..=lines).contains(&line), "of {lines} lines: {shown}");
    }
}
