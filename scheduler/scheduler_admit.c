/* scheduler/scheduler_admit.c - admission of waiting sequences, and the blocks that they reuse: a
 * swapped copy, or a cached prefix; see scheduler.h.
 *
 * sched_try_admit() is called by plan_prompts() for the waiting sequence that is due first. In this
 * order it may hold the sequence back for a running one that computes its prefix, hold it back
 * until its swapped copy is in RAM, preempt lower priorities, and admit it. An admitted sequence
 * begins with the blocks of its swapped copy, of its prefix owner (fork) or of the prefix cache.
 * Admission counts the blocks that running sequences still need, so that a newcomer does not soon
 * force a preemption.
 */
#include "scheduler/scheduler_impl.h"

#include "core/base/err.h"

#include <assert.h>
#include <string.h>

/* ---- room ---- */

/* Return the most tokens that a sequence can have at a time. */
static uint32_t worst_case(const struct seq *seq)
{
    return seq->request->max_known;
}

/* Blocks that a running sequence still needs: for its known tokens and one more; with `all`, or if
 * it is exempt from preemption, for the most tokens that it can have. */
static uint64_t owed_to(const struct sched *s, const struct seq *seq, bool all)
{
    const uint32_t to = all || sched_is_preempt_exempt(s, seq) ? worst_case(seq) : seq->n_known + 1;

    return kv_manager_owed(s->kv, &seq->kv, seq->n_done, to);
}

static uint64_t blocks_owed(const struct sched *s, bool all)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < s->n_running; i++)
        n += owed_to(s, s->running[i], all);
    return n;
}

/* Return how many of its leading tokens a sequence may take from the cache: of a prompt that is
 * scored only the tokens that were scored already, or need no score. */
static uint32_t reusable(const struct sched *s, const struct seq *seq)
{
    const struct request *r = seq->request;

    if (s->opt.whole_prompts)
        return 0;
    if (request_needs_rows(r) && seq->n_scored + 1 < r->n_prompt)
        return seq->n_scored > request_may_reuse(r) ? seq->n_scored : request_may_reuse(r);
    return seq->n_known - 1;
}

/* The prefix owner whose blocks the sequence can share by a fork, or NULL. */
static const struct seq *fork_parent(const struct sched *s, const struct seq *seq)
{
    const struct request *r = seq->request;
    const struct seq *prefix_owner =
        r->prefix_owner != 0 && seq->n_peak == 0 && seq->n_discarded == 0
            ? seq_set_find(&s->set, r->prefix_owner)
            : NULL;

    if (prefix_owner == NULL || prefix_owner->state != SEQ_RUNNING ||
        prefix_owner->n_discarded > 0 ||
        prefix_owner->n_done < sched_awaited_by_choice(s, r) ||
        request_needs_rows(r) || s->opt.whole_prompts ||
        !kv_manager_can_fork(s->kv, &prefix_owner->kv, r->n_prompt - 1))
        return NULL;
    assert(prefix_owner->request->n_prompt == r->n_prompt &&
           prefix_owner->request->key.salt == r->key.salt &&
           memcmp(prefix_owner->request->ids, r->ids, r->n_prompt * sizeof(*r->ids)) == 0);
    return prefix_owner;
}

/* Count the available blocks that the admission takes, at once and soon after. */
static uint64_t admission_blocks(const struct sched *s, const struct seq *seq)
{
    const bool exempt = sched_is_preempt_exempt(s, seq);
    const uint32_t n_tokens = exempt ? worst_case(seq) : seq->n_known + 1;
    const uint64_t need = kv_manager_needed(s->kv, n_tokens);
    uint32_t n_held;

    if (fork_parent(s, seq) != NULL)
        n_held = kv_manager_n_forked(s->kv, seq->request->n_prompt - 1);
    else
        n_held = kv_manager_match(s->kv, &seq->request->key,
                                  seq->n_done > 0 ? seq->n_done : reusable(s, seq))
                     .n_held;
    return need > n_held ? need - n_held : 0;
}

