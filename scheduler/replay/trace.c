/* scheduler/replay/trace.c - see trace.h.
 *
 * replay.c calls these as it reads a journal's posts, tokens and ends. A hash table with open
 * addressing finds a request by its id, and keeps a hash of its prompt to check that parallel
 * choices really share it. n_output starts as "runs to max_tokens" and is set when the request's
 * end is seen.
 */
#include "scheduler/replay/trace.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <string.h>

struct trace_entry {
    uint64_t id;   /* 0 = empty */
    size_t i;      /* index of its arrival */
    uint64_t hash; /* hash of its prompt */
};

struct trace_output { /* generated tokens; ids only when they are kept */
    uint32_t n, cap;
    int32_t *ids;
};

void trace_release(struct trace *t)
{
    for (size_t i = 0; i < t->n; i++) {
        mem_free((void *)t->arrivals[i].prompt);
        mem_free(t->outputs[i].ids);
    }
    mem_free(t->arrivals);
    mem_free(t->outputs);
    mem_free(t->entries);
    *t = (struct trace){.keep_tokens = t->keep_tokens};
}

/* ---- by id ---- */

static struct trace_entry *trace_slot(const struct trace *t, uint64_t id)
{
    size_t i = (size_t)(id * 0x9e3779b97f4a7c15u >> 20) & (t->n_slots - 1);

    while (t->entries[i].id != 0 && t->entries[i].id != id)
        i = (i + 1) & (t->n_slots - 1);
    return &t->entries[i];
}

bool trace_has(const struct trace *t, uint64_t id)
{
    return t->n_slots > 0 && trace_slot(t, id)->id == id;
}

static int grow_entries(struct trace *t)
{
    struct trace larger = *t;

    larger.n_slots = t->n_slots > 0 ? 2 * t->n_slots : 256;
    larger.entries = mem_calloc(larger.n_slots, sizeof(*larger.entries));
    if (larger.entries == NULL)
        return ERR_NOMEM;
    for (size_t i = 0; i < t->n_slots; i++)
        if (t->entries[i].id != 0)
            *trace_slot(&larger, t->entries[i].id) = t->entries[i];
    mem_free(t->entries);
    t->entries = larger.entries;
    t->n_slots = larger.n_slots;
    return 0;
}

static int grow_arrivals(struct trace *t)
{
    const size_t cap = t->cap > 0 ? 2 * t->cap : 256;
    void *p = mem_realloc(t->arrivals, cap * sizeof(*t->arrivals));

    if (p == NULL)
        return ERR_NOMEM;
    t->arrivals = p;
    p = mem_realloc(t->outputs, cap * sizeof(*t->outputs));
    if (p == NULL)
        return ERR_NOMEM;
    t->outputs = p;
    t->cap = cap;
    return 0;
}

/* Hash the tokens by FNV-1a, which suffices to notice an edited journal. */
static uint64_t hash_prompt(const struct request *r)
{
    uint64_t h = 14695981039346656037u;

    for (uint32_t i = 0; i < r->n_prompt; i++)
        h = (h ^ (uint32_t)r->ids[i]) * 1099511628211u;
    return h;
}

bool trace_follows_an_equal(const struct trace *t, const struct request *r)
{
    const struct simulate_arrival *prefix_owner;

    if (r->prefix_owner == 0 || !trace_has(t, r->prefix_owner))
        return true;
    prefix_owner = &t->arrivals[trace_slot(t, r->prefix_owner)->i];
    return prefix_owner->n_prompt == r->n_prompt && prefix_owner->salt == r->key.salt &&
           trace_slot(t, r->prefix_owner)->hash == hash_prompt(r);
}

/* ---- posts, tokens, ends ---- */

/* Make the arrival of a request; until its end is seen it is assumed to generate max_tokens. */
static struct simulate_arrival arrival_of(const struct trace *t, const struct request *r)
{
    struct simulate_arrival a = {
        .at_us = r->arrival_us,
        .n_prompt = r->n_prompt,
        .max_tokens = r->max_tokens,
        .max_known = r->max_known,
        .n_keep = r->n_keep,
        .n_discard = r->n_discard,
        .n_output = r->max_tokens,
        .seed = r->id,
        .priority = r->priority,
        .tenant = r->tenant,
        .weight = r->weight,
        .salt = r->key.salt,
        .deadline_us = r->deadline_us,
        .first_by_us = r->first_by_us,
        .queue_until_us = r->queue_until_us,
        .prefix_owner = r->prefix_owner != 0 && trace_has(t, r->prefix_owner)
                            ? trace_slot(t, r->prefix_owner)->i + 1
                            : 0,
        .score_prompt = r->score_prompt,
        .n_pins = r->n_pins,
        .rows_from = r->rows_from,
    };

    memcpy(a.pins, r->pins, sizeof(a.pins));
    return a;
}

int trace_add(struct trace *t, const struct request *r)
{
    int32_t *prompt = NULL;

    if (2 * t->n >= t->n_slots && grow_entries(t) < 0)
        return ERR_NOMEM;
    if (t->n == t->cap && grow_arrivals(t) < 0)
        return ERR_NOMEM;
    if (t->keep_tokens) {
        prompt = mem_dup(r->ids, r->n_prompt * sizeof(*r->ids));
        if (prompt == NULL)
            return ERR_NOMEM;
    }
    t->outputs[t->n] = (struct trace_output){0};
    t->arrivals[t->n] = arrival_of(t, r);
    t->arrivals[t->n].prompt = prompt;
    *trace_slot(t, r->id) = (struct trace_entry){.id = r->id, .i = t->n, .hash = hash_prompt(r)};
    t->n++;
    return 0;
}

int trace_add_token(struct trace *t, uint64_t id, int32_t token)
{
    struct trace_output *o = &t->outputs[trace_slot(t, id)->i];
    const uint32_t cap = o->cap > 0 ? 2 * o->cap : 16;

    if (t->keep_tokens && o->n == o->cap) {
        int32_t *ids = mem_realloc(o->ids, cap * sizeof(*ids));

        if (ids == NULL)
            return ERR_NOMEM;
        o->ids = ids;
        o->cap = cap;
    }
    if (t->keep_tokens)
        o->ids[o->n] = token;
    o->n++;
    return 0;
}

void trace_end(struct trace *t, uint64_t id, enum finish finish, uint64_t now_us)
{
    const size_t i = trace_slot(t, id)->i;

    if (finish == FINISH_STOP || finish == FINISH_LENGTH ||
        (finish == FINISH_CANCELLED && t->outputs[i].n > 0))
        t->arrivals[i].n_output = t->outputs[i].n;
    else if (finish == FINISH_CANCELLED)
        t->arrivals[i].leave_us = now_us;
}

const struct simulate_arrival *trace_arrivals(struct trace *t)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct trace_output *o = &t->outputs[i];

        t->arrivals[i].output = o->n == t->arrivals[i].n_output ? o->ids : NULL;
    }
    return t->arrivals;
}
