/* core/formats/hf/modern_bert.c - config.json of ModernBertModel and of its classifier of tokens;
 * see config.h.
 *
 * The class shares few names with the others, so it reads its whole config itself: sizes, two rope
 * bases, and windows. Only one layout of windows is supported, the first of every n layers without
 * and the others with one; layer_types of newer files must agree with it.
 */
#include "core/formats/hf/config.h"

#include "core/base/err.h"
#include "core/formats/gguf/write.h"
#include "core/formats/hf/classes.h"

#include <string.h>

static int check_activation(struct hf_folder *f)
{
    const char *act = hf_text(f->config, "hidden_activation");
    char shown[32];

    act = act != NULL ? act : "gelu";
    if (strcmp(act, "gelu") != 0 && strcmp(act, "silu") != 0)
        return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                       "'hidden_activation' is '%s', but only gelu and silu are supported",
                       hf_printable(shown, sizeof(shown), act));
    hf_key_text(f, "hidden_activation", act);
    return 0;
}

/* Add two ropes, of layers that see everything and of those with a window; newer files have the
 * bases in one object for each. */
static int add_ropes(struct hf_folder *f)
{
    const cJSON *newer = hf_member(f->config, "rope_parameters");
    const cJSON *full = hf_member(newer, "full_attention");
    const cJSON *local = hf_member(newer, "sliding_attention");
    double global_base = 160000.0, local_base = 10000.0;
    int rc = hf_positive(f, HF_CONFIG, f->config, "global_rope_theta", &global_base);

    if (rc == 0)
        rc = hf_positive(f, HF_CONFIG, full, "rope_theta", &global_base);
    if (rc == 0)
        rc = hf_positive(f, HF_CONFIG, f->config, "local_rope_theta", &local_base);
    if (rc == 0)
        rc = hf_positive(f, HF_CONFIG, local, "rope_theta", &local_base);
    if (rc < 0)
        return rc;
    for (int i = 0; i < 2; i++) {
        const char *type = hf_text(i == 0 ? full : local, "rope_type");

        if (type != NULL && strcmp(type, "default") != 0)
            return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                           "'rope_type' is not default, which is not supported here");
    }
    hf_key_f32(f, "rope.freq_base", global_base);
    hf_key_f32(f, "rope.freq_base_swa", local_base);
    return 0;
}

/* Add the windows: the first layer of every period sees everything, the others half the window each
 * way. */
static int add_windows(struct hf_folder *f)
{
    const cJSON *types = hf_member(f->config, "layer_types"), *m;
    uint32_t window = 128, period = 3, i = 0;
    int rc = hf_u32(f, HF_CONFIG, f->config, "local_attention", 1, HF_MAX_CONTEXT, &window);

    if (rc == 0)
        rc = hf_u32(f, HF_CONFIG, f->config, "global_attn_every_n_layers", 1, HF_MAX_LAYERS,
                    &period);
    cJSON_ArrayForEach(m, types)
    {
        const char *type = cJSON_GetStringValue(m);
        const char *wanted = i++ % period == 0 ? "full_attention" : "sliding_attention";

        if (rc == 0 && (type == NULL || strcmp(type, wanted) != 0))
            rc = hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                         "'layer_types' must be full_attention for the first of every %u layers "
                         "and sliding_attention for all others; nothing else is supported",
                         period);
    }
    hf_key_u32(f, "attention.sliding_window", window);
    hf_key_u32(f, "attention.sliding_window_pattern", period);
    return rc;
}

static int add_sizes(struct hf_folder *f)
{
    static const struct {
        const char *name, *key;
        uint32_t most;
    } sizes[] = {
        {"hidden_size", "embedding_length", HF_MAX_SIZE},
        {"intermediate_size", "feed_forward_length", HF_MAX_SIZE},
        {"num_hidden_layers", "block_count", HF_MAX_LAYERS},
        {"num_attention_heads", "attention.head_count", HF_MAX_SIZE},
        {"max_position_embeddings", "context_length", HF_MAX_CONTEXT},
    };
    double eps = 1e-5;
    int rc = hf_positive(f, HF_CONFIG, f->config, "norm_eps", &eps);

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && rc == 0; i++)
        rc = hf_need_key(f, sizes[i].name, sizes[i].most, sizes[i].key);
    if (rc == 0)
        rc = hf_u32(f, HF_CONFIG, f->config, "num_hidden_layers", 1, HF_MAX_LAYERS, &f->n_layer);
    if (rc == 0)
        rc = hf_u32(f, HF_CONFIG, f->config, "vocab_size", 1, HF_MAX_VOCAB, &f->n_vocab);
    if (rc == 0 && f->n_vocab == 0)
        return hf_fail(f, ERR_FORMAT, HF_CONFIG, "'vocab_size' is missing");
    hf_key_f32(f, "attention.layer_norm_epsilon", eps);
    return rc;
}

int hf_modern_bert_add(struct hf_folder *f)
{
    int rc;

    gguf_writer_str(f->w, "general.architecture", f->arch);
    hf_key_bool(f, "attention.causal", false);
    rc = check_activation(f);
    if (rc == 0)
        rc = add_sizes(f);
    if (rc == 0)
        rc = add_ropes(f);
    if (rc == 0)
        rc = add_windows(f);
    if (rc == 0)
        rc = hf_sentence_add(f);
    if (rc == 0 && (f->class->flags & HF_TOKEN_LABELS) != 0)
        rc = hf_only_text(f, "classifier_activation", "gelu");
    return rc == 0 ? hf_labels_add(f) : rc;
}
