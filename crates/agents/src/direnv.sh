# Lets direnv load the files of working trees by itself: DIRECTORY. Its own words for the files are in palisade_text.
set -eu
command -v direnv >/dev/null 2>&1 || exit 0
config=${XDG_CONFIG_HOME:-$HOME/.config}/direnv
mkdir -p "$config/lib"
printf '%s' "$palisade_text" >"$config/lib/palisade.sh"
# Nobody is asked to allow what lies in the sandbox's own working trees.
if [ ! -e "$config/direnv.toml" ]; then
    printf "[global]\nload_dotenv = true\n[whitelist]\nprefix = ['%s']\n" "$1" >"$config/direnv.toml"
fi
if ! grep -qs 'direnv hook' "$HOME/.bashrc"; then
    printf 'case $- in *i*) eval "$(direnv hook bash)" ;; esac\n' >>"$HOME/.bashrc"
fi
if [ ! -e "$HOME/.bash_profile" ] && [ ! -e "$HOME/.bash_login" ] && [ ! -e "$HOME/.profile" ]; then
    printf '. "$HOME/.bashrc"\n' >"$HOME/.bash_profile"
fi
