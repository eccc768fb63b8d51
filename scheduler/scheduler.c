/* scheduler/scheduler.c - arrivals, the lists, progress, ends; see scheduler.h.
 *
 * A sequence is always in exactly one place: in `running`, kept sorted in run order by insertion;
 * in its tenant's waiting order; or held back in a list (by a prefix owner, for the block store,
 * for a swapped copy). The functions sched_enter_* and sched_leave_* move it between them and keep
 * the counts; sched_check() verifies that they add up. sched_add() and sched_cancel() come from the
 * inbox, sched_commit() follows each computed step, and every end passes through end_seq() exactly
 * once (P2).
 */
#include "scheduler/scheduler_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <assert.h>
#include <string.h>

static bool before_expiry(const struct seq *a, const struct seq *b)
{
    return a->expiry_us < b->expiry_us;
}

/* ---- life ---- */

void sched_options_default(struct sched_options *o)
{
    *o = (struct sched_options){
        .policy = SCHED_PRIORITY,
        .preemption = SCHED_AUTO,
        .aging_milli = 100,
        .max_wait_ms = 30000,
        .max_preemptions = 3,
        .max_tenants = 1,
        .max_sequences = 256,
        .max_requests = 1280,
        .max_context = 4096,
        .max_batch_tokens = 1024,
        .prefill_chunk = 512,
    };
}

static bool take_arrays(struct sched *s)
{
    const struct sched_options *o = &s->opt;
    const size_t n = o->max_sequences;

    s->tenants = mem_calloc(o->max_tenants, sizeof(*s->tenants));
    s->running = mem_calloc(n, sizeof(struct seq *));
    s->slots = mem_calloc(n, sizeof(*s->slots));
    s->tables = mem_calloc(n * s->n_groups, s->table_cap * sizeof(*s->tables));
    s->items = mem_calloc(n, sizeof(*s->items));
    s->item_seq = mem_calloc(n, sizeof(struct seq *));
    s->ends = mem_calloc(o->max_requests, sizeof(*s->ends));
    s->preempted = mem_calloc(o->max_requests, sizeof(*s->preempted));
    s->swapped_out = mem_calloc(o->max_requests, sizeof(*s->swapped_out));
    s->swapped_in = mem_calloc(o->max_requests, sizeof(*s->swapped_in));
    s->admitted = mem_calloc(o->max_requests, sizeof(*s->admitted));
    s->shifted = mem_calloc(n, sizeof(*s->shifted));
    s->fetches = mem_calloc(s->max_fetches, sizeof(*s->fetches));
    return s->tenants != NULL && s->running != NULL && s->slots != NULL && s->tables != NULL &&
           s->items != NULL && s->item_seq != NULL && s->ends != NULL && s->preempted != NULL &&
           s->swapped_out != NULL && s->swapped_in != NULL && s->admitted != NULL &&
           s->shifted != NULL && s->fetches != NULL;
}

static int set_up(struct sched *s)
{
    const uint32_t n = s->opt.max_sequences;

    if (seq_set_create(&s->set, s->opt.max_requests) < 0 ||
        heap_create(&s->expiry, s->opt.max_requests, offsetof(struct seq, heap_expiry),
                    before_expiry) < 0 ||
        !take_arrays(s))
        return ERR_NOMEM;
    for (uint32_t i = 0; i < n; i++)
        s->slots[i] = n - 1 - i;
    s->n_slots = n;
    s->plan.items = s->items;
    s->plan.preempted = s->preempted;
    s->plan.swapped_out = s->swapped_out;
    s->plan.swapped_in = s->swapped_in;
    s->plan.admitted = s->admitted;
    s->plan.shifted = s->shifted;
    return 0;
}

static bool is_sane(const struct sched_options *o)
{
    return o->max_sequences > 0 && o->max_requests >= o->max_sequences &&
           o->max_batch_tokens >= o->max_sequences && o->prefill_chunk > 0 &&
           o->max_context > 0 && o->max_tenants > 0 &&
           o->max_sequences <= kv_manager_most_sequences(o->kv) &&
           (o->store_blocks == 0 || kv_manager_can_enter(o->kv)) &&
           (!o->whole_prompts || (o->max_context <= o->prefill_chunk &&
                                  o->max_context <= o->max_batch_tokens));
}

