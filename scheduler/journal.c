/* scheduler/journal.c - see journal.h.
 *
 * A line is composed in `line`, which only the engine thread touches, and then copied into the ring
 * as a whole or counted as dropped, so a reader never sees half a line. The mutex protects the ring
 * and is held for copying only: the engine thread never waits for the thread that writes the file.
 * Lines are put together by hand, because the engine allocates nothing in a step.
 */
#include "scheduler/journal.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "scheduler/scheduler.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

struct journal {
    char *line; /* the engine thread's line, as large as the ring; > cap: too long */
    size_t line_len;
    size_t cap;
    uint64_t n_missing; /* lines dropped and not yet noted in the journal itself */
    pthread_mutex_t lock;
    char *ring;
    size_t head, len;
    uint64_t n_dropped;
};

int journal_create(struct journal **out, size_t bytes)
{
    struct journal *j = mem_calloc(1, sizeof(*j));

    *out = NULL;
    if (j == NULL)
        return ERR_NOMEM;
    j->cap = bytes;
    j->ring = mem_alloc(bytes);
    j->line = mem_alloc(bytes);
    pthread_mutex_init(&j->lock, NULL);
    if (j->ring == NULL || j->line == NULL) {
        journal_destroy(&j);
        return ERR_NOMEM;
    }
    *out = j;
    return 0;
}

void journal_destroy(struct journal **j)
{
    if (j == NULL || *j == NULL)
        return;
    pthread_mutex_destroy(&(*j)->lock);
    mem_free((*j)->ring);
    mem_free((*j)->line);
    mem_free(*j);
    *j = NULL;
}

/* ---- composing: numbers and punctuation only, so nothing has to be escaped ---- */

static void put_journal(struct journal *j, const char *text, size_t n)
{
    if (j->line_len > j->cap || n > j->cap - j->line_len) {
        j->line_len = j->cap + 1;
        return;
    }
    memcpy(j->line + j->line_len, text, n);
    j->line_len += n;
}

static void put_journal_text(struct journal *j, const char *text)
{
    put_journal(j, text, strlen(text));
}

static void put_member_number(struct journal *j, uint64_t v, uint32_t base)
{
    char digits[24];
    size_t at = sizeof(digits);

    do {
        digits[--at] = "0123456789abcdef"[v % base];
        v /= base;
    } while (v > 0);
    put_journal(j, digits + at, sizeof(digits) - at);
}

static void put_signed(struct journal *j, int64_t v)
{
    if (v < 0)
        put_journal_text(j, "-");
    put_member_number(j, v < 0 ? -(uint64_t)v : (uint64_t)v, 10);
}

static void put_key(struct journal *j, const char *name)
{
    put_journal_text(j, ",\"");
    put_journal_text(j, name);
    put_journal_text(j, "\":");
}

static void put_value(struct journal *j, const char *name, uint64_t v)
{
    put_key(j, name);
    put_member_number(j, v, 10);
}

static void put_nonzero(struct journal *j, const char *name, uint64_t v)
{
    if (v != 0)
        put_value(j, name, v);
}

static void put_tokens(struct journal *j, const char *name, const int32_t *tokens, size_t n)
{
    put_key(j, name);
    for (size_t i = 0; i < n; i++) {
        put_journal_text(j, i > 0 ? "," : "[");
        put_signed(j, tokens[i]);
    }
    put_journal_text(j, n > 0 ? "]" : "[]");
}

static void put_numbers(struct journal *j, const char *name, const uint64_t *v, size_t n)
{
    put_key(j, name);
    for (size_t i = 0; i < n; i++) {
        put_journal_text(j, i > 0 ? "," : "[");
        put_member_number(j, v[i], 10);
    }
    put_journal_text(j, n > 0 ? "]" : "[]");
}

/* Begin a line with {"kind":value, after a line that notes dropped ones. */
static void begin_record(struct journal *j, const char *kind, uint64_t value)
{
    j->line_len = 0;
    if (j->n_missing > 0) {
        put_journal_text(j, "{\"dropped\":");
        put_member_number(j, j->n_missing, 10);
        put_journal_text(j, "}\n");
    }
    put_journal_text(j, "{\"");
    put_journal_text(j, kind);
    put_journal_text(j, "\":");
    put_member_number(j, value, 10);
}

