/* core/runtime/forward_sparse.c - activations that set most gates to 0; see forward.h.
 *
 * Only gates above a bound count: the mean of the row's gates plus a number of standard deviations
 * (Gemma 3n's published code). A gate becomes its excess over the bound, or 0 below it.
 */
#include "core/runtime/forward.h"

#include <math.h>

/* Return the mean of n floats, summed in 16 lanes as kernels sum. */
static float mean_of(const float *x, size_t n)
{
    float lane[KERN_LANES] = {0};

    for (size_t i = 0; i < n; i++)
        lane[i % KERN_LANES] += x[i];
    return kern_lanes_sum(lane) / (float)n;
}

static float deviation_of(const float *x, size_t n, float mean)
{
    float lane[KERN_LANES] = {0};

    for (size_t i = 0; i < n; i++)
        lane[i % KERN_LANES] += (x[i] - mean) * (x[i] - mean);
    return sqrtf(kern_lanes_sum(lane) / (float)n);
}

static void cut_activations(float *gate, size_t n, float deviations)
{
    const float mean = mean_of(gate, n);
    const float bound = mean + deviation_of(gate, n, mean) * deviations;

    for (size_t i = 0; i < n; i++)
        gate[i] = gate[i] > bound ? gate[i] - bound : 0.0f;
}

void sparse_activate(struct runner *r, struct thread_pool_worker *w, const struct model_layer *l)
{
    const struct activation a = {r->gate, r->up, r->ff_stride, r->ff_rows, r->ff_row_stride};
    const size_t n = l->ffn.up.n_out;
    uint32_t from, to;

    while (take_rows_of(r, w, r->batch->n_rows, &from, &to))
        for (uint32_t i = from; i < to; i++) {
            cut_activations(r->gate + i * r->ff_stride, n, l->sparsity);
            activate(r, &l->ffn, 0, &a, i, 1, 0, n);
        }
    end_region(r, w, RUNNER_GATE_UP);
}
