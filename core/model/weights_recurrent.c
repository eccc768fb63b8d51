/* core/model/weights_recurrent.c - the tensors of recurrent layers: delta nets and short
 * convolutions (see weights.h).
 *
 * Files have q, k and v of a delta net in one tensor; here they are three matrices, whose outputs
 * begin on whole panels. The first files of Qwen3-Next have q, k, v and z in one tensor, whose rows
 * are grouped by key heads; beta and alpha are grouped so in all files of that family.
 */
#include "core/model/weights.h"

#include "core/base/err.h"

int weights_add_taps(struct load *l, uint32_t layer, const struct taps *taps, uint32_t n)
{
    const struct recurrent_shape *r = &l->m->shape.recurrent;
    const size_t at = l->n_floats;
    int rc = 0;

    for (uint32_t i = 0; i < n && rc == 0; i++)
        rc = weights_add_vector_job(
            l, (struct vector_job){.src = taps[i].t,
                                   .dst = i == 0 ? &l->m->layers[layer].mix.conv : NULL,
                                   .n = r->n_tap,
                                   .row0 = taps[i].row0,
                                   .n_rows = taps[i].n,
                                   .layout = VECTOR_TRANSPOSED,
                                   .stride = r->n_channel,
                                   .at = at + taps[i].at});
    return rc;
}

/* ---- delta nets ---- */

/* Add rows of a tensor in runs, one for each key head. */
static int add_runs(struct load *l, const struct gguf_tensor *src, uint32_t row0, uint32_t run,
                    uint32_t run_stride, struct matrix *dst)
{
    const struct recurrent_shape *r = &l->m->shape.recurrent;

    return weights_add_matrix_job(
        l,
        (struct matrix_job){
            .src = src, .dst = dst, .row0 = row0, .run = run, .run_stride = run_stride},
        l->m->shape.n_embd, r->n_key_head * run, 1);
}

/* Add q, k, v and z of each key head. */
static int add_grouped_inputs(struct load *l, uint32_t layer, struct recurrent *to)
{
    const struct recurrent_shape *r = &l->m->shape.recurrent;
    const uint32_t n_key = r->key_dim, n_value = r->n_inner / r->n_key_head;
    const uint32_t stride = 2 * n_key + 2 * n_value;
    const struct extent e = {l->m->shape.n_embd, (uint64_t)r->n_key_head * stride, 1};
    const struct gguf_tensor *t;
    int rc = weights_find(l, layer, "ssm_in.weight", TENSOR_REQUIRED, e, &t);

    if (rc == 0)
        rc = add_runs(l, t, 0, n_key, stride, &to->q);
    if (rc == 0)
        rc = add_runs(l, t, n_key, n_key, stride, &to->k);
    if (rc == 0)
        rc = add_runs(l, t, 2 * n_key, n_value, stride, &to->v);
    return rc == 0 ? add_runs(l, t, 2 * n_key + n_value, n_value, stride, &to->z) : rc;
}

static int add_inputs(struct load *l, uint32_t layer, struct recurrent *to)
{
    const struct recurrent_shape *r = &l->m->shape.recurrent;
    const uint32_t n_embd = l->m->shape.n_embd, n_key = r->n_key_head * r->key_dim;
    const struct extent e = {n_embd, 2ull * n_key + r->n_inner, 1};
    const struct gguf_tensor *t;
    int rc = weights_find(l, layer, "attn_qkv.weight", TENSOR_REQUIRED, e, &t);

    if (rc == 0)
        rc = weights_add_matrix_job(l, (struct matrix_job){.src = t, .dst = &to->q}, n_embd, n_key,
                                    1);
    if (rc == 0)
        rc = weights_add_matrix_job(l, (struct matrix_job){.src = t, .dst = &to->k, .row0 = n_key},
                                    n_embd, n_key, 1);
    if (rc == 0)
        rc = weights_add_matrix_job(
            l, (struct matrix_job){.src = t, .dst = &to->v, .row0 = 2 * n_key}, n_embd, r->n_inner,
            1);
    return rc == 0 ? weights_add_layer_matrix(l, layer, "attn_gate.weight", n_embd, r->n_inner,
                                              &to->z)
                   : rc;
}

