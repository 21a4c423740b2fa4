#!/usr/bin/env bash
# Installs a pinned version of Bun in /usr/local/bin, where the sandboxes can use it. Does nothing if bun is already installed.
set -euo pipefail

command -v bun >/dev/null 2>&1 && exit 0
[ "$(uname -sm)" = "Linux x86_64" ] || { echo "this script installs Bun for Linux on x86-64 only; install bun for this system yourself" >&2; exit 1; }

package=@oven/bun-linux-x64-baseline@1.4.5
sha512=b3cc8cc187059e7ac0d7bf208e2d2065b904d965437a3fd38b5c7bef4a0f7e28
sha512+=71c91c5230d846862010357579dda0deada67192c76f295fd101d40109dd2a3c

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
archive=$folder/$(npm pack --silent --pack-destination "$folder" "$package")
echo "$sha512  $archive" | sha512sum --check --quiet
tar -xzf "$archive" -C "$folder"
install -m 755 "$folder/package/bin/bun" /usr/local/bin/bun
