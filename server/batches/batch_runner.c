/* server/batches/batch_runner.c - see batch_runner.h. */
#include "server/batches/batch_runner.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/auth/api_keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* How often what nobody tells of is looked for: room that requests have left, the time. */
#define TICK_MS 500
/* Batches that have lines in memory. */
#define MAX_AT_ONCE 16
#define MAX_OF_OWNER 2
/* Times that a line may run out of its time (408) before that is its answer. */
#define MAX_TRIES 3
#define PAUSE_US 1000000u
/* Lines that are ready beside those that may run. */
#define AHEAD 8

struct batch_runner {
    struct batch_runner_options opt;
    struct local_calls *calls; /* NULL: requests are not taken yet */
    struct list runs;          /* the next one to give a line first */
    uint32_t n_runs, n_running;
    uint64_t n_done[BATCH_N_KINDS];
    uv_timer_t tick;
    bool is_ticking, is_stopping, is_closed;
    struct batch_job open_job; /* looks for what is open; */
    struct list found;         /* that */
    struct api_error open_error;
};

struct found_id {
    struct list link;
    char id[BATCH_STORE_ID];
};

static void pump(struct batch_runner *r);

static struct batch_runner *runner_of(struct batch_run *run)
{
    return run->ud;
}

/* ---- lines ---- */

static void take_from_running(struct batch_item *item)
{
    list_unlink(&item->link);
    item->run->n_running--;
    runner_of(item->run)->n_running--;
}

/* It begins again, before the others of its batch. */
static void put_back(struct batch_item *item, uint64_t pause_us)
{
    struct batch_run *run = item->run;

    take_from_running(item);
    list_push_front(&run->ready, &item->link);
    run->n_ready++;
    run->ready_bytes += item->line.body.len;
    run->wait_until_us = clock_us() + pause_us;
}

static bool is_for_now(struct batch_item *item, const struct local_reply *reply)
{
    if (reply->status == 408)
        return ++item->n_tries < MAX_TRIES;
    return (reply->status == 429 || reply->status == 503) && !reply->is_final;
}

/* Append the answer. False: there is no memory for it now. */
static bool keep_answer(struct batch_item *item, const struct local_reply *reply)
{
    struct batch_run *run = item->run;
    const enum batch_kind kind = reply->status == 200 ? BATCH_OUTPUT : BATCH_ERRORS;
    struct buf *out = &run->answers[kind];
    const size_t before = out->len;

    if (reply->status == 0)
        batch_line_no_answer(&item->line, run->record.seed, "server_error",
                             "the answer was too large", out);
    else
        batch_line_answer(&item->line, run->record.seed, reply->status, reply->body, out);
    if (out->err < 0) {
        out->len = before;
        out->err = 0;
        return false;
    }
    run->n_answers[kind]++;
    runner_of(run)->n_done[kind]++;
    return true;
}

static void on_reply(struct local_call *call, const struct local_reply *reply)
{
    struct batch_item *item = list_entry(call, struct batch_item, call);
    struct batch_runner *r = runner_of(item->run);

    if (is_for_now(item, reply)) {
        put_back(item, reply->retry_after_s > 0 ? reply->retry_after_s * UINT64_C(1000000)
                                                : PAUSE_US);
    } else if (!keep_answer(item, reply)) {
        put_back(item, PAUSE_US);
    } else {
        take_from_running(item);
        batch_item_destroy(item);
    }
    pump(r);
}

static void release_key(void *key)
{
    key_unref(key);
}

/* The line's body is kept: it may have to begin again. */
static int start_line(struct batch_runner *r, struct batch_item *item)
{
    struct batch_run *run = item->run;
    struct key *key = run->record.key[0] != '\0' ? r->opt.find_key(r->opt.ud, run->record.key)
                                                 : NULL;
    char id[BATCH_LINE_ANSWER_ID];
    struct local_request request = {.path = item->line.url,
                                    .tenant = key == NULL ? run->record.owner : "",
                                    .id = id,
                                    .priority = "low",
                                    .body = &item->line.body,
                                    .owner = key_ref(key),
                                    .release_owner = release_key,
                                    .owner_name = key != NULL ? key->spec.name : ""};
    int rc;

    batch_line_answer_id(run->record.seed, item->line.index, id);
    list_unlink(&item->link);
    list_push_back(&run->running, &item->link);
    run->n_ready--;
    run->ready_bytes -= item->line.body.len;
    run->n_running++;
    r->n_running++;
    item->call.done = on_reply;
    rc = local_call_start(&item->call, r->calls, &request);
    if (rc < 0) {
        key_unref(key);
        put_back(item, PAUSE_US);
    }
    return rc;
}

/* ---- batches ---- */

