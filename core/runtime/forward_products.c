/* core/runtime/forward_products.c - products of a matrix and all rows; see forward.h. */
#include "core/runtime/forward.h"

uint32_t grain_for(const struct runner *r, uint32_t n_items, uint32_t n)
{
    /* Most of a thread's share first, since each go costs a look at all rows, then little by
     * little, so that a thread that was interrupted does not hold up the others for long. */
    const uint32_t n_threads = thread_pool_n_threads(r->pool);
    const uint32_t eighth = n_items / (n_threads * 8);
    uint32_t grain = n_items;

    if (n_threads > 1)
        grain = n == 0 ? 5 * eighth : eighth;
    if (r->n_adapters > 0 && grain > ADAPTER_GRAIN)
        grain = ADAPTER_GRAIN;
    return grain > 0 ? grain : 1;
}

bool is_quantised(const struct matrix *m)
{
    return matrix_exists(m) && kern_weight_is_quantised(m->type);
}

bool takes_floats(const struct ffn *net)
{
    return (matrix_exists(&net->up) && !is_quantised(&net->up)) ||
           (matrix_exists(&net->gate) && !is_quantised(&net->gate));
}

void run_product(struct runner *r, const struct product *p, uint32_t each, const struct input *in,
                 uint32_t n_rows, uint32_t from, uint32_t to)
{
    const struct matrix *w = p->w;
    const bool quantised = kern_weight_is_quantised(w->type);
    const void *rows = quantised ? (const void *)in->q : (const void *)in->x;
    const size_t stride = quantised ? in->q_stride : in->stride * sizeof(float);
    const size_t first = (size_t)each * w->n_panels + from;
    struct kern_range ranges[ADAPTER_MAX_RANGES];
    const struct kern_prefetch next = {ranges, adapters_ahead(r, p, from, to, ranges)};

    r->kern.gemm[w->type](p->out + (size_t)from * KERN_LANES, p->out_stride, rows, stride, n_rows,
                          w->data + first * w->panel_bytes, to - from, w->n_in,
                          next.n > 0 ? &next : NULL);
    for (uint32_t i = 0; w->scale != NULL && i < n_rows; i++)
        r->kern.scale(p->out + i * p->out_stride + (size_t)from * KERN_LANES,
                      w->scale[w->n_scale > 1 ? each : 0], (size_t)(to - from) * KERN_LANES);
}

void products(struct runner *r, struct thread_pool_worker *w, const struct product *p, uint32_t n,
              const struct input *in, uint32_t n_rows, enum runner_part part)
{
    uint32_t total = 0, from, to;

    for (uint32_t i = 0; i < n; i++)
        total += p[i].w->n_panels;
    for (uint32_t go = 0; thread_pool_take(w, total, grain_for(r, total, go), &from, &to); go++) {
        uint32_t first = 0;

        for (uint32_t i = 0; i < n; first += p[i++].w->n_panels) {
            const uint32_t end = first + p[i].w->n_panels;
            const uint32_t a = from > first ? from : first, b = to < end ? to : end;

            if (a >= b)
                continue;
            run_product(r, &p[i], 0, in, n_rows, a - first, b - first);
            if (p[i].target != ADAPTER_NONE && r->n_adapters > 0)
                adapters_expand(r, &p[i], a - first, b - first);
        }
    }
    end_region(r, w, part);
}
