# Keeps files out of the agent's commits, and makes the directories that they lie in: NAME...
set -eu
exclude=$(git rev-parse --git-path info/exclude)
for name in "$@"; do
    git ls-files --error-unmatch -- "$name" >/dev/null 2>&1 && continue
    case $name in */*) mkdir -p -- "${name%/*}" ;; esac
    grep -qxF "/$name" "$exclude" 2>/dev/null || printf '/%s\n' "$name" >>"$exclude"
done
