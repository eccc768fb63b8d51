/* core/grammar/json_schema_multiple.c - numbers that are multiples of another.
 *
 * Few multiples are written out. Otherwise the digits are a deterministic automaton whose state is
 * the remainder of the digits so far: a rule for each remainder and each number of digits that are
 * left. Only along the two ends of the range are digits compared with the bounds (tight()).
 */
#include "core/grammar/json_schema_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <stdio.h>
#include <string.h>

#define MAX_LISTED 2000 /* multiples that are written out at most */
#define FEW 300         /* fewer multiples are written out in any case */
#define MAX_MODULUS 400 /* largest modulus, so the most remainders */

struct digits {
    struct schema *s;
    int64_t modulus;
    __int128 power[SCHEMA_MAX_DIGITS + 1];
    uint32_t decimals;
    uint32_t *loose; /* [SCHEMA_MAX_DIGITS][MAX_MODULUS] rule + 1, or 0: any digits may follow */
    char low[SCHEMA_DIGITS_ROOM], high[SCHEMA_DIGITS_ROOM]; /* digits of both bounds, each n
                                                             * characters */
    uint32_t n;
};

/* ---- written out ---- */

static __int128 ceil_div(__int128 a, __int128 b)
{
    return a / b + (a % b > 0);
}

static __int128 floor_div(__int128 a, __int128 b)
{
    return a / b - (a % b < 0);
}

/* Prints v, in units of 10^-decimals or of 10^zeros. */
static void print_multiple(char out[static 48], __int128 v, const struct schema_multiples *m)
{
    char digits[SCHEMA_DIGITS_ROOM];
    const __int128 size = (v < 0 ? -v : v) * schema_power_of_ten(m->zeros);
    const uint32_t n = schema_print_digits(digits, size, m->decimals + 1);

    snprintf(out, 48, "%s%.*s%s%s", v < 0 ? "-" : "", (int)(n - m->decimals), digits,
             m->decimals > 0 ? "." : "", digits + n - m->decimals);
}

static struct grammar_piece listed(struct schema *s, const struct schema_multiples *m,
                                   __int128 from, __int128 to)
{
    const uint32_t n = (uint32_t)(to - from + 1);
    char(*texts)[48] = mem_calloc(n, sizeof(*texts));
    struct text_ref *refs = mem_calloc(n, sizeof(*refs));
    struct grammar_piece p = {0};

    for (uint32_t i = 0; texts != NULL && refs != NULL && i < n; i++) {
        print_multiple(texts[i], (from + i) * m->modulus, m);
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

/* True: `left` more digits after remainder `rest` can make a multiple. */
static bool is_possible(const struct digits *d, int64_t rest, uint32_t left)
{
    const int64_t made = rest * (int64_t)(d->power[left] % d->modulus) % d->modulus;
    const int64_t wanted = made == 0 ? 0 : d->modulus - made;

    return wanted < d->power[left];
}

/* Returns the rule of the last `left` digits after remainder `rest`; the point stands `decimals`
 * digits before the end. */
static uint32_t loose_rule(struct digits *d, int64_t rest, uint32_t left)
{
    uint32_t *slot = &d->loose[(size_t)left * MAX_MODULUS + (size_t)rest];
    struct grammar_builder *b = d->s->b;
    struct grammar_piece p = {0}, q;
    bool any = false;

    if (*slot > 0 || schema_has_failed(d->s))
        return *slot - 1;
    *slot = grammar_rule(b, "digits") + 1;
    for (int i = 0; left > 1 && i < 10; i++) /* rules first: a piece is contiguous */
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

/* Writes the digits from `at` on, where all digits so far are those of the range's lower end, upper
 * end, or both. False: there are none. */
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

/* Adds the multiples in low .. high, 0 < low, one alternative for each length. */
static void add_positive(struct digits *d, const char *sign, __int128 low, __int128 high,
                         uint32_t zeros, bool *any, struct grammar_piece *out)
{
    struct grammar_builder *b = d->s->b;

    for (d->n = d->decimals + 1; d->n <= SCHEMA_MAX_DIGITS && low <= high; d->n++) {
        const __int128 last = d->power[d->n] - 1, end = high < last ? high : last;
        struct grammar_piece p, q = {0};

        if (low > last)
            continue;
        schema_print_digits(d->low, low, d->n);
        schema_print_digits(d->high, end, d->n);
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

static bool by_remainders(struct schema *s, const struct schema_multiples *m, __int128 low,
                          __int128 high, struct grammar_piece *out)
{
    struct digits d = {.s = s, .modulus = (int64_t)m->modulus, .decimals = m->decimals};
    bool any = false;

    for (uint32_t i = 0; i <= SCHEMA_MAX_DIGITS; i++)
        d.power[i] = schema_power_of_ten(i);
    d.loose = mem_calloc((SCHEMA_MAX_DIGITS + 1) * MAX_MODULUS, sizeof(*d.loose));
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
    const __int128 unit = schema_power_of_ten(m->zeros);
    const __int128 low = ceil_div(m->low, unit), high = floor_div(m->high, unit);
    __int128 from = ceil_div(low, m->modulus), to = floor_div(high, m->modulus);

    if (from > to || schema_has_failed(s))
        return false;
    if (to - from >= FEW && m->modulus <= MAX_MODULUS)
        return by_remainders(s, m, low, high, out);
    if (to - from >= MAX_LISTED) { /* keeps those around zero, or nearest to it */
        from = from > -MAX_LISTED / 2 ? from : to < 0 ? to - MAX_LISTED + 1 : -MAX_LISTED / 2;
        to = to - from >= MAX_LISTED ? from + MAX_LISTED - 1 : to;
    }
    *out = listed(s, m, from, to);
    return true;
}
