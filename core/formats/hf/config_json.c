/* core/formats/hf/config_json.c - see hf_impl.h. */
#include "core/formats/hf/hf_impl.h"

#include "core/base/err.h"
#include "core/formats/gguf/write.h"
#include "core/formats/hf_folder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_SIZE (1u << 20)
#define MAX_VOCAB (1u << 22)
#define MAX_LAYERS 1024
#define MAX_CONTEXT (1u << 30)

static const struct {
    const char *class, *arch;
    uint32_t head_dim; /* when the file has none; 0: an equal share of the embedding */
} known[] = {
    {"LlamaForCausalLM", "llama", 0},
    {"Qwen2ForCausalLM", "qwen2", 0},
    {"Qwen3ForCausalLM", "qwen3", 128},
    {"BertModel", "bert", 0},
};

struct sizes {
    uint32_t n_embd, n_ff, n_head, n_kv_head, head_dim, n_ctx;
    double eps, rope_base;
};

static const char *key(const struct hf_folder *f, const char *suffix, char name[GGUF_MAX_NAME])
{
    snprintf(name, GGUF_MAX_NAME, "%s.%s", f->arch, suffix);
    return name;
}

static void add_u32(struct hf_folder *f, const char *suffix, uint32_t v)
{
    char name[GGUF_MAX_NAME];

    gguf_writer_u32(f->w, key(f, suffix, name), v);
}

static void add_f32(struct hf_folder *f, const char *suffix, double v)
{
    char name[GGUF_MAX_NAME];

    gguf_writer_f32(f->w, key(f, suffix, name), (float)v);
}

static int find_arch(struct hf_folder *f, uint32_t *head_dim)
{
    const cJSON *list = hf_member(f->config, "architectures");
    const char *class = cJSON_GetStringValue(cJSON_GetArrayItem(list, 0));
    char shown[64];

    if (class == NULL)
        return hf_fail(f, ERR_FORMAT, HF_CONFIG, "'architectures' names none");
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(class, known[i].class) == 0) {
            f->arch = known[i].arch;
            *head_dim = known[i].head_dim;
            return 0;
        }
    return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                   "architecture '%s' is not supported (LlamaForCausalLM, Qwen2ForCausalLM, "
                   "Qwen3ForCausalLM and BertModel are, and more as GGUF files)",
                   hf_printable(shown, sizeof(shown), class));
}

/* What is not computed here must be off. */
static int check_neutral(struct hf_folder *f)
{
    const char *act = hf_text(f->config, "hidden_act");
    double rotated = 1.0;
    bool has_window = false, interleaved = false;
    char shown[32];
    int rc = hf_positive(f, HF_CONFIG, f->config, "partial_rotary_factor", &rotated);

    if (rc == 0)
        rc = hf_bool(f, HF_CONFIG, f->config, "use_sliding_window", &has_window);
    if (rc == 0)
        rc = hf_bool(f, HF_CONFIG, f->config, "rope_interleaved", &interleaved);
    if (rc < 0)
        return rc;
    if (hf_member(f->config, "quantization_config") != NULL)
        return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                       "the weights are quantised ('quantization_config'), but only F32, F16 and "
                       "BF16 are supported in safetensors");
    if (act != NULL && strcmp(act, "silu") != 0)
        return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                       "'hidden_act' is '%s', but only silu is supported",
                       hf_printable(shown, sizeof(shown), act));
    if (rotated != 1.0)
        return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                       "'partial_rotary_factor' is %g, but only 1 is supported", rotated);
    if (has_window || interleaved)
        return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG, "'%s' is true, which is not supported",
                       has_window ? "use_sliding_window" : "rope_interleaved");
    return 0;
}

/* ---- rope ---- */

struct scaling {
    double factor, low, high, attention, fast, slow;
    uint32_t n_ctx_orig;
};

/* Llama 3.1's: long waves are divided by the factor, short ones are not, and between them it is a
 * mixture of both. */
