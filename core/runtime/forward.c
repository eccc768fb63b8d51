/* core/runtime/forward.c - the forward pass: embeddings, layers, outputs; see forward.h.
 *
 * Every thread of the pool runs runner_forward() from end to end and calls the same regions in the
 * same order. A branch of a layer (attention, feed-forward net) is not added to x when it is done:
 * it stays `pending` until the next norm, which adds it and norms x in one pass over the row.
 * Logits are made for LOGIT_ROWS outputs at a time, so that their memory does not grow with the
 * batch.
 */
#include "core/runtime/forward.h"

#include "core/base/clock.h"

#include <assert.h>

void end_region(struct runner *r, struct thread_pool_worker *w, enum runner_part part)
{
    thread_pool_barrier(w);
    if (w->index == 0) {
        const uint64_t now = clock_ns();

        r->times.ns[part] += now - r->since_ns;
        r->since_ns = now;
    }
}

/* ---- embeddings ---- */

void unpack_row(const struct matrix *m, uint32_t row, float *out)
{
    assert(row < m->n_out);
    kern_unpack_row(m->type, matrix_panel(m, 0, row / KERN_LANES), row % KERN_LANES, out, m->n_in);
}

/* Token type of a row: 1 in the second of two texts that an encoder reads together, else 0. */
static size_t token_type(const struct runner *r, uint32_t row)
{
    const struct batch *b = r->batch;
    const uint32_t second_at = b->spans[b->span_of[row]].second_at;

    return r->model->shape.n_token_types > 1 && second_at > 0 && b->pos[row] >= second_at ? 1 : 0;
}

static void embed_row(struct runner *r, uint32_t row)
{
    const struct model *m = r->model;
    const size_t n = m->shape.n_embd;
    float *x = r->x + row * r->embd_stride, *pos = r->norm + row * r->embd_stride;

    unpack_row(&m->embed, (uint32_t)r->batch->ids[row], x);
    if (m->shape.embed_scale != 1.0f)
        r->kern.scale(x, m->shape.embed_scale, n);
    if (matrix_exists(&m->pos_embed)) {
        unpack_row(&m->pos_embed, r->batch->pos[row], pos);
        r->kern.add(x, pos, 1.0f, n);
    }
    if (m->type_embed != NULL)
        r->kern.add(x, m->type_embed + token_type(r, row) * n, 1.0f, n);
    norm_row(r, x, x, &m->embed_norm, n);
}

static void embed(struct runner *r, struct thread_pool_worker *w)
{
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++)
            embed_row(r, i);
    end_region(r, w, RUNNER_EMBED);
}

/* ---- layers ---- */

struct residual attention_residual(const struct runner *r, const struct model_layer *l)
{
    return (struct residual){r->delta, l->attn_out_bias, l->attn_post_norm, l->attn_sum_norm,
                             l->attn_input_norm, NULL};
}

/* Return the residual of a feed-forward net or of experts; the experts' biases are added
 * already. */
struct residual ffn_residual(const struct runner *r, const struct model_layer *l)
{
    return (struct residual){r->ffn_out, matrix_exists(&l->router) ? NULL : l->ffn.down_bias,
                             l->ffn_post_norm, l->ffn_sum_norm, {0},
                             matrix_exists(&l->per_layer_gate) ? NULL : l->out_scale};
}

bool attention_quantises(const struct model_layer *l)
{
    return recurrent_quantises(l) || is_quantised(&l->attn_gate) || is_quantised(&l->q_down) ||
           is_quantised(&l->k) || is_quantised(&l->v) ||
           (!matrix_exists(&l->q_down) && is_quantised(&l->q)); /* with q_down, q takes the outputs
                                                                 * of q_down instead */
}

bool ffn_quantises(const struct model_layer *l)
{
    return is_quantised(&l->ffn.gate) || is_quantised(&l->ffn.up) || is_quantised(&l->router) ||
           is_quantised(&l->experts.gate) || is_quantised(&l->experts.up) ||
           is_quantised(&l->shared_gate);
}

/* Run the layer's attention, its recurrent part, or both. With both, the recurrent part writes into
 * r->ffn_out, because r->delta gets the result of attention. */
