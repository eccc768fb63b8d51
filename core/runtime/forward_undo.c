/* core/runtime/forward_undo.c - restores recurrent states after wrong guesses; see forward.h and
 * undo.h.
 *
 * Three steps inside a forward pass. Before the layers, the states of spans with guesses are
 * copied; after the products of each recurrent layer, their rows of r->mix are copied; after the
 * outputs, which know which guesses were wrong, the copied state is put back and the kept rows that
 * were right run through the layer's scan again. This is exact, and cheaper than keeping the state
 * after every row.
 */
#include "core/runtime/forward.h"
#include "kvcache/state_store.h"

#include <string.h>

static uint32_t n_recurrent(const struct runner *r)
{
    return (uint32_t)(r->model->state_floats / r->model->shape.recurrent.layer_floats);
}

/* ---- before, and on the way ---- */

static uint8_t *kept_state(const struct runner *r, uint32_t i)
{
    return r->undo.states + i * r->undo.state_bytes;
}

static uint8_t *state_of(const struct runner *r, uint32_t i)
{
    return state_store_at(r->states, r->step->spans[r->undo.spans[i]].state);
}

/* Copy a recurrent layer's part of a state. */
static void copy_part(const struct runner *r, uint8_t *to, const uint8_t *from, uint32_t layer)
{
    const size_t bytes = r->model->shape.recurrent.layer_floats * sizeof(float);

    memcpy(to + layer * bytes, from + layer * bytes, bytes);
}

void undo_keep_states(struct runner *r, struct thread_pool_worker *w)
{
    const uint32_t n = n_recurrent(r);
    uint32_t from, to;

    while (thread_pool_take(w, r->undo.n * n, 1, &from, &to))
        for (uint32_t i = from; i < to; i++)
            copy_part(r, kept_state(r, i / n), state_of(r, i / n), i % n);
    end_region(r, w, RUNNER_RECURRENT);
}

static float *kept_row(const struct runner *r, const struct model_layer *l, uint32_t i,
                       uint32_t row)
{
    const size_t layer = l->state_at / r->model->shape.recurrent.layer_floats;
    const size_t at = (layer * RUNNER_UNDO_SPANS + i) * RUNNER_UNDO_ROWS + row;

    return r->undo.rows + at * r->mix_stride;
}

void undo_keep_rows(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    uint32_t from, to;

    if (r->undo.n == 0)
        return;
    while (thread_pool_take(w, r->undo.n, 1, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            const struct batch_span *span = &r->batch->spans[r->undo.spans[i]];

            memcpy(kept_row(r, l, i, 0), mix_row(r, span->row0),
                   span->n_row * r->mix_stride * sizeof(float));
        }
    end_region(r, w, RUNNER_RECURRENT);
}

/* ---- afterwards ---- */

/* Return the first row of a span whose token was a wrong guess, or the span's end. */
static uint32_t first_wrong(const struct batch *b, const struct batch_span *span)
{
    uint32_t row = span->row0 + span->n_row;

    for (uint32_t i = b->n_outputs; i > 0; i--) {
        const struct batch_output *o = &b->outputs[i - 1];

        if (o->is_void && o->row >= span->row0 && o->row < row)
            row = o->row;
    }
    return row;
}

static void find_wrong(struct runner *r)
{
    struct undo *u = &r->undo;
    const struct batch *b = r->step;

    batch_clear(u->batch);
    for (uint32_t i = 0; i < u->n; i++) {
        const struct batch_span *span = &b->spans[u->spans[i]];
        const uint32_t n = first_wrong(b, span) - span->row0;

        if (n == span->n_row)
            continue;
        u->wrong[u->batch->n_spans] = i;
        batch_add_span(u->batch, b->ids + span->row0, n, span->pos0, span->table,
                       span->group_stride);
        u->batch->spans[u->batch->n_spans - 1].state = span->state;
    }
}

static void restore_states(struct runner *r, struct thread_pool_worker *w)
{
    const uint32_t n = n_recurrent(r);
    uint32_t from, to;

    while (thread_pool_take(w, r->batch->n_spans * n, 1, &from, &to))
        for (uint32_t k = from; k < to; k++) {
            const uint32_t i = r->undo.wrong[k / n];

            copy_part(r, state_of(r, i), kept_state(r, i), k % n);
        }
    end_region(r, w, RUNNER_RECURRENT);
}

/* Advance the layer's states by the rows that were right. */
static void take_in_rows(struct runner *r, struct thread_pool_worker *w, uint32_t layer)
{
    const struct model_layer *l = &r->model->layers[layer];
    uint32_t from, to;

    while (thread_pool_take(w, r->batch->n_spans, 1, &from, &to))
        for (uint32_t k = from; k < to; k++) {
            const struct batch_span *span = &r->batch->spans[k];

            memcpy(mix_row(r, span->row0), kept_row(r, l, r->undo.wrong[k], 0),
                   span->n_row * r->mix_stride * sizeof(float));
        }
    end_region(r, w, RUNNER_RECURRENT);
    recurrent_again(r, w, layer);
}

void undo_wrong(struct runner *r, struct thread_pool_worker *w)
{
    thread_pool_barrier(w); /* no thread reads r->batch any more */
    if (w->index == 0) {
        find_wrong(r);
        r->batch = r->undo.batch;
    }
    thread_pool_barrier(w);
    if (r->undo.batch->n_rows > 0) {
        restore_states(r, w);
        for (uint32_t i = 0; i < r->model->shape.n_layer; i++)
            if (r->model->layers[i].recurrent != RECURRENT_NONE)
                take_in_rows(r, w, i);
    }
    thread_pool_barrier(w);
    if (w->index == 0)
        r->batch = r->step;
    thread_pool_barrier(w);
}
