/* core/formats/hf/config_gpt.c - settings of families with layer norms and no gates; see config.h.
 *
 * GPT-2, GPT-NeoX, Falcon, Phi and StarCoder have nearly all settings in common; these functions
 * read how many KV heads there are and whether both branches run side by side, and refuse the
 * variants that are not computed (alibi, per-head norms, scaled attention).
 */
#include "core/formats/hf/config.h"

#include "core/base/err.h"
#include "core/formats/hf/classes.h"

#include <string.h>

int hf_phi_add(struct hf_folder *f)
{
    return hf_only_bool(f, "qk_layernorm", false);
}

int hf_gpt_neox_add(struct hf_folder *f)
{
    bool is_parallel = true;
    const int rc = hf_bool(f, HF_CONFIG, f->config, "use_parallel_residual", &is_parallel);

    hf_key_bool(f, "use_parallel_residual", is_parallel);
    return rc;
}

/* GPT-2, and GPTBigCode, all of whose heads share one key and value. */
int hf_gpt2_add(struct hf_folder *f)
{
    int rc = hf_only_bool(f, "scale_attn_weights", true);

    if (rc == 0)
        rc = hf_only_bool(f, "scale_attn_by_inverse_layer_idx", false);
    if (rc == 0 && strcmp(f->arch, "starcoder") == 0) {
        f->n_kv_head = 1;
        rc = hf_only_bool(f, "multi_query", true);
    }
    return rc;
}

int hf_falcon_add(struct hf_folder *f)
{
    bool is_new = false, shares = true;
    char name[64];
    int rc = hf_only_bool(f, "alibi", false);

    if (rc == 0)
        rc = hf_only_bool(f, "parallel_attn", true);
    if (rc == 0)
        rc = hf_bool(f, HF_CONFIG, f->config, "new_decoder_architecture", &is_new);
    if (rc == 0)
        rc = hf_bool(f, HF_CONFIG, f->config, "multi_query", &shares);
    if (rc == 0 && !is_new && !shares)
        return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                       "'multi_query' is false, which is not supported");
    f->n_kv_head = is_new ? f->n_head : 1;
    if (rc == 0 && is_new && hf_any_member(f, "num_kv_heads,n_head_kv", name) != NULL)
        rc = hf_u32(f, HF_CONFIG, f->config, name, 1, f->n_head, &f->n_kv_head);
    return rc;
}