int sched_create(struct sched **out, const struct sched_options *options)
{
    struct sched *s;

    *out = NULL;
    if (!is_sane(options))
        return ERR_INVAL;
    s = mem_calloc(1, sizeof(*s));
    if (s == NULL)
        return ERR_NOMEM;
    s->opt = *options;
    s->kv = options->kv;
    s->table_cap = block_table_needed(options->max_context);
    s->n_groups = kv_manager_n_groups(s->kv);
    /* Room for two orders for each request, and once more as many, because new requests may have
     * replaced all of them before the orders are taken. */
    s->max_fetches = options->store_blocks > 0 ? 4 * options->max_requests : 1;
    list_init(&s->held_for_store);
    list_init(&s->held_for_copy);
    if (set_up(s) < 0) {
        sched_destroy(&s);
        return ERR_NOMEM;
    }
    *out = s;
    return 0;
}

void sched_destroy(struct sched **sched)
{
    struct sched *s = sched != NULL ? *sched : NULL;

    if (s == NULL)
        return;
    for (uint32_t i = 0; s->set.all != NULL && i < s->set.n_fresh; i++)
        if (s->set.all[i].request != NULL)
            kv_manager_release(s->kv, &s->set.all[i].kv);
    for (uint32_t i = 0; i < s->n_ends; i++)
        request_destroy(&s->ends[(s->end_head + i) % s->opt.max_requests].request);
    seq_set_release(&s->set);
    heap_release(&s->expiry);
    mem_free(s->tenants);
    mem_free(s->running);
    mem_free(s->slots);
    mem_free(s->tables);
    mem_free(s->items);
    mem_free(s->item_seq);
    mem_free(s->ends);
    mem_free(s->preempted);
    mem_free(s->swapped_out);
    mem_free(s->swapped_in);
    mem_free(s->admitted);
    mem_free(s->shifted);
    mem_free(s->fetches);
    mem_free(s);
    *sched = NULL;
}

/* ---- moving sequences between the lists ---- */

static void count_adapter(const struct request *r, bool runs, int change)
{
    if (r->adapter != NULL && r->count_adapter != NULL)
        r->count_adapter(r->adapter, runs, change);
}

static void count_waiting(struct sched *s, const struct seq *seq, bool enters)
{
    const enum priority p = seq->request->priority;
    const uint32_t sign = enters ? 1 : UINT32_MAX; /* modulo 2^32: plus or minus one */
    const uint64_t behind = seq_behind(seq);

    s->n_waiting[p] += sign;
    s->n_waiting_all += sign;
    s->waiting_tokens[p] += enters ? behind : 0 - behind;
    if (seq->state == SEQ_PREEMPTED)
        s->n_preempted += sign;
    count_adapter(seq->request, false, enters ? 1 : -1);
}

void sched_enter_waiting(struct sched *s, struct seq *seq)
{
    count_waiting(s, seq, true);
    order_insert(&s->tenants[seq->request->tenant].waiting, &seq->node);
}

void sched_hold_back(struct sched *s, struct seq *seq, struct seq *prefix_owner, uint32_t n_awaited)
{
    struct seq **link = &prefix_owner->prefix_waiters;

    while (*link != NULL)
        link = &(*link)->next_prefix_waiter;
    *link = seq;
    seq->prefix_owner = prefix_owner;
    seq->n_awaited = n_awaited;
    if (seq->request->prefix_owner == prefix_owner->request->id) {
        seq->is_choice = true;
        prefix_owner->n_choices++;
    }
    s->tenants[seq->request->tenant].n_held_back++;
}

static void unlink_prefix_waiter(struct sched *s, struct seq *seq)
{
    struct seq **link = &seq->prefix_owner->prefix_waiters;

    while (*link != seq)
        link = &(*link)->next_prefix_waiter;
    *link = seq->next_prefix_waiter;
    seq->prefix_owner = seq->next_prefix_waiter = NULL;
    s->tenants[seq->request->tenant].n_held_back--;
}

void sched_leave_waiting(struct sched *s, struct seq *seq)
{
    count_waiting(s, seq, false);
    if (seq->prefix_owner != NULL)
        unlink_prefix_waiter(s, seq);
    else if (seq->store != STORE_NONE)
        sched_end_in_store(s, seq);
    else if (seq->awaits_copy)
        sched_leave_copy(s, seq);
    else
        order_remove(&s->tenants[seq->request->tenant].waiting, &seq->node);
}

void sched_enter_running(struct sched *s, struct seq *seq)
{
    uint32_t i = s->n_running++;

    seq->slot = s->slots[--s->n_slots];
    seq->held_since_us = s->now_us;
    block_table_init(&seq->kv.table, s->tables + (size_t)seq->slot * s->n_groups * s->table_cap,
                     s->table_cap, s->n_groups);
    for (; i > 0 && sched_runs_before(s, seq, s->running[i - 1]); i--)
        s->running[i] = s->running[i - 1];
    s->running[i] = seq;
    s->tenants[seq->request->tenant].n_running++;
    count_adapter(seq->request, true, 1);
}

