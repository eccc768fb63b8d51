/* core/runtime/mtp.c - guesses: from a sequence's state to rows of a batch, and back; see mtp.h and
 * runner.h.
 *
 * runner_guess() turns each guess into a span of one row in a batch of its own, whose block table
 * is the sequence's table with the private blocks of its slot at the end, and whose output samples
 * like any other. The engine thread calls it once for each further guess; the hidden state to
 * continue from is the model's for the first guess and the layer's own afterwards.
 */
#include "core/runtime/mtp.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/model/model.h"
#include "core/runtime/runner_impl.h"
#include "core/runtime/thread_pool.h"
#include "kvcache/block_table.h"
#include "kvcache/kv_store.h"

#include <assert.h>
#include <string.h>

#define PAGE 4096u /* bytes of a page: a private block takes whole pages in each layer */

_Static_assert(RUNNER_MAX_GUESSES <= (MTP_PRIVATE_BLOCKS - 1) * BLOCK_TOKENS,
               "guesses that begin in a block end in the next one");

static size_t mtp_panels(size_t n)
{
    return (n + KERN_LANES - 1) / KERN_LANES * KERN_LANES;
}

static const struct model_layer *layer_of(const struct runner *r)
{
    return &r->model->layers[r->model->shape.n_layer];
}

/* ---- buffers ---- */

static void set_sizes(struct runner *r, const struct runner_options *o)
{
    struct mtp *m = &r->mtp;
    const size_t n_embd = r->model->shape.n_embd, layer = r->kv->layer_stride;

    m->n_slots = o->n_slots;
    m->stride = mtp_panels(n_embd);
    m->pair_stride = mtp_panels(2 * n_embd);
    m->pair_qrow_stride = kern_qrow_bytes(m->pair_stride + 16);
    m->table_cap = block_table_needed(r->model->shape.n_ctx) + MTP_PRIVATE_BLOCKS;
    r->scratch_bytes += 2 * m->n_slots * m->stride * sizeof(float) +
                        MTP_TILE_ROWS * (m->pair_stride * sizeof(float) + m->pair_qrow_stride) +
                        (size_t)m->n_slots * m->table_cap * sizeof(*m->tables) +
                        (size_t)runner_private_blocks(r->model, m->n_slots) *
                            ((layer + PAGE - 1) / PAGE + 1) * PAGE;
}

int mtp_create(struct runner *r, const struct runner_options *o)
{
    struct mtp *m = &r->mtp;
    const size_t n = o->n_slots;

    if (n == 0)
        return 0;
    assert(r->model->has_mtp && n <= o->max_rows);
    set_sizes(r, o);
    m->kept = mem_calloc(n, sizeof(*m->kept));
    m->hidden = mem_aligned(n * m->stride, sizeof(*m->hidden));
    m->guessed = mem_aligned(n * m->stride, sizeof(*m->guessed));
    m->last = mem_calloc(o->max_rows, sizeof(*m->last));
    m->pairs = mem_aligned(MTP_TILE_ROWS * m->pair_stride, sizeof(*m->pairs));
    m->pair_qrows = mem_aligned(MTP_TILE_ROWS, m->pair_qrow_stride);
    m->from = mem_calloc(n, sizeof(*m->from));
    m->tables = mem_calloc(n * m->table_cap, sizeof(*m->tables));
    if (m->kept == NULL || m->hidden == NULL || m->guessed == NULL || m->last == NULL ||
        m->pairs == NULL || m->pair_qrows == NULL || m->from == NULL || m->tables == NULL)
        return ERR_NOMEM;
    return batch_create(&m->batch, o->n_slots, o->n_slots, o->n_slots);
}

void mtp_release(struct mtp *m)
{
    mem_free(m->kept);
    mem_free(m->hidden);
    mem_free(m->guessed);
    mem_free(m->last);
    mem_free(m->pairs);
    mem_free(m->pair_qrows);
    mem_free(m->from);
    mem_free(m->tables);
    batch_destroy(&m->batch);
    *m = (struct mtp){0};
}

uint32_t runner_private_blocks(const struct model *m, uint32_t n_slots)
{
    return m->has_mtp ? MTP_PRIVATE_BLOCKS * n_slots : 0;
}

static double bytes_of(const struct matrix *m)
{
    return (double)m->n_panels * (double)m->panel_bytes;
}

/* Return the share of a step's bytes that a guess reads: the output matrix, and one layer's share
 * of all weights except embedding and output. Both read few experts, so that the ratio holds for
 * mixtures too. */