static void add_llama3(struct hf_folder *f, const struct sizes *s, const struct scaling *r)
{
    const double orig = r->n_ctx_orig;

    f->n_divisors = f->n_rot / 2;
    for (uint32_t i = 0; i < f->n_divisors; i++) {
        const double wave = 2.0 * M_PI * pow(s->rope_base, 2.0 * i / f->n_rot);
        const double mix = (orig / wave - r->low) / (r->high - r->low);

        if (wave < orig / r->high)
            f->divisors[i] = 1.0f;
        else if (wave > orig / r->low)
            f->divisors[i] = (float)r->factor;
        else
            f->divisors[i] = (float)(1.0 / ((1.0 - mix) / r->factor + mix));
    }
}

static void add_scaled(struct hf_folder *f, const char *type, const struct scaling *r)
{
    char name[GGUF_MAX_NAME];

    gguf_writer_str(f->w, key(f, "rope.scaling.type", name), type);
    add_f32(f, "rope.scaling.factor", r->factor);
}

static void add_yarn(struct hf_folder *f, const struct scaling *r)
{
    const double usual = r->factor > 1.0 ? 0.1 * log(r->factor) + 1.0 : 1.0;

    add_scaled(f, "yarn", r);
    add_u32(f, "rope.scaling.original_context_length", r->n_ctx_orig);
    add_f32(f, "rope.scaling.yarn_beta_fast", r->fast);
    add_f32(f, "rope.scaling.yarn_beta_slow", r->slow);
    if (r->attention > 0.0)
        add_f32(f, "rope.scaling.attn_factor", r->attention / usual);
}

static int read_scaling(struct hf_folder *f, const cJSON *o, struct scaling *r)
{
    const struct {
        const char *name;
        double *v;
    } numbers[] = {
        {"factor", &r->factor},           {"low_freq_factor", &r->low},
        {"high_freq_factor", &r->high},   {"attention_factor", &r->attention},
        {"beta_fast", &r->fast},          {"beta_slow", &r->slow},
    };
    int rc = hf_u32(f, HF_CONFIG, o, "original_max_position_embeddings", 1, MAX_CONTEXT,
                    &r->n_ctx_orig);

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && rc == 0; i++)
        rc = hf_positive(f, HF_CONFIG, o, numbers[i].name, numbers[i].v);
    if (rc == 0 && (hf_member(o, "mscale") != NULL || hf_member(o, "mscale_all_dim") != NULL))
        return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG, "'mscale' of rope is not supported");
    if (rc == 0 && !(r->high > r->low))
        return hf_fail(f, ERR_FORMAT, HF_CONFIG,
                       "'high_freq_factor' of rope is %g, but must be above 'low_freq_factor', %g",
                       r->high, r->low);
    return rc;
}

static int add_scaling(struct hf_folder *f, const struct sizes *s, const cJSON *o)
{
    struct scaling r = {1.0, 1.0, 4.0, 0.0, 32.0, 1.0, s->n_ctx};
    const char *type = hf_text(o, "rope_type");
    char shown[32];
    int rc = 0;

    type = type != NULL ? type : hf_text(o, "type");
    if (type == NULL)
        type = "default";
    if (strcmp(type, "default") == 0)
        return 0;
    rc = read_scaling(f, o, &r);
    if (rc < 0)
        return rc;
    if (strcmp(type, "linear") == 0)
        add_scaled(f, type, &r);
    else if (strcmp(type, "yarn") == 0)
        add_yarn(f, &r);
    else if (strcmp(type, "llama3") == 0)
        add_llama3(f, s, &r);
    else
        return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG,
                       "scaling '%s' of rope is not supported (default, linear, yarn and llama3 "
                       "are)",
                       hf_printable(shown, sizeof(shown), type));
    return 0;
}

