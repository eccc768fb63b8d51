/* tests/unit/model/test_model.c - loading: shapes, and every weight as the file has it. */
#include "tests/fixtures/failing_memory.h"
#include "tests/fixtures/files.h"
#include "tests/unit/model/model_file.h"

#include "core/base/log.h"

#include <stdlib.h>
#include <unistd.h>

static const char *const arches[] = {"llama", "qwen2", "qwen3"};

static void test_shapes(void **arg)
{
    (void)arg;
    for (int a = 0; a < 3; a++)
        for (int tied = 0; tied < 2; tied++) {
            struct fixture f = fixture_small();
            struct file file;
            struct model *m;

            f.arch = arches[a];
            f.tied = tied;
            build(&file, f, NULL);
            m = load(file.g, &plain);
            assert_string_equal(m->arch, f.arch);
            assert_string_equal(m->name, "fixture");
            assert_string_equal(m->ftype, "F32");
            assert_int_equal(m->shape.n_vocab, 300);
            assert_int_equal(m->shape.n_embd, 256);
            assert_int_equal(m->shape.n_layer, 2);
            assert_int_equal(m->shape.n_ff, 512);
            assert_int_equal(m->shape.n_head, 4);
            assert_int_equal(m->shape.n_kv_head, 2);
            assert_int_equal(m->shape.key_dim, 64);
            assert_int_equal(m->shape.n_rot, 64);
            assert_int_equal(m->shape.n_ctx_train, 128);
            assert_int_equal(m->shape.n_ctx, 128);
            assert_true(m->shape.norm_eps == 1e-5f);
            assert_int_equal(m->shape.rope_neox, a > 0);
            assert_int_equal(m->file_bytes, file.bytes);
            assert_int_equal(m->output.data == m->embed.data, tied);
            for (int i = 0; i < 2; i++) {
                const struct model_layer *l = &m->layers[i];

                assert_int_equal(l->q_bias != NULL, a == 1);
                assert_int_equal(l->k_bias != NULL, a == 1);
                assert_int_equal(l->v_bias != NULL, a == 1);
                assert_int_equal(l->q_norm.weight != NULL, a == 2);
                assert_int_equal(l->k_norm.weight != NULL, a == 2);
                assert_int_equal(l->k.n_out, 128);
                assert_int_equal(l->k.n_in, 256);
                assert_int_equal(l->k.n_panels, 8);
                assert_int_equal(l->ffn.down.n_out, 256);
                assert_int_equal(l->ffn.down.n_in, 512);
                assert_int_equal((uintptr_t)l->ffn.down.data % 64, 0);
            }
            model_destroy(&m);
            assert_null(m);
            drop(&file);
        }
}

static void test_llama_may_have_biases(void **arg)
{
    struct fixture f = fixture_small();
    struct file file;
    struct model *m;

    (void)arg;
    f.q_bias = true;
    build(&file, f, NULL);
    m = load(file.g, &plain);
    assert_memory_equal(m->layers[1].v_bias, gguf_tensor_find(file.g, "blk.1.attn_v.bias")->data,
                        128 * 4);
    model_destroy(&m);
    drop(&file);
}

/* Weights. */

static void check_matrix(const struct gguf *g, const char *name, const struct matrix *m)
{
    const struct gguf_tensor *t = gguf_tensor_find(g, name);
    float want[512], got[512];

    assert_non_null(t);
    assert_int_equal(m->n_in, t->dims[0]);
    assert_int_equal(m->n_out, t->dims[1]);
    for (uint32_t r = 0; r < m->n_panels * 16; r++) {
        const uint8_t *panel = m->data + r / 16 * m->panel_bytes;

        memset(want, 0, sizeof(want));
        if (r < m->n_out)
            block_decode(t->type, (const uint8_t *)t->data + r * (t->bytes / t->dims[1]), want,
                         m->n_in);
        kern_unpack_row(m->type, panel, r % 16, got, m->n_in);
        for (uint32_t i = 0; i < m->n_in; i++)
            if (got[i] != want[i])
                fail_msg("%s row %u number %u: %g is packed as %g", name, r, i, (double)want[i],
                         (double)got[i]);
    }
}

