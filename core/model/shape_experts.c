/* core/model/shape_experts.c - mixtures of experts in the metadata (see load.h).
 *
 * load_experts() runs after the dense sizes are known, since an expert's width may default to the
 * dense net's. Keys come first; where old files lack one, the architecture's traits decide. Each
 * number is checked against the others (groups divide the experts, a token finds enough experts in
 * its groups), so that forward_moe.c needs no checks.
 */
#include "core/model/load.h"

#include "core/base/err.h"
#include "core/model/keys.h"

#include <math.h>
#include <stdio.h>

#define MAX_EXPERTS 1024
#define MAX_FF (1u << 20)

/* The numbers in files that name the function of a router's outputs. */
enum { GATING_SOFTMAX = 1, GATING_SIGMOID = 2, GATING_SOFTMAX_OF_CHOSEN = 3 };

/* Read an expert's width: from its key, or the dense width divided by the experts used, or the
 * dense net's width. */
static int read_widths(struct load *l)
{
    struct model_shape *s = &l->m->shape;
    const bool is_gated = (l->traits->optional >> LAYER_SHARED_GATE & 1) != 0;
    uint32_t n_shared = (l->traits->experts & EXPERT_TRAIT_SHARED) != 0 ? 1 : 0;
    int rc;

    s->n_ff_expert = is_gated ? s->n_ff / s->n_expert_used : s->n_ff;
    s->n_ff_shared = is_gated ? s->n_ff : 0;
    rc = key_u32_of_layers(l, "expert_feed_forward_length", KEY_OPTIONAL, 1, MAX_FF,
                           &s->n_ff_expert);
    if (rc == 0 && s->n_ff_expert == 0)
        return load_fail(l, ERR_FORMAT, "key '%s.expert_feed_forward_length' is missing",
                         l->traits->arch);
    if (rc == 0)
        rc = key_u32(l, "expert_shared_count", KEY_OPTIONAL, 0, MAX_EXPERTS, &n_shared);
    if (n_shared > 0)
        s->n_ff_shared = n_shared * s->n_ff_expert;
    if (rc == 0)
        rc = key_u32(l, "expert_shared_feed_forward_length", KEY_OPTIONAL, 0, MAX_FF,
                     &s->n_ff_shared);
    if (rc == 0 && s->n_ff_shared > MAX_FF)
        return load_fail(l, ERR_FORMAT, "shared experts of width %u are too wide", s->n_ff_shared);
    return rc;
}

/* Return the function of the router's outputs for files older than its key: the architecture's, or,
 * for DeepSeek's line, sigmoids if the file has choice biases, which came with sigmoids. */
static uint32_t usual_gating(const struct load *l)
{
    char name[GGUF_MAX_NAME];

    snprintf(name, sizeof(name), "blk.%u.exp_probs_b.bias", l->n_dense_lead);
    if ((l->traits->experts & EXPERT_TRAIT_SIGMOID) != 0 ||
        ((l->traits->experts & EXPERT_TRAIT_SIGMOID_BIASED) != 0 &&
         gguf_tensor_find(l->g, name) != NULL))
        return GATING_SIGMOID;
    return GATING_SOFTMAX;
}

static int read_gate(struct load *l)
{
    struct model_shape *s = &l->m->shape;
    uint32_t gating = 0;
    int rc = key_u32(l, "expert_gating_func", KEY_OPTIONAL, 0, 3, &gating);

    if (gating == 0)
        gating = usual_gating(l);
    s->expert_norm = (l->traits->flags & TRAIT_EXPERT_NORM) != 0;
    s->expert_scale = 1.0f;
    s->expert_gate = (l->traits->experts & EXPERT_TRAIT_MIXER) != 0 ? EXPERT_MIXER
                     : gating == GATING_SIGMOID                     ? EXPERT_SIGMOID
                                                                    : EXPERT_SOFTMAX;
    if (rc == 0)
        rc = key_bool(l, "expert_weights_norm", &s->expert_norm);
    if (gating == GATING_SOFTMAX_OF_CHOSEN) /* equals a softmax of all experts, made to sum to 1 */
        s->expert_norm = true;
    return rc == 0 ? key_not_negative(l, "expert_weights_scale", &s->expert_scale) : rc;
}

