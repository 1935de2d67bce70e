# Makes the repository that the host pushes to, and tells what the host's branch is at there: BRANCH NAME EMAIL REF.
set -eu
if ! directory=$(git rev-parse --git-dir 2>/dev/null); then
    git init --quiet
    git symbolic-ref HEAD "refs/heads/$1"
    directory=.git
fi
# As a clone has it: `origin` is the host, whose side of every branch is kept up to date by pushes. The host may have a
# shallow clone.
wanted="remote.origin.url palisade:host
remote.origin.fetch +refs/palisade/host/*:refs/remotes/origin/*
receive.shallowupdate true"
[ -z "$2" ] || wanted="$wanted
user.name $2"
[ -z "$3" ] || wanted="$wanted
user.email $3"
known=$(git config --local --get-regexp '^(remote\.origin|receive\.shallowupdate|user)' || true)
if [ "$known" != "$wanted" ]; then
    git config remote.origin.url palisade:host
    git config remote.origin.fetch '+refs/palisade/host/*:refs/remotes/origin/*'
    git config receive.shallowUpdate true
    [ -z "$2" ] || git config user.name "$2"
    [ -z "$3" ] || git config user.email "$3"
fi
mkdir -p "$directory/info"
grep -qxF /.worktrees/ "$directory/info/exclude" 2>/dev/null || echo /.worktrees/ >>"$directory/info/exclude"
printf '%s\0' "$(git rev-parse --verify --quiet "$4^{commit}" || true)"
