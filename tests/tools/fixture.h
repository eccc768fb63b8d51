/* tests/tools/fixture.h - random models, for tests, benches and the mkmodel tool.
 *
 * fixture_add() gives a writer the keys, a tokenizer and the tensors of a model of any shape and
 * type. Weights are made block by block when the file is laid out, each block from the seed, the
 * tensor and its place alone, so that a model of gigabytes takes seconds and no memory. Their
 * spread keeps activations near 1 through any number of layers.
 *
 * Thread: one owner.
 * Memory: the fixture must outlive the writer; fixture_release() frees.
 */
#ifndef TESTS_TOOLS_FIXTURE_H
#define TESTS_TOOLS_FIXTURE_H

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/write.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FIXTURE_MAX_MIX 40

struct fixture_tensor {
    uint64_t seed;
    enum block_type type;
    float std;  /* of the weights */
    float mean; /* float types only */
    uint32_t n_in;
};

struct fixture {
    const char *arch; /* llama, qwen2, qwen3, qwen3moe or qwen35 */
    uint32_t n_embd, n_layer, n_head, n_kv_head, head_dim, n_ff, n_vocab, n_ctx;
    uint32_t n_expert, n_used; /* qwen3moe: each of them n_ff wide */
    uint32_t n_delta_key, n_delta_value, delta_dim; /* qwen35: heads of its delta nets; one layer of
                                                     * FIXTURE_FULL_EVERY has attention */
    enum block_type type; /* of the matrices */
    bool mixed;           /* Q4_K_M: of the matrices of type Q4_K some are Q6_K */
    uint32_t n_mix;       /* not 0: the matrices take turns at the types `mix` */
    enum block_type mix[FIXTURE_MAX_MIX];
    bool tied;
    bool q_bias; /* llama with QKV biases too (qwen2 has them anyway) */
    uint64_t seed;
    const char *skip; /* a key or tensor to be left out, or NULL */

    struct fixture_tensor *tensors; /* private */
    size_t n_tensors;
    uint32_t matrix; /* of the mix */
};

/* The least model that takes every type: rows of 256. */
static inline struct fixture fixture_small(void)
{
    return (struct fixture){.arch = "llama",
                            .n_embd = 256,
                            .n_layer = 2,
                            .n_head = 4,
                            .n_kv_head = 2,
                            .head_dim = 64,
                            .n_ff = 512,
                            .n_vocab = 300,
                            .n_ctx = 128,
                            .type = BLOCK_F32,
                            .seed = 1};
}

/* Random numbers: splitmix64. */

static inline uint64_t fixture_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline void fixture_random_bytes(uint64_t *state, uint8_t *dst, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        const uint64_t r = fixture_next(state);

        memcpy(dst + i, &r, n - i < 8 ? n - i : 8);
    }
}

/* A scale near d, its sign at random so that codes off centre cancel out. */
static inline void fixture_scale(uint64_t *state, uint8_t *dst, float d)
{
    const uint64_t r = fixture_next(state);
    const float jitter = 0.75f + (float)(r & 0xffff) / 131072.0f;
    const uint16_t h = block_f32_to_f16(r >> 63 ? -d * jitter : d * jitter);

    memcpy(dst, &h, 2);
}

/* Two scales that go together: numbers d * sc * q - dmin * mn with sc == mn are centred when
 * dmin is `centre` times d. */
static inline void fixture_scale_pair(uint8_t *dst, float d, float centre)
{
    const uint16_t h[2] = {block_f32_to_f16(d), block_f32_to_f16(d * centre)};

    memcpy(dst, h, 4);
}