void sched_leave_running(struct sched *s, struct seq *seq)
{
    uint32_t i = s->n_running;

    while (s->running[--i] != seq)
        ;
    memmove(s->running + i, s->running + i + 1, (s->n_running - i - 1) * sizeof(struct seq *));
    s->n_running--;
    if (seq->kv.swap == SWAP_NONE)
        kv_manager_release(s->kv, &seq->kv);
    block_table_init(&seq->kv.table, NULL, 0, s->n_groups);
    s->slots[s->n_slots++] = seq->slot;
    seq->slot = SEQ_NO_SLOT;
    s->tenants[seq->request->tenant].n_running--;
    count_adapter(seq->request, true, -1);
}

/* Put a prefix waiter back into the waiting order; it was counted as waiting all the time. */
static void free_prefix_waiter(struct sched *s, struct seq *seq)
{
    unlink_prefix_waiter(s, seq);
    order_insert(&s->tenants[seq->request->tenant].waiting, &seq->node);
}

void sched_free_prefix_waiters(struct sched *s, struct seq *prefix_owner, uint32_t n_done)
{
    struct seq *f, *next;

    for (f = prefix_owner->prefix_waiters; f != NULL; f = next) {
        next = f->next_prefix_waiter;
        if (f->n_awaited <= n_done)
            free_prefix_waiter(s, f);
    }
}

void sched_choice_left(struct sched *s, struct seq *seq)
{
    struct seq *owner = seq->is_choice ? seq_set_find(&s->set, seq->request->prefix_owner) : NULL;

    seq->is_choice = false;
    if (owner != NULL && --owner->n_choices == 0)
        kv_manager_drop_fork(s->kv, &owner->kv);
}

uint32_t sched_awaited_by_choice(const struct sched *s, const struct request *r)
{
    return kv_manager_has_states(s->kv) ? r->n_prompt - 1 : r->n_prompt;
}

/* Release the waiters of an owner that was preempted or has ended (is_gone). If it ended, the first
 * of its parallel choices becomes the prefix owner of the others. All other waiters return to the
 * waiting order. */
void sched_leave_prefix_waiters(struct sched *s, struct seq *prefix_owner, bool is_gone)
{
    struct seq *f, *next, *successor = NULL;

    for (f = prefix_owner->prefix_waiters; f != NULL; f = next) {
        const bool is_choice = f->request->prefix_owner == prefix_owner->request->id;

        next = f->next_prefix_waiter;
        if (is_choice && !is_gone)
            continue;
        if (!is_choice || successor == NULL) {
            free_prefix_waiter(s, f);
            successor = is_choice ? f : successor;
            continue;
        }
        unlink_prefix_waiter(s, f);
        f->request->prefix_owner = successor->request->id;
        sched_hold_back(s, f, successor, sched_awaited_by_choice(s, f->request));
    }
}

void sched_set_expiry(struct sched *s, struct seq *seq, uint64_t at_us)
{
    if (seq->expiry_us != 0)
        heap_remove(&s->expiry, seq);
    seq->expiry_us = at_us;
    if (at_us != 0)
        heap_push(&s->expiry, seq);
}

static void end_seq(struct sched *s, struct seq *seq, enum seq_state state, enum finish why,
                    uint64_t now_us)
{
    if (seq->state == SEQ_RUNNING) {
        sched_use_blocks(s, seq, now_us);
        sched_leave_running(s, seq);
    } else {
        sched_leave_waiting(s, seq);
    }
    if (seq->state == SEQ_PREEMPTED)
        seq_end_preemption(seq, now_us);
    kv_manager_forget(s->kv, &seq->kv);
    sched_choice_left(s, seq);
    sched_leave_prefix_waiters(s, seq, true);
    sched_set_expiry(s, seq, 0);
    seq_set_state(seq, state);
    s->ends[(s->end_head + s->n_ends++) % s->opt.max_requests] = (struct sched_end){
        .request = seq->request,
        .finish = why,
        .n_known = seq->n_known,
        .n_discarded = seq->n_discarded,
        .times = seq_times(seq, now_us),
        .usage = seq->usage,
        .pins = seq->pins,
    };
    seq_set_give(&s->set, seq);
}

/* ---- arrivals and cancels ---- */

bool sched_can_ever_fit(const struct sched_options *o, uint32_t n_prompt, uint32_t max_known)
{
    return n_prompt > 0 && max_known <= o->max_context && kv_manager_can_hold(o->kv, max_known);
}

