/* server/process/loop_guard.h - measures how long each callback of the I/O thread computes.
 *
 * The I/O thread serves all clients: while one callback computes, no other client is answered
 * (promise P11). The first statement of each libuv callback is LOOP_CALLBACK(), which measures it
 * to its end in CPU time of the thread, so that a busy machine or a slow disk does not count. `make
 * lint` checks that none is forgotten. A callback that works through a list calls
 * loop_guard_is_due() between two entries, and leaves the others for the next turn of the loop.
 *
 * LOOP_PART() names a part of a callback (a route, a kind of job); the log shows the longest part
 * beside the callback's name.
 *
 * In debug builds a callback that computes for longer than 100 ms (1 s under a sanitizer) ends the
 * process, so that every end-to-end test looks for such callbacks. QUIRE_DEBUG_LOOP_MS sets another
 * limit there; 0 is none.
 *
 * Thread: the loop's.
 * Memory: the caller's struct, which the loop's `data` points to until the loop is closed. If the
 * loop's `data` is NULL (in unit tests), nothing is measured and loop_guard_is_due() is always
 * false.
 */
#ifndef SERVER_PROCESS_LOOP_GUARD_H
#define SERVER_PROCESS_LOOP_GUARD_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/base/hist.h"

struct loop_guard {
    struct hist seconds; /* histogram of the CPU time of callbacks */
    uint64_t longest_ns; /* longest CPU time of a callback so far */
    const char *longest, *longest_part; /* their names; NULL: none yet, no part */
    /* private: the running callback */
    uint64_t begin_ns;       /* CPU time of the thread */
    uint64_t begin_clock_ns; /* clock_ns() */
    uint64_t part_ns;        /* CPU time of its longest part so far */
    const char *part;
    uint32_t depth;    /* number of open spans */
    uint64_t limit_ns; /* debug builds: a longer callback ends the process; 0: none */
};

void loop_guard_attach(struct loop_guard *guard, uv_loop_t *loop);

/* Log the number of callbacks, and the longest one. */
void loop_guard_log(const struct loop_guard *guard);

/* True: the running callback has computed for 5 ms, and shall leave the rest of its list for the
 * next turn of the loop. */
bool loop_guard_is_due(const uv_loop_t *loop);

struct loop_span {
    struct loop_guard *guard;
    const char *name;
    uint64_t begin_ns;
};
struct loop_span loop_span_begin(const uv_loop_t *loop, const char *name /* name is borrowed
                                                                          * forever */);
void loop_span_end(struct loop_span *span);

/* Measure until the end of the block that has this statement. */
#define LOOP_CALLBACK(loop, name)                                                                  \
    struct loop_span loop_span_ __attribute__((cleanup(loop_span_end), unused)) =                  \
        loop_span_begin(loop, name)
#define LOOP_PART(loop, name)                                                                      \
    struct loop_span loop_part_ __attribute__((cleanup(loop_span_end), unused)) =                  \
        loop_span_begin(loop, name)

#endif
