# Makes the repository that the host pushes to: BRANCH NAME EMAIL.
set -eu
if ! git rev-parse --git-dir >/dev/null 2>&1; then
    git init --quiet
    git symbolic-ref HEAD "refs/heads/$1"
fi
[ -z "$2" ] || git config user.name "$2"
[ -z "$3" ] || git config user.email "$3"
# As a clone has it: `origin` is the host, whose side of every branch is kept up to date by pushes.
git config remote.origin.url palisade:host
git config remote.origin.fetch '+refs/palisade/host/*:refs/remotes/origin/*'
# The host may have a shallow clone.
git config receive.shallowUpdate true
mkdir -p "$(git rev-parse --git-path info)"
exclude=$(git rev-parse --git-path info/exclude)
grep -qxF /.worktrees/ "$exclude" 2>/dev/null || echo /.worktrees/ >>"$exclude"
