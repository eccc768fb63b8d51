/* core/formats/hf/config_recurrent.c - settings of families whose layers keep a state; see
 * config.h.
 *
 * These families list in layer_types which layers have attention. LFM2's list becomes KV heads for
 * each layer, 0 where it has a convolution; the delta nets' list becomes the key
 * attention.recurrent_layers, since their recurrent layers have no other mark.
 */
#include "core/formats/hf/config.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/hf/classes.h"

#include <string.h>

#define MAX_EXPERTS 1024

/* ---- kinds of layers ---- */

/* Read layer_types: each is `other` or full_attention. */
static int read_types(struct hf_folder *f, const cJSON *list, const char *other, int32_t *yes)
{
    const cJSON *m;
    char shown[32];
    uint32_t i = 0;

    if ((uint32_t)cJSON_GetArraySize(list) != f->n_layer)
        return hf_fail(f, ERR_FORMAT, HF_CONFIG, "'layer_types' has %d elements for %u layers",
                       cJSON_GetArraySize(list), f->n_layer);
    cJSON_ArrayForEach(m, list)
    {
        const char *type = cJSON_GetStringValue(m);

        yes[i] = type != NULL && strcmp(type, other) == 0;
        if (type == NULL || (yes[i] == 0 && strcmp(type, "full_attention") != 0))
            return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                           "'layer_types' has '%s', which is not supported here",
                           hf_printable(shown, sizeof(shown), type ? type : "?"));
        i++;
    }
    return 0;
}

/* Read the layers with attention by number, as older files of LFM2 have them. */
static int read_numbers(struct hf_folder *f, const cJSON *list, int32_t *yes)
{
    const cJSON *m;

    for (uint32_t i = 0; i < f->n_layer; i++)
        yes[i] = 1;
    cJSON_ArrayForEach(m, list)
    {
        if (!cJSON_IsNumber(m) || m->valuedouble < 0 || m->valuedouble >= f->n_layer)
            return hf_fail(f, ERR_FORMAT, HF_CONFIG,
                           "'full_attn_idxs' has an element that is not a layer's number");
        yes[(uint32_t)m->valuedouble] = 0;
    }
    return 0;
}

static int read_period(struct hf_folder *f, int32_t *yes)
{
    uint32_t period = 4;
    const int rc = hf_u32(f, HF_CONFIG, f->config, "full_attention_interval", 1, HF_MAX_LAYERS,
                          &period);

    for (uint32_t i = 0; i < f->n_layer; i++)
        yes[i] = (i + 1) % period != 0;
    return rc;
}

/* Fill yes[] with 1 for each layer that keeps a state, which layer_types calls `other`. */
static int read_kinds(struct hf_folder *f, const char *other, int32_t *yes)
{
    const cJSON *types = hf_member(f->config, "layer_types");
    const cJSON *numbers = hf_member(f->config, "full_attn_idxs");

    if (types != NULL)
        return read_types(f, types, other, yes);
    return numbers != NULL ? read_numbers(f, numbers, yes) : read_period(f, yes);
}

/* ---- LFM2 ---- */

/* Add the numbers of KV heads, 0 for layers without attention; hf_config_add() then writes none. */
static int add_lfm2_layers(struct hf_folder *f)
{
    int32_t *layers = mem_calloc(f->n_layer, sizeof(*layers));
    int rc = layers != NULL ? read_kinds(f, "conv", layers)
                            : hf_fail(f, ERR_NOMEM, HF_CONFIG, "out of memory");

    for (uint32_t i = 0; rc == 0 && i < f->n_layer; i++)
        layers[i] = layers[i] != 0 ? 0 : (int32_t)f->n_kv_head;
    if (rc == 0)
        hf_key_i32_array(f, "attention.head_count_kv", layers, f->n_layer);
    f->n_kv_head = 0;
    mem_free(layers);
    return rc;
}

/* Correct the dense net's width: two thirds of the setting, times a factor, rounded up to a
 * multiple; in families with experts it is the setting itself. */
