/* tests/unit/formats/test_gguf.c - the reader: every type, every refusal with its sentence. */
#include "core/formats/gguf/gguf.h"
#include "tests/fixtures/failing_memory.h"
#include "tests/fixtures/files.h"

#include "core/base/err.h"
#include "tests/unit/formats/raw_gguf.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char err[512];

/* Open the composed bytes; `*copy` is to be freed after closing. Releases b. */
static int open_raw(struct buf *b, struct gguf **g, void **copy)
{
    int rc;

    assert_int_equal(b->err, 0);
    *copy = raw_copy(b->data, b->len);
    err[0] = '\0';
    rc = gguf_open_memory(g, "file", *copy, b->len, err, sizeof(err));
    buf_release(b);
    return rc;
}

static void refused(struct buf *b, int want, const char *sentence)
{
    struct gguf *g;
    void *copy;

    assert_int_equal(open_raw(b, &g, &copy), want);
    assert_null(g);
    assert_string_equal(err, sentence);
    free(copy);
}

/* The values of each scalar type, one key each. */
static void add_scalars(struct buf *b)
{
    raw_key(b, "u8", GGUF_U8);
    raw_int(b, 200, 1);
    raw_key(b, "i8", GGUF_I8);
    raw_int(b, (uint64_t)-5, 1);
    raw_key(b, "u16", GGUF_U16);
    raw_int(b, 60000, 2);
    raw_key(b, "i16", GGUF_I16);
    raw_int(b, (uint64_t)-3000, 2);
    raw_key(b, "u32", GGUF_U32);
    raw_int(b, 4000000000u, 4);
    raw_key(b, "i32", GGUF_I32);
    raw_int(b, 123456, 4);
    raw_key(b, "f32", GGUF_F32);
    raw_f32(b, 1.25f);
    raw_key(b, "bool", GGUF_BOOL);
    raw_int(b, 1, 1);
    raw_key(b, "str", GGUF_STRING);
    raw_str(b, "hello");
    raw_key(b, "u64", GGUF_U64);
    raw_int(b, 77, 8);
    raw_key(b, "i64", GGUF_I64);
    raw_int(b, 78, 8);
    raw_key(b, "f64", GGUF_F64);
    raw_f64(b, -0.5);
    raw_key(b, "big", GGUF_U64);
    raw_int(b, UINT64_MAX, 8);
    raw_key(b, "nan", GGUF_F32);
    raw_f32(b, NAN);
    raw_key(b, "huge", GGUF_F64);
    raw_f64(b, 1e300);
}
#define N_SCALARS 15

static void check_u32(const struct gguf *g, const char *key, uint32_t want)
{
    uint32_t v = 0;

    assert_int_equal(gguf_get_u32(g, key, &v, err, sizeof(err)), 0);
    assert_int_equal(v, want);
}

static void check_f32(const struct gguf *g, const char *key, float want)
{
    float v = 0;

    assert_int_equal(gguf_get_f32(g, key, &v, err, sizeof(err)), 0);
    assert_true(v == want);
}

static void no_u32(const struct gguf *g, const char *key, const char *sentence)
{
    uint32_t v = 42;

    assert_int_equal(gguf_get_u32(g, key, &v, err, sizeof(err)), ERR_FORMAT);
    assert_string_equal(err, sentence);
    assert_int_equal(v, 42);
}

static void no_f32(const struct gguf *g, const char *key, const char *sentence)
{
    float v = 42;

    assert_int_equal(gguf_get_f32(g, key, &v, err, sizeof(err)), ERR_FORMAT);
    assert_string_equal(err, sentence);
    assert_true(v == 42);
}

