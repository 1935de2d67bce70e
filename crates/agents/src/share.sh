# Gives a worktree the files beside the code that the main working tree has: MAIN FILE...
set -eu
main=$1
shift
for name in "$@"; do
    [ -f "$main/$name" ] || continue
    ! git ls-files --error-unmatch -- "$name" >/dev/null 2>&1 || continue
    case $name in */*) mkdir -p -- "${name%/*}" ;; esac
    cp -p -- "$main/$name" "$name"
done
