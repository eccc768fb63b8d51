#!/bin/bash
# docker/image.sh BINARY [NAME] - the image without Docker: a base bootstrapped from Debian's packages
# (mmdebstrap), and the binary on it (buildah). Run as root, or where user namespaces are allowed.
#
#   make && docker/image.sh build/quire quire:latest
#
# STORAGE: where buildah keeps images, instead of its own place. SUITE: of Debian, that the binary was
# built on.
set -euo pipefail
binary=$1 name=${2:-quire:latest} here=$(dirname "$0")
export STORAGE_DRIVER=${STORAGE_DRIVER:-vfs} BUILDAH_ISOLATION=chroot
work=$(mktemp -d) container=
store=()
[ -z "${STORAGE:-}" ] || store=(--root "$STORAGE/root" --runroot "$STORAGE/run")
trap '[ -z "$container" ] || buildah "${store[@]}" rm "$container" >/dev/null; rm -rf "$work"' EXIT

# The libraries are those of the last stage of the Dockerfile.
packages=$(sed -nE '/^FROM debian:12-slim$/,$p' "$here/Dockerfile" | tr ' \\' '\n\n' |
    grep -E '^(lib|ca-)' | paste -sd,)
mmdebstrap --quiet --variant=essential --include="$packages" \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    "${SUITE:-bookworm}" "$work/base.tar"

container=$(buildah "${store[@]}" from scratch)
buildah "${store[@]}" add -q "$container" "$work/base.tar" /
buildah "${store[@]}" copy -q --chmod 755 "$container" "$binary" /usr/local/bin/quire
buildah "${store[@]}" copy -q "$container" "$here/../config/quire.conf" /usr/share/quire/quire.conf
buildah "${store[@]}" copy -q "$container" "$here/health.sh" /usr/local/bin/quire-health
buildah "${store[@]}" config --user 10001 --env QUIRE_HOST=0.0.0.0 --port 8080 \
    --stop-signal SIGTERM --entrypoint '["/usr/local/bin/quire", "serve"]' "$container"
# It starts on these libraries, as that user.
buildah "${store[@]}" run "$container" -- /usr/local/bin/quire --version
buildah "${store[@]}" commit -q "$container" "$name" >/dev/null
echo "$name"
