# Made by palisade at each start of an agent. Before an .envrc of a working tree has its say, these files are loaded, and
# later ones win. Everything fails when one of them cannot be read, and then the session loads them by itself.
if [ -e .envrc ]; then
    for palisade_file in FILES; do
        watch_file "$palisade_file"
        if [ -f "$palisade_file" ]; then
            palisade_said=$("$direnv" dotenv bash "$palisade_file") || exit 1
            eval "$palisade_said"
        fi
    done
    unset palisade_file palisade_said
fi
