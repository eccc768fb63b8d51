/* tests/unit/model/test_model_refused.c - files that are no model of ours: each with its
 * sentence. */
#include "tests/unit/model/model_file.h"

/* What the loader says to a fixture without `skip` and with what `more` adds. */
static void refuse(struct fixture f, const char *skip, more_fn *more, int rc, const char *sentence)
{
    struct file file;
    struct model *m;

    f.skip = skip;
    build(&file, f, more);
    err[0] = '\0';
    assert_int_equal(model_load(&m, file.g, &plain, err, sizeof(err)), rc);
    assert_string_equal(err, sentence);
    assert_null(m);
    drop(&file);
}

/* Refusals. Each `more` adds what is wrong. */

#define MORE_U32(name, key, value)                                                                 \
    static void name(struct gguf_writer *w)                                                        \
    {                                                                                              \
        gguf_writer_u32(w, key, value);                                                            \
    }
#define MORE_F32(name, key, value)                                                                 \
    static void name(struct gguf_writer *w)                                                        \
    {                                                                                              \
        gguf_writer_f32(w, key, value);                                                            \
    }
#define MORE_STR(name, key, value)                                                                 \
    static void name(struct gguf_writer *w)                                                        \
    {                                                                                              \
        gguf_writer_str(w, key, value);                                                            \
    }

MORE_STR(arch_bart, "general.architecture", "bart\n")
MORE_U32(arch_number, "general.architecture", 7)
MORE_U32(layers_0, "llama.block_count", 0)
MORE_U32(layers_1025, "llama.block_count", 1025)
MORE_U32(layers_3, "llama.block_count", 3)
MORE_U32(layers_1, "llama.block_count", 1)
MORE_STR(layers_text, "llama.block_count", "two")
MORE_U32(embd_0, "llama.embedding_length", 0)
MORE_U32(embd_128, "llama.embedding_length", 128)
MORE_U32(ff_big, "llama.feed_forward_length", 4000000000u)
MORE_U32(ctx_0, "llama.context_length", 0)
MORE_U32(heads_0, "llama.attention.head_count", 0)
MORE_U32(heads_8, "llama.attention.head_count", 8)
MORE_U32(kv_3, "llama.attention.head_count_kv", 3)
MORE_U32(kv_0, "llama.attention.head_count_kv", 0)
MORE_U32(key_60, "llama.attention.key_length", 60)
MORE_U32(value_32, "llama.attention.value_length", 32)
MORE_U32(rot_65, "llama.rope.dimension_count", 65)
MORE_U32(rot_33, "llama.rope.dimension_count", 33)
MORE_F32(eps_0, "llama.attention.layer_norm_rms_epsilon", 0.0f)
MORE_F32(eps_nan, "llama.attention.layer_norm_rms_epsilon", NAN)
MORE_F32(base_minus, "llama.rope.freq_base", -1.0f)
MORE_STR(ntk, "llama.rope.scaling.type", "ntk")
MORE_F32(factor_0, "llama.rope.scaling.factor", 0.0f)
MORE_U32(experts, "llama.expert_count", 8)
MORE_F32(logits, "llama.logit_scale", -0.5f)
MORE_F32(cap, "llama.attn_logit_softcapping", -1.0f)
MORE_U32(window, "llama.attention.sliding_window", 127)
MORE_U32(no_name, "general.name", 1)

#define L(text) "file: " text
#define KEY(k) "file: key 'llama." k "': "

