/* core/model/shape.c - the metadata of a model file, checked (see load.h). */
#include "core/model/load.h"

#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Ranges: wide enough for every dense model of this kind that there is, and narrow enough that no
 * product of two of them and an element size overflows 64 bits. */
#define MAX_LAYERS 1024
#define MAX_EMBD (1u << 17)
#define MAX_FF (1u << 20)
#define MAX_HEADS 1024
#define MAX_VOCAB (1u << 22)
#define MAX_CTX (1u << 20) /* rope tables at head size 256 then take 1 GiB */

enum { KEY_REQUIRED = 0, KEY_OPTIONAL = 1 };

static void make_key(const struct load *l, const char *suffix, char key[GGUF_MAX_NAME])
{
    snprintf(key, GGUF_MAX_NAME, "%s.%s", l->traits->arch, suffix);
}

/* An integer key within lo..hi. An optional one that is absent leaves *v alone. */
static int read_u32(struct load *l, const char *suffix, int need, uint32_t lo, uint32_t hi,
                    uint32_t *v)
{
    char key[GGUF_MAX_NAME];
    uint32_t found;
    int rc;

    make_key(l, suffix, key);
    rc = gguf_get_u32(l->g, key, &found, l->err, l->err_len);
    if (rc == ERR_NOENT)
        return need == KEY_OPTIONAL ? 0 : load_fail(l, ERR_FORMAT, "key '%s' is missing", key);
    if (rc < 0)
        return rc;
    if (found < lo || found > hi)
        return load_fail(l, ERR_FORMAT, "key '%s': is %u, but %u to %u is supported", key, found,
                         lo, hi);
    *v = found;
    return 0;
}

/* A number greater than 0; an optional one that is absent leaves *v alone. */
static int read_positive(struct load *l, const char *suffix, int need, float *v)
{
    char key[GGUF_MAX_NAME];
    float found;
    int rc;

    make_key(l, suffix, key);
    rc = gguf_get_f32(l->g, key, &found, l->err, l->err_len);
    if (rc == ERR_NOENT)
        return need == KEY_OPTIONAL ? 0 : load_fail(l, ERR_FORMAT, "key '%s' is missing", key);
    if (rc < 0)
        return rc;
    if (!(found > 0.0f))
        return load_fail(l, ERR_FORMAT, "key '%s': is %g, but must be above 0", key, (double)found);
    *v = found;
    return 0;
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
        return load_fail(l, ERR_UNSUPPORTED, "architecture '%s' is not supported (these are: %s)",
                         name, traits_names());
    }
    snprintf(l->m->arch, sizeof(l->m->arch), "%s", l->traits->arch);
    return 0;
}

/* Keys that would change the arithmetic in a way that we do not compute. Each is refused unless it
 * is absent, 0, or has the value that means "as usual". */
static int check_neutral(struct load *l)
{
    static const struct {
        const char *suffix;
        float usual;
        const char *what;
    } keys[] = {
        {"expert_count", 0.0f, "mixtures of experts"},
        {"attention.clamp_kqv", 0.0f, "clamped keys and values"},
        {"attention.max_alibi_bias", 0.0f, "ALiBi positions"},
        {"rope.scaling.attn_factor", 1.0f, "attention factors"},
        {"logit_scale", 1.0f, "scaled logits"},
        {"embedding_scale", 1.0f, "scaled embeddings"},
        {"residual_scale", 1.0f, "scaled residuals"},
    };
    char key[GGUF_MAX_NAME];

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        float v = 0.0f;
        int rc;

        make_key(l, keys[i].suffix, key);
        rc = gguf_get_f32(l->g, key, &v, l->err, l->err_len);
        if (rc < 0 && rc != ERR_NOENT)
            return rc;
        if (v != 0.0f && v != keys[i].usual)
            return load_fail(l, ERR_UNSUPPORTED, "key '%s': is %g, but %s are not supported", key,
                             (double)v, keys[i].what);
    }
    return 0;
}

static int check_not_split(struct load *l)
{
    uint32_t n = 1;
    const int rc = gguf_get_u32(l->g, "split.count", &n, l->err, l->err_len);

    if (rc < 0 && rc != ERR_NOENT)
        return rc;
    if (n > 1)
        return load_fail(l, ERR_UNSUPPORTED,
                         "is one of %u parts of a split model, which is not supported: merge them",
                         n);
    return 0;
}

static int read_sizes(struct load *l)
{
    struct model_shape *s = &l->m->shape;
    int rc = read_u32(l, "block_count", KEY_REQUIRED, 1, MAX_LAYERS, &s->n_layer);

    if (rc == 0)
        rc = read_u32(l, "embedding_length", KEY_REQUIRED, 1, MAX_EMBD, &s->n_embd);
    if (rc == 0)
        rc = read_u32(l, "feed_forward_length", KEY_REQUIRED, 1, MAX_FF, &s->n_ff);
    if (rc == 0)
        rc = read_u32(l, "context_length", KEY_REQUIRED, 1, UINT32_MAX, &s->n_ctx_train);
    if (rc == 0)
        rc = read_u32(l, "pooling_type", KEY_OPTIONAL, 0, 4, &s->pooling_type);
    if (rc == 0)
        rc = read_positive(l, "attention.layer_norm_rms_epsilon", KEY_REQUIRED, &s->norm_eps);
    return rc;
}

