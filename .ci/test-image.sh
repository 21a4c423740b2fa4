#!/usr/bin/env bash
# Builds the docker image of the tests from Debian packages, without a container registry.
# Usage: test-image.sh [NAME:TAG]; default: $HARNESS_TEST_IMAGE or harness-test:py. Needs root, apt and a running Docker Engine.
set -euo pipefail

image=${1:-${HARNESS_TEST_IMAGE:-harness-test:py}}
packages=(base-files dash coreutils grep sed findutils diffutils mawk procps util-linux python3 libsqlite3-0)

if docker image inspect "$image" >/dev/null 2>&1; then
    echo "image $image already exists"
    exit 0
fi
work=$(mktemp -d "${TMPDIR:-/dev/shm}/image.XXXXXX")
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$work/deb/partial" "$root"/usr/{bin,sbin,lib,lib64} "$root"/{etc,tmp,workspace,proc,dev,sys}
for name in bin sbin lib lib64; do ln -s "usr/$name" "$root/$name"; done

# With an empty status file, apt downloads all dependencies, as if no package were installed.
apt-get install -y -qq --no-install-recommends --download-only -o Dir::State::status=/dev/null \
    -o "Dir::Cache::archives=$work/deb" -o Debug::NoLocking=1 -o APT::Sandbox::User=root "${packages[@]}" >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; exit 1; }
for package in "$work"/deb/*.deb; do
    case ${package##*/} in
        perl* | dpkg_* | debconf* | adduser* | passwd_* | libperl* | openssl_*) continue ;;
    esac
    dpkg-deb -x "$package" "$root"
done

# Do the work of the packages' installation scripts, which are not run.
printf 'root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:/tmp:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\nagent:x:1000:\n' >"$root/etc/group"
[ -e "$root/usr/bin/sh" ] || ln -s dash "$root/usr/bin/sh"
[ -e "$root/usr/bin/awk" ] || ln -s mawk "$root/usr/bin/awk"
[ -e "$root/usr/bin/python3" ] || ln -s "$(basename "$(ls "$root"/usr/bin/python3.* | head -n 1)")" "$root/usr/bin/python3"
rm -rf "$root"/usr/share/{doc,man,locale,info,zoneinfo,perl5}
ldconfig -r "$root" 2>/dev/null || true
chmod 1777 "$root/tmp"
chown 1000:1000 "$root/workspace"
tar --sort=name --mtime=@0 --numeric-owner -C "$root" -cf - . |
    docker import -c 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8' \
        -c 'WORKDIR /workspace' -c 'USER 1000:1000' -c 'CMD ["sleep","infinity"]' - "$image" >/dev/null
echo "image $image: $(docker image inspect -f '{{.Size}}' "$image") bytes"
