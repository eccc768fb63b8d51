/* core/grammar/json_schema_number.c - JSON numbers of a schema.
 *
 * A range becomes the decimal numbers in it, written without an exponent: whole numbers, and those
 * with one, two or, where the bounds need them, more digits behind the point, as whole numbers of
 * tenths, hundredths and so on.
 */
#include "core/grammar/json_schema_impl.h"

#include "core/grammar/regex.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 999999999999999   /* of a whole number: below 2^53, so a double has all of them */
#define MOST_WHOLE 99999999999 /* of what stands before a point */
#define MAX_DECIMALS 6         /* digits behind it; with those before they fit into 64 bits */

/* ---- digits ---- */

static struct grammar_piece digits(struct schema *s, char from, char to, uint32_t n)
{
    struct byte_set set = {{0}};
    struct grammar_piece p;

    for (char c = from; c <= to; c++)
        byte_set_add(&set, (uint8_t)c);
    p = grammar_one_of(s->b, &set);
    return n == 1 ? p : grammar_repeat(s->b, p, n, n);
}

struct digits_range {
    char low[24], high[24]; /* of the same length */
    uint32_t n;
    uint32_t point; /* digits before it; n = there is none */
};

/* What stands before digit `at`: the point, or nothing. */
static struct grammar_piece point(struct schema *s, const struct digits_range *r, uint32_t at)
{
    return grammar_text(s->b, at == r->point && at < r->n ? "." : "");
}

static struct grammar_piece any_behind(struct schema *s, const struct digits_range *r, uint32_t at)
{
    struct grammar_piece p = grammar_empty(s->b);

    for (; at < r->n; at++) {
        p = grammar_then(s->b, p, point(s, r, at));
        p = grammar_then(s->b, p, digits(s, '0', '9', 1));
    }
    return p;
}

/* Digits from `at` on that are not below low's (or not above high's). */
static struct grammar_piece bound_behind(struct schema *s, const struct digits_range *r,
                                         uint32_t at, bool is_low)
{
    const char edge = is_low ? r->low[at] : r->high[at];
    struct grammar_piece p = point(s, r, at), on_edge, beside;

    if (at == r->n)
        return p;
    on_edge = digits(s, edge, edge, 1);
    on_edge = grammar_then(s->b, on_edge, bound_behind(s, r, at + 1, is_low));
    if (edge != (is_low ? '9' : '0')) {
        beside = is_low ? digits(s, (char)(edge + 1), '9', 1) : digits(s, '0', (char)(edge - 1), 1);
        beside = grammar_then(s->b, beside, any_behind(s, r, at + 1));
        on_edge = grammar_or(s->b, on_edge, beside);
    }
    return grammar_then(s->b, p, on_edge);
}

/* Where both ends part: the lower end's digit, those between, the upper end's. */
static struct grammar_piece parting(struct schema *s, const struct digits_range *r, uint32_t at)
{
    const char low = r->low[at], high = r->high[at];
    struct grammar_piece p = digits(s, low, low, 1), q;

    p = grammar_then(s->b, p, bound_behind(s, r, at + 1, true));
    q = digits(s, high, high, 1);
    q = grammar_then(s->b, q, bound_behind(s, r, at + 1, false));
    p = grammar_or(s->b, p, q);
    if (high - low < 2)
        return p;
    q = digits(s, (char)(low + 1), (char)(high - 1), 1);
    q = grammar_then(s->b, q, any_behind(s, r, at + 1));
    return grammar_or(s->b, p, q);
}

static struct grammar_piece behind(struct schema *s, const struct digits_range *r, uint32_t at)
{
    struct grammar_piece p = point(s, r, at);

    if (at == r->n)
        return p;
    if (r->low[at] != r->high[at])
        return grammar_then(s->b, p, parting(s, r, at));
    p = grammar_then(s->b, p, digits(s, r->low[at], r->low[at], 1));
    return grammar_then(s->b, p, behind(s, r, at + 1));
}

/* ---- whole numbers of 10^-decimals ---- */

struct sum_of { /* alternatives, of which there may be none */
    struct grammar_piece p;
    bool any;
};

static void add(struct schema *s, struct sum_of *sum, struct grammar_piece p)
{
    sum->p = sum->any ? grammar_or(s->b, sum->p, p) : p;
    sum->any = true;
}

static int64_t power_of_ten(uint32_t n)
{
    int64_t power = 1;

    while (n-- > 0)
        power *= 10;
    return power;
}