/* The earlier of two times; 0 means never. */
static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

uint64_t sched_end_of_time(const struct request *r)
{
    return earlier(r->deadline_us, r->timeout_us);
}

/* Return the prefix owner that the request has to wait for. NULL: it has none, it must compute the
 * whole prompt itself (scores), or the owner has computed the prompt already. */
static struct seq *find_prefix_owner(const struct sched *s, const struct request *r)
{
    struct seq *prefix_owner = r->prefix_owner != 0 ? seq_set_find(&s->set, r->prefix_owner) : NULL;

    if (prefix_owner == NULL || request_needs_rows(r) ||
        prefix_owner->n_discarded > 0 || prefix_owner->n_peak >= prefix_owner->request->n_prompt)
        return NULL;
    return prefix_owner;
}

int sched_add(struct sched *s, struct request *r, uint64_t now_us)
{
    struct seq *seq, *prefix_owner;

    assert(r->tenant < s->opt.max_tenants);
    if (!sched_can_ever_fit(&s->opt, r->n_prompt, r->max_known))
        return ERR_RANGE;
    if (s->set.n + s->n_ends >= s->opt.max_requests)
        return ERR_AGAIN;
    seq = seq_set_take(&s->set, r);
    if (r->arrival_us > now_us)
        r->arrival_us = now_us;
    seq->ticket = s->next_ticket++;
    seq->node.key = sched_key(s, r, seq->ticket);
    seq_count_ids(seq);
    kv_key_extend(&r->key, request_n_given(r));
    if (r->tenant >= s->n_tenants)
        s->n_tenants = r->tenant + 1;
    tenant_arrive(s->tenants, s->n_tenants, r->tenant, r->weight);
    seq_set_state(seq, SEQ_PENDING);
    sched_set_expiry(s, seq, earlier(sched_end_of_time(r), r->queue_until_us));
    prefix_owner = find_prefix_owner(s, r);
    s->now_us = now_us;
    count_waiting(s, seq, true);
    if (prefix_owner == NULL) {
        if (!sched_hold_for_store(s, seq))
            order_insert(&s->tenants[r->tenant].waiting, &seq->node);
    } else {
        sched_hold_back(s, seq, prefix_owner, sched_awaited_by_choice(s, r));
    }
    return 0;
}

void sched_cancel(struct sched *s, uint64_t id, enum finish why, uint64_t now_us)
{
    struct seq *seq = seq_set_find(&s->set, id);

    if (seq != NULL)
        end_seq(s, seq, SEQ_CANCELLED, why, now_us);
}

void sched_cancel_all(struct sched *s, enum finish why, uint64_t now_us)
{
    struct seq *seq;

    while (s->n_running > 0)
        end_seq(s, s->running[s->n_running - 1], SEQ_CANCELLED, why, now_us);
    list_each(link, &s->held_for_store)
        end_seq(s, list_entry(link, struct seq, store_link), SEQ_CANCELLED, why, now_us);
    list_each(link, &s->held_for_copy)
        end_seq(s, list_entry(link, struct seq, copy_link), SEQ_CANCELLED, why, now_us);
    while ((seq = sched_next_waiting(s)) != NULL)
        end_seq(s, seq, SEQ_CANCELLED, why, now_us);
}

void sched_end_thought(struct sched *s, uint64_t id)
{
    struct seq *seq = seq_set_find(&s->set, id);

    if (seq != NULL)
        thought_end(&seq->request->thought);
}

static struct seq *next_expired(const struct sched *s, uint64_t now_us, enum finish *why)
{
    struct seq *seq = heap_top(&s->expiry);
    uint64_t end;

    if (seq == NULL || seq->expiry_us > now_us)
        return NULL;
    end = sched_end_of_time(seq->request);
    *why = end != 0 && end <= now_us ? FINISH_TIMEOUT : FINISH_QUEUE_TIMEOUT;
    return seq;
}

bool sched_next_expired(const struct sched *s, uint64_t now_us, uint64_t *id, enum finish *why)
{
    const struct seq *seq = next_expired(s, now_us, why);

    if (seq != NULL)
        *id = seq->request->id;
    return seq != NULL;
}

uint64_t sched_next_expiry(const struct sched *s)
{
    const struct seq *seq = heap_top(&s->expiry);

    return seq != NULL ? seq->expiry_us : UINT64_MAX;
}

void sched_end_expired(struct sched *s, uint64_t now_us)
{
    enum finish why;
    struct seq *seq;

    while ((seq = next_expired(s, now_us, &why)) != NULL)
        end_seq(s, seq, SEQ_FAILED, why, now_us);
}

