/* core/formats/hf/config_dense.c - settings of families with gated layers and no experts; see
 * config.h.
 *
 * Called after the common settings, which were read by the class's row: each function adds the keys
 * that only its family has, with the defaults of its transformers class where config.json is
 * silent, and refuses values that the forward pass does not compute.
 */
#include "core/formats/hf/config.h"

#include "core/base/err.h"
#include "core/formats/hf/classes.h"

#include <math.h>
#include <string.h>

/* ---- Gemma ---- */

/* Add query_pre_attn_scalar: attention scores are divided by its root instead of the head
 * size's. */
static int add_query_scale(struct hf_folder *f)
{
    double v = 256.0;
    const int rc = hf_positive(f, HF_CONFIG, f->config, "query_pre_attn_scalar", &v);

    if (rc == 0)
        hf_key_f32(f, "attention.scale", 1.0 / sqrt(v));
    return rc;
}

/* Add a soft cap; null is written as 0, since GGUF's default would be a cap. */
static int add_cap(struct hf_folder *f, const char *name, double usual, const char *suffix)
{
    const bool is_null = cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(f->config, name));
    double v = is_null ? 0.0 : usual;
    const int rc = hf_positive(f, HF_CONFIG, f->config, name, &v);

    if (rc == 0)
        hf_key_f32(f, suffix, v);
    return rc;
}

/* Older files have gelu in hidden_act, but the class uses hidden_activation's default. */
int hf_gemma_add(struct hf_folder *f)
{
    return hf_only_text(f, "hidden_activation", "gelu_pytorch_tanh");
}

int hf_gemma2_add(struct hf_folder *f)
{
    int rc = hf_only_bool(f, "use_bidirectional_attention", false);

    if (rc == 0)
        rc = add_query_scale(f);
    if (rc == 0)
        rc = add_cap(f, "attn_logit_softcapping", 50.0, "attn_logit_softcapping");
    return rc == 0 ? add_cap(f, "final_logit_softcapping", 30.0, "final_logit_softcapping") : rc;
}

int hf_gemma3_add(struct hf_folder *f)
{
    int rc = hf_only_bool(f, "use_bidirectional_attention", false);

    if (rc == 0)
        rc = add_query_scale(f);
    if (rc == 0)
        rc = add_cap(f, "attn_logit_softcapping", 0.0, "attn_logit_softcapping");
    return rc == 0 ? add_cap(f, "final_logit_softcapping", 0.0, "final_logit_softcapping") : rc;
}

/* ---- SmolLM 3: every fourth layer is not rotated ---- */

int hf_smollm3_add(struct hf_folder *f)
{
    const cJSON *list = hf_member(f->config, "no_rope_layers"), *m;
    uint32_t i = 0;
    int rc = hf_only_number(f, "no_rope_layer_interval", 4);

    cJSON_ArrayForEach(m, list)
    {
        const double wanted = ++i % 4 != 0 ? 1.0 : 0.0;

        if (rc == 0 && !(cJSON_IsNumber(m) && m->valuedouble == wanted))
            rc = hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                         "'no_rope_layers' must be 0 for every fourth layer and 1 for all others; "
                         "nothing else is supported");
    }
    return rc;
}

/* ---- Granite ---- */

int hf_granite_add(struct hf_folder *f)
{
    int rc = hf_number_key(f, "embedding_multiplier", "embedding_scale");

    if (rc == 0)
        rc = hf_number_key(f, "residual_multiplier", "residual_scale");
    if (rc == 0)
        rc = hf_number_key(f, "logits_scaling", "logit_scale");
    /* the class does not scale scores by default */
    if (rc == 0 && hf_member(f->config, "attention_multiplier") == NULL)
        hf_key_f32(f, "attention.scale", 1.0);
    return rc == 0 ? hf_number_key(f, "attention_multiplier", "attention.scale") : rc;
}

/* ---- Cohere ---- */

int hf_cohere_add(struct hf_folder *f)
{
    int rc = hf_number_key(f, "logit_scale", "logit_scale");

    if (rc == 0 && hf_member(f->config, "logit_scale") == NULL)
        hf_key_f32(f, "logit_scale", 0.0625);
    if (rc == 0)
        rc = hf_only_bool(f, "use_parallel_embedding", false);
    if (rc == 0)
        rc = hf_only_bool(f, "use_parallel_block", true);
    return rc == 0 ? hf_only_bool(f, "use_gated_activation", true) : rc;
}

/* ---- StableLM ---- */

/* Read StableLM's use_parallel_residual: true: both branches of a layer take the same x; else there
 * is a norm before the second one. */
int hf_stablelm_add(struct hf_folder *f)
{
    return hf_bool(f, HF_CONFIG, f->config, "use_parallel_residual", &f->is_parallel);
}
