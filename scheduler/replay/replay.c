/* scheduler/replay/replay.c - see replay.h.
 *
 * replay_take() is called for each line of the journal, in order. Calls of the scheduler are made
 * again; answers (plans, transfers, fetches) are compared with those of a fresh scheduler, and the
 * first difference ends the replay with a sentence that names both. Everything in a record that
 * could crash the scheduler or take all memory is checked before it is used, because a journal may
 * have been edited.
 */
#include "scheduler/replay/replay.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "scheduler/replay/trace.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Bounds of plausible options: a journal must not make the process take all memory. */
#define MAX_REQUESTS (1u << 20)
#define MAX_TOKENS (1u << 24)
#define MAX_BLOCKS (1u << 26)
#define MAX_GROUPS (1u << 12)

struct step {
    struct step_work work;
    uint64_t us;
};

struct replay {
    struct kv_manager_options kv_options;
    struct sched_options options;
    struct kv_manager *kv;
    struct sched *sched;
    int32_t *eog;
    uint32_t n_eog;
    uint64_t now_us, unix_us, planned_us;
    const struct plan *plan;     /* the plan that is not committed yet, or NULL */
    bool has_moves;              /* the latest plan's moves are outstanding */
    struct sched_limits limits;
    int32_t *tokens;             /* [max_sequences] by item */
    uint32_t *n_accepted;        /* [max_sequences] by item */
    struct recorded_drafter drafter;
    bool io_used[SWAP_MAX_IO];
    uint32_t io[SWAP_MAX_IO];    /* copies whose transfers are under way */
    struct trace trace;
    struct step_costs costs;     /* the latest known costs */
    struct step_costs sum;       /* sum of the known costs of n_known plans */
    uint64_t n_known;
    struct step *steps;          /* [n_steps] computed steps, when arrivals are collected */
    size_t n_steps, steps_cap;
    uint32_t *paces;             /* their paces */
    struct replay_stats stats;
};

void replay_record_release(struct replay_record *r)
{
    request_destroy(&r->request);
    mem_free(r->items);
    mem_free(r->tokens);
    mem_free(r->drafts);
    mem_free(r->accepted.ids);
    for (int i = 0; i < REPLAY_LISTS; i++)
        mem_free(r->lists[i].ids);
    memset(r, 0, sizeof(*r));
}

int replay_create(struct replay **out, bool collect)
{
    *out = mem_calloc(1, sizeof(**out));
    if (*out == NULL)
        return ERR_NOMEM;
    (*out)->trace.keep_tokens = collect;
    return 0;
}

static void end_run(struct replay *r)
{
    sched_destroy(&r->sched);
    kv_manager_destroy(&r->kv);
    trace_release(&r->trace);
    mem_free(r->eog);
    mem_free(r->tokens);
    mem_free(r->n_accepted);
    mem_free(r->steps);
    mem_free(r->paces);
    *r = (struct replay){.trace = r->trace, .stats = r->stats};
}

void replay_destroy(struct replay **r)
{
    if (r == NULL || *r == NULL)
        return;
    end_run(*r);
    mem_free(*r);
    *r = NULL;
}

__attribute__((format(printf, 4, 5))) static int fail(int rc, char *err, size_t err_len,
                                                      const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(err, err_len, format, args);
    va_end(args);
    return rc;
}

static int no_memory(char *err, size_t err_len)
{
    return fail(ERR_NOMEM, err, err_len, "out of memory");
}

static void take_ends(struct replay *r)
{
    struct sched_end end;

    while (sched_next_end(r->sched, &end)) {
        trace_end(&r->trace, end.request->id, end.finish, r->now_us);
        request_destroy(&end.request);
        r->stats.n_ends++;
    }
}

/* ---- a new run ---- */

/* True: the tables of n sequences have a plausible size. */
static bool is_table_believable(const struct kv_manager_options *k, uint32_t n)
{
    return (uint64_t)n * k->max_table <= (1u << 30) / k->groups.n;
}

static bool are_groups_believable(const struct kv_groups *l)
{
    return l->n > 0 && l->n <= MAX_GROUPS && (l->n_window < l->n || l->n == 1) &&
           l->n_window <= l->n && (l->n_window == 0) == (l->window == 0);
}

