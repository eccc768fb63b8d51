/* server/batches/batch_runner.h - which lines of which batches are computed now.
 *
 * A line is a call of the server's own (http/local_call.h) at the lowest priority: requests of
 * clients go before it, and take its place while they need it. As many run as `room` allows.
 * Batches take turns, line by line; some of each owner's at a time, the others wait.
 *
 * A line that is turned away for now (429, 503) begins again when it may; so does one whose time
 * was over, some times. What comes back otherwise is its answer. When the server stops, lines that
 * run are given up, and begin again in the next process.
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
    struct batch_keeper *keeper;
    struct batch_run_limits limits;
    /* How many lines may run now, of which n_running do. */
    uint32_t (*room)(void *ud, uint32_t n_running);
    /* Of a batch that was begun with the key of that name; NULL: it is gone. Borrowed. */
    struct key *(*find_key)(void *ud, const char *name);
    /* One has written answers, and has ended; NULL: nobody asks. */
    void (*progress)(void *ud, const struct batch_run *run);
    void (*over)(void *ud, const struct batch_run *run);
    void *ud;
};

int batch_runner_create(struct batch_runner **out, const struct batch_runner_options *options);
/* Requests are taken: go on with what is open. The first call of the runner's that makes others. */
void batch_runner_start(struct batch_runner *r, struct local_calls *calls);
/* The lines that run are given up, and nothing more begins. */
void batch_runner_drain(struct batch_runner *r);
bool batch_runner_is_idle(const struct batch_runner *r);
/* Give back the loop's handle; the loop must run once more. NULL is allowed. */
void batch_runner_stop(struct batch_runner *r);
void batch_runner_destroy(struct batch_runner **r);

/* A batch that the store has now, or one of files (batch_run_create). 0 or ERR_NOMEM. */
int batch_runner_add(struct batch_runner *r, const struct batch_record *record,
                     enum batch_phase phase);
/* The store says that it is cancelled. */
void batch_runner_cancel(struct batch_runner *r, const char *id);

struct batch_runner_counts {
    uint64_t n_done[BATCH_N_KINDS]; /* lines, since the start */
    uint32_t n_batches, n_running, n_waiting;
};
struct batch_runner_counts batch_runner_counts(const struct batch_runner *r);

/* JSON for /debug/batches. NULL is allowed. */
void batch_runner_describe(const struct batch_runner *r, struct buf *out);

#endif