static void check_weights(const struct gguf *g, const struct model *m, bool tied)
{
    static const struct {
        const char *name;
        size_t offset;
    } rows[] = {{"attn_q", offsetof(struct model_layer, q)},
                {"attn_k", offsetof(struct model_layer, k)},
                {"attn_v", offsetof(struct model_layer, v)},
                {"attn_output", offsetof(struct model_layer, attn_out)},
                {"ffn_gate", offsetof(struct model_layer, ffn.gate)},
                {"ffn_up", offsetof(struct model_layer, ffn.up)},
                {"ffn_down", offsetof(struct model_layer, ffn.down)}};
    char name[64];

    check_matrix(g, "token_embd.weight", &m->embed);
    check_matrix(g, tied ? "token_embd.weight" : "output.weight", &m->output);
    for (uint32_t i = 0; i < m->shape.n_layer; i++) {
        for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
            snprintf(name, sizeof(name), "blk.%u.%s.weight", i, rows[k].name);
            check_matrix(g, name, (const void *)((const char *)&m->layers[i] + rows[k].offset));
        }
        snprintf(name, sizeof(name), "blk.%u.attn_norm.weight", i);
        assert_memory_equal(m->layers[i].attn_norm.weight, gguf_tensor_find(g, name)->data,
                            256 * 4);
        snprintf(name, sizeof(name), "blk.%u.ffn_norm.weight", i);
        assert_memory_equal(m->layers[i].ffn_norm.weight, gguf_tensor_find(g, name)->data, 256 * 4);
    }
    assert_memory_equal(m->output_norm.weight, gguf_tensor_find(g, "output_norm.weight")->data,
                        256 * 4);
}

static const struct {
    enum block_type type;
    enum kern_weight packed;
} types[] = {
    {BLOCK_F32, KERN_F32},       {BLOCK_F16, KERN_F16},         {BLOCK_BF16, KERN_BF16},
    {BLOCK_Q8_0, KERN_Q8_0},     {BLOCK_Q4_0, KERN_Q4_0},       {BLOCK_Q4_K, KERN_Q4_K},
    {BLOCK_Q6_K, KERN_Q6_K},     {BLOCK_Q5_0, KERN_Q5_0},       {BLOCK_Q4_1, KERN_Q4_1},
    {BLOCK_Q5_1, KERN_Q5_1},     {BLOCK_Q5_K, KERN_Q5_K},       {BLOCK_Q2_K, KERN_Q2_K},
    {BLOCK_Q3_K, KERN_Q3_K},     {BLOCK_IQ4_NL, KERN_IQ4_NL},   {BLOCK_IQ4_XS, KERN_IQ4_XS},
    {BLOCK_MXFP4, KERN_MXFP4},   {BLOCK_TQ2_0, KERN_TQ2_0},     {BLOCK_TQ1_0, KERN_TQ1_0},
    {BLOCK_IQ3_S, KERN_IQ3_S},   {BLOCK_IQ3_XXS, KERN_IQ3_XXS}, {BLOCK_IQ2_S, KERN_IQ2_S},
    {BLOCK_IQ2_XS, KERN_IQ2_XS}, {BLOCK_IQ2_XXS, KERN_IQ2_XXS}, {BLOCK_IQ1_S, KERN_IQ1_S},
    {BLOCK_IQ1_M, KERN_IQ1_M},   {BLOCK_NVFP4, KERN_NVFP4},     {BLOCK_Q1_0, KERN_Q1_0},
    {BLOCK_Q2_0, KERN_Q2_0},     {BLOCK_IQ2_K, KERN_IQ2_K},     {BLOCK_IQ3_K, KERN_IQ3_K},
    {BLOCK_IQ4_K, KERN_IQ4_K},   {BLOCK_IQ5_K, KERN_IQ5_K},     {BLOCK_IQ6_K, KERN_IQ6_K},
    {BLOCK_IQ4_KS, KERN_IQ4_KS}, {BLOCK_IQ5_KS, KERN_IQ5_KS},
};
#define N_TYPES (sizeof(types) / sizeof(types[0]))

/* The log goes into a pipe, so that warnings can be read. */
static int log_begin(void)
{
    int p[2];

    assert_int_equal(pipe(p), 0);
    log_setup(LOG_WARN, false, p[1]);
    return p[0] | p[1] << 16;
}

static void log_end(int ends, char *text, size_t size)
{
    ssize_t n;

    log_setup(LOG_WARN, false, STDERR_FILENO);
    close(ends >> 16);
    n = read(ends & 0xffff, text, size - 1);
    text[n > 0 ? n : 0] = '\0';
    close(ends & 0xffff);
}

