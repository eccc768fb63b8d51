/* core/runtime/thread_pool.h - a fixed team of threads that run one function together.
 *
 * team_run() lets every thread, the caller included, execute fn(ud, worker). Inside, a region of
 * work is cut into items that the threads share, and ended by a barrier:
 *
 *     uint32_t from, to;
 *     while (team_take(w, n_items, grain, &from, &to))
 *         ... items from..to-1 ...
 *     team_barrier(w);
 *
 * Item i is dealt to the same thread whenever a region of n items comes: thread t has items
 * n*t/threads..n*(t+1)/threads-1 and takes them from the front, so weights that fit into its
 * cache are still there in the next step. A thread that has done its share takes items from the
 * back of the share with the most left. There is no counter that all write, and no lock.
 *
 * Every thread must pass through the same regions and barriers in the same order, with the same
 * n. Who takes which item never changes a result: kernels guarantee that.
 *
 * A waiting thread spins for some microseconds, then offers its CPU to others between looks (the
 * I/O thread, when the team has all the cores; a member that is not running), and after
 * TEAM_SPIN_US sleeps in the kernel: an idle team costs nothing.
 *
 * On machines with several memory nodes the weights' pages are interleaved over the nodes of the
 * process's CPUs (mem_map()), so each thread reads from all of them alike and the placement of
 * threads matters little.
 *
 * Thread: team_run() by one thread at a time; several engines take turns
 * (scheduler/engine_arbiter.h).
 * Memory: taken in team_create(); fn may not allocate (the debug build's guard watches).
 */
#ifndef CORE_RUNTIME_THREAD_POOL_H
#define CORE_RUNTIME_THREAD_POOL_H

#include <stdbool.h>
#include <stdint.h>

/* Longest busy wait: longer than the gaps inside a step, shorter than what idle time would show. */
#define TEAM_SPIN_US 200

#define TEAM_MAX_CALLERS 16 /* threads; further ones are not pinned */

struct team;

struct team_worker {
    struct team *team;
    uint32_t index;  /* 0 is the caller of team_run */
    uint32_t region; /* barriers passed so far */
};

struct team_options {
    uint32_t n_threads; /* >= 1, the caller of team_run() included */
    /* Keep thread i on the i-th of the process's CPUs (one of each core first, see cpus.h): the
     * callers too, from their first team_run() on. A thread that has no CPU left or is refused one
     * stays free, with a warning that says why. */
    bool pin;
};

/* ERR_INVAL (0 threads), ERR_NOMEM, ERR_INTERNAL (no thread can be made). */
int team_create(struct team **out, const struct team_options *options);
void team_destroy(struct team **t);

uint32_t team_n_threads(const struct team *t);

void team_run(struct team *t, void (*fn)(void *ud, struct team_worker *w), void *ud);

/* Take the next items of the current region, `grain` (>= 1) at most: false when all n are taken. */
bool team_take(struct team_worker *w, uint32_t n, uint32_t grain, uint32_t *from, uint32_t *to);

/* Wait until everybody is here; what they wrote before is visible afterwards. */
void team_barrier(struct team_worker *w);

#endif
