#!/bin/sh
# tests/arm64/sysroot.sh FOLDER PACKAGE... - the libraries of an arm64 machine, of this Debian's packages and
# those that they need: what the cross compiler links, and qemu-user runs with. Nothing of this machine changes.
set -eu
folder=$1
shift
[ -e "$folder/usr" ] && exit 0
. /etc/os-release
mkdir -p "$(dirname "$folder")"
rm -rf "$folder.part"
packages=$(echo "$@" | tr ' ' ,)
mmdebstrap --quiet --variant=extract --architectures=arm64 --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
    --include="$packages" "$VERSION_CODENAME" "$folder.part"
# qemu-user takes every absolute path for one of this folder first: only libraries are to be found here.
for name in "$folder.part"/* "$folder.part"/usr/*; do
    case $name in
    */usr | */lib | */usr/include) ;;
    *) rm -rf "$name" ;;
    esac
done
# Links that begin at the root would lead to this machine's libraries.
find "$folder.part" -type l -lname '/*' | while read -r link; do
    ln -sfr "$folder.part$(readlink "$link")" "$link"
done
mv "$folder.part" "$folder"