static bool are_states_believable(const struct kv_state_options *s, uint32_t max_sequences)
{
    return s->n_slots == 0 ? !s->is_alone
                           : s->n_slots >= max_sequences && s->n_slots <= MAX_BLOCKS &&
                                 s->interval > 0 && s->n_parts > 0 && s->n_parts <= MAX_BLOCKS;
}

static bool is_store_believable(const struct sched_options *s, const struct kv_manager_options *k)
{
    return s->store_blocks == 0 || (k->prefix_cache && k->groups.n == 1 &&
                                    k->groups.n_window == 0 && k->states.n_slots == 0);
}

static bool are_pins_believable(const struct kv_manager_options *k, const struct sched_options *s)
{
    const struct kv_pin_options *p = &k->pins;

    if (p->most_blocks == 0)
        return p->most_states == 0;
    if (k->states.is_alone || (k->states.n_slots > 0) != (p->most_states > 0) ||
        k->states.n_slots < p->most_states ||
        (p->most_states > 0 && k->states.n_slots - p->most_states < s->max_sequences))
        return false;
    return k->prefix_cache && p->most_blocks < k->n_blocks &&
           p->tenant_blocks > 0 && p->tenant_blocks <= p->most_blocks &&
           p->n_tenants >= s->max_tenants && p->n_tenants <= MAX_REQUESTS;
}

static bool is_believable(const struct replay_record *rec)
{
    const struct sched_options *s = &rec->sched;
    const struct kv_manager_options *k = &rec->kv;

    return s->policy <= SCHED_ADAPTIVE && s->preemption <= SCHED_SWAP && s->max_tenants > 0 &&
           s->max_tenants <= MAX_REQUESTS && s->max_sequences > 0 &&
           s->max_sequences <= s->max_requests && s->max_requests <= MAX_REQUESTS &&
           s->max_context > 0 && s->max_context <= MAX_TOKENS && s->prefill_chunk > 0 &&
           s->max_sequences <= s->max_batch_tokens && s->max_batch_tokens <= MAX_TOKENS &&
           k->n_blocks > 0 && k->n_blocks <= MAX_BLOCKS && k->n_ram <= MAX_BLOCKS &&
           k->n_file <= MAX_BLOCKS && (k->n_file == 0 || k->n_ram > 0) &&
           k->max_sequences <= MAX_REQUESTS && k->max_table <= MAX_BLOCKS &&
           k->max_table >= (s->max_context - 1) / BLOCK_TOKENS + 1 &&
           are_groups_believable(&k->groups) &&
           are_states_believable(&k->states, s->max_sequences) &&
           is_store_believable(s, k) && are_pins_believable(k, s) &&
           is_table_believable(k, s->max_sequences) &&
           is_table_believable(k, k->max_sequences) && k->critical_percent <= 100 &&
           k->low_percent <= 100 && k->placement <= BLOCK_ROUND_ROBIN;
}

static int take_start(struct replay *r, struct replay_record *rec, char *err, size_t err_len)
{
    if (!is_believable(rec))
        return fail(ERR_FORMAT, err, err_len, "the options contradict each other");
    end_run(r);
    r->options = rec->sched;
    r->kv_options = rec->kv;
    r->unix_us = rec->unix_us;
    r->eog = rec->tokens;
    r->n_eog = rec->n_tokens;
    rec->tokens = NULL;
    r->stats.n_runs++;
    r->tokens = mem_calloc(r->options.max_sequences, sizeof(*r->tokens));
    r->n_accepted = mem_calloc(r->options.max_sequences, sizeof(*r->n_accepted));
    if (r->tokens == NULL || r->n_accepted == NULL || kv_manager_create(&r->kv, &r->kv_options) < 0)
        return no_memory(err, err_len);
    r->options.kv = r->kv;
    r->options.drafter = recorded_drafter_get(&r->drafter);
    r->options.undo_streams = r->options.undo_rows = UINT32_MAX; /* recorded drafts were possible */
    if (sched_create(&r->sched, &r->options) < 0)
        return no_memory(err, err_len);
    return 0;
}

/* ---- calls of the scheduler ---- */

