/* core/model/shape.c - the metadata of a model file, checked (see load.h).
 *
 * This file has sizes and heads; shape_rope.c has positions and windows, shape_experts.c mixtures,
 * shape_recurrent.c layers with a state. A key that would change the arithmetic in a way that is
 * not computed here is refused, because ignoring it would give wrong answers silently.
 */
#include "core/model/load.h"

#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/model/keys.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Ranges: wide enough for every model of this kind, and narrow enough that no product of two of
 * them and an element size overflows 64 bits. */
#define MAX_LAYERS 1024
#define MAX_EMBD (1u << 17)
#define MAX_HEADS 1024
#define MAX_VOCAB (1u << 22)
#define MAX_CTX (1u << 20) /* a rope table of 128 dimensions then takes 512 MiB */

static size_t n_traits(void)
{
    size_t n = 0;

    while (traits_at(n) != NULL)
        n++;
    return n;
}

static int find_traits(struct load *l)
{
    struct gguf_str arch;
    int rc = gguf_get_str(l->g, "general.architecture", &arch, l->err, l->err_len);

    if (rc == ERR_NOENT)
        return load_fail(l, ERR_FORMAT, "key 'general.architecture' is missing");
    if (rc < 0)
        return rc;
    l->traits = traits_find(arch);
    if (l->traits == NULL) {
        char name[64];

        load_printable(name, sizeof(name), arch);
        return load_fail(l, ERR_UNSUPPORTED,
                         "architecture '%s' is not supported (the %zu supported ones are in "
                         "core/model/README.md)",
                         name, n_traits());
    }
    snprintf(l->m->arch, sizeof(l->m->arch), "%s", l->traits->arch);
    return 0;
}

/* Refuse keys that change the arithmetic in a way that is not computed here, unless they are
 * absent, 0, or have the value that means "as usual". */
static int check_key_neutral(struct load *l)
{
    static const struct {
        const char *suffix;
        float usual;
        const char *what;
        uint32_t computed; /* architectures with this enum attn_trait compute it */
    } keys[] = {
        {"attention.clamp_kqv", 0.0f, "clamped keys and values", 0},
        {"attention.max_alibi_bias", 0.0f, "ALiBi positions", 0},
        {"attention.temperature_scale", 0.0f, "attention temperatures", ATTN_TRAIT_TEMPERATURE},
        {"attention.output_scale", 1.0f, "scaled attention outputs", ATTN_TRAIT_OUTPUT_SCALE},
        {"router_logit_softcapping", 0.0f, "soft caps of routers", ATTN_TRAIT_OUTPUT_SCALE},
        {"attention.value_scale", 1.0f, "scaled values", 0},
        {"attention.shared_kv_layers", 0.0f, "shared KV layers", ATTN_TRAIT_SHARED_KV},
        {"rope.scaling.alpha", 0.0f, "alphas of rope", 0},
        {"rope.scaling.yarn_ext_factor", 1.0f, "other mixtures of yarn", 0},
        {"rope.scaling.yarn_attn_factor", 1.0f, "other magnitudes of yarn", 0},
    };
    char key[GGUF_MAX_NAME];

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        float v = 0.0f;
        int rc;

        if ((l->traits->flags & TRAIT_ALIBI) != 0 && strstr(keys[i].suffix, "alibi") != NULL)
            continue;
        if ((l->traits->attention & keys[i].computed) != 0)
            continue;
        key_name(l, keys[i].suffix, key);
        rc = gguf_get_f32(l->g, key, &v, l->err, l->err_len);
        if (rc < 0 && rc != ERR_NOENT)
            return rc;
        if (v != 0.0f && v != keys[i].usual)
            return load_fail(l, ERR_UNSUPPORTED, "key '%s': is %g, but %s are not supported", key,
                             (double)v, keys[i].what);
    }
    return 0;
}

