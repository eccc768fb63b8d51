/* core/model/shape_temperature.c - the factors by which queries grow with their position (see
 * load.h).
 *
 * A softmax over more tokens is flatter; such models make their queries longer instead: 1 + scale *
 * ln(1 + floor(p / length)) at position p (Llama 4's and Mistral 3's published code). Computed in
 * double and rounded once.
 */
#include "core/model/load.h"

#include "core/base/err.h"
#include "core/base/maths.h"
#include "core/base/mem.h"
#include "core/model/keys.h"

#include <math.h>

static int fill_temperatures(struct load *l, double scale, uint32_t length)
{
    const uint32_t offset = (l->traits->attention & ATTN_TRAIT_UNTURNED_WARM) != 0 ? 1 : 0;
    const uint32_t n = l->m->shape.n_ctx;
    float *to = mem_calloc(n, sizeof(*to));
    double last = 0;

    l->m->query_scale = to;
    if (to == NULL)
        return load_fail(l, ERR_NOMEM, "out of memory");
    for (uint32_t p = 0; p < n; p++) {
        const double step = floor((double)(p + offset) / length);

        to[p] = p > 0 && step == last ? to[p - 1] : (float)(1.0 + scale * maths_log(1.0 + step));
        last = step;
    }
    return 0;
}

/* Check a temperature that some models apply beyond a position and that is not computed here: where
 * no such position is served, it does not matter. */
static int check_untempered(struct load *l)
{
    uint32_t length = 0;
    const int rc =
        key_u32(l, "attention.temperature_length", KEY_OPTIONAL, 0, UINT32_MAX, &length);

    if (rc == 0 && length > 0 && l->m->shape.n_ctx > length)
        return load_fail(l, ERR_UNSUPPORTED,
                         "key '%s.attention.temperature_length': is %u, but the temperatures of "
                         "scores after that position are not supported (serve with context = %u)",
                         l->traits->arch, length, length);
    return rc;
}

int load_temperature(struct load *l)
{
    const double n_ctx_orig = l->ropes[0].n_ctx_orig;
    uint32_t length = n_ctx_orig > 0.0 ? (uint32_t)n_ctx_orig : l->m->shape.n_ctx_train;
    float scale = l->traits->temperature;
    int rc;

    if (l->traits->temperature_length > 0)
        length = l->traits->temperature_length;
    if ((l->traits->attention & ATTN_TRAIT_TEMPERATURE) == 0)
        return check_untempered(l);
    rc = key_not_negative(l, "attention.temperature_scale", &scale);
    if (rc == 0)
        rc = key_u32(l, "attention.temperature_length", KEY_OPTIONAL, 1, UINT32_MAX, &length);
    return rc == 0 && scale > 0.0f ? fill_temperatures(l, (double)scale, length) : rc;
}

int load_ones(struct load *l)
{
    const struct model_shape *s = &l->m->shape;
    const struct recurrent_shape *r = &s->recurrent;
    const bool has_attention_norms =
        (l->traits->attention & (ATTN_TRAIT_UNIT_NORMS | ATTN_TRAIT_UNIT_VALUES)) != 0 &&
        (s->n_expert == 0 || s->n_expert != l->traits->bare_experts);
    uint32_t n = s->window_dim > s->key_dim ? s->window_dim : s->key_dim;

    if (!has_attention_norms && !r->has_unit_norms)
        return 0;
    n = n > r->n_rank ? n : r->n_rank;
    n = n > r->n_state ? n : r->n_state;
    l->m->ones = mem_calloc(n, sizeof(*l->m->ones));
    if (l->m->ones == NULL)
        return load_fail(l, ERR_NOMEM, "out of memory");
    for (uint32_t i = 0; i < n; i++)
        l->m->ones[i] = 1.0f;
    return 0;
}
