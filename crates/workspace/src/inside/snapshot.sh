# Records what is not committed in this working tree.
head=$(git rev-parse --verify --quiet 'HEAD^{commit}')
branch=$(git symbolic-ref --quiet --short HEAD || true)
if [ -z "$branch" ]; then
    echo "HEAD is at no branch; make one with: git switch -c NAME" >&2
    exit 1
fi
work=$(record "$branch" "$head")
[ "$work" != - ] || keep -d "refs/palisade/work/$branch"
printf '%s\0' "$branch" "$head" "$work"
