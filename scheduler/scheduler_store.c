/* scheduler/scheduler_store.c - prompts whose beginning may be in the block store: they are held
 * back until the store has answered and, if reading is cheaper than computing, until the blocks
 * were read; see scheduler.h.
 *
 * A held sequence goes from STORE_ASKED over STORE_FOUND to STORE_READING and is released into the
 * waiting order from any of them: when the store has nothing useful, when the last part was read,
 * or when its time is over. The answers arrive between two steps; sched_plan_store() decides in the
 * next plan. The scheduler talks to the store only through the ring of sched_fetch, which
 * engine_loop.c empties, so the same calls give the same plans in a replay.
 */
#include "scheduler/scheduler_impl.h"

#include <string.h>

#define MOST_READING 4 /* requests whose blocks are read at a time; other requests wait, because one
                        * of these reads may bring the blocks that they need */

/* ---- sequences held back for the store ---- */

/* Order blocks of a request from the store; n 0: the request has ended or needs no more. Called at
 * most twice for each request; see sched_create(). */
static void tell_store(struct sched *s, const struct seq *seq, uint32_t first, uint32_t n)
{
    if (s->n_fetches == s->max_fetches) /* the ring is full because nothing empties it: a replay of
                                         * an edited journal */
        return;
    s->fetches[(s->fetch_head + s->n_fetches++) % s->max_fetches] =
        (struct sched_fetch){.request = seq->request->id, .first = first, .n = n};
}

bool sched_hold_for_store(struct sched *s, struct seq *seq)
{
    const struct request *r = seq->request;
    const uint32_t each = s->opt.store_blocks;

    if (each == 0 || !r->asks_store || request_needs_rows(r))
        return false;
    if (kv_manager_match(s->kv, &r->key, r->n_prompt - 1).n_blocks + each >
        r->n_prompt / BLOCK_TOKENS) {
        tell_store(s, seq, 0, 0);
        return false; /* fewer blocks are missing than a record has */
    }
    seq->store = STORE_ASKED;
    seq->store_until_us = s->now_us + (uint64_t)s->opt.store_wait_ms * 1000;
    list_push_back(&s->held_for_store, &seq->store_link);
    s->tenants[r->tenant].n_held_back++;
    return true;
}

void sched_leave_store(struct sched *s, struct seq *seq)
{
    s->n_reading -= seq->store == STORE_READING;
    seq->store = STORE_NONE;
    list_unlink(&seq->store_link);
    s->tenants[seq->request->tenant].n_held_back--;
}

/* Put the sequence back into the waiting order; it was counted as waiting all the time. */
static void release(struct sched *s, struct seq *seq)
{
    sched_leave_store(s, seq);
    order_insert(&s->tenants[seq->request->tenant].waiting, &seq->node);
}

void sched_end_in_store(struct sched *s, struct seq *seq)
{
    sched_leave_store(s, seq);
    tell_store(s, seq, 0, 0);
}

/* ---- is reading cheaper? ---- */

/* True: reading blocks first .. first + n - 1 is faster than computing them. */
static bool is_cheaper(const struct step_costs *c, uint32_t first, uint32_t n)
{
    const uint64_t read = c->fetch_delay_ns + n * c->fetch_ns;

    return !c->is_known ||
           read < step_costs_chunk_ns(c, first * BLOCK_TOKENS, n * BLOCK_TOKENS);
}

/* True: another sequence is reading the record with which this one would begin. */
static bool is_being_read(const struct sched *s, const struct seq *seq, uint32_t first)
{
    const uint32_t last = first + s->opt.store_blocks - 1;

    list_each(link, &s->held_for_store) {
        const struct seq *other = list_entry(link, struct seq, store_link);

        if (other->store == STORE_READING && other->n_stored > last &&
            memcmp(&other->request->key.hashes[last], &seq->request->key.hashes[last],
                   sizeof(struct prefix_hash)) == 0)
            return true;
    }
    return false;
}

/* Called when the store has the first n_stored blocks: read those that the cache lacks, wait, or
 * continue without the store. */
static void decide(struct sched *s, struct seq *seq)
{
    const uint32_t each = s->opt.store_blocks;
    const uint32_t there =
        kv_manager_match(s->kv, &seq->request->key, seq->request->n_prompt - 1).n_blocks;
    const uint32_t first = there / each * each;
    const uint32_t n = seq->n_stored > first ? seq->n_stored - first : 0;

    if (n == 0 || seq->n_stored <= there || !is_cheaper(&s->limits->costs, there, n)) {
        s->store_declined += n > 0 && seq->n_stored > there;
        tell_store(s, seq, 0, 0);
        release(s, seq);
    } else if (s->n_reading < MOST_READING && !is_being_read(s, seq, first)) {
        seq->store = STORE_READING;
        s->n_reading++;
        tell_store(s, seq, first, n);
    }
}

void sched_plan_store(struct sched *s)
{
    list_each(link, &s->held_for_store) {
        struct seq *seq = list_entry(link, struct seq, store_link);

        if (seq->store_until_us <= s->now_us) {
            s->store_timeouts++;
            tell_store(s, seq, 0, 0);
            release(s, seq);
        } else if (seq->store == STORE_FOUND) {
            decide(s, seq);
        }
    }
}

/* ---- the store's answers ---- */

static struct seq *find_held(const struct sched *s, uint64_t id, enum store_step step)
{
    struct seq *seq = s->opt.store_blocks > 0 ? seq_set_find(&s->set, id) : NULL;

    return seq != NULL && seq->store == step ? seq : NULL;
}

void sched_stored(struct sched *s, uint64_t id, uint32_t n_blocks)
{
    struct seq *seq = find_held(s, id, STORE_ASKED);

    if (seq == NULL)
        return;
    seq->n_stored = sched_min(n_blocks, seq->request->n_prompt / BLOCK_TOKENS);
    seq->store = STORE_FOUND;
}

uint32_t sched_fetched(struct sched *s, uint64_t id, uint32_t first, uint32_t n, bool is_last,
                       uint32_t *from, const block_id **ids)
{
    struct seq *seq = find_held(s, id, STORE_READING);
    uint32_t n_new = 0;

    if (seq == NULL || first > seq->n_stored || n > seq->n_stored - first)
        return 0;
    if (n > 0)
        n_new = kv_manager_enter(s->kv, &seq->request->key, first, n, from, ids);
    s->fetched_blocks += n_new;
    if (is_last)
        release(s, seq);
    return n_new;
}

bool sched_next_fetch(struct sched *s, struct sched_fetch *out)
{
    if (s->n_fetches == 0)
        return false;
    *out = s->fetches[s->fetch_head];
    s->fetch_head = (s->fetch_head + 1) % s->max_fetches;
    s->n_fetches--;
    return true;
}

bool sched_waits_for_store(const struct sched *s)
{
    return !list_is_empty(&s->held_for_store);
}
