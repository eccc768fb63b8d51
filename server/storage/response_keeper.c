/* server/storage/response_keeper.c - see response_keeper.h.
 *
 * The storage thread runs the jobs, so that the database has one user and jobs keep their order.
 * Running background responses are a list, searched only by a cancel. The I/O thread owns the
 * struct; a job uses only its store.
 */
#include "server/storage/response_keeper.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <stdio.h>
#include <string.h>

struct response_keeper {
    struct response_store *store;
    struct worker_pool *storage;
    struct list runs;
};

int response_keeper_open(struct response_keeper **out, struct worker_pool *storage,
                         const struct response_store_options *options, char *err, size_t err_len)
{
    struct response_keeper *k = mem_calloc(1, sizeof(*k));
    int rc;

    *out = NULL;
    if (k == NULL)
        return snprintf(err, err_len, "no memory for kept responses"), ERR_NOMEM;
    k->storage = storage;
    list_init(&k->runs);
    rc = response_store_open(&k->store, options, err, err_len);
    if (rc < 0)
        response_keeper_close(&k);
    *out = k;
    return rc;
}

void response_keeper_close(struct response_keeper **keeper)
{
    struct response_keeper *k = keeper != NULL ? *keeper : NULL;

    if (k == NULL)
        return;
    response_store_close(&k->store);
    mem_free(k);
    *keeper = NULL;
}

/* ---- jobs ---- */

void response_keeper_post(struct response_keeper *k, struct worker_job *job)
{
    job->name = "response_keeper";
    job->subject = "the file of kept responses";
    (void)worker_pool_post(k->storage, job); /* the storage thread has no limit of jobs */
}

struct response_store *response_keeper_store(const struct response_keeper *k)
{
    return k->store;
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
    list_each(it, &k->runs) {
        struct response_run *run = list_entry(it, struct response_run, link);

        if (strcmp(run->name.id, name->id) == 0 && strcmp(run->name.owner, name->owner) == 0) {
            run->cancel(run);
            return;
        }
    }
}