/* Read the number of layers, and of the layers after them that guess tokens. */
static int read_layers(struct load *l)
{
    struct model_shape *s = &l->m->shape;
    int rc = key_u32(l, "block_count", KEY_REQUIRED, 1, MAX_LAYERS, &s->n_layer);

    if (rc == 0)
        rc = key_u32(l, "nextn_predict_layers", KEY_OPTIONAL, 0, s->n_layer - 1, &l->n_nextn);
    s->n_layer -= rc == 0 ? l->n_nextn : 0;
    if (rc == 0 && (l->traits->flags & TRAIT_DECIDES) != 0)
        rc = key_u32(l, "decision.block_count", KEY_OPTIONAL, 0, s->n_layer - 1,
                     &s->n_head_layers);
    l->m->has_mtp = rc == 0 && load_has_mtp(l);
    return rc;
}

static int read_shape_sizes(struct load *l)
{
    struct model_shape *s = &l->m->shape;
    int rc = read_layers(l);

    if (rc == 0)
        rc = key_u32(l, "embedding_length", KEY_REQUIRED, 1, MAX_EMBD, &s->n_embd);
    if (rc == 0)
        rc = key_u32(l, "context_length", KEY_REQUIRED, 1,
                     (l->traits->flags & TRAIT_LEARNED_POS) != 0 ? MAX_CTX : UINT32_MAX,
                     &s->n_ctx_train);
    if (rc == 0)
        rc = key_u32(l, "pooling_type", KEY_OPTIONAL, 0, 5, &s->pooling_type);
    return rc;
}

/* Read the activation by the name that its trainers gave it. */
static int read_act(struct load *l)
{
    static const struct {
        const char *name;
        enum kern_act act;
    } acts[] = {
        {"gelu", KERN_ACT_GELU_ERF}, {"gelu_pytorch_tanh", KERN_ACT_GELU}, {"silu", KERN_ACT_SILU}};
    struct gguf_str name = {0};
    char printable[32];
    const int rc = key_str(l, "hidden_activation", &name);

    if (rc < 0 || name.len == 0)
        return rc;
    for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++)
        if (strlen(acts[i].name) == name.len && memcmp(acts[i].name, name.data, name.len) == 0) {
            l->m->shape.act = acts[i].act;
            return 0;
        }
    load_printable(printable, sizeof(printable), name);
    return load_fail(l, ERR_UNSUPPORTED,
                     "key '%s.hidden_activation': is '%s', but only gelu, gelu_pytorch_tanh and "
                     "silu are supported",
                     l->traits->arch, printable);
}

static int read_norms(struct load *l)
{
    struct model_shape *s = &l->m->shape;
    const uint32_t flags = l->traits->flags;
    const char *eps_key = l->traits->eps_key;
    int rc = 0;

    s->norm = l->traits->norm;
    s->act = l->traits->act;
    if ((flags & TRAIT_ACT_KEY) != 0 && (rc = read_act(l)) < 0)
        return rc;
    s->qk_norm = (flags & TRAIT_QK_ROW) != 0    ? QK_NORM_ROW
                 : (flags & TRAIT_QK_EACH) != 0 ? QK_NORM_EACH_HEAD
                                                : QK_NORM_HEAD;
    s->late_qk_norm = (l->traits->attention & ATTN_TRAIT_LATE_NORMS) != 0;
    if (eps_key == NULL)
        eps_key = s->norm == NORM_RMS ? "attention.layer_norm_rms_epsilon"
                                      : "attention.layer_norm_epsilon";
    return key_positive(l, eps_key, KEY_REQUIRED, &s->norm_eps);
}

static int check_head(struct load *l, const char *what, uint32_t n)
{
    if (n < 8 || n > KERN_MAX_HEAD || n % 8 != 0)
        return load_fail(l, ERR_UNSUPPORTED,
                         "heads have %s of size %u, but only multiples of 8 up to %d are supported",
                         what, n, KERN_MAX_HEAD);
    return 0;
}

/* Read the head size of layers with a window, which may differ and is the same for keys and
 * values. */
static int read_window_dims(struct load *l)
{
    struct model_shape *s = &l->m->shape;
    uint32_t value_dim;
    int rc = key_u32(l, "attention.key_length_swa", KEY_OPTIONAL, 1, MAX_EMBD, &s->window_dim);

    value_dim = s->window_dim;
    if (rc == 0)
        rc = key_u32(l, "attention.value_length_swa", KEY_OPTIONAL, 1, MAX_EMBD, &value_dim);
    if (rc == 0 && value_dim != s->window_dim)
        return load_fail(l, ERR_UNSUPPORTED,
                         "key '%s.attention.value_length_swa': is %u, but only the length of the "
                         "keys, %u, is supported",
                         l->traits->arch, value_dim, s->window_dim);
    return rc;
}