int hf_lfm2_adjust(struct hf_folder *f)
{
    uint32_t multiple = 256;
    double factor = 1.0;
    bool is_adjusted = (f->class->flags & HF_EXPERTS) == 0;
    int rc = hf_bool(f, HF_CONFIG, f->config, "tie_embedding", &f->is_tied);

    if (rc == 0)
        rc = hf_bool(f, HF_CONFIG, f->config, "block_auto_adjust_ff_dim", &is_adjusted);
    if (rc == 0)
        rc = hf_u32(f, HF_CONFIG, f->config, "block_multiple_of", 1, HF_MAX_SIZE, &multiple);
    if (rc == 0)
        rc = hf_positive(f, HF_CONFIG, f->config, "block_ffn_dim_multiplier", &factor);
    if (rc < 0 || !is_adjusted)
        return rc;
    if (factor > 64.0)
        return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG, "'block_ffn_dim_multiplier' is %g", factor);
    f->n_ff = (uint32_t)(factor * (2 * f->n_ff / 3));
    f->n_ff = (f->n_ff + multiple - 1) / multiple * multiple;
    return 0;
}

int hf_lfm2_add(struct hf_folder *f)
{
    uint32_t n_tap = 3;
    int rc = hf_only_bool(f, "conv_bias", false);

    if (rc == 0)
        rc = hf_u32(f, HF_CONFIG, f->config, "conv_L_cache", 2, 64, &n_tap);
    hf_key_u32(f, "shortconv.l_cache", n_tap);
    return rc == 0 ? add_lfm2_layers(f) : rc;
}

int hf_lfm2_moe_add(struct hf_folder *f)
{
    uint32_t n_dense = 2;
    bool is_normed = true;
    int rc = hf_need_key(f, "num_experts", MAX_EXPERTS, "expert_count");

    if (rc == 0)
        rc = hf_need_key(f, "num_experts_per_tok", MAX_EXPERTS, "expert_used_count");
    if (rc == 0)
        rc = hf_need_key(f, "moe_intermediate_size", HF_MAX_SIZE, "expert_feed_forward_length");
    if (rc == 0)
        rc = hf_u32(f, HF_CONFIG, f->config, "num_dense_layers", 0, f->n_layer, &n_dense);
    if (rc == 0)
        rc = hf_bool(f, HF_CONFIG, f->config, "norm_topk_prob", &is_normed);
    if (rc == 0)
        rc = hf_number_key(f, "routed_scaling_factor", "expert_weights_scale");
    hf_key_u32(f, "leading_dense_block_count", n_dense);
    hf_key_bool(f, "expert_weights_norm", is_normed);
    hf_key_u32(f, "expert_gating_func", 2);
    return rc == 0 ? hf_lfm2_add(f) : rc;
}

/* ---- Qwen3-Next, Qwen3.5 ---- */

static int add_delta_layers(struct hf_folder *f)
{
    int32_t *layers = mem_calloc(f->n_layer, sizeof(*layers));
    const int rc = layers != NULL ? read_kinds(f, "linear_attention", layers)
                                  : hf_fail(f, ERR_NOMEM, HF_CONFIG, "out of memory");

    if (rc == 0)
        hf_key_i32_array(f, "attention.recurrent_layers", layers, f->n_layer);
    mem_free(layers);
    return rc;
}

/* Value heads that share a key head are neighbours here, but not in GGUF files of Qwen3.5. */
static int add_delta_net(struct hf_folder *f)
{
    uint32_t n_tap = 4, key = 128, value = 128, n_key = 16, n_value = 32;
    const struct {
        const char *name;
        uint32_t most, *v;
    } sizes[] = {
        {"linear_conv_kernel_dim", 64, &n_tap},
        {"linear_key_head_dim", 2 * HF_MAX_HEAD, &key},
        {"linear_value_head_dim", 2 * HF_MAX_HEAD, &value},
        {"linear_num_key_heads", 1024, &n_key},
        {"linear_num_value_heads", 1024, &n_value},
    };
    int rc = hf_only_bool(f, "attn_output_gate", true);

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && rc == 0; i++)
        rc = hf_u32(f, HF_CONFIG, f->config, sizes[i].name, 1, sizes[i].most, sizes[i].v);
    hf_key_u32(f, "ssm.conv_kernel", n_tap);
    hf_key_u32(f, "ssm.state_size", key);
    hf_key_u32(f, "ssm.group_count", n_key);
    hf_key_u32(f, "ssm.time_step_rank", n_value);
    hf_key_u32(f, "ssm.inner_size", n_value * value);
    hf_key_bool(f, "ssm.grouped_heads", true);
    return rc == 0 ? add_delta_layers(f) : rc;
}

int hf_qwen_next_add(struct hf_folder *f)
{
    const bool has_experts = (f->class->flags & HF_EXPERTS) != 0;
    const int rc = has_experts ? hf_qwen_moe_add(f) : 0;

    return rc == 0 ? add_delta_net(f) : rc;
}
