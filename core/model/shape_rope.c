/* core/model/shape_rope.c - positions and windows in the metadata (see load.h).
 *
 * First the options of up to two rope tables are read: the model's and that of its layers with a
 * window; load_layer_rope() then sets for each layer the table, or none, and the window. A type of
 * rope scaling that is not computed is refused by its key.
 */
#include "core/model/load.h"

#include "core/base/err.h"
#include "core/base/maths.h"
#include "core/base/mem.h"
#include "core/model/keys.h"

#include <math.h>
#include <string.h>

static bool rope_is_named(struct gguf_str s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.data, text, s.len) == 0;
}

static double mscale(double factor, double weight)
{
    return factor > 1.0 ? 0.1 * weight * maths_log(factor) + 1.0 : 1.0;
}

/* Read YaRN, which makes rotated vectors longer. Latent attention takes that back and scales the
 * whole score instead, the part that is not rotated too; the file says by how much. */
static int read_yarn(struct load *l, struct rope_options *r)
{
    struct model_shape *s = &l->m->shape;
    float fast = 32.0f, slow = 1.0f, log_multiplier = 0.0f;
    double weight;
    int rc = key_positive(l, "rope.scaling.yarn_beta_fast", KEY_OPTIONAL, &fast);

    if (rc == 0)
        rc = key_positive(l, "rope.scaling.yarn_beta_slow", KEY_OPTIONAL, &slow);
    if (rc == 0)
        rc = key_not_negative(l, "rope.scaling.yarn_log_multiplier", &log_multiplier);
    r->is_yarn = true;
    r->is_exact = (l->traits->flags & TRAIT_YARN_EXACT) != 0;
    r->beta_fast = (double)fast;
    r->beta_slow = (double)slow;
    weight = (l->traits->attention & ATTN_TRAIT_YARN_WHOLE) != 0 ? (double)log_multiplier
                                                                 : (double)log_multiplier / 0.1;
    if (s->n_latent > 0 && weight > 0.0) {
        s->attn_scale *= (float)(mscale(r->factor, weight) * mscale(r->factor, weight));
        return rc;
    }
    r->magnitude *= mscale(r->factor, 1.0) / (weight > 0.0 ? mscale(r->factor, weight) : 1.0);
    return rc;
}

/* Read longrope's factors: one set for contexts up to the original one, another for longer ones.
 * The served context chooses the set, not a sequence's length, so that a token's keys do not depend
 * on the tokens after it. */
static void read_longrope(struct load *l, struct rope_options *r)
{
    l->divisors_name = (double)l->m->shape.n_ctx > r->n_ctx_orig ? "rope_factors_long.weight"
                                                                 : "rope_factors_short.weight";
    r->factor = 1.0; /* the divisors contain the factor */
}

static int read_scaling(struct load *l, struct rope_options *r)
{
    struct gguf_str type = {"linear", 6}; /* the meaning of a factor without a type */
    float factor = 1.0f, magnitude = 1.0f;
    uint32_t orig = l->m->shape.n_ctx_train;
    char name[32];
    int rc = key_str(l, "rope.scaling.type", &type);

    if (rc == 0)
        rc = key_positive(l, "rope.scale_linear", KEY_OPTIONAL, &factor); /* the older name */
    if (rc == 0)
        rc = key_positive(l, "rope.scaling.factor", KEY_OPTIONAL, &factor);
    if (rc == 0)
        rc = key_positive(l, "rope.scaling.attn_factor", KEY_OPTIONAL, &magnitude);
    if (rc == 0)
        rc = key_u32(l, "rope.scaling.original_context_length", KEY_OPTIONAL, 1, UINT32_MAX, &orig);
    if (rc < 0)
        return rc;
    r->magnitude = (double)magnitude;
    r->n_ctx_orig = orig;
    if (rope_is_named(type, "none"))
        return 0;
    r->factor = (double)factor;
    if (rope_is_named(type, "longrope") ||
        gguf_tensor_find(l->g, "rope_factors_long.weight") != NULL)
        read_longrope(l, r); /* many files lack longrope's type */
    else if (rope_is_named(type, "yarn"))
        return read_yarn(l, r);
    else if (!rope_is_named(type, "linear")) {
        load_printable(name, sizeof(name), type);
        return load_fail(l, ERR_UNSUPPORTED,
                         "key '%s.rope.scaling.type': is '%s', but only none, linear, yarn and "
                         "longrope are supported",
                         l->traits->arch, name);
    }
    return 0;
}

