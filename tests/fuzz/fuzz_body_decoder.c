/* tests/fuzz/fuzz_body_decoder.c - libFuzzer: any bytes as a compressed body. The first byte of the
 * input chooses the encoding.
 *
 * What the decoder makes of them, and its error, must not depend on how they are cut and on how
 * much one call may write; but of the bytes before damaged ones libzstd may write more or less. Its
 * memory stays within what the header says.
 */
#include <string.h>

#include "core/base/buf.h"
#include "server/http/body_decoder.h"
#include "tests/fuzz/target.h"

#define MAX ((size_t)1 << 20)   /* decoded bytes, after which the reader stops */
#define ROOM ((size_t)16 << 10) /* most bytes that one call may write */

struct outcome {
    struct buf bytes;
    int rc;
    char why[300];
};

/* Pass one piece to the decoder, and take all that comes of it. */
static void read_piece(struct body_decoder *d, const char *at, const char *end, size_t max,
                       struct outcome *o)
{
    char room[ROOM];
    size_t n = max;

    while (o->rc == 0 && n == max && o->bytes.len < MAX) {
        o->rc = body_decoder_read(d, &at, end, room, max, &n);
        require(n <= max && at <= end);
        require(buf_add(&o->bytes, room, n) == 0);
        require(body_decoder_bytes(d) <= (uint64_t)9 << 20);
    }
    require(o->rc < 0 || at == end || o->bytes.len >= MAX);
}

static void decode(const struct body_encoding *e, const char *bytes, size_t n, size_t piece,
                   size_t max, struct outcome *o)
{
    struct body_decoder *d = body_decoder_create(e);

    require(d != NULL);
    buf_init(&o->bytes, MAX + ROOM);
    o->rc = 0;
    for (size_t from = 0; from < n && o->rc == 0 && o->bytes.len < MAX; from += piece)
        read_piece(d, bytes + from, bytes + (n - from < piece ? n : from + piece), max, o);
    if (o->rc == 0 && o->bytes.len < MAX)
        o->rc = body_decoder_end(d);
    body_decoder_explain(d, o->rc, o->why, sizeof(o->why));
    body_decoder_destroy(d);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The reader stops at MAX bytes, of which it may not have seen the end. */
static void compare(const struct outcome *a, const struct outcome *b)
{
    const size_t n = least(least(a->bytes.len, b->bytes.len), MAX);

    require(n == 0 || memcmp(a->bytes.data, b->bytes.data, n) == 0);
    if (a->bytes.len >= MAX || b->bytes.len >= MAX)
        return;
    require(a->rc == b->rc && strcmp(a->why, b->why) == 0);
    require(a->rc < 0 || a->bytes.len == b->bytes.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const names[] = {"gzip", "deflate", "zstd"};
    static const struct {
        size_t piece, max;
    } ways[] = {{1, ROOM}, {3, 7}, {64, 1000}};
    const struct body_encoding *e = n > 0 ? body_encoding_find(names[data[0] % 3]) : NULL;
    const char *bytes = (const char *)data + 1;
    struct outcome whole, other;

    if (e == NULL)
        return 0;
    decode(e, bytes, n - 1, n, ROOM, &whole);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        decode(e, bytes, n - 1, ways[i].piece, ways[i].max, &other);
        compare(&whole, &other);
        buf_release(&other.bytes);
    }
    buf_release(&whole.bytes);
    return 0;
}
