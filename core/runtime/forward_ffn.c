/* core/runtime/forward_ffn.c - the dense feed-forward net; see forward.h.
 *
 * Two regions: gate and up with the activation, then down. In the first, a thread computes the same
 * columns of gate and up, activates them in place in r->gate and quantises them for down before it
 * takes the next item, so the intermediate numbers never leave its cache. A net with a norm before
 * down, or with sparse gates, needs whole rows first and pays for another region.
 */
#include "core/runtime/forward.h"

void activate(const struct runner *r, const struct ffn *net, uint32_t each,
              const struct activation *a, uint32_t row0, uint32_t n, size_t from, size_t to)
{
    const enum kern_act act = net->has_relu ? KERN_ACT_RELU : r->model->shape.act;
    const size_t n_ff = net->up.n_out, at = (size_t)each * n_ff + from;
    const bool is_gated = matrix_exists(&net->gate), quantised = is_quantised(&net->down);

    to = to < n_ff ? to : n_ff;
    for (uint32_t i = row0; i < row0 + n; i++) {
        float *gate = a->gate + i * a->stride + from, *up = a->up + i * a->stride + from;
        float *in = is_gated ? gate : up;

        if (net->gate_bias != NULL)
            r->kern.add(gate, net->gate_bias + at, 1.0f, to - from);
        if (net->up_bias != NULL)
            r->kern.add(up, net->up_bias + at, 1.0f, to - from);
        r->kern.act[act](gate, in, is_gated ? up : NULL, to - from);
        if (quantised && a->q != NULL)
            r->kern.quantise(a->q + i * a->q_stride, n_ff, gate, from, to - from);
    }
}

/* Gate and up projections with the activation fused: the thread that has computed some columns of
 * both activates them while they are in its cache. An item is two panels, which make one group of
 * the quantised input of `down`. */
static void gate_up(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const struct ffn *net = &l->ffn;
    const struct product gate = {&net->gate, r->gate, r->ff_stride, ADAPTER_GATE, l};
    const struct product up = {&net->up, r->up, r->ff_stride, ADAPTER_UP, l};
    const struct input in = {r->norm, r->embd_stride, r->qrows, r->qrow_stride};
    const bool is_last = l->ffn_sub_norm.weight == NULL; /* true: `down` takes the activations as
                                                          * they are */
    const struct activation a = {r->gate, r->up, r->ff_stride, is_last ? r->ff_rows : NULL,
                                 r->ff_row_stride};
    const uint32_t n_panels = net->up.n_panels, n_items = (n_panels + 1) / 2;
    const uint32_t n_rows = r->batch->n_rows;
    uint32_t from, to;

    for (uint32_t go = 0; thread_pool_take(w, n_items, grain_for(r, n_items, go), &from, &to);
         go++) {
        const uint32_t end = 2 * to < n_panels ? 2 * to : n_panels;

        if (matrix_exists(&net->gate))
            run_product(r, &gate, 0, &in, n_rows, 2 * from, end);
        run_product(r, &up, 0, &in, n_rows, 2 * from, end);
        if (r->n_adapters > 0) {
            adapters_expand(r, &gate, 2 * from, end);
            adapters_expand(r, &up, 2 * from, end);
        }
        if (!l->is_sparse)
            activate(r, net, 0, &a, 0, n_rows, (size_t)2 * from * KERN_LANES,
                     (size_t)end * KERN_LANES);
    }
    end_region(r, w, RUNNER_GATE_UP);
}

/* Norm the activations before `down` takes them. */
static void norm_activated(struct runner *r, struct thread_pool_worker *w,
                           const struct model_layer *l)
{
    const size_t n = l->ffn.down.n_in;
    uint32_t from, to;

    if (l->ffn_sub_norm.weight == NULL)
        return;
    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            float *x = r->gate + i * r->ff_stride;

            norm_row(r, x, x, &l->ffn_sub_norm, n);
            if (is_quantised(&l->ffn.down))
                r->kern.quantise(r->ff_rows + i * r->ff_row_stride, n, x, 0, n);
        }
    end_region(r, w, RUNNER_DOWN);
}

void feed_forward(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const struct product down = {&l->ffn.down, r->ffn_out, r->embd_stride, ADAPTER_DOWN, l};
    const struct input norm = {r->norm, r->embd_stride, r->qrows, r->qrow_stride};
    const struct input in = {r->gate, r->ff_stride, r->ff_rows, r->ff_row_stride};

    adapters_shrink(r, w, l, ADAPTER_IN_FFN, &norm);
    gate_up(r, w, l);
    if (l->is_sparse)
        sparse_activate(r, w, l);
    norm_activated(r, w, l);
    adapters_shrink(r, w, l, ADAPTER_IN_DOWN, &in);
    products(r, w, &down, 1, &in, r->batch->n_rows, RUNNER_DOWN);
}