static void append_line(struct journal *j)
{
    const size_t tail = (j->head + j->len) % j->cap;
    const size_t first = j->line_len < j->cap - tail ? j->line_len : j->cap - tail;

    memcpy(j->ring + tail, j->line, first);
    memcpy(j->ring, j->line + first, j->line_len - first);
    j->len += j->line_len;
}

static void end_record(struct journal *j)
{
    put_journal_text(j, "}\n");
    pthread_mutex_lock(&j->lock);
    if (j->line_len <= j->cap - j->len) {
        append_line(j);
        j->n_missing = 0;
    } else {
        j->n_missing++;
        j->n_dropped++;
    }
    pthread_mutex_unlock(&j->lock);
}

void journal_gap(struct journal *j)
{
    if (j == NULL)
        return;
    pthread_mutex_lock(&j->lock);
    j->n_missing++;
    j->n_dropped++;
    pthread_mutex_unlock(&j->lock);
}

/* ---- the lines ---- */

static void put_sched(struct journal *j, const struct sched_options *o)
{
    put_journal_text(j, ",\"sched\":{\"policy\":");
    put_member_number(j, o->policy, 10);
    put_value(j, "preemption", o->preemption);
    put_value(j, "aging_milli", o->aging_milli);
    put_value(j, "max_wait_ms", o->max_wait_ms);
    put_value(j, "max_preemptions", o->max_preemptions);
    put_value(j, "max_tenants", o->max_tenants);
    put_value(j, "max_sequences", o->max_sequences);
    put_value(j, "max_requests", o->max_requests);
    put_value(j, "max_context", o->max_context);
    put_value(j, "max_batch_tokens", o->max_batch_tokens);
    put_value(j, "prefill_chunk", o->prefill_chunk);
    put_value(j, "whole_prompts", o->whole_prompts);
    put_nonzero(j, "store_blocks", o->store_blocks);
    put_nonzero(j, "store_wait_ms", o->store_wait_ms);
    put_journal_text(j, "}");
}

static void put_kv(struct journal *j, const struct kv_manager_options *o)
{
    put_journal_text(j, ",\"kv\":{\"n_blocks\":");
    put_member_number(j, o->n_blocks, 10);
    put_value(j, "placement", o->placement);
    put_value(j, "prefix_cache", o->prefix_cache);
    put_value(j, "n_ram", o->n_ram);
    put_value(j, "n_file", o->n_file);
    put_value(j, "max_sequences", o->max_sequences);
    put_value(j, "max_table", o->max_table);
    put_value(j, "lanes", kv_groups_n(&o->groups));
    put_value(j, "window_lanes", o->groups.n_window);
    put_value(j, "window", o->groups.window);
    put_value(j, "state_slots", o->states.n_slots);
    put_value(j, "state_interval", o->states.interval);
    put_value(j, "state_parts", o->states.n_parts);
    put_value(j, "state_alone", o->states.is_alone);
    put_value(j, "max_chunk", o->max_chunk);
    put_value(j, "low_percent", o->low_percent);
    put_value(j, "critical_percent", o->critical_percent);
    put_nonzero(j, "pin_most", o->pins.most_blocks);
    put_nonzero(j, "pin_tenant", o->pins.tenant_blocks);
    put_nonzero(j, "pin_tenants", o->pins.n_tenants);
    put_nonzero(j, "pin_states", o->pins.most_states);
    put_journal_text(j, "}");
}

void journal_start(struct journal *j, const struct sched_options *sched,
                   const struct kv_manager_options *kv, const int32_t *eog, size_t n_eog,
                   uint64_t unix_us)
{
    if (j == NULL)
        return;
    begin_record(j, "start", 1);
    put_nonzero(j, "unix", unix_us);
    put_sched(j, sched);
    put_kv(j, kv);
    put_tokens(j, "eog", eog, n_eog);
    end_record(j);
}

static void put_pins(struct journal *j, const struct request *r)
{
    for (uint32_t i = 0; i < r->n_pins; i++) {
        put_journal_text(j, i > 0 ? ",[" : ",\"pins\":[[");
        put_member_number(j, r->pins[i].n_tokens, 10);
        put_journal_text(j, ",");
        put_member_number(j, r->pins[i].ttl_us, 10);
        put_journal_text(j, "]");
    }
    if (r->n_pins > 0)
        put_journal_text(j, "]");
}