/* Blocks reserved for sequences due before the newcomer, which are admitted once their swapped
 * copies are read. */
static uint64_t blocks_of_copies(const struct sched *s, const struct seq *seq)
{
    uint64_t n = 0;

    for (const struct list *it = s->held_for_copy.next; it != &s->held_for_copy; it = it->next) {
        const struct seq *held = list_entry(it, struct seq, copy_link);

        if (sched_is_due_before(s, held, seq))
            n += kv_manager_needed(s->kv, held->n_known + 1) + s->n_groups;
    }
    return n;
}

/* A sequence is admitted when there is room for all its known tokens, for what is reserved for
 * others, and for one block more per KV group and running sequence: otherwise it would soon be
 * preempted and lose what it computed. When nothing else runs it is always admitted. */
static bool is_admissible(const struct sched *s, const struct seq *seq)
{
    if (s->n_slots == 0 || s->n_running == 0)
        return s->n_slots > 0;
    return kv_manager_n_available(s->kv) >= admission_blocks(s, seq) + blocks_of_copies(s, seq) +
                                                blocks_owed(s, sched_is_preempt_exempt(s, seq)) +
                                                (uint64_t)s->n_running * s->n_groups;
}

/* True: the newcomer would fit if every sequence that it may preempt were preempted. */
static bool could_make_room(const struct sched *s, const struct seq *seq)
{
    uint64_t available = kv_manager_n_available(s->kv), owed = 0;
    uint32_t n_left = 0;

    for (uint32_t i = 0; i < s->n_running; i++) {
        const struct seq *other = s->running[i];

        if (sched_can_preempt(s, seq, other) && !sched_is_preempt_exempt(s, other)) {
            available += kv_manager_n_exclusive(s->kv, &other->kv);
        } else {
            owed += owed_to(s, other, sched_is_preempt_exempt(s, seq));
            n_left++;
        }
    }
    if (n_left == s->n_running)
        return false;
    return n_left == 0 || available >= admission_blocks(s, seq) + blocks_of_copies(s, seq) + owed +
                                           (uint64_t)n_left * s->n_groups;
}

/* Preempt lower priorities until the newcomer can be admitted; false: it cannot. */
static bool clear_the_way(struct sched *s, const struct seq *seq)
{
    struct seq *victim;

    if (is_admissible(s, seq))
        return true;
    if (!could_make_room(s, seq))
        return false;
    while (!is_admissible(s, seq)) { /* computed anew: blocks shared with a victim have lost a
                                      * holder */
        victim = sched_victim_for(s, seq);
        if (victim == NULL)
            return false;
        sched_preempt(s, victim);
    }
    return true;
}

/* ---- admission ---- */

/* Give an admitted sequence the blocks that exist already, of its prefix owner or of the prefix
 * cache. */
static void start_seq(struct sched *s, struct seq *seq)
{
    struct request *r = seq->request;
    const struct seq *parent = fork_parent(s, seq);

    if (parent != NULL) {
        kv_manager_fork(s->kv, &seq->kv, &parent->kv, r->n_prompt - 1);
        seq->n_done = r->n_prompt - 1;
        /* Copy the last block at once: the parent may write into it in this very step. The
         * admission has counted this block; if it is missing nevertheless, sched_plan_chunk() tries
         * again. */
        (void)kv_manager_alloc(s->kv, &seq->kv, seq->n_done, seq->n_done + 1);
    } else {
        seq->n_done = kv_manager_attach(s->kv, &seq->kv, &r->key, reusable(s, seq));
    }
    sched_choice_left(s, seq);
    if (seq->n_preempted > 0)
        return;
    seq->n_cached = seq->n_peak = seq->n_done;
    s->cached_tokens += seq->n_done;
    sched_use(s, seq, &(struct usage){.cached_tokens = seq->n_done});
    tenant_charge(&s->tenants[r->tenant], request_n_given(r) - seq->n_done);
}

