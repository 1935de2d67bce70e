# Tells what is not committed in this working tree, and what git ignores there: a file each, or a directory as a whole
# where a rule names it; each is ended by a NUL and begins with git's two letters.
export GIT_OPTIONAL_LOCKS=0
exec git status --porcelain=v1 -z --ignored=matching --untracked-files=all --no-renames --ignore-submodules=all
