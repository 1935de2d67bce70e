# shellcheck shell=bash
# Shared by the scripts beside it; sourced, never run.

# The checkout, and the place Cargo builds into.
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=${CARGO_TARGET_DIR:-$repository/target}
[[ $target = /* ]] || target=$repository/$target

# System tools such as dockerd and ip are not on every user's PATH; cargo may not be on a fresh login's.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:${CARGO_HOME:-${HOME:-/nonexistent}/.cargo}/bin

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

die() {
    say "$*"
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# Whether commands can be run as root: 'root', 'sudo' (no password needed), 'ask' (sudo may ask, there is a
# terminal) or 'no'.
root_access() {
    if [[ $EUID -eq 0 ]]; then
        echo root
    elif ! have sudo; then
        echo no
    elif sudo -n true 2>/dev/null; then
        echo sudo
    elif [[ -t 0 && -t 2 ]]; then
        echo ask
    else
        echo no
    fi
}

# Where things are kept that cost a while to get: what several users of scripts/test read is, with root, outside every home;
# without it there is one user only.
cache_directory() {
    if [[ $(root_access) = no ]]; then
        printf '%s\n' "${XDG_CACHE_HOME:-${HOME:?}/.cache}/palisade"
    else
        printf '%s\n' /var/cache/palisade
    fi
}

# Where the agents from npm are that tests run.
agents_directory() { printf '%s\n' "${PALISADE_AGENTS:-$(cache_directory)/agents}"; }

# as_owner DIRECTORY COMMAND...: as root when the directory is outside every home.
as_owner() {
    local directory=$1
    shift
    case $directory in
        /var/*) as_root "$@" ;;
        *) "$@" ;;
    esac
}

as_root() {
    case $(root_access) in
        root) "$@" ;;
        sudo) sudo -n "$@" ;;
        ask) sudo "$@" ;;
        no) return 1 ;;
    esac
}
