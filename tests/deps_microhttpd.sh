#!/bin/sh
# tests/deps_microhttpd.sh FOLDER - libmicrohttpd for a machine whose own package is older than NEED.
#
# Apt fetches the source package of Debian testing from this machine's mirror, with lists of its own, and
# checks Debian's signature. What Quire uses of it becomes a static library: FOLDER/lib/libmicrohttpd.a, with
# FOLDER/include/microhttpd.h and FOLDER/copyright. Nothing outside FOLDER changes, and no root is needed.
# A FOLDER that is whole stays as it is; to have a newer version, remove it.
#
# From the environment: NEED, the oldest version that will do; CC and CFLAGS; PKG_CONFIG, which knows GnuTLS;
# HOST, the machine that CC compiles for where that is another one than this; KEYRING, of Debian's archive.
set -eu
folder=$1 need=${NEED:?} part=$1.part cat="/usr/lib/apt/apt-helper cat-file"
keyring=${KEYRING:-/usr/share/keyrings/debian-archive-keyring.gpg}

fail() {
    echo "libmicrohttpd $need or newer is not installed, and $1." >&2
    echo "Please install it (libmicrohttpd-dev; PKG_CONFIG_PATH says where it is when that is no usual place)," \
        "or, on Debian and with a network, run:  make deps-microhttpd" >&2
    exit 1
}

# The machine's own mirrors, however they are written down: apt says where it would look for a release.
fetch() {
    cat >"$part/apt.conf" <<END
Dir::State::lists "$part/lists";
Dir::Cache "$part/cache";
APT::Default-Release "";
#clear APT::Update;
END
    mirrors=$(apt-get -c "$part/apt.conf" update --print-uris 2>/dev/null |
        sed -nE "s|^'(.*)/dists/[a-z]+/InRelease' .*|\1|p" | sort -u | tr '\n' ' ')
    [ -n "$mirrors" ] || fail "apt knows no mirror of Debian here"
    # A mirror may be a snapshot. That is no worse than for stable releases, whose signatures never end, and
    # nothing older than NEED is taken.
    printf '%s\n' "Types: deb-src" "URIs: $mirrors" "Suites: testing" "Components: main" "Signed-By: $keyring" \
        "Check-Valid-Until: no" >"$part/testing.sources"
    cat >>"$part/apt.conf" <<END
Dir::Etc::sourcelist "$part/testing.sources";
Dir::Etc::sourceparts "-";
END
    # A mirror of other packages than Debian's may be among them, and has no such release.
    apt-get -q -c "$part/apt.conf" update >"$part/log" 2>&1 || true
    (cd "$part/src" && apt-get -q -c "$part/apt.conf" source --download-only libmicrohttpd) >>"$part/log" 2>&1 || {
        grep '^[EW]:' "$part/log" >&2 || true
        fail "Debian testing's source package could not be fetched from $mirrors(see above)"
    }
    version=$(sed -n 's/^Version: //p' "$part"/src/*.dsc)
    dpkg --compare-versions "$version" ge "$need" ||
        fail "Debian testing's is $version at $mirrors- too old"
}

# As dpkg-source does it, which would bring Perl along.
unpack() {
    cd "$part/src" &&
        $cat ./*.orig.tar.?z >orig.tar && tar -xf orig.tar --strip-components=1 &&
        $cat ./*.debian.tar.?z >debian.tar && tar -xf debian.tar &&
        sed 's/#.*//' debian/patches/series | while read -r name; do
            [ -z "$name" ] || patch -s -p1 <"debian/patches/$name" || exit 1
        done
}

# Patches of Makefile.am and configure.ac, which are for tests, would ask for automake: it is not run.
build() {
    ./configure -q ${HOST:+--host="$HOST"} CC="${CC:-cc}" CFLAGS="${CFLAGS:--O2 -fPIC}" ACLOCAL=: AUTOCONF=: \
        AUTOHEADER=: AUTOMAKE=: --disable-shared --with-pic --enable-https=yes --enable-epoll=yes --disable-bauth \
        --disable-dauth --disable-postprocessor --disable-doc --disable-examples --disable-tools --disable-curl &&
        make -s -j"$(nproc)" -C src/microhttpd libmicrohttpd.la
}

is_whole() {
    [ -e "$folder/lib/libmicrohttpd.a" ]
}

is_whole && exit 0
if ! command -v apt-get >/dev/null 2>&1 || [ ! -e "$keyring" ]; then
    fail "this is no Debian, whose sources could be built"
fi
command -v patch >/dev/null 2>&1 || fail "the program patch is missing, which its sources need (package patch)"
mkdir -p "$(dirname "$folder")"
# Makes that run side by side wait here for the first.
exec 9>"$folder.lock"
flock 9
is_whole && exit 0
trap 'rm -rf "$part"' EXIT
rm -rf "$folder" "$part"
mkdir -p "$part/lists/partial" "$part/cache" "$part/src" "$part/out/lib" "$part/out/include"
part=$(cd "$part" && pwd)
fetch
echo "building libmicrohttpd $version, Debian testing's, in $folder"
unset MAKEFLAGS MFLAGS LDFLAGS LIBS CPPFLAGS
(unpack && build) >"$part/log" 2>&1 || {
    tail -n 15 "$part/log" >&2
    fail "Debian testing's $version could not be built (see above; make deps-build installs what it needs)"
}
cp "$part/src/src/include/microhttpd.h" "$part/out/include/"
cp "$part/src/src/microhttpd/.libs/libmicrohttpd.a" "$part/out/lib/"
cp "$part/src/debian/copyright" "$part/out/"
mv "$part/out" "$folder"