/* Read key_dim and value_dim: from the keys, or an equal share of the embedding. */
static int read_head_dims(struct load *l)
{
    struct model_shape *s = &l->m->shape;
    int rc;

    s->key_dim = s->value_dim = s->n_embd / s->n_head;
    rc = key_u32(l, "attention.key_length", KEY_OPTIONAL, 1, MAX_EMBD, &s->key_dim);
    if (rc == 0)
        rc = key_u32(l, "attention.value_length", KEY_OPTIONAL, 1, MAX_EMBD, &s->value_dim);
    s->head_out = s->value_dim;
    return rc == 0 ? read_window_dims(l) : rc;
}

/* Read the sizes of latent attention: the lengths of a head's query and result are in the .._mla
 * keys; older files without these give them as if each head had keys and values of its own. */
static int read_latent(struct load *l)
{
    struct model_shape *s = &l->m->shape;
    uint32_t query = s->key_dim, result = s->value_dim, n_rot = 0;
    int rc = key_u32(l, "attention.kv_lora_rank", KEY_REQUIRED, 8, MAX_EMBD, &s->n_latent);

    if (rc == 0)
        rc = key_u32(l, "attention.q_lora_rank", KEY_OPTIONAL, 0, MAX_EMBD, &s->n_lora_q);
    if (rc == 0)
        rc = key_u32(l, "attention.key_length_mla", KEY_OPTIONAL, 1, KERN_MAX_HEAD, &query);
    if (rc == 0)
        rc = key_u32(l, "attention.value_length_mla", KEY_OPTIONAL, 1, MAX_EMBD, &result);
    if (rc == 0 && (query < 3 || query > KERN_MAX_HEAD))
        rc = check_head(l, "queries", query);
    if (rc == 0)
        rc = key_u32(l, "rope.dimension_count", KEY_REQUIRED, 2, query - 1, &n_rot);
    if (rc < 0)
        return rc;
    if (s->n_latent % KERN_LANES != 0 || result % KERN_LANES != 0)
        return load_fail(
            l, ERR_UNSUPPORTED,
            "latent vectors have size %u and heads size %u, but only multiples of %d are supported",
            s->n_latent, result, KERN_LANES);
    s->n_nope = query - n_rot;
    s->head_out = result;
    s->n_kv_head = 1;
    s->key_dim = s->n_latent + n_rot;
    s->value_dim = s->n_latent;
    return 0;
}

/* Read how many layers use other layers' keys and values, and the sizes of per-layer embeddings. */
static int read_shared_kv(struct load *l)
{
    struct model_shape *s = &l->m->shape;

    if ((l->traits->attention & ATTN_TRAIT_SHARED_KV) == 0)
        return 0;
    const int rc =
        key_u32(l, "attention.shared_kv_layers", KEY_OPTIONAL, 0, s->n_layer - 1, &s->n_shared_kv);
    return rc == 0 ? key_u32(l, "embedding_length_per_layer_input", KEY_OPTIONAL, 0, MAX_EMBD / 16,
                             &s->n_per_layer)
                   : rc;
}

/* Read AltUp's number of streams, of which the first runs through the layers, and LAuReL's rank,
 * which only its tensors tell. */
static int read_streams(struct load *l)
{
    const struct gguf_tensor *t = gguf_tensor_find(l->g, "blk.0.laurel_l.weight");
    struct model_shape *s = &l->m->shape;
    uint32_t active = 0;
    int rc;

    s->n_streams = 1;
    if ((l->traits->required >> LAYER_STREAM_ROUTER & 1) == 0)
        return 0;
    rc = key_u32(l, "altup.num_inputs", KEY_REQUIRED, 2, MODEL_MAX_STREAMS, &s->n_streams);
    if (rc == 0)
        rc = key_u32(l, "altup.active_idx", KEY_OPTIONAL, 0, 0, &active);
    if (rc < 0)
        return rc;
    if (t == NULL || t->dims[1] > MAX_EMBD)
        return load_fail(l, ERR_FORMAT, "tensor 'blk.0.laurel_l.weight' is missing or too large");
    s->n_laurel = (uint32_t)t->dims[1];
    return s->n_per_layer > 0
               ? 0
               : load_fail(l, ERR_FORMAT, "key '%s.embedding_length_per_layer_input' is missing",
                           l->traits->arch);
}

