/* core/tokenizer/safe_split.c - see safe_split.h.
 *
 * Three bit sets are filled from the vocabulary at load: pairs of neighbouring bytes, those of them
 * that come from pieces which are not UTF-8, and a one-hash filter of neighbouring characters. A
 * search tests the byte pair at each character boundary first, which settles ASCII, and only then
 * the filter. A collision in the filter can only hide a split.
 */
#include "core/tokenizer/safe_split.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "core/tokenizer/vocab.h"

#include <string.h>

#define MIN_BITS (1u << 12)
#define MAX_BITS (1u << 23)

struct byte_pairs {
    uint64_t bits[256][4];
};

struct safe_splits {
    struct byte_pairs seen;   /* neighbouring bytes in a piece, where the second begins a
                               * character */
    struct byte_pairs broken; /* pairs of `seen` that are in a piece that is not UTF-8 */
    uint64_t *characters;     /* a bit for the hash of two neighbouring characters, one of them not
                               * ASCII */
    uint32_t mask;            /* mask of the hash */
};

static bool has_byte_pair(const struct byte_pairs *p, uint8_t a, uint8_t b)
{
    return (p->bits[a][b >> 6] >> (b & 63) & 1) != 0;
}

static void add_byte_pair(struct byte_pairs *p, uint8_t a, uint8_t b)
{
    p->bits[a][b >> 6] |= (uint64_t)1 << (b & 63);
}

static bool begins_character(uint8_t byte)
{
    return (byte & 0xC0) != 0x80;
}

/* Pack the bytes of a character into one number. */
static uint32_t pack(const uint8_t *bytes, size_t n)
{
    uint32_t c = bytes[0];

    for (size_t i = 1; i < n; i++)
        c = c << 8 | bytes[i];
    return c;
}

/* Return the filter's bit for a pair of packed characters. */
static uint32_t bit_of(const struct safe_splits *s, uint32_t x, uint32_t y)
{
    const uint64_t key = (uint64_t)x << 32 | y;

    return (uint32_t)((key * 0x9E3779B97F4A7C15u) >> 32) & s->mask; /* golden ratio hash */
}

/* ---- neighbours in the pieces */

/* Add the piece's characters up to the first byte that is not UTF-8; false: there is such a
 * byte. */
static bool add_characters(struct safe_splits *s, const uint8_t *piece, size_t n)
{
    uint32_t x = 0;

    for (size_t at = 0, len; at < n; at += len) {
        uint32_t y;

        len = utf8_len(piece + at, n - at);
        if (len == 0)
            return false;
        y = pack(piece + at, len);
        if (at > 0)
            add_byte_pair(&s->seen, piece[at - 1], piece[at]);
        if (at > 0 && (x | y) >= 0x80) {
            const uint32_t bit = bit_of(s, x, y);

            s->characters[bit / 64] |= (uint64_t)1 << bit % 64;
        }
        x = y;
    }
    return true;
}

static void add_broken(struct safe_splits *s, const uint8_t *piece, size_t n)
{
    for (size_t at = 1; at < n; at++) {
        if (!begins_character(piece[at]))
            continue;
        add_byte_pair(&s->seen, piece[at - 1], piece[at]);
        add_byte_pair(&s->broken, piece[at - 1], piece[at]);
    }
}

/* Add the pieces that vocab_find() can find. */
static void add_pieces(struct safe_splits *s, const struct vocab *v)
{
    for (int32_t id = 0; id < v->n; id++) {
        size_t n;
        const uint8_t *piece = (const uint8_t *)vocab_piece(v, id, &n);

        if (v->type[id] != TOKEN_NORMAL && v->type[id] != TOKEN_USER_DEFINED)
            continue;
        if (!add_characters(s, piece, n))
            add_broken(s, piece, n);
    }
}

int safe_splits_create(struct safe_splits **out, const struct vocab *v)
{
    struct safe_splits *s = mem_calloc(1, sizeof(*s));
    uint32_t n_bits = MIN_BITS;

    *out = NULL;
    if (s == NULL)
        return ERR_NOMEM;
    while (n_bits < MAX_BITS && n_bits / 4 < v->at[v->n])
        n_bits *= 2;
    s->mask = n_bits - 1;
    s->characters = mem_calloc(n_bits / 64, sizeof(*s->characters));
    if (s->characters == NULL) {
        safe_splits_destroy(&s);
        return ERR_NOMEM;
    }
    add_pieces(s, v);
    *out = s;
    return 0;
}

void safe_splits_destroy(struct safe_splits **safe_splits)
{
    struct safe_splits *s = safe_splits != NULL ? *safe_splits : NULL;

    if (s == NULL)
        return;
    mem_free(s->characters);
    mem_free(s);
    *safe_splits = NULL;
}

/* ---- cutting */

/* True: the pair of characters around `at` is in no piece, though its byte pair is in one. Bytes
 * that are not a character are never separated. */
static bool parts_characters(const struct safe_splits *s, const uint8_t *text, size_t n,
                             size_t from, size_t at)
{
    const size_t n_y = utf8_len(text + at, n - at);
    size_t x = at - 1;
    uint32_t bit;

    while (x > from && at - x < 4 && !begins_character(text[x]))
        x--;
    if (n_y == 0 || utf8_len(text + x, at - x) != at - x)
        return false;
    bit = bit_of(s, pack(text + x, at - x), pack(text + at, n_y));
    return (s->characters[bit / 64] >> bit % 64 & 1) == 0;
}

size_t safe_splits_next(const struct safe_splits *s, const char *bytes, size_t n, size_t from)
{
    const uint8_t *text = (const uint8_t *)bytes;

    if (s == NULL)
        return n;
    for (size_t at = from + 1; at < n; at++) {
        const uint8_t a = text[at - 1], b = text[at];

        if (!begins_character(b))
            continue;
        if (!has_byte_pair(&s->seen, a, b))
            return at;
        if ((a | b) >= 0x80 && !has_byte_pair(&s->broken, a, b) &&
            parts_characters(s, text, n, from, at))
            return at;
    }
    return n;
}
