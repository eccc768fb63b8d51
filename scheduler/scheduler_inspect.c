/* scheduler/scheduler_inspect.c - dry runs, statistics, snapshots for /debug, and sched_check().
 *
 * All of it only reads struct sched, on the engine thread between two steps. Statistics are
 * published after every step and must be cheap: counters kept elsewhere and one walk over the
 * running sequences. Snapshots walk everything, but only when a client asks. sched_check() is
 * called after every step in debug builds: it recounts lists, holders and blocks from the sequences
 * themselves.
 */
#include "scheduler/scheduler_impl.h"

#include <string.h>

/* ---- a request's outlook ---- */

struct event_probe sched_probe(const struct sched *s, struct request *r)
{
    const struct order_key key = sched_key(s, r, s->next_ticket);
    const struct tenant *own = &s->tenants[r->tenant];
    struct event_probe probe = {0};
    uint32_t rank = order_rank(&own->waiting, &key) + own->n_held_back;

    kv_key_extend(&r->key, r->n_prompt);
    if (!s->opt.whole_prompts && !request_wants_rows(r))
        probe.n_cached = kv_manager_match(s->kv, &r->key, request_may_reuse(r)).n_tokens;
    probe.n_blocks = kv_manager_needed(s->kv, r->max_known);
    probe.n_ahead = rank;
    for (uint32_t i = 0; i < s->n_tenants; i++) /* tenants are served in turn */
        if (&s->tenants[i] != own)
            probe.n_ahead += sched_min(order_n(&s->tenants[i].waiting), rank + 1);
    return probe;
}

/* ---- statistics ---- */

static void fill_kv(const struct sched *s, struct engine_stats *out)
{
    const struct kv_manager_stats kv = kv_manager_stats(s->kv);

    out->groups = kv.groups;
    out->max_chunk = s->opt.prefill_chunk;
    out->blocks_total = kv.pool.n_blocks;
    out->blocks_free = kv.pool.n_free;
    out->blocks_held = kv.pool.n_held;
    out->blocks_cached = kv.pool.n_cached;
    out->blocks_pinned = kv.pool.n_pinned;
    out->pressure = kv_manager_pressure(s->kv);
    out->prefix_queries = kv.query_tokens;
    out->prefix_hits = kv.hit_tokens;
    out->prefix_evictions = kv.pool.n_evicted;
    out->blocks_copied = kv.n_copied;
    out->swap = kv.swap;
    out->states = kv.states;
}

static void fill_running(const struct sched *s, struct engine_stats *out)
{
    out->running_prefill = out->running_left = 0;
    out->streams = (struct step_work){0};
    for (uint32_t i = 0; i < s->n_running; i++) {
        const struct seq *seq = s->running[i];
        const struct request *r = seq->request;

        out->running_prefill += seq_behind(seq) - 1;
        out->running_left += r->max_tokens - seq_n_generated(seq);
        if (seq_behind(seq) == 1) {
            out->streams.n_decode++;
            out->streams.kv_decode += seq->n_known;
        }
    }
}

void sched_fill_stats(const struct sched *s, struct engine_stats *out)
{
    out->n_running = s->n_running;
    out->n_preempted = s->n_preempted;
    out->n_swapped = kv_manager_stats(s->kv).swap.n_copies;
    memcpy(out->n_waiting, s->n_waiting, sizeof(out->n_waiting));
    memcpy(out->waiting_tokens, s->waiting_tokens, sizeof(out->waiting_tokens));
    fill_kv(s, out);
    fill_running(s, out);
    out->prompt_tokens = s->prompt_tokens;
    out->generation_tokens = s->generation_tokens;
    out->recomputed_tokens = s->recomputed_tokens;
    out->cached_tokens = s->cached_tokens;
    out->usage = s->usage;
    out->preemptions_recompute = s->preemptions;
    out->preemptions_swap = s->preemptions_swap;
    out->swap_fallbacks = s->swap_fallbacks;
    out->store_declined = s->store_declined;
    out->store_timeouts = s->store_timeouts;
    out->fetched_blocks = s->fetched_blocks;
    out->context_shifts = s->context_shifts;
    memcpy(out->drafts, s->drafts, sizeof(out->drafts));
    out->iterations = s->iterations;
}

/* ---- snapshots ---- */

static enum snapshot_state state_of(const struct seq *seq)
{
    if (seq->state == SEQ_RUNNING)
        return SNAPSHOT_RUNNING;
    if (seq->state == SEQ_PREEMPTED)
        return SNAPSHOT_PREEMPTED;
    return seq->prefix_owner != NULL ? SNAPSHOT_PREFIX_WAITING : SNAPSHOT_WAITING;
}

static void add_seq(const struct sched *s, const struct seq *seq, struct snapshot *out)
{
    const struct request *r = seq->request;
    const uint64_t now = out->now_us;

    if (out->n_seqs == out->max_seqs)
        return;
    out->seqs[out->n_seqs++] = (struct seq_info){
        .id = r->id,
        .state = state_of(seq),
        .priority = r->priority,
        .tenant = r->tenant,
        .n_prompt = r->n_prompt,
        .max_tokens = r->max_tokens,
        .n_known = seq->n_known,
        .n_discarded = seq->n_discarded,
        .n_done = seq->n_done,
        .n_cached = seq->n_cached,
        .n_drafted = seq->n_drafted,
        .n_accepted = seq->n_accepted,
        .n_blocks = kv_manager_n_mapped(s->kv, &seq->kv),
        .n_preempted = seq->n_preempted,
        .swap = seq->kv.swap == SWAP_NONE ? -1 : (int)kv_manager_where(s->kv, &seq->kv),
        .age_us = now > r->arrival_us ? now - r->arrival_us : 0,
        .waited_us = seq_times(seq, now > r->arrival_us ? now : r->arrival_us).queue_us,
        .deadline_in_us = r->deadline_us > now ? r->deadline_us - now : 0,
    };
}