/* ---- progress ---- */

static bool is_stop_id(const struct request *r, int32_t token)
{
    for (uint32_t i = 0; i < r->n_stop_ids; i++)
        if (r->stop_ids[i] == token)
            return true;
    return false;
}

/* Count the item's rows before `end`, which were computed and are kept. */
static void count_rows(struct sched *s, struct seq *seq, const struct plan_item *item, uint32_t end)
{
    const uint32_t fresh_from =
        seq->n_peak > item->first ? sched_min(seq->n_peak, end) : item->first;
    const uint32_t n_given = seq->n_discarded > 0 ? 0 : request_n_given(seq->request);

    s->recomputed_tokens += fresh_from - item->first;
    if (fresh_from < n_given)
        s->prompt_tokens += sched_min(end, n_given) - fresh_from;
    if (end > seq->n_peak)
        seq->n_peak = end;
    sched_free_prefix_waiters(s, seq, end);
}

/* Append the token. Returns why the sequence ends with it, or FINISH_NONE. Before min_tokens
 * neither end-of-generation tokens, which the sampler bans there, nor stop_ids end it. */
static enum finish take_token(struct sched *s, struct seq *seq, int32_t token, bool is_eog,
                              uint64_t now_us)
{
    const struct request *r = seq->request;
    const bool may_stop = seq_n_generated(seq) >= r->min_tokens;

    if (seq->first_token_us == 0)
        seq->first_token_us = now_us;
    seq_append(seq, token);
    s->generation_tokens++;
    sched_use(s, seq, &(struct usage){.generated_tokens = 1});
    tenant_charge(&s->tenants[r->tenant], 1);
    if (may_stop && ((is_eog && !r->ignore_eos) || is_stop_id(r, token)))
        return FINISH_STOP;
    if (seq_n_generated(seq) == r->max_tokens)
        return FINISH_LENGTH;
    return FINISH_NONE;
}

/* Append the drafts that were right as tokens; they are in ids already, and none of them ends the
 * generation. */
static void take_drafts(struct sched *s, struct seq *seq, uint32_t n, uint64_t now_us)
{
    for (uint32_t i = 0; i < n; i++) {
        const enum finish why =
            take_token(s, seq, seq->request->ids[seq->n_known], false, now_us);

        assert(why == FINISH_NONE);
        (void)why;
    }
}

void sched_commit(struct sched *s, const int32_t *tokens, const uint32_t *n_accepted,
                  bool (*is_eog)(void *ud, int32_t token), void *ud, uint64_t now_us)
{
    for (uint32_t i = 0; i < s->plan.n_items; i++) {
        const struct plan_item *item = &s->items[i];
        struct seq *seq = s->item_seq[i];
        const uint32_t n_prompt = seq->request->n_prompt;
        const uint32_t n_right = n_accepted != NULL ? n_accepted[i] : 0;
        enum finish why = FINISH_NONE;

        seq->item = SEQ_NO_ITEM;
        sched_use_blocks(s, seq, now_us);
        seq->n_done += item->n - item->n_drafts + n_right;
        count_rows(s, seq, item, seq->n_done);
        take_drafts(s, seq, n_right, now_us);
        kv_manager_commit(s->kv, &seq->kv, &seq->request->key, seq->n_done);
        sched_pin_prefixes(s, seq, now_us);
        sched_settle_drafts(s, seq, n_right);
        if (seq->n_choices > 0 && seq->n_done == sched_awaited_by_choice(s, seq->request))
            kv_manager_keep_fork(s->kv, &seq->kv);
        if (sched_min(seq->n_done, n_prompt - 1) > seq->n_scored)
            seq->n_scored = sched_min(seq->n_done, n_prompt - 1);
        if (item->wants_token)
            why = take_token(s, seq, tokens[i], is_eog != NULL && is_eog(ud, tokens[i]), now_us);
        else if (seq->n_done == seq->n_known)
            why = FINISH_LENGTH; /* max_tokens is 0: no token is generated */
        if (why != FINISH_NONE)
            end_seq(s, seq, SEQ_COMPLETED, why, now_us);
    }
    s->plan.n_items = 0;
}

bool sched_next_end(struct sched *s, struct sched_end *out)
{
    if (s->n_ends == 0)
        return false;
    *out = s->ends[s->end_head];
    s->end_head = (s->end_head + 1) % s->opt.max_requests;
    s->n_ends--;
    return true;
}

bool sched_is_idle(const struct sched *s)
{
    return s->n_running == 0 && s->n_waiting_all == 0;
}