/* The 12 bytes of Q4_K and Q5_K with equal scales and minima of 32 .. 63. */
static inline void fixture_six_bits(uint64_t *state, uint8_t *s)
{
    uint64_t r = fixture_next(state);

    for (int j = 0; j < 4; j++, r >>= 10) {
        const uint8_t low = (uint8_t)(32 + (r & 31)), high = (uint8_t)(32 + (r >> 5 & 31));

        s[j] = s[j + 4] = (uint8_t)(low | high >> 4 << 6);
        s[j + 8] = (uint8_t)((high & 15) | (high & 15) << 4);
    }
}

/* The scale of IQ1_M is spread over the top bits of four words. */
static inline void fixture_iq1_m_scale(uint64_t *state, uint8_t *words, float d)
{
    uint8_t half[2];

    fixture_scale(state, half, d);
    for (int i = 0; i < 4; i++)
        words[2 * i + 1] =
            (uint8_t)((words[2 * i + 1] & 15) | (half[i / 2] >> 4 * (i % 2) & 15) << 4);
}

/* NVFP4: four times the byte of e4m3 that is nearest to d, at least to its exponent. */
static inline void fixture_e4m3(uint8_t *dst, float d)
{
    const int e = (int)floorf(log2f(d)) + 7;
    const float m = e > 0 ? (ldexpf(d, 7 - e) - 1) * 8 : ldexpf(d, 9);

    memset(dst, (uint8_t)((e > 0 ? e << 3 : 0) | (int)fminf(7, rintf(m))), 4);
}

/* One quantised block of random codes. The divisors are the standard deviation of the codes. */
static inline void fixture_block(uint64_t *state, enum block_type type, float std, uint8_t *b)
{
    fixture_random_bytes(state, b, block_format(type)->bytes);
    switch (type) {
    case BLOCK_Q4_0:
        fixture_scale(state, b, std / 4.61f);
        break;
    case BLOCK_Q4_1:
        fixture_scale_pair(b, std / 4.61f, -7.5f);
        break;
    case BLOCK_Q5_0:
        fixture_scale(state, b, std / 9.23f);
        break;
    case BLOCK_Q5_1:
        fixture_scale_pair(b, std / 9.23f, -15.5f);
        break;
    case BLOCK_Q8_0:
        fixture_scale(state, b, std / 73.9f);
        break;
    case BLOCK_Q2_K:
        for (int i = 0; i < 16; i++) /* scale == minimum, 8 .. 15 */
            b[i] = (uint8_t)((b[i] & 7) * 17 + 0x88);
        fixture_scale_pair(b + 80, std / (1.12f * 11.7f), 1.5f);
        break;
    case BLOCK_Q3_K:
        fixture_scale(state, b + 108, std / (2.35f * 18.5f));
        break;
    case BLOCK_Q4_K:
        fixture_six_bits(state, b + 4);
        fixture_scale_pair(b, std / (4.61f * 48.4f), 7.5f);
        break;
    case BLOCK_Q5_K:
        fixture_six_bits(state, b + 4);
        fixture_scale_pair(b, std / (9.23f * 48.4f), 15.5f);
        break;
    case BLOCK_Q6_K:
        fixture_scale(state, b + 208, std / (18.5f * 73.9f));
        break;
    case BLOCK_IQ4_NL:
        fixture_scale(state, b, std / 67.4f);
        break;
    case BLOCK_IQ4_XS:
        fixture_scale(state, b, std / 1250.0f);
        break;
    case BLOCK_MXFP4:
        b[0] = (uint8_t)fmaxf(0, fminf(252, 128 + rintf(log2f(std / 5.81f))));
        break;
    case BLOCK_NVFP4:
        fixture_e4m3(b, 2 * std / 5.81f);
        break;
    case BLOCK_IQ2_K:
        fixture_scale(state, b, std / 84.0f);
        break;
    case BLOCK_IQ3_K:
        fixture_scale(state, b, std / 640.0f);
        break;
    case BLOCK_IQ4_K:
    case BLOCK_IQ5_K:
        fixture_scale(state, b, std / 1250.0f);
        break;
    case BLOCK_IQ6_K:
        fixture_scale(state, b, std / 4900.0f);
        break;
    case BLOCK_Q1_0:
        fixture_scale(state, b, std);
        break;
    case BLOCK_Q2_0:
        fixture_scale(state, b, std / 1.23f);
        break;
    case BLOCK_TQ2_0:
        fixture_scale(state, b + 64, std / 1.23f);
        break;
    case BLOCK_TQ1_0:
        fixture_scale(state, b + 52, std / 0.82f);
        break;
    case BLOCK_IQ3_S:
    case BLOCK_IQ3_XXS:
        fixture_scale(state, b, std / 141.0f);
        break;
    case BLOCK_IQ2_S:
    case BLOCK_IQ2_XS:
    case BLOCK_IQ2_XXS:
        fixture_scale(state, b, std / 56.0f);
        break;
    case BLOCK_IQ1_S:
        fixture_scale(state, b, std / 7.2f);
        break;
    case BLOCK_IQ1_M:
        fixture_iq1_m_scale(state, b + 48, std / 7.2f);
        break;
    case BLOCK_F32:
    case BLOCK_F16:
    case BLOCK_BF16:
    case BLOCK_IQ4_KS: /* the row has the scale */
    case BLOCK_IQ5_KS:
        break;
    }
}

