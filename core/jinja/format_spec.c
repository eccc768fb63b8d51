/* core/jinja/format_spec.c - one value by a format specification:
 * [[fill]align][sign][#][0][width][,][.precision][type]
 *
 * The specification is parsed into a struct; then the value becomes sign, prefix and digits, and
 * the alignment puts them together. Doubles are written by the C library's %e, %f and %g with a
 * given precision, which round as Python does, and then corrected where Python's form differs.
 */
#include "core/jinja/template_impl.h"

#include "core/base/err.h"
#include "core/base/unicode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WIDTH 100000 /* most characters of a field, and of its digits: far more than a line */

struct spec {
    char fill[4];
    size_t n_fill;
    char align; /* < > ^ =, 0: none given */
    char sign, group, type;
    bool other; /* # */
    int64_t width, precision; /* -1: none */
};

static bool is_align(char c)
{
    return c != '\0' && strchr("<>^=", c) != NULL;
}

static int64_t spec_number(const char *s, size_t n, size_t *i)
{
    int64_t value = 0;

    for (; *i < n && s[*i] >= '0' && s[*i] <= '9'; (*i)++)
        value = value <= MAX_WIDTH ? 10 * value + (s[*i] - '0') : value;
    return value;
}

/* Read [[fill]align]; returns the text after it. */
static size_t read_align(const char *s, size_t n, struct spec *spec)
{
    size_t len = 0;

    if (n > 0)
        unicode_at(s, n, &len);
    if (n > len && is_align(s[len])) {
        memcpy(spec->fill, s, len);
        spec->n_fill = len;
        spec->align = s[len];
        return len + 1;
    }
    if (n == 0 || !is_align(s[0]))
        return 0;
    spec->align = s[0];
    return 1;
}

static bool read_spec(struct render *r, const char *s, size_t n, struct spec *spec)
{
    bool filled;
    size_t i;

    *spec = (struct spec){.fill = " ", .n_fill = 1, .width = -1, .precision = -1};
    i = read_align(s, n, spec);
    filled = i > 1;
    if (i < n && strchr("+- ", s[i]) != NULL && s[i] != '\0')
        spec->sign = s[i++];
    spec->other = i < n && s[i] == '#';
    i += spec->other;
    if (i < n && s[i] == '0' && !filled) {
        spec->fill[0] = '0';
        spec->align = spec->align == '\0' ? '=' : spec->align;
        i++;
    }
    if (i < n && s[i] >= '0' && s[i] <= '9')
        spec->width = spec_number(s, n, &i);
    if (i < n && (s[i] == ',' || s[i] == '_'))
        spec->group = s[i++];
    if (i < n && s[i] == '.') {
        const size_t from = ++i;

        spec->precision = spec_number(s, n, &i);
        if (i == from)
            template_fail(r, "Format specifier missing precision");
    }
    if (i < n)
        spec->type = s[i++];
    if (i < n)
        template_fail(r, "Invalid format specifier");
    if (spec->width > MAX_WIDTH || spec->precision > MAX_WIDTH)
        template_fail(r, "a width or precision is too large");
    return r->rc == 0;
}

/* Put `head` (sign and prefix) and `body`, with fill by the alignment. */
static void put_aligned(const struct spec *spec, char align, struct value head, struct value body,
                        struct buf *out)
{
    const int64_t n = (int64_t)(unicode_count(head.s, head.n) + unicode_count(body.s, body.n));
    const int64_t all = spec->width > n ? spec->width - n : 0;
    const int64_t left = align == '<' ? 0 : align == '^' ? all / 2 : all;

    if (align == '=')
        buf_add(out, head.s, head.n);
    for (int64_t i = 0; i < left; i++)
        buf_add(out, spec->fill, spec->n_fill);
    if (align != '=')
        buf_add(out, head.s, head.n);
    buf_add(out, body.s, body.n);
    for (int64_t i = left; i < all; i++)
        buf_add(out, spec->fill, spec->n_fill);
}

/* Copy digits with a mark between groups of `size`; with "=" and zeros the zeros are grouped too,
 * up to `least` characters. Text after the digits is copied unchanged. */
