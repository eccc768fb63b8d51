/* tests/unit/tokenizer/test_detok.c - incremental decoding against a decoder that sees everything
 * at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"
#include "core/formats/gguf/write.h"
#include "core/tokenizer/tokenizer.h"
#include "tests/fixtures/random.h"

#include <stdio.h>
#include <string.h>

#define N_PIECES 8
#define BYTE(b) (3 + (b))
#define PIECE(i) (3 + 256 + (i))

static const char *const pieces[N_PIECES] = {
    "\xE2\x96\x81",     "\xE2\x96\x81hello", "o",       "\xC3\xA9",
    "\xF0\x9F\x98\x80", "\xE4\xB8\x96",      "<0x41>x", "z",
};

/* SentencePiece: unknown, begin, end, all bytes, then `pieces`. */
static struct tokenizer *make_tokenizer(void)
{
    static char names[PIECE(N_PIECES)][16];
    struct gguf_str tokens[PIECE(N_PIECES)];
    int32_t types[PIECE(N_PIECES)];
    float scores[PIECE(N_PIECES)] = {0};
    struct gguf_writer *w;
    struct tokenizer *t;
    struct gguf *g;
    uint8_t *data;
    size_t bytes;
    char err[256];

    for (int i = 0; i < PIECE(N_PIECES); i++) {
        if (i < 3)
            snprintf(names[i], sizeof(names[i]), "%s", i == 0 ? "<unk>" : i == 1 ? "<s>" : "</s>");
        else if (i < PIECE(0))
            snprintf(names[i], sizeof(names[i]), "<0x%02X>", i - BYTE(0));
        else
            snprintf(names[i], sizeof(names[i]), "%s", pieces[i - PIECE(0)]);
        types[i] = i == 0 ? 2 : i < 3 ? 3 : i < PIECE(0) ? 6 : 1;
        tokens[i] = (struct gguf_str){names[i], strlen(names[i])};
    }
    assert_int_equal(gguf_writer_create(&w), 0);
    gguf_writer_str(w, "tokenizer.ggml.model", "llama");
    gguf_writer_str_array(w, "tokenizer.ggml.tokens", tokens, PIECE(N_PIECES));
    gguf_writer_i32_array(w, "tokenizer.ggml.token_type", types, PIECE(N_PIECES));
    gguf_writer_f32_array(w, "tokenizer.ggml.scores", scores, PIECE(N_PIECES));
    assert_int_equal(gguf_writer_finish(w, &data, &bytes), 0);
    gguf_writer_destroy(&w);
    assert_int_equal(gguf_open_memory(&g, "toy", data, bytes, err, sizeof(err)), 0);
    assert_int_equal(tokenizer_create(&t, g, err, sizeof(err)), 0);
    gguf_close(&g);
    mem_free(data);
    return t;
}

/* ---- the slow, obvious decoder */

/* Bytes of the character at s, by its number: shortest form, no surrogate, at most U+10FFFF. */
static size_t character(const uint8_t *s, size_t n)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const size_t len = s[0] < 0x80 ? 1 : s[0] < 0xC0 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    uint32_t c = s[0] & (0xFF >> (len + (len > 1)));

    if (len == 1)
        return 1;
    if (len == 0 || len > n || s[0] >= 0xF8)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3F);
    }
    return c >= least[len] && c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF) ? len : 0;
}

/* Can s[0..n) be the beginning of a character? Tries what could follow. */
static bool can_begin(const uint8_t *s, size_t n)
{
    uint8_t tried[4] = {0};

    memcpy(tried, s, n);
    for (int next = 0x80; n < 4 && next < 0xC0; next++) {
        memset(tried + n, 0x80, 4 - n);
        tried[n] = (uint8_t)next;
        if (character(tried, 4) > n)
            return true;
    }
    return false;
}

/* Valid UTF-8, with one U+FFFD for each longest stretch that begins a character and ends
 * wrongly. */
static void repair(const struct buf *raw, struct buf *out)
{
    const uint8_t *s = (const uint8_t *)raw->data;

    for (size_t i = 0; i < raw->len;) {
        size_t len = character(s + i, raw->len - i);

        if (len > 0) {
            buf_add(out, s + i, len);
        } else {
            for (len = 1; len < 4 && i + len < raw->len && can_begin(s + i, len + 1);)
                len++;
            buf_add_str(out, "\xEF\xBF\xBD");
        }
        i += len;
    }
    assert_int_equal(out->err, 0);
}

static void assert_valid(const char *bytes, size_t n)
{
    for (size_t i = 0; i < n;) {
        const size_t len = character((const uint8_t *)bytes + i, n - i);

        assert_true(len > 0);
        i += len;
    }
}

/* ---- tests */

/* Half bytes that matter in UTF-8, so that characters meet and break. */
static int32_t random_id(uint64_t *seed)
{
    static const uint8_t telling[] = {0x80, 0xBF, 0xC2, 0xC0, 0xE0, 0xE2, 0xED, 0xF0,
                                      0xF4, 0xF5, 0xA0, 0x9F, 0x90, 0x8F, 0xFF, ' '};

    if (random_below(seed, 2))
        return BYTE(telling[random_below(seed, sizeof(telling))]);
    return (int32_t)random_below(seed, PIECE(N_PIECES));
}

