/* core/model/shape_recurrent.c - recurrent layers in the metadata: which layers they are, and their
 * sizes (see load.h).
 *
 * Files tell which layers are recurrent in three ways: a list, a period, or 0 KV heads; the
 * architecture's traits say which one applies. The sizes become offsets into a row of the input
 * projections (recurrent.h: row_floats) and into a sequence's state. A row whose length is a
 * multiple of PAGE_FLOATS gets one more panel, so that rows do not compete for the same cache sets.
 */
#include "core/model/load.h"

#include "core/base/err.h"
#include "core/model/keys.h"

#include <math.h>

#define MAX_RECURRENT_HEADS 1024
#define PAGE_FLOATS 1024 /* rows a multiple of this apart compete for the same cache lines */
#define MAX_INNER (1u << 18) /* most channels: heads of KERN_MAX_STATE floats */

static uint32_t recurrent_panels(uint32_t n)
{
    return (n + KERN_LANES - 1) / KERN_LANES * KERN_LANES;
}

/* ---- which layers ---- */

/* Set *yes to true if layer i is in the file's list or, without a list, is not the last layer of
 * its period. */
static int is_in_period(struct load *l, uint32_t i, bool *yes)
{
    uint32_t period = 4;
    const struct gguf_kv *kv;
    char key[GGUF_MAX_NAME];
    int rc;

    key_name(l, "attention.recurrent_layers", key);
    kv = gguf_find(l->g, key);
    if (kv == NULL) {
        rc = key_u32(l, "full_attention_interval", KEY_OPTIONAL, 1, UINT32_MAX, &period);
        *yes = (i + 1) % period != 0;
        return rc;
    }
    if (kv->type != GGUF_ARRAY || kv->elem == GGUF_STRING || kv->elem == GGUF_F32 ||
        kv->elem == GGUF_F64 || kv->count < l->m->shape.n_layer)
        return load_fail(l, ERR_FORMAT, "key '%s': must have one bool for each layer", key);
    *yes = gguf_array_int(kv, i) != 0;
    return 0;
}

/* Set the parts of layer i by its KV heads: without any it is recurrent; if mixers and nets are
 * layers of their own and it has a net, it is only that net. */
static int parts_by_heads(struct load *l, uint32_t i, struct layer_parts *parts)
{
    uint32_t n_kv_head = l->m->shape.n_head, n_ff = 0;
    int rc = key_u32_at(l, "attention.head_count_kv", KEY_OPTIONAL, i, 0, UINT32_MAX, &n_kv_head);

    parts->has_ffn = true;
    if (rc == 0 && (l->traits->recurrence & RECURRENT_TRAIT_ALONE) != 0) {
        rc = key_u32_at(l, "feed_forward_length", KEY_REQUIRED, i, 0, UINT32_MAX, &n_ff);
        parts->has_ffn = n_ff > 0;
        if (parts->has_ffn)
            return rc;
    }
    parts->has_attention = n_kv_head > 0;
    parts->is_recurrent = n_kv_head == 0;
    return rc;
}

int load_layer_parts(struct load *l, uint32_t i, struct layer_parts *parts)
{
    const uint32_t traits = l->traits->recurrence;
    int rc;

    *parts = (struct layer_parts){.has_attention = true, .has_ffn = true};
    if (l->traits->recurrent == RECURRENT_NONE || i >= l->m->shape.n_layer)
        return 0; /* the guessing layer has no state */
    if ((traits & (RECURRENT_TRAIT_ALL | RECURRENT_TRAIT_BESIDE)) != 0) {
        parts->is_recurrent = true;
        parts->has_attention = parts->has_ffn = (traits & RECURRENT_TRAIT_BESIDE) != 0;
        return 0;
    }
    if ((traits & RECURRENT_TRAIT_PERIOD) != 0) {
        rc = is_in_period(l, i, &parts->is_recurrent);
        parts->has_attention = !parts->is_recurrent;
        return rc;
    }
    *parts = (struct layer_parts){0};
    return parts_by_heads(l, i, parts);
}

/* ---- sizes ---- */

/* Read the short convolution: one matrix makes B, C and X. */
static int read_conv(struct load *l, struct recurrent_shape *r)
{
    const uint32_t n = l->m->shape.n_embd;
    const int rc = key_u32(l, "shortconv.l_cache", KEY_REQUIRED, 2, KERN_MAX_TAP, &r->n_tap);

    r->n_inner = n;
    r->n_channel = recurrent_panels(n);
    r->k_at = n;
    r->v_at = 2 * n;
    r->row_floats = recurrent_panels(3 * n);
    return rc;
}

