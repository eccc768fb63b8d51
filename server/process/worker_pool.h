/* server/process/worker_pool.h - threads that do for the I/O thread what takes longer than a
 * moment.
 *
 * Jobs wait in a bounded queue in the order of their posting; a thread takes the first one of the
 * owner with the fewest jobs running, so that one owner's long jobs leave threads to the others.
 * The end of a job is told on the I/O thread. A server has several pools, so that kinds of work
 * cannot hold up each other; files are libuv's own pool's.
 *
 * A job bounds its own time (core/base/budget.h) and looks at `canceled` while it runs.
 *
 * Thread: the I/O thread's, but for work().
 * Memory: the threads; jobs are the posters' and stay until done().
 */
#ifndef SERVER_PROCESS_WORKER_POOL_H
#define SERVER_PROCESS_WORKER_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/base/list.h"

#define WORKER_POOL_MAX_THREADS 16

struct worker_pool;

struct worker_job {                       /* embedded in what it works for */
    void (*work)(struct worker_job *job); /* on a thread of the pool */
    void (*done)(struct worker_job *job); /* on the I/O thread, exactly once for each post; the job
                                           * may be freed or posted again there */
    uint64_t owner;                       /* whose job it is: a hash of the tenant */
    const char *name;                     /* of what done() does, for the log; borrowed for ever */
    atomic_bool canceled;                 /* set by worker_job_cancel() */
    /* private */
    struct list link;
};

struct worker_pool_options {
    uv_loop_t *loop;
    uint32_t n_threads;   /* up to WORKER_POOL_MAX_THREADS; 0: worker_pool_start() makes them */
    uint32_t max_waiting; /* jobs */
};

/* ERR_NOMEM, ERR_INTERNAL (no thread, no loop handle). */
int worker_pool_create(struct worker_pool **out, const struct worker_pool_options *options);

/* For a pool without threads: make them. Jobs may have been posted. ERR_INTERNAL. */
int worker_pool_start(struct worker_pool *p, uint32_t n_threads);

/* Nothing more is posted and all posted jobs are done: give back the loop's handle. The loop must
 * run once more before worker_pool_destroy(), which joins the threads. NULL is allowed. */
void worker_pool_stop(struct worker_pool *p);
void worker_pool_destroy(struct worker_pool **p);

/* work and owner are set. ERR_AGAIN: max_waiting jobs wait already; done() will not be called. */
int worker_pool_post(struct worker_pool *p, struct worker_job *job);

/* Nobody wants the result any more. A job that waits still gets its turn, in which it is to do
 * nothing; done() comes in any case. Any thread. */
void worker_job_cancel(struct worker_job *job);

struct worker_pool_stats {
    uint32_t n_waiting, n_running;
    uint64_t oldest_us;   /* clock_us() when the job that has been running longest began, or 0 */
    uint64_t busy_us;     /* spent in jobs since the start, of all threads together */
    uint64_t n_done;
};
struct worker_pool_stats worker_pool_stats(struct worker_pool *p);

#endif