static void compare_once(const struct tokenizer *t, uint64_t *seed)
{
    const bool at_start = random_below(seed, 2);
    const size_t n = 1 + random_below(seed, 40);
    struct buf raw, whole, pieced;
    struct detok d;
    bool strip = at_start;

    buf_init(&raw, 4096);
    buf_init(&whole, 4096);
    buf_init(&pieced, 4096);
    detok_init(&d, t, at_start);
    for (size_t i = 0; i < n; i++) {
        const int32_t id = random_id(seed);
        const size_t before = pieced.len;
        size_t len;
        const char *piece = tokenizer_piece(t, id, &len);

        if (!tokenizer_is_control(t, id)) {
            const bool drop = strip && piece[0] == ' ';

            buf_add(&raw, piece + drop, len - drop);
            strip = false;
        }
        assert_int_equal(detok_feed(&d, id, &pieced), 0);
        assert_valid(pieced.data + before, pieced.len - before);
    }
    assert_int_equal(detok_finish(&d, &pieced), 0);
    repair(&raw, &whole);
    assert_int_equal(pieced.len, whole.len);
    if (whole.len > 0)
        assert_memory_equal(pieced.data, whole.data, whole.len);
    buf_release(&raw);
    buf_release(&whole);
    buf_release(&pieced);
}

static void pieces_together_are_the_whole(void **state)
{
    struct tokenizer *t = make_tokenizer();
    uint64_t seed = 20261120;

    (void)state;
    for (int i = 0; i < 20000; i++)
        compare_once(t, &seed);
    tokenizer_destroy(&t);
}

static void feed_and_expect(struct detok *d, int32_t id, const char *expected)
{
    struct buf out;

    buf_init(&out, 64);
    assert_int_equal(detok_feed(d, id, &out), 0);
    assert_string_equal(out.len > 0 ? out.data : "", expected);
    buf_release(&out);
}

static void says_it_as_soon_as_it_is_certain(void **state)
{
    struct tokenizer *t = make_tokenizer();
    struct detok d;
    struct buf out;

    (void)state;
    buf_init(&out, 64);
    detok_init(&d, t, false);
    feed_and_expect(&d, BYTE(0xE4), "");
    feed_and_expect(&d, BYTE(0xB8), "");
    feed_and_expect(&d, BYTE(0x96), "\xE4\xB8\x96");
    feed_and_expect(&d, BYTE(0xFF), "\xEF\xBF\xBD");
    feed_and_expect(&d, BYTE(0xF0), "");
    feed_and_expect(&d, BYTE('x'), "\xEF\xBF\xBDx");
    feed_and_expect(&d, BYTE(0xED), "");
    feed_and_expect(&d, BYTE(0xA0),
                    "\xEF\xBF\xBD\xEF\xBF\xBD"); /* a surrogate: neither byte can stand */
    feed_and_expect(&d, 0, "\xEF\xBF\xBD");      /* the unknown token */
    feed_and_expect(&d, BYTE(0xC3), "");
    assert_int_equal(detok_finish(&d, &out), 0);
    assert_string_equal(out.data, "\xEF\xBF\xBD");
    assert_int_equal(detok_finish(&d, &out), 0);
    assert_int_equal(out.len, 3);
    buf_release(&out);
    tokenizer_destroy(&t);
}

static void drops_the_added_space_once(void **state)
{
    struct tokenizer *t = make_tokenizer();
    struct detok d;

    (void)state;
    detok_init(&d, t, true);
    feed_and_expect(&d, 1, "");
    feed_and_expect(&d, PIECE(1), "hello");
    feed_and_expect(&d, PIECE(1), " hello");
    detok_init(&d, t, true);
    feed_and_expect(&d, PIECE(2), "o");
    feed_and_expect(&d, PIECE(1), " hello");
    detok_init(&d, t, false);
    feed_and_expect(&d, PIECE(1), " hello");
    tokenizer_destroy(&t);
}

static void shows_control_tokens_on_request(void **state)
{
    struct tokenizer *t = make_tokenizer();
    struct detok d;

    (void)state;
    detok_init(&d, t, true);
    d.show_control = true;
    feed_and_expect(&d, 1, "<s>");
    feed_and_expect(&d, PIECE(1), "hello");
    feed_and_expect(&d, 2, "</s>");
    tokenizer_destroy(&t);
}

static void reports_a_full_buffer(void **state)
{
    struct tokenizer *t = make_tokenizer();
    struct detok d;
    struct buf out;

    (void)state;
    buf_init(&out, 7);
    detok_init(&d, t, false);
    assert_int_equal(detok_feed(&d, PIECE(1), &out), 0);
    assert_int_equal(detok_feed(&d, PIECE(1), &out), ERR_LIMIT);
    buf_release(&out);
    tokenizer_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_together_are_the_whole),
        cmocka_unit_test(says_it_as_soon_as_it_is_certain),
        cmocka_unit_test(drops_the_added_space_once),
        cmocka_unit_test(shows_control_tokens_on_request),
        cmocka_unit_test(reports_a_full_buffer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
