/* server/batches/batch_runner_impl.h - shared by the files of batch_runner.h: batch_runner.c
 * handles the batches, batch_runner_lines.c their running lines. Thread: the loop's, except for
 * `found` while open_job runs. Memory: as batch_runner.h says.
 */
#ifndef SERVER_BATCHES_BATCH_RUNNER_IMPL_H
#define SERVER_BATCHES_BATCH_RUNNER_IMPL_H

#include "server/batches/batch_runner.h"

struct batch_runner {
    struct batch_runner_options opt;
    struct local_calls *calls; /* NULL: requests are not accepted yet */
    struct list runs;          /* struct batch_run, in the order in which they were added */
    uint32_t n_runs, n_running;
    uint64_t n_done[BATCH_N_KINDS];
    uv_timer_t tick;
    bool is_ticking, is_stopping, is_closed;
    struct worker_job open_job; /* finds open batches; repeated after a failure */
    bool has_open_job, wants_open;
    struct list found; /* struct found_id: the batches that open_job has found */
    struct api_error open_error;
};

static inline struct batch_runner *batch_runner_of(struct batch_run *run)
{
    return run->ud;
}

/* Do everything that can be done now for each batch. */
void batch_runner_pump(struct batch_runner *r);

/* Start the batch's first ready line. Negative: it cannot start now, and stays ready. */
int batch_runner_start_line(struct batch_runner *r, struct batch_item *item);
/* Cancel the running lines, and drop the ready ones. */
void batch_runner_give_up(struct batch_run *run);

#endif
