/* tests/unit/test_model.c - loading: shapes, refusals, and every weight as the file has it. */
#include "core/model/model.h"

#include "core/base/err.h"
#include "core/base/log.h"
#include "core/gguf/gguf.h"
#include "tests/tools/fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

typedef void more_fn(struct gguf_writer *w);

static char err[512];
static const struct model_options plain = {.threads = 1};

/* A fixture in memory. */
struct file {
    uint8_t *data;
    size_t bytes;
    struct gguf *g;
};

static void build(struct file *file, struct fixture f, more_fn *more)
{
    struct gguf_writer *w;

    assert_int_equal(gguf_writer_create(&w), 0);
    assert_int_equal(fixture_add(&f, w), 0);
    if (more != NULL)
        more(w);
    assert_int_equal(gguf_writer_finish(w, &file->data, &file->bytes), 0);
    gguf_writer_destroy(&w);
    fixture_release(&f);
    if (gguf_open_memory(&file->g, "file", file->data, file->bytes, err, sizeof(err)) < 0)
        fail_msg("%s", err);
}

static void drop(struct file *file)
{
    gguf_close(&file->g);
    mem_free(file->data);
}

static struct model *load(const struct gguf *g, const struct model_options *o)
{
    struct model *m;

    if (model_load(&m, g, o, err, sizeof(err)) < 0)
        fail_msg("%s", err);
    return m;
}

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
            assert_int_equal(m->shape.head_dim, 64);
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
                assert_int_equal(l->q_norm != NULL, a == 2);
                assert_int_equal(l->k_norm != NULL, a == 2);
                assert_int_equal(l->k.n_out, 128);
                assert_int_equal(l->k.n_in, 256);
                assert_int_equal(l->k.n_panels, 8);
                assert_int_equal(l->down.n_out, 256);
                assert_int_equal(l->down.n_in, 512);
                assert_int_equal((uintptr_t)l->down.data % 64, 0);
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
                {"ffn_gate", offsetof(struct model_layer, gate)},
                {"ffn_up", offsetof(struct model_layer, up)},
                {"ffn_down", offsetof(struct model_layer, down)}};
    char name[64];

    check_matrix(g, "token_embd.weight", &m->embed);
    check_matrix(g, tied ? "token_embd.weight" : "output.weight", &m->output);
    for (uint32_t i = 0; i < m->shape.n_layer; i++) {
        for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
            snprintf(name, sizeof(name), "blk.%u.%s.weight", i, rows[k].name);
            check_matrix(g, name, (const void *)((const char *)&m->layers[i] + rows[k].offset));
        }
        snprintf(name, sizeof(name), "blk.%u.attn_norm.weight", i);
        assert_memory_equal(m->layers[i].attn_norm, gguf_tensor_find(g, name)->data, 256 * 4);
        snprintf(name, sizeof(name), "blk.%u.ffn_norm.weight", i);
        assert_memory_equal(m->layers[i].ffn_norm, gguf_tensor_find(g, name)->data, 256 * 4);
    }
    assert_memory_equal(m->output_norm, gguf_tensor_find(g, "output_norm.weight")->data, 256 * 4);
}

static const struct {
    enum block_type type;
    enum kern_weight packed;
    bool expands;
} types[] = {
    {BLOCK_F32, KERN_F32, false},   {BLOCK_F16, KERN_F16, false},   {BLOCK_BF16, KERN_BF16, false},
    {BLOCK_Q8_0, KERN_Q8_0, false}, {BLOCK_Q4_0, KERN_Q4_0, false}, {BLOCK_Q4_K, KERN_Q4_K, false},
    {BLOCK_Q6_K, KERN_Q6_K, false}, {BLOCK_Q5_0, KERN_Q8_0, false}, {BLOCK_Q4_1, KERN_F32, true},
    {BLOCK_Q5_1, KERN_F32, true},   {BLOCK_Q5_K, KERN_F32, true},   {BLOCK_Q2_K, KERN_F32, true},
    {BLOCK_Q3_K, KERN_F32, true},
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
        char text[1024];
        struct file file;
        struct model *m;
        int ends;

        f.type = types[t].type;
        f.tied = t % 2;
        build(&file, f, NULL);
        ends = log_begin();
        m = load(file.g, &plain);
        log_end(ends, text, sizeof(text));
        assert_int_equal(m->embed.type, types[t].packed);
        assert_int_equal(m->layers[1].gate.type, types[t].packed);
        assert_string_equal(m->ftype, block_format(types[t].type)->name);
        check_weights(file.g, m, f.tied);
        assert_int_equal(strstr(text, "event=expanded-to-f32") != NULL, types[t].expands);
        if (types[t].expands)
            assert_non_null(strstr(text, f.tied ? "tensors=15" : "tensors=16"));
        model_destroy(&m);
        drop(&file);
    }
}