/* Place q, k and v, then the other inputs of the heads; n_gate: length of alpha. */
static void place_delta(struct recurrent_shape *r, uint32_t n_gate)
{
    const uint32_t n_key = recurrent_panels(r->n_key_head * r->key_dim);

    r->query_scale = (float)(1.0 / sqrt(r->key_dim));
    r->n_inner = r->n_value_head * r->value_dim;
    r->k_at = n_key;
    r->v_at = 2 * n_key;
    r->n_channel = r->v_at + recurrent_panels(r->n_inner);
    r->z_at = r->n_channel;
    r->alpha_at = r->z_at + recurrent_panels(r->n_inner);
    r->beta_at = r->alpha_at + recurrent_panels(n_gate);
    r->low_at = r->beta_at + recurrent_panels(r->n_value_head);
    r->row_floats = r->low_at + (r->is_per_key ? 2 * recurrent_panels(r->value_dim) : 0);
    r->heads_floats = r->n_value_head * kern_state_floats(r->key_dim, r->value_dim);
}

static int check_delta(struct load *l, const struct recurrent_shape *r, uint32_t n_inner)
{
    if (r->n_value_head % r->n_key_head != 0)
        return load_fail(l, ERR_FORMAT,
                         "key '%s.ssm.time_step_rank': is %u, but must be a multiple of "
                         "'ssm.group_count', %u",
                         l->traits->arch, r->n_value_head, r->n_key_head);
    if (n_inner != r->n_value_head * r->key_dim)
        return load_fail(l, ERR_UNSUPPORTED,
                         "key '%s.ssm.inner_size': is %u, but only %u is supported: "
                         "'ssm.time_step_rank', %u, times 'ssm.state_size', %u",
                         l->traits->arch, n_inner, r->n_value_head * r->key_dim, r->n_value_head,
                         r->key_dim);
    return 0;
}

/* Read a delta net. ssm.grouped_heads is Quire's own key: the value heads that share a key head are
 * neighbours, as in published weights, whatever the architecture's files do. */
static int read_delta(struct load *l, struct recurrent_shape *r)
{
    uint32_t n_inner = 0;
    bool is_grouped = false;
    int rc = key_u32(l, "ssm.conv_kernel", KEY_REQUIRED, 2, KERN_MAX_TAP, &r->n_tap);

    if (rc == 0)
        rc = key_u32(l, "ssm.state_size", KEY_REQUIRED, 1, KERN_MAX_STATE, &r->key_dim);
    if (rc == 0)
        rc = key_u32(l, "ssm.group_count", KEY_REQUIRED, 1, MAX_RECURRENT_HEADS, &r->n_key_head);
    if (rc == 0)
        rc = key_u32(l, "ssm.time_step_rank", KEY_REQUIRED, 1, MAX_RECURRENT_HEADS,
                     &r->n_value_head);
    if (rc == 0)
        rc = key_u32(l, "ssm.inner_size", KEY_REQUIRED, 1, MAX_INNER, &n_inner);
    if (rc == 0)
        rc = check_delta(l, r, n_inner);
    if (rc == 0)
        rc = key_bool(l, "ssm.grouped_heads", &is_grouped);
    r->value_dim = r->key_dim;
    r->is_spread = (l->traits->recurrence & RECURRENT_TRAIT_SPREAD) != 0 && !is_grouped;
    r->gate_act = KERN_ACT_SILU;
    place_delta(r, r->n_value_head);
    return rc;
}

/* Read KDA: as many heads of keys as of values, and a gate for each key dimension. */
static int read_delta_per_key(struct load *l, struct recurrent_shape *r)
{
    int rc = key_u32(l, "ssm.conv_kernel", KEY_REQUIRED, 2, KERN_MAX_TAP, &r->n_tap);

    if (rc == 0)
        rc = key_u32(l, "kda.head_dim", KEY_REQUIRED, 1, KERN_MAX_STATE, &r->key_dim);
    r->n_key_head = r->n_value_head = l->m->shape.n_head;
    r->value_dim = r->key_dim;
    r->is_per_key = true;
    r->gate_act = KERN_ACT_SIGMOID;
    place_delta(r, r->n_value_head * r->key_dim);
    return rc;
}

/* Place the state of a layer: the convolution's tail, and the heads' matrices. */
static void place_state(struct recurrent_shape *r)
{
    r->scan_at = (size_t)(r->n_tap - 1) * r->n_channel;
    r->layer_floats = r->scan_at + r->heads_floats;
}

int load_recurrent(struct load *l)
{
    struct recurrent_shape *r = &l->m->shape.recurrent;
    int rc = 0;

    r->kind = l->traits->recurrent;
    if (r->kind == RECURRENT_NONE)
        return 0;
    if (r->kind == RECURRENT_CONV)
        rc = read_conv(l, r);
    else if (r->kind == RECURRENT_DELTA)
        rc = (l->traits->recurrence & RECURRENT_TRAIT_PER_KEY) != 0 ? read_delta_per_key(l, r)
                                                                    : read_delta(l, r);
    else
        rc = load_mamba(l, r);
    if (r->row_floats % PAGE_FLOATS == 0)
        r->row_floats += KERN_LANES;
    if (rc == 0)
        place_state(r);
    return rc;
}
