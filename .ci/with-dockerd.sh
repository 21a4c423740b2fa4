#!/usr/bin/env bash
# Runs a command with a private docker engine: with-dockerd.sh COMMAND [ARGUMENT...]
# The engine has its own network namespace and directories, so it disturbs no other, and is gone afterwards with all it made.
# Its bridge leads nowhere, so no container reaches more than another one. Needs root and the package docker.io.
set -euo pipefail

home=$(mktemp -d /tmp/dockerd.XXXXXX) # short: a socket path holds 108 bytes
mkdir "$home/data" "$home/run"
unshare --net -- dockerd --data-root "$home/data" --exec-root "$home/run" -p "$home/pid" -H "unix://$home/d.sock" \
    --iptables=false --ip6tables=false --ip-masq=false --ip-forward=false >"$home/log" 2>&1 &
engine=$!
export DOCKER_HOST=unix://$home/d.sock

clean_up() {
    containers=$(docker ps -aq 2>/dev/null || true)
    [ -z "$containers" ] || docker rm -f $containers >/dev/null 2>&1 || true # an engine with containers takes 10 s to stop
    kill "$engine" 2>/dev/null || true
    wait "$engine" 2>/dev/null || true
    rm -rf "$home"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

ready=
for _ in $(seq 200); do
    if docker version >/dev/null 2>&1; then ready=yes && break; fi
    kill -0 "$engine" 2>/dev/null || break
    sleep 0.1
done
if [ -z "$ready" ]; then
    echo "the docker engine did not start; the end of its log:" >&2
    tail -n 20 "$home/log" >&2
    exit 1
fi
"$@"
