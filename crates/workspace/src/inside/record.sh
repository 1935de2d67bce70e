# Functions for the scripts that look at what is not committed.
set -eu

# keep REF NEW, keep -d REF: changes one of our own refs. Nobody else does, and it takes a moment. A lock that outlasts
# the second in which a command whose client is gone has to end is one that git was killed too early to put away.
keep() {
    git -c core.filesRefLockTimeout=3000 update-ref "$@" 2>/dev/null || {
        case $1 in -d) ref=$2 ;; *) ref=$1 ;; esac
        rm -f -- "$(git rev-parse --git-path "$ref.lock")"
        git update-ref "$@"
    }
}

# record BRANCH HEAD: tells the commit that holds what is not committed in this working tree, or `-`. It is kept as a ref
# beside the branch; index and files stay as they are. The same work is the same commit, so that it is nothing new when
# it is asked for again.
record() (
    [ -n "$(GIT_OPTIONAL_LOCKS=0 git status --porcelain --untracked-files=normal --no-renames)" ] || {
        echo -
        exit
    }
    paths=$(git rev-parse --git-path index --git-path palisade-index)
    index=${paths#*
}.$$
    trap 'rm -f "$index" "$index.lock"' EXIT
    own=${paths%%
*}
    # With its time: git compares it with that of the files, to know which may have changed within the same second.
    [ ! -e "$own" ] || cp -p "$own" "$index"
    tree=$(
        export GIT_INDEX_FILE="$index"
        git add --all && git write-tree
    )
    if [ "$tree" = "$(git rev-parse "$2^{tree}")" ]; then
        echo -
        exit
    fi
    GIT_AUTHOR_NAME=palisade GIT_AUTHOR_EMAIL=palisade@localhost GIT_AUTHOR_DATE='1000000000 +0000'
    GIT_COMMITTER_NAME=palisade GIT_COMMITTER_EMAIL=palisade@localhost GIT_COMMITTER_DATE='1000000000 +0000'
    export GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE
    work=$(git -c commit.gpgSign=false commit-tree "$tree" -p "$2" -m 'Uncommitted work')
    # Left alone when it is there already: whoever watches the refs would take it for news.
    case "${refs-}" in
        *"refs/palisade/work/$1 $work "*) ;;
        *) keep "refs/palisade/work/$1" "$work" ;;
    esac
    echo "$work"
)