static void mix_tokens(struct runner *r, struct thread_pool_worker *w, uint32_t i,
                       struct residual pending[2])
{
    const struct model_layer *l = &r->model->layers[i];
    const bool is_recurrent = l->recurrent != RECURRENT_NONE;

    residual_norm(r, w, pending, &l->attn_norm, attention_quantises(l));
    pending[0] = l->has_attention ? attention_residual(r, l) : (struct residual){0};
    pending[1] = (struct residual){0};
    if (is_recurrent) { /* first, because attention overwrites the quantised rows of r->norm */
        pending[1].delta = l->has_attention ? r->ffn_out : r->delta;
        recurrent(r, w, i, l->has_attention ? r->ffn_out : r->delta);
    }
    if (l->has_attention && r->model->shape.n_latent > 0)
        mla_attention(r, w, i);
    else if (l->has_attention)
        attention(r, w, i);
}

void run_layer(struct runner *r, struct thread_pool_worker *w, uint32_t i,
               struct residual pending[2])
{
    const struct model_layer *l = &r->model->layers[i];
    const struct residual none[2] = {{0}};
    const bool is_parallel = r->model->shape.is_parallel;

    if (l->has_attention || l->recurrent != RECURRENT_NONE)
        mix_tokens(r, w, i, pending);
    if (!l->has_ffn)
        return;
    residual_norm(r, w, is_parallel ? none : pending, &l->ffn_norm, ffn_quantises(l));
    if (matrix_exists(&l->router))
        moe(r, w, l);
    else
        feed_forward(r, w, l);
    if (!is_parallel)
        pending[0] = none[0];
    pending[1] = ffn_residual(r, l);
    if (matrix_exists(&l->per_layer_gate))
        per_layer(r, w, i, pending);
}

/* Begin the layers of a head for decisions: x, which is complete, is normed as a result, and tells
 * the kind of question from then on. */
static void begin_head_layers(struct runner *r, struct thread_pool_worker *w,
                              struct residual pending[2])
{
    const struct model *m = r->model;
    const size_t n = m->shape.n_embd;
    const struct norm none = {0};
    uint32_t from, to;

    residual_norm(r, w, pending, &none, false);
    pending[0] = pending[1] = (struct residual){0};
    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            const uint32_t question = r->batch->spans[r->batch->span_of[i]].question;
            float *x = r->x + i * r->embd_stride;

            norm_row(r, x, x, &m->output_norm, n);
            r->kern.add(x, m->head.questions + question * n, 1.0f, n);
        }
    end_region(r, w, RUNNER_NORM);
}

static void run_layers(struct runner *r, struct thread_pool_worker *w, struct residual pending[2])
{
    const uint32_t n = r->model->shape.n_layer, n_head = r->model->shape.n_head_layers;

    for (uint32_t i = 0; i < n; i++) {
        if (n_head > 0 && i == n - n_head)
            begin_head_layers(r, w, pending);
        run_layer(r, w, i, pending);
    }
}

static void run_streams(struct runner *r, struct thread_pool_worker *w)
{
    streams_begin(r, w);
    for (uint32_t i = 0; i < r->model->shape.n_layer; i++)
        streams_layer(r, w, i);
    streams_end(r, w);
}

/* ---- outputs ---- */