static void test_scalars(void **arg)
{
    struct buf b;
    struct gguf *g;
    void *copy;

    (void)arg;
    raw_header(&b, 0, N_SCALARS);
    add_scalars(&b);
    assert_int_equal(open_raw(&b, &g, &copy), 0);
    assert_string_equal(gguf_name(g), "file");
    assert_int_equal(gguf_version(g), 3);
    assert_int_equal(gguf_n_kv(g), N_SCALARS);
    assert_int_equal(gguf_n_tensors(g), 0);

    check_u32(g, "u8", 200);
    check_u32(g, "u16", 60000);
    check_u32(g, "u32", 4000000000u);
    check_u32(g, "i32", 123456);
    check_u32(g, "u64", 77);
    check_u32(g, "i64", 78);
    no_u32(g, "i8", "file: key 'i8': -5 does not fit into 32 bits unsigned");
    no_u32(g, "i16", "file: key 'i16': -3000 does not fit into 32 bits unsigned");
    no_u32(g, "big", "file: key 'big': 18446744073709551615 does not fit into 32 bits");
    no_u32(g, "f32", "file: key 'f32': has type f32, but an integer is expected");
    no_u32(g, "bool", "file: key 'bool': has type bool, but an integer is expected");
    no_u32(g, "str", "file: key 'str': has type string, but an integer is expected");

    check_f32(g, "f32", 1.25f);
    check_f32(g, "f64", -0.5f);
    check_f32(g, "i8", -5.0f);
    check_f32(g, "i16", -3000.0f);
    check_f32(g, "big", 18446744073709551616.0f);
    no_f32(g, "nan", "file: key 'nan': nan is not a finite 32-bit number");
    no_f32(g, "huge", "file: key 'huge': 1e+300 is not a finite 32-bit number");
    no_f32(g, "bool", "file: key 'bool': has type bool, but a number is expected");
    gguf_close(&g);
    assert_null(g);
    free(copy);
}

static void test_bool_and_string(void **arg)
{
    struct buf b;
    struct gguf *g;
    struct gguf_str s = {0};
    bool v = false;
    void *copy;

    (void)arg;
    raw_header(&b, 0, N_SCALARS);
    add_scalars(&b);
    assert_int_equal(open_raw(&b, &g, &copy), 0);
    assert_int_equal(gguf_get_bool(g, "bool", &v, err, sizeof(err)), 0);
    assert_true(v);
    assert_int_equal(gguf_get_bool(g, "u8", &v, err, sizeof(err)), ERR_FORMAT);
    assert_string_equal(err, "file: key 'u8': has type u8, but bool is expected");
    assert_int_equal(gguf_get_str(g, "str", &s, err, sizeof(err)), 0);
    assert_int_equal(s.len, 5);
    assert_memory_equal(s.data, "hello", 5);
    assert_int_equal(gguf_get_str(g, "u64", &s, err, sizeof(err)), ERR_FORMAT);
    assert_string_equal(err, "file: key 'u64': has type u64, but string is expected");

    /* An absent key is no failure: no sentence. */
    err[0] = '\0';
    assert_int_equal(gguf_get_str(g, "none", &s, err, sizeof(err)), ERR_NOENT);
    assert_int_equal(gguf_get_bool(g, "none", &v, err, sizeof(err)), ERR_NOENT);
    assert_string_equal(err, "");
    assert_null(gguf_find(g, "st"));
    assert_null(gguf_find(g, "strr"));
    assert_null(gguf_tensor_find(g, "none"));
    gguf_close(&g);
    gguf_close(&g); /* nothing to do */
    gguf_close(NULL);
    free(copy);
}