static int advance_replay(struct replay *r, uint64_t now_us, char *err, size_t err_len)
{
    if (now_us < r->now_us)
        return fail(ERR_FORMAT, err, err_len, "time goes backwards, from %" PRIu64 " to %" PRIu64,
                    r->now_us, now_us);
    r->now_us = now_us;
    return 0;
}

static int take_post(struct replay *r, struct replay_record *rec, char *err, size_t err_len)
{
    const struct request *q = rec->request;

    if (q->tenant >= r->options.max_tenants)
        return fail(ERR_FORMAT, err, err_len, "tenant %u is not below %u", q->tenant,
                    r->options.max_tenants);
    if (q->id == 0 || trace_has(&r->trace, q->id))
        return fail(ERR_FORMAT, err, err_len, "request %" PRIu64 " is posted twice", q->id);
    if (!trace_follows_an_equal(&r->trace, q))
        return fail(ERR_FORMAT, err, err_len,
                    "request %" PRIu64 " has another prompt than its prefix owner", q->id);
    if (trace_add(&r->trace, q) < 0)
        return no_memory(err, err_len);
    r->stats.n_posts++;
    if (sched_add(r->sched, rec->request, rec->now_us) == 0)
        rec->request = NULL; /* otherwise it was refused when it was recorded too, and is in no
                              * plan */
    return 0;
}

static int take_io_start(struct replay *r, const struct replay_record *rec, char *err,
                         size_t err_len)
{
    struct swap_io io;
    int i = 0;

    if (r->has_moves)
        return fail(ERR_FORMAT, err, err_len,
                    "a transfer starts before the moves of the step are done");
    if (!sched_next_io(r->sched, &io))
        return fail(ERR_INVAL, err, err_len, "a transfer of copy %" PRIu64
                    " was started; the replay starts none", rec->id);
    if (io.copy != rec->id || io.is_write != rec->is_write || io.n != rec->n_blocks)
        return fail(ERR_INVAL, err, err_len, "the %s of copy %" PRIu64 " (%u blocks) was started; "
                    "the replay starts the %s of copy %u (%u blocks)",
                    rec->is_write ? "write" : "read", rec->id, rec->n_blocks,
                    io.is_write ? "write" : "read", io.copy, io.n);
    while (i + 1 < SWAP_MAX_IO && r->io_used[i])
        i++;
    r->io_used[i] = true;
    r->io[i] = io.copy;
    return 0;
}

static int take_io_done(struct replay *r, const struct replay_record *rec, char *err,
                        size_t err_len)
{
    for (int i = 0; i < SWAP_MAX_IO; i++)
        if (r->io_used[i] && r->io[i] == rec->id) {
            r->io_used[i] = false;
            sched_io_done(r->sched, r->io[i], rec->rc);
            return 0;
        }
    return fail(ERR_FORMAT, err, err_len, "no transfer of copy %" PRIu64 " is in progress",
                rec->id);
}

static bool is_eog(void *ud, int32_t token)
{
    const struct replay *r = ud;

    for (uint32_t i = 0; i < r->n_eog; i++)
        if (r->eog[i] == token)
            return true;
    return false;
}

/* Add the time of the step that is being committed to r->steps. */
static int note_step(struct replay *r, uint64_t us)
{
    if (!r->trace.keep_tokens)
        return 0;
    if (r->n_steps == r->steps_cap) {
        const size_t cap = r->steps_cap > 0 ? 2 * r->steps_cap : 256;
        struct step *steps = mem_realloc(r->steps, cap * sizeof(*steps));

        if (steps == NULL)
            return ERR_NOMEM;
        r->steps = steps;
        r->steps_cap = cap;
    }
    r->steps[r->n_steps++] = (struct step){r->plan->work, us};
    return 0;
}

static int add_token(struct replay *r, const struct plan_item *item, int32_t token)
{
    r->stats.n_tokens++;
    return trace_add_token(&r->trace, item->request->id, token);
}