static void test_weights_of_every_type(void **arg)
{
    (void)arg;
    for (size_t t = 0; t < N_TYPES; t++) {
        struct fixture f = fixture_small();
        struct file file;
        struct model *m;

        f.type = types[t].type;
        f.tied = t % 2;
        build(&file, f, NULL);
        m = load(file.g, &plain);
        assert_int_equal(m->embed.type, types[t].packed);
        assert_int_equal(m->layers[1].ffn.gate.type, types[t].packed);
        assert_string_equal(m->ftype, block_format(types[t].type)->name);
        check_weights(file.g, m, f.tied);
        model_destroy(&m);
        drop(&file);
    }
}

/* kernels.h says why a few panels are larger than their rows. */
static uint64_t most_percent(enum block_type type)
{
    switch (type) {
    case BLOCK_TQ1_0:
    case BLOCK_IQ3_S:
    case BLOCK_IQ2_S:
        return 130;
    case BLOCK_IQ3_XXS:
    case BLOCK_IQ2_XS:
    case BLOCK_IQ1_S:
    case BLOCK_IQ1_M:
        return 147;
    case BLOCK_IQ2_XXS:
        return 155;
    case BLOCK_IQ2_K:
        return 108;
    default:
        return 105;
    }
}

/* Each matrix of a type of its own, as quantisers mix them. */
static void test_all_types_in_one_file(void **arg)
{
    struct fixture f = fixture_small();
    struct file file;
    struct model *m;

    (void)arg;
    f.n_layer = 5; /* 35 matrices */
    f.n_mix = N_TYPES;
    for (size_t t = 0; t < N_TYPES; t++)
        f.mix[t] = types[t].type;
    build(&file, f, NULL);
    m = load(file.g, &plain);
    assert_int_equal(m->layers[0].q.type, types[0].packed);
    assert_int_equal(m->layers[1].q.type, types[7].packed);
    assert_int_equal(m->layers[3].q.type, types[21].packed);
    check_weights(file.g, m, false);
    model_destroy(&m);
    drop(&file);
}

static void test_packed_bytes_stay_close(void **arg)
{
    struct fixture f = fixture_small();

    (void)arg;
    f.n_vocab = 304; /* whole panels */
    for (size_t t = 0; t < N_TYPES; t++) {
        struct file file;
        struct model *m;

        f.type = types[t].type;
        build(&file, f, NULL);
        m = load(file.g, &plain);
        assert_in_range(m->weight_bytes, 1, m->file_bytes * most_percent(types[t].type) / 100);
        assert_in_range(m->weight_bytes, m->file_bytes * 90 / 100, UINT64_MAX);
        model_destroy(&m);
        drop(&file);
    }
}

struct progress {
    uint64_t done, total;
    int n;
};

static void on_progress(void *ud, uint64_t done, uint64_t total)
{
    struct progress *p = ud;

    assert_in_range(done, p->done, total);
    assert_true(p->n == 0 || p->total == total);
    p->done = done;
    p->total = total;
    p->n++;
}

static void test_threads_agree(void **arg)
{
    struct fixture f = fixture_small();
    struct file file;

    (void)arg;
    f.n_vocab = 9000; /* several chunks */
    for (size_t t = 0; t < N_TYPES; t++) {
        struct progress p1 = {0}, p2 = {0};
        struct model_options one = {.threads = 1, .progress = on_progress, .progress_ud = &p1};
        struct model_options two = {.threads = 2, .progress = on_progress, .progress_ud = &p2};
        struct model *a, *b;

        f.type = types[t].type;
        build(&file, f, NULL);
        log_setup(LOG_OFF, false, STDERR_FILENO);
        a = load(file.g, &one);
        b = load(file.g, &two);
        log_setup(LOG_WARN, false, STDERR_FILENO);
        assert_int_equal(a->weight_bytes, b->weight_bytes);
        /* The embedding's panels begin the mapping of all panels; vectors follow elsewhere. */
        assert_memory_equal(a->embed.data, b->embed.data, a->embed.n_panels * a->embed.panel_bytes);
        assert_memory_equal(a->output.data, b->output.data,
                            a->output.n_panels * a->output.panel_bytes);
        assert_memory_equal(a->layers[1].ffn.down.data, b->layers[1].ffn.down.data,
                            a->layers[1].ffn.down.n_panels * a->layers[1].ffn.down.panel_bytes);
        assert_true(p1.n > 2 && p2.n >= 1);
        assert_int_equal(p1.done, p1.total);
        assert_int_equal(p2.done, p2.total);
        assert_int_equal(p1.total, p2.total);
        model_destroy(&a);
        model_destroy(&b);
        drop(&file);
    }
}

