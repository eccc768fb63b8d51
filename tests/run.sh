#!/bin/sh
# tests/run.sh PROGRAM... - run test programs, as many at a time as there are cores, each with a time
# limit; their output is shown when they fail, and lines that begin with "skip:" or "note:" always.
# A program's suite is what its path says; JOBS= another number at a time. QUIRE_RUN: what runs them, as
# an emulator for programs of another architecture.
if [ "$1" = --one ]; then # of the programs: one line in the folder $2, and one piece of output
    folder=$2 program=$3
    name=$(basename "$program")
    case $program in
    */unit/*) suite=unit ;;
    */replay/*) suite=corpus ;;
    *) suite=${name%%_*} ;;
    esac
    log=$folder/$(echo "$program" | tr / _)
    start=$(date +%s)
    # shellcheck disable=SC2086
    if timeout "${TEST_TIMEOUT:-600}" ${QUIRE_RUN:-} "$program" >"$log" 2>&1; then
        echo "$program" >>"$folder/passed"
        result=$(printf 'ok      %-8s %-28s %ss' "$suite" "$name" $(($(date +%s) - start)))
        shown=$(grep -h '^skip:\|^note:' "$log" | sort -u)
    else
        result=$(printf 'FAILED  %-8s %-28s exit %s' "$suite" "$name" $?)
        shown=$(tail -n 60 "$log")
    fi
    flock "$folder/lock" printf '%s\n' "$result${shown:+
$shown}"
    exit
fi
[ $# -gt 0 ] || { echo "tests/run.sh: no programs" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
: >"$folder/passed"
# Golden programs compute with a thread for each core, which wait for each other: one at a time.
printf '%s\n' "$@" | grep '/golden_' | xargs -r -n 1 sh "$0" --one "$folder"
# What takes longest, first: in the end there are short ones to share out.
LONG='sim_sched test_constraint test_vocabs test_bombs test_pretokenizer sim_drafts'
{
    for name in $LONG; do printf '%s\n' "$@" | grep "/$name\$"; done
    printf '%s\n' "$@"
} | grep -v '/golden_' | awk '!seen[$0]++' | xargs -r -P "${JOBS:-$(nproc)}" -n 1 sh "$0" --one "$folder"
# What has left no line has failed, whatever became of it.
passed=$(wc -l <"$folder/passed")
echo "$passed passed, $(($# - passed)) failed"
[ "$passed" = $# ]
