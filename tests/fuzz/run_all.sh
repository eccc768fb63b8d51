#!/bin/sh
# tests/fuzz/run_all.sh BUILD SECONDS [TARGET...] - each fuzz target for so long, from its corpus.
# Inputs that reach new code are kept in BUILD/corpus/TARGET and those that fail in BUILD/found;
# the committed corpus is only read. Prints the executions of each; fails if anything was found.
build=$1
seconds=$2
shift 2
[ $# -gt 0 ] || set -- $(cd tests/fuzz && ls fuzz_*.c | sed 's/\.c$//')
bad=0
total=0
log=$(mktemp)
QUIRE_FUZZ_SCRATCH=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
export QUIRE_FUZZ_SCRATCH
trap 'rm -rf "$log" "$QUIRE_FUZZ_SCRATCH"' EXIT
mkdir -p "$build/found"
for target in "$@"; do
    own=$build/corpus/$target
    kept=tests/fuzz/corpus/$target
    mkdir -p "$own"
    [ -d "$kept" ] || kept=
    dict=tests/fuzz/$target.dict
    [ -f "$dict" ] && dict=-dict=$dict || dict=
    # shellcheck disable=SC2086
    "$build/$target" -max_total_time="$seconds" -timeout=2 -rss_limit_mb=2048 -print_final_stats=1 \
        -max_len=8192 $dict -artifact_prefix="$build/found/$target-" "$own" $kept >"$log" 2>&1
    code=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    peak=$(sed -n 's/^stat::peak_rss_mb: *//p' "$log")
    printf '%-20s %12s executions, peak %s MB, exit %s\n' "$target" "${runs:-?}" "${peak:-?}" "$code"
    total=$((total + ${runs:-0}))
    if [ $code != 0 ]; then
        bad=1
        tail -n 40 "$log"
    fi
done
echo "$total executions"
exit $bad
