#!/usr/bin/env bash
# Runs a command on a machine of its own that has a neighbour.
# usage: two_hosts.sh FOLDER COMMAND...
# The machine has the address 10.77.0.1, the neighbour 10.77.0.2: two network
# namespaces, joined by a pair of virtual devices. Each has a second address,
# 10.78.0.1 or 10.79.0.1, that the other one does not reach. FOLDER gets a
# command `ssh HOST LINE` that runs a line (VARIABLE=... COMMAND) there; it is first in PATH. Needs
# root.
set -euo pipefail
if [ -z "${TWO_HOSTS:-}" ]; then
  TWO_HOSTS=1 exec unshare --net --uts "$0" "$@"
fi
folder=$1
shift
mkdir -p "$folder"
hostname first
unshare --net --uts sleep infinity &
neighbour=$!
trap 'kill $neighbour' EXIT
on_neighbour() { nsenter --target "$neighbour" --net --uts "$@"; }
# unshare has made the namespaces when they differ from ours.
until [ "$(readlink /proc/$neighbour/ns/uts)" != "$(readlink /proc/self/ns/uts)" ]; do
  sleep 0.01
done
on_neighbour hostname second
ip link add name link0 type veth peer name link0 netns "$neighbour"
configure() { # THIS OTHER-ADDRESS PREFIX...
  "${@:3}" ip link set lo up
  "${@:3}" ip addr add "$2/32" dev lo
  "${@:3}" ip addr add "$1/24" dev link0
  "${@:3}" ip link set link0 up
}
configure 10.77.0.1 10.78.0.1
configure 10.77.0.2 10.79.0.1 on_neighbour
cat >"$folder/ssh" <<END
#!/bin/sh
case \$1 in
  10.77.0.1) exec sh -c "exec env \$2" ;;
  10.77.0.2) exec nsenter --target $neighbour --net --uts sh -c "exec env \$2" ;;
esac
echo "no host \$1" >&2
exit 255
END
chmod +x "$folder/ssh"
PATH=$folder:$PATH "$@"