/* Read the heads. Models whose layers are all only recurrent have none, whatever their keys say. */
static int read_heads(struct load *l)
{
    struct model_shape *s = &l->m->shape;
    const bool has_none = (l->traits->recurrence & RECURRENT_TRAIT_ALL) != 0;
    int rc = has_none ? 0
                      : key_u32_of_layers(l, "attention.head_count", KEY_REQUIRED, 1, MAX_HEADS,
                                          &s->n_head);

    if (rc == 0)
        rc = load_recurrent(l);
    if (rc == 0)
        rc = load_layer_sizes(l);
    if (has_none) {
        s->n_streams = 1;
        return rc;
    }
    if (rc == 0)
        rc = read_head_dims(l);
    if (rc == 0)
        rc = read_shared_kv(l);
    if (rc == 0)
        rc = read_streams(l);
    if (rc == 0 && (l->traits->flags & TRAIT_MLA) != 0)
        rc = read_latent(l);
    if (rc < 0)
        return rc;
    rc = check_head(l, "keys", s->key_dim);
    if (rc == 0)
        rc = check_head(l, "values", s->value_dim);
    return rc == 0 && s->window_dim > 0 ? check_head(l, "keys in windows", s->window_dim) : rc;
}

/* Read n_vocab from the embedding's rows; a tokenizer in the file must agree. */
static int read_vocab(struct load *l)
{
    const struct gguf_tensor *t = gguf_tensor_find(l->g, "token_embd.weight");
    const struct gguf_kv *tokens = gguf_find(l->g, "tokenizer.ggml.tokens");

    if (t == NULL)
        return load_fail(l, ERR_FORMAT, "tensor 'token_embd.weight' is missing");
    if (t->dims[1] > MAX_VOCAB)
        return load_fail(l, ERR_UNSUPPORTED,
                         "tensor 'token_embd.weight': has %llu rows, but a vocabulary of at most "
                         "%u is supported",
                         (unsigned long long)t->dims[1], MAX_VOCAB);
    if (tokens != NULL && tokens->type == GGUF_ARRAY && tokens->count != t->dims[1])
        return load_fail(l, ERR_FORMAT,
                         "tensor 'token_embd.weight': has %llu rows, but the tokenizer has %llu "
                         "tokens",
                         (unsigned long long)t->dims[1], (unsigned long long)tokens->count);
    l->m->shape.n_vocab = (uint32_t)t->dims[1];
    return 0;
}

/* Read a factor; in some files 0 means that there is none. */
static int read_factor(struct load *l, const char *suffix, float *v)
{
    float found = 0.0f;
    const int rc = key_not_negative(l, suffix, &found);

    if (rc == 0 && found > 0.0f)
        *v = found;
    return rc;
}

/* Set *v to the architecture's own value, if it has one. */
static void use_usual(float *v, float usual)
{
    *v = usual != 0.0f ? usual : *v;
}