static void add_tenant(const struct sched *s, uint32_t i, struct snapshot *out)
{
    const struct tenant *t = &s->tenants[i];
    const struct prefix_pins_tenant pins = kv_manager_pins_of(s->kv, i);

    if (t->weight == 0 || out->n_tenants == out->max_tenants)
        return;
    out->tenants[out->n_tenants++] = (struct tenant_info){
        .tenant = i,
        .weight = t->weight,
        .n_running = t->n_running,
        .n_waiting = order_n(&t->waiting) + t->n_held_back,
        .service = t->n_tokens,
        .n_pins = pins.n_pins,
        .n_pinned = pins.n_blocks,
        .pinned_for_us = pins.until_us > out->now_us && pins.n_pins > 0
                             ? pins.until_us - out->now_us
                             : 0,
    };
}

void sched_fill_snapshot(const struct sched *s, struct snapshot *out, uint64_t now_us)
{
    out->now_us = now_us;
    out->n_seqs = out->n_tenants = 0;
    for (uint32_t i = 0; i < s->n_running; i++)
        add_seq(s, s->running[i], out);
    for (uint32_t i = 0; i < s->n_tenants; i++) {
        const struct order *o = &s->tenants[i].waiting;

        add_tenant(s, i, out);
        for (struct seq *q = seq_at(order_first(o)); q != NULL;
             q = seq_at(order_next(o, &q->node.key)))
            add_seq(s, q, out);
    }
    for (uint32_t i = 0; i < s->set.n_fresh; i++)
        if (s->set.all[i].request != NULL &&
            (s->set.all[i].prefix_owner != NULL || s->set.all[i].store != STORE_NONE ||
             s->set.all[i].awaits_copy))
            add_seq(s, &s->set.all[i], out);
    out->pressure = kv_manager_pressure(s->kv);
    out->kv = kv_manager_stats(s->kv);
    kv_manager_kinds(s->kv, out->kinds);
    if (out->n_blocks == kv_manager_n_blocks(s->kv))
        kv_manager_map(s->kv, out->map);
    if (out->n_blocks == kv_manager_n_blocks(s->kv))
        out->n_hashes = kv_manager_hashes(s->kv, out->hashes);
}

/* ---- checks ---- */

static bool check_running(const struct sched *s)
{
    for (uint32_t i = 0; i < s->n_running; i++) {
        const struct seq *seq = s->running[i];

        if (seq->state != SEQ_RUNNING || seq->n_done > seq->n_known ||
            seq->n_known > seq->request->max_known || seq->kv.swap != SWAP_NONE ||
            block_table_missing(&seq->kv.table, seq->n_done) > 0 ||
            (i > 0 && sched_runs_before(s, seq, s->running[i - 1])))
            return false;
    }
    return true;
}

/* Count the lists of held back sequences that it is in. */
static int n_holds(const struct seq *seq)
{
    return (seq->prefix_owner != NULL) + (seq->store != STORE_NONE) + seq->awaits_copy;
}

/* Check that a waiting sequence has no blocks, and has computed tokens only if it has a swapped
 * copy. */
static bool check_waiting(const struct sched *s, uint32_t *n_waiting, uint32_t *n_preempted)
{
    for (uint32_t i = 0; i < s->set.n_fresh; i++) {
        const struct seq *seq = &s->set.all[i];

        if (seq->request == NULL || seq->state == SEQ_RUNNING)
            continue;
        if ((seq->state != SEQ_PENDING && seq->state != SEQ_PREEMPTED) ||
            seq->slot != SEQ_NO_SLOT || seq->kv.table.n != 0 ||
            (seq->n_done > 0) != (seq->kv.swap != SWAP_NONE) ||
            (seq->node.size == 0) != (n_holds(seq) > 0) || n_holds(seq) > 1 ||
            (seq->awaits_copy && seq->kv.swap == SWAP_NONE))
            return false;
        ++*n_waiting;
        *n_preempted += seq->state == SEQ_PREEMPTED;
    }
    return true;
}

/* Check that the number of references in all tables equals the number of holders of all blocks. */
static bool check_holders(const struct sched *s)
{
    const struct block_pool *pool = kv_manager_pool(s->kv);
    uint64_t n_refs = 0, n_holders = 0;

    for (uint32_t i = 0; i < s->n_running; i++)
        n_refs += kv_manager_n_mapped(s->kv, &s->running[i]->kv);
    for (block_id b = 1; b <= kv_manager_n_blocks(s->kv); b++)
        n_holders += block_pool_holders(pool, b);
    return n_refs == n_holders;
}

bool sched_check(const struct sched *s)
{
    uint32_t n_waiting = 0, n_preempted = 0, n_ordered = 0;

    for (uint32_t i = 0; i < s->n_tenants; i++) {
        n_ordered += order_n(&s->tenants[i].waiting) + s->tenants[i].n_held_back;
        if (!order_check(&s->tenants[i].waiting))
            return false;
    }
    return check_running(s) && check_waiting(s, &n_waiting, &n_preempted) &&
           heap_check(&s->expiry) && n_waiting == s->n_waiting_all && n_waiting == n_ordered &&
           n_preempted == s->n_preempted && s->n_running + s->n_slots == s->opt.max_sequences &&
           s->set.n == s->n_running + n_waiting && check_holders(s) && kv_manager_check(s->kv);
}
