/* core/model/shape_layer.c - sizes that may differ from layer to layer (see load.h).
 *
 * In some files the width of feed-forward nets and the number of KV heads are arrays with one
 * number for each layer; heads of layers with a window may have sizes of their own.
 */
#include "core/model/load.h"

#include "core/base/err.h"
#include "core/model/keys.h"

#include <math.h>

#define MAX_FF (1u << 20)
#define MAX_HEADS 1024

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Read the width of layer i's dense net; 0: it has none. Recurrent models whose layers all have
 * experts may lack the key. */
static int read_width(struct load *l, uint32_t i, const struct layer_parts *parts, uint32_t *n_ff)
{
    const bool may_lack = l->traits->recurrent != RECURRENT_NONE;

    *n_ff = 0;
    return parts->has_ffn ? key_u32_at(l, "feed_forward_length",
                                       may_lack ? KEY_OPTIONAL : KEY_REQUIRED, i, may_lack ? 0 : 1,
                                       MAX_FF, n_ff)
                          : 0;
}

/* Read the width and KV heads of layer i; files may lack the key of KV heads. */
static int read_layer(struct load *l, uint32_t i, const struct layer_parts *parts, uint32_t *n_ff,
                      uint32_t *n_kv_head)
{
    const uint32_t n_head = l->m->shape.n_head;
    int rc = read_width(l, i, parts, n_ff);

    *n_kv_head = 0;
    if (rc < 0 || !parts->has_attention)
        return rc;
    *n_kv_head = n_head;
    rc = key_u32_at(l, "attention.head_count_kv", KEY_OPTIONAL, i, 1, MAX_HEADS, n_kv_head);
    if (rc == 0 && n_head % *n_kv_head != 0)
        return load_fail(l, ERR_FORMAT, "%u heads cannot share %u KV heads equally", n_head,
                         *n_kv_head);
    return rc;
}

int load_layer_sizes(struct load *l)
{
    struct model_shape *s = &l->m->shape;
    const uint32_t n_layer = model_n_layers(l->m);
    int rc = 0;

    for (uint32_t i = 0; i < n_layer && rc == 0; i++) {
        struct layer_parts parts;
        uint32_t n_ff, n_kv_head;

        rc = load_layer_parts(l, i, &parts);
        if (rc == 0)
            rc = read_layer(l, i, &parts, &n_ff, &n_kv_head);
        if (rc < 0)
            return rc;
        s->n_ff = larger(s->n_ff, n_ff);
        s->n_kv_head = larger(s->n_kv_head, n_kv_head);
    }
    return rc;
}

/* Read activation_sparsity_scale: one number for each layer; -inf: nothing is cut. */
static int read_sparsity(struct load *l, uint32_t i)
{
    struct model_layer *to = &l->m->layers[i];
    char key[GGUF_MAX_NAME];
    const struct gguf_kv *kv;

    key_name(l, "activation_sparsity_scale", key);
    kv = gguf_find(l->g, key);
    if (kv == NULL)
        return 0;
    if (kv->type != GGUF_ARRAY || kv->elem != GGUF_F32 || kv->count <= i)
        return load_fail(l, ERR_FORMAT, "key '%s': must have one number for each layer", key);
    to->sparsity = gguf_array_f32(kv, i);
    to->is_sparse = !isinf(to->sparsity) || to->sparsity > 0.0f;
    if (to->is_sparse && !isfinite(to->sparsity))
        return load_fail(l, ERR_FORMAT, "key '%s': is %g", key, (double)to->sparsity);
    return 0;
}

int load_layer_shape(struct load *l, uint32_t i)
{
    const struct model_shape *s = &l->m->shape;
    struct model_layer *to = &l->m->layers[i];
    struct layer_parts parts;
    bool is_local;
    int rc = load_layer_parts(l, i, &parts);

    if (rc == 0)
        rc = read_layer(l, i, &parts, &to->n_ff, &to->n_kv_head);
    if (rc == 0)
        rc = load_has_window(l, i, &is_local);
    if (rc < 0)
        return rc;
    to->has_attention = parts.has_attention;
    to->has_ffn = parts.has_ffn;
    to->ffn.has_relu = i >= s->n_layer - s->n_head_layers && i < s->n_layer;
    to->recurrent = parts.is_recurrent ? s->recurrent.kind : RECURRENT_NONE;
    to->key_dim = is_local && s->window_dim > 0 ? s->window_dim : s->key_dim;
    to->value_dim = is_local && s->window_dim > 0 ? s->window_dim : s->value_dim;
    to->n_rot = is_local ? s->window_rot : s->n_rot;
    to->shares_kv = s->n_shared_kv > 0 && i >= s->n_layer - s->n_shared_kv;
    if (s->n_latent > 0 && to->has_attention)
        to->n_kv_head = s->n_kv_head;
    return s->n_streams > 1 ? read_sparsity(l, i) : 0;
}

struct model_shape load_shape_of_layer(const struct load *l, uint32_t i)
{
    const struct model_layer *of = &l->m->layers[i];
    struct model_shape s = l->m->shape;

    s.n_ff = of->n_ff;
    s.n_kv_head = of->n_kv_head;
    s.key_dim = of->key_dim;
    s.value_dim = of->value_dim;
    s.head_out = s.n_latent > 0 ? s.head_out : of->value_dim;
    return s;
}
