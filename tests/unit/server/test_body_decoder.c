/* tests/unit/server/test_body_decoder.c - compressed bodies: whole, cut, damaged, endless. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>
#include <zstd.h>

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/http/body_decoder.h"

#define TEXT "{\"prompt\": \"Once upon a time, upon a time, upon a time\", \"max_tokens\": 8}"
#define BOMB_BYTES ((size_t)48 << 20)
#define MAX ((size_t)1 << 20)

static const char *const names[] = {"gzip", "deflate", "zstd"};
#define N_NAMES (sizeof(names) / sizeof(names[0]))

/* ---- compressed bytes ---- */

static void add_zlib(struct buf *out, int bits, const void *bytes, size_t n)
{
    z_stream z = {.next_in = (z_const Bytef *)bytes, .avail_in = (uInt)n};

    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(buf_reserve(out, deflateBound(&z, n)), 0);
    z.next_out = (Bytef *)out->data + out->len;
    z.avail_out = (uInt)(out->cap - out->len);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    out->len += z.total_out;
    deflateEnd(&z);
}

static void add_zstd(struct buf *out, const void *bytes, size_t n)
{
    ZSTD_CCtx *c = ZSTD_createCCtx();
    size_t rc;

    assert_non_null(c);
    ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
    assert_int_equal(buf_reserve(out, ZSTD_compressBound(n)), 0);
    rc = ZSTD_compress2(c, out->data + out->len, ZSTD_compressBound(n), bytes, n);
    assert_false(ZSTD_isError(rc));
    out->len += rc;
    ZSTD_freeCCtx(c);
}

static void add_encoded(struct buf *out, const char *name, const void *bytes, size_t n)
{
    if (strcmp(name, "zstd") == 0)
        add_zstd(out, bytes, n);
    else
        add_zlib(out, strcmp(name, "gzip") == 0 ? 15 + 16 : 15, bytes, n);
}

/* A zstd frame with any window descriptor, and `text` in a stored block. */
static void add_stored(struct buf *out, unsigned char window, const char *text)
{
    const unsigned size = (unsigned)strlen(text) << 3 | 1;
    const unsigned char head[] = {
        0x28, 0xb5, 0x2f, 0xfd, 0, window, size & 255, size >> 8 & 255, size >> 16,
    };

    buf_add(out, head, sizeof(head));
    buf_add_str(out, text);
}

/* ---- decoding ---- */

/* Decode `in`, cut into pieces, with rooms of `max` bytes. 0 or an error; `why` explains it. */
static int decode(const char *name, const struct buf *in, size_t piece, size_t max, struct buf *out,
                  char why[300])
{
    struct body_decoder *d = body_decoder_create(body_encoding_find(name));
    char room[4096];
    int rc = 0;

    assert_non_null(d);
    assert_true(max <= sizeof(room));
    buf_clear(out);
    for (size_t from = 0; rc == 0 && from < in->len; from += piece) {
        const char *at = in->data + from;
        const char *end = at + (in->len - from < piece ? in->len - from : piece);
        size_t n = max;

        while (rc == 0 && n == max) {
            rc = body_decoder_read(d, &at, end, room, max, &n);
            assert_true(n <= max && at <= end);
            assert_int_equal(buf_add(out, room, n), 0);
        }
        assert_true(rc < 0 || at == end);
    }
    if (rc == 0)
        rc = body_decoder_end(d);
    body_decoder_explain(d, rc, why, 300);
    body_decoder_destroy(d);
    return rc;
}

static void expect_text(const char *name, const struct buf *in, const char *text)
{
    char why[300];
    struct buf out;

    buf_init(&out, MAX);
    for (size_t piece = 1; piece <= in->len; piece++)
        for (size_t max = 1; max <= 4096; max = max * 3 + 1) {
            assert_int_equal(decode(name, in, piece, max, &out, why), 0);
            assert_int_equal(out.len, strlen(text));
            assert_memory_equal(out.data, text, out.len);
        }
    buf_release(&out);
}

static void expect_error(const char *name, const struct buf *in, int err, const char *what)
{
    char why[300];
    struct buf out;

    buf_init(&out, MAX);
    for (size_t piece = 1; piece <= in->len + 1; piece++) {
        assert_int_equal(decode(name, in, piece, 64, &out, why), err);
        assert_non_null(strstr(why, what));
        assert_non_null(strstr(why, "Content-Encoding"));
        assert_non_null(strstr(why, "or send it uncompressed"));
    }
    buf_release(&out);
}