/* The head of a row, then its blocks. */
static inline void fixture_scaled_rows(const struct fixture_tensor *t, uint64_t offset,
                                       uint8_t *dst, size_t n)
{
    const struct block_format *f = block_format(t->type);
    const size_t bytes = (size_t)block_row_bytes(f, t->n_in);
    const float d = t->std / 4900.0f;

    for (size_t at = 0; at < n; at += bytes) {
        uint64_t state = t->seed + (offset + at) / bytes * 0xd1342543de82ef95u;

        memcpy(dst + at, &d, sizeof(d));
        for (size_t b = f->head; b < bytes; b += f->bytes)
            fixture_block(&state, t->type, t->std, dst + at + b);
    }
}

static inline float fixture_float(uint64_t *state, const struct fixture_tensor *t)
{
    /* Uniform within sqrt(3) of the deviation on either side. */
    const float unit = (float)(fixture_next(state) >> 40) * 0x1p-23f - 1.0f;

    return t->mean + 1.7320508f * t->std * unit;
}

static inline void fixture_fill(void *ud, uint64_t offset, uint8_t *dst, size_t n)
{
    const struct fixture_tensor *t = ud;
    const size_t bytes = block_format(t->type)->bytes;

    if (block_format(t->type)->head > 0) {
        fixture_scaled_rows(t, offset, dst, n);
        return;
    }
    for (size_t at = 0; at < n; at += bytes) {
        uint64_t state = t->seed + (offset + at) / bytes * 0xd1342543de82ef95u;
        float x;

        if (bytes > 4) {
            fixture_block(&state, t->type, t->std, dst + at);
        } else {
            x = fixture_float(&state, t);
            block_encode(t->type, &x, dst + at, 1);
        }
    }
}

/* Is this key or tensor to be written? */
static inline bool fixture_has(const struct fixture *f, const char *name)
{
    return f->skip == NULL || strcmp(f->skip, name) != 0;
}

/* n_each: 0, or that many of the same shape in one tensor. */
static inline void fixture_tensors(struct fixture *f, struct gguf_writer *w, const char *name,
                                   enum block_type type, uint32_t n_in, uint32_t n_out,
                                   uint32_t n_each, float std, float mean)
{
    const uint64_t dims[3] = {n_in, n_out, n_each};
    struct fixture_tensor *t = &f->tensors[f->n_tensors++];
    uint64_t state = f->seed * 0x2545f4914f6cdd1du + f->n_tensors;

    *t = (struct fixture_tensor){
        .seed = fixture_next(&state), .type = type, .std = std, .mean = mean, .n_in = n_in};
    if (fixture_has(f, name))
        gguf_writer_tensor_fill(w, name, type, n_each > 0 ? 3 : n_out > 1 ? 2 : 1, dims,
                                fixture_fill, t);
}