/* True: positions have several sections, for images. Those of texts have the same number in each
 * section, so only the order of pairs differs. */
static bool has_sections(const struct load *l)
{
    char key[GGUF_MAX_NAME];
    const struct gguf_kv *kv;

    key_name(l, "rope.dimension_sections", key);
    kv = gguf_find(l->g, key);
    if (kv == NULL || kv->type != GGUF_ARRAY || kv->elem == GGUF_STRING || kv->elem == GGUF_F32 ||
        kv->elem == GGUF_F64)
        return false;
    for (uint64_t i = 0; i < kv->count; i++)
        if (gguf_array_int(kv, i) != 0)
            return true;
    return false;
}

/* Check, where sections must cover all pairs, that none is left out. */
static int check_sections(struct load *l)
{
    char key[GGUF_MAX_NAME];
    const struct gguf_kv *kv;
    int64_t sum = 0;

    if ((l->traits->attention & ATTN_TRAIT_WHOLE_SECTIONS) == 0 || !has_sections(l))
        return 0;
    key_name(l, "rope.dimension_sections", key);
    kv = gguf_find(l->g, key);
    for (uint64_t i = 0; i < kv->count && i < 4; i++)
        sum += gguf_array_int(kv, i) & 0xffffff;
    if (sum != l->m->shape.n_rot / 2)
        return load_fail(l, ERR_UNSUPPORTED,
                         "key '%s': has sections of %lld pairs in total, but only half of "
                         "'rope.dimension_count', %u, is supported",
                         key, (long long)sum, l->m->shape.n_rot);
    return 0;
}

/* Read rope.halves, Quire's own key for weights whose rows are not in the order of the
 * architecture's files: true: number i of a head rotates with number i of its second half; false:
 * neighbours rotate. */
static int read_rotated(struct load *l)
{
    struct model_shape *s = &l->m->shape;
    const uint32_t most = s->n_latent > 0 ? s->key_dim - s->n_latent : s->key_dim;
    int rc;

    const uint32_t most_window = s->window_dim > 0 ? s->window_dim : most;

    s->n_rot = most;
    s->rope_neox = (l->traits->flags & TRAIT_NEOX) != 0 ||
                   ((l->traits->attention & ATTN_TRAIT_SECTION_HALVES) != 0 && has_sections(l));
    rc = key_bool(l, "rope.halves", &s->rope_neox);
    if (rc == 0)
        rc = key_u32(l, "rope.dimension_count", KEY_OPTIONAL, 2, most, &s->n_rot);
    s->window_rot = s->n_rot < most_window ? s->n_rot : most_window;
    if (rc == 0)
        rc = key_u32(l, "rope.dimension_count_swa", KEY_OPTIONAL, 2, most_window, &s->window_rot);
    if (rc == 0 && (s->n_rot % 2 != 0 || s->window_rot % 2 != 0))
        return load_fail(l, ERR_FORMAT, "key '%s.rope.dimension_count': is %u, but must be even",
                         l->traits->arch, s->n_rot % 2 != 0 ? s->n_rot : s->window_rot);
    return rc == 0 ? check_sections(l) : rc;
}

/* Set the table of layers with a window, not scaled, where the family gives them one. */
static int read_window_rope(struct load *l, float base)
{
    struct rope_options *r = &l->ropes[1];

    if (l->traits->window_base > 0.0f)
        base = l->traits->window_base;
    *r = (struct rope_options){.n_ctx = l->m->shape.n_ctx,
                               .n_rot = l->m->shape.window_rot,
                               .factor = 1.0,
                               .magnitude = 1.0};
    const int rc = key_positive(l, "rope.freq_base_swa", KEY_OPTIONAL, &base);
    r->base = (double)base;
    return rc;
}