static void put_groups(const struct spec *spec, const char *digits, size_t n, int size,
                       int64_t least, struct buf *out)
{
    const size_t n_int = strspn(digits, size == 3 ? "0123456789" : "0123456789abcdefABCDEF");
    size_t zeros = 0, total;

    if (spec->group == '\0')
        size = 1 << 20;
    while (spec->group != '\0' && spec->align == '=' && spec->fill[0] == '0') {
        total = n_int + zeros;
        if ((int64_t)(total + (total - 1) / (size_t)size + (n - n_int)) >= least)
            break;
        zeros++;
    }
    total = n_int + zeros;
    for (size_t i = 0; i < total; i++) {
        if (i > 0 && (total - i) % (size_t)size == 0)
            buf_add_char(out, spec->group);
        buf_add_char(out, i < zeros ? '0' : digits[i - zeros]);
    }
    buf_add(out, digits + n_int, n - n_int);
}

static void put_signed(struct render *r, const struct spec *spec, bool negative,
                       const char *prefix, const char *digits, int group_size, struct buf *out)
{
    char head[8];
    struct buf body;

    snprintf(head, sizeof(head), "%s%s",
             negative ? "-" : spec->sign == '+' ? "+" : spec->sign == ' ' ? " " : "", prefix);
    template_text(r, &body);
    put_groups(spec, digits, strlen(digits), group_size, spec->width - (int64_t)strlen(head),
               &body);
    put_aligned(spec, spec->align != '\0' ? spec->align : '>', value_text(head),
                value_borrow(body.data != NULL ? body.data : "", body.len), out);
    buf_release(&body);
}

static void put_float(struct render *r, const struct spec *spec, double f, struct buf *out);

/* Return the base of an integer type; 0: another type. */
static unsigned base_of(char type)
{
    switch (type) {
    case '\0':
    case 'd':
    case 'n':
        return 10;
    case 'x':
    case 'X':
        return 16;
    case 'o':
        return 8;
    case 'b':
        return 2;
    default:
        return 0;
    }
}

/* Write the digits at the end of `room`. */
static const char *int_digits(uint64_t u, unsigned base, bool upper, char room[65])
{
    const char *digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
    char *at = room + 64;

    *at = '\0';
    do
        *--at = digits[u % base];
    while ((u /= base) > 0);
    return at;
}

static void put_int(struct render *r, const struct spec *spec, int64_t i, struct buf *out)
{
    const uint64_t u = i < 0 ? -(uint64_t)i : (uint64_t)i;
    const unsigned base = base_of(spec->type);
    const char prefix[] = {spec->other && base != 10 ? '0' : '\0', spec->type, '\0'};
    char room[65];

    if (spec->type != '\0' && strchr("eEfFgG%", spec->type) != NULL) {
        put_float(r, spec, (double)i, out);
        return;
    }
    if (spec->precision >= 0) {
        template_fail(r, "Precision not allowed in integer format specifier");
        return;
    }
    if (base == 0) {
        template_fail(r, "Unknown format code '%c' for object of type 'int'", spec->type);
        return;
    }
    if (spec->group == ',' && *prefix != '\0')
        template_fail(r, "Cannot specify ',' with '%c'.", spec->type);
    put_signed(r, spec, i < 0, prefix, int_digits(u, base, spec->type == 'X', room),
               base == 10 ? 3 : 4, out);
}

/* Write a float without a type: with as many digits as the precision, but with an exponent if no
 * digit would be left after the point. */
static void general_digits(int precision, double f, struct buf *b)
{
    char text[80]; /* 60 digits, sign, point and exponent */
    char *e;
    size_t n;

    precision = precision < 1 ? 1 : precision;
    if (precision > 60) { /* no double has more digits that count before the point */
        buf_printf(b, "%.*g", precision, f);
        return;
    }
    snprintf(text, sizeof(text), "%.*e", precision - 1, f);
    e = strchr(text, 'e');
    if (strtol(e + 1, NULL, 10) < precision - 1) {
        buf_printf(b, "%.*g", precision, f);
        return;
    }
    n = (size_t)(e - text);
    while (precision > 1 && text[n - 1] == '0')
        n--;
    n -= text[n - 1] == '.';
    buf_add(b, text, n);
    buf_add_str(b, e);
}

