# Tells what working trees at no branch hold that no branch has: `PATH` and the commits, an empty word, what is not committed,
# another empty word; each word is ended by a NUL.
set -eu
git worktree list --porcelain | while read -r key value; do
    case $key in
        worktree) path=$value ;;
        detached)
            [ -d "$path" ] || continue
            printf '%s\0' "$path"
            git -C "$path" log -n 20 --format='%h %s' HEAD --not --branches --remotes=origin -- | tr '\n' '\0'
            printf '\0'
            git -C "$path" diff --name-only -z --no-ext-diff --no-textconv HEAD --
            git -C "$path" ls-files --others --exclude-standard -z
            printf '\0'
            ;;
    esac
done
