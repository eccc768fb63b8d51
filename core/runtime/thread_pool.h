/* core/runtime/thread_pool.h - a fixed set of threads that run one function together.
 *
 * thread_pool_run() lets every thread, the caller included, execute fn(ud, worker). Inside, a
 * region of work is cut into items that the threads share, and ended by a barrier:
 *
 *     uint32_t from, to;
 *     while (thread_pool_take(w, n_items, grain, &from, &to))
 *         ... items from..to-1 ...
 *     thread_pool_barrier(w);
 *
 * In every region of n items, thread t owns items n*t/threads..n*(t+1)/threads-1 and takes them
 * from the front, so that weights that fit into its cache are still there in the next step. A
 * thread that has finished its own share steals items from the back of the share with the most
 * left: among the threads of its last-level cache if any of them has items left, else among those
 * of its memory node, else among all others. There is no counter that all threads write, and no
 * lock; the barrier is a tree of the same groups (topology.h).
 *
 * Every thread must pass through the same regions and barriers in the same order, with the same
 * n. Which thread takes an item never changes a result: kernels guarantee that.
 *
 * A waiting thread spins for some microseconds, then calls sched_yield() between polls (which lets
 * the I/O thread or a descheduled worker run when the pool has all the cores), and after
 * SPIN_WORD_US sleeps on a futex: an idle thread pool uses no CPU.
 *
 * On machines with several memory nodes the panels of weights may lie on the node of the thread
 * that owns them (core/base/numa.h); with keep_nodes threads stay on their nodes.
 *
 * Thread: thread_pool_run() by one thread at a time; several engines take turns
 * (scheduler/engine_arbiter.h).
 * Memory: taken in thread_pool_create(); fn may not allocate (the debug build's guard watches).
 */
#ifndef CORE_RUNTIME_THREAD_POOL_H
#define CORE_RUNTIME_THREAD_POOL_H

#include <stdbool.h>
#include <stdint.h>

#define THREAD_POOL_MAX_CALLERS 16 /* most threads whose calls of thread_pool_run() pin them;
                                    * further callers are not pinned */

struct cpus;
struct thread_pool;

struct thread_pool_worker {
    struct thread_pool *pool;
    uint32_t index;  /* index of the thread; 0: the caller of thread_pool_run() */
    uint32_t region; /* barriers passed so far */
};

struct thread_pool_options {
    uint32_t n_threads; /* >= 1, the caller of thread_pool_run() included */
    /* Pin thread i to the i-th of the process's CPUs (order: cpus.h); callers too, from their first
     * thread_pool_run() on. A thread for which no CPU is left, or whose pinning fails, stays free,
     * and a warning says why. */
    bool pin;
    /* Keep thread i on the memory node of the i-th CPU, on any of the process's CPUs there; callers
     * too. */
    bool keep_nodes;
    const struct cpus *cpus; /* CPUs to group threads by and pin them to; NULL: this machine's */
};

/* ERR_INVAL: 0 threads; ERR_NOMEM; ERR_INTERNAL: a thread cannot be created. */
int thread_pool_create(struct thread_pool **out, const struct thread_pool_options *options);
void thread_pool_destroy(struct thread_pool **t);

uint32_t thread_pool_n_threads(const struct thread_pool *t);
/* Return the number of barriers passed since creation, those at the ends of runs included. Call it
 * between runs. */
uint32_t thread_pool_n_barriers(const struct thread_pool *t);

void thread_pool_run(struct thread_pool *t, void (*fn)(void *ud, struct thread_pool_worker *w),
                     void *ud);

/* Take the next items of the current region, `grain` (>= 1) at most: false when all n are taken. */
bool thread_pool_take(struct thread_pool_worker *w, uint32_t n, uint32_t grain, uint32_t *from,
                      uint32_t *to);

/* Wait until all threads have called it; what they wrote before is visible afterwards. */
void thread_pool_barrier(struct thread_pool_worker *w);

#endif
