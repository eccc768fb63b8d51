/* core/grammar/chars.c - a character of some ranges, as sequences of bytes.
 *
 * A range of code points of one encoded length is cut where the ranges of its bytes would depend on
 * each other: U+0080..U+07FF is the one sequence C2-DF 80-BF. Sequences that differ only in the
 * first byte become one.
 */
#include "core/grammar/builder.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/grammar/builder_impl.h"

#include <string.h>
#include <unistr.h>

#define MAX_SEQUENCES 2048

struct sequence {
    uint32_t n; /* bytes */
    struct byte_set lead;
    uint8_t from[3], to[3]; /* from[i] .. to[i]: range of byte i + 1 */
};

struct sequences {
    struct grammar_builder *b;
    struct sequence *at;
    uint32_t n;
};

static struct sequence *find_tail(struct sequences *s, const struct sequence *like)
{
    grammar_builder_spend(s->b, 1 + s->n / 8);
    for (uint32_t i = s->n; i-- > 0;) {
        struct sequence *q = &s->at[i];

        if (q->n == like->n && memcmp(q->from, like->from, 3) == 0 &&
            memcmp(q->to, like->to, 3) == 0)
            return q;
    }
    return NULL;
}

static void add_sequence(struct sequences *s, const uint8_t from[4], const uint8_t to[4],
                         uint32_t n)
{
    struct sequence made = {.n = n}, *q;

    for (uint32_t i = 1; i < n; i++) {
        made.from[i - 1] = from[i];
        made.to[i - 1] = to[i];
    }
    q = find_tail(s, &made);
    if (q == NULL && s->n == MAX_SEQUENCES) {
        grammar_builder_fail(s->b, ERR_LIMIT, "a character class is too large");
        return;
    }
    if (q == NULL) {
        s->at[s->n] = made;
        q = &s->at[s->n++];
    }
    for (uint32_t byte = from[0]; byte <= to[0]; byte++)
        byte_set_add(&q->lead, (uint8_t)byte);
}

/* Both ends have the same encoded length n. Each cut leaves parts that need fewer cuts, so the
 * depth is at most 2 * n. */
static void add_char_range(struct sequences *s, uint32_t from, uint32_t to, uint32_t n)
{
    uint8_t a[4], z[4];

    for (uint32_t i = 1; i < n; i++) {
        const uint32_t low = ((uint32_t)1 << (6 * i)) - 1;

        if ((from & ~low) == (to & ~low))
            continue;
        if ((from & low) != 0) {
            add_char_range(s, from, from | low, n);
            add_char_range(s, (from | low) + 1, to, n);
            return;
        }
        if ((to & low) != low) {
            add_char_range(s, from, (to & ~low) - 1, n);
            add_char_range(s, to & ~low, to, n);
            return;
        }
    }
    u8_uctomb(a, from, sizeof(a));
    u8_uctomb(z, to, sizeof(z));
    add_sequence(s, a, z, n);
}

/* Adds the part of the range within low..high, whose characters have n bytes each. */
static void add_char_part(struct sequences *s, const struct char_range *r, uint32_t low,
                          uint32_t high, uint32_t n)
{
    const uint32_t from = r->from > low ? r->from : low, to = r->to < high ? r->to : high;

    if (from <= to)
        add_char_range(s, from, to, n);
}

static struct grammar_piece piece_of(struct grammar_builder *b, const struct sequence *q)
{
    struct grammar_piece p = grammar_one_of(b, &q->lead);

    for (uint32_t i = 0; i + 1 < q->n; i++) {
        struct byte_set set = {{0}};

        for (uint32_t byte = q->from[i]; byte <= q->to[i]; byte++)
            byte_set_add(&set, (uint8_t)byte);
        p = grammar_then(b, p, grammar_one_of(b, &set));
    }
    return p;
}

struct grammar_piece grammar_chars(struct grammar_builder *b, const struct char_range *ranges,
                                   size_t n)
{
    struct sequences s = {.b = b};
    struct grammar_piece p = {0};
    uint8_t bytes[4];
    int n_bytes = 0;

    if (n == 1 && ranges->from == ranges->to) /* a character needs no list of sequences */
        n_bytes = u8_uctomb(bytes, ranges->from, sizeof(bytes));
    if (n_bytes > 0)
        return grammar_bytes(b, bytes, (size_t)n_bytes);
    s.at = mem_alloc(MAX_SEQUENCES * sizeof(*s.at)); /* entries are written before they are read */
    if (s.at == NULL)
        grammar_builder_fail(b, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < n && grammar_builder_error(b) == 0; i++) {
        add_char_part(&s, &ranges[i], 0, 0x7F, 1);
        add_char_part(&s, &ranges[i], 0x80, 0x7FF, 2);
        add_char_part(&s, &ranges[i], 0x800, 0xD7FF, 3);
        add_char_part(&s, &ranges[i], 0xE000, 0xFFFF, 3);
        add_char_part(&s, &ranges[i], 0x10000, 0x10FFFF, 4);
    }
    if (s.n == 0)
        grammar_builder_fail(b, ERR_INVAL, "a character class is empty");
    for (uint32_t i = 0; i < s.n && grammar_builder_error(b) == 0; i++)
        p = i == 0 ? piece_of(b, &s.at[i]) : grammar_or(b, p, piece_of(b, &s.at[i]));
    mem_free(s.at);
    return p;
}