static inline void fixture_tensor(struct fixture *f, struct gguf_writer *w, const char *name,
                                  enum block_type type, uint32_t n_in, uint32_t n_out, float std,
                                  float mean)
{
    fixture_tensors(f, w, name, type, n_in, n_out, 0, std, mean);
}

/* Rows that no 256-wide block divides get what other tools give them. */
static inline enum block_type fixture_type(enum block_type type, uint32_t n_in)
{
    if (block_format(type)->elems != 256 || n_in % 256 == 0)
        return type;
    if (type == BLOCK_TQ1_0 || type == BLOCK_TQ2_0)
        return BLOCK_Q4_0;
    if (type >= BLOCK_IQ2_XXS)
        return BLOCK_IQ4_NL;
    return type == BLOCK_Q6_K ? BLOCK_Q8_0 : BLOCK_Q5_0;
}

/* The matrices that a Q4_K_M file has in Q6_K: the embedding and the output, and attn_v and
 * ffn_down in the first and last eighth of the layers and in every third between. */
static inline bool fixture_is_finer(const struct fixture *f, uint32_t layer, const char *suffix)
{
    const uint32_t eighth = f->n_layer / 8;

    return f->mixed && (strcmp(suffix, "attn_v") == 0 || strcmp(suffix, "ffn_down") == 0) &&
           (layer < eighth || layer >= 7 * f->n_layer / 8 || (layer - eighth) % 3 == 2);
}

static inline void fixture_matrices(struct fixture *f, struct gguf_writer *w, uint32_t layer,
                                    const char *suffix, uint32_t n_in, uint32_t n_out,
                                    uint32_t n_each)
{
    const enum block_type type = f->n_mix ? f->mix[f->matrix++ % f->n_mix]
                                 : fixture_is_finer(f, layer, suffix) ? BLOCK_Q6_K
                                                                      : f->type;
    char name[64];

    snprintf(name, sizeof(name), "blk.%u.%s.weight", layer, suffix);
    fixture_tensors(f, w, name, fixture_type(type, n_in), n_in, n_out, n_each,
                    1.0f / sqrtf((float)n_in), 0);
}

static inline void fixture_matrix(struct fixture *f, struct gguf_writer *w, uint32_t layer,
                                  const char *suffix, uint32_t n_in, uint32_t n_out)
{
    fixture_matrices(f, w, layer, suffix, n_in, n_out, 0);
}

static inline void fixture_vector(struct fixture *f, struct gguf_writer *w, uint32_t layer,
                                  const char *suffix, uint32_t n, float mean)
{
    char name[64];

    snprintf(name, sizeof(name), "blk.%u.%s", layer, suffix);
    fixture_tensor(f, w, name, BLOCK_F32, n, 1, 0.1f, mean);
}

static inline void fixture_experts(struct fixture *f, struct gguf_writer *w, uint32_t i)
{
    char name[64];

    snprintf(name, sizeof(name), "blk.%u.ffn_gate_inp.weight", i);
    fixture_tensor(f, w, name, BLOCK_F32, f->n_embd, f->n_expert, 1.0f / sqrtf((float)f->n_embd),
                   0);
    fixture_matrices(f, w, i, "ffn_gate_exps", f->n_embd, f->n_ff, f->n_expert);
    fixture_matrices(f, w, i, "ffn_up_exps", f->n_embd, f->n_ff, f->n_expert);
    fixture_matrices(f, w, i, "ffn_down_exps", f->n_ff, f->n_embd, f->n_expert);
}

#define FIXTURE_FULL_EVERY 4
#define FIXTURE_TAPS 4

static inline bool fixture_is_delta(const struct fixture *f, uint32_t i)
{
    return f->delta_dim > 0 && (i + 1) % FIXTURE_FULL_EVERY != 0;
}

