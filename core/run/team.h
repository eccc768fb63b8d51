/* core/run/team.h - a fixed team of threads that run one function together.
 *
 * team_run() lets every thread, the caller included, execute fn(ud, worker). Inside, a region of
 * work is cut into items that the threads take as they get to them, and ended by a barrier:
 *
 *     uint32_t from, to;
 *     while (team_take(w, n_items, grain, &from, &to))
 *         ... items from..to-1 ...
 *     team_barrier(w);
 *
 * Every thread must pass through the same regions and barriers in the same order. Who takes which
 * item never changes a result: kernels guarantee that.
 *
 * Thread: team_run() by one thread at a time. A waiting thread spins for some microseconds and
 *         then sleeps in the kernel, so an idle team costs nothing.
 * Memory: taken in team_create(); fn may not allocate (the debug build's guard watches).
 */
#ifndef CORE_RUN_TEAM_H
#define CORE_RUN_TEAM_H

#include <stdbool.h>
#include <stdint.h>

struct team;

struct team_worker {
    struct team *team;
    uint32_t index;  /* 0 is the caller of team_run */
    uint32_t region; /* regions passed in this run */
};

/* ERR_INVAL (0 threads), ERR_NOMEM, ERR_INTERNAL (no thread can be made). */
int team_create(struct team **out, uint32_t n_threads);
void team_destroy(struct team **t);

uint32_t team_n_threads(const struct team *t);

void team_run(struct team *t, void (*fn)(void *ud, struct team_worker *w), void *ud);

/* Take the next items of the current region: false when all n are taken. */
bool team_take(struct team_worker *w, uint32_t n, uint32_t grain, uint32_t *from, uint32_t *to);

/* Wait until everybody is here; what they wrote before is visible afterwards. */
void team_barrier(struct team_worker *w);

#endif