static void norm_outputs(struct runner *r, struct thread_pool_worker *w, const struct norm *by,
                         bool quantised)
{
    const size_t n = r->model->shape.n_embd;
    uint32_t from, to;

    while (take_rows_of(r, w, r->n_out, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            const float *x = r->x + r->batch->outputs[r->out0 + i].row * r->embd_stride;
            float *norm = r->lrows + i * r->embd_stride;

            norm_row(r, norm, x, by, n);
            if (quantised)
                quantise_row(r, i, norm, n);
        }
    end_region(r, w, RUNNER_NORM);
}

static void pool_rows(struct runner *r, struct thread_pool_worker *w)
{
    const struct model *m = r->model;
    const struct norm *by = m->shape.n_head_layers > 0 ? &m->head.state_norm : &m->output_norm;
    const size_t n = m->shape.n_embd;
    uint32_t from, to;

    if (r->batch->n_pools == 0)
        return;
    while (thread_pool_take(w, r->batch->n_pools, 1, &from, &to)) {
        const struct batch_pool *p = &r->batch->pools[from];

        for (uint32_t i = p->row0; i < p->row0 + p->n_row; i++) {
            float *norm = r->norm + i * r->embd_stride;

            norm_row(r, norm, r->x + i * r->embd_stride, by, n);
            if (p->sum != NULL && p->token_head == TOKEN_HEAD_NONE)
                r->kern.add(p->sum + (i - p->row0) * p->next, norm, 1.0f, n);
        }
    }
    end_region(r, w, RUNNER_NORM);
}

static void finish_logits(const struct runner *r, float *logits)
{
    const struct model_shape *s = &r->model->shape;

    if (r->model->output_bias != NULL)
        r->kern.add(logits, r->model->output_bias, 1.0f, s->n_vocab);
    if (s->logit_scale != 1.0f)
        r->kern.scale(logits, s->logit_scale, s->n_vocab);
    if (s->logit_cap > 0.0f)
        r->kern.cap(logits, s->logit_cap, s->n_vocab);
}

/* True: all guesses that the output's row depends on were right. */
static bool is_reached(const struct batch *b, const struct batch_output *o)
{
    const struct batch_output *before = o - 1;

    return !o->is_draft || (!before->is_void && !before->is_complete && !before->is_broken &&
                            before->token == b->ids[o->row]);
}

static void pick_output(struct runner *r, const struct thread_pool_worker *w, uint32_t i)
{
    struct batch_output *o = &r->batch->outputs[r->out0 + i];
    float *logits = r->logits + i * r->vocab_stride;

    o->is_void = !is_reached(r->batch, o);
    if (o->is_void)
        return;
    finish_logits(r, logits);
    sampler_pick(&r->kern, &r->samplers[w->index], logits, r->eog, r->n_eog, o);
}

static bool is_draft(const struct runner *r, uint32_t i)
{
    return r->batch->outputs[r->out0 + i].is_draft;
}

/* Choose the tokens. One thread takes an output together with the drafts after it, in order: each
 * draft continues from the state of constraint, thought and mirostat that the output before it
 * left. */
static void pick_outputs(struct runner *r, struct thread_pool_worker *w)
{
    uint32_t from, to;

    while (thread_pool_take(w, r->n_out, 1, &from, &to)) {
        if (from > 0 && is_draft(r, from))
            continue; /* a draft: the thread that took the output before it picks it */
        do
            pick_output(r, w, from);
        while (++from < r->n_out && is_draft(r, from));
    }
    end_region(r, w, RUNNER_SAMPLE);
}

void outputs(struct runner *r, struct thread_pool_worker *w, const struct norm *norm,
             const struct matrix *output)
{
    const struct product p = {.w = output, .out = r->logits, .out_stride = r->vocab_stride};
    const struct input in = {r->lrows, r->embd_stride, r->qrows, r->qrow_stride};

    for (uint32_t at = 0; at < r->batch->n_outputs; at += LOGIT_ROWS) {
        const uint32_t left = r->batch->n_outputs - at;

        if (w->index == 0) {
            r->out0 = at;
            r->n_out = left < LOGIT_ROWS ? left : LOGIT_ROWS;
        }
        thread_pool_barrier(w);
        norm_outputs(r, w, norm, is_quantised(output));
        products(r, w, &p, 1, &in, r->n_out, RUNNER_LOGITS);
        pick_outputs(r, w);
    }
}

/* ---- the whole pass ---- */

void runner_forward(void *ud, struct thread_pool_worker *w)
{
    struct runner *r = ud;
    struct residual pending[2] = {{0}};
    const struct norm none = {0};

    if (r->undo.n > 0)
        undo_keep_states(r, w);
    embed(r, w);
    if (r->model->shape.n_per_layer > 0)
        per_layer_inputs(r, w);
    if (r->model->shape.n_streams > 1)
        run_streams(r, w);
    else
        run_layers(r, w, pending);
    residual_norm(r, w, pending, &none, false);
    pool_rows(r, w);
    label_pools(r, w);
    run_token_heads(r, w);
    project_pools(r, w);
    outputs(r, w, &r->model->output_norm, &r->model->output);
    if (r->mtp.n_slots > 0)
        mtp_step(r, w);
    if (r->undo.n > 0)
        undo_wrong(r, w);
}