/* Read how many drafts of each item were right; the right ones are tokens of its request. */
static int take_accepted(struct replay *r, const struct replay_record *rec, char *err,
                         size_t err_len)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->plan->n_items; i++) {
        const struct plan_item *item = &r->plan->items[i];
        const int32_t *drafts = item->request->ids + item->first + item->n - item->n_drafts;

        r->n_accepted[i] = 0;
        if (item->n_drafts == 0)
            continue;
        if (n == rec->accepted.n || rec->accepted.ids[n] > item->n_drafts)
            return fail(ERR_FORMAT, err, err_len,
                        "step %" PRIu64 " does not say how many drafts of request %" PRIu64
                        " were accepted",
                        rec->id, item->request->id);
        r->n_accepted[i] = (uint32_t)rec->accepted.ids[n++];
        for (uint32_t k = 0; k < r->n_accepted[i]; k++)
            if (add_token(r, item, drafts[k]) < 0)
                return no_memory(err, err_len);
    }
    if (n != rec->accepted.n)
        return fail(ERR_FORMAT, err, err_len, "step %" PRIu64 " has accepted drafts, but no drafts",
                    rec->id);
    return 0;
}

static int take_commit(struct replay *r, const struct replay_record *rec, char *err,
                       size_t err_len)
{
    uint32_t n = 0;
    int rc;

    if (r->plan == NULL || r->plan->step != rec->id)
        return fail(ERR_FORMAT, err, err_len, "step %" PRIu64 " is committed without a plan",
                    rec->id);
    rc = take_accepted(r, rec, err, err_len);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < r->plan->n_items; i++) {
        const struct plan_item *item = &r->plan->items[i];

        if (!item->wants_token)
            continue;
        if (n == rec->n_tokens)
            return fail(ERR_FORMAT, err, err_len, "step %" PRIu64 " has too few tokens", rec->id);
        r->tokens[i] = rec->tokens[n++];
        if (add_token(r, item, r->tokens[i]) < 0)
            return no_memory(err, err_len);
    }
    if (n != rec->n_tokens)
        return fail(ERR_FORMAT, err, err_len, "step %" PRIu64 " has too many tokens", rec->id);
    if (note_step(r, rec->now_us - r->planned_us) < 0)
        return no_memory(err, err_len);
    r->plan = NULL;
    sched_commit(r->sched, r->tokens, r->n_accepted, is_eog, r, rec->now_us);
    return 0;
}

/* ---- plans ---- */

static int compare_items(const struct plan *p, const struct replay_record *rec, char *err,
                         size_t err_len)
{
    for (uint32_t i = 0; i < p->n_items && i < rec->n_items; i++) {
        const struct plan_item *a = &p->items[i];
        const struct replay_item *b = &rec->items[i];

        if (a->request->id != b->request || a->first != b->first || a->n != b->n ||
            a->wants_token != b->wants_token)
            return fail(ERR_INVAL, err, err_len, "step %" PRIu64 ", item %u: the journal has %u "
                        "tokens of request %" PRIu64 " from position %u, the replay %u of request "
                        "%" PRIu64 " from position %u", rec->id, i, b->n, b->request, b->first,
                        a->n, a->request->id, a->first);
    }
    if (p->n_items != rec->n_items)
        return fail(ERR_INVAL, err, err_len, "step %" PRIu64 ": the journal has %u items, the "
                    "replay %u", rec->id, rec->n_items, p->n_items);
    return 0;
}

static int compare_lists(const struct plan *p, const struct replay_record *rec, char *err,
                         size_t err_len)
{
    static const char *const names[] = {"admits", "preempts", "swaps out", "swaps in"};
    const uint64_t *const ids[] = {p->admitted, p->preempted, p->swapped_out, p->swapped_in};
    const uint32_t n[] = {p->n_admitted, p->n_preempted, p->n_swapped_out, p->n_swapped_in};

    for (int k = 0; k < REPLAY_LISTS; k++) {
        const struct replay_ids *list = &rec->lists[k];

        if (n[k] != list->n)
            return fail(ERR_INVAL, err, err_len, "step %" PRIu64 ": the journal %s %u, the replay "
                        "%u", rec->id, names[k], list->n, n[k]);
        for (uint32_t i = 0; i < n[k]; i++)
            if (ids[k][i] != list->ids[i])
                return fail(ERR_INVAL, err, err_len, "step %" PRIu64 ": the journal %s request %"
                            PRIu64 ", the replay request %" PRIu64, rec->id, names[k],
                            list->ids[i], ids[k][i]);
    }
    return 0;
}

