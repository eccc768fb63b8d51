/* server/batches/batch_keeper.c - see batch_keeper.h.
 *
 * A worker pool with one thread. Each job first retries a store that could not be opened
 * (batch_store_try_open()), so that a disk that comes back needs no restart. For `quire batch`
 * there is no store, only the thread, and jobs get NULL.
 */
#include "server/batches/batch_keeper.h"

#include "core/base/err.h"
#include "core/base/list.h"
#include "core/base/mem.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

struct batch_keeper {
    struct batch_store *store; /* or NULL */
    struct worker_pool *pool;
    uint32_t n_jobs;
};

int batch_keeper_open(struct batch_keeper **out, const struct batch_keeper_options *options,
                      char *err, size_t err_len)
{
    /* The number of waiting jobs is bounded: a call and a batch have one at a time. */
    const struct worker_pool_options pool = {.loop = options->loop, .max_waiting = UINT32_MAX};
    struct batch_keeper *k = mem_calloc(1, sizeof(*k));
    int rc = 0;

    *out = NULL;
    if (k == NULL)
        return snprintf(err, err_len, "no memory for batches"), ERR_NOMEM;
    if (options->store.folder[0] != '\0')
        rc = batch_store_open(&k->store, &options->store, err, err_len);
    if (rc == 0) {
        rc = worker_pool_create(&k->pool, &pool);
        if (rc < 0)
            snprintf(err, err_len, "the thread of batches cannot be set up");
    }
    if (rc < 0)
        batch_keeper_close(&k);
    *out = k;
    return rc;
}

int batch_keeper_start(struct batch_keeper *k)
{
    return worker_pool_start(k->pool, 1);
}

void batch_keeper_stop(struct batch_keeper *k)
{
    if (k != NULL)
        worker_pool_stop(k->pool);
}

void batch_keeper_close(struct batch_keeper **keeper)
{
    struct batch_keeper *k = keeper != NULL ? *keeper : NULL;

    if (k == NULL)
        return;
    worker_pool_destroy(&k->pool);
    batch_store_close(&k->store);
    mem_free(k);
    *keeper = NULL;
}

static void on_batch_keeper_work(struct worker_job *job)
{
    struct batch_job *b = list_entry(job, struct batch_job, job);

    batch_store_try_open(b->keeper->store);
    b->work(b, b->keeper->store);
}

static void on_batch_keeper_done(struct worker_job *job)
{
    struct batch_job *b = list_entry(job, struct batch_job, job);

    b->keeper->n_jobs--;
    b->done(b);
}

void batch_keeper_post(struct batch_keeper *k, struct batch_job *job, const char *owner)
{
    job->keeper = k;
    job->job.work = on_batch_keeper_work;
    job->job.done = on_batch_keeper_done;
    job->job.name = "batch_keeper";
    job->job.owner = XXH3_64bits(owner, strlen(owner));
    k->n_jobs++;
    (void)worker_pool_post(k->pool, &job->job); /* max_waiting is never reached */
}

bool batch_keeper_is_idle(const struct batch_keeper *k)
{
    return k == NULL || k->n_jobs == 0;
}

uint64_t batch_keeper_oldest_us(struct batch_keeper *k)
{
    return k != NULL ? worker_pool_stats(k->pool).oldest_us : 0;
}

struct batch_store_counts batch_keeper_counts(const struct batch_keeper *k)
{
    return batch_store_counts(k != NULL ? k->store : NULL);
}
