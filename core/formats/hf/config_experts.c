/* core/formats/hf/config_experts.c - settings of families with mixtures of experts; see config.h.
 *
 * The same mixture has different names in each family (num_local_experts, num_experts,
 * n_routed_experts) and different defaults for what the router's outputs go through; here they
 * become the GGUF keys that core/model/shape_experts.c reads.
 */
#include "core/formats/hf/config.h"

#include "core/base/err.h"
#include "core/formats/hf/classes.h"

#include <string.h>

#define MAX_EXPERTS 1024

/* Add the number of experts, and how many of them a token uses. */
static int add_counts(struct hf_folder *f, const char *all, const char *used)
{
    int rc = hf_need_key(f, all, MAX_EXPERTS, "expert_count");

    if (rc == 0)
        rc = hf_need_key(f, used, MAX_EXPERTS, "expert_used_count");
    return rc;
}

static int add_norm(struct hf_folder *f, bool usual)
{
    int rc = hf_bool(f, HF_CONFIG, f->config, "norm_topk_prob", &usual);

    hf_key_bool(f, "expert_weights_norm", usual);
    return rc;
}

int hf_mixtral_add(struct hf_folder *f)
{
    return add_counts(f, "num_local_experts", "num_experts_per_tok");
}

/* Check that all layers have experts. */
static int check_all_sparse(struct hf_folder *f)
{
    const int rc = hf_only_number(f, "decoder_sparse_step", 1);

    if (rc == 0 && cJSON_GetArraySize(hf_member(f->config, "mlp_only_layers")) > 0)
        return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                       "'mlp_only_layers' names layers without experts, which is not supported");
    return rc;
}

int hf_qwen_moe_add(struct hf_folder *f)
{
    int rc = check_all_sparse(f);

    if (rc == 0)
        rc = add_counts(f, "num_experts", "num_experts_per_tok");
    if (rc == 0)
        rc = hf_need_key(f, "moe_intermediate_size", HF_MAX_SIZE, "expert_feed_forward_length");
    if (rc == 0 && strcmp(f->arch, "qwen3moe") != 0)
        rc = hf_need_key(f, "shared_expert_intermediate_size", HF_MAX_SIZE,
                         "expert_shared_feed_forward_length");
    return rc == 0 ? add_norm(f, (f->class->flags & HF_RECURRENT) != 0) : rc;
}

int hf_gpt_oss_add(struct hf_folder *f)
{
    int rc = hf_only_number(f, "swiglu_limit", 7.0);

    if (rc == 0)
        rc = hf_only_number(f, "swiglu_alpha", 1.702);
    /* the class has a default scaling of its own */
    if (rc == 0 && hf_member(f->config, "rope_scaling") == NULL &&
        hf_member(f->config, "rope_parameters") == NULL)
        rc = hf_fail(f, ERR_FORMAT, HF_CONFIG, "'rope_scaling' is missing");
    if (rc == 0)
        rc = add_counts(f, "num_local_experts", "num_experts_per_tok");
    if (rc == 0)
        hf_key_u32(f, "expert_feed_forward_length", f->n_ff);
    return rc;
}

int hf_granite_moe_add(struct hf_folder *f)
{
    const int rc = hf_granite_add(f);

    return rc == 0 ? add_counts(f, "num_local_experts", "num_experts_per_tok") : rc;
}

/* ---- DeepSeek ---- */

/* Add the choice: V3 by sigmoids and a bias, within groups; V2 by a softmax, with groups or
 * without. */
static int add_expert_choice(struct hf_folder *f, bool is_v3)
{
    const char *method = hf_text(f->config, "topk_method");
    const char *scores = hf_text(f->config, "scoring_func");
    const bool has_groups = is_v3 || (method != NULL && strcmp(method, "greedy") != 0);
    char shown[32];
    int rc = 0;

    if (method != NULL && strcmp(method, is_v3 ? "noaux_tc" : "group_limited_greedy") != 0 &&
        (is_v3 || strcmp(method, "greedy") != 0))
        return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                       "'topk_method' is '%s', which is not "
                       "supported",
                       hf_printable(shown, sizeof(shown), method));
    if (scores != NULL && strcmp(scores, is_v3 ? "sigmoid" : "softmax") != 0)
        return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                       "'scoring_func' is '%s', which is not "
                       "supported",
                       hf_printable(shown, sizeof(shown), scores));
    hf_key_u32(f, "expert_gating_func", is_v3 ? 2 : 1);
    if (has_groups)
        rc = hf_need_key(f, "n_group", MAX_EXPERTS, "expert_group_count");
    if (rc == 0 && has_groups)
        rc = hf_need_key(f, "topk_group", MAX_EXPERTS, "expert_group_used_count");
    return rc;
}

static int add_deepseek_experts(struct hf_folder *f)
{
    const bool is_v3 = strcmp(f->class->name, "DeepseekV3ForCausalLM") == 0;
    double scale = is_v3 ? 2.5 : 1.0;
    uint32_t lead = is_v3 ? 3 : 0;
    int rc = hf_only_number(f, "moe_layer_freq", 1);

    if (rc == 0 && !is_v3)
        rc = hf_only_bool(f, "norm_topk_prob", false);
    if (rc == 0)
        rc = add_counts(f, "n_routed_experts", "num_experts_per_tok");
    if (rc == 0)
        rc = hf_need_key(f, "moe_intermediate_size", HF_MAX_SIZE, "expert_feed_forward_length");
    if (rc == 0)
        rc = hf_need_key(f, "n_shared_experts", MAX_EXPERTS, "expert_shared_count");
    if (rc == 0)
        rc = hf_positive(f, HF_CONFIG, f->config, "routed_scaling_factor", &scale);
    hf_key_f32(f, "expert_weights_scale", scale);
    if (rc == 0)
        rc = hf_u32(f, HF_CONFIG, f->config, "first_k_dense_replace", 0, f->n_layer, &lead);
    if (rc == 0)
        rc = add_norm(f, is_v3);
    hf_key_u32(f, "leading_dense_block_count", lead);
    return rc == 0 ? add_expert_choice(f, is_v3) : rc;
}

/* Add the sizes of latent attention: keys and values come from one short vector. */
static int add_latent(struct hf_folder *f)
{
    static const char *const parts[] = {"qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"};
    uint32_t sizes[3] = {0};
    int rc = hf_need_key(f, "kv_lora_rank", HF_MAX_SIZE, "attention.kv_lora_rank");

    if (rc == 0 && hf_member(f->config, "q_lora_rank") != NULL)
        rc = hf_need_key(f, "q_lora_rank", HF_MAX_SIZE, "attention.q_lora_rank");
    for (size_t i = 0; i < 3 && rc == 0; i++) {
        rc = hf_u32(f, HF_CONFIG, f->config, parts[i], 1, 2 * HF_MAX_HEAD, &sizes[i]);
        if (rc == 0 && sizes[i] == 0)
            rc = hf_fail(f, ERR_FORMAT, HF_CONFIG, "'%s' is missing", parts[i]);
    }
    if (rc < 0)
        return rc;
    f->n_rot = sizes[1];
    f->n_kv_head = f->n_head;
    hf_key_u32(f, "attention.key_length", sizes[0] + sizes[1]);
    hf_key_u32(f, "attention.value_length", sizes[2]);
    return 0;
}

int hf_deepseek_add(struct hf_folder *f)
{
    int rc = hf_only_bool(f, "rope_interleave", true);

    if (rc == 0)
        rc = add_latent(f);
    return rc == 0 ? add_deepseek_experts(f) : rc;
}
