/* server/batches/batch_runner.h - chooses the lines of batches that are computed now.
 *
 * A line is a local call (http/local_call.h) at the lowest priority: clients' requests are computed
 * first, and may preempt it. At most `room` lines run. Batches take turns, line by line; each owner
 * has some batches active at a time, the others wait.
 *
 * A line that gets 429 or 503 starts again after its Retry-After, a minute at most; a line that
 * timed out (408) does too, a few times. Any other reply is its answer. When the server stops,
 * running lines are cancelled, and start again in the next process.
 *
 * Thread: the loop's.
 * Memory: batches (batch_run.h), at most BATCH_STORE_MAX_OPEN.
 */
#ifndef SERVER_BATCHES_BATCH_RUNNER_H
#define SERVER_BATCHES_BATCH_RUNNER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "server/batches/batch_run.h"

struct batch_runner; /* NULL: there are no batches */
struct key;
struct keys;

struct batch_runner_options {
    uv_loop_t *loop;
    struct batch_run_options run;
    /* Return how many lines may run now, including the n_running that run. */
    uint32_t (*room)(void *ud, uint32_t n_running);
    /* Find the key with which a batch was created; NULL: it no longer exists. Borrowed. */
    struct key *(*find_key)(void *ud, const char *name);
    /* Called when a batch has written answers, and when it has ended; NULL: not needed. */
    void (*progress)(void *ud, const struct batch_run *run);
    void (*over)(void *ud, const struct batch_run *run);
    void *ud;
};

int batch_runner_create(struct batch_runner **out, const struct batch_runner_options *options);
/* Continue the open batches. Called once, when requests are accepted, before the functions
 * below. */
void batch_runner_start(struct batch_runner *r, struct local_calls *calls);
/* Cancel the running lines, and start no more. */
void batch_runner_drain(struct batch_runner *r);
bool batch_runner_is_idle(const struct batch_runner *r);
/* Close the loop's handle; the loop must run once more. NULL is allowed. */
void batch_runner_stop(struct batch_runner *r);
void batch_runner_destroy(struct batch_runner **r);

/* Add a batch of the store, or one of files (batch_run_create()). 0 or ERR_NOMEM. */
int batch_runner_add(struct batch_runner *r, const struct batch_record *record,
                     enum batch_phase phase);
/* Stop the run of a batch that was cancelled in the store. */
void batch_runner_cancel(struct batch_runner *r, const char *id);

struct batch_runner_counts {
    uint64_t n_done[BATCH_N_KINDS]; /* lines done since the start, by kind */
    uint32_t n_batches, n_running, n_waiting;
};
struct batch_runner_counts batch_runner_counts(const struct batch_runner *r);

/* Append the JSON of /debug/batches. r may be NULL. */
void batch_runner_describe(const struct batch_runner *r, struct buf *out);

#endif