static void test_arrays(void **arg)
{
    static const uint32_t ints[] = {GGUF_U8,  GGUF_I8,  GGUF_U16, GGUF_I16, GGUF_U32,
                                    GGUF_I32, GGUF_U64, GGUF_I64, GGUF_BOOL};
    static const size_t sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 1};
    const struct gguf_kv *kv;
    struct gguf_str s;
    struct buf b;
    struct gguf *g;
    void *copy;

    (void)arg;
    raw_header(&b, 0, 9 + 3);
    for (int i = 0; i < 9; i++) {
        char key[16];

        snprintf(key, sizeof(key), "a%d", i);
        raw_array(&b, key, ints[i], 3);
        raw_int(&b, ints[i] == GGUF_BOOL ? 1 : 100, sizes[i]);
        raw_int(&b, 0, sizes[i]);
        raw_int(&b, ints[i] == GGUF_BOOL ? 1 : (uint64_t)-2, sizes[i]);
    }
    raw_array(&b, "f", GGUF_F32, 2);
    raw_f32(&b, 0.5f);
    raw_f32(&b, -3.0f);
    raw_array(&b, "s", GGUF_STRING, 3);
    raw_str(&b, "one");
    raw_str(&b, "");
    raw_str(&b, "three");
    raw_array(&b, "empty", GGUF_STRING, 0);
    assert_int_equal(open_raw(&b, &g, &copy), 0);

    for (int i = 0; i < 9; i++) {
        static const int64_t last[] = {254, -2, 65534, -2, 4294967294, -2, -2, -2, 1};
        char key[16];

        snprintf(key, sizeof(key), "a%d", i);
        assert_int_equal(gguf_get_array(g, key, (enum gguf_type)ints[i], &kv, err, sizeof(err)), 0);
        assert_int_equal(kv->count, 3);
        assert_int_equal(gguf_array_int(kv, 0), ints[i] == GGUF_BOOL ? 1 : 100);
        assert_int_equal(gguf_array_int(kv, 1), 0);
        assert_int_equal(gguf_array_int(kv, 2), last[i]);
    }
    assert_int_equal(gguf_get_array(g, "f", GGUF_F32, &kv, err, sizeof(err)), 0);
    assert_true(gguf_array_f32(kv, 0) == 0.5f && gguf_array_f32(kv, 1) == -3.0f);
    assert_int_equal(gguf_get_array(g, "s", GGUF_STRING, &kv, err, sizeof(err)), 0);
    s = gguf_array_str(kv, 2);
    assert_int_equal(s.len, 5);
    assert_memory_equal(s.data, "three", 5);
    assert_int_equal(gguf_array_str(kv, 1).len, 0);
    assert_int_equal(gguf_get_array(g, "empty", GGUF_STRING, &kv, err, sizeof(err)), 0);
    assert_int_equal(kv->count, 0);
    assert_int_equal(gguf_get_array(g, "s", GGUF_F32, &kv, err, sizeof(err)), ERR_FORMAT);
    assert_string_equal(err, "file: key 's': is an array of string, but one of f32 is expected");
    assert_int_equal(gguf_get_array(g, "nope", GGUF_F32, &kv, err, sizeof(err)), ERR_NOENT);
    gguf_close(&g);
    free(copy);
}

static const uint64_t dims_64x2[] = {64, 2};

static void test_tensors(void **arg)
{
    static const uint64_t dims4[] = {32, 2, 3, 1};
    const struct gguf_tensor *t;
    struct buf b;
    struct gguf *g;
    void *copy;

    (void)arg;
    raw_header(&b, 3, 1);
    b.data[4] = 2; /* version 2 has the same layout */
    raw_key(&b, "general.alignment", GGUF_U32);
    raw_int(&b, 64, 4);
    raw_tensor(&b, "second", 2, dims_64x2, BLOCK_F32, 64); /* the order of the data is free */
    raw_tensor(&b, "first", 1, dims_64x2, BLOCK_F16, 704);
    raw_tensor(&b, "third", 4, dims4, BLOCK_Q8_0, 1024);
    raw_pad(&b, 64);
    for (int i = 0; i < 1024 + 34 * 6; i++)
        buf_add_char(&b, (char)i);
    assert_int_equal(open_raw(&b, &g, &copy), 0);
    assert_int_equal(gguf_version(g), 2);
    assert_int_equal(gguf_n_tensors(g), 3);
    t = gguf_tensor_find(g, "second");
    assert_ptr_equal(t, gguf_tensor_at(g, 0));
    assert_int_equal(t->type, BLOCK_F32);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->dims[0], 64);
    assert_int_equal(t->dims[1], 2);
    assert_int_equal(t->dims[2], 1);
    assert_int_equal(t->bytes, 512);
    assert_int_equal(((const uint8_t *)t->data)[0], 64);
    t = gguf_tensor_find(g, "third");
    assert_int_equal(t->bytes, 34 * 6);
    assert_int_equal(((const uint8_t *)t->data)[1], 1);
    gguf_close(&g);
    free(copy);
}

