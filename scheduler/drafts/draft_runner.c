/* scheduler/drafts/draft_runner.c - see draft_runner.h.
 *
 * A slot of the scheduler has a slot here, with a block table in the draft model's own cache.
 * guess() runs one batch for each depth: each stream adds the rows that its slot lacks, and its
 * last row yields the next guess, which becomes input of the next batch. Before a slot is used
 * again, keep_right() compares the guesses that were computed with the tokens that were chosen, and
 * truncates the slot at the first difference. When the cache is full, grow_slot() takes the blocks
 * of the slot that was used longest ago.
 */
#include "scheduler/drafts/draft_runner.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/runtime/batch.h"
#include "core/runtime/runner.h"
#include "kvcache/kv_manager.h"
#include "kvcache/kv_move.h"
#include "scheduler/drafts/draft_stream.h"
#include "scheduler/request/plan_item.h"
#include "scheduler/request/request.h"

#include <assert.h>

struct draft_slot {
    uint64_t request;     /* the request whose text it has; 0: none */
    uint32_t n_discarded; /* tokens that context shifts had thrown away of that text */
    struct kv_seq kv;
    struct kv_key key;
    uint32_t n_done;      /* tokens computed: known ones, and then guesses */
    uint32_t n_sure;      /* of the n_done tokens: those that were known when the last guesses were
                           * made */
    int32_t ids[DRAFT_MAX]; /* the guesses after the first n_sure tokens */
    uint32_t n_ids;
    uint64_t used;        /* serial number of the latest call for this slot */
};

struct draft_runner {
    struct draft_runner_options opt;
    struct draft_slot *slots;    /* [max_sequences] */
    block_id *tables;            /* [max_sequences] block tables of the slots */
    struct prefix_hash *hashes;  /* [max_sequences] prefix hashes of the slots */
    struct batch *batch;
    struct sampling sampling[DRAFT_ROWS]; /* by stream of the current call */
    struct draft_model_costs costs;
    uint64_t serial;
};

/* ---- slots ---- */

static void leave_slot(struct draft_runner *d, struct draft_slot *slot)
{
    kv_manager_release(d->opt.manager, &slot->kv);
    slot->request = 0;
    slot->n_done = slot->n_ids = 0;
}

static void enter(struct draft_runner *d, struct draft_slot *slot, const struct draft_stream *s)
{
    const struct request *r = s->item->request;

    leave_slot(d, slot);
    slot->request = r->id;
    slot->n_discarded = s->item->n_discarded;
    slot->key.ids = r->ids;
    slot->key.salt = r->key.salt;
    slot->key.n_hashed = 0;
    slot->n_done = kv_manager_attach(d->opt.manager, &slot->kv, &slot->key, s->n_known - 1);
}

static bool is_of(const struct draft_slot *slot, const struct draft_stream *s)
{
    return slot->request == s->item->request->id && slot->n_discarded == s->item->n_discarded;
}

/* Keep the computed guesses that came true, without the stream's last token, which is computed
 * again. Give the blocks after these tokens back. */
static void keep_right(struct draft_runner *d, struct draft_slot *slot,
                       const struct draft_stream *s)
{
    const int32_t *ids = s->item->request->ids;
    uint32_t n_right = slot->n_sure;

    for (uint32_t i = 0; i < slot->n_ids && n_right + 1 < s->n_known; i++, n_right++)
        if (slot->ids[i] != ids[n_right])
            break;
    slot->n_ids = 0;
    n_right = n_right < s->n_known - 1 ? n_right : s->n_known - 1;
    if (slot->n_done <= n_right)
        return;
    slot->n_done = n_right;
    kv_manager_truncate(d->opt.manager, &slot->kv, slot->n_done);
}

/* Return the stream's slot. Tokens in it that are not the stream's text are dropped first. */
static struct draft_slot *stream_slot(struct draft_runner *d, const struct draft_stream *s)
{
    struct draft_slot *slot = &d->slots[s->item->slot];

    if (!is_of(slot, s)) {
        enter(d, slot, s);
    } else if (slot->n_ids > 0) {
        keep_right(d, slot, s);
        kv_manager_commit(d->opt.manager, &slot->kv, &slot->key, slot->n_done);
    }
    slot->used = d->serial;
    assert(slot->n_done < s->n_known);
    return slot;
}

/* Return the slot that was used longest ago and is not used in the current call; NULL: there is
 * none. */
static struct draft_slot *oldest(struct draft_runner *d)
{
    struct draft_slot *best = NULL;

