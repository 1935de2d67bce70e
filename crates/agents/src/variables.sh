# What the files of this working tree say: WAY FILE... With the way `any`, direnv is asked first.
# The answer is `direnv`, or `failed` or `none` with the files; then each file that is there with its name and size; and
# at the end what direnv gave, or behind each size the file itself.
set -eu
way=$1
shift
answer=none
given=
if [ "$way" = any ] && command -v direnv >/dev/null 2>&1; then
    answer=direnv
    if [ -e .envrc ] || [ -e .env ]; then
        # Its words may repeat what is in the files.
        given=$(direnv export json 2>/dev/null) || answer=failed
    fi
elif [ "$way" != any ]; then
    answer=failed
fi
printf '%s\0' "$answer"
for name in "$@"; do
    [ -f "$name" ] && [ -r "$name" ] || continue
    size=$(wc -c <"$name")
    printf '%s\0%d\0' "$name" "$size"
    [ "$answer" = direnv ] || [ "$size" -gt 262144 ] || head -c "$size" <"$name"
done
[ "$answer" != direnv ] || printf '\0%s' "$given"
