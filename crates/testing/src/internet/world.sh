# A small internet: this shell stands for the host, in a network of its own, and one cable away is another machine
# with a public, a private and a metadata address, on which servers run. Names are in a hosts file of this shell's own.
# Says "ready PID FAR-PID" and stays until its input ends.
set -euo pipefail
place=$1 python=$2

ip link set lo up
unshare --net -- sleep infinity &
far=$!
trap 'kill "$far" "$server" 2>/dev/null || true' EXIT
server=$far
# The namespace is there once the process is in another than ours.
until [[ $(readlink "/proc/$far/ns/net") != "$(readlink /proc/self/ns/net)" ]]; do sleep 0.01; done
ip link add near0 type veth peer name far0
ip link set far0 netns "$far"
ip address add 93.184.215.1/24 dev near0
ip link set near0 up
at_far() { nsenter --target "$far" --net -- "$@"; }
at_far ip link set lo up
for address in 93.184.215.14/24 10.9.8.7/32 169.254.169.254/32; do at_far ip address add "$address" dev far0; done
at_far ip link set far0 up
ip route add default via 93.184.215.14

cat >"$place/hosts" <<'HOSTS'
127.0.0.1 localhost loop.example.net
93.184.215.14 site.example.net other.example.net a.wild.example.net mixed.example.net
10.9.8.7 private.example.net mixed.example.net
169.254.169.254 meta.example.net
93.184.215.1 own.example.net
HOSTS
# A name server that nobody runs is asked in vain, but at once.
echo 'nameserver 127.0.0.1' >"$place/resolv.conf"
mount --bind "$place/hosts" /etc/hosts
mount --bind "$place/resolv.conf" "$(readlink -f /etc/resolv.conf)"

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=site.example.net \
    -addext 'subjectAltName=DNS:*.example.net' -keyout "$place/key.pem" -out "$place/cert.pem" 2>/dev/null
nsenter --target "$far" --net -- "$python" -IS "$place/server.py" "$place" &
server=$!
until [[ -e $place/ready ]]; do
    kill -0 "$server"
    sleep 0.05
done
echo "ready $$ $far"
cat >/dev/null
