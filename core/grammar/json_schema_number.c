/* core/grammar/json_schema_number.c - JSON numbers of a schema.
 *
 * A range becomes the decimal numbers in it, written without an exponent: whole numbers, and those
 * with one, two or, if the bounds need them, more digits after the point, which are whole numbers
 * of tenths, hundredths and so on. Such a range is cut by length, and then digit by digit where
 * both ends part. Bounds are decimals of any length (core/json/json_number.h), never doubles.
 */
#include "core/grammar/json_schema_impl.h"

#include "core/grammar/regex.h"
#include "core/json/json_number.h"

/* Digits of numbers, unless a bound needs more: a double holds all whole numbers of WHOLE_DIGITS
 * digits, and all numbers of DIGITS_BEFORE_POINT with MAX_DECIMALS after the point. */
#define WHOLE_DIGITS 15
#define DIGITS_BEFORE_POINT 11
#define MAX_DECIMALS 6   /* digits after the point */
#define MOST_DECIMALS 20 /* digits after the point if no number with fewer is in range */
#define MOST_MULTIPLES 3 /* digits beyond those of a multipleOf: hundreds of multiples */

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
    char low[SCHEMA_DIGITS_ROOM], high[SCHEMA_DIGITS_ROOM]; /* digits of both bounds, each n
                                                             * characters */
    uint32_t n;
    uint32_t point; /* digits before the point; n: there is none */
};

/* Writes the point if it stands before digit `at`, else nothing. */
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

/* Writes digits from `at` on that are not below low's (or not above high's). */
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

/* Writes the digit where both ends part: the lower end's, those between, or the upper end's. */
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

static struct grammar_piece digits_behind(struct schema *s, const struct digits_range *r,
                                          uint32_t at)
{
    struct grammar_piece p = point(s, r, at);

    if (at == r->n)
        return p;
    if (r->low[at] != r->high[at])
        return grammar_then(s->b, p, parting(s, r, at));
    p = grammar_then(s->b, p, digits(s, r->low[at], r->low[at], 1));
    return grammar_then(s->b, p, digits_behind(s, r, at + 1));
}

/* ---- whole numbers of 10^-decimals ---- */

struct sum_of { /* a choice that may have no alternative yet */
    struct grammar_piece p;
    bool any;
};

static void add_alternative(struct schema *s, struct sum_of *sum, struct grammar_piece p)
{
    sum->p = sum->any ? grammar_or(s->b, sum->p, p) : p;
    sum->any = true;
}

__int128 schema_power_of_ten(uint32_t n)
{
    __int128 power = 1;

    while (n-- > 0)
        power *= 10;
    return power;
}

uint32_t schema_print_digits(char out[static SCHEMA_DIGITS_ROOM], __int128 v, uint32_t least)
{
    char back[SCHEMA_DIGITS_ROOM];
    uint32_t n = 0;

    for (; v > 0 || n < least; v /= 10)
        back[n++] = (char)('0' + (int)(v % 10));
    for (uint32_t i = 0; i < n; i++)
        out[i] = back[n - 1 - i];
    out[n] = '\0';
    return n;
}

/* Adds the numbers low .. high, 0 <= low: one alternative for each length, with at least one digit
 * before the point. */
static void add_positive(struct schema *s, struct sum_of *sum, const char *sign, __int128 low,
                         __int128 high, uint32_t decimals)
{
    for (uint32_t n = decimals + 1; n <= SCHEMA_MAX_DIGITS && low <= high; n++) {
        const __int128 last = schema_power_of_ten(n) - 1, end = high < last ? high : last;
        struct digits_range r = {.n = n, .point = n - decimals};
        struct grammar_piece p;

        if (low > last)
            continue;
        schema_print_digits(r.low, low, n);
        schema_print_digits(r.high, end, n);
        p = grammar_text(s->b, sign);
        add_alternative(s, sum, grammar_then(s->b, p, digits_behind(s, &r, 0)));
        low = end + 1;
    }
}

static void add_number_range(struct schema *s, struct sum_of *sum, __int128 low, __int128 high,
                             uint32_t decimals)
{
    if (low < 0)
        add_positive(s, sum, "-", high < 0 ? -high : 1, -low, decimals);
    if (high >= 0)
        add_positive(s, sum, "", low > 0 ? low : 0, high, decimals);
}

/* ---- bounds ---- */

struct bounds {
    struct json_decimal low, high;
    bool has_low, has_high;
    bool low_is_out, high_is_out;
};

static bool bound(struct schema *s, const struct schema_node *at, const char *keyword,
                  struct json_decimal *d)
{
    const cJSON *v = schema_get(at->schema, keyword);

    if (v == NULL)
        return false;
    if (!cJSON_IsNumber(v)) {
        schema_refuse(s, at, "'%s' must be a number", keyword);
        return false;
    }
    json_decimal_read(d, v);
    return true;
}

static struct bounds read_bounds(struct schema *s, const struct schema_node *at)
{
    struct bounds b = {.has_low = false};
    struct json_decimal other;

