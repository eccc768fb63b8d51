/* core/grammar/json_schema_multiple.c - numbers that are multiples of another.
 *
 * Few of them are written out. Otherwise the digits are gone through with the remainder of what was
 * read: what can follow is a rule for each remainder and each number of digits that are left.
 */
#include "core/grammar/json_schema_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <stdio.h>
#include <string.h>

#define MAX_LISTED 2000 /* written out */
#define FEW 300         /* written out although there are few remainders */
#define MAX_MODULUS 400 /* remainders */
#define MAX_DIGITS 18

struct digits {
    struct schema *s;
    int64_t modulus, power[MAX_DIGITS + 1];
    uint32_t decimals;
    uint32_t *loose;        /* [MAX_DIGITS][MAX_MODULUS] rule + 1, or 0: any digits may follow */
    char low[24], high[24]; /* digits of the same length */
    uint32_t n;
};

/* ---- written out ---- */

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b > 0);
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static struct grammar_piece listed(struct schema *s, const struct schema_multiples *m, int64_t from,
                                   int64_t to)
{
    const uint32_t n = (uint32_t)(to - from + 1);
    char(*texts)[48] = mem_calloc(n, sizeof(*texts));
    struct text_ref *refs = mem_calloc(n, sizeof(*refs));
    struct grammar_piece p = {0};
    int64_t unit = 1;

    for (uint32_t i = 0; i < m->zeros + m->decimals; i++)
        unit *= 10;
    for (uint32_t i = 0; texts != NULL && refs != NULL && i < n; i++) {
        const int64_t v = (from + i) * m->modulus, size = v < 0 ? -v : v;

        if (m->decimals > 0)
            snprintf(texts[i], sizeof(texts[i]), "%s%lld.%0*lld", v < 0 ? "-" : "",
                     (long long)(size / unit), (int)m->decimals, (long long)(size % unit));
        else
            snprintf(texts[i], sizeof(texts[i]), "%lld", (long long)(v * unit));
        refs[i] = (struct text_ref){texts[i], strlen(texts[i])};
    }
    if (texts == NULL || refs == NULL)
        grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
    else if (grammar_builder_spend(s->b, 20 * (uint64_t)n) == 0)
        p = grammar_choice(s->b, refs, n);
    mem_free(texts);
    mem_free(refs);
    return p;
}

/* ---- by remainders ---- */

static struct grammar_piece digit(struct digits *d, uint32_t at, int value)
{
    const char text[3] = {'.', (char)('0' + value), '\0'};

    return grammar_text(d->s->b, d->decimals > 0 && at == d->n - d->decimals ? text : text + 1);
}

/* Can `left` more digits make a multiple of it? */
static bool is_possible(const struct digits *d, int64_t rest, uint32_t left)
{
    const int64_t made = rest * (d->power[left] % d->modulus) % d->modulus;
    const int64_t wanted = made == 0 ? 0 : d->modulus - made;

    return wanted < d->power[left];
}

/* The rule of the last `left` digits behind the remainder; the point is `decimals` before the end.
 */
static uint32_t loose_rule(struct digits *d, int64_t rest, uint32_t left)
{
    uint32_t *slot = &d->loose[(size_t)left * MAX_MODULUS + (size_t)rest];
    struct grammar_builder *b = d->s->b;
    struct grammar_piece p = {0}, q;
    bool any = false;

    if (*slot > 0 || schema_has_failed(d->s))
        return *slot - 1;
    *slot = grammar_rule(b, "digits") + 1;
    for (int i = 0; left > 1 && i < 10; i++) /* these rules first */
        if (is_possible(d, (rest * 10 + i) % d->modulus, left - 1))
            loose_rule(d, (rest * 10 + i) % d->modulus, left - 1);
    for (int i = 0; i < 10; i++) {
        const int64_t next = (rest * 10 + i) % d->modulus;

        if (!is_possible(d, next, left - 1))
            continue;
        q = digit(d, d->n - left, i);
        if (left > 1)
            q = grammar_then(b, q, grammar_call(b, loose_rule(d, next, left - 1)));
        p = any ? grammar_or(b, p, q) : q;
        any = true;
    }
    grammar_define(b, *slot - 1, p);
    return *slot - 1;
}

