//! What the user and the agent do: short shell scripts with a few variables.
//!
//! `$WHO` is `user` or `agent`, `$N` the step's number, `$F` and `$G` files, `$B` a branch and `$AT` where a file is
//! changed. Every text that is written has `$WHO $N` in it, so no two steps write the same. A script may find nothing
//! to do, and fails then: what it left behind is a state like any other.

/// One thing that an actor does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Action {
    pub(crate) name: &'static str,
    pub(crate) script: &'static str,
}

const fn action(name: &'static str, script: &'static str) -> Action {
    Action { name, script }
}

/// Functions that scripts use.
pub(crate) const PRELUDE: &str = r#"
put() {
    case $1 in */*) mkdir -p "${1%/*}";; esac
    if [ "$AT" = top ] && [ -s "$1" ]; then sed -i "1i $WHO $N" "$1"; else echo "$WHO $N" >> "$1"; fi
}
save() { git commit -q -m "$WHO $N" "$@"; }
"#;

/// What both do.
const SHARED: [Action; 26] = [
    action("edit", r#"put "$F""#),
    action("rewrite", r#"case $F in */*) mkdir -p "${F%/*}";; esac; echo "$WHO $N all" > "$F""#),
    action("stage", r#"put "$F" && git add "$F""#),
    action("stage-and-edit", r#"put "$F" && git add "$F" && echo "$WHO $N later" >> "$F""#),
    action("commit", r#"put "$F" && git add "$F" && save"#),
    action("commit-all", r#"put "$F"; git add -A && save"#),
    action(
        "commit-twice",
        r#"put "$F" && git add "$F" && save && echo "$WHO $N again" >> "$G" && git add "$G" && save"#,
    ),
    action("amend", r#"put "$F" && git add "$F" && save --amend"#),
    action("rebase", r#"git rebase -q --autostash --onto HEAD~2 HEAD~1"#),
    action("reset-hard", r#"git reset -q --hard HEAD~1"#),
    action("reset-soft", r#"git reset -q --soft HEAD~1"#),
    action("reset-mixed", r#"git reset -q HEAD~1"#),
    action("squash", r#"git reset -q --soft HEAD~2 && save"#),
    action("switch-new", r#"git switch -q -c "$B" && put "$F" && git add "$F" && save"#),
    action("switch", r#"git switch -q main || git switch -q "$B""#),
    action("stash", r#"put "$F"; echo "$WHO $N untracked" > "t$N"; git stash push -q -u"#),
    action("stash-pop", r#"git stash pop -q"#),
    action("tag", r#"git tag "t$N" && git tag -a -m "$WHO $N" "a$N""#),
    action("rename", r#"git mv "$F" "r$N""#),
    action("chmod", r#"if [ -x "$F" ]; then chmod -x "$F"; else chmod +x "$F"; fi"#),
    action(
        "sparse",
        r#"if git config --get core.sparseCheckout | grep -q true; then git sparse-checkout disable; else git sparse-checkout set --no-cone '/*' '!/d/'; fi"#,
    ),
    action("delete-branch", r#"git branch -q -D "$B""#),
    action("untracked", r#"mkdir -p u; echo "$WHO $N" > "u/$((N % 3))""#),
    action("ignored", r#"echo "$WHO $N" > "$F.ignored""#),
    action("delete", r#"rm "$F""#),
    action(
        "finish",
        r#"git add -A; if [ -d "$(git rev-parse --git-path rebase-merge)" ]; then git rebase --continue; else save; fi"#,
    ),
];

/// What only the user does.
const OWN_OF_USER: [Action; 8] = [
    action("add-worktree", r#"git worktree add -q -b "w$N" "../tree-$N" && put "../tree-$N/$F""#),
    action(
        "switch-worktree",
        r#"for tree in ../tree-*; do [ -d "$tree" ] || exit 1; git -C "$tree" switch -q "$B"; done"#,
    ),
    action(
        "move-repository",
        r#"mv "$PWD" "../host-$N" && cd "../host-$N" && { git worktree repair ../tree-*; true; }"#,
    ),
    action("merge-waiting", r#"git merge -q --no-edit palisade/box/main"#),
    action(
        "commit-on-waiting",
        r#"old=$(git rev-parse -q --verify refs/heads/palisade/box/main) && new=$(git commit-tree -p "$old" -m "$WHO $N" "$old^{tree}") && git update-ref refs/heads/palisade/box/main "$new""#,
    ),
    action("delete-waiting", r#"git branch -q -D palisade/box/main"#),
    action("abort", r#"git merge --abort || git rebase --abort"#),
    action("push", r#"git push -q --force origin HEAD"#),
];

/// What only the agent does.
const OWN_OF_AGENT: [Action; 16] = [
    action(
        "nested",
        r#"git init -q "n$N" && cd "n$N" && git config user.name agent && git config user.email a@example.org && put one && git add one && save && put two"#,
    ),
    action(
        "nested-more",
        r#"set -- n*/.git; [ -d "$1" ] || exit 1; cd "${1%/.git}" && put one && git add one && save --quiet && put three && git stash -q -u; put four"#,
    ),
    action("nested-unborn", r#"git init -q "e$N" && put "e$N/one""#),
    action(
        "submodule",
        r#"git -c protocol.file.allow=always submodule add -q ../module.git "s$N" && cd "s$N" && git config user.name agent && git config user.email a@example.org && put one && git add one && save && put two"#,
    ),
    action("clone", r#"git clone -q ../module.git "c$N""#),
    action("detach", r#"git switch -q --detach && put "$F" && git add "$F" && save"#),
    action("refused-name", r#"echo "$WHO $N" > 'GIT~1'"#),
    action("stash-twice", r#"put "$F" && git stash push -q && put "$G" && git stash push -q"#),
    action(
        "conflict",
        r#"git stash -q -u; git switch -q -c "x$N" && echo "$WHO $N x" > "$F" && git add "$F" && save && git switch -q - && echo "$WHO $N y" > "$F" && git add "$F" && save; git merge -q "x$N"; [ -e "$(git rev-parse --git-path MERGE_HEAD)" ]"#,
    ),
    action("reflog-only", r#"put "$F" && git add "$F" && save && git reset -q --hard HEAD~1"#),
    action(
        "tag-only",
        r#"put "$F" && git add "$F" && save && git tag "only$N" && git reset -q --hard HEAD~1"#,
    ),
    action(
        "commit-elsewhere",
        r#"git update-ref "refs/heads/$B" "$(git commit-tree -p HEAD -m "$WHO $N" HEAD^{tree})""#,
    ),
    action(
        "autostash",
        r#"put "$G" && git add "$G" && save && put "$G" && git add "$G" && save && put "$F"; git -c sequence.editor='sed -i s/^pick/break\\npick/' rebase -q -i --autostash HEAD~1"#,
    ),
    action(
        "add-worktree",
        r#"mkdir -p .worktrees && git worktree add -q -b "w$N" ".worktrees/w$N" && cd ".worktrees/w$N" && put "$F" && git add "$F" && echo "$WHO $N later" >> "$F" && put u/worktree"#,
    ),
    action("notes", r#"git notes add -f -m "$WHO $N""#),
    action(
        "tidy",
        r#"git merge --abort; git rebase --abort; git reset -q --hard; git clean -qfd; git switch -q main"#,
    ),
];

pub(crate) const USERS: usize = SHARED.len() + OWN_OF_USER.len();
pub(crate) const AGENTS: usize = SHARED.len() + OWN_OF_AGENT.len();

/// What happens most of the time, so that the rest has something to meet.
const OFTEN_OF_USER: [&str; 6] = ["edit", "stage", "commit", "reset-mixed", "commit-on-waiting", "switch"];
const OFTEN_OF_AGENT: [&str; 8] =
    ["commit", "commit-twice", "edit", "untracked", "stage-and-edit", "amend", "tidy", "tidy"];

pub(crate) fn often_of_user() -> Vec<usize> {
    let number = |name: &&str| (0..USERS).find(|number| users_action(*number).name == *name);
    OFTEN_OF_USER.iter().filter_map(number).collect()
}

pub(crate) fn often_of_agent() -> Vec<usize> {
    let number = |name: &&str| (0..AGENTS).find(|number| agents_action(*number).name == *name);
    OFTEN_OF_AGENT.iter().filter_map(number).collect()
}

pub(crate) fn users_action(number: usize) -> &'static Action {
    SHARED.get(number).unwrap_or_else(|| &OWN_OF_USER[number - SHARED.len()])
}

pub(crate) fn agents_action(number: usize) -> &'static Action {
    SHARED.get(number).unwrap_or_else(|| &OWN_OF_AGENT[number - SHARED.len()])
}
