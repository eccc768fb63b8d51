/* server/batches/batch_keeper.h - the folder of batches for the I/O thread: jobs on a thread of
 * their own, one after the other.
 *
 * Thread: the loop's, except for the jobs' work.
 * Memory: the thread; jobs are their posters'.
 */
#ifndef SERVER_BATCHES_BATCH_KEEPER_H
#define SERVER_BATCHES_BATCH_KEEPER_H

#include "server/batches/batch_store.h"
#include "server/process/worker_pool.h"

struct batch_keeper; /* NULL: there are no batches */

struct batch_keeper_options {
    uv_loop_t *loop;
    struct batch_store_options store; /* folder "": no store, only the files of one batch */
};

/* As batch_store_open(), or ERR_NOMEM. batch_keeper_start() makes the thread. */
int batch_keeper_open(struct batch_keeper **out, const struct batch_keeper_options *options,
                      char *err, size_t err_len);
int batch_keeper_start(struct batch_keeper *k);
/* As worker_pool_stop(), and then, after the loop, close. NULL is allowed. */
void batch_keeper_stop(struct batch_keeper *k);
void batch_keeper_close(struct batch_keeper **k);

struct batch_job {
    void (*work)(struct batch_job *job, struct batch_store *s); /* on the thread */
    void (*done)(struct batch_job *job); /* on the loop's, exactly once for each post */
    /* private */
    struct batch_keeper *keeper;
    struct worker_job job;
};

/* Post a job whose `work` and `done` are set. */
void batch_keeper_post(struct batch_keeper *k, struct batch_job *job, const char *owner);
/* Whether no job waits or runs. */
bool batch_keeper_is_idle(const struct batch_keeper *k);
/* When the running job began, clock_us(); 0: none runs. */
uint64_t batch_keeper_oldest_us(struct batch_keeper *k);
struct batch_store_counts batch_keeper_counts(const struct batch_keeper *k);

#endif
