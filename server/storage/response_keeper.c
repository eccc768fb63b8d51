/* server/storage/response_keeper.c - see response_keeper.h.
 *
 * A worker pool with one thread runs the jobs, so that the database has one user and jobs keep
 * their order. Running background responses are a list, searched only by a cancel. The I/O thread
 * owns the struct; a job uses only its store.
 */
#include "server/storage/response_keeper.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <stdio.h>
#include <string.h>

struct response_keeper {
    struct response_store *store;
    struct worker_pool *pool;
    struct list runs;
};

int response_keeper_open(struct response_keeper **out,
                         const struct response_keeper_options *options, char *err, size_t err_len)
{
    /* No limit: each call has few jobs, so that the number of calls limits them. */
    const struct worker_pool_options pool = {.loop = options->loop, .max_waiting = UINT32_MAX};
    struct response_keeper *k = mem_calloc(1, sizeof(*k));
    int rc;

    *out = NULL;
    if (k == NULL)
        return snprintf(err, err_len, "no memory for kept responses"), ERR_NOMEM;
    list_init(&k->runs);
    rc = response_store_open(&k->store, &options->store, err, err_len);
    if (rc == 0) {
        rc = worker_pool_create(&k->pool, &pool);
        if (rc < 0)
            snprintf(err, err_len, "the thread of kept responses cannot be set up");
    }
    if (rc < 0)
        response_keeper_close(&k);
    *out = k;
    return rc;
}

int response_keeper_start(struct response_keeper *k)
{
    return worker_pool_start(k->pool, 1);
}

void response_keeper_stop(struct response_keeper *k)
{
    if (k != NULL)
        worker_pool_stop(k->pool);
}

void response_keeper_close(struct response_keeper **keeper)
{
    struct response_keeper *k = keeper != NULL ? *keeper : NULL;

    if (k == NULL)
        return;
    worker_pool_destroy(&k->pool);
    response_store_close(&k->store);
    mem_free(k);
    *keeper = NULL;
}

/* ---- jobs ---- */

void response_keeper_post(struct response_keeper *k, struct worker_job *job)
{
    job->name = "response_keeper";
    (void)worker_pool_post(k->pool, job); /* max_waiting is never reached */
}

struct response_store *response_keeper_store(const struct response_keeper *k)
{
    return k->store;
}

bool response_keeper_is_idle(const struct response_keeper *k)
{
    return k == NULL || worker_pool_is_idle(k->pool);
}

uint64_t response_keeper_oldest_us(struct response_keeper *k)
{
    return k != NULL ? worker_pool_stats(k->pool).oldest_us : 0;
}

struct response_counts response_keeper_counts(const struct response_keeper *k)
{
    return response_store_counts(k != NULL ? k->store : NULL);
}

/* ---- responses in the background ---- */

void response_keeper_add(struct response_keeper *k, struct response_run *run)
{
    list_push_back(&k->runs, &run->link);
}

void response_keeper_remove(struct response_run *run)
{
    list_unlink(&run->link);
}

void response_keeper_cancel(struct response_keeper *k, const struct response_name *name)
{
    list_each(it, &k->runs)
    {
        struct response_run *run = list_entry(it, struct response_run, link);

        if (strcmp(run->name.id, name->id) == 0 && strcmp(run->name.owner, name->owner) == 0) {
            run->cancel(run);
            return;
        }
    }
}