/* ---- tests ---- */

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(body_encoding_names(), "gzip, deflate, zstd");
    assert_ptr_equal(body_encoding_find("x-gzip"), body_encoding_find("gzip"));
    assert_ptr_equal(body_encoding_find("GZip"), body_encoding_find("gzip"));
    for (size_t i = 0; i < N_NAMES; i++)
        assert_non_null(body_encoding_find(names[i]));
    assert_null(body_encoding_find("br"));
    assert_null(body_encoding_find("gzip, zstd"));
    assert_null(body_encoding_find("gzi"));
    assert_null(body_encoding_find(""));
}

static void test_cut_at_every_byte(void **state)
{
    struct buf in;

    (void)state;
    buf_init(&in, MAX);
    for (size_t i = 0; i < N_NAMES; i++) {
        buf_clear(&in);
        add_encoded(&in, names[i], TEXT, strlen(TEXT));
        expect_text(names[i], &in, TEXT);
        buf_clear(&in);
        add_encoded(&in, names[i], "", 0);
        expect_text(names[i], &in, "");
    }
    buf_release(&in);
}

static void test_ends_too_early(void **state)
{
    struct buf in;

    (void)state;
    buf_init(&in, MAX);
    for (size_t i = 0; i < N_NAMES; i++) {
        buf_clear(&in);
        add_encoded(&in, names[i], TEXT, strlen(TEXT));
        while (in.len > 0) {
            in.len--;
            expect_error(names[i], &in, ERR_FORMAT, "it ends too early");
        }
    }
    buf_release(&in);
}

/* What is accepted is what was compressed: all three formats have a checksum. */
static void test_damaged_bytes(void **state)
{
    char why[300];
    struct buf in, out;
    size_t n_refused = 0;

    (void)state;
    buf_init(&in, MAX);
    buf_init(&out, MAX);
    for (size_t i = 0; i < N_NAMES; i++) {
        buf_clear(&in);
        add_encoded(&in, names[i], TEXT, strlen(TEXT));
        for (size_t at = 0; at < in.len; at++)
            for (int bit = 0; bit < 8; bit++) {
                in.data[at] ^= (char)(1 << bit);
                if (decode(names[i], &in, in.len, 4096, &out, why) < 0)
                    n_refused++;
                else
                    assert_memory_equal(out.data, TEXT, strlen(TEXT));
                in.data[at] ^= (char)(1 << bit);
            }
        in.data[in.len / 2] ^= 0x55;
        expect_error(names[i], &in, ERR_FORMAT, "it is damaged");
    }
    assert_true(n_refused > 1000);
    buf_release(&in);
    buf_release(&out);
}

static void test_bytes_after_the_end(void **state)
{
    struct buf in;

    (void)state;
    buf_init(&in, MAX);
    for (size_t i = 0; i < N_NAMES; i++) {
        buf_clear(&in);
        add_encoded(&in, names[i], TEXT, strlen(TEXT));
        buf_add(&in, "\0\0\0\0", 4);
        expect_error(names[i], &in, ERR_FORMAT, "other bytes follow its end");
        in.len -= 3; /* one byte alone */
        expect_error(names[i], &in, ERR_FORMAT, "other bytes follow its end");
    }
    buf_clear(&in);
    add_encoded(&in, "deflate", TEXT, strlen(TEXT));
    add_encoded(&in, "deflate", TEXT, strlen(TEXT));
    expect_error("deflate", &in, ERR_FORMAT, "other bytes follow its end");
    buf_release(&in);
}

static void test_several_members(void **state)
{
    static const char skipped[] = "\x5a\x2a\x4d\x18\x03\0\0\0abc";
    struct buf in;

    (void)state;
    buf_init(&in, MAX);
    add_encoded(&in, "gzip", "Once", 4);
    add_encoded(&in, "gzip", "", 0);
    add_encoded(&in, "gzip", " upon", 5);
    expect_text("x-gzip", &in, "Once upon");
    in.len--;
    expect_error("gzip", &in, ERR_FORMAT, "what follows it ends too early");
    buf_clear(&in);
    buf_add(&in, skipped, sizeof(skipped) - 1);
    add_encoded(&in, "zstd", "Once", 4);
    add_encoded(&in, "zstd", "", 0);
    buf_add(&in, skipped, sizeof(skipped) - 1);
    add_stored(&in, 0, " upon");
    expect_text("zstd", &in, "Once upon");
    buf_release(&in);
}

static void test_other_formats(void **state)
{
    static const char *const others[] = {
        "\x27\xb5\x2f\xfd\x00\x00\x01\x00\x00", /* zstd 0.7 */
        "\x28\xb5\x2f\xfe\x00\x00\x01\x00\x00",
        "\x50\x2a\x4d\x19\x01\x01\x01\x01\x01",
        "\x37\xa4\x30\xec\x01\x01\x01\x01\x01", /* a dictionary */
        "{\"prompt\": \"a\"}",
    };
    struct buf in;

    (void)state;
    buf_init(&in, MAX);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        buf_clear(&in);
        buf_add(&in, others[i], 9);
        expect_error("zstd", &in, ERR_FORMAT, "it is damaged, or compressed otherwise");
    }
    buf_clear(&in);
    add_zlib(&in, -15, TEXT, strlen(TEXT));
    expect_error("deflate", &in, ERR_FORMAT, "in zlib's format (RFC 1950)");
    expect_error("gzip", &in, ERR_FORMAT, "it is damaged, or compressed otherwise");
    buf_release(&in);
}

