#!/bin/sh
# tests/run.sh SUITE PROGRAM... - run test programs, each with a time limit; their output is shown
# when they fail, and lines that begin with "skip:" always.
suite=$1
shift
passed=0 failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for program in "$@"; do
    name=$(basename "$program")
    start=$(date +%s)
    if timeout "${TEST_TIMEOUT:-600}" "$program" >"$log" 2>&1; then
        passed=$((passed + 1))
        printf 'ok      %-8s %-28s %ss\n' "$suite" "$name" $(($(date +%s) - start))
        grep -h '^skip:\|^note:' "$log" | sort -u
    else
        code=$?
        failed=$((failed + 1))
        printf 'FAILED  %-8s %-28s exit %s\n' "$suite" "$name" "$code"
        tail -n 60 "$log"
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
