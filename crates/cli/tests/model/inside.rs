//! Looks into a sandbox with one command: git is asked inside, because objects of the host's are in a store that is seen
//! only there.

use crate::contents::{Contents, PSEUDO_REFS};
use crate::users_state::{AgentState, parse_index};
use std::collections::BTreeMap;

/// The workspace, as it is called inside.
pub(crate) const WORKSPACE: &str = "/workspace";

/// Answers in parts, each after a line that begins with `= `. No file that the agents make has a line end in its name, or
/// is a link.
const SCRIPT: &str = r#"
cd /workspace || exit 4
[ -e .git ] || exit 0
export GIT_OPTIONAL_LOCKS=0 LC_ALL=C
echo '= refs'; git for-each-ref --format='%(refname) %(objectname)'
echo '= index'; git ls-files --stage
find . -name .git -prune -print | while read -r place; do
    # A linked working tree has everything in the repository that it belongs to.
    if [ -f "$place" ] && grep -q '/\.git/worktrees/' "$place"; then continue; fi
    top=${place%/.git}
    directory=$(git -C "$top" rev-parse --absolute-git-dir) || exit 4
    ids=$(
        for own in "$directory" "$directory"/worktrees/*; do
            for name in $PSEUDO_REFS; do [ ! -f "$own/$name" ] || cat "$own/$name"; done
        done | grep -E '^.{40}$'
    )
    echo "= objects $top"
    git -C "$top" rev-list --objects --ignore-missing --all --reflog --indexed-objects $ids || exit 4
    echo '= types'
    git -C "$top" cat-file --batch-check='%(objectname) %(objecttype)' --batch-all-objects | grep ' tree$' || :
done || exit 4
for kind in executable file; do
    case $kind in file) with='!';; *) with=;; esac
    paths=$(find . -name .git -prune -o -type f $with -perm -100 -print)
    [ -n "$paths" ] || continue
    echo "= paths $kind"; echo "$paths"
    echo '= ids'; echo "$paths" | git hash-object --no-filters --stdin-paths || exit 4
done
echo '= end'
"#;

/// The script that answers what [`parse`] reads.
pub(crate) fn script() -> String {
    format!("PSEUDO_REFS='{}'\n{SCRIPT}", PSEUDO_REFS.join(" "))
}

/// What was seen inside; `None` where there is no repository.
pub(crate) fn parse(answer: &str) -> Option<(Contents, AgentState)> {
    if answer.is_empty() {
        return None;
    }
    let mut contents = Contents::default();
    let (mut refs, mut index) = (Vec::new(), BTreeMap::new());
    let parts = answer.trim_start_matches("= ").split("\n= ").map(|part| {
        let mut lines = part.lines();
        (lines.next().unwrap(), lines.collect())
    });
    let parts: Vec<(&str, Vec<&str>)> = parts.collect();
    assert_eq!(parts.last().map(|(name, _)| *name), Some("end"), "{answer}");
    for (at, (name, lines)) in parts.iter().enumerate() {
        // What belongs to a part is in the next one.
        let next = || &parts[at + 1].1;
        match name.split_once(' ').unwrap_or((name, "")) {
            ("refs", _) => refs.clone_from(lines),
            ("index", _) => index = parse_index(lines.iter().copied()),
            ("objects", top) => {
                let top = top.replacen('.', WORKSPACE, 1);
                contents.add_objects(&lines.join("\n"), &next().join("\n"), &top);
            }
            ("paths", kind) => {
                let mode = if kind == "executable" { "executable" } else { "file" };
                assert_eq!(lines.len(), next().len(), "{answer}");
                for (path, id) in lines.iter().zip(next()) {
                    let name = path.trim_start_matches("./");
                    contents.add_file(WORKSPACE, name, (mode, (*id).to_owned()));
                }
            }
            _ => {}
        }
    }
    let agent = AgentState::new(refs.into_iter(), &contents, index);
    Some((contents, agent))
}
