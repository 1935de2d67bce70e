# Writes a file of the home unless there is one: PATH TEXT.
set -eu
file=$HOME/$1
[ ! -e "$file" ] || exit 0
mkdir -p "$(dirname "$file")"
printf '%s' "$2" >"$file"
