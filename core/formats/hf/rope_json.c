/* core/formats/hf/rope_json.c - positions in config.json (see config.h).
 *
 * `dynamic` scaling counts as none: it begins where a text is longer than max_position_embeddings,
 * and longer texts are not served.
 */
#include "core/formats/hf/config.h"

#include "core/base/err.h"
#include "core/base/maths.h"
#include "core/formats/hf/classes.h"

#include <math.h>
#include <string.h>

struct scaling {
    double factor, low, high, attention, fast, slow, mscale, mscale_all;
    uint32_t n_ctx_orig;
};

static struct hf_vector *add_vector(struct hf_folder *f, const char *name)
{
    struct hf_vector *to = &f->vectors[f->n_vectors++];

    to->name = name;
    to->n = f->n_rot / 2;
    return to;
}

/* Add Llama 3.1's scaling: long waves are divided by the factor, short ones are not, and those
 * between are blended. */
static void add_llama3(struct hf_folder *f, const struct scaling *r)
{
    const double orig = r->n_ctx_orig;
    struct hf_vector *to = add_vector(f, "rope_freqs.weight");

    for (uint32_t i = 0; i < to->n; i++) {
        const double wave = 2.0 * M_PI * maths_pow(f->rope_base, 2.0 * i / f->n_rot);
        const double mix = (orig / wave - r->low) / (r->high - r->low);

        if (wave < orig / r->high)
            to->v[i] = 1.0f;
        else if (wave > orig / r->low)
            to->v[i] = (float)r->factor;
        else
            to->v[i] = (float)(1.0 / ((1.0 - mix) / r->factor + mix));
    }
}

/* ---- longrope: a factor for each pair, for short and for long contexts ---- */

static int read_factors(struct hf_folder *f, const cJSON *o, const char *name, const char *ours)
{
    const cJSON *list = hf_member(o, name), *m;
    struct hf_vector *to = add_vector(f, ours);
    uint32_t i = 0;

    if (!cJSON_IsArray(list) || (uint32_t)cJSON_GetArraySize(list) != to->n)
        return hf_fail(f, ERR_FORMAT, HF_CONFIG, "'%s' of rope is not a list of %u numbers", name,
                       to->n);
    cJSON_ArrayForEach(m, list)
    {
        if (!cJSON_IsNumber(m) || !(m->valuedouble > 0.0) || !(m->valuedouble < 1e30))
            return hf_fail(f, ERR_FORMAT, HF_CONFIG,
                           "'%s' of rope has an element that is not a number above 0", name);
        to->v[i++] = (float)m->valuedouble;
    }
    return 0;
}

static int add_longrope(struct hf_folder *f, const cJSON *o, struct scaling *r)
{
    double factor, magnitude;
    int rc = hf_u32(f, HF_CONFIG, f->config, "original_max_position_embeddings", 2, HF_MAX_CONTEXT,
                    &r->n_ctx_orig);

    if (rc == 0)
        rc = read_factors(f, o, "long_factor", "rope_factors_long.weight");
    if (rc == 0)
        rc = read_factors(f, o, "short_factor", "rope_factors_short.weight");
    if (rc < 0)
        return rc;
    factor = (double)f->n_ctx / r->n_ctx_orig;
    magnitude = factor > 1.0 ? sqrt(1.0 + maths_log(factor) / maths_log(r->n_ctx_orig)) : 1.0;
    hf_key_text(f, "rope.scaling.type", "longrope");
    hf_key_u32(f, "rope.scaling.original_context_length", r->n_ctx_orig);
    hf_key_f32(f, "rope.scaling.attn_factor", r->attention > 0.0 ? r->attention : magnitude);
    return 0;
}

/* ---- yarn ---- */

static int check_mscale(struct hf_folder *f, const struct scaling *r)
{
    if (strcmp(f->arch, "deepseek2") != 0 && (r->mscale > 0.0 || r->mscale_all > 0.0))
        return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG, "'mscale' of rope is not supported");
    if (r->mscale != r->mscale_all)
        return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                       "'mscale' of rope is %g and 'mscale_all_dim' %g, but only the same for both "
                       "is supported",
                       r->mscale, r->mscale_all);
    return 0;
}

static int add_yarn(struct hf_folder *f, const cJSON *o, const struct scaling *r)
{
    const double usual = r->factor > 1.0 ? 0.1 * maths_log(r->factor) + 1.0 : 1.0;
    const bool cuts = strcmp(f->arch, "gpt-oss") != 0; /* the range is rounded to whole pairs */
    bool truncates = true;
    int rc = check_mscale(f, r);

    if (rc == 0)
        rc = hf_bool(f, HF_CONFIG, o, "truncate", &truncates);
    if (rc < 0)
        return rc;
    if (truncates != cuts)
        return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                       "'truncate' of rope is %s, but only %s is "
                       "supported",
                       truncates ? "true" : "false", cuts ? "true" : "false");
    hf_key_text(f, "rope.scaling.type", "yarn");
    hf_key_f32(f, "rope.scaling.factor", r->factor);
    hf_key_u32(f, "rope.scaling.original_context_length", r->n_ctx_orig);
    hf_key_f32(f, "rope.scaling.yarn_beta_fast", r->fast);
    hf_key_f32(f, "rope.scaling.yarn_beta_slow", r->slow);
    if (r->mscale_all > 0.0)
        hf_key_f32(f, "rope.scaling.yarn_log_multiplier", 0.1 * r->mscale_all);
    if (r->attention > 0.0)
        hf_key_f32(f, "rope.scaling.attn_factor", r->attention / usual);
    return 0;
}

