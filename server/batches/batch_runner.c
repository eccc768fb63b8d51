/* server/batches/batch_runner.c - see batch_runner.h.
 *
 * batch_runner_pump() is the whole schedule: it is called after each job, each answer and each
 * tick, does for each batch what can be done, and starts lines while room() allows more. Batches
 * share the room evenly, because the next line always comes from the one with the fewest running
 * lines. An owner has two batches with lines in memory, in the order in which they were created.
 */
#include "server/batches/batch_runner_impl.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/process/loop_guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Interval of the checks for changes without a callback: room that requests have left, expiry. */
#define TICK_MS 500
/* Most batches that have lines in memory: in all, and of one owner. */
#define MAX_AT_ONCE 16
#define MAX_OF_OWNER 2
/* Most batches whose input is checked at a time, because calls wait for one step of each. */
#define MAX_CHECKING 2
/* Lines that are kept ready beyond those that may run. */
#define AHEAD 8

struct found_id {
    struct list link;
    char id[BATCH_STORE_ID];
};

/* ---- batches ---- */

static void end_run(struct batch_runner *r, struct batch_run *run)
{
    log_info("batches",
             "event=batch_ended id=%s lines=%" PRIu32 " completed=%" PRIu32 " failed=%" PRIu32,
             run->id, run->record.n_lines, run->progress.n_done[BATCH_OUTPUT],
             run->progress.n_done[BATCH_ERRORS]);
    list_unlink(&run->link);
    r->n_runs--;
    if (r->opt.over != NULL)
        r->opt.over(r->opt.ud, run);
    batch_run_destroy(&run);
}

static bool has_expired(const struct batch_run *run)
{
    return run->record.expires_s > 0 && (int64_t)clock_unix_s() >= run->record.expires_s;
}

/* Decide if the batch ends now, and how; free a run that is over. False: it was freed. */
static bool settle_run(struct batch_runner *r, struct batch_run *run)
{
    if (run->has_job || run->phase == BATCH_LOADING)
        return true;
    if (run->phase == BATCH_OVER) {
        end_run(r, run);
        return false;
    }
    if (run->ending == BATCH_ENDS_NOT && batch_run_is_done(run))
        run->ending = BATCH_COMPLETED;
    if (run->ending == BATCH_ENDS_NOT && has_expired(run))
        run->ending = BATCH_EXPIRED;
    if (run->ending != BATCH_ENDS_NOT && run->phase != BATCH_ENDING) {
        batch_runner_give_up(run);
        run->phase = BATCH_ENDING;
    }
    return true;
}

static void on_changed(struct batch_run *run)
{
    const struct batch_runner_options *o = &batch_runner_of(run)->opt;

    if (o->progress != NULL && run->phase == BATCH_RUNNING && run->files != NULL)
        o->progress(o->ud, run);
    batch_runner_pump(batch_runner_of(run));
}

/* ---- which line is next ---- */

/* True: the batch may have lines in memory, as the first ones of each owner may. */
static bool is_active(const struct batch_runner *r, const struct batch_run *run, uint32_t *n)
{
    uint32_t n_own = 0;

    if (run->phase != BATCH_RUNNING)
        return true;
    if (*n >= MAX_AT_ONCE)
        return run->n_ready + run->n_running > 0;
    for (const struct list *it = r->runs.next; it != &run->link && n_own < MAX_OF_OWNER;
         it = it->next) {
        const struct batch_run *other = list_entry(it, struct batch_run, link);

        n_own +=
            other->phase == BATCH_RUNNING && strcmp(other->record.owner, run->record.owner) == 0;
    }
    *n += n_own < MAX_OF_OWNER;
    return n_own < MAX_OF_OWNER || run->n_ready + run->n_running > 0;
}

static bool has_line(const struct batch_run *run)
{
    size_t bytes = run->answered_bytes;

    for (int kind = 0; kind < BATCH_N_KINDS && !run->has_job; kind++)
        bytes += run->writing[kind].len;
    return run->phase == BATCH_RUNNING && run->ending == BATCH_ENDS_NOT && run->n_ready > 0 &&
           bytes < BATCH_RUN_MAX_ANSWERS && clock_us() >= run->wait_until_us;
}

