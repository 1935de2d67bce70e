# Records what is not committed as a commit beside the branch, touching neither index nor files.
set -eu
head=$(git rev-parse --verify --quiet 'HEAD^{commit}')
branch=$(git symbolic-ref --quiet --short HEAD || true)
if [ -z "$branch" ]; then
    echo "HEAD is at no branch; make one with: git switch -c NAME" >&2
    exit 1
fi
index=$(git rev-parse --git-path palisade-index).$$
trap 'rm -f "$index" "$index.lock"' EXIT
own=$(git rev-parse --git-path index)
[ ! -e "$own" ] || cp "$own" "$index"
export GIT_INDEX_FILE="$index"
git add --all
tree=$(git write-tree)
unset GIT_INDEX_FILE
if [ "$tree" = "$(git rev-parse 'HEAD^{tree}')" ]; then
    git update-ref -d "refs/palisade/work/$branch"
    work=-
else
    # The same work is the same commit, so that a second sync finds nothing new.
    GIT_AUTHOR_NAME=palisade GIT_AUTHOR_EMAIL=palisade@localhost GIT_AUTHOR_DATE='1000000000 +0000'
    GIT_COMMITTER_NAME=palisade GIT_COMMITTER_EMAIL=palisade@localhost GIT_COMMITTER_DATE='1000000000 +0000'
    export GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE
    work=$(git -c commit.gpgSign=false commit-tree "$tree" -p "$head" -m 'Uncommitted work')
    git update-ref "refs/palisade/work/$branch" "$work"
fi
printf '%s\0' "$branch" "$head" "$work"