    for (uint32_t i = 0; i < d->opt.max_sequences; i++) {
        struct draft_slot *slot = &d->slots[i];

        if (slot->request != 0 && slot->used < d->serial &&
            (best == NULL || slot->used < best->used))
            best = slot;
    }
    return best;
}

/* Allocate the slot's blocks up to token `to`, emptying other slots if blocks are short. False: no
 * room. */
static bool grow_slot(struct draft_runner *d, struct draft_slot *slot, uint32_t to)
{
    struct draft_slot *other;

    while (kv_manager_alloc(d->opt.manager, &slot->kv, slot->n_done, to) < 0) {
        other = oldest(d);
        if (other == NULL)
            return false;
        leave_slot(d, other);
    }
    return true;
}

static uint32_t n_behind(void *ud, const struct draft_stream *s)
{
    struct draft_runner *d = ud;
    const struct draft_slot *slot = &d->slots[s->item->slot];

    if (s->n_known + DRAFT_MAX > d->opt.max_context)
        return DRAFT_FAR;
    if (is_of(slot, s) && slot->n_ids > 0 && slot->n_sure == s->n_known)
        return 0; /* this plan has its guesses already */
    return s->n_known - 1 - stream_slot(d, s)->n_done;
}

/* ---- batches ---- */

/* Add rows slot->n_done .. to-1 of the stream to the batch. Returns the last one's index in it. */
static uint32_t add_draft_rows(struct draft_runner *d, const struct draft_slot *slot,
                               const struct draft_stream *s, uint32_t to)
{
    const int32_t *ids = s->item->request->ids;

    return batch_add_span(d->batch, ids + slot->n_done, to - slot->n_done, slot->n_done,
                          slot->kv.table.blocks, slot->kv.table.cap) +
           to - slot->n_done - 1;
}

/* Carry out pending block moves and run the batch. Returns the microseconds it took. */
static uint64_t run_draft_step(struct draft_runner *d)
{
    const uint64_t from = clock_us();
    uint32_t n_moves;
    const struct kv_move *moves = kv_manager_moves(d->opt.manager, &n_moves);

    if (n_moves > 0)
        kv_move_run(moves, n_moves, &(struct kv_bytes){.kv = d->opt.kv});
    kv_manager_moves_done(d->opt.manager);
    runner_step(d->opt.runner, d->batch);
    return clock_us() - from;
}

static bool take_in_prompt(void *ud, const struct draft_stream *s, uint32_t n)
{
    struct draft_runner *d = ud;
    struct draft_slot *slot;
    uint32_t to;

    d->serial++;
    slot = stream_slot(d, s);
    n = n < DRAFT_RUNNER_ROWS ? n : DRAFT_RUNNER_ROWS;
    to = slot->n_done + n < s->n_known ? slot->n_done + n : s->n_known - 1;
    if (to == slot->n_done || !grow_slot(d, slot, to))
        return false;
    n = to - slot->n_done;
    batch_clear(d->batch);
    add_draft_rows(d, slot, s, to);
    draft_model_costs_took_in(&d->costs, n, run_draft_step(d));
    slot->n_done = to;
    kv_manager_commit(d->opt.manager, &slot->kv, &slot->key, to);
    return true;
}

/* ---- guesses ---- */

static void begin_drafts(struct draft_runner *d, struct draft_stream *streams, uint32_t n)
{
    d->serial++;
    for (uint32_t i = 0; i < n; i++) {
        struct draft_slot *slot = stream_slot(d, &streams[i]);

        d->sampling[i] = draft_stream_sampling(streams[i].item->request);
        slot->n_sure = streams[i].n_known;
        draft_stream_begin(&streams[i], DRAFT_MODEL);
    }
}

/* Add an output: the token sampled at `row` is the stream's next guess. */
static void ask_draft_model(struct draft_runner *d, const struct draft_stream *s, uint32_t i,
                            uint32_t row)
{
    struct batch_output *o = batch_add_output(d->batch, row);
    const struct request *r = s->item->request;

    o->want = BATCH_SAMPLE;
    o->sampling = &d->sampling[i];
    o->pos = s->n_known + s->draft.n;
    o->counts = r->counts.list;
    o->n_counts = r->counts.n;
    o->n_uncounted = s->draft.n;
    o->history = r->ids;
    o->n_discarded = s->item->n_discarded;
    o->seq = i;
}

/* Fill the batch with the rows of streams[first ..] that are to have guess number `depth`, as long
 * as they fit. Returns the first stream that does not fit. */