/* Return the batch whose next line starts: of those with a ready line the one with the fewest
 * running lines. */
static struct batch_run *next_run(struct batch_runner *r)
{
    struct batch_run *best = NULL;

    list_each(it, &r->runs) {
        struct batch_run *run = list_entry(it, struct batch_run, link);

        if (has_line(run) && (best == NULL || run->n_running < best->n_running))
            best = run;
    }
    return best;
}

static void start_lines(struct batch_runner *r)
{
    struct batch_run *run;

    while (r->n_running < r->opt.room(r->opt.ud, r->n_running) && (run = next_run(r)) != NULL)
        if (batch_runner_start_line(r, list_entry(run->ready.next, struct batch_item, link)) < 0)
            break;
}

static void look_for_open(struct batch_runner *r);

static void on_runner_tick(uv_timer_t *tick)
{
    LOOP_CALLBACK(tick->loop, "batch_runner.tick");
    struct batch_runner *r = tick->data;

    if (r->wants_open && !r->has_open_job && !r->is_stopping)
        look_for_open(r);
    batch_runner_pump(r);
}

/* Run the timer while there are batches. */
static void set_tick(struct batch_runner *r)
{
    const bool wants = (r->n_runs > 0 || r->wants_open) && !r->is_stopping;

    if (wants == r->is_ticking || r->is_closed)
        return;
    r->is_ticking = wants;
    if (wants)
        uv_timer_start(&r->tick, on_runner_tick, TICK_MS, TICK_MS);
    else
        uv_timer_stop(&r->tick);
}

/* Return the number of lines that a batch should have ready. */
static uint32_t n_wanted(const struct batch_runner *r)
{
    const uint32_t room = r->opt.room(r->opt.ud, r->n_running);

    return (room > r->n_running ? room - r->n_running : 0) + AHEAD;
}

/* Called while the server stops: write the existing answers, and nothing else. */
static void pump_stopping(struct batch_runner *r)
{
    list_each(it, &r->runs) {
        struct batch_run *run = list_entry(it, struct batch_run, link);

        if (run->phase == BATCH_RUNNING && batch_run_has_answers(run))
            batch_run_post(run, 0);
    }
}

void batch_runner_pump(struct batch_runner *r)
{
    uint32_t n_active = 0, n_checking = 0;

    if (r->calls == NULL || r->is_stopping) {
        pump_stopping(r);
        return;
    }
    list_each(it, &r->runs) {
        struct batch_run *run = list_entry(it, struct batch_run, link);

        if (!settle_run(r, run))
            continue;
        n_checking += run->phase == BATCH_CHECKING;
        if (run->phase != BATCH_CHECKING || n_checking <= MAX_CHECKING)
            batch_run_post(run, is_active(r, run, &n_active) ? n_wanted(r) : 0);
    }
    start_lines(r);
    set_tick(r);
}

/* ---- life ---- */

int batch_runner_create(struct batch_runner **out, const struct batch_runner_options *options)
{
    struct batch_runner *r = mem_calloc(1, sizeof(*r));

    *out = NULL;
    if (r == NULL)
        return ERR_NOMEM;
    r->opt = *options;
    list_init(&r->runs);
    list_init(&r->found);
    uv_timer_init(options->loop, &r->tick);
    r->tick.data = r;
    *out = r;
    return 0;
}

/* Collect the ids of all open batches; runs on the storage thread. */
static void find_open(struct worker_job *job)
{
    struct batch_runner *r = list_entry(job, struct batch_runner, open_job);
    struct batch_record *record = mem_alloc(sizeof(*record));
    struct batch_store *s = r->opt.run.store;
    int64_t n = -1;

    batch_store_try_open(s);
    r->open_error = (struct api_error){0};
    while (s != NULL && record != NULL &&
           batch_store_find_open(s, NULL, &n, record, &r->open_error) == 1) {
        struct found_id *found = mem_calloc(1, sizeof(*found));

        if (found == NULL)
            break;
        memcpy(found->id, record->id, sizeof(found->id));
        list_push_back(&r->found, &found->link);
    }
    mem_free(record);
}