static int read_window(struct load *l)
{
    struct model_shape *s = &l->m->shape;

    int rc;

    s->window = l->traits->window;
    s->is_chunked = (l->traits->attention & ATTN_TRAIT_CHUNKED) != 0;
    rc = key_u32(l, "attention.sliding_window", KEY_OPTIONAL, 0, UINT32_MAX, &s->window);
    if (rc == 0 && s->is_chunked && s->window % KERN_SEGMENT != 0)
        return load_fail(l, ERR_UNSUPPORTED,
                         "key '%s.attention.sliding_window': is %u, but only chunks of multiples "
                         "of %d tokens are supported",
                         l->traits->arch, s->window, KERN_SEGMENT);
    if (rc == 0 && s->window > 0 && s->is_encoder && (l->traits->flags & TRAIT_ENCODER) == 0)
        return load_fail(l, ERR_UNSUPPORTED,
                         "key '%s.attention.causal': is false, but windows of %u tokens are only "
                         "supported with causal attention",
                         l->traits->arch, s->window);
    return rc;
}

int load_rope(struct load *l)
{
    struct model_shape *s = &l->m->shape;
    struct rope_options *r = &l->ropes[0];
    float base = l->traits->rope_base > 0.0f ? l->traits->rope_base : 10000.0f;
    bool is_turned = true;
    int rc = read_window(l);

    l->divisors_name = "rope_freqs.weight";
    if (rc < 0 || (l->traits->flags & (TRAIT_LEARNED_POS | TRAIT_ALIBI)) != 0)
        return rc;
    if (s->n_head == 0 ||
        ((l->traits->attention & ATTN_TRAIT_UNTURNED) != 0 && s->n_latent == 0))
        return 0;
    rc = read_rotated(l);
    if (rc == 0 && (l->traits->flags & TRAIT_ROPE_SWITCH) != 0)
        rc = key_bool(l, "rope.scaling.finetuned", &is_turned);
    if ((l->traits->attention & ATTN_TRAIT_UNTURNED) != 0)
        is_turned = false;
    if (rc == 0 && !is_turned && s->n_latent == 0) /* with MLA n_rot is also the width of the part
                                                    * beside the latent vector */
        s->n_rot = s->window_rot = 0;
    if (rc < 0 || !is_turned)
        return rc;
    rc = key_positive(l, "rope.freq_base", KEY_OPTIONAL, &base);
    *r = (struct rope_options){.n_ctx = s->n_ctx,
                               .n_rot = s->n_rot,
                               .base = (double)base,
                               .factor = 1.0,
                               .magnitude = 1.0};
    if (rc == 0)
        rc = read_scaling(l, r);
    if (rc == 0 && r->is_yarn && base == 1.0f)
        return load_fail(l, ERR_FORMAT, "key '%s.rope.freq_base': is 1, which yarn cannot scale",
                         l->traits->arch);
    if (rc == 0 && (l->traits->flags & TRAIT_WINDOW_ROPE) != 0 && s->window > 0)
        rc = read_window_rope(l, base);
    return rc;
}

/* ---- ALiBi ---- */

/* Compute the slopes of the ALiBi paper (Press et al. 2022): with n heads, n a power of two, a row
 * from 2^(-max/n) down to 2^-max; with another n those of the next lower power, and every other
 * slope of twice as many. */
int load_alibi(struct load *l)
{
    struct model *m = l->m;
    const uint32_t n_head = m->shape.n_head;
    float most = 8.0f;
    uint32_t n = 1;
    const int rc = key_positive(l, "attention.max_alibi_bias", KEY_OPTIONAL, &most);

    if (rc < 0)
        return rc;
    m->slopes = mem_calloc(n_head, sizeof(*m->slopes));
    if (m->slopes == NULL)
        return load_fail(l, ERR_NOMEM, "out of memory");
    while (2 * n <= n_head)
        n *= 2;
    for (uint32_t h = 0; h < n_head; h++) {
        const double share = h < n ? (double)(h + 1) : (double)(h - n) + 0.5;

        m->slopes[h] = (float)maths_exp2(-(double)most * share / n);
    }
    return 0;
}

