# Tells the branches and the working trees: `branch NAME ID`, `tree PATH BRANCH`, each word ended by a NUL.
set -eu
git for-each-ref --format='%(refname) %(objectname)' refs/heads | while read -r name id; do
    printf '%s\0' branch "${name#refs/heads/}" "$id"
done
git worktree list --porcelain | while read -r key value; do
    case $key in
        worktree) path=$value ;;
        branch) printf '%s\0' tree "$path" "${value#refs/heads/}" ;;
    esac
done