/* Read the factors that families multiply embeddings, residuals, scores and logits by. */
static int read_scales(struct load *l)
{
    const struct traits *t = l->traits;
    struct model_shape *s = &l->m->shape;
    const bool is_wide = t->wide_layers > 0 && s->n_layer == t->wide_layers;
    const uint32_t query = s->n_latent > 0 ? s->n_nope + s->key_dim - s->n_latent : s->key_dim;
    int rc;

    s->embed_scale = (t->flags & TRAIT_EMBED_ROOT) != 0 ? (float)sqrt((double)s->n_embd) : 1.0f;
    s->residual_scale = s->logit_scale = 1.0f;
    s->attn_scale =
        query > 0 ? (float)(1.0 / sqrt(is_wide ? (double)s->n_embd / s->n_head : query)) : 1.0f;
    use_usual(&s->embed_scale, t->embed_scale);
    use_usual(&s->logit_scale, t->logit_scale);
    use_usual(&s->attn_scale, t->attn_scale);
    s->attn_cap = t->attn_cap;
    s->logit_cap = t->logit_cap;
    rc = read_factor(l, "embedding_scale", &s->embed_scale);
    if (rc == 0)
        rc = read_factor(l, "residual_scale", &s->residual_scale);
    if (rc == 0)
        rc = read_factor(l, "logit_scale", &s->logit_scale);
    if (rc == 0)
        rc = read_factor(l, "attention.scale", &s->attn_scale);
    if (rc == 0 && (t->attention & ATTN_TRAIT_OUTPUT_SCALE) != 0)
        rc = read_factor(l, "attention.output_scale", &s->attn_scale);
    if (rc == 0)
        rc = key_not_negative(l, "attn_logit_softcapping", &s->attn_cap);
    if (rc == 0)
        rc = key_not_negative(l, "final_logit_softcapping", &s->logit_cap);
    if ((t->flags & TRAIT_LOGIT_DIVIDE) != 0)
        s->logit_scale = 1.0f / s->logit_scale;
    if (rc == 0 && !isfinite(s->logit_scale))
        return load_fail(l, ERR_FORMAT, "key '%s.logit_scale': is too small", t->arch);
    return rc;
}

static int read_topology(struct load *l)
{
    struct model_shape *s = &l->m->shape;
    const uint32_t flags = l->traits->flags;
    const bool is_encoder = (flags & TRAIT_ENCODER) != 0;
    bool is_parallel = true, is_causal = !is_encoder;
    int rc = 0;

    s->head_kind = (flags & TRAIT_MEAN_HEAD) != 0 ? HEAD_MEAN : is_encoder ? HEAD_FIRST : HEAD_LAST;
    s->is_parallel = (flags & TRAIT_PARALLEL) != 0;
    if ((flags & TRAIT_PARALLEL_KEY) != 0) {
        rc = key_bool(l, "use_parallel_residual", &is_parallel);
        s->is_parallel = is_parallel;
    }
    if ((flags & TRAIT_PARALLEL_BARE) != 0)
        s->is_parallel = gguf_tensor_find(l->g, "blk.0.ffn_norm.weight") == NULL;
    if (rc == 0)
        rc = key_bool(l, "attention.causal", &is_causal);
    s->is_encoder = !is_causal;
    if (rc == 0 && is_encoder && is_causal)
        return load_fail(l, ERR_UNSUPPORTED,
                         "key '%s.attention.causal': is true, but encoders with causal attention "
                         "are not supported",
                         l->traits->arch);
    if (rc == 0 && s->is_encoder && s->recurrent.kind != RECURRENT_NONE)
        return load_fail(l, ERR_UNSUPPORTED,
                         "key '%s.attention.causal': is false, but recurrent layers without causal "
                         "order are not supported",
                         l->traits->arch);
    return rc;
}

static void choose_ctx(struct model_shape *s, uint32_t wanted)
{
    const uint32_t most = s->n_ctx_train < MAX_CTX ? s->n_ctx_train : MAX_CTX;

    s->n_ctx = wanted > 0 && wanted < most ? wanted : most;
    if (wanted > most)
        log_warn("model", "event=context-cut wanted=%u served=%u", wanted, s->n_ctx);
}

int load_shape(struct load *l, uint32_t n_ctx)
{
    struct model_shape *s = &l->m->shape;
    int rc = find_traits(l);

    if (rc == 0)
        rc = check_key_neutral(l);
    if (rc == 0)
        rc = read_shape_sizes(l);
    if (rc == 0)
        rc = read_norms(l);
    if (rc == 0)
        rc = read_heads(l);
    if (rc == 0)
        rc = read_scales(l);
    if (rc == 0)
        rc = read_topology(l);
    if (rc == 0)
        rc = load_experts(l);
    if (rc == 0)
        rc = read_vocab(l);
    if (rc < 0)
        return rc;
    choose_ctx(s, n_ctx);
    rc = load_rope(l);
    if (rc == 0)
        rc = load_temperature(l);
    if (rc == 0)
        rc = load_ones(l);
    if (rc == 0)
        rc = load_decision(l);
    return rc == 0 && (l->traits->flags & TRAIT_ALIBI) != 0 ? load_alibi(l) : rc;
}