/* Numbers low .. high, 0 <= low: one alternative for each length. At least one digit stands before
 * the point. */
static void add_positive(struct schema *s, struct sum_of *sum, const char *sign, int64_t low,
                         int64_t high, uint32_t decimals)
{
    for (uint32_t n = decimals + 1; n <= 18 && low <= high; n++) {
        const int64_t last = power_of_ten(n) - 1, end = high < last ? high : last;
        struct digits_range r = {.n = n, .point = n - decimals};
        struct grammar_piece p;

        if (low > last)
            continue;
        snprintf(r.low, sizeof(r.low), "%0*lld", (int)n, (long long)low);
        snprintf(r.high, sizeof(r.high), "%0*lld", (int)n, (long long)end);
        p = grammar_text(s->b, sign);
        add(s, sum, grammar_then(s->b, p, behind(s, &r, 0)));
        low = end + 1;
    }
}

static void add_range(struct schema *s, struct sum_of *sum, int64_t low, int64_t high,
                      uint32_t decimals)
{
    if (low < 0)
        add_positive(s, sum, "-", high < 0 ? -high : 1, -low, decimals);
    if (high >= 0)
        add_positive(s, sum, "", low > 0 ? low : 0, high, decimals);
}

/* ---- bounds ---- */

struct bounds {
    double low, high; /* infinite where there is none */
    bool low_is_out, high_is_out;
    bool any;
};

static double bound(struct schema *s, const struct schema_node *at, const char *keyword,
                    double otherwise)
{
    const cJSON *v = schema_get(at->schema, keyword);

    if (v == NULL)
        return otherwise;
    if (!cJSON_IsNumber(v) || !isfinite(v->valuedouble)) {
        schema_refuse(s, at, "'%s' must be a number", keyword);
        return otherwise;
    }
    return v->valuedouble;
}

static struct bounds read_bounds(struct schema *s, const struct schema_node *at)
{
    struct bounds b = {.low = bound(s, at, "minimum", -INFINITY),
                       .high = bound(s, at, "maximum", INFINITY)};
    const double above = bound(s, at, "exclusiveMinimum", -INFINITY);
    const double beneath = bound(s, at, "exclusiveMaximum", INFINITY);

    if (above >= b.low && isfinite(above)) {
        b.low = above;
        b.low_is_out = true;
    }
    if (beneath <= b.high && isfinite(beneath)) {
        b.high = beneath;
        b.high_is_out = true;
    }
    b.any = isfinite(b.low) || isfinite(b.high);
    return b;
}

/* The number as whole 10^-decimals, rounded; *side is where that lies: below the number (-1), on it
 * or above it. Far numbers become the limit. */
static int64_t scaled(double v, uint32_t decimals, int64_t limit, int *side)
{
    char text[400], *dot;
    double rounded;

    *side = 0;
    if (v >= (double)limit)
        return limit * power_of_ten(decimals);
    if (v <= (double)-limit)
        return -limit * power_of_ten(decimals);
    snprintf(text, sizeof(text), "%.*f", (int)decimals, v);
    rounded = strtod(text, NULL);
    *side = (rounded > v) - (rounded < v);
    dot = strchr(text, '.');
    if (dot != NULL)
        memmove(dot, dot + 1, strlen(dot));
    return strtoll(text, NULL, 10);
}

static int64_t lowest(const struct bounds *b, uint32_t decimals, int64_t limit)
{
    int side;
    const int64_t n = scaled(b->low, decimals, limit, &side);

    return side < 0 || (side == 0 && b->low_is_out) ? n + 1 : n;
}

static int64_t highest(const struct bounds *b, uint32_t decimals, int64_t limit)
{
    int side;
    const int64_t n = scaled(b->high, decimals, limit, &side);

    return side > 0 || (side == 0 && b->high_is_out) ? n - 1 : n;
}

/* Digits behind the point that tell the bounds apart from their neighbours: two at least. */
static uint32_t decimals_for(const struct bounds *b)
{
    for (uint32_t decimals = 2; decimals < MAX_DECIMALS; decimals++) {
        int low = 0, high = 0;

        if (isfinite(b->low))
            scaled(b->low, decimals, MOST_WHOLE, &low);
        if (isfinite(b->high))
            scaled(b->high, decimals, MOST_WHOLE, &high);
        if (low == 0 && high == 0)
            return decimals;
    }
    return MAX_DECIMALS;
}

