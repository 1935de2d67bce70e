//! What a sandbox says that its repositories hold, through our reader. Whatever it says: names of refs are ones that git
//! takes, no ref lies in another, texts for people have no control characters, and nothing is longer or more than the
//! limits allow.

use palisade_core::policy::WORKSPACE;
use palisade_workspace::{RepositorySurvey, Survey};

/// As many nested repositories and working trees as the reader takes.
const MAX_NESTED: usize = 64;
const MAX_TREES: usize = 200;

pub fn check(input: &[u8]) {
    let Some(Ok(survey)) = Survey::parse(input, WORKSPACE) else { return };
    assert!(survey.main_tree().is_some_and(|tree| tree.path.as_str() == WORKSPACE));
    assert!(survey.nested.len() <= MAX_NESTED);
    check_repository(&survey.main);
    for nested in &survey.nested {
        let path = nested.path.as_str();
        assert!(!path.starts_with('/') && !path.split('/').any(|part| part == ".."), "{path:?}");
        check_repository(&nested.repository);
    }
    for left_out in &survey.left_out {
        assert_shown(&left_out.path);
        assert_shown(&left_out.reason);
    }
}

fn check_repository(survey: &RepositorySurvey) {
    assert!(survey.trees.len() <= MAX_TREES);
    for name in survey.refs.keys() {
        assert!(name.starts_with("refs/") && !name.starts_with("refs/palisade/"), "{name:?}");
        assert!(!name.contains("..") && !name.contains(['\0', '\n', ' ', '~', '^', ':', '\\']), "{name:?}");
        let mut above = name.match_indices('/').map(|(end, _)| &name[..end]);
        assert!(!above.any(|directory| survey.refs.contains_key(directory)), "{name:?} lies in another");
    }
    survey.stashes.iter().for_each(|entry| assert_shown(&entry.message));
    survey.tips.iter().for_each(|(place, _)| assert_shown(place));
    survey.trees.iter().flat_map(|tree| &tree.operations).for_each(|operation| assert_shown(operation));
}

fn assert_shown(text: &str) {
    assert!(!text.contains(char::is_control), "{text:?}");
}
