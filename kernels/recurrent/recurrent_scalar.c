/* kernels/recurrent/recurrent_scalar.c - convolution, scans, delta rule, l2norm and softplus: the
 * definitions.
 *
 * Row after row, channel after channel, in the order of the formulas in recurrent.h. Every sum is
 * over taps or over the state's rows, never over tokens: a sequence cut into steps at any token
 * leaves the same state to the bit, which prefix snapshots and chunked prompts rely on.
 */
#include "kernels/kern_math.h"
#include "kernels/kernels_impl.h"

/* Return the index of element (row, column) in a state of n rows: panels of 16 columns. */
static size_t place(size_t row, size_t column, size_t n)
{
    return (column / KERN_LANES * n + row) * KERN_LANES + column % KERN_LANES;
}

static void conv_channel(const struct kern_conv *a, size_t c)
{
    const uint32_t n_old = a->n_tap - 1;
    float seen[KERN_MAX_TAP]; /* the inputs under the taps */

    for (uint32_t j = 0; j < n_old; j++)
        seen[j] = a->tail[j * a->tail_stride + c];
    for (size_t t = 0; t < a->n_row; t++) {
        float y = a->bias ? a->bias[c] : 0.0f;

        seen[n_old] = a->x[t * a->x_stride + c];
        for (uint32_t j = 0; j < a->n_tap; j++)
            y = fmaf(a->w[j * a->w_stride + c], seen[j], y);
        a->out[t * a->out_stride + c] = a->silu ? y / (1.0f + kern_exp_inline(-y)) : y;
        for (uint32_t j = 0; j < n_old; j++)
            seen[j] = seen[j + 1];
    }
    for (uint32_t j = 0; j < n_old; j++)
        a->tail[j * a->tail_stride + c] = seen[j];
}

void kern_conv_scalar(const struct kern_conv *a)
{
    for (size_t c = 0; c < a->n_channel; c++)
        conv_channel(a, c);
}

void kern_mamba1_scalar(const struct kern_mamba1 *a)
{
    for (size_t t = 0; t < a->n_row; t++) {
        const float *b = a->b + t * a->bc_stride;
        const float *c = a->c + t * a->bc_stride;

        for (size_t i = 0; i < a->n_channel; i++) {
            const float x = a->x[t * a->x_stride + i];
            const float dt = a->dt[t * a->dt_stride + i];
            const float u = dt * x;
            float y = 0.0f;

            for (size_t j = 0; j < a->n_state; j++) {
                const size_t at = place(j, i, a->n_state);
                float *s = a->state + at;

                *s = fmaf(u, b[j], *s * kern_exp_inline(dt * a->a[at]));
                y = fmaf(*s, c[j], y);
            }
            a->out[t * a->out_stride + i] = fmaf(a->d[i], x, y);
        }
    }
}

void kern_mamba2_scalar(const struct kern_mamba2 *a)
{
    for (size_t t = 0; t < a->n_row; t++) {
        const float *b = a->b + t * a->bc_stride;
        const float *c = a->c + t * a->bc_stride;
        const float dt = a->dt[t * a->dt_stride];
        const float g = kern_exp_inline(dt * a->a);

        for (size_t i = 0; i < a->head_dim; i++) {
            const float x = a->x[t * a->x_stride + i];
            const float u = dt * x;
            float y = 0.0f;

            for (size_t j = 0; j < a->n_state; j++) {
                float *s = a->state + place(j, i, a->n_state);

                *s = fmaf(u, b[j], *s * g);
                y = fmaf(*s, c[j], y);
            }
            a->out[t * a->out_stride + i] = fmaf(a->d, x, y);
        }
    }
}

static float product_of(const float *k, const float *q, size_t n)
{
    float lane[KERN_LANES] = {0};

    for (size_t i = 0; i < n; i++)
        lane[i % KERN_LANES] = fmaf(k[i], q[i], lane[i % KERN_LANES]);
    return kern_lanes_sum_inline(lane);
}

void kern_delta_scalar(const struct kern_delta *a)
{
    for (size_t t = 0; t < a->n_row; t++) {
        const float *q = a->q + t * a->qk_stride;
        const float *k = a->k + t * a->qk_stride;
        const float *g = a->g + t * a->g_stride;
        const float kq = product_of(k, q, a->key_dim);

        for (size_t j = 0; j < a->value_dim; j++) {
            float m = 0.0f;
            float o = 0.0f;

            for (size_t i = 0; i < a->key_dim; i++) {
                const float s = a->state[place(i, j, a->key_dim)];
                const float gi = g[a->is_per_key ? i : 0];

                m = fmaf(s, gi * k[i], m);
                o = fmaf(s, gi * q[i], o);
            }
            const float e = a->beta[t * a->beta_stride] * (a->v[t * a->v_stride + j] - m);
            for (size_t i = 0; i < a->key_dim; i++) {
                float *s = a->state + place(i, j, a->key_dim);

                *s = fmaf(k[i], e, *s * g[a->is_per_key ? i : 0]);
            }
            a->out[t * a->out_stride + j] = fmaf(kq, e, o);
        }
    }
}

void kern_l2norm_scalar(float *out, const float *x, size_t n, float eps, float scale)
{
    float lane[KERN_LANES] = {0};

    for (size_t i = 0; i < n; i++)
        lane[i % KERN_LANES] = fmaf(x[i], x[i], lane[i % KERN_LANES]);
    const float r = scale / sqrtf(kern_lanes_sum_inline(lane) + eps);
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] * r;
}

void kern_softplus_scalar(float *out, const float *x, const float *bias, const float *a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float y = kern_softplus_inline(x[i] + bias[i]);

        out[i] = a ? kern_exp_inline(a[i] * y) : y;
    }
}
