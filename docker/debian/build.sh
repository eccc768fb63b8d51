#!/bin/bash
# docker/debian/build.sh VERSION OUT - a package for the Debian that this runs on: `make deb`.
#
# STAGE (in the environment) is a folder in which `make install DESTDIR=$STAGE PREFIX=/usr` has put
# the binary, its man pages and completions, and the sample configuration. The package adds the
# systemd unit, with a user in place of a dynamic one, and what stands in this folder. With
# SOURCE_DATE_EPOCH the same files become the same package. For another machine than this:
# ARCHITECTURE as Debian calls it, STRIP for its binaries, and LIKE, a binary of the same version for
# this machine: its libraries' packages have the same names and versions.
set -euo pipefail
version=$1 out=$2 here=$(cd "$(dirname "$0")" && pwd)
architecture=${ARCHITECTURE:-$(dpkg --print-architecture)}
root=$(mktemp -d) work=$(mktemp -d)
trap 'rm -rf "$root" "$work"' EXIT
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(date +%s)}
umask 022

# Debian's versions begin with a digit and have no dash in a package of its own sources.
version=${version#v}
version=${version//-/+}
[[ $version =~ ^[0-9]+(\.|$) ]] || version="0~$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d).$version"

cp -a "$STAGE/." "$root"
chmod 755 "$root"
"${STRIP:-strip}" --strip-unneeded --remove-section=.comment --remove-section=.note "$root/usr/bin/quire"
install -d "$root/etc/quire" "$root/usr/share/doc/quire" "$root/lib/systemd/system" "$root/DEBIAN"
mv "$root/usr/share/quire/quire.conf" "$root/etc/quire/quire.conf"
rmdir "$root/usr/share/quire"
# Where Debian's zsh looks for what packages bring.
mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"

# The unit of docker/ is for what `make install` leaves in /usr/local.
sed -e '1,/^\[Unit\]/{/^#/d}' -e 's|/usr/local/bin/|/usr/bin/|' -e 's|/etc/quire\.conf|/etc/quire/quire.conf|' \
    -e '/^# For responses_db/d' \
    -e 's|^DynamicUser=yes|# Its own folder, for responses_db, usage_db, swap_file and models: /var/lib/quire.\nUser=quire\nStateDirectory=quire\nStateDirectoryMode=0750\nWorkingDirectory=/var/lib/quire|' \
    "$here/../quire.service" >"$root/lib/systemd/system/quire.service"
grep -q '^User=quire$' "$root/lib/systemd/system/quire.service"
grep -q '^ExecStart=/usr/bin/quire serve --config /etc/quire/quire.conf$' "$root/lib/systemd/system/quire.service"

cp "$here/copyright" "$root/usr/share/doc/quire/copyright"
cat >"$work/changelog" <<END
quire ($version) unstable; urgency=medium

  * Built from this version's sources; git has what changed.

 -- $(sed -n 's/^Maintainer: //p' "$here/control")  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
END
gzip -9nc "$work/changelog" >"$root/usr/share/doc/quire/changelog.gz"
find "$root/usr/share/man" -type f -exec gzip -9n {} +

# The libraries, with the versions that they need.
mkdir "$work/debian"
printf 'Source: quire\n\nPackage: quire\nArchitecture: any\n' >"$work/debian/control"
like=$(realpath "${LIKE:-$root/usr/bin/quire}")
depends=$(cd "$work" && dpkg-shlibdeps -O "$like" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
[ -n "$depends" ]
sed -e "s|@VERSION@|$version|" -e "s|@ARCHITECTURE@|$architecture|" -e "s|@DEPENDS@|$depends|" \
    -e "s|@SIZE@|$(du -sk --exclude=DEBIAN --apparent-size "$root" | cut -f1)|" "$here/control" >"$root/DEBIAN/control"
echo /etc/quire/quire.conf >"$root/DEBIAN/conffiles"
(cd "$root" && find usr lib -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
for script in postinst prerm postrm; do
    install -m 755 "$here/$script" "$root/DEBIAN/$script"
done
find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

mkdir -p "$out"
dpkg-deb --root-owner-group --build "$root" "$out/quire_${version}_$architecture.deb" >/dev/null
echo "$out/quire_${version}_$architecture.deb"
