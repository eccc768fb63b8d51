/* scheduler/sequence.c - see sequence.h.
 *
 * Sequences live in one fixed array; unused ones are in a free list, and a chained hash table finds
 * one by its request's id. seq_set_state() asserts that a change of state is an edge of the drawing
 * in sequence.h. The time accounts are derived from a few timestamps when a request ends, so that a
 * step only ever adds to counters.
 */
#include "scheduler/sequence.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <assert.h>
#include <string.h>

static bool is_legal_edge(enum seq_state from, enum seq_state to)
{
    switch (from) {
    case SEQ_NONE:
        return to == SEQ_PENDING;
    case SEQ_PENDING:
        return to == SEQ_RUNNING || to == SEQ_CANCELLED || to == SEQ_FAILED;
    case SEQ_RUNNING:
        return to == SEQ_PREEMPTED || to == SEQ_COMPLETED || to == SEQ_CANCELLED ||
               to == SEQ_FAILED;
    case SEQ_PREEMPTED:
        return to == SEQ_RUNNING || to == SEQ_CANCELLED || to == SEQ_FAILED;
    case SEQ_COMPLETED:
    case SEQ_CANCELLED:
    case SEQ_FAILED:
        return to == SEQ_NONE;
    }
    return false;
}

void seq_set_state(struct seq *s, enum seq_state state)
{
    const bool is_legal = is_legal_edge(s->state, state);

    assert(is_legal);
    (void)is_legal;
    s->state = state;
}

void seq_append(struct seq *s, int32_t token)
{
    struct request *r = s->request;

    r->ids[s->n_known++] = token;
    if (r->counts.list != NULL)
        token_counts_at(&r->counts, token)->n_generated++;
}

void seq_count_ids(struct seq *s)
{
    struct request *r = s->request;

    if (r->counts.list == NULL)
        return;
    for (uint32_t i = 0; i < s->n_known; i++) {
        struct token_count *count = token_counts_at(&r->counts, r->ids[i]);

        if (i < s->n_prompt_left)
            count->n_prompt++;
        else
            count->n_generated++;
    }
}

/* Count the ids among the first n that are in the discarded range. */
static uint32_t n_lost(const struct request *r, uint32_t n)
{
    const uint32_t behind = n > r->n_keep ? n - r->n_keep : 0;

    return behind < r->n_discard ? behind : r->n_discard;
}

void seq_shift(struct seq *s)
{
    struct request *r = s->request;
    const uint32_t from = r->n_keep + r->n_discard;

    assert(s->n_known == r->max_known && from < s->n_known && s->kv.table.n == 0);
    memmove(r->ids + r->n_keep, r->ids + from, (s->n_known - from) * sizeof(*r->ids));
    s->n_prompt_left -= n_lost(r, s->n_prompt_left);
    s->n_known -= r->n_discard;
    s->n_discarded += r->n_discard;
    s->n_done = 0;
    s->n_peak = s->n_known - 1;
    if (r->key.n_hashed > r->n_keep / BLOCK_TOKENS)
        r->key.n_hashed = r->n_keep / BLOCK_TOKENS;
    token_lookup_clear(&r->lookup);
    r->lookup_distance = 0;
    r->history = (struct history_place){0};
    if (r->counts.list != NULL)
        token_counts_clear(&r->counts);
    seq_count_ids(s);
}

void seq_end_preemption(struct seq *s, uint64_t now_us)
{
    const uint64_t away = now_us - s->preempted_at_us;

    if (s->first_token_us == 0)
        s->preempted_before_us += away;
    else
        s->preempted_after_us += away;
    if (s->kv.swap != SWAP_NONE)
        s->swapped_us += away;
}

struct event_times seq_times(const struct seq *s, uint64_t now_us)
{
    const uint64_t arrival = s->request->arrival_us;
    const uint64_t started = s->started_us != 0 ? s->started_us : now_us;
    const uint64_t first = s->first_token_us != 0 ? s->first_token_us : now_us;
    /* The prompt's last token is never cached; tokens of a continued answer may be. */
    const uint32_t n_last = s->request->n_prompt - 1;

    return (struct event_times){
        .queue_us = started - arrival,
        .prefill_us = first - started - s->preempted_before_us,
        .decode_us = now_us - first - s->preempted_after_us,
        .preempted_us = s->preempted_before_us + s->preempted_after_us,
        .swapped_us = s->swapped_us,
        .n_preempted = s->n_preempted,
        .n_cached = s->n_cached < n_last ? s->n_cached : n_last,
        .n_drafted = s->n_drafted,
        .n_accepted = s->n_accepted,
    };
}

int seq_set_create(struct seq_set *set, uint32_t cap)
{
    *set = (struct seq_set){.cap = cap, .n_bucket = 16};
    while (set->n_bucket < cap)
        set->n_bucket *= 2;
    set->all = mem_calloc(cap, sizeof(*set->all));
    set->bucket = mem_calloc(set->n_bucket, sizeof(struct seq *));
    if (set->all == NULL || set->bucket == NULL) {
        seq_set_release(set);
        return ERR_NOMEM;
    }
    return 0;
}

void seq_set_release(struct seq_set *set)
{
    for (uint32_t i = 0; set->all != NULL && i < set->n_fresh; i++)
        request_destroy(&set->all[i].request);
    mem_free(set->all);
    mem_free(set->bucket);
    *set = (struct seq_set){0};
}

/* Return the chain of an id. Ids count upwards, so their low bits spread well. */
static struct seq **seq_bucket(const struct seq_set *set, uint64_t id)
{
    return &set->bucket[id & (set->n_bucket - 1)];
}

struct seq *seq_set_take(struct seq_set *set, struct request *r)
{
    struct seq *s = set->free;
    struct seq **bucket;

    if (s == NULL && set->n_fresh == set->cap)
        return NULL;
    if (s == NULL)
        s = &set->all[set->n_fresh++];
    else
        set->free = s->hash_next;
    set->n++;
    bucket = seq_bucket(set, r->id);
    *s = (struct seq){
        .request = r,
        .n_known = request_n_given(r),
        .n_prompt_left = r->n_prompt,
        .slot = SEQ_NO_SLOT,
        .item = SEQ_NO_ITEM,
        .kv = {.swap = SWAP_NONE},
        .hash_next = *bucket,
    };
    *bucket = s;
    return s;
}

void seq_set_give(struct seq_set *set, struct seq *s)
{
    struct seq **link = seq_bucket(set, s->request->id);

    while (*link != s)
        link = &(*link)->hash_next;
    *link = s->hash_next;
    *s = (struct seq){.hash_next = set->free};
    set->free = s;
    set->n--;
}

struct seq *seq_set_find(const struct seq_set *set, uint64_t id)
{
    struct seq *s = *seq_bucket(set, id);

    while (s != NULL && s->request->id != id)
        s = s->hash_next;
    return s;
}
