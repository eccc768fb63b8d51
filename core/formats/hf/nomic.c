/* core/formats/hf/nomic.c - config.json of NomicBertModel; see config.h.
 *
 * The published code stretches rope where a text is longer than max_trained_positions
 * (rotary_scaling_factor); longer texts are not accepted here, so none is stretched.
 */
#include "core/formats/hf/config.h"

#include "core/base/err.h"
#include "core/formats/gguf/write.h"

static int check_bools(const struct hf_folder *f)
{
    static const struct {
        const char *name;
        bool only;
    } settings[] = {
        {"prenorm", false},
        {"parallel_block", false},
        {"use_rms_norm", false},
        {"causal", false},
        {"rotary_emb_interleaved", false},
        {"scale_attn_by_inverse_layer_idx", false},
        {"scale_attn_weights", true},
    };

    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        const int rc = hf_only_bool(f, settings[i].name, settings[i].only);

        if (rc < 0)
            return rc;
    }
    return 0;
}

static int check_nomic_neutral(const struct hf_folder *f)
{
    int rc = check_bools(f);

    if (rc == 0)
        rc = hf_only_text(f, "activation_function", "swiglu");
    if (rc == 0)
        rc = hf_only_number(f, "rotary_emb_fraction", 1.0);
    if (rc == 0)
        rc = hf_only_number(f, "moe_every_n_layers", 0.0);
    if (rc == 0 && hf_member(f->config, "rotary_emb_scale_base") != NULL)
        rc = hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG, "'rotary_emb_scale_base' is not supported");
    return rc;
}

/* Add the context: the positions that were trained. */
static int add_context(struct hf_folder *f)
{
    uint32_t trained = 2048;
    int rc = hf_u32(f, HF_CONFIG, f->config, "n_positions", 1, HF_MAX_CONTEXT, &f->n_ctx);

    if (rc == 0 && f->n_ctx == 0)
        return hf_fail(f, ERR_FORMAT, HF_CONFIG, "'n_positions' is missing");
    if (rc == 0)
        rc = hf_u32(f, HF_CONFIG, f->config, "max_trained_positions", 1, HF_MAX_CONTEXT, &trained);
    if (rc == 0)
        hf_key_u32(f, "context_length", f->n_ctx < trained ? f->n_ctx : trained);
    return rc;
}

static int add_nomic_numbers(struct hf_folder *f)
{
    double eps = 1e-12, base = 1000.0;
    uint32_t n_types = 0;
    int rc = hf_positive(f, HF_CONFIG, f->config, "layer_norm_epsilon", &eps);

    if (rc == 0)
        rc = hf_positive(f, HF_CONFIG, f->config, "rotary_emb_base", &base);
    if (rc == 0)
        rc = hf_u32(f, HF_CONFIG, f->config, "type_vocab_size", 0, HF_MAX_SIZE, &n_types);
    if (rc == 0)
        rc = hf_u32(f, HF_CONFIG, f->config, "vocab_size", 1, HF_MAX_VOCAB, &f->n_vocab);
    if (rc == 0 && f->n_vocab == 0)
        return hf_fail(f, ERR_FORMAT, HF_CONFIG, "'vocab_size' is missing");
    hf_key_f32(f, "attention.layer_norm_epsilon", eps);
    hf_key_f32(f, "rope.freq_base", base);
    gguf_writer_u32(f->w, "tokenizer.ggml.token_type_count", n_types);
    return rc;
}

int hf_nomic_add(struct hf_folder *f)
{
    int rc = check_nomic_neutral(f);

    if (rc < 0)
        return rc;
    gguf_writer_str(f->w, "general.architecture", f->arch);
    hf_key_bool(f, "attention.causal", false);
    rc = hf_u32(f, HF_CONFIG, f->config, "n_layer", 1, HF_MAX_LAYERS, &f->n_layer);
    if (rc == 0)
        rc = hf_need_key(f, "n_layer", HF_MAX_LAYERS, "block_count");
    if (rc == 0)
        rc = hf_need_key(f, "n_embd", HF_MAX_SIZE, "embedding_length");
    if (rc == 0)
        rc = hf_need_key(f, "n_inner", HF_MAX_SIZE, "feed_forward_length");
    if (rc == 0)
        rc = hf_need_key(f, "n_head", HF_MAX_SIZE, "attention.head_count");
    if (rc == 0)
        rc = add_context(f);
    if (rc == 0)
        rc = add_nomic_numbers(f);
    return rc == 0 ? hf_sentence_add(f) : rc;
}
