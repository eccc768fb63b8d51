#!/bin/bash
# docker/image.sh BINARY [NAME] - the image without Docker: a base bootstrapped from Debian's packages
# (mmdebstrap), and the binary on it (buildah). Run as root, or where user namespaces are allowed.
#
#   make && docker/image.sh build/quire quire:latest
#
# The base is of this machine's Debian, on which the binary was built. STORAGE: where buildah keeps images,
# instead of its own place. The image is for the binary's machine, amd64 or arm64; where that is another one
# than this, packages are unpacked without their scripts, and qemu-user runs what is in it.
set -euo pipefail
binary=$1 name=${2:-quire:latest} here=$(dirname "$0")
export STORAGE_DRIVER=${STORAGE_DRIVER:-vfs} BUILDAH_ISOLATION=chroot
work=$(mktemp -d) container=
store=()
[ -z "${STORAGE:-}" ] || store=(--root "$STORAGE/root" --runroot "$STORAGE/run")
trap '[ -z "$container" ] || buildah "${store[@]}" rm "$container" >/dev/null; rm -rf "$work"' EXIT

case $(od -An -tx2 -j18 -N2 "$binary" | tr -d ' ') in
003e) arch=amd64 emulator= ;;
00b7) arch=arm64 emulator=qemu-aarch64 ;;
*) echo "image.sh: '$binary' is for neither amd64 nor arm64" >&2 && exit 2 ;;
esac
base=(--variant=essential)
if [ "$arch" != "$(dpkg --print-architecture)" ]; then
    # The hook does what scripts of ca-certificates and base-passwd would have done.
    base=(--variant=extract --architectures="$arch" --include=base-files,base-passwd,bash,coreutils,ncurses-base
        --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr
        --extract-hook='cat "$1"/usr/share/ca-certificates/mozilla/*.crt >"$1/etc/ssl/certs/ca-certificates.crt"'
        --extract-hook='for f in passwd group; do cp "$1/usr/share/base-passwd/$f.master" "$1/etc/$f"; done')
fi

# This machine has the libraries from packages of the same names. The loader is the C library's.
packages=ca-certificates
for library in $(readelf -d "$binary" | sed -nE '/ld-linux/d; s/.*\(NEEDED\).*\[(.*)\]$/\1/p'); do
    package=$(dpkg-query -S "*/lib/$(uname -m)-linux-gnu/$library" | cut -d: -f1)
    packages+=,$package
done
mmdebstrap --quiet "${base[@]}" --include="$packages" \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$work/base.tar"

container=$(buildah "${store[@]}" from scratch)
buildah "${store[@]}" add -q "$container" "$work/base.tar" /
buildah "${store[@]}" copy -q --chmod 755 "$container" "$binary" /usr/local/bin/quire
buildah "${store[@]}" copy -q "$container" "$here/../config/quire.conf" /usr/share/quire/quire.conf
buildah "${store[@]}" copy -q "$container" "$here/health.sh" /usr/local/bin/quire-health
buildah "${store[@]}" copy -q "$container" "$here/../LICENSE" /usr/share/doc/quire/LICENSE
# The library that is linked statically, where this Debian's is too old.
linked=$(dirname "$binary")/deps/copyright
[ ! -e "$linked" ] || buildah "${store[@]}" copy -q "$container" "$linked" /usr/share/doc/quire/libmicrohttpd.copyright
buildah "${store[@]}" config --arch "$arch" --user 10001 --env QUIRE_HOST=0.0.0.0 --port 8080 \
    --stop-signal SIGTERM --entrypoint '["/usr/local/bin/quire", "serve"]' "$container"
# It starts on these libraries, as that user.
if [ "$arch" = "$(dpkg --print-architecture)" ]; then
    buildah "${store[@]}" run "$container" -- /usr/local/bin/quire --version
else
    root=$(buildah "${store[@]}" mount "$container")
    "$emulator" -L "$root" "$root/usr/local/bin/quire" --version
    buildah "${store[@]}" umount "$container" >/dev/null
fi
buildah "${store[@]}" commit -q "$container" "$name" >/dev/null
echo "$name"
