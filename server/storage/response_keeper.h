/* server/storage/response_keeper.h - kept responses, as the I/O thread uses them: jobs on a thread
 * of their own, and a list of the running background responses.
 *
 * One thread runs the jobs in the order of posting: so a job that was posted before an answer was
 * sent is done before any job that a client posts after the answer.
 *
 * Thread: the loop's, except for the jobs' work.
 * Memory: the thread; jobs and runs belong to the posters.
 */
#ifndef SERVER_STORAGE_RESPONSE_KEEPER_H
#define SERVER_STORAGE_RESPONSE_KEEPER_H

#include "core/base/list.h"
#include "server/process/worker_pool.h"
#include "server/storage/response_store.h"

struct response_keeper; /* NULL: nothing is kept */

struct response_keeper_options {
    uv_loop_t *loop;
    struct response_store_options store;
};

/* Open the store; errors as response_store_open(), or ERR_NOMEM. response_keeper_start() makes the
 * thread. */
int response_keeper_open(struct response_keeper **out,
                         const struct response_keeper_options *options, char *err, size_t err_len);
int response_keeper_start(struct response_keeper *k);
/* Stop the thread as worker_pool_stop() does; response_keeper_close() follows after the loop has
 * ended. k may be NULL. */
void response_keeper_stop(struct response_keeper *k);
void response_keeper_close(struct response_keeper **k);

/* Post a job whose `work` and `done` are set. The work uses the store, and nothing else of the
 * keeper. */
void response_keeper_post(struct response_keeper *k, struct worker_job *job);
struct response_store *response_keeper_store(const struct response_keeper *k);
/* True: done() of every job was called. */
bool response_keeper_is_idle(const struct response_keeper *k);
/* Return the clock_us() at which the running job began; 0: none runs. */
uint64_t response_keeper_oldest_us(struct response_keeper *k);

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