/* Refusals of the header. */
static void test_bad_header(void **arg)
{
    struct buf b;

    (void)arg;
    raw_header(&b, 0, 0);
    b.len = 10;
    refused(&b, ERR_FORMAT,
            "file: header: the header needs 24 bytes, but the file ends after 10 more");
    raw_header(&b, 0, 0);
    b.data[0] = 'P';
    refused(&b, ERR_FORMAT, "file: header: is not a GGUF file: it does not begin with 'GGUF'");
    raw_header(&b, 0, 0);
    memcpy(b.data, "FUGG", 4);
    refused(&b, ERR_UNSUPPORTED,
            "file: header: the file is big-endian; only little-endian is supported");
    raw_header(&b, 0, 0);
    memcpy(b.data + 4, "\0\0\0\3", 4);
    refused(&b, ERR_UNSUPPORTED,
            "file: header: the file is big-endian; only little-endian is supported");
    raw_header(&b, 0, 0);
    b.data[4] = 1;
    refused(&b, ERR_UNSUPPORTED, "file: header: GGUF version 1 is not supported (2 and 3 are)");
    raw_header(&b, 0, 0);
    b.data[4] = 0;
    refused(&b, ERR_UNSUPPORTED, "file: header: GGUF version 0 is not supported (2 and 3 are)");
    raw_header(&b, 0, UINT64_MAX);
    refused(&b, ERR_FORMAT,
            "file: header: claims 18446744073709551615 keys, more than the limit of 65536");
    raw_header(&b, 131073, 0);
    refused(&b, ERR_FORMAT, "file: header: claims 131073 tensors, more than the limit of 131072");
    raw_header(&b, 0, 1);
    refused(&b, ERR_FORMAT, "file: header: claims 1 keys, which cannot fit into the 0 bytes left");
    raw_header(&b, 4, 0);
    raw_zeros(&b, 131);
    refused(&b, ERR_FORMAT,
            "file: header: claims 4 tensors, which cannot fit into the 131 bytes left");
    raw_header(&b, 1, 1); /* enough at first, but the key takes what the tensor needs */
    raw_key(&b, "k", GGUF_STRING);
    raw_str(&b, "01234567890123456789");
    refused(&b, ERR_FORMAT,
            "file: header: claims 1 tensors, which cannot fit into the 0 bytes left");
}

static void test_bad_keys(void **arg)
{
    char long_name[200];
    struct buf b;

    (void)arg;
    raw_header(&b, 0, 1);
    raw_int(&b, 1000, 8);
    raw_zeros(&b, 20);
    refused(&b, ERR_FORMAT,
            "file: key 0: the name needs 1000 bytes, but the file ends after 20 more");
    raw_header(&b, 0, 1);
    raw_key(&b, "", GGUF_U8);
    raw_zeros(&b, 20);
    refused(&b, ERR_FORMAT, "file: key 0: the name has 0 bytes, but 1 to 127 are allowed");
    memset(long_name, 'k', sizeof(long_name));
    long_name[128] = '\0';
    raw_header(&b, 0, 1);
    raw_key(&b, long_name, GGUF_U8);
    raw_zeros(&b, 20);
    refused(&b, ERR_FORMAT, "file: key 0: the name has 128 bytes, but 1 to 127 are allowed");
    raw_header(&b, 0, 1);
    raw_key(&b, "a\nb", GGUF_U8);
    raw_zeros(&b, 20);
    refused(&b, ERR_FORMAT,
            "file: key 0: the name contains byte 0x0a, which is not printable ASCII");
    raw_header(&b, 0, 2);
    raw_key(&b, "twice", GGUF_U8);
    raw_int(&b, 1, 1);
    raw_key(&b, "twice", GGUF_U16);
    raw_int(&b, 1, 2);
    refused(&b, ERR_FORMAT, "file: key 'twice': occurs twice in the file");
    raw_header(&b, 0, 1);
    raw_key(&b, "k", 13);
    raw_zeros(&b, 20);
    refused(&b, ERR_FORMAT, "file: key 'k': has the unknown type 13");
    raw_header(&b, 0, 1);
    raw_key(&b, "ok", GGUF_U64);
    raw_zeros(&b, 7);
    refused(&b, ERR_FORMAT,
            "file: key 'ok': the value needs 8 bytes, but the file ends after 7 more");
    raw_header(&b, 0, 1);
    raw_key(&b, "flag", GGUF_BOOL);
    raw_int(&b, 2, 1);
    refused(&b, ERR_FORMAT, "file: key 'flag': has the value 2 as a bool, which must be 0 or 1");
    raw_header(&b, 0, 1);
    raw_key(&b, "s", GGUF_STRING);
    raw_int(&b, UINT64_MAX, 8);
    refused(&b, ERR_FORMAT,
            "file: key 's': the string needs 18446744073709551615 bytes, but the file ends after 0 "
            "more");
    raw_header(&b, 0, 1);
    raw_str(&b, "abcdefg");
    refused(&b, ERR_FORMAT,
            "file: key 'abcdefg': the type needs 4 bytes, but the file ends after 0 more");
}