/* Add the matrices of beta, and of alpha, which makes the decay, of each value head. */
static int add_gates(struct load *l, uint32_t layer, struct recurrent *to)
{
    const struct recurrent_shape *r = &l->m->shape.recurrent;
    const uint32_t n_embd = l->m->shape.n_embd, run = r->n_value_head / r->n_key_head;
    const struct extent e = {n_embd, 2ull * r->n_value_head, 1};
    const struct gguf_tensor *t;
    int rc;

    if (weights_in_layer(l, layer, "ssm_ba.weight") == NULL) {
        rc = weights_add_layer_matrix(l, layer, "ssm_beta.weight", n_embd, r->n_value_head,
                                      &to->beta);
        return rc == 0 ? weights_add_layer_matrix(l, layer, "ssm_alpha.weight", n_embd,
                                                  r->n_value_head, &to->alpha)
                       : rc;
    }
    rc = weights_find(l, layer, "ssm_ba.weight", TENSOR_REQUIRED, e, &t);
    if (rc == 0)
        rc = add_runs(l, t, 0, run, 2 * run, &to->beta);
    return rc == 0 ? add_runs(l, t, run, run, 2 * run, &to->alpha) : rc;
}

/* Find a small tensor, which in some files has extra dimensions of 1. */
static int find_small(struct load *l, uint32_t layer, const char *suffix, struct extent plain,
                      struct extent other, const struct gguf_tensor **t)
{
    *t = weights_in_layer(l, layer, suffix);
    return weights_find(l, layer, suffix, TENSOR_REQUIRED,
                        *t != NULL && tensor_has_extent(*t, other) ? other : plain, t);
}

static int find_taps(struct load *l, uint32_t layer, const char *suffix, uint32_t n_channel,
                     const struct gguf_tensor **t)
{
    const uint32_t n_tap = l->m->shape.recurrent.n_tap;

    return find_small(l, layer, suffix, (struct extent){n_tap, n_channel, 1},
                      (struct extent){n_tap, 1, n_channel}, t);
}

/* Add the taps of q, k and v, each at its channels in a row. */
static int add_delta_taps(struct load *l, uint32_t layer)
{
    const struct recurrent_shape *r = &l->m->shape.recurrent;
    const uint32_t n_key = r->n_key_head * r->key_dim;
    const struct gguf_tensor *t;
    const int rc = find_taps(l, layer, "ssm_conv1d.weight", 2 * n_key + r->n_inner, &t);
    const struct taps taps[3] = {
        {t, 0, n_key, 0}, {t, n_key, n_key, r->k_at}, {t, 2 * n_key, r->n_inner, r->v_at}};

    return rc == 0 ? weights_add_taps(l, layer, taps, 3) : rc;
}

/* Add the rates at which states decay: one for each head, repeated `each` times. */
static int add_rates(struct load *l, uint32_t layer, const struct gguf_tensor *t, uint32_t each)
{
    const struct recurrent_shape *r = &l->m->shape.recurrent;

    return weights_add_vector_job(l, (struct vector_job){.src = t,
                                                         .dst = &l->m->layers[layer].mix.a,
                                                         .n = (uint32_t)t->dims[0],
                                                         .n_rows = r->n_value_head /
                                                                   (uint32_t)t->dims[0],
                                                         .layout = VECTOR_REPEATED,
                                                         .stride = each,
                                                         .is_rate = true});
}

static int add_delta(struct load *l, uint32_t layer)
{
    const struct recurrent_shape *r = &l->m->shape.recurrent;
    struct recurrent *to = &l->m->layers[layer].mix;
    const struct gguf_tensor *t;
    int rc = weights_in_layer(l, layer, "ssm_in.weight") != NULL
                 ? add_grouped_inputs(l, layer, to)
                 : add_inputs(l, layer, to);

    if (rc == 0)
        rc = add_gates(l, layer, to);
    if (rc == 0)
        rc = add_delta_taps(l, layer);
    if (rc == 0)
        rc = weights_find(l, layer, "ssm_a", TENSOR_REQUIRED,
                          (struct extent){r->n_value_head, 1, 1}, &t);
    if (rc == 0)
        rc = add_rates(l, layer, t, 1);
    if (rc == 0)
        rc = weights_add_layer_vector(l, layer, "ssm_dt.bias", TENSOR_REQUIRED, r->n_value_head,
                                      &to->dt_bias);
    if (rc == 0)
        rc = weights_add_layer_vector(l, layer, "ssm_norm.weight", TENSOR_REQUIRED, r->value_dim,
                                      &to->norm.weight);
    return rc == 0 ? weights_add_layer_matrix(l, layer, "ssm_out.weight", r->n_inner,
                                              l->m->shape.n_embd, &to->out)
                   : rc;
}

