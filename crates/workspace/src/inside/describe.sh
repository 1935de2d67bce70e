# Tells what a branch has beyond what the host has, and what is not committed: BRANCH [KNOWN].
set -eu
git log -n 20 --format='%h %s' "refs/heads/$1" --not --remotes=origin ${2:+"$2"} -- | tr '\n' '\0'
printf '\0'
git diff --name-only -z --no-ext-diff --no-textconv "refs/heads/$1" "refs/palisade/work/$1" -- 2>/dev/null || true