/* Give a sequence that has just become running the blocks of its swapped copy, or cached ones. */
static void bring_in(struct sched *s, struct seq *seq)
{
    if (seq->kv.swap != SWAP_NONE) {
        if (kv_manager_swap_in(s->kv, &seq->kv, &seq->request->key, seq->n_done) == 0) {
            sched_note(s, s->swapped_in, &s->plan.n_swapped_in, seq);
            return;
        }
        kv_manager_forget(s->kv, &seq->kv);
        s->swap_fallbacks++;
    }
    start_seq(s, seq);
}

static void admit(struct sched *s, struct seq *seq)
{
    seq->tried = s->serial;
    sched_leave_waiting(s, seq);
    if (seq->state == SEQ_PREEMPTED)
        seq_end_preemption(seq, s->now_us);
    else
        seq->started_us = s->now_us;
    seq_set_state(seq, SEQ_RUNNING);
    sched_set_expiry(s, seq, sched_end_of_time(seq->request));
    sched_enter_running(s, seq);
    bring_in(s, seq);
    sched_note(s, s->admitted, &s->plan.n_admitted, seq);
    sched_plan_chunk(s, seq);
}

/* ---- context shift ---- */

/* Shift the context of a full sequence. No prefix waiter waits for it: all its tokens but the last
 * are computed. */
static void shift(struct sched *s, struct seq *seq)
{
    struct request *r = seq->request;

    assert(seq->prefix_waiters == NULL && seq->kv.swap == SWAP_NONE && r->pooling == POOLING_NONE);
    kv_manager_release(s->kv, &seq->kv);
    seq_shift(seq);
    seq->n_done = kv_manager_attach(s->kv, &seq->kv, &r->key, reusable(s, seq));
    tenant_charge(&s->tenants[r->tenant], seq->n_peak - seq->n_done);
    s->shifted[s->plan.n_shifted++] = r->id;
    s->context_shifts++;
}

void sched_shift_full(struct sched *s)
{
    for (uint32_t i = 0; i < s->n_running; i++)
        if (seq_is_full(s->running[i]))
            shift(s, s->running[i]);
}

/* ---- copies ---- */

/* Drop a swapped copy that is lost, or that cannot be read while nothing else frees room: the
 * sequence is computed again. */
static void give_up_copy(struct sched *s, struct seq *seq)
{
    sched_leave_waiting(s, seq);
    kv_manager_forget(s->kv, &seq->kv);
    seq->n_done = 0;
    sched_enter_waiting(s, seq);
    s->swap_fallbacks++;
}

static bool is_in_file(const struct sched *s, const struct seq *seq)
{
    return seq->kv.swap != SWAP_NONE && kv_manager_where(s->kv, &seq->kv) == SWAP_FILE;
}

static bool is_copy_in_ram(const struct sched *s, const struct seq *seq)
{
    return seq->kv.swap == SWAP_NONE || kv_manager_where(s->kv, &seq->kv) == SWAP_RAM ||
           kv_manager_where(s->kv, &seq->kv) == SWAP_WRITING;
}

/* True: the sequence's swapped copy is in RAM, or it has none (any more). Otherwise begin to read
 * it, if there is room. */
static bool has_copy_ready(struct sched *s, struct seq *seq)
{
    const bool is_in_ram = is_copy_in_ram(s, seq);
    const int rc = is_in_ram ? 0 : kv_manager_fetch(s->kv, &seq->kv);

    if (rc == ERR_IO || (rc == ERR_AGAIN && s->n_running == 0 && !kv_manager_is_freeing(s->kv))) {
        give_up_copy(s, seq);
        return true;
    }
    return is_in_ram;
}

/* Hold the sequence back until its copy is read. Reading may take long: meanwhile other sequences
 * are admitted if they leave room for this one, which is still counted as waiting. */
static void hold_for_copy(struct sched *s, struct seq *seq)
{
    struct tenant *t = &s->tenants[seq->request->tenant];

    order_remove(&t->waiting, &seq->node);
    list_push_back(&s->held_for_copy, &seq->copy_link);
    seq->awaits_copy = true;
    t->n_held_back++;
}