/* head_dim: the keys, or an equal share of the embedding. */
static int read_head_dim(struct load *l)
{
    struct model_shape *s = &l->m->shape;
    uint32_t key = s->n_embd / s->n_head, value;
    int rc = read_u32(l, "attention.key_length", KEY_OPTIONAL, 1, UINT32_MAX, &key);

    value = key;
    if (rc == 0)
        rc = read_u32(l, "attention.value_length", KEY_OPTIONAL, 1, UINT32_MAX, &value);
    if (rc < 0)
        return rc;
    if (key != value)
        return load_fail(l, ERR_UNSUPPORTED,
                         "heads have keys of %u and values of %u numbers, but only equal lengths "
                         "are supported",
                         key, value);
    if (key < 8 || key > KERN_MAX_HEAD || key % 8 != 0)
        return load_fail(l, ERR_UNSUPPORTED,
                         "heads have %u dimensions, but only multiples of 8 up to %d are supported",
                         key, KERN_MAX_HEAD);
    s->head_dim = key;
    return 0;
}

static int read_heads(struct load *l)
{
    struct model_shape *s = &l->m->shape;
    int rc = read_u32(l, "attention.head_count", KEY_REQUIRED, 1, MAX_HEADS, &s->n_head);

    s->n_kv_head = s->n_head;
    if (rc == 0)
        rc = read_u32(l, "attention.head_count_kv", KEY_OPTIONAL, 1, MAX_HEADS, &s->n_kv_head);
    if (rc < 0)
        return rc;
    if (s->n_head % s->n_kv_head != 0)
        return load_fail(l, ERR_FORMAT, "%u heads cannot share %u KV heads equally", s->n_head,
                         s->n_kv_head);
    return read_head_dim(l);
}

/* Scaling of positions: a linear factor, or none. (Llama 3's comes as a tensor, see weights.c.) */
static int read_scaling(struct load *l)
{
    char key[GGUF_MAX_NAME], name[32];
    struct gguf_str type = {"linear", 6}; /* what a factor without a type means */
    float factor = 1.0f;
    int rc;

    make_key(l, "rope.scaling.type", key);
    rc = gguf_get_str(l->g, key, &type, l->err, l->err_len);
    if (rc < 0 && rc != ERR_NOENT)
        return rc;
    l->rope.factor = 1.0;
    if (type.len == 4 && memcmp(type.data, "none", 4) == 0)
        return 0;
    if (type.len != 6 || memcmp(type.data, "linear", 6) != 0) {
        load_printable(name, sizeof(name), type);
        return load_fail(l, ERR_UNSUPPORTED,
                         "key '%s': is '%s', but only none and linear are supported", key, name);
    }
    rc = read_positive(l, "rope.scale_linear", KEY_OPTIONAL, &factor); /* the older name */
    if (rc == 0)
        rc = read_positive(l, "rope.scaling.factor", KEY_OPTIONAL, &factor);
    l->rope.factor = (double)factor;
    return rc;
}

static int read_rope(struct load *l)
{
    struct model_shape *s = &l->m->shape;
    float base = l->traits->rope_base;
    int rc;

    s->n_rot = s->head_dim;
    s->rope_neox = l->traits->rope_neox;
    rc = read_u32(l, "rope.dimension_count", KEY_OPTIONAL, 2, s->head_dim, &s->n_rot);
    if (rc < 0)
        return rc;
    if (s->n_rot % 2 != 0)
        return load_fail(l, ERR_FORMAT, "key '%s.rope.dimension_count': is %u, but must be even",
                         l->traits->arch, s->n_rot);
    rc = read_positive(l, "rope.freq_base", KEY_OPTIONAL, &base);
    l->rope.n_rot = s->n_rot;
    l->rope.base = (double)base;
    return rc == 0 ? read_scaling(l) : rc;
}

/* The embedding's rows are the vocabulary; a tokenizer in the file must agree. */
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

/* A model that attends to a window of its context is exact as long as nothing is longer. */
static int check_window(struct load *l)
{
    const struct model_shape *s = &l->m->shape;
    uint32_t window = 0;
    const int rc = read_u32(l, "attention.sliding_window", KEY_OPTIONAL, 0, UINT32_MAX, &window);

    if (rc < 0)
        return rc;
    if (window > 0 && window < s->n_ctx)
        return load_fail(l, ERR_UNSUPPORTED,
                         "key '%s.attention.sliding_window': is %u, and a context of %u reaches "
                         "beyond it, which is not supported: ask for a context of at most %u",
                         l->traits->arch, window, s->n_ctx, window);
    return 0;
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
    int rc = check_not_split(l);

    if (rc == 0)
        rc = find_traits(l);
    if (rc == 0)
        rc = check_neutral(l);
    if (rc == 0)
        rc = read_sizes(l);
    if (rc == 0)
        rc = read_heads(l);
    if (rc == 0)
        rc = read_rope(l);
    if (rc == 0)
        rc = read_vocab(l);
    if (rc < 0)
        return rc;
    choose_ctx(s, n_ctx);
    l->rope.n_ctx = s->n_ctx;
    return check_window(l);
}
