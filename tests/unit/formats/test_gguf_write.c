/* tests/unit/formats/test_gguf_write.c - what the writer writes, the reader reads. */
#include "core/formats/gguf/write.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

static char err[512];
static const uint64_t dims[] = {256, 3};
static const enum block_type types[] = {BLOCK_F32,  BLOCK_F16,  BLOCK_BF16, BLOCK_Q8_0,
                                        BLOCK_Q4_0, BLOCK_Q4_K, BLOCK_Q6_K};
#define N_TYPES (sizeof(types) / sizeof(types[0]))

static float value(size_t i)
{
    return (float)((double)((i * 2654435761u) % 1000) / 500.0 - 1.0);
}

/* Bytes that tell their place: fill() must be asked for each once. */
static void fill(void *ud, uint64_t offset, uint8_t *dst, size_t n)
{
    uint64_t *next = ud;

    assert_int_equal(offset, *next);
    assert_int_equal(n % 34, 0);
    for (size_t i = 0; i < n; i++)
        dst[i] = (uint8_t)((offset + i) * 7);
    *next = offset + n;
}

static void add_everything(struct gguf_writer *w, uint64_t *next)
{
    static const struct gguf_str words[] = {{"alpha", 5}, {"", 0}, {"a\0b", 3}};
    static const float floats[] = {0.5f, -2.0f};
    static const int32_t ints[] = {-7, 0, 2000000000};
    static const uint64_t filled[] = {32, 200000};
    float x[768];
    char name[32];

    for (size_t i = 0; i < 768; i++)
        x[i] = value(i);
    gguf_writer_u32(w, "u32", 4000000000u);
    gguf_writer_f32(w, "f32", 0.1f);
    gguf_writer_bool(w, "yes", true);
    gguf_writer_bool(w, "no", false);
    gguf_writer_str(w, "str", "text");
    gguf_writer_str_array(w, "words", words, 3);
    gguf_writer_f32_array(w, "floats", floats, 2);
    gguf_writer_i32_array(w, "ints", ints, 3);
    gguf_writer_u32(w, "general.alignment", 128);
    for (size_t t = 0; t < N_TYPES; t++) {
        snprintf(name, sizeof(name), "tensor.%zu", t);
        gguf_writer_tensor(w, name, types[t], 2, dims, x);
    }
    gguf_writer_tensor_fill(w, "filled", BLOCK_Q8_0, 2, filled, fill, next);
}

static void check_keys(const struct gguf *g)
{
    const struct gguf_kv *kv;
    struct gguf_str s;
    uint32_t u;
    float f;
    bool b;

    assert_int_equal(gguf_n_kv(g), 9);
    assert_int_equal(gguf_get_u32(g, "u32", &u, err, sizeof(err)), 0);
    assert_int_equal(u, 4000000000u);
    assert_int_equal(gguf_get_f32(g, "f32", &f, err, sizeof(err)), 0);
    assert_true(f == 0.1f);
    assert_int_equal(gguf_get_bool(g, "yes", &b, err, sizeof(err)), 0);
    assert_true(b);
    assert_int_equal(gguf_get_bool(g, "no", &b, err, sizeof(err)), 0);
    assert_false(b);
    assert_int_equal(gguf_get_str(g, "str", &s, err, sizeof(err)), 0);
    assert_int_equal(s.len, 4);
    assert_memory_equal(s.data, "text", 4);
    assert_int_equal(gguf_get_array(g, "words", GGUF_STRING, &kv, err, sizeof(err)), 0);
    assert_int_equal(kv->count, 3);
    assert_int_equal(gguf_array_str(kv, 1).len, 0);
    assert_int_equal(gguf_array_str(kv, 2).len, 3);
    assert_memory_equal(gguf_array_str(kv, 2).data, "a\0b", 3);
    assert_int_equal(gguf_get_array(g, "floats", GGUF_F32, &kv, err, sizeof(err)), 0);
    assert_true(gguf_array_f32(kv, 1) == -2.0f);
    assert_int_equal(gguf_get_array(g, "ints", GGUF_I32, &kv, err, sizeof(err)), 0);
    assert_int_equal(gguf_array_int(kv, 0), -7);
    assert_int_equal(gguf_array_int(kv, 2), 2000000000);
}