void sched_leave_copy(struct sched *s, struct seq *seq)
{
    list_unlink(&seq->copy_link);
    seq->awaits_copy = false;
    s->tenants[seq->request->tenant].n_held_back--;
}

void sched_plan_copies(struct sched *s)
{
    list_each(link, &s->held_for_copy) {
        struct seq *seq = list_entry(link, struct seq, copy_link);

        /* give_up_copy() has entered the sequence already. */
        if (!has_copy_ready(s, seq) || !seq->awaits_copy)
            continue;
        sched_leave_copy(s, seq);
        order_insert(&s->tenants[seq->request->tenant].waiting, &seq->node);
    }
}

#define READ_AHEAD 2 /* number of sequences after the next one whose copies are read ahead */

void sched_read_ahead(struct sched *s, const struct seq *next)
{
    const struct order *o;

    if (next == NULL)
        return;
    o = &s->tenants[next->request->tenant].waiting;
    for (int i = 0; i < READ_AHEAD && next != NULL; i++) {
        struct seq *seq = seq_at(order_next(o, &next->node.key));

        if (seq != NULL && is_in_file(s, seq))
            (void)kv_manager_fetch(s->kv, &seq->kv); /* lost or no room: seen when it is due */
        next = seq;
    }
}

/* ---- waiting for a prefix ---- */

#define MIN_AWAITED 4 /* least number of shared blocks that a sequence waits for */

/* Number of whole blocks that two prompts have in common, and `a` may take from the cache: their
 * chained hashes are equal up to there. */
static uint32_t n_common(const struct request *a, const struct request *b, uint32_t from)
{
    const uint32_t most = request_may_reuse(a) / BLOCK_TOKENS;
    uint32_t n = from;

    while (n < most && n < b->key.n_hashed &&
           memcmp(&a->key.hashes[n], &b->key.hashes[n], sizeof(a->key.hashes[n])) == 0)
        n++;
    return n;
}

/* Return the running prefill that is computing the longest part of the newcomer's prefix that is
 * not cached yet. *n_awaited: tokens that it must have computed. A newcomer never waits for a lower
 * priority. */
static struct seq *who_computes(const struct sched *s, const struct seq *seq, uint32_t *n_awaited)
{
    const struct request *r = seq->request;
    const uint32_t there = kv_manager_match(s->kv, &r->key, reusable(s, seq)).n_blocks;
    struct seq *best = NULL;
    uint32_t most = there + MIN_AWAITED - 1;

    for (uint32_t i = 0; i < s->n_running; i++) {
        struct seq *other = s->running[i];
        const uint32_t n = seq_behind(other) > 1 && !sched_is_above(s, seq, other)
                               ? kv_manager_resumable(s->kv, n_common(r, other->request, there))
                               : 0;

        if (n > most && other->n_done < n * BLOCK_TOKENS) {
            best = other;
            most = n;
        }
    }
    *n_awaited = most * BLOCK_TOKENS;
    return best;
}

/* Hold a new sequence back while a running one computes its prefix: when many requests arrive with
 * one long prefix, the first computes it for all. */
static bool waits_for_prefix(struct sched *s, struct seq *seq)
{
    const bool is_new =
        seq->n_peak == 0 && seq->n_discarded == 0 && seq->kv.swap == SWAP_NONE;
    struct seq *prefix_owner;
    uint32_t n_awaited;

    if (!is_new || request_wants_rows(seq->request) || !kv_manager_shares(s->kv))
        return false;
    prefix_owner = who_computes(s, seq, &n_awaited);
    if (prefix_owner == NULL)
        return false;
    order_remove(&s->tenants[seq->request->tenant].waiting, &seq->node);
    sched_hold_back(s, seq, prefix_owner, n_awaited);
    return true;
}

bool sched_try_admit(struct sched *s, struct seq *seq)
{
    if (waits_for_prefix(s, seq))
        return true;
    if (!has_copy_ready(s, seq)) {
        hold_for_copy(s, seq);
        return true;
    }
    if (!clear_the_way(s, seq))
        return false;
    admit(s, seq);
    return true;
}