/* Write the digits without a sign. */
static void float_digits(const struct spec *spec, double f, struct buf *b)
{
    const int precision = spec->precision >= 0 ? (int)spec->precision : 6;

    f = fabs(f);
    if (isnan(f) || isinf(f)) {
        const bool upper = spec->type == 'E' || spec->type == 'F' || spec->type == 'G';

        buf_add_str(b, isnan(f) ? upper ? "NAN" : "nan" : upper ? "INF" : "inf");
        if (spec->type == '%')
            buf_add_char(b, '%');
        return;
    }
    switch (spec->type) {
    case 'e':
        buf_printf(b, spec->other ? "%#.*e" : "%.*e", precision, f);
        break;
    case 'E':
        buf_printf(b, spec->other ? "%#.*E" : "%.*E", precision, f);
        break;
    case 'f':
    case 'F':
        buf_printf(b, spec->other ? "%#.*f" : "%.*f", precision, f);
        break;
    case 'g':
    case 'n':
        buf_printf(b, spec->other ? "%#.*g" : "%.*g", precision, f);
        break;
    case 'G':
        buf_printf(b, spec->other ? "%#.*G" : "%.*G", precision, f);
        break;
    case '%':
        buf_printf(b, "%.*f%%", precision, f * 100);
        break;
    default:
        if (spec->precision < 0)
            value_repr_float(f, b);
        else
            general_digits(precision, f, b);
    }
}

/* Without a type a whole number in general form still gets a point. */
static void show_point(const struct spec *spec, struct buf *b)
{
    if (spec->type == '\0' && spec->precision >= 0 && strpbrk(b->data, ".en") == NULL)
        buf_add_str(b, ".0");
}

static void put_float(struct render *r, const struct spec *spec, double f, struct buf *out)
{
    struct buf b;

    if (spec->type != '\0' && strchr("eEfFgGn%", spec->type) == NULL) {
        template_fail(r, "Unknown format code '%c' for object of type 'float'", spec->type);
        return;
    }
    template_text(r, &b);
    float_digits(spec, f, &b);
    if (b.err == 0) {
        show_point(spec, &b);
        put_signed(r, spec, signbit(f) && !isnan(f), "", b.data, 3, out);
    }
    buf_release(&b);
}

static void put_padded(struct render *r, const struct spec *spec, struct value v, struct buf *out)
{
    if (spec->type != '\0' && spec->type != 's') {
        template_fail(r, "Unknown format code '%c' for object of type 'str'", spec->type);
        return;
    }
    if (spec->sign != '\0' || spec->other || spec->group != '\0' || spec->align == '=') {
        if (!(spec->align == '=' && spec->fill[0] == '0' && spec->sign == '\0' && !spec->other &&
              spec->group == '\0')) {
            template_fail(r, "sign, '=', '#' and ',' are not allowed for strings");
            return;
        }
    }
    if (spec->precision >= 0)
        v = template_piece(v, 0, unicode_offset(v.s, v.n, (size_t)spec->precision));
    put_aligned(spec, spec->align != '\0' && spec->align != '=' ? spec->align : '<',
                value_text(""), v, out);
}

void template_format_spec(struct render *r, struct value v, const char *s, size_t n,
                          struct buf *out)
{
    struct spec spec;

    if (n == 0) {
        template_put(r, v, out);
        return;
    }
    if (!read_spec(r, s, n, &spec))
        return;
    template_step(r, spec.width > 0 ? (uint64_t)spec.width / 16 : 1);
    if (v.kind == VALUE_STRING)
        put_padded(r, &spec, v, out);
    else if (value_is_int(v))
        put_int(r, &spec, value_as_int(v), out);
    else if (v.kind == VALUE_FLOAT)
        put_float(r, &spec, v.f, out);
    else if (v.kind == VALUE_BIG)
        template_fail_big(r);
    else
        template_fail(r, "unsupported format string passed to %s.__format__", value_type_name(v));
}
