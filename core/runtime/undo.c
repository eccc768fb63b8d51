/* core/runtime/undo.c - buffers for undoing guesses, and the spans that need it; see undo.h.
 *
 * The copies themselves are made inside the step, by forward_undo.c. States and rows are mapped,
 * not allocated, so they cost RAM only once a step with guesses touches them. undo_find() runs on
 * the engine thread before each step.
 */
#include "core/runtime/undo.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/model/model.h"
#include "core/runtime/runner_impl.h"

#include <assert.h>

int undo_create(struct runner *r, const struct runner_options *o)
{
    struct undo *u = &r->undo;
    const uint32_t n = RUNNER_UNDO_SPANS;
    size_t n_layers;

    if (!o->undoes)
        return 0;
    u->state_bytes = runner_state_bytes(r->model);
    n_layers = r->model->state_floats / r->model->shape.recurrent.layer_floats;
    u->row_bytes = n_layers * n * RUNNER_UNDO_ROWS * r->mix_stride * sizeof(*u->rows);
    u->spans = mem_calloc(n, sizeof(*u->spans));
    u->wrong = mem_calloc(n, sizeof(*u->wrong));
    u->states = mem_map(n * u->state_bytes);
    u->rows = mem_map(u->row_bytes);
    r->scratch_bytes += n * u->state_bytes + u->row_bytes;
    if (u->spans == NULL || u->wrong == NULL || u->states == NULL || u->rows == NULL)
        return ERR_NOMEM;
    return batch_create(&u->batch, n * RUNNER_UNDO_ROWS, n, 1);
}

void undo_release(struct undo *u)
{
    mem_free(u->spans);
    mem_free(u->wrong);
    mem_unmap(u->states, RUNNER_UNDO_SPANS * u->state_bytes);
    mem_unmap(u->rows, u->row_bytes);
    batch_destroy(&u->batch);
    *u = (struct undo){0};
}

/* The outputs of a span are neighbours, and the output before a span's first guess is not a
 * draft. */
void undo_find(struct undo *u, const struct batch *b)
{
    u->n = 0;
    for (uint32_t i = 1; i < b->n_outputs; i++) {
        const uint32_t span = b->span_of[b->outputs[i].row];

        if (!b->outputs[i].is_draft || b->spans[span].state == 0 || b->outputs[i - 1].is_draft)
            continue;
        assert(u->states != NULL && u->n < RUNNER_UNDO_SPANS);
        assert(b->spans[span].n_row <= RUNNER_UNDO_ROWS);
        u->spans[u->n++] = span;
    }
}