static void test_bad_arrays(void **arg)
{
    struct buf b;

    (void)arg;
    raw_header(&b, 0, 1);
    raw_array(&b, "a", GGUF_ARRAY, 1);
    raw_zeros(&b, 20);
    refused(&b, ERR_UNSUPPORTED, "file: key 'a': is an array of arrays, which is not supported");
    raw_header(&b, 0, 1);
    raw_array(&b, "a", 13, 1);
    raw_zeros(&b, 20);
    refused(&b, ERR_FORMAT, "file: key 'a': is an array of the unknown type 13");
    raw_header(&b, 0, 1);
    raw_array(&b, "a", GGUF_U64, 1ull << 61); /* times 8 is 0 in 64 bits */
    raw_zeros(&b, 20);
    refused(&b, ERR_FORMAT,
            "file: key 'a': claims 2305843009213693952 elements, which cannot fit "
            "into the 20 bytes left");
    raw_header(&b, 0, 1);
    raw_array(&b, "a", GGUF_STRING, 3);
    raw_zeros(&b, 23);
    refused(&b, ERR_FORMAT,
            "file: key 'a': claims 3 elements, which cannot fit into the 23 bytes left");
    raw_header(&b, 0, 1);
    raw_array(&b, "a", GGUF_STRING, 2);
    raw_str(&b, "x");
    raw_int(&b, 100, 8);
    refused(&b, ERR_FORMAT,
            "file: key 'a': an element needs 100 bytes, but the file ends after 0 more");
    raw_header(&b, 0, 1);
    raw_array(&b, "a", GGUF_BOOL, 3);
    raw_int(&b, 0x030001, 3);
    refused(&b, ERR_FORMAT, "file: key 'a': has the value 3 as a bool, which must be 0 or 1");
    raw_header(&b, 0, 1);
    raw_key(&b, "abcdefghij", GGUF_ARRAY);
    raw_int(&b, GGUF_U8, 4);
    raw_zeros(&b, 7);
    refused(&b, ERR_FORMAT,
            "file: key 'abcdefghij': the array's length needs 8 bytes, but the file "
            "ends after 7 more");
}

static void alignment(uint32_t type, uint64_t v, size_t n, const char *sentence)
{
    struct buf b;

    raw_header(&b, 0, 1);
    raw_key(&b, "general.alignment", type);
    raw_int(&b, v, n);
    refused(&b, ERR_FORMAT, sentence);
}

static void test_bad_alignment(void **arg)
{
#define WHERE "file: key 'general.alignment': "
    (void)arg;
    alignment(GGUF_U32, 0, 4, WHERE "is 0, but must be a power of two from 8 to 65536");
    alignment(GGUF_U32, 4, 4, WHERE "is 4, but must be a power of two from 8 to 65536");
    alignment(GGUF_U32, 48, 4, WHERE "is 48, but must be a power of two from 8 to 65536");
    alignment(GGUF_U32, 131072, 4, WHERE "is 131072, but must be a power of two from 8 to 65536");
    alignment(GGUF_U64, 32, 8, WHERE "has type u64, but u32 is expected");
#undef WHERE
}