void journal_post(struct journal *j, const struct request *r, uint64_t now_us)
{
    if (j == NULL)
        return;
    assert(!r->is_dry_run);
    begin_record(j, "post", r->id);
    put_value(j, "now", now_us);
    put_value(j, "arrival", r->arrival_us);
    put_nonzero(j, "deadline", r->deadline_us);
    put_nonzero(j, "first_by", r->first_by_us);
    put_nonzero(j, "timeout", r->timeout_us);
    put_nonzero(j, "queue_until", r->queue_until_us);
    put_nonzero(j, "leader", r->prefix_owner);
    put_value(j, "priority", r->priority);
    put_nonzero(j, "tenant", r->tenant);
    put_value(j, "weight", r->weight);
    put_journal_text(j, ",\"salt\":\""); /* a string, because many JSON readers have no 64-bit
                                          * integers */
    put_member_number(j, r->key.salt, 16);
    put_journal_text(j, "\"");
    put_nonzero(j, "max_tokens", r->max_tokens - r->n_resumed);
    if (request_may_shift(r)) {
        put_value(j, "max_known", r->max_known);
        put_nonzero(j, "n_keep", r->n_keep);
        put_value(j, "n_discard", r->n_discard);
    }
    put_nonzero(j, "min_tokens",
                r->min_tokens > r->n_resumed ? r->min_tokens - r->n_resumed : 0);
    put_nonzero(j, "ignore_eos", r->ignore_eos);
    put_nonzero(j, "score_prompt", request_wants_rows(r));
    put_nonzero(j, "rows_from", r->rows_from);
    put_nonzero(j, "asks_store", r->asks_store);
    if (r->n_stop_ids > 0)
        put_tokens(j, "stop", r->stop_ids, r->n_stop_ids);
    put_pins(j, r);
    put_tokens(j, "prompt", r->ids, request_n_given(r)); /* the scheduler treats prompt and resumed
                                                          * tokens the same */
    end_record(j);
}

void journal_cancel(struct journal *j, uint64_t id, enum finish why, uint64_t now_us)
{
    if (j == NULL)
        return;
    begin_record(j, "cancel", id);
    put_value(j, "why", why);
    put_value(j, "now", now_us);
    end_record(j);
}

void journal_cancel_all(struct journal *j, enum finish why, uint64_t now_us)
{
    if (j == NULL)
        return;
    begin_record(j, "cancel_all", why);
    put_value(j, "now", now_us);
    end_record(j);
}

static void put_limits(struct journal *j, const struct sched_limits *l)
{
    const struct step_costs *c = &l->costs;
    const uint64_t costs[] = {c->is_known,     c->step_ns,       c->prefill_ns, c->decode_ns,
                              c->kv_decode_ps, c->kv_prefill_ps, c->swap_ns,    c->file_ns,
                              c->fetch_ns,     c->fetch_delay_ns};

    put_value(j, "target", l->target_us);
    if (l->is_shared)
        put_value(j, "shared", 1);
    put_numbers(j, "costs", costs, c->fetch_ns > 0 || c->fetch_delay_ns > 0 ? 10 : 8);
}

static void put_items(struct journal *j, const struct plan *p)
{
    put_key(j, "items");
    for (uint32_t i = 0; i < p->n_items; i++) {
        const struct plan_item *item = &p->items[i];

        put_journal_text(j, i > 0 ? ",[" : "[[");
        put_member_number(j, item->request->id, 10);
        put_journal_text(j, ",");
        put_member_number(j, item->first, 10);
        put_journal_text(j, ",");
        put_member_number(j, item->n, 10);
        put_journal_text(j, item->wants_token ? ",1]" : ",0]");
    }
    put_journal_text(j, p->n_items > 0 ? "]" : "[]");
}

static void put_drafts(struct journal *j, const struct plan *p)
{
    bool any = false;

    if (p->n_drafts == 0)
        return;
    put_key(j, "drafts");
    for (uint32_t i = 0; i < p->n_items; i++) {
        const struct plan_item *item = &p->items[i];
        const int32_t *ids = item->request->ids + item->first + item->n - item->n_drafts;

        if (item->n_drafts == 0)
            continue;
        put_journal_text(j, any ? ",[" : "[[");
        put_member_number(j, item->request->id, 10);
        for (uint32_t k = 0; k < item->n_drafts; k++) {
            put_journal_text(j, ",");
            put_signed(j, ids[k]);
        }
        put_journal_text(j, "]");
        any = true;
    }
    put_journal_text(j, "]");
}