static void test_refused_keys(void **arg)
{
    const struct fixture f = fixture_small();

    (void)arg;
    refuse(f, "general.architecture", NULL, ERR_FORMAT, L("key 'general.architecture' is missing"));
    refuse(f, "general.architecture", arch_bart, ERR_UNSUPPORTED,
           L("architecture 'bart?' is not supported (the 69 supported ones are in "
             "core/model/README.md)"));
    refuse(f, "general.architecture", arch_number, ERR_FORMAT,
           L("key 'general.architecture': has type u32, but string is expected"));
    refuse(f, "general.name", no_name, ERR_FORMAT,
           L("key 'general.name': has type u32, but string is expected"));
    refuse(f, "llama.block_count", NULL, ERR_FORMAT, L("key 'llama.block_count' is missing"));
    refuse(f, "llama.block_count", layers_0, ERR_FORMAT,
           KEY("block_count") "is 0, but only 1 to 1024 are supported");
    refuse(f, "llama.block_count", layers_1025, ERR_FORMAT,
           KEY("block_count") "is 1025, but only 1 to 1024 are supported");
    refuse(f, "llama.block_count", layers_text, ERR_FORMAT,
           KEY("block_count") "has type string, but an integer is expected");
    refuse(f, "llama.embedding_length", NULL, ERR_FORMAT,
           L("key 'llama.embedding_length' is missing"));
    refuse(f, "llama.embedding_length", embd_0, ERR_FORMAT,
           KEY("embedding_length") "is 0, but only 1 to 131072 are supported");
    refuse(f, "llama.feed_forward_length", NULL, ERR_FORMAT,
           L("key 'llama.feed_forward_length' is missing"));
    refuse(f, "llama.feed_forward_length", ff_big, ERR_FORMAT,
           KEY("feed_forward_length") "is 4000000000, but only 1 to 1048576 are supported");
    refuse(f, "llama.context_length", NULL, ERR_FORMAT, L("key 'llama.context_length' is missing"));
    refuse(f, "llama.context_length", ctx_0, ERR_FORMAT,
           KEY("context_length") "is 0, but only 1 to 4294967295 are supported");
    refuse(f, "llama.attention.layer_norm_rms_epsilon", NULL, ERR_FORMAT,
           L("key 'llama.attention.layer_norm_rms_epsilon' is missing"));
    refuse(f, "llama.attention.layer_norm_rms_epsilon", eps_0, ERR_FORMAT,
           KEY("attention.layer_norm_rms_epsilon") "is 0, but must be above 0");
    refuse(f, "llama.attention.layer_norm_rms_epsilon", eps_nan, ERR_FORMAT,
           KEY("attention.layer_norm_rms_epsilon") "nan is not a finite 32-bit number");
    refuse(f, NULL, experts, ERR_FORMAT, L("key 'llama.expert_used_count' is missing"));
    refuse(f, NULL, logits, ERR_FORMAT, KEY("logit_scale") "is -0.5, but must not be below 0");
    refuse(f, NULL, cap, ERR_FORMAT,
           KEY("attn_logit_softcapping") "is -1, but must not be below 0");
}

static void test_refused_heads_and_rope(void **arg)
{
    const struct fixture f = fixture_small();

    (void)arg;
    refuse(f, "llama.attention.head_count", NULL, ERR_FORMAT,
           L("key 'llama.attention.head_count' is missing"));
    refuse(f, "llama.attention.head_count", heads_0, ERR_FORMAT,
           KEY("attention.head_count") "is 0, but only 1 to 1024 are supported");
    refuse(f, "llama.attention.head_count_kv", kv_3, ERR_FORMAT,
           L("4 heads cannot share 3 KV heads equally"));
    refuse(f, "llama.attention.head_count_kv", kv_0, ERR_FORMAT,
           KEY("attention.head_count_kv") "is 0, but only 1 to 1024 are supported");
    refuse(f, "llama.attention.value_length", value_32, ERR_FORMAT,
           L("tensor 'blk.0.attn_v.weight': has dimensions 256 x 128 x 1 x 1, but 256 x 64 is "
             "expected"));
    refuse(f, "llama.attention.key_length", key_60, ERR_UNSUPPORTED,
           L("heads have keys of size 60, but only multiples of 8 up to 576 are supported"));
    refuse(f, "llama.rope.dimension_count", rot_65, ERR_FORMAT,
           KEY("rope.dimension_count") "is 65, but only 2 to 64 are supported");
    refuse(f, "llama.rope.dimension_count", rot_33, ERR_FORMAT,
           KEY("rope.dimension_count") "is 33, but must be even");
    refuse(f, "llama.rope.freq_base", base_minus, ERR_FORMAT,
           KEY("rope.freq_base") "is -1, but must be above 0");
    refuse(f, NULL, ntk, ERR_UNSUPPORTED,
           KEY("rope.scaling.type") "is 'ntk', but only none, linear, yarn and longrope are "
                                    "supported");
    refuse(f, NULL, factor_0, ERR_FORMAT, KEY("rope.scaling.factor") "is 0, but must be above 0");
}