/* ---- layer by layer ---- */

/* Set *yes to true if layer i has a window, by the file's own pattern or by the family's period. */
static bool is_in_head(const struct model_shape *s, uint32_t i)
{
    return i >= s->n_layer - s->n_head_layers && i < s->n_layer;
}

int load_has_window(struct load *l, uint32_t i, bool *yes)
{
    const bool is_full_first = (l->traits->flags & TRAIT_FULL_FIRST) != 0;
    uint32_t period = l->traits->window_period;
    const struct gguf_kv *kv;
    char key[GGUF_MAX_NAME];
    int rc;

    *yes = false;
    if (l->m->shape.window == 0 || is_in_head(&l->m->shape, i))
        return 0;
    key_name(l, "attention.sliding_window_pattern", key);
    kv = gguf_find(l->g, key);
    if (kv != NULL && kv->type == GGUF_ARRAY) {
        if (kv->elem == GGUF_STRING || kv->elem == GGUF_F32 || kv->elem == GGUF_F64 ||
            kv->count < l->m->shape.n_layer)
            return load_fail(l, ERR_FORMAT, "key '%s': must have one bool for each layer", key);
        *yes = gguf_array_int(kv, i) != 0;
        return 0;
    }
    rc = key_u32(l, "attention.sliding_window_pattern", KEY_OPTIONAL, 0, UINT32_MAX, &period);
    *yes = period == 0 || (is_full_first ? i % period > 0 : i % period < period - 1);
    return rc;
}

/* Set a layer's window. An encoder's reaches as far after a token as before it: half of it each
 * way. */
static void set_window(const struct model_shape *s, struct model_layer *to, bool is_local)
{
    const uint32_t half = s->window / 2;

    if (!s->is_encoder) {
        to->window = is_local && s->window < s->n_ctx ? s->window : 0;
        return;
    }
    to->window = is_local && half + 1 < s->n_ctx ? half + 1 : 0;
    to->ahead = to->window > 0 ? half : 0;
}

/* True: the family does not rotate layers without a window, and this layer has none. */
static bool is_unturned(const struct load *l, bool is_local)
{
    if ((l->traits->flags & TRAIT_FULL_NO_ROPE) == 0 || is_local)
        return false;
    return (l->traits->attention & ATTN_TRAIT_PLAIN_ROPE) == 0 || l->m->shape.window > 0;
}

int load_layer_rope(struct load *l, uint32_t i)
{
    const struct traits *t = l->traits;
    const struct model_shape *s = &l->m->shape;
    struct model_layer *to = &l->m->layers[i];
    bool is_local;
    const int rc = load_has_window(l, i, &is_local);

    set_window(s, to, is_local);
    to->rope = is_local && (t->flags & TRAIT_WINDOW_ROPE) != 0 ? 1 : 0;
    if (s->n_rot == 0 || l->ropes[0].n_ctx == 0 || is_in_head(s, i) ||
        (t->no_rope_period > 0 && (i + 1) % t->no_rope_period == 0) ||
        is_unturned(l, is_local))
        to->rope = MODEL_NO_ROPE;
    if ((t->attention & ATTN_TRAIT_UNTURNED_WARM) == 0 || to->rope == MODEL_NO_ROPE)
        to->query_scale = l->m->query_scale;
    if (l->m->ones != NULL && (t->attention & ATTN_TRAIT_UNIT_VALUES) != 0)
        to->v_norm.weight = l->m->ones;
    if (l->m->ones != NULL && (t->attention & ATTN_TRAIT_UNIT_NORMS) != 0 &&
        to->rope != MODEL_NO_ROPE)
        to->q_norm.weight = to->k_norm.weight = l->m->ones;
    return rc;
}
