/* core/runtime/forward_products.c - products of a matrix and all rows; see forward.h.
 *
 * Items are panels of 16 outputs, and each item covers all rows of the batch, so a weight is read
 * once a step whatever the batch. Several products of one input are numbered through as one region.
 * With weights on several memory nodes the numbering goes node by node, so that the share that a
 * thread owns by default is the part on its own node. Rows come quantised or as floats as the type
 * of the weights wants.
 */
#include "core/runtime/forward.h"

uint32_t grain_for(const struct runner *r, uint32_t n_items, uint32_t n)
{
    /* A thread first takes most of its share at once, since each call goes over all rows, then
     * small parts, so that an interrupted thread does not hold up the others for long. */
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

/* Compute panels of one part (memory node). */
static void run_part(struct runner *r, const struct product *p, uint32_t each,
                     const struct input *in, uint32_t n_rows, uint32_t from, uint32_t to)
{
    const struct matrix *w = p->w;
    const bool quantised = kern_weight_is_quantised(w->type);
    const void *rows = quantised ? (const void *)in->q : (const void *)in->x;
    const size_t stride = quantised ? in->q_stride : in->stride * sizeof(float);
    struct kern_range ranges[ADAPTER_MAX_RANGES];
    const struct kern_prefetch next = {ranges, adapters_ahead(r, p, from, to, ranges)};

    r->kern.gemm[w->type](p->out + (size_t)from * KERN_LANES, p->out_stride, rows, stride, n_rows,
                          matrix_panel(w, each, from), to - from, w->n_in,
                          next.n > 0 ? &next : NULL);
    for (uint32_t i = 0; w->scale != NULL && i < n_rows; i++)
        r->kern.scale(p->out + i * p->out_stride + (size_t)from * KERN_LANES,
                      w->scale[w->n_scale > 1 ? each : 0], (size_t)(to - from) * KERN_LANES);
}

void run_product(struct runner *r, const struct product *p, uint32_t each, const struct input *in,
                 uint32_t n_rows, uint32_t from, uint32_t to)
{
    while (p->w->n_parts > 1 && from < to) {
        const uint32_t cut = matrix_part_panel(p->w, matrix_part_of(p->w, from) + 1);
        const uint32_t end = cut < to ? cut : to;

        run_part(r, p, each, in, n_rows, from, end);
        from = end;
    }
    if (from < to)
        run_part(r, p, each, in, n_rows, from, to);
}

/* Return the number of items of a matrix that lie before part `part`. */
static uint32_t cut_of(const struct pieces *s, uint32_t part)
{
    const uint32_t n_pairs = (s->each * s->unit + 1) / 2;
    const uint32_t panel = 2 * matrix_cut(n_pairs, part, s->n_parts), item = panel / s->unit;

    return item < s->each ? item : s->each;
}

bool next_piece(struct pieces *s, uint32_t *i, uint32_t *from, uint32_t *to)
{
    uint32_t part = 0, first, n, at;

    if (s->from == s->to)
        return false;
    while (s->n * cut_of(s, part + 1) <= s->from)
        part++;
    first = cut_of(s, part);
    n = cut_of(s, part + 1) - first;
    at = s->from - s->n * first;
    *i = at / n;
    *from = first + at % n;
    *to = first + n - *from < s->to - s->from ? first + n : *from + (s->to - s->from);
    s->from += *to - *from;
    return true;
}

/* Compute panels of a product and add what adapters contribute to them. */
static void run_panels(struct runner *r, const struct product *p, const struct input *in,
                       uint32_t n_rows, uint32_t from, uint32_t to)
{
    run_product(r, p, 0, in, n_rows, from, to);
    if (p->target != ADAPTER_NONE && r->n_adapters > 0)
        adapters_expand(r, p, from, to);
}

void products(struct runner *r, struct thread_pool_worker *w, const struct product *p, uint32_t n,
              const struct input *in, uint32_t n_rows, enum runner_part of)
{
    uint32_t total = 0, from, to;

    for (uint32_t i = 0; i < n; i++)
        total += p[i].w->n_panels;
    for (uint32_t go = 0; thread_pool_take(w, total, grain_for(r, total, go), &from, &to); go++) {
        uint32_t first = 0;

        for (uint32_t part = 0; part < r->model->n_parts; part++)
            for (uint32_t i = 0; i < n; i++) {
                const uint32_t begin = matrix_part_panel(p[i].w, part);
                const uint32_t n_here = matrix_part_panel(p[i].w, part + 1) - begin;
                const uint32_t a = from > first ? from - first : 0;
                const uint32_t b = to < first + n_here ? to - first : n_here;

                if (to > first && a < b)
                    run_panels(r, &p[i], in, n_rows, begin + a, begin + b);
                first += n_here;
            }
    }
    end_region(r, w, of);
}