static void test_head_dim_limits(void **arg)
{
    struct fixture f = fixture_small();

    (void)arg;
    f.head_dim = 60;
    refuse(f, NULL, NULL, ERR_UNSUPPORTED,
           L("heads have keys of size 60, but only multiples of 8 up to 576 are supported"));
    f.head_dim = 584;
    refuse(f, NULL, NULL, ERR_UNSUPPORTED,
           L("heads have keys of size 584, but only multiples of 8 up to 576 are supported"));
}

/* A window that the context stays within is none. */
static void test_windows(void **arg)
{
    struct model_options o = {.threads = 1};
    struct file file;
    struct model *m;

    (void)arg;
    build(&file, fixture_small(), window);
    for (o.n_ctx = 127; o.n_ctx <= 128; o.n_ctx++) {
        m = load(file.g, &o);
        assert_int_equal(m->layers[0].window, o.n_ctx == 127 ? 0 : 127);
        model_destroy(&m);
    }
    drop(&file);
}

static const float zeros[256 * 300];

#define NO_PART(name) L("tensor '" name "' is not supported for architecture llama")

/* Tensors that the model must not have, or not so, and what is said of them. */
static const struct odd_tensor {
    const char *name, *replaces;
    enum block_type type;
    uint64_t n_in, n_out;
    int rc;
    const char *sentence;
} odd_tensors[] = {
    {"blk.0.attn_q.weight", "blk.0.attn_q.weight", BLOCK_F32, 256, 255, ERR_FORMAT,
     L("tensor 'blk.0.attn_q.weight': has dimensions 256 x 255 x 1 x 1, but 256 x 256 is "
       "expected")},
    {"blk.1.ffn_norm.weight", "blk.1.ffn_norm.weight", BLOCK_F32, 256, 2, ERR_FORMAT,
     L("tensor 'blk.1.ffn_norm.weight': has dimensions 256 x 2 x 1 x 1, but 256 x 1 is expected")},
    {"output_norm.weight", "output_norm.weight", BLOCK_Q8_0, 256, 1, ERR_UNSUPPORTED,
     L("tensor 'output_norm.weight': has type Q8_0, but a vector must be F32, F16 or BF16")},
    {"blk.0.attn_norm.bias", NULL, BLOCK_F32, 256, 1, ERR_UNSUPPORTED,
     NO_PART("blk.0.attn_norm.bias")},
    {"blk.2.attn_q.weight", NULL, BLOCK_F32, 256, 256, ERR_UNSUPPORTED,
     NO_PART("blk.2.attn_q.weight")},
    {"blk.0.attn_q_norm.weight", NULL, BLOCK_F32, 64, 1, ERR_UNSUPPORTED,
     NO_PART("blk.0.attn_q_norm.weight")},
    {"rope_freqs.weight", NULL, BLOCK_F32, 32, 1, ERR_FORMAT,
     L("tensor 'rope_freqs.weight': contains 0, but its numbers must be above 0")},
    {"rope_freqs.weight", NULL, BLOCK_F32, 64, 1, ERR_FORMAT,
     L("tensor 'rope_freqs.weight': has dimensions 64 x 1 x 1 x 1, but 32 x 1 is expected")},
};

static const struct odd_tensor *odd; /* the one to be added */

static void add_odd(struct gguf_writer *w)
{
    const uint64_t dims[2] = {odd->n_in, odd->n_out};

    gguf_writer_tensor(w, odd->name, odd->type, 2, dims, zeros);
}

