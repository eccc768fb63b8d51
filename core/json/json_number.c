/* core/json/json_number.c - see json_number.h.
 *
 * The numbers of a text and of its tree come in the same order, so one walk over both hands each
 * literal to its item. Comparisons first use the doubles, since rounding keeps the order, and only
 * for equal doubles the decimal digits of the literals, aligned by their exponents; no big-number
 * arithmetic is needed.
 */
#include "core/json/json_number.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHORT_DIGITS 15          /* a double holds every whole number of this many digits */
#define MAX_EXPONENT (1LL << 40) /* larger exponents count as this: far beyond every double */
#define LONGEST_OF_CJSON 62      /* bytes of a number that cJSON 1.7.15 reads whole */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t skip_digits(const char *s, size_t n, size_t i)
{
    while (i < n && is_digit(s[i]))
        i++;
    return i;
}

/* Stricter than cJSON, which would accept 1. and 01 as well. */
size_t json_number_skip(const char *s, size_t n, size_t i)
{
    size_t from = i += s[i] == '-', end = skip_digits(s, n, i);

    if (end == from || (s[from] == '0' && end > from + 1))
        return SIZE_MAX;
    if (end < n && s[end] == '.') {
        from = end + 1;
        end = skip_digits(s, n, from);
        if (end == from)
            return SIZE_MAX;
    }
    if (end < n && (s[end] == 'e' || s[end] == 'E')) {
        from = end + 1;
        from += from < n && (s[from] == '+' || s[from] == '-');
        end = skip_digits(s, n, from);
        if (end == from)
            return SIZE_MAX;
    }
    return end;
}

bool json_number_is_whole_text(const char *text, size_t n)
{
    return skip_digits(text, n, n > 0 && text[0] == '-') == n;
}

bool json_number_is_short_text(const char *text, size_t n)
{
    const size_t sign = n > 0 && text[0] == '-';

    return n - sign <= SHORT_DIGITS && json_number_is_whole_text(text, n) &&
           !(n > 1 && sign == 1 && text[1] == '0');
}

/* ---- literals in a tree ---- */

struct cursor { /* a position in a text that is valid JSON */
    const char *s;
    size_t n, i;
};

/* Move the cursor past the string whose opening quote is right before it. */
static void pass_string(struct cursor *at)
{
    while (at->i < at->n && at->s[at->i] != '"')
        at->i += at->s[at->i] == '\\' ? 2 : 1;
    at->i++;
}

/* Find the next number of the text and move the cursor past it. Returns its length, or 0 at the
 * end. */
static size_t next_number(struct cursor *at, const char **number)
{
    while (at->i < at->n) {
        const char c = at->s[at->i];

        if (c == '-' || is_digit(c)) {
            const size_t from = at->i, end = json_number_skip(at->s, at->n, from);

            *number = at->s + from;
            at->i = end;
            return end - from;
        }
        at->i++;
        if (c == '"')
            pass_string(at);
    }
    return 0;
}

static int keep_literal(cJSON *v, const char *text, size_t n)
{
    char *copy = mem_alloc(n + 1);

    if (copy == NULL)
        return ERR_NOMEM;
    memcpy(copy, text, n);
    copy[n] = '\0';
    v->valuestring = copy;
    if (n > LONGEST_OF_CJSON)
        cJSON_SetNumberHelper(v, strtod(copy, NULL));
    return 0;
}

static int keep_below(cJSON *v, struct cursor *at)
{
    const char *text = NULL;
    int rc = 0;

    if (cJSON_IsNumber(v)) {
        const size_t n = next_number(at, &text);

        return n == 0 || json_number_is_short_text(text, n) ? 0 : keep_literal(v, text, n);
    }
    for (cJSON *it = v->child; it != NULL && rc == 0; it = it->next)
        rc = keep_below(it, at);
    return rc;
}

int json_number_keep(cJSON *tree, const char *text, size_t n)
{
    struct cursor at = {.s = text, .n = n};

    return keep_below(tree, &at);
}

bool json_number_is_long_text(size_t n)
{
    return n > LONGEST_OF_CJSON;
}

void json_number_blank_long(char *text, size_t n)
{
    struct cursor at = {.s = text, .n = n};
    const char *number;
    size_t length;

    while ((length = next_number(&at, &number)) > 0) {
        char *first = text + (number - text);

        if (!json_number_is_long_text(length))
            continue;
        memset(first, ' ', length);
        first[0] = '0';
    }
}

const char *json_number_literal(const cJSON *v)
{
    return cJSON_IsNumber(v) ? v->valuestring : NULL;
}

/* Print the shortest text that reads back as the same double; for an infinity a number beyond all
 * doubles. */
