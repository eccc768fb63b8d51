/* core/model/weights_mamba.c - the tensors of layers of Mamba and Mamba-2 (see weights.h).
 *
 * Files have all projections of the layer's input in one tensor; here x (with B and C), z and dt
 * are matrices of their own, whose outputs begin on whole panels.
 */
#include "core/model/weights.h"

#include "core/base/err.h"

/* Add rows of ssm_in.weight, from *row0 on, as a matrix. */
static int add_input(struct load *l, const struct gguf_tensor *src, uint32_t *row0, uint32_t n_out,
                     struct matrix *dst)
{
    const struct matrix_job job = {.src = src, .dst = dst, .row0 = *row0};

    *row0 += n_out;
    return weights_add_matrix_job(l, job, l->m->shape.n_embd, n_out, 1);
}

static int add_taps(struct load *l, uint32_t layer, uint32_t n_channel, int bias)
{
    const struct recurrent_shape *r = &l->m->shape.recurrent;
    struct taps taps = {NULL, 0, n_channel, 0};
    int rc = weights_find(l, layer, "ssm_conv1d.weight", TENSOR_REQUIRED,
                          (struct extent){r->n_tap, n_channel, 1}, &taps.t);

    if (rc == 0)
        rc = weights_add_taps(l, layer, &taps, 1);
    return rc == 0 ? weights_add_layer_vector(l, layer, "ssm_conv1d.bias", bias, n_channel,
                                              &l->m->layers[layer].mix.conv_bias)
                   : rc;
}

/* Add a tensor [n_row][n] as a vector; n_row is 1 for a plain vector. */
static int add_mamba_numbers(struct load *l, uint32_t layer, const char *suffix, int need,
                             uint32_t n, uint32_t n_row, struct vector_job job)
{
    const int rc = weights_find(l, layer, suffix, need, (struct extent){n, n_row, 1}, &job.src);

    job.n = n;
    job.n_rows = n_row;
    return rc == 0 && job.src != NULL ? weights_add_vector_job(l, job) : rc;
}

/* ---- Mamba-2 ---- */

/* Add the rows of z, of x, B and C, and of dt. */
static int add_mamba2_inputs(struct load *l, uint32_t layer, struct recurrent *to)
{
    const struct recurrent_shape *r = &l->m->shape.recurrent;
    const uint32_t n_conv = r->n_inner + 2 * r->n_key_head * r->n_state;
    const struct extent e = {l->m->shape.n_embd, r->n_inner + n_conv + r->n_value_head, 1};
    const struct gguf_tensor *t;
    uint32_t row0 = 0;
    int rc = weights_find(l, layer, "ssm_in.weight", TENSOR_REQUIRED, e, &t);

    if (rc == 0)
        rc = add_input(l, t, &row0, r->n_inner, &to->z);
    if (rc == 0)
        rc = add_input(l, t, &row0, n_conv, &to->in);
    if (rc == 0)
        rc = add_input(l, t, &row0, r->n_value_head, &to->dt);
    return rc == 0 ? add_taps(l, layer, n_conv,
                              (l->traits->recurrence & RECURRENT_TRAIT_ALL) != 0 ? TENSOR_REQUIRED
                                                                                 : TENSOR_OPTIONAL)
                   : rc;
}

static int add_mamba2(struct load *l, uint32_t layer)
{
    const struct recurrent_shape *r = &l->m->shape.recurrent;
    struct recurrent *to = &l->m->layers[layer].mix;
    const int norm = (l->traits->recurrence & RECURRENT_TRAIT_BESIDE) != 0 ? TENSOR_OPTIONAL
                                                                           : TENSOR_REQUIRED;
    int rc = add_mamba2_inputs(l, layer, to);

    if (rc == 0)
        rc = weights_add_layer_vector(l, layer, "ssm_dt.bias", TENSOR_REQUIRED, r->n_value_head,
                                      &to->dt_bias);
    if (rc == 0)
        rc = add_mamba_numbers(l, layer, "ssm_a", TENSOR_REQUIRED, 1, r->n_value_head,
                               (struct vector_job){.dst = &to->a, .is_rate = true});
    if (rc == 0)
        rc = add_mamba_numbers(l, layer, "ssm_d", TENSOR_REQUIRED, 1, r->n_value_head,
                               (struct vector_job){.dst = &to->d});
    if (rc == 0)
        rc = add_mamba_numbers(l, layer, "ssm_norm.weight", norm, r->n_inner / r->n_key_head,
                               r->n_key_head, (struct vector_job){.dst = &to->norm.weight});
    return rc;
}