static void note_costs(struct replay *r, const struct step_costs *c)
{
    r->costs = *c;
    r->sum.step_ns += c->step_ns;
    r->sum.prefill_ns += c->prefill_ns;
    r->sum.decode_ns += c->decode_ns;
    r->sum.kv_decode_ps += c->kv_decode_ps;
    r->sum.kv_prefill_ps += c->kv_prefill_ps;
    r->n_known++;
}

static int take_plan(struct replay *r, const struct replay_record *rec, char *err, size_t err_len)
{
    const struct plan *p;
    int rc;

    if (r->plan != NULL)
        return fail(ERR_FORMAT, err, err_len, "step %" PRIu64 " was not committed", r->plan->step);
    if (r->has_moves)
        return fail(ERR_FORMAT, err, err_len, "the moves of the previous plan were not done");
    r->limits = rec->limits;
    if (rec->limits.costs.is_known)
        note_costs(r, &rec->limits.costs);
    r->planned_us = rec->now_us;
    r->drafter = (struct recorded_drafter){
        .drafts = rec->drafts, .n = rec->n_drafts, .eog = r->eog, .n_eog = r->n_eog};
    p = sched_plan(r->sched, rec->now_us, &r->limits);
    rc = compare_items(p, rec, err, err_len);
    if (rc == 0)
        rc = compare_lists(p, rec, err, err_len);
    if (rc < 0)
        return rc;
    if (p->step != rec->id)
        return fail(ERR_INVAL, err, err_len, "the journal has step %" PRIu64 ", the replay step %"
                    PRIu64, rec->id, p->step);
    if (p->n_moves != rec->n_moves)
        return fail(ERR_INVAL, err, err_len, "step %" PRIu64 ": the journal has %u moves, the "
                    "replay %u", rec->id, rec->n_moves, p->n_moves);
    r->plan = p->n_items > 0 ? p : NULL;
    r->has_moves = p->n_moves > 0;
    r->stats.n_plans++;
    return 0;
}

/* ---- the block store ---- */

static int take_fetch(struct replay *r, const struct replay_record *rec, char *err, size_t err_len)
{
    struct sched_fetch fetch;

    if (!sched_next_fetch(r->sched, &fetch))
        return fail(ERR_INVAL, err, err_len, "the journal asks the store for request %" PRIu64
                    ", the replay does not", rec->id);
    if (fetch.request != rec->id || fetch.first != rec->first || fetch.n != rec->n_blocks)
        return fail(ERR_INVAL, err, err_len, "the journal asks the store for %u blocks of request "
                    "%" PRIu64 " from block %u, the replay for %u of request %" PRIu64
                    " from block %u", rec->n_blocks, rec->id, rec->first, fetch.n, fetch.request,
                    fetch.first);
    return 0;
}

/* ---- all kinds of records ---- */

static int take_record(struct replay *r, struct replay_record *rec, char *err, size_t err_len)
{
    const block_id *ids;
    uint32_t from;

    switch (rec->kind) {
    case REPLAY_START:
        return take_start(r, rec, err, err_len);
    case REPLAY_POST:
        return take_post(r, rec, err, err_len);
    case REPLAY_CANCEL:
        r->stats.n_cancels++;
        sched_cancel(r->sched, rec->id, rec->why, rec->now_us);
        return 0;
    case REPLAY_CANCEL_ALL:
        r->stats.n_cancels++;
        sched_cancel_all(r->sched, rec->why, rec->now_us);
        return 0;
    case REPLAY_PLAN:
        return take_plan(r, rec, err, err_len);
    case REPLAY_MOVES_DONE:
        r->has_moves = false;
        sched_moves_done(r->sched);
        return 0;
    case REPLAY_IO_START:
        return take_io_start(r, rec, err, err_len);
    case REPLAY_IO_DONE:
        return take_io_done(r, rec, err, err_len);
    case REPLAY_COMMIT:
        return take_commit(r, rec, err, err_len);
    case REPLAY_STORED:
        sched_stored(r->sched, rec->id, rec->n_blocks);
        return 0;
    case REPLAY_FETCH:
        return take_fetch(r, rec, err, err_len);
    case REPLAY_FETCHED:
        (void)sched_fetched(r->sched, rec->id, rec->first, rec->n_blocks, rec->is_last, &from,
                            &ids);
        return 0;
    case REPLAY_DROPPED:
        return fail(ERR_FORMAT, err, err_len,
                    "%" PRIu64
                    " lines are missing here, because the journal's buffer was full while the disk "
                    "was slow or full; the run cannot be replayed any further",
                    rec->id);
    }
    return fail(ERR_FORMAT, err, err_len, "unknown kind");
}

