/* core/runtime/forward_mtp.c - a layer that guesses tokens; see forward.h and mtp.h.
 *
 * Its input at a position is eh_proj of two vectors in a row: the token's embedding, and the hidden
 * state before it, each normed. The hidden state is the model's, after its last norm, or, from the
 * second guess on, the layer's own, after its output norm (as in llama.cpp and vLLM).
 *
 * In a step only the layer's keys and values are computed, because later guesses attend to them.
 * For a guess it runs like any other layer, and its output makes logits.
 */
#include "core/runtime/forward.h"

#include "core/base/clock.h"

#include <string.h>

/* ---- pairs of vectors ---- */

/* Return the hidden state at the position before a row of the step, in `room` or elsewhere; NULL:
 * it is not known. */
static const float *hidden_before(const struct runner *r, uint32_t row, float *room)
{
    const struct batch_span *span = &r->batch->spans[r->batch->span_of[row]];

    if (row == span->row0)
        return mtp_hidden(&r->mtp, span->slot, span->owner, span->pos0);
    norm_row(r, room, r->x + (row - 1) * r->embd_stride, &r->model->output_norm,
             r->model->shape.n_embd);
    return room;
}

static void join_row(struct runner *r, uint32_t row, uint32_t at, bool is_guess)
{
    const struct model_mtp *mtp = &r->model->mtp;
    const size_t n = r->model->shape.n_embd;
    float *pair = r->mtp.pairs + at * r->mtp.pair_stride;
    const float *hidden = is_guess ? r->mtp.from[row] : hidden_before(r, row, pair + n);

    unpack_row(&mtp->embed, (uint32_t)r->batch->ids[row], pair);
    if (r->model->shape.embed_scale != 1.0f)
        r->kern.scale(pair, r->model->shape.embed_scale, n);
    norm_row(r, pair, pair, &mtp->embed_norm, n);
    if (hidden == NULL)
        memset(pair + n, 0, n * sizeof(*pair));
    else
        norm_row(r, pair + n, hidden, &mtp->hidden_norm, n);
    if (is_quantised(&mtp->eh_proj))
        r->kern.quantise(r->mtp.pair_qrows + at * r->mtp.pair_qrow_stride, 2 * n, pair, 0, 2 * n);
}

/* Compute the guessing layer's input into `out`. In a step `out` is not r->x. */
static void join_hidden(struct runner *r, struct thread_pool_worker *w, bool is_guess, float *out)
{
    const struct input in = {r->mtp.pairs, r->mtp.pair_stride, r->mtp.pair_qrows,
                             r->mtp.pair_qrow_stride};
    const uint32_t n_rows = r->batch->n_rows;
    uint32_t from, to;

    for (uint32_t at = 0; at < n_rows; at += MTP_TILE_ROWS) {
        const uint32_t n = n_rows - at < MTP_TILE_ROWS ? n_rows - at : MTP_TILE_ROWS;
        const struct product p = {.w = &r->model->mtp.eh_proj,
                                  .out = out + at * r->embd_stride,
                                  .out_stride = r->embd_stride};

        while (take_rows_of(r, w, n, &from, &to))
            for (uint32_t i = from; i < to; i++)
                join_row(r, at + i, i, is_guess);
        end_region(r, w, RUNNER_MTP);
        products(r, w, &p, 1, &in, n, RUNNER_MTP);
    }
}

/* ---- in a step ---- */

/* Norm the layer's input, r->delta. */
static void norm_input(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const size_t n = r->model->shape.n_embd;
    const bool quantise = attention_quantises(l);
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            float *norm = r->norm + i * r->embd_stride;

            norm_row(r, norm, r->delta + i * r->embd_stride, &l->attn_norm, n);
            if (quantise)
                quantise_row(r, i, norm, n);
        }
    end_region(r, w, RUNNER_MTP);
}

static void keep_hidden(struct runner *r, uint32_t i)
{
    const struct batch_span *span = &r->batch->spans[i];
    const uint32_t row = r->mtp.last[i];

    if (span->owner == 0)
        return;
    norm_row(r, r->mtp.hidden + span->slot * r->mtp.stride, r->x + row * r->embd_stride,
             &r->model->output_norm, r->model->shape.n_embd);
    r->mtp.kept[span->slot] = (struct mtp_kept){
        .owner = span->owner, .pos = r->batch->pos[row] + 1, .is_there = true};
}

static void keep_all(struct runner *r, struct thread_pool_worker *w)
{
    uint32_t from, to;

    if (w->index == 0)
        mtp_find_last(&r->mtp, r->batch);
    thread_pool_barrier(w);
    while (thread_pool_take(w, r->batch->n_spans, 1, &from, &to))
        for (uint32_t i = from; i < to; i++)
            keep_hidden(r, i);
    end_region(r, w, RUNNER_MTP);
}

void mtp_step(struct runner *r, struct thread_pool_worker *w)
{
    const uint32_t layer = r->model->shape.n_layer;

    join_hidden(r, w, false, r->delta); /* not into r->x, from which the hidden states are computed
                                         * later */
    keep_all(r, w);
    norm_input(r, w, &r->model->layers[layer]);
    if (r->model->shape.n_latent > 0)
        mla_keys(r, w, layer);
    else
        attention_keys(r, w, layer);
}

/* ---- guesses ---- */

static void keep_guessed(struct runner *r, struct thread_pool_worker *w)
{
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            norm_row(r, r->mtp.guessed + r->batch->spans[i].slot * r->mtp.stride,
                     r->x + i * r->embd_stride, &r->model->mtp.output_norm,
                     r->model->shape.n_embd);
    end_region(r, w, RUNNER_MTP);
}

void runner_forward_mtp(void *ud, struct thread_pool_worker *w)
{
    struct runner *r = ud;
    const struct norm none = {0};
    struct residual pending[2] = {{0}};

    if (w->index == 0)
        r->since_ns = clock_ns();
    join_hidden(r, w, true, r->x);
    run_layer(r, w, r->model->shape.n_layer, pending);
    residual_norm(r, w, pending, &none, false);
    keep_guessed(r, w);
    outputs(r, w, &r->model->mtp.output_norm, &r->model->mtp.output);
}