/* ---- Mamba ---- */

/* Add the norms of dt's input, of B and of C: with weights, without, or none. */
static int add_mamba1_norms(struct load *l, uint32_t layer, struct recurrent *to)
{
    const struct recurrent_shape *r = &l->m->shape.recurrent;
    int rc;

    if (r->has_unit_norms)
        to->dt_norm.weight = to->b_norm.weight = to->c_norm.weight = l->m->ones;
    if ((l->traits->recurrence & RECURRENT_TRAIT_ALL) != 0)
        return 0;
    rc = weights_add_layer_vector(l, layer, "ssm_dt_norm.weight", TENSOR_REQUIRED, r->n_rank,
                                  &to->dt_norm.weight);
    if (rc == 0)
        rc = weights_add_layer_vector(l, layer, "ssm_b_norm.weight", TENSOR_REQUIRED, r->n_state,
                                      &to->b_norm.weight);
    return rc == 0 ? weights_add_layer_vector(l, layer, "ssm_c_norm.weight", TENSOR_REQUIRED,
                                              r->n_state, &to->c_norm.weight)
                   : rc;
}

/* Add the rows of x and of z, and the matrices that x goes through. */
static int add_mamba1_inputs(struct load *l, uint32_t layer, struct recurrent *to)
{
    const struct recurrent_shape *r = &l->m->shape.recurrent;
    const uint32_t n = r->n_inner;
    const struct extent e = {l->m->shape.n_embd, 2ull * n, 1};
    const struct gguf_tensor *t;
    uint32_t row0 = 0;
    int rc = weights_find(l, layer, "ssm_in.weight", TENSOR_REQUIRED, e, &t);

    if (rc == 0)
        rc = add_input(l, t, &row0, n, &to->in);
    if (rc == 0)
        rc = add_input(l, t, &row0, n, &to->z);
    if (rc == 0)
        rc = add_taps(l, layer, n, TENSOR_REQUIRED);
    if (rc == 0)
        rc = weights_add_layer_matrix(l, layer, "ssm_x.weight", n, r->n_rank + 2 * r->n_state,
                                      &to->x);
    return rc == 0 ? weights_add_layer_matrix(l, layer, "ssm_dt.weight", r->n_rank, n, &to->dt)
                   : rc;
}

static int add_mamba1(struct load *l, uint32_t layer)
{
    const struct recurrent_shape *r = &l->m->shape.recurrent;
    struct recurrent *to = &l->m->layers[layer].mix;
    const struct vector_job rates = {.dst = &to->a, .layout = VECTOR_PANELS, .is_rate = true};
    int rc = add_mamba1_inputs(l, layer, to);

    if (rc == 0)
        rc = weights_add_layer_vector(l, layer, "ssm_dt.bias", TENSOR_REQUIRED, r->n_inner,
                                      &to->dt_bias);
    if (rc == 0)
        rc = add_mamba_numbers(l, layer, "ssm_a", TENSOR_REQUIRED, r->n_state, r->n_inner, rates);
    if (rc == 0)
        rc = weights_add_layer_vector(l, layer, "ssm_d", TENSOR_REQUIRED, r->n_inner, &to->d);
    return rc == 0 ? add_mamba1_norms(l, layer, to) : rc;
}

int weights_add_mamba(struct load *l, uint32_t layer)
{
    const struct recurrent_shape *r = &l->m->shape.recurrent;
    const int rc = r->kind == RECURRENT_MAMBA1 ? add_mamba1(l, layer) : add_mamba2(l, layer);

    return rc == 0 ? weights_add_layer_matrix(l, layer, "ssm_out.weight", r->n_inner,
                                              l->m->shape.n_embd, &l->m->layers[layer].mix.out)
                   : rc;
}