static void test_packed_bytes_stay_close(void **arg)
{
    struct fixture f = fixture_small();

    (void)arg;
    f.n_vocab = 304; /* whole panels */
    for (size_t t = 0; t < 7; t++) {
        struct file file;
        struct model *m;

        f.type = types[t].type;
        build(&file, f, NULL);
        m = load(file.g, &plain);
        assert_in_range(m->weight_bytes, 1, m->file_bytes * 105 / 100);
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
        assert_memory_equal(a->layers[1].down.data, b->layers[1].down.data,
                            a->layers[1].down.n_panels * a->layers[1].down.panel_bytes);
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

            if (fabsl(cosl(p * w) - (long double)m->rope_cos[p * n + j]) > 1e-7L ||
                fabsl(sinl(p * w) - (long double)m->rope_sin[p * n + j]) > 1e-7L)
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
    assert_int_equal(m->shape.head_dim, 64);
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

MORE_STR(arch_bert, "general.architecture", "bert\n")
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
MORE_STR(yarn, "llama.rope.scaling.type", "yarn")
MORE_F32(factor_0, "llama.rope.scaling.factor", 0.0f)
MORE_U32(experts, "llama.expert_count", 8)
MORE_F32(logits, "llama.logit_scale", 0.5f)
MORE_U32(split, "split.count", 3)
MORE_U32(window, "llama.attention.sliding_window", 127)
MORE_U32(no_name, "general.name", 1)

#define L(text) "file: " text
#define KEY(k) "file: key 'llama." k "': "

static void test_refused_keys(void **arg)
{
    const struct fixture f = fixture_small();

    (void)arg;
    refuse(f, "general.architecture", NULL, ERR_FORMAT, L("key 'general.architecture' is missing"));
    refuse(f, "general.architecture", arch_bert, ERR_UNSUPPORTED,
           L("architecture 'bert?' is not supported (these are: llama, qwen2, qwen3)"));
    refuse(f, "general.architecture", arch_number, ERR_FORMAT,
           L("key 'general.architecture': has type u32, but string is wanted"));
    refuse(f, "general.name", no_name, ERR_FORMAT,
           L("key 'general.name': has type u32, but string is wanted"));
    refuse(f, "llama.block_count", NULL, ERR_FORMAT, L("key 'llama.block_count' is missing"));
    refuse(f, "llama.block_count", layers_0, ERR_FORMAT,
           KEY("block_count") "is 0, but 1 to 1024 is supported");
    refuse(f, "llama.block_count", layers_1025, ERR_FORMAT,
           KEY("block_count") "is 1025, but 1 to 1024 is supported");
    refuse(f, "llama.block_count", layers_text, ERR_FORMAT,
           KEY("block_count") "has type string, but an integer is wanted");
    refuse(f, "llama.embedding_length", NULL, ERR_FORMAT,
           L("key 'llama.embedding_length' is missing"));
    refuse(f, "llama.embedding_length", embd_0, ERR_FORMAT,
           KEY("embedding_length") "is 0, but 1 to 131072 is supported");
    refuse(f, "llama.feed_forward_length", NULL, ERR_FORMAT,
           L("key 'llama.feed_forward_length' is missing"));
    refuse(f, "llama.feed_forward_length", ff_big, ERR_FORMAT,
           KEY("feed_forward_length") "is 4000000000, but 1 to 1048576 is supported");
    refuse(f, "llama.context_length", NULL, ERR_FORMAT, L("key 'llama.context_length' is missing"));
    refuse(f, "llama.context_length", ctx_0, ERR_FORMAT,
           KEY("context_length") "is 0, but 1 to 4294967295 is supported");
    refuse(f, "llama.attention.layer_norm_rms_epsilon", NULL, ERR_FORMAT,
           L("key 'llama.attention.layer_norm_rms_epsilon' is missing"));
    refuse(f, "llama.attention.layer_norm_rms_epsilon", eps_0, ERR_FORMAT,
           KEY("attention.layer_norm_rms_epsilon") "is 0, but must be above 0");
    refuse(f, "llama.attention.layer_norm_rms_epsilon", eps_nan, ERR_FORMAT,
           KEY("attention.layer_norm_rms_epsilon") "nan is no finite 32-bit number");
    refuse(f, NULL, experts, ERR_UNSUPPORTED,
           KEY("expert_count") "is 8, but mixtures of experts are not supported");
    refuse(f, NULL, logits, ERR_UNSUPPORTED,
           KEY("logit_scale") "is 0.5, but scaled logits are not supported");
    refuse(f, NULL, split, ERR_UNSUPPORTED,
           L("is one of 3 parts of a split model, which is not supported: merge them"));
}

static void test_refused_heads_and_rope(void **arg)
{
    const struct fixture f = fixture_small();

    (void)arg;
    refuse(f, "llama.attention.head_count", NULL, ERR_FORMAT,
           L("key 'llama.attention.head_count' is missing"));
    refuse(f, "llama.attention.head_count", heads_0, ERR_FORMAT,
           KEY("attention.head_count") "is 0, but 1 to 1024 is supported");
    refuse(f, "llama.attention.head_count_kv", kv_3, ERR_FORMAT,
           L("4 heads cannot share 3 KV heads equally"));
    refuse(f, "llama.attention.head_count_kv", kv_0, ERR_FORMAT,
           KEY("attention.head_count_kv") "is 0, but 1 to 1024 is supported");
    refuse(f, "llama.attention.value_length", value_32, ERR_UNSUPPORTED,
           L("heads have keys of 64 and values of 32 numbers, but only equal lengths are "
             "supported"));
    refuse(f, "llama.attention.key_length", key_60, ERR_UNSUPPORTED,
           L("heads have keys of 60 and values of 64 numbers, but only equal lengths are "
             "supported"));
    refuse(f, "llama.rope.dimension_count", rot_65, ERR_FORMAT,
           KEY("rope.dimension_count") "is 65, but 2 to 64 is supported");
    refuse(f, "llama.rope.dimension_count", rot_33, ERR_FORMAT,
           KEY("rope.dimension_count") "is 33, but must be even");
    refuse(f, "llama.rope.freq_base", base_minus, ERR_FORMAT,
           KEY("rope.freq_base") "is -1, but must be above 0");
    refuse(f, NULL, yarn, ERR_UNSUPPORTED,
           KEY("rope.scaling.type") "is 'yarn', but only none and linear are supported");
    refuse(f, NULL, factor_0, ERR_FORMAT, KEY("rope.scaling.factor") "is 0, but must be above 0");
    refuse(f, NULL, window, ERR_UNSUPPORTED,
           KEY("attention.sliding_window") "is 127, and a context of 128 reaches beyond it, which "
                                           "is not supported: ask for a context of at most 127");
}

static void test_head_dim_limits(void **arg)
{
    struct fixture f = fixture_small();

    (void)arg;
    f.head_dim = 60;
    refuse(f, NULL, NULL, ERR_UNSUPPORTED,
           L("heads have 60 dimensions, but only multiples of 8 up to 256 are supported"));
    f.head_dim = 264;
    refuse(f, NULL, NULL, ERR_UNSUPPORTED,
           L("heads have 264 dimensions, but only multiples of 8 up to 256 are supported"));
}

/* A window that the context stays within changes nothing. */
static void test_window_wide_enough(void **arg)
{
    struct model_options o = {.n_ctx = 127, .threads = 1};
    struct file file;
    struct model *m;

    (void)arg;
    build(&file, fixture_small(), window);
    m = load(file.g, &o);
    assert_int_equal(m->shape.n_ctx, 127);
    model_destroy(&m);
    drop(&file);
}

static const float zeros[256 * 300];

static void add_tensor(struct gguf_writer *w, const char *name, enum block_type type, uint64_t n_in,
                       uint64_t n_out)
{
    const uint64_t dims[2] = {n_in, n_out};

    gguf_writer_tensor(w, name, type, 2, dims, zeros);
}

static void bad_q(struct gguf_writer *w)
{
    add_tensor(w, "blk.0.attn_q.weight", BLOCK_F32, 256, 255);
}

static void bad_norm(struct gguf_writer *w)
{
    add_tensor(w, "blk.1.ffn_norm.weight", BLOCK_F32, 256, 2);
}

static void quantised_norm(struct gguf_writer *w)
{
    add_tensor(w, "output_norm.weight", BLOCK_Q8_0, 256, 1);
}

static void extra(struct gguf_writer *w)
{
    add_tensor(w, "blk.0.attn_output.bias", BLOCK_F32, 256, 1);
}

static void extra_layer(struct gguf_writer *w)
{
    add_tensor(w, "blk.2.attn_q.weight", BLOCK_F32, 256, 256);
}

static void q_norm_in_llama(struct gguf_writer *w)
{
    add_tensor(w, "blk.0.attn_q_norm.weight", BLOCK_F32, 64, 1);
}

static void three_dims(struct gguf_writer *w)
{
    static const uint64_t dims[3] = {256, 128, 2};

    gguf_writer_tensor(w, "blk.0.attn_k.weight", BLOCK_F32, 3, dims, zeros);
}

static void zero_divisors(struct gguf_writer *w)
{
    add_tensor(w, "rope_freqs.weight", BLOCK_F32, 32, 1);
}

static void wrong_divisors(struct gguf_writer *w)
{
    add_tensor(w, "rope_freqs.weight", BLOCK_F32, 64, 1);
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
    refuse(f, "blk.0.attn_q.weight", bad_q, ERR_FORMAT,
           L("tensor 'blk.0.attn_q.weight': has dimensions 256 x 255 x 1 x 1, but 256 x 256 is "
             "wanted"));
    refuse(f, "blk.0.attn_k.weight", three_dims, ERR_FORMAT,
           L("tensor 'blk.0.attn_k.weight': has dimensions 256 x 128 x 2 x 1, but 256 x 128 is "
             "wanted"));
    refuse(f, "blk.1.ffn_norm.weight", bad_norm, ERR_FORMAT,
           L("tensor 'blk.1.ffn_norm.weight': has dimensions 256 x 2 x 1 x 1, but 256 x 1 is "
             "wanted"));
    refuse(f, "output_norm.weight", quantised_norm, ERR_UNSUPPORTED,
           L("tensor 'output_norm.weight': has type Q8_0, but a vector must be F32, F16 or BF16"));
    refuse(f, NULL, extra, ERR_UNSUPPORTED,
           L("tensor 'blk.0.attn_output.bias' is no part of architecture llama as we compute it"));
    refuse(f, NULL, extra_layer, ERR_UNSUPPORTED,
           L("tensor 'blk.2.attn_q.weight' is no part of architecture llama as we compute it"));
    refuse(f, NULL, q_norm_in_llama, ERR_UNSUPPORTED,
           L("tensor 'blk.0.attn_q_norm.weight' is no part of architecture llama as we compute "
             "it"));
    refuse(f, NULL, zero_divisors, ERR_FORMAT,
           L("tensor 'rope_freqs.weight': holds 0, but must be above 0"));
    refuse(f, NULL, wrong_divisors, ERR_FORMAT,
           L("tensor 'rope_freqs.weight': has dimensions 64 x 1 x 1 x 1, but 32 x 1 is wanted"));
    refuse(f, "llama.block_count", layers_3, ERR_FORMAT,
           L("tensor 'blk.2.attn_norm.weight' is missing"));
    refuse(f, "llama.block_count", layers_1, ERR_UNSUPPORTED,
           L("tensor 'blk.1.attn_norm.weight' is no part of architecture llama as we compute it"));
    refuse(f, "llama.embedding_length", embd_128, ERR_FORMAT,
           L("tensor 'token_embd.weight': has dimensions 256 x 300 x 1 x 1, but 128 x 300 is "
             "wanted"));
    refuse(f, "llama.attention.head_count", heads_8, ERR_FORMAT,
           L("tensor 'blk.0.attn_q.weight': has dimensions 256 x 256 x 1 x 1, but 256 x 512 is "
             "wanted"));
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
    f.q_bias = true;
    refuse(f, NULL, NULL, ERR_UNSUPPORTED,
           L("tensor 'blk.0.attn_q.bias' is no part of architecture qwen3 as we compute it"));
}

/* One number or scale of a matrix made infinite, in the file's bytes. */
static void test_refused_infinities(void **arg)
{
    static const struct {
        enum block_type type;
        int at, n;
        uint8_t bytes[4];
    } cases[] = {
        {BLOCK_F32, 4, 4, {0, 0, 0x80, 0x7f}}, {BLOCK_F16, 6, 2, {1, 0x7c}},
        {BLOCK_BF16, 6, 2, {0xc0, 0xff}},      {BLOCK_Q8_0, 34, 2, {0, 0x7c}},
        {BLOCK_Q4_0, 18, 2, {0, 0xfc}},        {BLOCK_Q5_0, 22, 2, {0, 0x7c}},
        {BLOCK_Q4_K, 0, 2, {0, 0x7c}},         {BLOCK_Q4_K, 2, 2, {0, 0x7e}},
        {BLOCK_Q6_K, 208, 2, {0, 0x7c}},       {BLOCK_Q4_1, 2, 2, {0, 0x7c}},
        {BLOCK_Q5_1, 0, 2, {0, 0x7c}},         {BLOCK_Q2_K, 82, 2, {0, 0x7c}},
        {BLOCK_Q3_K, 108, 2, {0, 0x7e}},       {BLOCK_Q5_K, 0, 2, {0, 0x7c}},
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
            err, "file: tensor 'blk.1.ffn_up.weight': holds a number that is not finite");
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
                        "file: tensor 'output_norm.weight': holds a number that is not finite");
    drop(&file);
}

static void test_out_of_memory(void **arg)
{
    struct fixture f = fixture_small();
    struct model_options o = {.threads = 2};
    struct file file;
    struct model *m;
    int n = 0;

    (void)arg;
    f.arch = "qwen2";
    f.type = BLOCK_Q5_0;
    build(&file, f, NULL);
    for (;; n++) {
        int rc;

        mem_fail_after(n);
        rc = model_load(&m, file.g, &o, err, sizeof(err));
        mem_fail_after(-1);
        if (rc == 0)
            break;
        assert_int_equal(rc, ERR_NOMEM);
        assert_null(m);
        assert_non_null(strstr(err, "memory"));
    }
    assert_true(n >= 12);
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
    const char *data = getenv("QUIRE_DATA");
    char path[512];
    struct gguf *g;

    (void)arg;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct model *m;

        snprintf(path, sizeof(path), "%s/weights/%s.gguf", data != NULL ? data : "../shared/data",
                 files[i].file);
        if (access(path, R_OK) != 0) {
            print_message("skip: ../shared/data absent\n");
            skip();
        }
        if (gguf_open(&g, path, err, sizeof(err)) < 0)
            fail_msg("%s", err);
        m = load(g, &(struct model_options){.threads = 2});
        assert_string_equal(m->ftype, files[i].ftype);
        assert_int_equal(m->shape.n_vocab, 512);
        assert_int_equal(m->shape.n_layer, 5);
        check_matrix(g, "token_embd.weight", &m->embed);
        check_matrix(g, "blk.4.ffn_down.weight", &m->layers[4].down);
        check_matrix(g, "blk.2.attn_v.weight", &m->layers[2].v);
        model_destroy(&m);
        gguf_close(&g);
    }
    snprintf(path, sizeof(path), "%s/vocabs/ggml-vocab-qwen2.gguf",
             data != NULL ? data : "../shared/data");
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
        cmocka_unit_test(test_packed_bytes_stay_close),
        cmocka_unit_test(test_threads_agree),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_context),
        cmocka_unit_test(test_name_from_path),
        cmocka_unit_test(test_refused_keys),
        cmocka_unit_test(test_refused_heads_and_rope),
        cmocka_unit_test(test_head_dim_limits),
        cmocka_unit_test(test_window_wide_enough),
        cmocka_unit_test(test_refused_tensors),
        cmocka_unit_test(test_refused_by_architecture),
        cmocka_unit_test(test_refused_infinities),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_real_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