    b.has_low = bound(s, at, "minimum", &b.low);
    b.has_high = bound(s, at, "maximum", &b.high);
    if (bound(s, at, "exclusiveMinimum", &other) &&
        (!b.has_low || json_decimal_compare(&other, &b.low) >= 0)) {
        b.low = other;
        b.has_low = b.low_is_out = true;
    }
    if (bound(s, at, "exclusiveMaximum", &other) &&
        (!b.has_high || json_decimal_compare(&other, &b.high) <= 0)) {
        b.high = other;
        b.has_high = b.high_is_out = true;
    }
    return b;
}

/* Returns the number of digits before the point that are written: `least`, or one more than a bound
 * has, if all numbers lie beyond it or any_bound is set. A bound with more digits than can be
 * written is ignored. */
static uint32_t digits_before(const struct bounds *b, uint32_t decimals, int64_t least,
                              bool any_bound)
{
    const int64_t most = SCHEMA_MAX_DIGITS - decimals;

    if (b->has_low && (any_bound || !b->low.is_negative) && b->low.scale <= most &&
        b->low.scale >= least)
        least = b->low.scale + 1;
    if (b->has_high && (any_bound || b->high.is_negative) && b->high.scale <= most &&
        b->high.scale >= least)
        least = b->high.scale + 1;
    return (uint32_t)(least < most ? least : most);
}

/* Returns the number in units of 10^-decimals, cut off; *side is where the cut-off number lies:
 * below the exact one (-1), on it (0) or above it (1). A number with more digits before the point
 * than `before` becomes the first that has so many. */
static __int128 scaled(const struct json_decimal *d, uint32_t decimals, uint32_t before, int *side)
{
    const int64_t n = d->scale + decimals;
    __int128 v = 0;

    *side = 0;
    if (d->scale > before) {
        v = schema_power_of_ten(before + decimals);
        return d->is_negative ? -v : v;
    }
    for (int64_t i = 0; i < n && d->n_digits > 0; i++)
        v = v * 10 + (json_decimal_digit(d, i) - '0');
    if (d->n_digits > n && d->n_digits > 0)
        *side = d->is_negative ? 1 : -1;
    return d->is_negative ? -v : v;
}

static __int128 lowest(const struct bounds *b, uint32_t decimals, uint32_t before)
{
    const __int128 least = 1 - schema_power_of_ten(before + decimals);
    __int128 n = least;
    int side = 0;

    if (b->has_low)
        n = scaled(&b->low, decimals, before, &side);
    if (b->has_low && (side < 0 || (side == 0 && b->low_is_out)))
        n++;
    return n > least ? n : least;
}

static __int128 highest(const struct bounds *b, uint32_t decimals, uint32_t before)
{
    const __int128 most = schema_power_of_ten(before + decimals) - 1;
    __int128 n = most;
    int side = 0;

    if (b->has_high)
        n = scaled(&b->high, decimals, before, &side);
    if (b->has_high && (side > 0 || (side == 0 && b->high_is_out)))
        n--;
    return n < most ? n : most;
}

/* Returns how many digits after the point the bounds have: at least two. */
static uint32_t decimals_for(const struct bounds *b, uint32_t most)
{
    int64_t n = 2;

    if (b->has_low && b->low.n_digits - b->low.scale > n)
        n = b->low.n_digits - b->low.scale;
    if (b->has_high && b->high.n_digits - b->high.scale > n)
        n = b->high.n_digits - b->high.scale;
    return (uint32_t)(n < most ? n : most);
}

/* True: every number that the bounds allow is longer than any that can be written. */
static bool is_too_far(const struct bounds *b)
{
    return (b->has_low && !b->low.is_negative && b->low.scale > SCHEMA_MAX_DIGITS) ||
           (b->has_high && b->high.is_negative && b->high.scale > SCHEMA_MAX_DIGITS);
}

static struct grammar_piece bounded(struct schema *s, const struct schema_node *at,
                                    const struct bounds *b, bool integers)
{
    uint32_t decimals = decimals_for(b, MAX_DECIMALS);
    uint32_t before = digits_before(b, 0, WHOLE_DIGITS, true);
    struct sum_of sum = {.any = false};

    if (is_too_far(b))
        return schema_refuse(s, at, "bounds of more than %d digits are not supported",
                             SCHEMA_MAX_DIGITS);
    add_number_range(s, &sum, lowest(b, 0, before), highest(b, 0, before), 0);
    for (uint32_t n = 1; !integers && (n <= decimals || (!sum.any && n <= MOST_DECIMALS)); n++) {
        before = digits_before(b, n, DIGITS_BEFORE_POINT, false);
        add_number_range(s, &sum, lowest(b, n, before), highest(b, n, before), n);
        if (!sum.any && n == decimals)
            decimals = decimals_for(b, MOST_DECIMALS);
    }
    if (!sum.any)
        return schema_refuse(s, at, "no number is within the bounds");
    return sum.p;
}