/* A vector of numbers as recurrent layers have them: of any mean and deviation. */
static inline void fixture_numbers(struct fixture *f, struct gguf_writer *w, uint32_t layer,
                                   const char *suffix, uint32_t n_in, uint32_t n_out, float std,
                                   float mean)
{
    char name[64];

    snprintf(name, sizeof(name), "blk.%u.%s", layer, suffix);
    fixture_tensor(f, w, name, BLOCK_F32, n_in, n_out, std, mean);
}

static inline void fixture_delta(struct fixture *f, struct gguf_writer *w, uint32_t i)
{
    const uint32_t keys = f->n_delta_key * f->delta_dim, values = f->n_delta_value * f->delta_dim;

    fixture_matrix(f, w, i, "attn_qkv", f->n_embd, 2 * keys + values);
    fixture_matrix(f, w, i, "attn_gate", f->n_embd, values);
    fixture_matrix(f, w, i, "ssm_beta", f->n_embd, f->n_delta_value);
    fixture_matrix(f, w, i, "ssm_alpha", f->n_embd, f->n_delta_value);
    fixture_numbers(f, w, i, "ssm_conv1d.weight", FIXTURE_TAPS, 2 * keys + values, 0.5f, 0.2f);
    fixture_numbers(f, w, i, "ssm_dt.bias", f->n_delta_value, 1, 0.1f, -1.0f);
    fixture_numbers(f, w, i, "ssm_a", f->n_delta_value, 1, 0.2f, -1.0f);
    fixture_numbers(f, w, i, "ssm_norm.weight", f->delta_dim, 1, 0.1f, 1.0f);
    fixture_matrix(f, w, i, "ssm_out", values, f->n_embd);
}

static inline void fixture_attention(struct fixture *f, struct gguf_writer *w, uint32_t i)
{
    const uint32_t q = f->n_head * f->head_dim, kv = f->n_kv_head * f->head_dim;

    fixture_matrix(f, w, i, "attn_q", f->n_embd, f->delta_dim > 0 ? 2 * q : q);
    fixture_matrix(f, w, i, "attn_k", f->n_embd, kv);
    fixture_matrix(f, w, i, "attn_v", f->n_embd, kv);
    if (f->q_bias || strcmp(f->arch, "qwen2") == 0) {
        fixture_vector(f, w, i, "attn_q.bias", q, 0.0f);
        fixture_vector(f, w, i, "attn_k.bias", kv, 0.0f);
        fixture_vector(f, w, i, "attn_v.bias", kv, 0.0f);
    }
    if (strncmp(f->arch, "qwen3", 5) == 0) {
        fixture_vector(f, w, i, "attn_q_norm.weight", f->head_dim, 1.0f);
        fixture_vector(f, w, i, "attn_k_norm.weight", f->head_dim, 1.0f);
    }
    fixture_matrix(f, w, i, "attn_output", q, f->n_embd);
}

static inline void fixture_layer(struct fixture *f, struct gguf_writer *w, uint32_t i)
{
    const char *ffn_norm = f->delta_dim > 0 ? "post_attention_norm.weight" : "ffn_norm.weight";

    fixture_vector(f, w, i, "attn_norm.weight", f->n_embd, 1.0f);
    if (fixture_is_delta(f, i))
        fixture_delta(f, w, i);
    else
        fixture_attention(f, w, i);
    fixture_vector(f, w, i, ffn_norm, f->n_embd, 1.0f);
    if (f->n_expert > 0) {
        fixture_experts(f, w, i);
        return;
    }
    fixture_matrix(f, w, i, "ffn_gate", f->n_embd, f->n_ff);
    fixture_matrix(f, w, i, "ffn_up", f->n_embd, f->n_ff);
    fixture_matrix(f, w, i, "ffn_down", f->n_ff, f->n_embd);
}

