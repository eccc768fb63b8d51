/* core/model/weights_attention.c - tensors that contain several parts of attention, in an order of
 * their own (see weights.h).
 *
 * Nothing is copied to reorder them: each part becomes a job whose runs and strides say which rows
 * of the tensor it takes, and pack.c reads the tensor once for each. The parts done here are marked
 * in *done, so that weights.c does not look for tensors of their names.
 */
#include "core/model/weights.h"

#include "core/base/err.h"

#define BIT(t) ((tensor_set)1 << LAYER_##t)

/* Add the one tensor that older files of latent attention have: it maps the latent vector to each
 * head's key and value. Its rows of values become value_up; its rows of keys, transposed, become
 * key_up. */
static int add_latent(struct load *l, uint32_t layer, tensor_set *done)
{
    const struct model_shape *s = &l->m->shape;
    struct model_layer *to = &l->m->layers[layer];
    const uint32_t stride = s->n_nope + s->head_out;
    const struct extent e = {s->n_latent, (uint64_t)s->n_head * stride, 1};
    const struct gguf_tensor *src;
    int rc;

    if (weights_in_layer(l, layer, "attn_kv_b.weight") == NULL ||
        weights_in_layer(l, layer, "attn_k_b.weight") != NULL)
        return 0;
    *done |= BIT(KEY_UP) | BIT(VALUE_UP);
    rc = weights_find(l, layer, "attn_kv_b.weight", TENSOR_REQUIRED, e, &src);
    if (rc == 0)
        rc = weights_add_matrix_job(l,
                                    (struct matrix_job){.src = src,
                                                        .dst = &to->key_up,
                                                        .row_stride = stride,
                                                        .is_transposed = true},
                                    s->n_nope, s->n_latent, s->n_head);
    if (rc < 0)
        return rc;
    return weights_add_matrix_job(l,
                                  (struct matrix_job){.src = src,
                                                      .dst = &to->value_up,
                                                      .row0 = s->n_nope,
                                                      .row_stride = stride},
                                  s->n_latent, s->head_out, s->n_head);
}

/* Split a tensor that has, for each head, first the query's rows and then the gate's. */
static int add_query_and_gate(struct load *l, struct model_layer *to, const struct gguf_tensor *src)
{
    const struct model_shape *s = &l->m->shape;
    const uint32_t n = to->key_dim;
    const struct matrix_job q = {.src = src, .dst = &to->q, .run = n, .run_stride = 2 * n};
    const struct matrix_job gate = {
        .src = src, .dst = &to->attn_gate, .row0 = n, .run = n, .run_stride = 2 * n};
    const int rc = weights_add_matrix_job(l, q, s->n_embd, s->n_head * n, 1);

    return rc == 0 ? weights_add_matrix_job(l, gate, s->n_embd, s->n_head * n, 1) : rc;
}

/* Add the keys and values, which follow all queries and gates in a tensor that has all of them. */
static int add_keys_and_values(struct load *l, struct model_layer *to,
                               const struct gguf_tensor *src)
{
    const struct model_shape *s = &l->m->shape;
    const uint32_t n = to->n_kv_head * to->key_dim, first = 2 * s->n_head * to->key_dim;
    const struct matrix_job k = {.src = src, .dst = &to->k, .row0 = first};
    const struct matrix_job v = {.src = src, .dst = &to->v, .row0 = first + n};
    const int rc = weights_add_matrix_job(l, k, s->n_embd, n, 1);

    return rc == 0 ? weights_add_matrix_job(l, v, s->n_embd, n, 1) : rc;
}

static int add_gated(struct load *l, uint32_t layer, tensor_set *done)
{
    const struct model_shape *s = &l->m->shape;
    struct model_layer *to = &l->m->layers[layer];
    const bool is_fused = weights_in_layer(l, layer, "attn_q.weight") == NULL &&
                          weights_in_layer(l, layer, "attn_qkv.weight") != NULL;
    const uint64_t n_kv = is_fused ? 2ull * to->n_kv_head * to->key_dim : 0;
    const struct extent e = {s->n_embd, 2ull * s->n_head * to->key_dim + n_kv, 1};
    const struct gguf_tensor *src;
    int rc;

    if (to->key_dim != to->value_dim)
        return load_fail(l, ERR_UNSUPPORTED,
                         "key '%s.attention.value_length': is %u, but only the length of the "
                         "keys, %u, is supported",
                         l->traits->arch, to->value_dim, to->key_dim);
    rc = weights_find(l, layer, is_fused ? "attn_qkv.weight" : "attn_q.weight", TENSOR_REQUIRED, e,
                      &src);
    if (rc == 0)
        rc = add_query_and_gate(l, to, src);
    if (rc == 0 && is_fused)
        rc = add_keys_and_values(l, to, src);
    *done |= BIT(Q) | (is_fused ? BIT(K) | BIT(V) : 0);
    return rc;
}

int weights_add_attention(struct load *l, uint32_t i, tensor_set *done)
{
    if (l->m->shape.n_latent > 0)
        return add_latent(l, i, done);
    return (l->traits->attention & ATTN_TRAIT_GATED) != 0 ? add_gated(l, i, done) : 0;
}
