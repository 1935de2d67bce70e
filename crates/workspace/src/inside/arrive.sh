# Brings the working tree to what was pushed, where nothing is in the way: BRANCH REF.
set -eu
say() { printf '%s\0' "$@"; }
pushed='' own='' origin=''
while read -r id name; do
    case $name in
        "$2") pushed=$id ;;
        "refs/heads/$1") own=$id ;;
        "refs/remotes/origin/$1") origin=$id ;;
    esac
done <<END
$(git for-each-ref --format='%(objectname) %(refname)' "$2" "refs/heads/$1" "refs/remotes/origin/$1")
END
[ "$origin" = "$pushed" ] || git update-ref "refs/remotes/origin/$1" "$pushed"
if [ "$own" = "$pushed" ]; then
    say same
    exit
fi
if [ -z "$own" ]; then
    git update-ref "refs/heads/$1" "$pushed" ''
    if [ "$(git symbolic-ref --quiet HEAD || true)" = "refs/heads/$1" ]; then
        git reset --quiet --hard
    fi
    git config "branch.$1.remote" origin
    git config "branch.$1.merge" "$2"
    say cloned
    exit
fi
counts=$(git rev-list --left-right --count "$own...$pushed")
ours=${counts%%[!0-9]*} hosts=${counts##*[!0-9]}
if [ "$hosts" = 0 ]; then
    if [ "$ours" = 0 ]; then say same; else say ahead "$ours"; fi
    exit
fi
state=clean
[ -z "$(git status --porcelain --untracked-files=no)" ] || state=dirty
if [ "$ours" = 0 ] && [ "$state" = clean ]; then
    if [ "$(git symbolic-ref --quiet HEAD || true)" != "refs/heads/$1" ]; then
        git update-ref "refs/heads/$1" "$pushed" "$own"
        say forwarded
        exit
    elif git merge --quiet --ff-only "$pushed" >/dev/null; then
        say forwarded
        exit
    fi
    # An untracked file is in the way.
    state=dirty
fi
say diverged "$ours" "$hosts" "$state"