/* One tensor, with as much data as given; `fill` more bytes so that counts can be believed. */
static void bad_tensor(const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                       uint64_t offset, size_t data, int rc, const char *sentence)
{
    struct buf b;

    raw_header(&b, 1, 0);
    raw_tensor(&b, name, n_dims, dims, type, offset);
    raw_pad(&b, 32);
    raw_zeros(&b, data);
    refused(&b, rc, sentence);
}

static void test_bad_tensors(void **arg)
{
    static const uint64_t zero[] = {32, 0}, odd[] = {33, 2}, five[] = {1, 1, 1, 1, 1};
    static const uint64_t huge[] = {1ull << 40, 1ull << 40};
    static const uint64_t wraps[] = {32, 1ull << 60, 1ull << 60, 16};

    (void)arg;
    bad_tensor("", 2, dims_64x2, BLOCK_F32, 0, 512, ERR_FORMAT,
               "file: tensor 0: the name has 0 bytes, but 1 to 127 are allowed");
    bad_tensor("t\x01", 2, dims_64x2, BLOCK_F32, 0, 512, ERR_FORMAT,
               "file: tensor 0: the name contains byte 0x01, which is not printable ASCII");
    bad_tensor("t", 0, dims_64x2, BLOCK_F32, 0, 512, ERR_FORMAT,
               "file: tensor 't': has 0 dimensions, but 1 to 4 are allowed");
    bad_tensor("t", 5, five, BLOCK_F32, 0, 512, ERR_FORMAT,
               "file: tensor 't': has 5 dimensions, but 1 to 4 are allowed");
    bad_tensor("t", 2, zero, BLOCK_F32, 0, 512, ERR_FORMAT, "file: tensor 't': dimension 1 is 0");
    bad_tensor(
        "t", 2, odd, BLOCK_Q8_0, 0, 512, ERR_FORMAT,
        "file: tensor 't': rows of 33 numbers are not a multiple of the 32 in a block of Q8_0");
    bad_tensor(
        "t", 2, dims_64x2, BLOCK_Q4_K, 0, 512, ERR_FORMAT,
        "file: tensor 't': rows of 64 numbers are not a multiple of the 256 in a block of Q4_K");
    bad_tensor("t", 2, dims_64x2, 28, 0, 512, ERR_UNSUPPORTED,
               "file: tensor 't': has type 28 (F64), which is not supported");
    bad_tensor("t", 2, dims_64x2, 4, 0, 512, ERR_UNSUPPORTED,
               "file: tensor 't': has type 4 (unknown), which is not supported");
    bad_tensor("t", 2, dims_64x2, UINT32_MAX, 0, 512, ERR_UNSUPPORTED,
               "file: tensor 't': has type 4294967295 (unknown), which is not supported");
    bad_tensor("t", 2, huge, BLOCK_F32, 0, 512, ERR_FORMAT,
               "file: tensor 't': the dimensions multiply to more than 64 bits can hold");
    bad_tensor("t", 4, wraps, BLOCK_Q8_0, 0, 512, ERR_FORMAT,
               "file: tensor 't': the dimensions multiply to more than 64 bits can hold");
    bad_tensor("t", 2, dims_64x2, BLOCK_F32, 16, 1024, ERR_FORMAT,
               "file: tensor 't': offset 16 is not a multiple of the alignment 32");
    bad_tensor("t", 2, dims_64x2, BLOCK_F32, 0, 511, ERR_FORMAT,
               "file: tensor 't': 512 bytes at offset 0 reach past the 511 bytes of data in the "
               "file");
    /* Each of two rows has a head of 4 bytes. */
    bad_tensor("t", 2, (const uint64_t[]){256, 2}, BLOCK_IQ4_KS, 0, 279, ERR_FORMAT,
               "file: tensor 't': 280 bytes at offset 0 reach past the 279 bytes of data in the "
               "file");
    bad_tensor("t", 2, dims_64x2, BLOCK_F32, 32, 512, ERR_FORMAT,
               "file: tensor 't': 512 bytes at offset 32 reach past the 512 bytes of data in the "
               "file");
    bad_tensor(
        "t", 2, dims_64x2, BLOCK_F32, UINT64_MAX - 31, 512, ERR_FORMAT,
        "file: tensor 't': 512 bytes at offset 18446744073709551584 reach past the 512 bytes "
        "of data in the file");
}

