#!/bin/sh
# tests/deps.sh PACKAGE... - make sure that Debian packages are there.
# Installs what is missing when that is allowed (root, or sudo without a password); otherwise
# prints the exact command to type and fails. On other systems it only says what is needed.
missing=
if ! command -v dpkg-query >/dev/null 2>&1; then
    pkg-config --exists gnutls libuv libcjson libpcre2-8 libxxhash && exit 0
    echo "quire needs, under the names of your system, the Debian packages: $*" >&2
    exit 1
fi
for p in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$p" 2>/dev/null)" = "ii " ] || missing="$missing $p"
done
[ -z "$missing" ] && exit 0

if [ "$(id -u)" = 0 ]; then
    as=
elif sudo -n true 2>/dev/null; then
    as="sudo -n env"
else
    echo "missing packages; please run:  sudo apt-get install -y --no-install-recommends$missing" >&2
    exit 1
fi
echo "installing$missing"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
$as apt-get update -qq && $as apt-get install -y -qq --no-install-recommends $missing >/dev/null || {
    echo "could not install; please run:  apt-get install -y --no-install-recommends$missing" >&2
    exit 1
}