static uint32_t fill_batch(struct draft_runner *d, struct draft_stream *streams, uint32_t first,
                           uint32_t n, uint32_t depth)
{
    uint32_t i;

    batch_clear(d->batch);
    for (i = first; i < n; i++) {
        struct draft_stream *s = &streams[i];
        struct draft_slot *slot = &d->slots[s->item->slot];
        const uint32_t to = s->n_known + s->draft.n;

        if (!draft_stream_wants(s, depth))
            continue;
        if (d->batch->n_rows + to - slot->n_done > DRAFT_RUNNER_ROWS)
            break;
        if (!grow_slot(d, slot, to)) {
            draft_stream_end(s);
            continue;
        }
        ask_draft_model(d, s, i, add_draft_rows(d, slot, s, to));
        slot->n_done = to;
    }
    return i;
}

/* Take the batch's output as a guess. A token id that only the draft model knows ends the stream's
 * guesses. */
static void take_guess(struct draft_runner *d, struct draft_stream *s, const struct batch_output *o)
{
    struct draft_slot *slot = &d->slots[s->item->slot];

    if ((uint32_t)o->token >= d->opt.n_vocab)
        draft_stream_end(s);
    else
        draft_stream_take(s, o->token, o->logprob, d->opt.eog, d->opt.n_eog);
    for (; slot->n_ids < s->draft.n; slot->n_ids++)
        slot->ids[slot->n_ids] = s->item->request->ids[s->n_known + slot->n_ids];
}

static void guess(void *ud, struct draft_stream *streams, uint32_t n, uint32_t depth)
{
    struct draft_runner *d = ud;

    begin_drafts(d, streams, n);
    for (uint32_t k = 1; k <= depth; k++)
        for (uint32_t i = 0; i < n;) {
            i = fill_batch(d, streams, i, n, k);
            if (d->batch->n_rows == 0)
                break;
            draft_model_costs_guessed(&d->costs, d->batch->n_rows, run_draft_step(d));
            for (uint32_t j = 0; j < d->batch->n_outputs; j++)
                take_guess(d, &streams[d->batch->outputs[j].seq], &d->batch->outputs[j]);
        }
}

/* ---- all of it ---- */

void draft_runner_destroy(struct draft_runner **d)
{
    if (d == NULL || *d == NULL)
        return;
    for (uint32_t i = 0; (*d)->slots != NULL && i < (*d)->opt.max_sequences; i++)
        if ((*d)->slots[i].request != 0)
            leave_slot(*d, &(*d)->slots[i]);
    batch_destroy(&(*d)->batch);
    mem_free((*d)->slots);
    mem_free((*d)->tables);
    mem_free((*d)->hashes);
    mem_free(*d);
    *d = NULL;
}

int draft_runner_create(struct draft_runner **out, const struct draft_runner_options *options)
{
    const uint32_t n_groups = kv_manager_n_groups(options->manager);
    const uint32_t n_table = block_table_needed(options->max_context);
    struct draft_runner *d = mem_calloc(1, sizeof(*d));
    const uint32_t n = options->max_sequences;

    *out = NULL;
    if (d == NULL)
        return ERR_NOMEM;
    d->opt = *options;
    d->costs.weight = options->weight;
    d->slots = mem_calloc(n, sizeof(*d->slots));
    d->tables = mem_calloc((size_t)n * n_groups * n_table, sizeof(*d->tables));
    d->hashes = mem_calloc((size_t)n * n_table, sizeof(*d->hashes));
    if (d->slots == NULL || d->tables == NULL || d->hashes == NULL ||
        batch_create(&d->batch, DRAFT_RUNNER_ROWS, DRAFT_ROWS, DRAFT_ROWS) < 0) {
        draft_runner_destroy(&d);
        return ERR_NOMEM;
    }
    for (uint32_t i = 0; i < n; i++) {
        kv_seq_init(&d->slots[i].kv, d->tables + (size_t)i * n_groups * n_table, n_table,
                    n_groups);
        d->slots[i].key.hashes = d->hashes + (size_t)i * n_table;
    }
    *out = d;
    return 0;
}

struct draft_model_costs *draft_runner_costs(struct draft_runner *d)
{
    return &d->costs;
}

struct draft_model draft_runner_get(struct draft_runner *d)
{
    return (struct draft_model){.ud = d,
                                .source = DRAFT_MODEL,
                                .n_behind = n_behind,
                                .take_in = take_in_prompt,
                                .guess = guess};
}
