# Makes a working tree for a branch, a new one from where HEAD is when there is none: BRANCH PATH.
set -eu
if git show-ref --verify --quiet "refs/heads/$1"; then
    git worktree add --quiet -- "$2" "$1" >&2
elif git show-ref --verify --quiet "refs/remotes/origin/$1"; then
    git worktree add --quiet -b "$1" -- "$2" "refs/remotes/origin/$1" >&2
else
    git worktree add --quiet -b "$1" -- "$2" >&2
fi