/* ---- all kinds ---- */

static int read_scaling(struct hf_folder *f, const cJSON *o, struct scaling *r)
{
    const struct {
        const char *name;
        double *v;
    } numbers[] = {
        {"factor", &r->factor},         {"low_freq_factor", &r->low},
        {"high_freq_factor", &r->high}, {"attention_factor", &r->attention},
        {"beta_fast", &r->fast},        {"beta_slow", &r->slow},
        {"mscale", &r->mscale},         {"mscale_all_dim", &r->mscale_all},
    };
    int rc = hf_u32(f, HF_CONFIG, o, "original_max_position_embeddings", 1, HF_MAX_CONTEXT,
                    &r->n_ctx_orig);

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && rc == 0; i++)
        rc = hf_positive(f, HF_CONFIG, o, numbers[i].name, numbers[i].v);
    if (rc == 0 && !(r->high > r->low))
        return hf_fail(f, ERR_FORMAT, HF_CONFIG,
                       "'high_freq_factor' of rope is %g, but must be above 'low_freq_factor', %g",
                       r->high, r->low);
    return rc;
}

static int add_scaling(struct hf_folder *f, const cJSON *o)
{
    struct scaling r = {
        .factor = 1.0, .low = 1.0, .high = 4.0, .fast = 32.0, .slow = 1.0, .n_ctx_orig = f->n_ctx};
    const char *type = hf_text(o, "rope_type");
    char shown[32];
    int rc = 0;

    type = type != NULL ? type : hf_text(o, "type");
    if (type == NULL || strcmp(type, "default") == 0 || strcmp(type, "dynamic") == 0)
        return 0;
    rc = read_scaling(f, o, &r);
    if (rc < 0)
        return rc;
    if (strcmp(type, "linear") == 0) {
        hf_key_text(f, "rope.scaling.type", type);
        hf_key_f32(f, "rope.scaling.factor", r.factor);
        return 0;
    }
    if (strcmp(type, "yarn") == 0)
        return add_yarn(f, o, &r);
    if (strcmp(type, "longrope") == 0 || strcmp(type, "su") == 0)
        return add_longrope(f, o, &r);
    if (strcmp(type, "llama3") == 0) {
        add_llama3(f, &r);
        return 0;
    }
    return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                   "scaling '%s' of rope is not supported (default, dynamic, linear, yarn, "
                   "longrope and llama3 are)",
                   hf_printable(shown, sizeof(shown), type));
}

/* Read how many dimensions of a head are rotated. */
static int read_rotated(struct hf_folder *f, const cJSON *newer)
{
    double part = f->class->rotated > 0.0 ? f->class->rotated : 1.0;
    char name[64];
    int rc = 0;

    if (hf_any_member(f, "partial_rotary_factor,rotary_pct,rope_pct", name) != NULL)
        rc = hf_positive(f, HF_CONFIG, f->config, name, &part);
    if (rc == 0)
        rc = hf_positive(f, HF_CONFIG, newer, "partial_rotary_factor", &part);
    if (rc < 0)
        return rc;
    if (f->n_rot == 0)
        f->n_rot = (uint32_t)(f->head_dim * (part < 1.0 ? part : 1.0));
    if (part > 1.0 || f->n_rot < 2 || f->n_rot % 2 != 0)
        return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                       "%g of %u numbers of a head turn, which is not supported", part,
                       f->head_dim);
    hf_key_u32(f, "rope.dimension_count", f->n_rot);
    return 0;
}

/* Read the bases; newer files have one set for each kind of layer. */
static int read_bases(struct hf_folder *f, const cJSON **newer)
{
    const cJSON *full = hf_member(*newer, "full_attention");
    const cJSON *local = hf_member(*newer, "sliding_attention");
    double base = 0.0;
    int rc = hf_positive(f, HF_CONFIG, local, "rope_theta", &base);

    if (rc == 0)
        rc = hf_positive(f, HF_CONFIG, f->config, "rope_local_base_freq", &base);
    if (rc < 0)
        return rc;
    if (base > 0.0)
        hf_key_f32(f, "rope.freq_base_swa", base);
    *newer = full != NULL ? full : *newer;
    return 0;
}

int hf_rope_add(struct hf_folder *f)
{
    const cJSON *newer = hf_member(f->config, "rope_parameters");
    const cJSON *scaling = newer != NULL ? newer : hf_member(f->config, "rope_scaling");
    char name[64];
    int rc = 0;

    f->rope_base = f->class->rope_base > 0.0 ? f->class->rope_base : 10000.0;
    if (hf_any_member(f, "rope_theta,rotary_emb_base", name) != NULL)
        rc = hf_positive(f, HF_CONFIG, f->config, name, &f->rope_base);
    if (rc == 0)
        rc = read_bases(f, &newer);
    scaling = newer != NULL ? newer : scaling;
    if (rc == 0)
        rc = hf_positive(f, HF_CONFIG, newer, "rope_theta", &f->rope_base);
    if (rc == 0)
        rc = read_rotated(f, newer);
    if (rc < 0)
        return rc;
    hf_key_f32(f, "rope.freq_base", f->rope_base);
    /* GGUF files of Llama have rows of queries and keys in another order than published weights */
    if ((f->class->flags & HF_HALVES) != 0)
        hf_key_bool(f, "rope.halves", true);
    return scaling != NULL ? add_scaling(f, scaling) : 0;
}
