/* server/batches/batch_runner_impl.h - what the files of batch_runner.h share: batch_runner.c knows
 * the batches, batch_runner_lines.c the lines of them that run.
 *
 * Thread: the loop's, but for what open_job finds.
 * Memory: none of its own.
 */
#ifndef SERVER_BATCHES_BATCH_RUNNER_IMPL_H
#define SERVER_BATCHES_BATCH_RUNNER_IMPL_H

#include "server/batches/batch_runner.h"

struct batch_runner {
    struct batch_runner_options opt;
    struct local_calls *calls; /* NULL: requests are not taken yet */
    struct list runs;          /* the next one to give a line first */
    uint32_t n_runs, n_running;
    uint64_t n_done[BATCH_N_KINDS];
    uv_timer_t tick;
    bool is_ticking, is_stopping, is_closed;
    struct batch_job open_job; /* looks for what is open, again after a failure; */
    bool has_open_job, wants_open;
    struct list found;         /* that */
    struct api_error open_error;
};

static inline struct batch_runner *batch_runner_of(struct batch_run *run)
{
    return run->ud;
}

/* Whatever can go on does. */
void batch_runner_pump(struct batch_runner *r);

/* The first line that is ready begins. Negative: not now, and it is ready again. */
int batch_runner_start_line(struct batch_runner *r, struct batch_item *item);
/* Lines that run are given up; those that are ready are not wanted any more. */
void batch_runner_give_up(struct batch_run *run);

#endif
