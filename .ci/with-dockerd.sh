#!/usr/bin/env bash
# Runs a command with a private Docker Engine: with-dockerd.sh COMMAND [ARGUMENT...]
# The engine has its own network namespace and directories, so it does not interfere with other engines. The engine, its images
# and its containers are deleted when the command ends. Containers can reach each other, but no network. Needs root and the
# package docker.io.
set -euo pipefail

home=$(mktemp -d /tmp/dockerd.XXXXXX) # a short path, because the path of a socket has at most 108 bytes
mkdir "$home/data" "$home/run"
unshare --net -- dockerd --data-root "$home/data" --exec-root "$home/run" -p "$home/pid" -H "unix://$home/d.sock" \
    --iptables=false --ip6tables=false --ip-masq=false --ip-forward=false >"$home/log" 2>&1 &
engine=$!
export DOCKER_HOST=unix://$home/d.sock

clean_up() {
    containers=$(docker ps -aq 2>/dev/null || true)
    [ -z "$containers" ] || docker rm -f $containers >/dev/null 2>&1 || true # an engine with running containers takes 10 s to stop
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
    echo "the Docker Engine did not start; last lines of its log:" >&2
    tail -n 20 "$home/log" >&2
    exit 1
fi
"$@"