static void three_dims(struct gguf_writer *w)
{
    static const uint64_t dims[3] = {256, 128, 2};

    gguf_writer_tensor(w, "blk.0.attn_k.weight", BLOCK_F32, 3, dims, zeros);
}

static void few_tokens(struct gguf_writer *w)
{
    static const struct gguf_str words[3] = {{"a", 1}, {"b", 1}, {"c", 1}};

    gguf_writer_str_array(w, "tokenizer.ggml.tokens", words, 3);
}

static void test_refused_tensors(void **arg)
{
    struct fixture f = fixture_small();
    char sentence[256];

    (void)arg;
    static const char *const needed[] = {
        "token_embd.weight",        "output_norm.weight",    "blk.0.attn_norm.weight",
        "blk.0.attn_q.weight",      "blk.1.attn_k.weight",   "blk.0.attn_v.weight",
        "blk.1.attn_output.weight", "blk.0.ffn_norm.weight", "blk.1.ffn_gate.weight",
        "blk.1.ffn_up.weight",      "blk.1.ffn_down.weight"};
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        snprintf(sentence, sizeof(sentence), "file: tensor '%s' is missing", needed[i]);
        refuse(f, needed[i], NULL, ERR_FORMAT, sentence);
    }
    refuse(f, "blk.0.attn_k.weight", three_dims, ERR_FORMAT,
           L("tensor 'blk.0.attn_k.weight': has dimensions 256 x 128 x 2 x 1, but 256 x 128 is "
             "expected"));
    for (size_t i = 0; i < sizeof(odd_tensors) / sizeof(odd_tensors[0]); i++) {
        odd = &odd_tensors[i];
        refuse(f, odd->replaces, add_odd, odd->rc, odd->sentence);
    }
    refuse(f, "llama.block_count", layers_3, ERR_FORMAT,
           L("tensor 'blk.2.attn_norm.weight' is missing"));
    refuse(f, "llama.block_count", layers_1, ERR_UNSUPPORTED,
           L("tensor 'blk.1.attn_norm.weight' is not supported for architecture llama"));
    refuse(f, "llama.embedding_length", embd_128, ERR_FORMAT,
           L("tensor 'token_embd.weight': has dimensions 256 x 300 x 1 x 1, but 128 x 300 is "
             "expected"));
    refuse(f, "llama.attention.head_count", heads_8, ERR_FORMAT,
           L("tensor 'blk.0.attn_q.weight': has dimensions 256 x 256 x 1 x 1, but 256 x 512 is "
             "expected"));
    f.n_vocab = 200; /* without a tokenizer of its own */
    refuse(f, NULL, few_tokens, ERR_FORMAT,
           L("tensor 'token_embd.weight': has 200 rows, but the tokenizer has 3 tokens"));
}

static void test_refused_by_architecture(void **arg)
{
    struct fixture f = fixture_small();

    (void)arg;
    f.arch = "qwen2";
    refuse(f, "blk.1.attn_k.bias", NULL, ERR_FORMAT, L("tensor 'blk.1.attn_k.bias' is missing"));
    f.arch = "qwen3";
    refuse(f, "blk.0.attn_q_norm.weight", NULL, ERR_FORMAT,
           L("tensor 'blk.0.attn_q_norm.weight' is missing"));
}