static struct grammar_piece bounded(struct schema *s, const struct schema_node *at,
                                    const struct bounds *b, bool integers)
{
    const uint32_t decimals = decimals_for(b);
    struct sum_of sum = {.any = false};

    if (b->low > (double)MOST || b->high < (double)-MOST)
        return schema_refuse(s, at, "bounds beyond %lld are not supported", (long long)MOST);
    add_range(s, &sum, lowest(b, 0, MOST), highest(b, 0, MOST), 0);
    for (uint32_t n = 1;
         !integers && n <= decimals && b->low <= MOST_WHOLE && b->high >= -(double)MOST_WHOLE; n++)
        add_range(s, &sum, lowest(b, n, MOST_WHOLE), highest(b, n, MOST_WHOLE), n);
    if (!sum.any)
        return schema_refuse(s, at, "no number is within the bounds");
    return sum.p;
}

/* ---- without bounds ---- */

static struct grammar_piece whole(struct schema *s)
{
    static const char regex[] = "-?(0|[1-9][0-9]{0,15})";

    return grammar_regex(s->b, regex, sizeof(regex) - 1, 0);
}

struct grammar_piece schema_any_number(struct schema *s)
{
    static const char regex[] = "-?(0|[1-9][0-9]{0,15})(\\.[0-9]{1,16})?([eE][+-]?[0-9]{1,2})?";

    return grammar_regex(s->b, regex, sizeof(regex) - 1, 0);
}

/* ---- multiples ---- */

/* v = *whole * 10^*power, as short as it is written; false: it has too many digits. */
static bool take_apart(double v, int64_t *whole, int *power)
{
    char text[40], *e;

    if (!(v > 0) || !isfinite(v))
        return false;
    snprintf(text, sizeof(text), "%.14e", v);
    e = strchr(text, 'e');
    *power = (int)strtol(e + 1, NULL, 10) - 14;
    *e = '\0';
    memmove(text + 1, text + 2, strlen(text + 1)); /* the point */
    for (*whole = strtoll(text, NULL, 10); *whole % 10 == 0; ++*power)
        *whole /= 10;
    return *power >= -MAX_DECIMALS && *power <= 14 && *whole <= MOST_WHOLE;
}

static struct grammar_piece multiples(struct schema *s, const struct schema_node *at,
                                      const struct bounds *b, bool integers, const cJSON *of)
{
    struct schema_multiples m = {.low = lowest(b, 0, MOST), .high = highest(b, 0, MOST)};
    struct sum_of sum = {.any = false};
    struct grammar_piece p;
    int64_t whole_of;
    int power;

    if (!cJSON_IsNumber(of) || !take_apart(of->valuedouble, &whole_of, &power))
        return schema_refuse(s, at,
                             "'multipleOf' must be a number above 0 with at most %d digits "
                             "behind the point",
                             MAX_DECIMALS);
    m.modulus = whole_of; /* whole numbers first: v * 10^decimals is a multiple */
    m.zeros = power > 0 ? (uint32_t)power : 0;
    for (int i = power; i < 0; i++)
        m.modulus = m.modulus % 10 == 0  ? m.modulus / 10
                    : m.modulus % 2 == 0 ? m.modulus / 2
                    : m.modulus % 5 == 0 ? m.modulus / 5
                                         : m.modulus;
    if (schema_multiples(s, &m, &p))
        add(s, &sum, p);
    if (!integers && power < 0) {
        m.decimals = (uint32_t)-power;
        m.modulus = whole_of;
        m.low = lowest(b, m.decimals, MOST_WHOLE);
        m.high = highest(b, m.decimals, MOST_WHOLE);
        if (schema_multiples(s, &m, &p))
            add(s, &sum, p);
    }
    if (!sum.any)
        return schema_refuse(s, at, "no multiple is within the bounds");
    return sum.p;
}

struct grammar_piece schema_number(struct schema *s, const struct schema_node *at, bool integers)
{
    const cJSON *of = schema_get(at->schema, "multipleOf");
    const struct bounds b = read_bounds(s, at);

    if (schema_has_failed(s))
        return (struct grammar_piece){0};
    if (of != NULL && !(cJSON_IsNumber(of) && of->valuedouble == 1.0))
        return multiples(s, at, &b, integers, of);
    integers = integers || of != NULL;
    if (b.any)
        return bounded(s, at, &b, integers);
    return integers ? whole(s) : schema_any_number(s);
}