static void test_bad_tensor_pairs(void **arg)
{
    struct buf b;

    (void)arg;
    raw_header(&b, 2, 0);
    raw_tensor(&b, "t", 2, dims_64x2, BLOCK_F32, 0);
    raw_tensor(&b, "t", 2, dims_64x2, BLOCK_F32, 512);
    raw_pad(&b, 32);
    raw_zeros(&b, 1024);
    refused(&b, ERR_FORMAT, "file: tensor 't': occurs twice in the file");
    raw_header(&b, 2, 0);
    raw_tensor(&b, "high", 2, dims_64x2, BLOCK_F32, 480);
    raw_tensor(&b, "low", 2, dims_64x2, BLOCK_F32, 0);
    raw_pad(&b, 32);
    raw_zeros(&b, 1024);
    refused(&b, ERR_FORMAT, "file: tensor 'high': overlaps tensor 'low'");
    raw_header(&b, 1, 0); /* no room even for the padding */
    raw_tensor(&b, "t", 2, dims_64x2, BLOCK_F32, 0);
    refused(&b, ERR_FORMAT,
            "file: tensor 't': 512 bytes at offset 0 reach past the 0 bytes of data "
            "in the file");
}

/* A file with a bit of everything. */
static void compose(struct buf *b)
{
    raw_header(b, 2, N_SCALARS + 2);
    add_scalars(b);
    raw_array(b, "words", GGUF_STRING, 2);
    raw_str(b, "alpha");
    raw_str(b, "beta");
    raw_array(b, "numbers", GGUF_I16, 3);
    raw_zeros(b, 6);
    raw_tensor(b, "one", 2, dims_64x2, BLOCK_Q8_0, 0);
    raw_tensor(b, "two", 1, dims_64x2, BLOCK_F16, 160);
    raw_pad(b, 32);
    raw_zeros(b, 160 + 128);
}

static void test_every_truncation(void **arg)
{
    struct buf b;
    struct gguf *g;

    (void)arg;
    compose(&b);
    for (size_t n = 0; n <= b.len; n++) {
        void *copy = raw_copy(b.data, n);
        const int rc = gguf_open_memory(&g, "file", copy, n, err, sizeof(err));

        assert_int_equal(rc, n < b.len ? ERR_FORMAT : 0);
        assert_true((g == NULL) == (n < b.len));
        gguf_close(&g);
        free(copy);
    }
    buf_release(&b);
}

static void test_out_of_memory(void **arg)
{
    struct buf b;
    struct gguf *g;
    void *copy;
    int64_t n = 0;

    (void)arg;
    compose(&b);
    copy = raw_copy(b.data, b.len);
    while (each_failure(&n)) {
        const int rc = gguf_open_memory(&g, "file", copy, b.len, err, sizeof(err));

        assert_int_equal(rc, mem_has_failed() ? ERR_NOMEM : 0);
        if (rc < 0) {
            assert_null(g);
            assert_non_null(strstr(err, "file: "));
            assert_non_null(strstr(err, "out of memory"));
        }
    }
    assert_true(n > 7);
    gguf_close(&g);
    free(copy);
    buf_release(&b);
}

/* A sentence is cut, never overrun. */
static void test_short_message_buffer(void **arg)
{
    struct gguf *g;
    uint64_t junk[4] = {0};
    char small[12];

    (void)arg;
    memset(small, 'x', sizeof(small));
    assert_int_equal(gguf_open_memory(&g, "file", junk, sizeof(junk), small, 10), ERR_FORMAT);
    assert_string_equal(small, "file: hea");
    assert_int_equal(small[10], 'x');
}