/* Lines that run are given up; those that are ready are not wanted any more. */
static void give_up_lines(struct batch_run *run)
{
    list_each(it, &run->running)
    {
        struct batch_item *item = list_entry(it, struct batch_item, link);

        local_call_cancel(&item->call);
        take_from_running(item);
        batch_item_destroy(item);
    }
    list_each(it, &run->ready) batch_item_destroy(list_entry(it, struct batch_item, link));
    run->n_ready = 0;
    run->ready_bytes = 0;
}

static void end_run(struct batch_runner *r, struct batch_run *run)
{
    log_info("batches", "event=batch_ended id=%s lines=%" PRIu32 " completed=%" PRIu32
                        " failed=%" PRIu32,
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

/* What the loop knows of its end; false: it is over. */
static bool settle(struct batch_runner *r, struct batch_run *run)
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
        give_up_lines(run);
        run->phase = BATCH_ENDING;
    }
    return true;
}

static void on_changed(struct batch_run *run)
{
    const struct batch_runner_options *o = &runner_of(run)->opt;

    if (o->progress != NULL && run->phase == BATCH_RUNNING && run->files != NULL)
        o->progress(o->ud, run);
    pump(runner_of(run));
}

/* ---- whose turn it is ---- */

/* May it have lines in memory? The first ones of each owner's may. */
static bool is_active(const struct batch_runner *r, const struct batch_run *run, uint32_t *n)
{
    uint32_t n_own = 0;

    if (run->phase != BATCH_RUNNING)
        return true;
    if (*n >= MAX_AT_ONCE)
        return run->n_ready + run->n_running > 0;
    for (const struct list *it = r->runs.next; it != &run->link; it = it->next) {
        const struct batch_run *other = list_entry(it, struct batch_run, link);

        n_own += other->phase == BATCH_RUNNING &&
                 strcmp(other->record.owner, run->record.owner) == 0;
    }
    *n += n_own < MAX_OF_OWNER;
    return n_own < MAX_OF_OWNER || run->n_ready + run->n_running > 0;
}

static bool has_line(const struct batch_run *run)
{
    size_t bytes = 0;

    for (int kind = 0; kind < BATCH_N_KINDS; kind++)
        bytes += run->answers[kind].len + (run->has_job ? 0 : run->writing[kind].len);
    return run->phase == BATCH_RUNNING && run->ending == BATCH_ENDS_NOT && run->n_ready > 0 &&
           bytes < BATCH_RUN_MAX_ANSWERS && clock_us() >= run->wait_until_us;
}

/* The run whose next line comes: of those with one, the one with the fewest that run. */
static struct batch_run *next_run(struct batch_runner *r)
{
    struct batch_run *best = NULL;

