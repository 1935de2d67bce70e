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

as_root() {
    case $(root_access) in
        root) "$@" ;;
        sudo) sudo -n "$@" ;;
        ask) sudo "$@" ;;
        no) return 1 ;;
    esac
}