static inline void fixture_key(const struct fixture *f, struct gguf_writer *w, const char *suffix,
                               uint32_t v)
{
    char key[64];

    snprintf(key, sizeof(key), "%s.%s", f->arch, suffix);
    if (fixture_has(f, key))
        gguf_writer_u32(w, key, v);
}

static inline void fixture_keys(const struct fixture *f, struct gguf_writer *w)
{
    char key[64];

    if (fixture_has(f, "general.architecture"))
        gguf_writer_str(w, "general.architecture", f->arch);
    if (fixture_has(f, "general.name"))
        gguf_writer_str(w, "general.name", "fixture");
    fixture_key(f, w, "block_count", f->n_layer);
    fixture_key(f, w, "context_length", f->n_ctx);
    fixture_key(f, w, "embedding_length", f->n_embd);
    fixture_key(f, w, "feed_forward_length", f->n_ff);
    fixture_key(f, w, "attention.head_count", f->n_head);
    if (f->n_expert > 0) {
        fixture_key(f, w, "expert_count", f->n_expert);
        fixture_key(f, w, "expert_used_count", f->n_used);
        fixture_key(f, w, "expert_feed_forward_length", f->n_ff);
    }
    fixture_key(f, w, "attention.head_count_kv", f->n_kv_head);
    fixture_key(f, w, "attention.key_length", f->head_dim);
    fixture_key(f, w, "attention.value_length", f->head_dim);
    fixture_key(f, w, "rope.dimension_count", f->delta_dim > 0 ? f->head_dim / 4 : f->head_dim);
    if (f->delta_dim > 0) {
        fixture_key(f, w, "full_attention_interval", FIXTURE_FULL_EVERY);
        fixture_key(f, w, "ssm.conv_kernel", FIXTURE_TAPS);
        fixture_key(f, w, "ssm.state_size", f->delta_dim);
        fixture_key(f, w, "ssm.group_count", f->n_delta_key);
        fixture_key(f, w, "ssm.time_step_rank", f->n_delta_value);
        fixture_key(f, w, "ssm.inner_size", f->n_delta_value * f->delta_dim);
    }
    snprintf(key, sizeof(key), "%s.attention.layer_norm_rms_epsilon", f->arch);
    if (fixture_has(f, key))
        gguf_writer_f32(w, key, 1e-5f);
    snprintf(key, sizeof(key), "%s.rope.freq_base", f->arch);
    if (fixture_has(f, key))
        gguf_writer_f32(w, key, 10000.0f);
}

/* The tokenizer: SentencePiece with byte tokens, the printable ASCII characters and then words
 * of made-up syllables, each with and without the mark of a word's beginning. */

#define FIXTURE_FIRST_CHAR 259 /* after <unk>, <s>, </s> and the bytes */
#define FIXTURE_MARK "\xe2\x96\x81"

static inline void fixture_word(uint32_t k, char *dst, size_t size)
{
    static const char consonants[] = "bcdfghjklmnprstvwxyz", vowels[] = "aeiou";
    char syllables[16][2];
    int n = 0;
    size_t at = 0;

    for (k++; k > 0; k = (k - 1) / 100, n++) {
        syllables[n][0] = consonants[(k - 1) % 100 / 5];
        syllables[n][1] = vowels[(k - 1) % 5];
    }
    while (n-- > 0 && at + 3 <= size) {
        memcpy(dst + at, syllables[n], 2);
        at += 2;
    }
    dst[at] = '\0';
}

