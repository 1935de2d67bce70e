# Tells the branches, then the working trees with what is not committed in them, the main one first, unless it is at no
# branch: `branch NAME ID`, `main PATH BRANCH HEAD WORK`, `tree PATH BRANCH HEAD WORK`, each word ended by a NUL.
refs=$(git for-each-ref --format='%(refname) %(objectname) %(worktreepath)' refs/heads refs/palisade/work)

# show KIND REF HEAD PATH
show() {
    branch=${2#refs/heads/}
    work=$(cd -- "$4" && record "$branch" "$3")
    if [ "$work" = - ]; then
        case $refs in
            *"refs/palisade/work/$branch "*) keep -d "refs/palisade/work/$branch" ;;
        esac
    fi
    printf '%s\0' "$1" "$4" "$branch" "$3" "$work"
}

while read -r name id path; do
    case $name in
        refs/heads/*) printf '%s\0' branch "${name#refs/heads/}" "$id" ;;
    esac
done <<END
$refs
END
here=$(pwd -P)
while read -r name id path; do
    case $name in
        refs/heads/*) [ "$path" != "$here" ] || show main "$name" "$id" "$path" ;;
    esac
done <<END
$refs
END
while read -r name id path; do
    case $name in
        refs/heads/*) [ "$path" = "$here" ] || [ ! -d "$path" ] || show tree "$name" "$id" "$path" ;;
    esac
done <<END
$refs
END