static void check_tensors(const struct gguf *g, const void *base)
{
    const struct gguf_tensor *t;
    float x[768];
    uint8_t want[768 * 4];
    char name[32];

    for (size_t i = 0; i < 768; i++)
        x[i] = value(i);
    for (size_t k = 0; k < N_TYPES; k++) {
        snprintf(name, sizeof(name), "tensor.%zu", k);
        t = gguf_tensor_find(g, name);
        assert_non_null(t);
        assert_int_equal(t->type, types[k]);
        assert_int_equal(t->dims[0], 256);
        assert_int_equal(t->dims[1], 3);
        assert_true(block_encode(types[k], x, want, 768));
        assert_memory_equal(t->data, want, t->bytes);
        if (base != NULL)
            assert_int_equal(((const char *)t->data - (const char *)base) % 128, 0);
    }
    t = gguf_tensor_find(g, "filled");
    assert_int_equal(t->bytes, 200000 * 34);
    for (size_t i = 0; i < t->bytes; i += 997)
        assert_int_equal(((const uint8_t *)t->data)[i], (uint8_t)(i * 7));
}

static void test_round_trip(void **arg)
{
    struct gguf_writer *w;
    struct gguf *g;
    uint64_t next = 0;
    uint8_t *data;
    size_t bytes;

    (void)arg;
    assert_int_equal(gguf_writer_create(&w), 0);
    add_everything(w, &next);
    assert_int_equal(gguf_writer_finish(w, &data, &bytes), 0);
    assert_int_equal(next, 200000 * 34);
    gguf_writer_destroy(&w);
    assert_null(w);
    assert_int_equal(gguf_open_memory(&g, "memory", data, bytes, err, sizeof(err)), 0);
    assert_int_equal(gguf_version(g), 3);
    check_keys(g);
    check_tensors(g, data);
    gguf_close(&g);
    mem_free(data);
}

static void test_save_equals_finish(void **arg)
{
    char path[] = "/tmp/test_gguf_write.XXXXXX";
    const int fd = mkstemp(path);
    struct gguf_writer *w;
    struct gguf *g;
    uint64_t next = 0;
    uint8_t *data, *file;
    size_t bytes;

    (void)arg;
    assert_true(fd >= 0);
    assert_int_equal(gguf_writer_create(&w), 0);
    add_everything(w, &next);
    assert_int_equal(gguf_writer_save(w, path), 0);
    next = 0;
    assert_int_equal(gguf_writer_finish(w, &data, &bytes), 0);
    assert_int_equal(lseek(fd, 0, SEEK_END), bytes);
    file = malloc(bytes);
    assert_non_null(file);
    assert_int_equal(pread(fd, file, bytes, 0), bytes);
    assert_memory_equal(file, data, bytes);
    assert_int_equal(gguf_open(&g, path, err, sizeof(err)), 0);
    check_tensors(g, NULL);
    gguf_close(&g);
    free(file);
    mem_free(data);
    gguf_writer_destroy(&w);
    close(fd);
    unlink(path);
}

static void test_empty(void **arg)
{
    struct gguf_writer *w;
    struct gguf *g;
    uint8_t *data;
    size_t bytes;

    (void)arg;
    assert_int_equal(gguf_writer_create(&w), 0);
    assert_int_equal(gguf_writer_finish(w, &data, &bytes), 0);
    assert_int_equal(gguf_open_memory(&g, "m", data, bytes, err, sizeof(err)), 0);
    assert_int_equal(gguf_n_kv(g) + gguf_n_tensors(g), 0);
    gguf_close(&g);
    mem_free(data);
    gguf_writer_destroy(&w);
    gguf_writer_destroy(&w);
    gguf_writer_destroy(NULL);
}