/* One number or scale of a matrix made infinite, in the file's bytes. */
static void test_refused_infinities(void **arg)
{
    static const struct {
        enum block_type type;
        int at, n;
        uint8_t bytes[4];
    } cases[] = {
        {BLOCK_F32, 4, 4, {0, 0, 0x80, 0x7f}},
        {BLOCK_F16, 6, 2, {1, 0x7c}},
        {BLOCK_BF16, 6, 2, {0xc0, 0xff}},
        {BLOCK_Q8_0, 34, 2, {0, 0x7c}},
        {BLOCK_Q4_0, 18, 2, {0, 0xfc}},
        {BLOCK_Q5_0, 22, 2, {0, 0x7c}},
        {BLOCK_Q4_K, 0, 2, {0, 0x7c}},
        {BLOCK_Q4_K, 2, 2, {0, 0x7e}},
        {BLOCK_Q6_K, 208, 2, {0, 0x7c}},
        {BLOCK_Q4_1, 2, 2, {0, 0x7c}},
        {BLOCK_Q5_1, 0, 2, {0, 0x7c}},
        {BLOCK_Q2_K, 82, 2, {0, 0x7c}},
        {BLOCK_Q3_K, 108, 2, {0, 0x7e}},
        {BLOCK_Q5_K, 0, 2, {0, 0x7c}},
        {BLOCK_IQ4_NL, 18, 2, {0, 0x7c}},
        {BLOCK_IQ4_XS, 0, 2, {1, 0xfc}},
        {BLOCK_MXFP4, 17, 1, {255}},
        {BLOCK_MXFP4, 0, 1, {253}},
        {BLOCK_TQ2_0, 64, 2, {0, 0x7c}},
        {BLOCK_TQ1_0, 52, 2, {0, 0x7e}},
        {BLOCK_IQ3_S, 0, 2, {0, 0x7c}},
        {BLOCK_IQ3_XXS, 0, 2, {0, 0xfc}},
        {BLOCK_IQ2_S, 0, 2, {0, 0x7c}},
        {BLOCK_IQ2_XS, 0, 2, {0, 0x7c}},
        {BLOCK_IQ2_XXS, 0, 2, {0, 0x7e}},
        {BLOCK_IQ1_S, 0, 2, {0, 0x7c}},
        {BLOCK_IQ1_M, 52, 4, {0, 0xc0, 0, 0x70}},
        {BLOCK_IQ2_K, 0, 2, {0, 0x7c}},
        {BLOCK_IQ3_K, 0, 2, {0, 0xfc}},
        {BLOCK_IQ4_K, 0, 2, {0, 0x7e}},
        {BLOCK_IQ5_K, 0, 2, {0, 0x7c}},
        {BLOCK_IQ6_K, 0, 2, {0, 0x7c}},
        {BLOCK_IQ4_KS, 0, 4, {0, 0, 0x80, 0x7f}},
        {BLOCK_IQ4_KS, 0, 4, {1, 0, 0xc0, 0xff}},
        {BLOCK_IQ5_KS, 0, 4, {1, 0, 0x80, 0x78}}, /* more than 2^114: times 127 x 127 */
    };

    (void)arg;
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct fixture f = fixture_small();
        const struct gguf_tensor *t;
        struct file file;
        struct model *m;

        f.type = cases[c].type;
        build(&file, f, NULL);
        t = gguf_tensor_find(file.g, "blk.1.ffn_up.weight");
        memcpy((uint8_t *)t->data + t->bytes - t->bytes / t->dims[1] + cases[c].at, cases[c].bytes,
               (size_t)cases[c].n);
        assert_int_equal(model_load(&m, file.g, &plain, err, sizeof(err)), ERR_FORMAT);
        assert_string_equal(
            err, "file: tensor 'blk.1.ffn_up.weight': contains a number that is not finite");
        assert_null(m);
        drop(&file);
    }
    struct file file;
    struct model *m;
    const float inf = INFINITY;

    build(&file, fixture_small(), NULL);
    memcpy((uint8_t *)gguf_tensor_find(file.g, "output_norm.weight")->data + 8, &inf, 4);
    assert_int_equal(model_load(&m, file.g, &plain, err, sizeof(err)), ERR_FORMAT);
    assert_string_equal(err,
                        "file: tensor 'output_norm.weight': contains a number that is not finite");
    drop(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_keys),       cmocka_unit_test(test_refused_heads_and_rope),
        cmocka_unit_test(test_head_dim_limits),    cmocka_unit_test(test_windows),
        cmocka_unit_test(test_refused_tensors),    cmocka_unit_test(test_refused_by_architecture),
        cmocka_unit_test(test_refused_infinities),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
