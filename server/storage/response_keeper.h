/* server/storage/response_keeper.h - kept responses, as the I/O thread uses them: jobs on the
 * storage thread, and a list of the running background responses.
 *
 * The thread runs the jobs in the order of posting: so a job that was posted before an answer was
 * sent is done before any job that a client posts after the answer.
 *
 * Thread: the loop's, except for the jobs' work.
 * Memory: jobs and runs belong to the posters.
 */
#ifndef SERVER_STORAGE_RESPONSE_KEEPER_H
#define SERVER_STORAGE_RESPONSE_KEEPER_H

#include "core/base/list.h"
#include "server/process/worker_pool.h"
#include "server/storage/response_store.h"

struct response_keeper; /* NULL: nothing is kept */

/* Open the store, whose jobs will run on the storage thread. Errors as response_store_open(), or
 * ERR_NOMEM. */
int response_keeper_open(struct response_keeper **out, struct worker_pool *storage,
                         const struct response_store_options *options, char *err, size_t err_len);
/* Close the store; the storage thread has ended. */
void response_keeper_close(struct response_keeper **k);

/* Post a job whose `work` and `done` are set. The work uses the store, and nothing else of the
 * keeper. */
void response_keeper_post(struct response_keeper *k, struct worker_job *job);
struct response_store *response_keeper_store(const struct response_keeper *k);
/* NULL: zeros, nothing is kept. */
struct response_counts response_keeper_counts(const struct response_keeper *k);

struct response_run {          /* a response in the background */
    struct response_name name; /* borrowed */
    void (*cancel)(struct response_run *run);
    struct list link; /* private */
};

void response_keeper_add(struct response_keeper *k, struct response_run *run);
void response_keeper_remove(struct response_run *run);
/* Cancel the run of that name, if there is one. */
void response_keeper_cancel(struct response_keeper *k, const struct response_name *name);

#endif