static int add_rope(struct hf_folder *f, struct sizes *s)
{
    const cJSON *newer = hf_member(f->config, "rope_parameters");
    const cJSON *scaling = newer != NULL ? newer : hf_member(f->config, "rope_scaling");
    char name[GGUF_MAX_NAME];
    int rc = hf_positive(f, HF_CONFIG, f->config, "rope_theta", &s->rope_base);

    if (rc == 0)
        rc = hf_positive(f, HF_CONFIG, newer, "rope_theta", &s->rope_base);
    if (rc < 0)
        return rc;
    add_f32(f, "rope.freq_base", s->rope_base);
    add_u32(f, "rope.dimension_count", f->n_rot);
    /* Llama's own files have the rows of queries and keys in another order than these. */
    gguf_writer_bool(f->w, key(f, "rope.halves", name), true);
    return scaling != NULL ? add_scaling(f, s, scaling) : 0;
}

/* ---- sizes ---- */

static int read_sizes(struct hf_folder *f, struct sizes *s)
{
    const struct {
        const char *name;
        uint32_t most, *v;
        bool may_miss;
    } numbers[] = {
        {"hidden_size", MAX_SIZE, &s->n_embd, false},
        {"intermediate_size", MAX_SIZE, &s->n_ff, false},
        {"num_hidden_layers", MAX_LAYERS, &f->n_layer, false},
        {"num_attention_heads", MAX_SIZE, &s->n_head, false},
        {"num_key_value_heads", MAX_SIZE, &s->n_kv_head, true},
        {"head_dim", 2 * HF_MAX_HEAD, &s->head_dim, true},
        {"max_position_embeddings", MAX_CONTEXT, &s->n_ctx, false},
        {"vocab_size", MAX_VOCAB, &f->n_vocab, false},
    };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        const int rc = hf_u32(f, HF_CONFIG, f->config, numbers[i].name, 1, numbers[i].most,
                              numbers[i].v);

        if (rc < 0)
            return rc;
        if (*numbers[i].v == 0 && !numbers[i].may_miss)
            return hf_fail(f, ERR_FORMAT, HF_CONFIG, "'%s' is missing", numbers[i].name);
    }
    if (s->n_kv_head == 0)
        s->n_kv_head = s->n_head;
    if (s->head_dim == 0)
        s->head_dim = s->n_embd / s->n_head;
    if (s->head_dim < 2 || s->head_dim > 2 * HF_MAX_HEAD || s->head_dim % 2 != 0)
        return hf_fail(f, ERR_UNSUPPORTED, HF_CONFIG, "heads of %u numbers are not supported",
                       s->head_dim);
    f->n_rot = s->head_dim;
    return hf_positive(f, HF_CONFIG, f->config, "rms_norm_eps", &s->eps);
}

int hf_config_add(struct hf_folder *f)
{
    struct sizes s = {.eps = 1e-6, .rope_base = 10000.0};
    int rc = find_arch(f, &s.head_dim);

    f->is_bert = rc == 0 && strcmp(f->arch, "bert") == 0;
    if (f->is_bert)
        return hf_bert_add(f);
    if (rc == 0)
        rc = check_neutral(f);
    if (rc == 0)
        rc = read_sizes(f, &s);
    if (rc == 0)
        rc = hf_bool(f, HF_CONFIG, f->config, "tie_word_embeddings", &f->is_tied);
    if (rc < 0)
        return rc;
    gguf_writer_str(f->w, "general.architecture", f->arch);
    add_u32(f, "block_count", f->n_layer);
    add_u32(f, "context_length", s.n_ctx);
    add_u32(f, "embedding_length", s.n_embd);
    add_u32(f, "feed_forward_length", s.n_ff);
    add_u32(f, "attention.head_count", s.n_head);
    add_u32(f, "attention.head_count_kv", s.n_kv_head);
    add_u32(f, "attention.key_length", s.head_dim);
    add_u32(f, "attention.value_length", s.head_dim);
    add_f32(f, "attention.layer_norm_rms_epsilon", s.eps);
    return add_rope(f, &s);
}