/* Rope. */

static void check_rope(const struct model *m, double base, double factor, const float *divisors)
{
    const uint32_t n = m->shape.n_rot / 2;

    for (uint32_t p = 0; p < m->shape.n_ctx; p++)
        for (uint32_t j = 0; j < n; j++) {
            const long double d = divisors != NULL ? (long double)divisors[j] : 1.0L;
            const long double w =
                expl(-logl((long double)base) * 2 * j / m->shape.n_rot) / (d * (long double)factor);

            if (fabsl(cosl(p * w) - (long double)m->ropes[0].cos[p * n + j]) > 1e-7L ||
                fabsl(sinl(p * w) - (long double)m->ropes[0].sin[p * n + j]) > 1e-7L)
                fail_msg("position %u pair %u", p, j);
        }
}

static void add_linear(struct gguf_writer *w)
{
    gguf_writer_str(w, "llama.rope.scaling.type", "linear");
    gguf_writer_f32(w, "llama.rope.scaling.factor", 4.0f);
}

static void add_old_linear(struct gguf_writer *w)
{
    gguf_writer_f32(w, "llama.rope.scale_linear", 2.0f);
}

static void add_none(struct gguf_writer *w)
{
    gguf_writer_str(w, "llama.rope.scaling.type", "none");
    gguf_writer_f32(w, "llama.rope.scaling.factor", 4.0f);
}

static float divisors[32];

static void add_divisors(struct gguf_writer *w)
{
    const uint64_t n = 32;

    for (int i = 0; i < 32; i++)
        divisors[i] = i < 15 ? 1.0f : i < 18 ? (float)i - 12.5f : 32.0f;
    gguf_writer_tensor(w, "rope_freqs.weight", BLOCK_F32, 1, &n, divisors);
}

static void add_base(struct gguf_writer *w)
{
    gguf_writer_f32(w, "llama.rope.freq_base", 500000.0f);
}

static void rope_case(const char *skip, more_fn *more, double base, double factor, const float *div)
{
    struct fixture f = fixture_small();
    struct file file;
    struct model *m;

    f.skip = skip;
    build(&file, f, more);
    m = load(file.g, &plain);
    check_rope(m, base, factor, div);
    model_destroy(&m);
    drop(&file);
}

static void test_rope(void **arg)
{
    (void)arg;
    rope_case(NULL, NULL, 10000, 1, NULL);
    rope_case("llama.rope.freq_base", NULL, 10000, 1, NULL);
    rope_case("llama.rope.freq_base", add_base, 500000, 1, NULL);
    rope_case(NULL, add_linear, 10000, 4, NULL);
    rope_case(NULL, add_old_linear, 10000, 2, NULL);
    rope_case(NULL, add_none, 10000, 1, NULL);
    rope_case(NULL, add_divisors, 10000, 1, divisors);
}

/* Defaults and options. */

static void add_rot_32(struct gguf_writer *w)
{
    gguf_writer_u32(w, "llama.rope.dimension_count", 32);
}

static void test_defaults(void **arg)
{
    struct fixture f = fixture_small();
    struct file file;
    struct model *m;

    (void)arg;
    f.skip = "llama.attention.head_count_kv";
    f.n_kv_head = 4;
    build(&file, f, NULL);
    m = load(file.g, &plain);
    assert_int_equal(m->shape.n_kv_head, 4);
    model_destroy(&m);
    drop(&file);

    f = fixture_small();
    f.skip = "llama.rope.dimension_count";
    build(&file, f, NULL);
    m = load(file.g, &plain);
    assert_int_equal(m->shape.n_rot, 64);
    model_destroy(&m);
    drop(&file);

    build(&file, f, add_rot_32);
    m = load(file.g, &plain);
    assert_int_equal(m->shape.n_rot, 32);
    check_rope(m, 10000, 1, NULL);
    model_destroy(&m);
    drop(&file);

    f.skip = "llama.attention.value_length"; /* then as long as the keys */
    build(&file, f, NULL);
    m = load(file.g, &plain);
    assert_int_equal(m->shape.key_dim, 64);
    model_destroy(&m);
    drop(&file);
}