static void print_double(double v, char text[static 32])
{
    int digits = 15;

    if (!isfinite(v))
        snprintf(text, 32, "%s", v < 0 ? "-1e999" : "1e999");
    else if (v == floor(v) && fabs(v) < 1e15)
        snprintf(text, 32, "%.0f", v);
    else
        do
            snprintf(text, 32, "%.*g", digits, v);
        while (strtod(text, NULL) != v && digits++ < 17);
}

const char *json_number_text(const cJSON *v, char room[static 32])
{
    if (json_number_literal(v) != NULL)
        return json_number_literal(v);
    print_double(v->valuedouble, room);
    return room;
}

void json_add_number(struct buf *b, const cJSON *v)
{
    char room[32];

    buf_add_str(b, json_number_text(v, room));
}

/* ---- exact values ---- */

static const char *decimal_text(const struct json_decimal *d)
{
    return d->literal != NULL ? d->literal : d->room;
}

/* Return the exponent in the text after the e, clamped to MAX_EXPONENT: strtoll() saturates. */
static int64_t exponent_of(const char *text)
{
    const long long e = strtoll(text, NULL, 10);

    return e > MAX_EXPONENT ? MAX_EXPONENT : e < -MAX_EXPONENT ? -MAX_EXPONENT : e;
}

void json_decimal_read(struct json_decimal *d, const cJSON *number)
{
    const char *text;
    size_t end, point;

    *d = (struct json_decimal){.literal = json_number_literal(number)};
    if (d->literal == NULL)
        print_double(number->valuedouble, d->room);
    text = decimal_text(d);
    d->is_negative = text[0] == '-';
    d->from = d->is_negative;
    end = d->from + strspn(text + d->from, "0123456789.");
    point = d->from + strcspn(text + d->from, ".eE");
    while (d->from < end && (text[d->from] == '0' || text[d->from] == '.'))
        d->from++;
    for (d->to = end; d->to > d->from && (text[d->to - 1] == '0' || text[d->to - 1] == '.');)
        d->to--;
    if (d->from == d->to) {
        d->is_negative = false;
        return;
    }
    d->n_digits = (int64_t)(d->to - d->from) - (d->from < point && point < d->to);
    d->scale = d->from < point ? (int64_t)(point - d->from) : -(int64_t)(d->from - point - 1);
    if (text[end] != '\0')
        d->scale += exponent_of(text + end + 1);
}

char json_decimal_digit(const struct json_decimal *d, int64_t i)
{
    const char *text = decimal_text(d);
    size_t at;

    if (i >= d->n_digits)
        return '0';
    at = d->from + (size_t)i;
    if (d->n_digits < (int64_t)(d->to - d->from)) { /* one of the bytes is the point */
        const char *point = memchr(text + d->from, '.', (size_t)i + 1);

        at += point != NULL;
    }
    return text[at];
}

/* Compare two decimals above zero whose first digits have the same weight, digit by digit. */
static int compare_digits(const struct json_decimal *a, const struct json_decimal *b)
{
    const char *p = decimal_text(a) + a->from, *p_end = decimal_text(a) + a->to;
    const char *q = decimal_text(b) + b->from, *q_end = decimal_text(b) + b->to;

    for (; p < p_end && q < q_end; p++, q++) {
        p += *p == '.';
        q += *q == '.';
        if (*p != *q)
            return *p < *q ? -1 : 1;
    }
    return (p < p_end) - (q < q_end);
}

int json_decimal_compare(const struct json_decimal *a, const struct json_decimal *b)
{
    const int sign_a = a->from == a->to ? 0 : a->is_negative ? -1 : 1;
    const int sign_b = b->from == b->to ? 0 : b->is_negative ? -1 : 1;

    if (sign_a != sign_b || sign_a == 0)
        return (sign_a > sign_b) - (sign_a < sign_b);
    if (a->scale != b->scale)
        return a->scale < b->scale ? -sign_a : sign_a;
    return sign_a * compare_digits(a, b);
}

bool json_number_is_whole(const cJSON *v)
{
    struct json_decimal d;

    if (json_number_literal(v) == NULL)
        return v->valuedouble == floor(v->valuedouble);
    json_decimal_read(&d, v);
    return d.n_digits <= d.scale || d.n_digits == 0;
}

/* Rounding keeps the order: doubles that differ are in the order of the exact values. */
int json_number_compare(const cJSON *a, const cJSON *b)
{
    struct json_decimal x, y;

    if (a->valuedouble != b->valuedouble)
        return a->valuedouble < b->valuedouble ? -1 : 1;
    if (json_number_literal(a) == NULL && json_number_literal(b) == NULL)
        return 0;
    json_decimal_read(&x, a);
    json_decimal_read(&y, b);
    return json_decimal_compare(&x, &y);
}