static inline int fixture_token(uint32_t i, char *dst, size_t size, int32_t *type)
{
    static const char *const special[] = {"<unk>", "<s>", "</s>"};
    char word[24];

    *type = 1;
    if (i < 3) {
        *type = i == 0 ? 2 : 3;
        return snprintf(dst, size, "%s", special[i]);
    }
    if (i < FIXTURE_FIRST_CHAR) {
        *type = 6;
        return snprintf(dst, size, "<0x%02X>", i - 3);
    }
    i -= FIXTURE_FIRST_CHAR;
    if (i == 0)
        return snprintf(dst, size, FIXTURE_MARK);
    if (i <= 94)
        return snprintf(dst, size, "%c", (int)(0x20 + i));
    fixture_word((i - 95) / 2, word, sizeof(word));
    return snprintf(dst, size, "%s%s", i % 2 ? "" : FIXTURE_MARK, word);
}

/* Text takes all of the bytes: a smaller vocabulary goes without a tokenizer. */
static inline int fixture_tokenizer(const struct fixture *f, struct gguf_writer *w)
{
    enum { PIECE = 40 };
    const uint32_t n = f->n_vocab;
    char *text = mem_alloc((size_t)n * PIECE);
    struct gguf_str *pieces = mem_calloc(n, sizeof(*pieces));
    float *scores = mem_calloc(n, sizeof(*scores));
    int32_t *types = mem_calloc(n, sizeof(*types));
    const int rc =
        text != NULL && pieces != NULL && scores != NULL && types != NULL ? 0 : ERR_NOMEM;

    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        pieces[i].data = text + (size_t)i * PIECE;
        pieces[i].len = (size_t)fixture_token(i, text + (size_t)i * PIECE, PIECE, &types[i]);
        scores[i] = i < FIXTURE_FIRST_CHAR ? 0.0f : -(float)(n - i); /* longer pieces first */
    }
    if (rc == 0) {
        gguf_writer_str(w, "tokenizer.ggml.model", "llama");
        gguf_writer_str(w, "tokenizer.ggml.pre", "default");
        gguf_writer_str_array(w, "tokenizer.ggml.tokens", pieces, n);
        gguf_writer_f32_array(w, "tokenizer.ggml.scores", scores, n);
        gguf_writer_i32_array(w, "tokenizer.ggml.token_type", types, n);
        gguf_writer_u32(w, "tokenizer.ggml.unknown_token_id", 0);
        gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", 1);
        gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", 2);
        gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", true);
        gguf_writer_str(w, "tokenizer.chat_template",
                        "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
                        "{% if add_generation_prompt %}[assistant] {% endif %}");
    }
    mem_free(text);
    mem_free(pieces);
    mem_free(scores);
    mem_free(types);
    return rc;
}

/* Give the writer the whole model. 0 or ERR_NOMEM; the writer's own errors stay with it. */
static inline int fixture_add(struct fixture *f, struct gguf_writer *w)
{
    const float spread = f->tied ? 2.0f / sqrtf((float)f->n_embd) : 1.0f;
    const enum block_type ends = fixture_type(f->mixed ? BLOCK_Q6_K : f->type, f->n_embd);
    int rc = 0;

    f->n_tensors = 0;
    f->matrix = 0;
    f->tensors = mem_calloc((size_t)f->n_layer * 16 + 4, sizeof(*f->tensors));
    if (f->tensors == NULL)
        return ERR_NOMEM;
    fixture_keys(f, w);
    if (f->n_vocab > FIXTURE_FIRST_CHAR)
        rc = fixture_tokenizer(f, w);
    fixture_tensor(f, w, "token_embd.weight", ends, f->n_embd, f->n_vocab, spread, 0.0f);
    for (uint32_t i = 0; i < f->n_layer; i++)
        fixture_layer(f, w, i);
    fixture_tensor(f, w, "output_norm.weight", BLOCK_F32, f->n_embd, 1, 0.1f, 1.0f);
    if (!f->tied)
        fixture_tensor(f, w, "output.weight", ends, f->n_embd, f->n_vocab,
                       2.0f / sqrtf((float)f->n_embd), 0.0f);
    return rc;
}

static inline void fixture_release(struct fixture *f)
{
    mem_free(f->tensors);
    f->tensors = NULL;
}

#endif