/* ---- without bounds ---- */

static struct grammar_piece whole_number(struct schema *s)
{
    static const char regex[] = "-?(0|[1-9][0-9]{0,18})";

    return grammar_regex(s->b, regex, sizeof(regex) - 1, 0);
}

struct grammar_piece schema_any_number(struct schema *s)
{
    static const char regex[] = "-?(0|[1-9][0-9]{0,18})(\\.[0-9]{1,16})?([eE][+-]?[0-9]{1,2})?";

    return grammar_regex(s->b, regex, sizeof(regex) - 1, 0);
}

/* ---- multiples ---- */

/* Splits d into *whole * 10^*power; false: it is not above 0, or has too many digits. */
static bool take_apart(const struct json_decimal *d, __int128 *whole, int *power)
{
    const int64_t behind_point = d->n_digits - d->scale;

    *whole = 0;
    if (d->n_digits == 0 || d->is_negative || behind_point > MOST_DECIMALS ||
        d->n_digits > SCHEMA_MAX_DIGITS - MOST_MULTIPLES ||
        d->scale > SCHEMA_MAX_DIGITS - MOST_MULTIPLES)
        return false;
    for (int64_t i = 0; i < d->n_digits; i++)
        *whole = *whole * 10 + (json_decimal_digit(d, i) - '0');
    *power = (int)-behind_point;
    return true;
}

/* Returns the modulus of the whole numbers among the multiples of whole * 10^power: v * 10^-power
 * has to be a multiple of `whole`. */
static __int128 whole_modulus(__int128 whole, int power)
{
    for (int i = power; i < 0; i++)
        whole = whole % 10 == 0  ? whole / 10
                       : whole % 2 == 0 ? whole / 2
                       : whole % 5 == 0 ? whole / 5
                                               : whole;
    return whole;
}

/* Writes the multiples with m->decimals decimals within the bounds; they have as many digits before
 * and after the point as other numbers. */
static bool multiples_of(struct schema *s, const struct bounds *b, const struct json_decimal *of,
                         struct schema_multiples *m, struct grammar_piece *p)
{
    const int64_t more = m->decimals > MAX_DECIMALS ? m->decimals - MAX_DECIMALS : 0;
    const int64_t usual = m->decimals == 0 ? WHOLE_DIGITS : DIGITS_BEFORE_POINT - more;
    const int64_t least = of->scale + MOST_MULTIPLES > usual ? of->scale + MOST_MULTIPLES : usual;
    const uint32_t before = digits_before(b, m->decimals, least > 1 ? least : 1, false);

    m->low = lowest(b, m->decimals, before);
    m->high = highest(b, m->decimals, before);
    return schema_multiples(s, m, p);
}

static struct grammar_piece multiples(struct schema *s, const struct schema_node *at,
                                      const struct bounds *b, bool integers, const cJSON *v)
{
    struct schema_multiples m = {.zeros = 0};
    struct sum_of sum = {.any = false};
    struct json_decimal of;
    struct grammar_piece p;
    __int128 whole_of;
    int power;

    json_decimal_read(&of, v);
    if (!take_apart(&of, &whole_of, &power))
        return schema_refuse(s, at,
                             "'multipleOf' must be a number above 0 with at most %d digits, and at "
                             "most %d after the decimal point",
                             SCHEMA_MAX_DIGITS - MOST_MULTIPLES, MOST_DECIMALS);
    m.modulus = whole_modulus(whole_of, power);
    m.zeros = power > 0 ? (uint32_t)power : 0;
    if (multiples_of(s, b, &of, &m, &p))
        add_alternative(s, &sum, p);
    if (!integers && power < 0) {
        m = (struct schema_multiples){.modulus = whole_of, .decimals = (uint32_t)-power};
        if (multiples_of(s, b, &of, &m, &p))
            add_alternative(s, &sum, p);
    }
    if (!sum.any)
        return schema_refuse(s, at, "no multiple of 'multipleOf' is within the bounds");
    return sum.p;
}

static bool is_one(const cJSON *v)
{
    struct json_decimal d;

    json_decimal_read(&d, v);
    return !d.is_negative && d.n_digits == 1 && d.scale == 1 && json_decimal_digit(&d, 0) == '1';
}

struct grammar_piece schema_number(struct schema *s, const struct schema_node *at, bool integers)
{
    const cJSON *of = schema_get(at->schema, "multipleOf");
    const struct bounds b = read_bounds(s, at);

    if (of != NULL && !cJSON_IsNumber(of))
        schema_refuse(s, at, "'multipleOf' must be a number above 0");
    if (schema_has_failed(s))
        return (struct grammar_piece){0};
    if (of != NULL && !is_one(of))
        return multiples(s, at, &b, integers, of);
    integers = integers || of != NULL;
    if (b.has_low || b.has_high)
        return bounded(s, at, &b, integers);
    return integers ? whole_number(s) : schema_any_number(s);
}
