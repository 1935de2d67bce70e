# Prints the id of the newest conversation in a directory: PATTERN DIRECTORY. The pattern names files below the home, whose
# names end with the id.
cd "$HOME" || exit 1
# The pattern is split into names on purpose; none of them holds a blank.
# shellcheck disable=SC2086
ls -t $1 2>/dev/null | while read -r file; do
    head -c 65536 "$file" | grep -qF "\"cwd\":\"$2\"" || continue
    name=${file##*/}
    name=${name%.*}
    printf '%s\n' "$name" | grep -oE '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' && break
done
