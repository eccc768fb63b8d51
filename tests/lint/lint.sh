#!/bin/sh
# tests/lint/lint.sh - what the compiler does not check: what lies at the top, who includes whom, pages
# that name tests, that headers stand alone, banned functions, layout of the text, cppcheck. Prints every finding;
# fails on any.
cd "$(dirname "$0")/../.." || exit 1
bad=0

echo "lint: top level"
rooms='Makefile|server|core|scheduler|kvcache|kernels|config|tests|docker|README.md|LICENSE|CONTRIBUTING.md|SECURITY.md'
if git ls-files | cut -d/ -f1 | sort -u | grep -vE "^($rooms|\..*)$"; then
    echo "does not belong at the top (see above)"
    bad=1
fi

echo "lint: include table"
python3 tests/lint/includes.py || bad=1

echo "lint: names of static functions"
python3 tests/lint/statics.py || bad=1

echo "lint: callbacks of the I/O thread are measured"
python3 tests/lint/loop_callbacks.py || bad=1

echo "lint: fields of the log"
python3 tests/lint/log_fields.py || bad=1

echo "lint: pages that name tests"
python3 tests/lint/coverage.py || bad=1
python3 tests/lint/pages.py || bad=1

echo "lint: headers compile alone"
# shellcheck disable=SC2086 # CC may be two words
git ls-files '*.h' | xargs -P "$(nproc)" -n 1 ${CC:-cc} -std=c11 -D_GNU_SOURCE -I. -Wall -Wextra -Werror -fsyntax-only -x c || bad=1

echo "lint: banned functions"
banned='strcpy|strcat|strncpy|sprintf|vsprintf|strtok|atoi|atol|atof|gets|localtime|gmtime|ctime|asctime|rand|srand|alloca|system|popen'
if git grep -nE "(^|[^a-zA-Z0-9_.>])($banned)\(" -- '*.c' '*.h'; then
    echo "banned functions (see above)"
    bad=1
fi
# Allocation goes through core/base/mem.h, so that tests can make it fail.
if git grep -nE '(^|[^a-zA-Z0-9_])(malloc|calloc|realloc|free|strdup)\(' -- 'core/*.c' 'kernels/*.c' 'kvcache/*.c' \
    'scheduler/*.c' 'server/*.c' 'config/*.c' ':!core/base/mem.c' | grep -vE '/\*.*alloc|\* .*alloc'; then
    echo "allocation outside core/base/mem.h (see above)"
    bad=1
fi
# A name is given when the bytes are on the disk, and is there itself before anybody is told.
if git grep -nE '(^|[^a-zA-Z0-9_])rename(at)?\(' -- 'core/*.c' 'kvcache/*.c' 'scheduler/*.c' 'server/*.c' 'config/*.c' \
    ':!core/base/replace_file.c' ':!server/engine_io/store_folder.c'; then
    echo "a rename beside core/base/replace_file.h (see above)"
    bad=1
fi
if git grep -nE '(^|[^a-zA-Z0-9_])(exp|expf|log|logf|tanh|tanhf|sinf|cosf|powf|lrintf|rintf)\(' -- 'kernels/*.c' 'core/runtime/*.c' \
    'scheduler/*.c'; then
    echo "libm in the step (see above)"
    bad=1
fi
# The step waits for no disk, network or clock: kvcache/swap_store.c opens its file at the start, and threads of
# server/engine_io read and write it.
if git grep -nE '(^|[^a-zA-Z0-9_])(open|openat|fopen|read|pread|write|pwrite|fread|fwrite|f(data)?sync|file_read|file_write|recv|send|accept|poll|epoll_wait|u?sleep|nanosleep)\(' \
    -- 'scheduler/*.c' 'core/runtime/*.c' 'kernels/*.c' 'kvcache/*.c' ':!kvcache/swap_store.c' ':!scheduler/replay/*'; then
    echo "a wait for a disk, a network or a clock in the step (see above)"
    bad=1
fi

echo "lint: text layout"
if git grep -nP '\t| +$' -- '*.c' '*.h' '*.inc' '*.py' '*.sh'; then
    echo "tabs or trailing blanks (see above)"
    bad=1
fi
if git grep -nE '^.{101,}$' -- '*.c' '*.h'; then
    echo "lines over 100 columns (see above)"
    bad=1
fi

echo "lint: cppcheck"
cppcheck --quiet --std=c11 --language=c -I. -D_GNU_SOURCE -DQUIRE_VERSION='"x"' -j "$(nproc)" \
    --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
    --suppress=missingIncludeSystem --suppress=unknownMacro --suppress=normalCheckLevelMaxBranches \
    --suppress='*:tests/*' core kvcache scheduler server config || bad=1

[ $bad = 0 ] && echo "lint: clean"
exit $bad