/* Nothing but the caller's room says how much one call writes, and memory does not grow. */
static void read_bomb(const char *name, const struct buf *in, uint64_t most_bytes)
{
    struct body_decoder *d = body_decoder_create(body_encoding_find(name));
    const char *at = in->data, *end = in->data + in->len;
    size_t sum = 0, n = 4096;
    char room[4096];

    assert_non_null(d);
    for (; n == sizeof(room); sum += n) {
        assert_int_equal(body_decoder_read(d, &at, end, room, sizeof(room), &n), 0);
        assert_true(body_decoder_bytes(d) <= most_bytes);
    }
    assert_ptr_equal(at, end);
    assert_int_equal(sum, BOMB_BYTES);
    assert_int_equal(body_decoder_end(d), 0);
    body_decoder_destroy(d);
}

static void test_bombs(void **state)
{
    char *zeros = mem_calloc(1, BOMB_BYTES);
    struct buf in;

    (void)state;
    assert_non_null(zeros);
    buf_init(&in, BOMB_BYTES * 2);
    for (size_t i = 0; i < N_NAMES; i++) {
        buf_clear(&in);
        add_encoded(&in, names[i], zeros, BOMB_BYTES);
        assert_true(in.len < BOMB_BYTES / 500);
        read_bomb(names[i], &in, strcmp(names[i], "zstd") == 0 ? (uint64_t)9 << 20 : 48 << 10);
    }
    mem_free(zeros);
    buf_release(&in);
}

static void test_windows(void **state)
{
    struct buf in;

    (void)state;
    buf_init(&in, MAX);
    add_stored(&in, 13 << 3, TEXT); /* 8 MiB */
    expect_text("zstd", &in, TEXT);
    buf_clear(&in);
    add_stored(&in, 13 << 3 | 1, TEXT); /* 9 MiB */
    expect_error("zstd", &in, ERR_LIMIT, "needs a window of more than 8 MiB");
    buf_clear(&in);
    add_stored(&in, 0xff, TEXT);
    expect_error("zstd", &in, ERR_LIMIT, "needs a window of more than 8 MiB");
    buf_release(&in);
}

/* zstd's memory is known as soon as the frame's header has been read. */
static void test_memory_is_counted(void **state)
{
    struct body_decoder *d = body_decoder_create(body_encoding_find("zstd"));
    const uint64_t before = body_decoder_bytes(d);
    const char *at;
    char room[16];
    struct buf in;
    size_t n;

    (void)state;
    buf_init(&in, MAX);
    add_stored(&in, 13 << 3, TEXT);
    at = in.data;
    assert_int_equal(body_decoder_read(d, &at, in.data + 7, room, sizeof(room), &n), 0);
    assert_true(before < 512 << 10);
    assert_true(body_decoder_bytes(d) > BODY_DECODER_MAX_WINDOW);
    assert_true(body_decoder_bytes(d) <= (uint64_t)9 << 20);
    body_decoder_destroy(d);
    buf_release(&in);
}

static void test_no_memory(void **state)
{
    struct buf in, out;
    char why[300];

    (void)state;
    buf_init(&in, MAX);
    buf_init(&out, MAX);
    assert_int_equal(buf_reserve(&out, 1000), 0);
    add_encoded(&in, "gzip", TEXT, strlen(TEXT));
    for (int n = 0; n < 2; n++) {
        mem_fail_after(n);
        assert_null(body_decoder_create(body_encoding_find("gzip")));
        mem_fail_after(-1);
    }
    mem_fail_after(0);
    assert_null(body_decoder_create(body_encoding_find("zstd")));
    mem_fail_after(2); /* the window, which inflate() allocates when it needs it */
    assert_int_equal(decode("gzip", &in, 8, 4, &out, why), ERR_NOMEM);
    mem_fail_after(-1);
    assert_non_null(strstr(why, "no memory"));
    body_decoder_destroy(NULL);
    buf_release(&in);
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_cut_at_every_byte),
        cmocka_unit_test(test_ends_too_early),
        cmocka_unit_test(test_damaged_bytes),
        cmocka_unit_test(test_bytes_after_the_end),
        cmocka_unit_test(test_several_members),
        cmocka_unit_test(test_other_formats),
        cmocka_unit_test(test_bombs),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_memory_is_counted),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
