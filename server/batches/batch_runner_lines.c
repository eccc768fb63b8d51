/* server/batches/batch_runner_lines.c - starts lines and takes their replies; see batch_runner.h.
 *
 * A line becomes a POST to itself (local_call.h) under the batch's key or tenant. Its reply either
 * puts the item back in front of its batch, with a pause for the whole batch, or moves it to
 * `answered`, from where the next job writes it. All on the I/O thread; the answer's buffer is
 * moved, not copied.
 */
#include "server/batches/batch_runner_impl.h"

#include "core/base/clock.h"
#include "core/json/json.h"
#include "server/auth/api_keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Number of timeouts (408) of a line before a timeout becomes its answer. */
#define MAX_TRIES 3
#define PAUSE_US 1000000u
/* Longest pause in seconds; it is short because a key's quota may be raised meanwhile. */
#define MAX_PAUSE_S 60

static void take_from_running(struct batch_item *item)
{
    list_unlink(&item->link);
    item->run->n_running--;
    batch_runner_of(item->run)->n_running--;
}

/* Make the line ready again, before the others of its batch. */
static void put_back(struct batch_item *item, uint64_t pause_us)
{
    struct batch_run *run = item->run;

    take_from_running(item);
    list_push_front(&run->ready, &item->link);
    run->n_ready++;
    run->ready_bytes += item->line.body.len;
    run->wait_until_us = clock_us() + pause_us;
}

static uint64_t pause_of(const struct local_reply *reply)
{
    const uint32_t s = reply->retry_after_s < MAX_PAUSE_S ? reply->retry_after_s : MAX_PAUSE_S;

    return s > 0 ? s * UINT64_C(1000000) : PAUSE_US;
}

static bool may_try_again(struct batch_item *item, const struct local_reply *reply)
{
    if (reply->status == 408)
        return ++item->n_tries < MAX_TRIES;
    return (reply->status == 429 || reply->status == 503) && !reply->is_final;
}

/* Keep the answer; the next job renders it as a line and writes it. */
static void keep_answer(struct batch_item *item, const struct local_reply *reply)
{
    struct batch_run *run = item->run;

    take_from_running(item);
    item->status = reply->status;
    item->answer = *reply->body;
    *reply->body = (struct buf){0};
    list_push_back(&run->answered, &item->link);
    run->answered_bytes += item->answer.len;
    batch_runner_of(run)->n_done[item->status == 200 ? BATCH_OUTPUT : BATCH_ERRORS]++;
}

static void on_reply(struct local_call *call, const struct local_reply *reply)
{
    struct batch_item *item = list_entry(call, struct batch_item, call);
    struct batch_runner *r = batch_runner_of(item->run);

    if (may_try_again(item, reply))
        put_back(item, pause_of(reply));
    else
        keep_answer(item, reply);
    batch_runner_pump(r);
}

static void release_key(void *key)
{
    key_unref(key);
}

/* Start the line; its body is kept, because it may have to start again. */
int batch_runner_start_line(struct batch_runner *r, struct batch_item *item)
{
    struct batch_run *run = item->run;
    struct key *key = run->record.key[0] != '\0' ? r->opt.find_key(r->opt.ud, run->record.key)
                                                 : NULL;
    char id[BATCH_LINE_ANSWER_ID];
    struct local_request request = {.path = item->line.url,
                                    .tenant = key == NULL ? run->record.owner : "",
                                    .id = id,
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

void batch_runner_give_up(struct batch_run *run)
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

/* ---- counts and /debug/batches ---- */

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
               run->answered_bytes,
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
