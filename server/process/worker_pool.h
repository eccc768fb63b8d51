/* server/process/worker_pool.h - threads for work that would take the I/O thread too long.
 *
 * Jobs wait in a bounded queue in the order of their posting; a thread takes the first one of the
 * owner with the fewest jobs running, so that long jobs of one owner do not take all threads. The
 * end of a job is reported on the I/O thread. A server has several pools, so that one kind of work
 * does not delay another; plain file writes use libuv's own pool. A pool of one thread runs the
 * jobs in the order of their posting.
 *
 * A job bounds its own time (core/base/budget.h) and checks `canceled` while it runs.
 *
 * Thread: the I/O thread's, except for work().
 * Memory: the threads; jobs belong to their posters and must live until done().
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

struct worker_job {                       /* embedded in the struct that it works for */
    void (*work)(struct worker_job *job); /* called on a thread of the pool */
    void (*done)(struct worker_job *job); /* called on the I/O thread, exactly once for each post;
                                           * it may free the job or post it again */
    uint64_t owner;                       /* the job's owner: a hash of the tenant */
    const char *name;                     /* name of done(), for the log; borrowed forever */
    const char *subject;                  /* what work() may wait for, for /health: "the file of
                                           * usage"; NULL; borrowed forever */
    atomic_bool canceled;                 /* set by worker_job_cancel() */
    /* private */
    struct list link;
};

struct worker_pool_options {
    uv_loop_t *loop;
    uint32_t n_threads;   /* up to WORKER_POOL_MAX_THREADS; 0: worker_pool_start() makes them */
    uint32_t max_waiting; /* jobs */
};

/* Create a pool. ERR_NOMEM, ERR_INTERNAL (no thread, no loop handle). */
int worker_pool_create(struct worker_pool **out, const struct worker_pool_options *options);

/* Start the threads of a pool without threads. Jobs may have been posted. ERR_INTERNAL. */
int worker_pool_start(struct worker_pool *p, uint32_t n_threads);

/* Close the loop's handle; all posted jobs must be done, and no job may be posted any more. The
 * loop must run once more before worker_pool_destroy(), which joins the threads. NULL is
 * allowed. */
void worker_pool_stop(struct worker_pool *p);
void worker_pool_destroy(struct worker_pool **p);

/* Post a job whose work and owner are set. ERR_AGAIN: max_waiting jobs wait already; done() will
 * not be called. */
int worker_pool_post(struct worker_pool *p, struct worker_job *job);

/* Cancel a job whose result is no longer wanted. work() of a waiting job is still called, and
 * should return at once; done() is called in any case. Any thread. */
void worker_job_cancel(struct worker_job *job);

struct worker_pool_stats {
    uint32_t n_waiting, n_running;
    uint64_t oldest_us; /* clock_us() at which the job that has been running longest began, or
                         * 0 */
    const char *oldest; /* that job's subject; "": it has none, or no job is running */
    uint64_t busy_us;   /* time that all threads together have spent in jobs since the start */
    uint64_t n_done;
};
struct worker_pool_stats worker_pool_stats(struct worker_pool *p); /* NULL: zeros */

/* True: done() of every posted job was called, or p is NULL. */
bool worker_pool_is_idle(const struct worker_pool *p);

#endif