static void put_accepted(struct journal *j, const struct plan *p, const uint32_t *n_accepted)
{
    bool any = false;

    if (p->n_drafts == 0)
        return;
    put_key(j, "accepted");
    for (uint32_t i = 0; i < p->n_items; i++) {
        if (p->items[i].n_drafts == 0)
            continue;
        put_journal_text(j, any ? "," : "[");
        put_member_number(j, n_accepted[i], 10);
        any = true;
    }
    put_journal_text(j, "]");
}

void journal_plan(struct journal *j, const struct plan *p, uint64_t now_us,
                  const struct sched_limits *limits)
{
    if (j == NULL)
        return;
    begin_record(j, "plan", p->step);
    put_value(j, "now", now_us);
    put_limits(j, limits);
    put_items(j, p);
    put_drafts(j, p);
    put_numbers(j, "admitted", p->admitted, p->n_admitted);
    put_numbers(j, "preempted", p->preempted, p->n_preempted);
    put_numbers(j, "swapped_out", p->swapped_out, p->n_swapped_out);
    put_numbers(j, "swapped_in", p->swapped_in, p->n_swapped_in);
    put_value(j, "moves", p->n_moves);
    end_record(j);
}

void journal_moves_done(struct journal *j)
{
    if (j == NULL)
        return;
    begin_record(j, "moves_done", 1);
    end_record(j);
}

void journal_io_start(struct journal *j, const struct swap_io *io)
{
    if (j == NULL)
        return;
    begin_record(j, "io_start", io->copy);
    put_value(j, "write", io->is_write);
    put_value(j, "n", io->n);
    end_record(j);
}

void journal_io_done(struct journal *j, uint32_t copy, int rc)
{
    if (j == NULL)
        return;
    begin_record(j, "io_done", copy);
    put_key(j, "rc");
    put_signed(j, rc);
    end_record(j);
}

void journal_stored(struct journal *j, uint64_t id, uint32_t n_blocks)
{
    if (j == NULL)
        return;
    begin_record(j, "stored", id);
    put_value(j, "n", n_blocks);
    end_record(j);
}

void journal_fetch(struct journal *j, const struct sched_fetch *fetch)
{
    if (j == NULL)
        return;
    begin_record(j, "fetch", fetch->request);
    put_value(j, "first", fetch->first);
    put_value(j, "n", fetch->n);
    end_record(j);
}

void journal_fetched(struct journal *j, uint64_t id, uint32_t first, uint32_t n, bool is_last)
{
    if (j == NULL)
        return;
    begin_record(j, "fetched", id);
    put_value(j, "first", first);
    put_value(j, "n", n);
    put_value(j, "last", is_last);
    end_record(j);
}

void journal_commit(struct journal *j, const struct plan *p, const int32_t *tokens,
                    const uint32_t *n_accepted, uint64_t now_us)
{
    bool any = false;

    if (j == NULL)
        return;
    begin_record(j, "commit", p->step);
    put_value(j, "now", now_us);
    put_key(j, "tokens");
    for (uint32_t i = 0; i < p->n_items; i++) {
        if (!p->items[i].wants_token)
            continue;
        put_journal_text(j, any ? "," : "[");
        put_signed(j, tokens[i]);
        any = true;
    }
    put_journal_text(j, any ? "]" : "[]");
    put_accepted(j, p, n_accepted);
    end_record(j);
}

/* ---- the thread that writes the journal ---- */

size_t journal_take(struct journal *j, char *out, size_t n)
{
    size_t first;

    pthread_mutex_lock(&j->lock);
    if (n > j->len)
        n = j->len;
    first = n < j->cap - j->head ? n : j->cap - j->head;
    memcpy(out, j->ring + j->head, first);
    memcpy(out + first, j->ring, n - first);
    j->head = (j->head + n) % j->cap;
    j->len -= n;
    pthread_mutex_unlock(&j->lock);
    return n;
}

uint64_t journal_n_dropped(struct journal *j)
{
    uint64_t n;

    pthread_mutex_lock(&j->lock);
    n = j->n_dropped;
    pthread_mutex_unlock(&j->lock);
    return n;
}