static void test_files(void **arg)
{
    char path[] = "/tmp/test_gguf.XXXXXX";
    const int fd = mkstemp(path);
    struct gguf *g;
    struct buf b;
    char want[256];

    (void)arg;
    assert_true(fd >= 0);
    assert_int_equal(gguf_open(&g, path, err, sizeof(err)), ERR_FORMAT);
    snprintf(want, sizeof(want), "%s: the file is empty", path);
    assert_string_equal(err, want);
    compose(&b);
    assert_int_equal(write(fd, b.data, b.len), b.len);
    close(fd);
    assert_int_equal(gguf_open(&g, path, err, sizeof(err)), 0);
    assert_string_equal(gguf_name(g), path);
    assert_int_equal(gguf_file_bytes(g), b.len);
    assert_int_equal(gguf_tensor_find(g, "two")->bytes, 128);
    gguf_close(&g);
    unlink(path);
    buf_release(&b);

    assert_int_equal(gguf_open(&g, path, err, sizeof(err)), ERR_IO);
    snprintf(want, sizeof(want), "%s: cannot open: No such file or directory", path);
    assert_string_equal(err, want);
    assert_int_equal(gguf_open(&g, "/tmp", err, sizeof(err)), ERR_IO);
    assert_string_equal(err, "/tmp: is not a regular file");
    assert_int_equal(mkfifo(path, 0600), 0); /* must not wait for a writer */
    assert_int_equal(gguf_open(&g, path, err, sizeof(err)), ERR_IO);
    snprintf(want, sizeof(want), "%s: is not a regular file", path);
    assert_string_equal(err, want);
    unlink(path);
}

static void test_many_names(void **arg)
{
    enum { N = 60000 };
    struct buf b;
    struct gguf *g;
    void *copy;
    char key[32];

    (void)arg;
    raw_header(&b, 0, N);
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof(key), "key.%d", i);
        raw_key(&b, key, GGUF_U32);
        raw_int(&b, (uint64_t)i, 4);
    }
    assert_int_equal(open_raw(&b, &g, &copy), 0);
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof(key), "key.%d", i);
        check_u32(g, key, (uint32_t)i);
    }
    assert_null(gguf_find(g, "key.60000"));
    gguf_close(&g);
    free(copy);
}

static struct gguf *open_real(const char *name)
{
    char path[512];
    struct gguf *g = NULL;

    data_file(path, sizeof(path), "%s", name);
    if (gguf_open(&g, path, err, sizeof(err)) < 0)
        fail_msg("%s", err);
    return g;
}

static void test_real_files(void **arg)
{
    static const struct {
        const char *path, *model;
        uint64_t n_tokens;
    } vocabs[] = {{"vocabs/ggml-vocab-llama-spm.gguf", "llama", 32000},
                  {"vocabs/ggml-vocab-gpt-2.gguf", "gpt2", 50257},
                  {"vocabs/ggml-vocab-llama-bpe.gguf", "gpt2", 128256},
                  {"vocabs/ggml-vocab-qwen2.gguf", "gpt2", 151936}};
    const struct gguf_kv *kv;
    struct gguf_str s;
    struct gguf *g = open_real("weights/stories260K.f16.gguf");

    (void)arg;
    check_u32(g, "llama.embedding_length", 64);
    check_u32(g, "llama.block_count", 5);
    assert_int_equal(gguf_tensor_find(g, "token_embd.weight")->dims[1], 512);
    gguf_close(&g);
    for (size_t i = 0; i < 4; i++) {
        g = open_real(vocabs[i].path);
        assert_non_null(g);
        assert_int_equal(gguf_n_tensors(g), 0);
        assert_int_equal(gguf_get_str(g, "tokenizer.ggml.model", &s, err, sizeof(err)), 0);
        assert_int_equal(s.len, strlen(vocabs[i].model));
        assert_memory_equal(s.data, vocabs[i].model, s.len);
        assert_int_equal(
            gguf_get_array(g, "tokenizer.ggml.tokens", GGUF_STRING, &kv, err, sizeof(err)), 0);
        assert_int_equal(kv->count, vocabs[i].n_tokens);
        gguf_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_bool_and_string),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_bad_header),
        cmocka_unit_test(test_bad_keys),
        cmocka_unit_test(test_bad_arrays),
        cmocka_unit_test(test_bad_alignment),
        cmocka_unit_test(test_bad_tensors),
        cmocka_unit_test(test_bad_tensor_pairs),
        cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_short_message_buffer),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_many_names),
        cmocka_unit_test(test_real_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
