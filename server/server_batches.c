/* server/server_batches.c - connects batches to the server; see server_impl.h.
 *
 * A server has the batches of a folder (batch_dir), or, for `quire batch`, one batch that ends the
 * server. The runner's lines are local calls (http/local_call.h) that are treated like clients'
 * requests; room() returns how many may run, so that lines use only the room that clients leave.
 */
#include "server/server_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/auth/api_keys.h"
#include "server/batches/batch_runner.h"

#include <stdio.h>
#include <string.h>

/* Lines in the queue beyond the running ones, so that a free place in a step's batch is used at
 * once. */
#define WAITING 1

/* The number of lines that may run: what clients' requests leave of the engines' batches, up to the
 * setting. A line with several choices counts as one, so that the rest looks like clients'
 * requests: then fewer lines run. */
static uint32_t room(void *ud, uint32_t n_running)
{
    const struct server *s = ud;
    uint32_t n = 0, taken = 0;

    for (uint32_t i = 0; i < s->opt.n_models; i++) {
        n += s->models[i].model.max_sequences;
        taken += served_model_n_outstanding(&s->models[i]);
    }
    taken -= taken < n_running ? taken : n_running;
    n = (n > taken ? n - taken : 0) + WAITING;
    return n < s->opt.batch_streams ? n : s->opt.batch_streams;
}

static struct key *find_key(void *ud, const char *name)
{
    const struct server *s = ud;

    return s->keys != NULL ? keys_find_name(s->keys, name) : NULL;
}

static void on_progress(void *ud, const struct batch_run *run)
{
    const struct server *s = ud;
    struct server_batch_progress p = {.n_lines = run->record.n_lines,
                                      .n_done = run->record.n_lines - batch_run_n_left(run),
                                      .n_failed = run->progress.n_done[BATCH_ERRORS]};

    for (uint32_t i = 0; i < s->opt.n_models; i++)
        p.n_tokens += (uint64_t)s->models[i].metrics.generation_tokens.sum;
    s->opt.batch->progress(s->opt.batch->ud, &p);
}

/* The batch of the command line has ended: end the server. */
static void on_over(void *ud, const struct batch_run *run)
{
    struct server *s = ud;
    const struct server_batch *b = s->opt.batch;

    b->over(b->ud, run->ending == BATCH_COMPLETED ? NULL
                   : run->errors.data != NULL     ? run->errors.data
                                                  : "");
    server_stop(s, "reason=batch_ended");
}

int server_open_batches(struct server *s, char *err, size_t err_len)
{
    const bool has_dir = s->opt.batch_dir != NULL && s->opt.batch_dir[0] != '\0';
    const struct batch_store_options store = {s->opt.batch_dir, s->opt.batch_size,
                                              s->opt.batch_days};
    struct batch_runner_options runner = {
        .loop = &s->loop,
        .run = {.max_lines = s->opt.batch_max_lines, .max_line = s->opt.max_body},
        .room = room,
        .find_key = find_key,
        .progress = s->opt.batch != NULL ? on_progress : NULL,
        .over = s->opt.batch != NULL ? on_over : NULL,
        .ud = s};
    int rc = 0;

    s->batch_pages.tenant_header = s->opt.tenant_header != NULL ? s->opt.tenant_header : "";
    s->batch_pages.max_file = s->opt.batch_file_size;
    if (!has_dir && s->opt.batch == NULL)
        return 0;
    if (has_dir)
        rc = batch_store_open(&s->batch_store, &store, err, err_len);
    if (rc < 0)
        return rc;
    runner.run.storage = s->storage;
    runner.run.store = s->batch_store;
    rc = batch_runner_create(&s->batch_runner, &runner);
    if (rc < 0)
        return snprintf(err, err_len, "no memory for batches"), rc;
    s->batch_pages.store = s->batch_store;
    s->batch_pages.storage = s->storage;
    s->batch_pages.runner = s->batch_runner;
    return 0;
}

static void add_single(struct server *s)
{
    const struct server_batch *b = s->opt.batch;
    struct batch_record *record = mem_calloc(1, sizeof(*record));
    int rc = ERR_NOMEM;

    if (record != NULL) {
        snprintf(record->id, sizeof(record->id), "batch");
        snprintf(record->input, sizeof(record->input), "%s", b->input);
        snprintf(record->answers[BATCH_OUTPUT], BATCH_STORE_PATH, "%s", b->output);
        record->seed = b->seed;
        record->ends[BATCH_OUTPUT] = UINT64_MAX;
        rc = batch_runner_add(s->batch_runner, record, BATCH_CHECKING);
    }
    mem_free(record);
    if (rc == 0)
        return;
    b->over(b->ud, "");
    server_stop(s, "reason=no_memory");
}

void server_run_batches(struct server *s)
{
    if (s->batch_runner == NULL)
        return;
    batch_runner_start(s->batch_runner, http_local_calls(s->http));
    if (s->opt.batch != NULL)
        add_single(s);
}

void server_stop_batches(struct server *s)
{
    batch_runner_stop(s->batch_runner);
}

void server_close_batches(struct server *s)
{
    batch_store_close(&s->batch_store);
    batch_runner_destroy(&s->batch_runner);
}