static bool has_time(enum replay_kind kind)
{
    return kind == REPLAY_POST || kind == REPLAY_CANCEL || kind == REPLAY_CANCEL_ALL ||
           kind == REPLAY_PLAN || kind == REPLAY_COMMIT;
}

int replay_take(struct replay *r, struct replay_record *rec, char *err, size_t err_len)
{
    int rc = 0;

    if (r->sched == NULL && rec->kind != REPLAY_START)
        return fail(ERR_FORMAT, err, err_len, "the journal does not begin with a start");
    if (r->plan != NULL && rec->kind != REPLAY_START && rec->kind != REPLAY_COMMIT &&
        rec->kind != REPLAY_MOVES_DONE && rec->kind != REPLAY_IO_START &&
        rec->kind != REPLAY_FETCH && rec->kind != REPLAY_DROPPED)
        return fail(ERR_FORMAT, err, err_len, "step %" PRIu64 " was not committed", r->plan->step);
    if (has_time(rec->kind))
        rc = advance_replay(r, rec->now_us, err, err_len);
    if (rc == 0)
        rc = take_record(r, rec, err, err_len);
    if (rc == 0)
        take_ends(r);
    return rc;
}

bool replay_check(const struct replay *r)
{
    return r->sched == NULL || sched_check(r->sched);
}

struct replay_stats replay_stats(const struct replay *r)
{
    return r->stats;
}

uint64_t replay_unix_us(const struct replay *r)
{
    return r->unix_us;
}

#define MAX_PACE 1000000 /* a thousand times the predicted time: the process was stopped */

/* Store the paces of the steps with or without prompt rows in r->paces[at ..]. */
static struct simulate_paces paces_of(struct replay *r, const struct step_costs *c,
                                      bool has_prompt, size_t at)
{
    struct simulate_paces out = {.v = r->paces + at};

    for (size_t i = 0; i < r->n_steps; i++) {
        const uint64_t ns = step_costs_ns(c, &r->steps[i].work);
        const double pace = 1e6 * (double)r->steps[i].us / (double)(ns > 0 ? ns : 1);

        if ((r->steps[i].work.n_prefill > 0) == has_prompt)
            r->paces[at + out.n++] = pace < MAX_PACE ? (uint32_t)pace : MAX_PACE;
    }
    return out;
}

int replay_recorded_costs(struct replay *r, struct simulate_options *options)
{
    struct step_costs *c = &options->truth;

    c->step_ns = r->sum.step_ns / r->n_known;
    c->prefill_ns = r->sum.prefill_ns / r->n_known;
    c->decode_ns = r->sum.decode_ns / r->n_known;
    c->kv_decode_ps = r->sum.kv_decode_ps / r->n_known;
    c->kv_prefill_ps = r->sum.kv_prefill_ps / r->n_known;
    mem_free(r->paces);
    r->paces = mem_calloc(r->n_steps + 1, sizeof(*r->paces));
    if (r->paces == NULL)
        return ERR_NOMEM;
    options->paces[0] = paces_of(r, c, false, 0);
    options->paces[1] = paces_of(r, c, true, options->paces[0].n);
    return 0;
}

bool replay_trace(struct replay *r, struct simulate_options *options,
                  const struct simulate_arrival **arrivals, size_t *n)
{
    if (r->trace.n == 0 || !r->costs.is_known)
        return false;
    *options = (struct simulate_options){
        .sched = r->options,
        .kv = r->kv_options,
        .truth = r->costs,
        .target_us = r->limits.target_us,
    };
    options->sched.kv = NULL;
    options->sched.drafter = (struct drafter){0};
    *arrivals = trace_arrivals(&r->trace);
    *n = r->trace.n;
    return true;
}
