/* core/jinja/number.c - text to numbers, and rounding, as Python does them.
 *
 * Text is first tidied into ASCII (any Unicode digits, blanks at the ends) in a fixed array, then
 * checked for Python's form, and only then given to the C library, which accepts other forms.
 * Integers beyond 64 bits fail by name instead of wrapping.
 */
#include "core/jinja/template_impl.h"

#include "core/base/err.h"
#include "core/base/maths.h"
#include "core/base/unicode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DIGITS 400 /* most digits of a written number: more than any double needs */

/* Copy text without blanks around it and with ASCII digits; false: too long, or not a number. */
static bool tidy(struct value v, char *text)
{
    size_t n = 0, len, from = 0, to = v.n;

    while (from < to && unicode_is_space(unicode_at(v.s + from, to - from, &len)))
        from += len;
    while (to > from) {
        const size_t last = unicode_last(v.s + from, to - from);

        if (!unicode_is_space(unicode_at(v.s + to - last, last, &len)))
            break;
        to -= last;
    }
    for (size_t i = from; i < to; i += len) {
        const uint32_t cp = unicode_at(v.s + i, to - i, &len);
        const int digit = cp < 0x80 ? -1 : unicode_decimal_value(cp);

        if (n == MAX_DIGITS || cp == 0 || (cp >= 0x80 && digit < 0))
            return false;
        text[n++] = digit >= 0 ? (char)('0' + digit) : (char)cp;
    }
    text[n] = '\0';
    return n > 0;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return (c | 32) >= 'a' && (c | 32) <= 'z' ? (c | 32) - 'a' + 10 : 99;
}

/* Skip "0x" and the like, where the base allows it; sets the base. */
static const char *skip_prefix(const char *p, int64_t *base)
{
    const char mark = p[0] == '0' ? (char)(p[1] | 32) : '\0';
    const int64_t means = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;

    if (means != 0 && (*base == 0 || *base == means)) {
        *base = means;
        return p + 2 + (p[2] == '_');
    }
    if (*base == 0) {
        *base = 10;
        if (p[0] == '0' && strspn(p, "0_") < strlen(p)) /* 012 is not a number in base 0 */
            return "";
    }
    return p;
}

static struct value int_of_text(struct render *r, struct value v, int64_t base, bool *ok)
{
    char text[MAX_DIGITS + 1];
    const char *p = text;
    bool negative, underscore = true;
    int64_t i = 0;

    *ok = false;
    if ((base != 0 && (base < 2 || base > 36)) || !tidy(v, text))
        return value_null();
    negative = *p == '-';
    p = skip_prefix(p + (*p == '-' || *p == '+'), &base);
    for (; *p != '\0'; p++) {
        if (*p == '_' && !underscore) {
            underscore = true;
            continue;
        }
        if (digit_of(*p) >= base)
            return value_null();
        underscore = false;
        if (__builtin_mul_overflow(i, base, &i) ||
            __builtin_sub_overflow(i, (int64_t)digit_of(*p), &i))
            return template_fail_big(r);
    }
    if (underscore)
        return value_null();
    if (!negative && i == INT64_MIN)
        return template_fail_big(r);
    *ok = true;
    return value_int(negative ? i : -i);
}

static struct value int_of_float(struct render *r, double f, bool *ok)
{
    *ok = !isnan(f);
    if (isinf(f))
        return template_fail(r, "cannot convert float infinity to integer");
    if (isnan(f))
        return value_null();
    if (f >= 9223372036854775808.0 || f < -9223372036854775808.0)
        return template_fail_big(r);
    return value_int((int64_t)f);
}

struct value template_to_int(struct render *r, struct value v, int64_t base, bool *ok)
{
    *ok = true;
    if (v.kind == VALUE_UNDEFINED)
        return template_fail_undefined(r, v);
    if (value_is_int(v))
        return value_int(value_as_int(v));
    if (v.kind == VALUE_BIG)
        return v;
    if (v.kind == VALUE_FLOAT)
        return int_of_float(r, v.f, ok);
    if (v.kind == VALUE_STRING)
        return int_of_text(r, v, base, ok);
    *ok = false;
    return value_null();
}

/* Remove single underscores between digits; false: any other underscore. */
static bool drop_underscores(char *text)
{
    size_t n = 0;

    for (size_t i = 0; text[i] != '\0'; i++) {
        if (text[i] != '_') {
            text[n++] = text[i];
            continue;
        }
        if (i == 0 || digit_of(text[i - 1]) > 9 || digit_of(text[i + 1]) > 9)
            return false;
    }
    text[n] = '\0';
    return true;
}

static bool is_special_float(const char *p)
{
    static const char *const names[] = {"inf", "infinity", "nan"};

    p += *p == '-' || *p == '+';
    for (int i = 0; i < 3; i++) {
        size_t k = 0;

        while (names[i][k] != '\0' && (p[k] | 32) == names[i][k])
            k++;
        if (names[i][k] == '\0' && p[k] == '\0')
            return true;
    }
    return false;
}

static struct value float_of_text(struct value v, bool *ok)
{
    char text[MAX_DIGITS + 1], *end;
    double f;

    *ok = tidy(v, text) && drop_underscores(text) &&
          (text[strspn(text, "0123456789.eE+-")] == '\0' || is_special_float(text));
    if (!*ok)
        return value_null();
    f = strtod(text, &end);
    *ok = *end == '\0' && end != text;
    return value_float(f);
}

struct value template_to_float(struct render *r, struct value v, bool *ok)
{
    *ok = true;
    if (v.kind == VALUE_UNDEFINED)
        return template_fail_undefined(r, v);
    if (v.kind == VALUE_BIG && isinf(value_as_double(v)))
        return template_fail(r, "int too large to convert to float");
    if (value_is_number(v))
        return value_float(value_as_double(v));
    if (v.kind == VALUE_STRING)
        return float_of_text(v, ok);
    *ok = false;
    return value_null();
}

static struct value round_int(struct render *r, int64_t i, int64_t digits)
{
    int64_t unit = 1, rest;

    for (; digits < 0; digits++)
        if (__builtin_mul_overflow(unit, (int64_t)10, &unit))
            return value_int(0);
    rest = i % unit;
    if (rest < 0)
        rest += unit;
    if (__builtin_sub_overflow(i, rest, &i))
        return template_fail_big(r);
    /* a half rounds to the even side */
    if (rest > unit - rest || (rest == unit - rest && (i / unit) % 2 != 0))
        if (__builtin_add_overflow(i, unit, &i))
            return template_fail_big(r);
    return value_int(i);
}

/* The C library rounds the exact binary value to decimal digits, ties to even, as Python does. */
struct value template_round(struct render *r, struct value v, int64_t digits)
{
    char text[MAX_DIGITS + 400];
    double unit;

    if (value_is_int(v))
        return round_int(r, value_as_int(v), digits);
    if (v.kind == VALUE_BIG)
        return digits >= 0 ? v : template_fail_big(r);
    if (isnan(v.f) || isinf(v.f) || digits > 323)
        return v;
    if (digits < -308)
        return value_float(copysign(0, v.f));
    if (digits >= 0) {
        snprintf(text, sizeof(text), "%.*f", (int)digits, v.f);
        return value_float(strtod(text, NULL));
    }
    unit = maths_pow(10, (double)-digits);
    return value_float(rint(v.f / unit) * unit);
}
