#!/bin/sh
# tests/arm64/wrap.sh FOLDER BINARY... - for each binary a program of the same name that runs it by $RUN, an
# emulator: in FOLDER, or FOLDER/debug for a debug build's.
set -eu
folder=$1
shift
for binary in "$@"; do
    case $binary in
    */debug/*) to=$folder/debug ;;
    *) to=$folder ;;
    esac
    mkdir -p "$to"
    to=$to/$(basename "$binary")
    printf '#!/bin/sh\nexec %s %s "$@"\n' "$RUN" "$(realpath "$binary")" >"$to"
    chmod +x "$to"
done