static void test_context(void **arg)
{
    static const struct {
        uint32_t wanted, served;
        bool warns;
    } cases[] = {{0, 128, false}, {40, 40, false}, {128, 128, false}, {129, 128, true}};
    struct file file;

    (void)arg;
    build(&file, fixture_small(), NULL);
    for (int i = 0; i < 4; i++) {
        struct model_options o = {.n_ctx = cases[i].wanted, .threads = 1};
        char text[256];
        const int ends = log_begin();
        struct model *m = load(file.g, &o);

        log_end(ends, text, sizeof(text));
        assert_int_equal(m->shape.n_ctx, cases[i].served);
        assert_int_equal(m->shape.n_ctx_train, 128);
        assert_int_equal(strstr(text, "event=context-cut wanted=129 served=128") != NULL,
                         cases[i].warns);
        model_destroy(&m);
    }
    drop(&file);
}

static void test_name_from_path(void **arg)
{
    struct fixture f = fixture_small();
    struct file file;
    struct gguf *g;
    struct model *m;

    (void)arg;
    f.skip = "general.name";
    build(&file, f, NULL);
    assert_int_equal(gguf_open_memory(&g, "/models/tiny-\x01.Q8_0.gguf", file.data, file.bytes, err,
                                      sizeof(err)),
                     0);
    m = load(g, &plain);
    assert_string_equal(m->name, "tiny-?.Q8_0");
    model_destroy(&m);
    gguf_close(&g);
    drop(&file);
}

static void test_out_of_memory(void **arg)
{
    struct fixture f = fixture_small();
    struct model_options o = {.threads = 2};
    struct file file;
    struct model *m;
    int64_t n = 0;

    (void)arg;
    f.arch = "qwen2";
    f.type = BLOCK_Q5_0;
    build(&file, f, NULL);
    while (each_failure(&n)) {
        const int rc = model_load(&m, file.g, &o, err, sizeof(err));

        assert_int_equal(rc, mem_has_failed() ? ERR_NOMEM : 0);
        if (rc < 0) {
            assert_null(m);
            assert_non_null(strstr(err, "memory"));
        }
    }
    assert_true(n > 10);
    check_weights(file.g, m, false);
    model_destroy(&m);
    model_destroy(&m);
    model_destroy(NULL);
    drop(&file);
}

/* Real files, whose tensors have other shapes than ours. */
static void test_real_files(void **arg)
{
    static const struct {
        const char *file, *ftype;
    } files[] = {{"stories260K.f16", "F16"},
                 {"stories260K-x256-llama.F16", "F16"},
                 {"stories260K-x256-llama.BF16", "BF16"},
                 {"stories260K-x256-llama.Q8_0", "Q8_0"},
                 {"stories260K-x256-llama.Q4_0", "Q4_0"},
                 {"stories260K-x256-llama.Q6_K", "Q6_K"},
                 {"stories260K-x256-llama.Q4_K_M", "Q4_K"}};
    char path[512];
    struct gguf *g;

    (void)arg;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct model *m;

        data_file(path, sizeof(path), "weights/%s.gguf", files[i].file);
        if (gguf_open(&g, path, err, sizeof(err)) < 0)
            fail_msg("%s", err);
        m = load(g, &(struct model_options){.threads = 2});
        assert_string_equal(m->ftype, files[i].ftype);
        assert_int_equal(m->shape.n_vocab, 512);
        assert_int_equal(m->shape.n_layer, 5);
        check_matrix(g, "token_embd.weight", &m->embed);
        check_matrix(g, "blk.4.ffn_down.weight", &m->layers[4].ffn.down);
        check_matrix(g, "blk.2.attn_v.weight", &m->layers[2].v);
        model_destroy(&m);
        gguf_close(&g);
    }
    data_file(path, sizeof(path), "vocabs/ggml-vocab-qwen2.gguf");
    if (gguf_open(&g, path, err, sizeof(err)) < 0)
        fail_msg("%s", err);
    struct model *m;
    assert_int_equal(model_load(&m, g, &plain, err, sizeof(err)), ERR_FORMAT);
    assert_non_null(strstr(err, ": tensor 'token_embd.weight' is missing"));
    gguf_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_llama_may_have_biases),
        cmocka_unit_test(test_weights_of_every_type),
        cmocka_unit_test(test_all_types_in_one_file),
        cmocka_unit_test(test_packed_bytes_stay_close),
        cmocka_unit_test(test_threads_agree),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_context),
        cmocka_unit_test(test_name_from_path),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_real_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