/* The error of one wrong call survives right ones after it. */
static void expect(struct gguf_writer *w, int rc)
{
    uint8_t *data = (uint8_t *)w;
    size_t bytes = 1;

    gguf_writer_u32(w, "fine", 1);
    assert_int_equal(gguf_writer_finish(w, &data, &bytes), rc);
    assert_null(data);
    assert_int_equal(bytes, 0);
    assert_int_equal(gguf_writer_save(w, "/tmp/test_gguf_write.never"), rc);
    assert_int_not_equal(access("/tmp/test_gguf_write.never", F_OK), 0);
    gguf_writer_destroy(&w);
}

static struct gguf_writer *fresh(void)
{
    struct gguf_writer *w;

    assert_int_equal(gguf_writer_create(&w), 0);
    return w;
}

static void test_errors_stick(void **arg)
{
    static const uint64_t odd[] = {33}, zero[] = {0}, wraps[] = {1ull << 33, 1ull << 33};
    static const float x[256];
    char long_name[200];
    struct gguf_writer *w;

    (void)arg;
    memset(long_name, 'n', 199);
    long_name[199] = '\0';
    gguf_writer_tensor(w = fresh(), "t", BLOCK_Q8_0, 1, odd, x);
    expect(w, ERR_INVAL);
    gguf_writer_tensor(w = fresh(), "t", BLOCK_F32, 1, zero, x);
    expect(w, ERR_INVAL);
    gguf_writer_tensor(w = fresh(), "t", BLOCK_F32, 2, wraps, x);
    expect(w, ERR_INVAL);
    gguf_writer_tensor(w = fresh(), "t", BLOCK_F32, 0, dims, x);
    expect(w, ERR_INVAL);
    gguf_writer_tensor(w = fresh(), "t", BLOCK_F32, 5, dims, x);
    expect(w, ERR_INVAL);
    gguf_writer_tensor(w = fresh(), "", BLOCK_F32, 1, dims, x);
    expect(w, ERR_INVAL);
    gguf_writer_tensor(w = fresh(), long_name, BLOCK_F32, 1, dims, x);
    expect(w, ERR_INVAL);
    gguf_writer_tensor(w = fresh(), "t", BLOCK_Q5_K, 1, dims, x);
    expect(w, ERR_UNSUPPORTED);
    gguf_writer_str(w = fresh(), "", "x");
    expect(w, ERR_INVAL);
    gguf_writer_u32(w = fresh(), "general.alignment", 24);
    expect(w, ERR_INVAL);
    w = fresh();
    assert_int_equal(gguf_writer_save(w, "/nonexistent/x.gguf"), ERR_IO);
    gguf_writer_destroy(&w);
}

/* A write that fails half-way leaves no file behind. */
static void test_full_disk(void **arg)
{
    const struct rlimit small = {.rlim_cur = 4096, .rlim_max = RLIM_INFINITY};
    const char *path = "/tmp/test_gguf_write.full";
    struct rlimit before;
    struct gguf_writer *w = fresh();
    uint64_t next = 0;
    int rc;

    (void)arg;
    add_everything(w, &next);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    rc = gguf_writer_save(w, path);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(rc, ERR_IO);
    assert_int_not_equal(access(path, F_OK), 0);
    gguf_writer_destroy(&w);
}

static void test_out_of_memory(void **arg)
{
    int n = 0;

    (void)arg;
    for (;; n++) {
        struct gguf_writer *w = NULL;
        uint64_t next = 0;
        uint8_t *data = NULL;
        size_t bytes;
        int rc;

        mem_fail_after(n);
        rc = gguf_writer_create(&w);
        if (rc == 0) {
            add_everything(w, &next);
            rc = gguf_writer_finish(w, &data, &bytes);
        }
        mem_fail_after(-1);
        gguf_writer_destroy(&w);
        if (rc == 0) {
            mem_free(data);
            break;
        }
        assert_int_equal(rc, ERR_NOMEM);
        assert_null(data);
    }
    assert_true(n > 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_save_equals_finish),
        cmocka_unit_test(test_empty),      cmocka_unit_test(test_errors_stick),
        cmocka_unit_test(test_full_disk),  cmocka_unit_test(test_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