/* Digits from `at` on, on the lower end of the range, the upper one, or both. False: none. */
static bool tight(struct digits *d, uint32_t at, int64_t rest, bool on_low, bool on_high,
                  struct grammar_piece *out)
{
    const int from = on_low ? d->low[at] - '0' : 0, to = on_high ? d->high[at] - '0' : 9;
    struct grammar_builder *b = d->s->b;
    bool any = false;

    for (int i = from; i <= to && !schema_has_failed(d->s); i++) {
        const bool low = on_low && i == from, high = on_high && i == to;
        const int64_t next = (rest * 10 + i) % d->modulus;
        const uint32_t left = d->n - at - 1;
        struct grammar_piece p, more = {0};
        uint32_t rule = 0;

        if (!is_possible(d, next, left) ||
            (left > 0 && (low || high) && !tight(d, at + 1, next, low, high, &more)))
            continue;
        if (left > 0 && !low && !high)
            rule = loose_rule(d, next, left);
        p = digit(d, at, i);
        if (left > 0)
            p = grammar_then(b, p, low || high ? more : grammar_call(b, rule));
        *out = any ? grammar_or(b, *out, p) : p;
        any = true;
    }
    return any;
}

/* Multiples in low .. high, 0 < low, one alternative for each length. */
static void add_positive(struct digits *d, const char *sign, int64_t low, int64_t high,
                         uint32_t zeros, bool *any, struct grammar_piece *out)
{
    struct grammar_builder *b = d->s->b;

    for (d->n = d->decimals + 1; d->n <= MAX_DIGITS && low <= high; d->n++) {
        const int64_t last = d->power[d->n] - 1, end = high < last ? high : last;
        struct grammar_piece p, q = {0};

        if (low > last)
            continue;
        snprintf(d->low, sizeof(d->low), "%0*lld", (int)d->n, (long long)low);
        snprintf(d->high, sizeof(d->high), "%0*lld", (int)d->n, (long long)end);
        low = end + 1;
        if (!tight(d, 0, 0, true, true, &q) || schema_has_failed(d->s))
            continue;
        p = grammar_then(b, grammar_text(b, sign), q);
        for (uint32_t i = 0; i < zeros; i++)
            p = grammar_then(b, p, grammar_text(b, "0"));
        *out = *any ? grammar_or(b, *out, p) : p;
        *any = true;
    }
}

static bool by_remainders(struct schema *s, const struct schema_multiples *m, int64_t low,
                          int64_t high, struct grammar_piece *out)
{
    struct digits d = {.s = s, .modulus = m->modulus, .decimals = m->decimals, .power = {1}};
    bool any = false;

    for (uint32_t i = 1; i <= MAX_DIGITS; i++)
        d.power[i] = 10 * d.power[i - 1];
    d.loose = mem_calloc((MAX_DIGITS + 1) * MAX_MODULUS, sizeof(*d.loose));
    if (d.loose == NULL) {
        grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
        return false;
    }
    if (low < 0)
        add_positive(&d, "-", high < 0 ? -high : 1, -low, m->zeros, &any, out);
    if (high > 0)
        add_positive(&d, "", low > 0 ? low : 1, high, m->zeros, &any, out);
    mem_free(d.loose);
    if (low <= 0 && high >= 0 && !schema_has_failed(s)) {
        const struct grammar_piece p = listed(s, m, 0, 0);

        *out = any ? grammar_or(s->b, *out, p) : p;
        any = true;
    }
    return any;
}

bool schema_multiples(struct schema *s, const struct schema_multiples *m, struct grammar_piece *out)
{
    int64_t unit = 1, from, to, low, high;

    for (uint32_t i = 0; i < m->zeros; i++)
        unit *= 10;
    low = ceil_div(m->low, unit); /* in units of 10^zeros */
    high = floor_div(m->high, unit);
    from = ceil_div(low, m->modulus); /* of the modulus */
    to = floor_div(high, m->modulus);
    if (from > to || schema_has_failed(s))
        return false;
    if (to - from >= FEW && m->modulus <= MAX_MODULUS)
        return by_remainders(s, m, low, high, out);
    if (to - from >= MAX_LISTED) { /* those around zero, or next to it */
        from = from > -MAX_LISTED / 2 ? from : to < 0 ? to - MAX_LISTED + 1 : -MAX_LISTED / 2;
        to = to - from >= MAX_LISTED ? from + MAX_LISTED - 1 : to;
    }
    *out = listed(s, m, from, to);
    return true;
}