/* True: the batch has a run already, which was begun after the first search failed. */
static bool has_run(const struct batch_runner *r, const char *id)
{
    for (const struct list *it = r->runs.next; it != &r->runs; it = it->next)
        if (strcmp(list_entry(it, struct batch_run, link)->id, id) == 0)
            return true;
    return false;
}

static void after_find(struct worker_job *job)
{
    struct batch_runner *r = list_entry(job, struct batch_runner, open_job);
    struct batch_record *record = mem_calloc(1, sizeof(*record));
    uint32_t n = 0;

    r->has_open_job = false;
    r->wants_open = r->open_error.status != 0;
    list_each(it, &r->found) {
        struct found_id *found = list_entry(it, struct found_id, link);

        list_unlink(it);
        if (record != NULL && !r->is_stopping && !r->wants_open && !has_run(r, found->id)) {
            memcpy(record->id, found->id, sizeof(record->id));
            n += batch_runner_add(r, record, BATCH_LOADING) == 0;
        }
        mem_free(found);
    }
    mem_free(record);
    set_tick(r);
    if (n > 0)
        log_info("batches", "event=batches_resumed n=%" PRIu32, n);
}

static void look_for_open(struct batch_runner *r)
{
    r->has_open_job = true;
    r->open_job.work = find_open;
    r->open_job.done = after_find;
    r->open_job.name = "batch_runner";
    r->open_job.subject = BATCH_JOB_SUBJECT;
    (void)worker_pool_post(r->opt.run.storage,
                           &r->open_job); /* the storage thread has no limit of jobs */
}

void batch_runner_start(struct batch_runner *r, struct local_calls *calls)
{
    r->calls = calls;
    look_for_open(r);
    batch_runner_pump(r);
}

void batch_runner_drain(struct batch_runner *r)
{
    if (r == NULL || r->is_stopping)
        return;
    r->is_stopping = true;
    list_each(it, &r->runs)
        batch_runner_give_up(list_entry(it, struct batch_run, link));
    batch_runner_pump(r);
    set_tick(r);
}

/* True: no answer is left to write. Answers that cannot be written are computed again by the next
 * process. */
bool batch_runner_is_idle(const struct batch_runner *r)
{
    if (r == NULL)
        return true;
    if (!worker_pool_is_idle(r->opt.run.storage))
        return false;
    for (const struct list *it = r->runs.next; it != &r->runs; it = it->next) {
        const struct batch_run *run = list_entry(it, struct batch_run, link);

        if (batch_run_has_answers(run) && run->trouble[0] == '\0')
            return false;
    }
    return true;
}

void batch_runner_stop(struct batch_runner *r)
{
    if (r == NULL || r->is_closed)
        return;
    r->is_closed = true;
    uv_close((uv_handle_t *)&r->tick, NULL);
}

void batch_runner_destroy(struct batch_runner **runner)
{
    struct batch_runner *r = runner != NULL ? *runner : NULL;

    if (r == NULL)
        return;
    list_each(it, &r->runs) {
        struct batch_run *run = list_entry(it, struct batch_run, link);

        list_each(line, &run->running)
            batch_item_destroy(list_entry(line, struct batch_item, link));
        batch_run_destroy(&run);
    }
    mem_free(r);
    *runner = NULL;
}

/* ---- batches that are added and cancelled ---- */

int batch_runner_add(struct batch_runner *r, const struct batch_record *record,
                     enum batch_phase phase)
{
    struct batch_run *run = batch_run_create(record, phase, &r->opt.run, on_changed, r);

    if (run == NULL)
        return ERR_NOMEM;
    list_push_back(&r->runs, &run->link);
    r->n_runs++;
    batch_runner_pump(r);
    return 0;
}

void batch_runner_cancel(struct batch_runner *r, const char *id)
{
    list_each(it, &r->runs) {
        struct batch_run *run = list_entry(it, struct batch_run, link);

        if (strcmp(run->id, id) != 0 || run->ending != BATCH_ENDS_NOT)
            continue;
        run->ending = BATCH_CANCELLED;
        batch_runner_give_up(run);
    }
    batch_runner_pump(r);
}