    list_each(it, &r->runs)
    {
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
        if (start_line(r, list_entry(run->ready.next, struct batch_item, link)) < 0)
            break;
}

static void on_tick(uv_timer_t *tick)
{
    pump(tick->data);
}

/* Without batches nothing is done. */
static void set_tick(struct batch_runner *r)
{
    const bool wants = r->n_runs > 0 && !r->is_stopping;

    if (wants == r->is_ticking || r->is_closed)
        return;
    r->is_ticking = wants;
    if (wants)
        uv_timer_start(&r->tick, on_tick, TICK_MS, TICK_MS);
    else
        uv_timer_stop(&r->tick);
}

/* Lines that a batch should have ready. */
static uint32_t n_wanted(const struct batch_runner *r)
{
    const uint32_t room = r->opt.room(r->opt.ud, r->n_running);

    return (room > r->n_running ? room - r->n_running : 0) + AHEAD;
}

/* When the server stops, what is known goes to the disk, and no more. */
static void pump_stopping(struct batch_runner *r)
{
    list_each(it, &r->runs)
    {
        struct batch_run *run = list_entry(it, struct batch_run, link);

        if (run->phase == BATCH_RUNNING && batch_run_has_answers(run))
            batch_run_post(run, r->opt.keeper, 0);
    }
}

static void pump(struct batch_runner *r)
{
    uint32_t n_active = 0;

    if (r->calls == NULL || r->is_stopping) {
        pump_stopping(r);
        return;
    }
    list_each(it, &r->runs)
    {
        struct batch_run *run = list_entry(it, struct batch_run, link);

        if (settle(r, run))
            batch_run_post(run, r->opt.keeper, is_active(r, run, &n_active) ? n_wanted(r) : 0);
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

/* On the keeper's thread: the ids of all that are open. */
static void find_open(struct batch_job *job, struct batch_store *s)
{
    struct batch_runner *r = list_entry(job, struct batch_runner, open_job);
    struct batch_record *record = mem_alloc(sizeof(*record));
    int64_t n = -1;

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

static void after_find(struct batch_job *job)
{
    struct batch_runner *r = list_entry(job, struct batch_runner, open_job);
    struct batch_record *record = mem_calloc(1, sizeof(*record));
    uint32_t n = 0;

    list_each(it, &r->found)
    {
        struct found_id *found = list_entry(it, struct found_id, link);

        list_unlink(it);
        if (record != NULL && !r->is_stopping) {
            memcpy(record->id, found->id, sizeof(record->id));
            n += batch_runner_add(r, record, BATCH_LOADING) == 0;
        }
        mem_free(found);
    }
    mem_free(record);
    if (n > 0)
        log_info("batches", "event=batches_resumed n=%" PRIu32, n);
}

void batch_runner_start(struct batch_runner *r, struct local_calls *calls)
{
    r->calls = calls;
    r->open_job.work = find_open;
    r->open_job.done = after_find;
    batch_keeper_post(r->opt.keeper, &r->open_job, "");
    pump(r);
}

void batch_runner_drain(struct batch_runner *r)
{
    if (r == NULL || r->is_stopping)
        return;
    r->is_stopping = true;
    list_each(it, &r->runs) give_up_lines(list_entry(it, struct batch_run, link));
    pump(r);
    set_tick(r);
}

/* What the disk does not take is computed again by the next process. */
bool batch_runner_is_idle(const struct batch_runner *r)
{
    if (r == NULL)
        return true;
    if (!batch_keeper_is_idle(r->opt.keeper))
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
    list_each(it, &r->runs)
    {
        struct batch_run *run = list_entry(it, struct batch_run, link);

        list_each(line, &run->running)
            batch_item_destroy(list_entry(line, struct batch_item, link));
        batch_run_destroy(&run);
    }
    mem_free(r);
    *runner = NULL;
}

/* ---- batches that come and go ---- */

bool batch_runner_has_room(const struct batch_runner *r)
{
    return r->n_runs < BATCH_RUNNER_MAX;
}

int batch_runner_add(struct batch_runner *r, const struct batch_record *record,
                     enum batch_phase phase)
{
    struct batch_run *run = batch_run_create(record, phase, &r->opt.limits, on_changed, r);

    if (run == NULL)
        return ERR_NOMEM;
    list_push_back(&r->runs, &run->link);
    r->n_runs++;
    pump(r);
    return 0;
}

void batch_runner_cancel(struct batch_runner *r, const char *id)
{
    list_each(it, &r->runs)
    {
        struct batch_run *run = list_entry(it, struct batch_run, link);

        if (strcmp(run->id, id) != 0 || run->ending != BATCH_ENDS_NOT)
            continue;
        run->ending = BATCH_CANCELLED;
        give_up_lines(run);
    }
    pump(r);
}

/* ---- for those who ask ---- */

struct batch_runner_counts batch_runner_counts(const struct batch_runner *r)
{
    struct batch_runner_counts c = {0};

    if (r == NULL)
        return c;
    memcpy(c.n_done, r->n_done, sizeof(c.n_done));
    c.n_batches = r->n_runs;
    c.n_running = r->n_running;
    for (const struct list *it = r->runs.next; it != &r->runs; it = it->next)
        c.n_waiting += batch_run_n_left(list_entry(it, struct batch_run, link));
    c.n_waiting -= c.n_waiting < c.n_running ? c.n_waiting : c.n_running;
    return c;
}

static void describe_run(const struct batch_run *run, struct buf *out)
{
    static const char *const phases[] = {"loading", "validating", "in_progress", "finalizing",
                                         "over"};
    const uint64_t now = clock_us();

    buf_printf(out, "{\"id\":\"%s\",\"phase\":\"%s\",\"lines\":%" PRIu32 ",\"completed\":%" PRIu32,
               run->id, phases[run->phase], run->record.n_lines,
               run->progress.n_done[BATCH_OUTPUT]);
    buf_printf(out, ",\"failed\":%" PRIu32 ",\"running\":%" PRIu32 ",\"ready\":%" PRIu32,
               run->progress.n_done[BATCH_ERRORS], run->n_running, run->n_ready);
    buf_printf(out, ",\"unwritten_bytes\":%zu,\"waits_ms\":%" PRIu64 ",\"trouble\":",
               run->answers[BATCH_OUTPUT].len + run->answers[BATCH_ERRORS].len,
               run->wait_until_us > now ? (run->wait_until_us - now) / 1000 : 0);
    if (run->trouble[0] != '\0')
        json_add_cstring(out, run->trouble);
    else
        buf_add_str(out, "null");
    buf_add_char(out, '}');
}

void batch_runner_describe(const struct batch_runner *r, struct buf *out)
{
    bool is_first = true;

    buf_add_str(out, "{\"batches\":[");
    for (const struct list *it = r != NULL ? r->runs.next : NULL; it != NULL && it != &r->runs;
         it = it->next) {
        const struct batch_run *run = list_entry(it, struct batch_run, link);

        if (run->phase == BATCH_LOADING)
            continue;
        if (!is_first)
            buf_add_char(out, ',');
        is_first = false;
        describe_run(run, out);
    }
    buf_add_str(out, "]}");
}
