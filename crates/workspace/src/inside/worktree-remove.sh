# Takes a working tree away; the branch stays: PATH.
set -eu
git worktree remove --force -- "$1" >&2
git worktree prune