/* Read the groups, of which only the best take part: every token must find its experts in them. */
static int read_groups(struct load *l)
{
    struct model_shape *s = &l->m->shape;
    uint32_t n = 0, used = 0;
    int rc = key_u32(l, "expert_group_count", KEY_OPTIONAL, 0, MODEL_MAX_EXPERT_GROUPS, &n);

    if (rc < 0 || n <= 1)
        return rc;
    rc = key_u32(l, "expert_group_used_count", KEY_REQUIRED, 1, n, &used);
    if (rc < 0)
        return rc;
    if (s->n_expert % n != 0 || s->n_expert / n * used < s->n_expert_used)
        return load_fail(l, ERR_FORMAT,
                         "key '%s.expert_group_count': %u groups, of which %u are used, do not fit "
                         "%u experts, of which %u are used",
                         l->traits->arch, n, used, s->n_expert, s->n_expert_used);
    s->n_expert_group = n;
    s->n_expert_group_used = used;
    return 0;
}

/* Read which layer of each period has experts: the second or, by the key's other name, the last. */
static int read_period(struct load *l)
{
    uint32_t step = 0;
    int rc = key_u32(l, "moe_every_n_layers", KEY_OPTIONAL, 0, UINT32_MAX, &l->expert_period);

    l->expert_at = 1;
    if (rc == 0)
        rc = key_u32(l, "interleave_moe_layer_step", KEY_OPTIONAL, 1, UINT32_MAX, &step);
    if (rc < 0 || step == 0)
        return rc;
    l->expert_period = step;
    l->expert_at = step - 1;
    return 0;
}

/* Take the traits of a mixture, and set whether a dense net is beside it. */
static void take_traits(struct load *l)
{
    struct model_shape *s = &l->m->shape;
    const uint32_t traits = l->traits->experts;

    s->experts_weigh_input = (traits & EXPERT_TRAIT_WEIGH_INPUT) != 0;
    s->router_cap = l->traits->router_cap;
    s->router_scale = 1.0f;
    s->has_beside = (traits & EXPERT_TRAIT_BESIDE) != 0 &&
                    gguf_tensor_find(l->g, "blk.0.ffn_up.weight") != NULL;
    s->moe_scale = s->has_beside ? 0.70710678f : 1.0f; /* sqrt(1/2) */
    if ((traits & EXPERT_TRAIT_APART) == 0)
        return;
    s->has_beside = true;
    s->router_scale = (float)(1.0 / sqrt(s->n_embd));
}

/* True: a layer has a router. Some files count experts that no layer has. */
static bool has_routers(const struct load *l)
{
    char name[GGUF_MAX_NAME];

    for (uint32_t i = 0; i < l->m->shape.n_layer; i++) {
        snprintf(name, sizeof(name), "blk.%u.ffn_gate_inp.weight", i);
        if (gguf_tensor_find(l->g, name) != NULL)
            return true;
    }
    return false;
}

int load_experts(struct load *l)
{
    struct model_shape *s = &l->m->shape;
    int rc = key_u32(l, "expert_count", KEY_OPTIONAL, 0, MAX_EXPERTS, &s->n_expert);

    if ((l->traits->experts & EXPERT_TRAIT_BY_ROUTER) != 0 && !has_routers(l))
        s->n_expert = 0;
    if (rc < 0 || s->n_expert == 0)
        return rc;
    take_traits(l);
    rc = key_u32_of_layers(
        l, "expert_used_count", KEY_REQUIRED, 1,
        s->n_expert < MODEL_MAX_EXPERTS_USED ? s->n_expert : MODEL_MAX_EXPERTS_USED,
        &s->n_expert_used);
    if (rc == 0)
        rc = key_u32(l, "leading_dense_block_count", KEY_OPTIONAL, 0, s->n_layer,
                     &l->n_dense_lead);
    if (rc == 0)
        rc = read_period(l);
    if (rc == 0)
        rc = read_widths(l);
    if (rc == 0)
        rc = read_gate(l);
    if (rc == 0)
        rc = read_groups(l);
    if (rc == 0)
        rc = key_not_negative(l, "router_logit_softcapping", &s->router_cap);
    if (rc == 0 && (l->traits->experts & EXPERT_TRAIT_LATENT) != 0)
        rc = key_u32(l, "moe_latent_size", KEY_OPTIONAL, 0, s->n_embd, &s->n_moe_latent);
    if (rc == 0 && s->expert_scale == 0.0f)
        s->expert_scale = 1.0f; /* 0 means no scale in some files */
    return rc;
}