/* ---- delta nets with a gate for each key dimension (KDA) ---- */

static int add_kda_inputs(struct load *l, uint32_t layer, struct recurrent *to)
{
    const struct recurrent_shape *r = &l->m->shape.recurrent;
    const uint32_t n_embd = l->m->shape.n_embd, n = r->n_inner, n_low = r->value_dim;
    const struct {
        const char *suffix;
        uint32_t n_in, n_out;
        struct matrix *dst;
    } rows[] = {
        {"attn_q.weight", n_embd, n, &to->q},
        {"attn_k.weight", n_embd, n, &to->k},
        {"attn_v.weight", n_embd, n, &to->v},
        {"ssm_f_a.weight", n_embd, n_low, &to->alpha_low},
        {"ssm_f_b.weight", n_low, n, &to->alpha},
        {"ssm_beta.weight", n_embd, r->n_value_head, &to->beta},
        {"ssm_g_a.weight", n_embd, n_low, &to->z_low},
        {"ssm_g_b.weight", n_low, n, &to->z},
        {"attn_output.weight", n, n_embd, &to->out},
    };
    int rc = 0;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && rc == 0; i++)
        rc = weights_add_layer_matrix(l, layer, rows[i].suffix, rows[i].n_in, rows[i].n_out,
                                      rows[i].dst);
    return rc;
}

static int add_kda_taps(struct load *l, uint32_t layer)
{
    static const char *const suffixes[3] = {"ssm_conv1d_q.weight", "ssm_conv1d_k.weight",
                                            "ssm_conv1d_v.weight"};
    const struct recurrent_shape *r = &l->m->shape.recurrent;
    const uint32_t at[3] = {0, r->k_at, r->v_at};
    struct taps taps[3];
    int rc = 0;

    for (int i = 0; i < 3 && rc == 0; i++) {
        taps[i] = (struct taps){NULL, 0, r->n_inner, at[i]};
        rc = find_taps(l, layer, suffixes[i], r->n_inner, &taps[i].t);
    }
    return rc == 0 ? weights_add_taps(l, layer, taps, 3) : rc;
}

static int add_kda(struct load *l, uint32_t layer)
{
    const struct recurrent_shape *r = &l->m->shape.recurrent;
    const struct extent plain = {1, r->n_value_head, 1}, other = {r->n_value_head, 1, 1};
    struct recurrent *to = &l->m->layers[layer].mix;
    const struct gguf_tensor *t;
    int rc = add_kda_inputs(l, layer, to);

    if (rc == 0)
        rc = add_kda_taps(l, layer);
    if (rc == 0)
        rc = find_small(l, layer, "ssm_a", plain, other, &t);
    if (rc == 0)
        rc = add_rates(l, layer, t, r->key_dim);
    if (rc == 0)
        rc = weights_add_layer_vector(l, layer, "ssm_dt.bias", TENSOR_REQUIRED, r->n_inner,
                                      &to->dt_bias);
    return rc == 0 ? weights_add_layer_vector(l, layer, "ssm_norm.weight", TENSOR_REQUIRED,
                                              r->value_dim, &to->norm.weight)
                   : rc;
}

/* ---- short convolutions ---- */

static int add_conv(struct load *l, uint32_t layer)
{
    const uint32_t n = l->m->shape.n_embd;
    struct recurrent *to = &l->m->layers[layer].mix;
    struct taps taps = {NULL, 0, n, 0};
    int rc = weights_add_layer_matrix(l, layer, "shortconv.in_proj.weight", n, 3 * n, &to->in);

    if (rc == 0)
        rc = find_taps(l, layer, "shortconv.conv.weight", n, &taps.t);
    if (rc == 0)
        rc = weights_add_taps(l, layer, &taps, 1);
    return rc == 0 ? weights_add_layer_matrix(l, layer, "shortconv.out_proj.weight", n, n, &to->out)
                   : rc;
}

int weights_add_recurrent(struct load *l, uint32_t i)
{
    const struct recurrent_shape *r = &l->m->shape.recurrent;

    switch (r->kind) {
    case RECURRENT_NONE:
        return 0;
    case RECURRENT_CONV:
        return add_conv(l, i);
    case RECURRENT_DELTA:
        return r->is_per_key ? add_kda(l, i) : add_delta(l, i);
    case RECURRENT_MAMBA1:
    case RECURRENT_MAMBA2:
        return weights_add_mamba(l, i);
    }
    return 0;
}