double runner_guess_weight(const struct model *m)
{
    const double ends = bytes_of(&m->embed) +
                        (m->output.data != m->embed.data ? bytes_of(&m->output) : 0);
    const double layer = ((double)m->weight_bytes - ends) / model_n_layers(m);
    const double output = bytes_of(&m->output);

    return (output + layer) / (output + layer * m->shape.n_layer);
}

/* ---- in a step ---- */

const float *mtp_hidden(const struct mtp *m, uint32_t slot, uint64_t owner, uint32_t pos)
{
    const struct mtp_kept *k = m->kept + slot;

    if (owner == 0)
        return NULL;
    assert(slot < m->n_slots);
    return k->is_there && k->owner == owner && k->pos == pos ? m->hidden + slot * m->stride : NULL;
}

void mtp_find_last(struct mtp *m, const struct batch *b)
{
    for (uint32_t i = 0; i < b->n_spans; i++)
        m->last[i] = b->spans[i].row0 + b->spans[i].n_row - 1;
    for (uint32_t i = b->n_outputs; i > 0; i--) {
        const struct batch_output *o = &b->outputs[i - 1];

        if (o->is_draft && o->is_void)
            m->last[b->span_of[o->row]] = o->row - 1;
    }
}

/* ---- guesses ---- */

/* Copy the sequence's block table. Its last block, if it is not full, and all later blocks become
 * the private blocks of the slot. */
static void make_table(struct runner *r, const struct runner_guess *g)
{
    const struct kv_location *at = &layer_of(r)->kv;
    const uint32_t n = g->pos / BLOCK_TOKENS;
    const block_id own = r->kv->n_blocks + 1 + MTP_PRIVATE_BLOCKS * g->slot;
    const block_id *blocks = g->table + at->group * g->group_stride;
    block_id *table = r->mtp.tables + (size_t)g->slot * r->mtp.table_cap;

    memcpy(table, blocks, n * sizeof(*table));
    for (uint32_t i = 0; i < MTP_PRIVATE_BLOCKS; i++)
        table[n + i] = own + i;
    if (g->pos % BLOCK_TOKENS > 0)
        kv_store_copy_layer(r->kv, blocks[n], own, at->at);
}

static void add_output(struct runner *r, const struct runner_guess *g, uint32_t row)
{
    struct batch_output *o = batch_add_output(r->mtp.batch, row);

    o->want = BATCH_SAMPLE;
    o->sampling = g->sampling;
    o->pos = g->pos + 1 + g->n_made;
    o->history = g->ids;
    o->counts = g->counts;
    o->n_counts = g->n_counts;
    o->n_uncounted = g->n_made;
    o->n_discarded = g->n_discarded;
}

static void add_row(struct runner *r, const struct runner_guess *g)
{
    struct mtp *m = &r->mtp;
    const uint32_t pos = g->pos + g->n_made;
    const block_id *table = m->tables + (size_t)g->slot * m->table_cap;
    const uint32_t row = batch_add_span(m->batch, g->ids + pos, 1, pos, table, 0);

    m->batch->spans[row].slot = g->slot;
    m->from[row] = (g->n_made == 0 ? m->hidden : m->guessed) + g->slot * m->stride;
    add_output(r, g, row);
}

static void run_mtp_layer(struct runner *r)
{
    r->batch = r->mtp.batch;
    r->n_adapters = 0;
    split_kv_make(&r->split_kv, r->batch);
    if (r->model->shape.window > 0)
        split_kv_make(&r->window_split_kv, r->batch);
    thread_pool_run(r->pool, runner_forward_mtp, r);
}

bool runner_can_guess(const struct runner *r, uint32_t slot, uint64_t owner, uint32_t pos)
{
    return r->mtp.n_slots > 0 && mtp_hidden(&r->mtp, slot, owner, pos) != NULL;
}

void runner_guess(struct runner *r, struct runner_guess *guesses, uint32_t n)
{
    assert(n > 0 && n <= r->mtp.n_slots);
    batch_clear(r->mtp.batch);
    for (uint32_t i = 0; i < n; i++) {
        const struct runner_guess *g = &guesses[i];

        assert(g->n_made < RUNNER_MAX_GUESSES);
        assert(runner_can_guess(r, g->slot, g->owner, g->pos));
        if (g->n_made == 0)
            make_table(r, g);
        add_row(r, g);
    }
    run_mtp_layer(r);
    for (uint32_t i = 0; i < n; i++) {
        guesses[i].token = r->mtp.batch->outputs[i].token;
        guesses[i].logprob = r->mtp.batch->outputs[i].logprob;
    }
}
