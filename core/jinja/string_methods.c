/* core/jinja/string_methods.c - the methods of strings, and their table.
 *
 * Methods without a search are here; string_search.c has the others, and filters share the case and
 * padding functions. Strings are UTF-8, so questions about characters walk over them with
 * core/base/unicode.h, whose classes are Python's.
 */
#include "core/jinja/methods.h"

#include "core/base/err.h"
#include "core/base/unicode.h"
#include "core/jinja/filters.h"

#include <string.h>

static bool method_is_text(struct render *r, struct value v)
{
    if (v.kind != VALUE_STRING)
        template_fail(r, "must be str, not %s", value_type_name(v));
    return r->rc == 0;
}

/* --- case --- */

#define CASE_METHOD(name, to)                                                                      \
    static struct value text_##name(struct render *r, struct value v, const struct value *a)      \
    {                                                                                              \
        (void)a;                                                                                   \
        return filter_case(r, v, to);                                                              \
    }

CASE_METHOD(upper, UNICODE_UPPER)
CASE_METHOD(lower, UNICODE_LOWER)
CASE_METHOD(capitalize, UNICODE_CAPITAL)
CASE_METHOD(title, UNICODE_TITLE)
CASE_METHOD(swapcase, UNICODE_SWAP)
CASE_METHOD(casefold, UNICODE_FOLD)

/* --- questions: true if every character has the property, and there is one --- */

#define EVERY_METHOD(name, test, of_empty)                                                         \
    static struct value text_##name(struct render *r, struct value v, const struct value *a)      \
    {                                                                                              \
        size_t len;                                                                                \
        (void)a;                                                                                   \
        if (!template_step(r, v.n / SCANNED_PER_STEP))                                             \
            return value_null();                                                                   \
        for (size_t i = 0; i < v.n; i += len) {                                                    \
            const uint32_t cp = unicode_at(v.s + i, v.n - i, &len);                                \
            if (!(test))                                                                           \
                return value_bool(false);                                                          \
        }                                                                                          \
        return value_bool(v.n > 0 || (of_empty));                                                  \
    }

EVERY_METHOD(isalpha, unicode_is_alpha(cp), false)
EVERY_METHOD(isalnum, unicode_is_alnum(cp), false)
EVERY_METHOD(isdigit, unicode_is_digit(cp), false)
EVERY_METHOD(isdecimal, unicode_is_decimal(cp), false)
EVERY_METHOD(isnumeric, unicode_is_numeric(cp), false)
EVERY_METHOD(isspace, unicode_is_space(cp), false)
EVERY_METHOD(isprintable, unicode_is_printable(cp), true)
EVERY_METHOD(isascii, cp < 0x80, true)
EVERY_METHOD(isidentifier, unicode_is_name(cp, i == 0), false)

static struct value text_isupper(struct render *r, struct value v, const struct value *a)
{
    return template_test(value_text("upper"))->call(r, v, a);
}

static struct value text_islower(struct render *r, struct value v, const struct value *a)
{
    return template_test(value_text("lower"))->call(r, v, a);
}

static struct value text_istitle(struct render *r, struct value v, const struct value *a)
{
    bool inside = false, any = false;
    size_t len;

    (void)a;
    if (!template_step(r, v.n / SCANNED_PER_STEP))
        return value_null();
    for (size_t i = 0; i < v.n; i += len) {
        const uint32_t cp = unicode_at(v.s + i, v.n - i, &len);
        const bool big = unicode_is_upper(cp) || unicode_is_title(cp);

        if ((big && inside) || (unicode_is_lower(cp) && !inside))
            return value_bool(false);
        inside = big || unicode_is_lower(cp);
        any = any || inside;
    }
    return value_bool(any);
}

/* --- ends --- */

static struct value text_strip(struct render *r, struct value v, const struct value *a)
{
    return filter_strip(r, v, a[0], true, true);
}

static struct value text_lstrip(struct render *r, struct value v, const struct value *a)
{
    return filter_strip(r, v, a[0], true, false);
}

static struct value text_rstrip(struct render *r, struct value v, const struct value *a)
{
    return filter_strip(r, v, a[0], false, true);
}

static bool text_begins(struct value v, struct value with)
{
    return with.n <= v.n && (with.n == 0 || memcmp(v.s, with.s, with.n) == 0);
}

static bool ends(struct value v, struct value with)
{
    return with.n <= v.n && (with.n == 0 || memcmp(v.s + v.n - with.n, with.s, with.n) == 0);
}

static struct value text_removeprefix(struct render *r, struct value v, const struct value *a)
{
    if (!method_is_text(r, a[0]) || !text_begins(v, a[0]))
        return v;
    return template_piece(v, a[0].n, v.n);
}

static struct value text_removesuffix(struct render *r, struct value v, const struct value *a)
{
    if (!method_is_text(r, a[0]) || !ends(v, a[0]))
        return v;
    return template_piece(v, 0, v.n - a[0].n);
}

/* --- putting together --- */

static struct value text_join(struct render *r, struct value v, const struct value *a)
{
    bool first = true;
    struct value item;
    struct iter it;
    struct text text;

    if (!template_iter(r, &it, a[0]))
        return value_null();
    template_text_begin(r, &text);
    while (template_iter_next(r, &it, &item)) {
        if (item.kind != VALUE_STRING) {
            template_fail(r, "sequence item: expected str instance, %s found",
                          value_type_name(item));
            break;
        }
        if (!first)
            template_text_add(r, &text, v);
        first = false;
        if ((v.flags & VALUE_SAFE) != 0)
            item = template_escaped(r, item);
        template_text_add(r, &text, item);
    }
    item = template_text_end(r, &text);
    item.flags |= v.flags & VALUE_SAFE;
    return item;
}

static struct value pad(struct render *r, struct value v, const struct value *a, int left_share)
{
    int64_t width;

    return template_index(r, a[0], &width) ? filter_pad(r, v, width, a[1], left_share) : v;
}

static struct value text_ljust(struct render *r, struct value v, const struct value *a)
{
    return pad(r, v, a, 0);
}

static struct value text_center(struct render *r, struct value v, const struct value *a)
{
    return pad(r, v, a, 1);
}

static struct value text_rjust(struct render *r, struct value v, const struct value *a)
{
    return pad(r, v, a, 2);
}

/* Put zeros between the sign and the rest. */
static struct value text_zfill(struct render *r, struct value v, const struct value *a)
{
    const bool sign = v.n > 0 && (v.s[0] == '+' || v.s[0] == '-');
    struct value rest = template_piece(v, sign, v.n);
    int64_t width;

    if (!template_index(r, a[0], &width))
        return v;
    rest = filter_pad(r, rest, width > 0 ? width - sign : 0, value_text("0"), 2);
    return sign ? value_concat(r->pool, template_piece(v, 0, 1), rest) : rest;
}

static struct value text_expandtabs(struct render *r, struct value v, const struct value *a)
{
    int64_t size = 8, column = 0;
    size_t len;
    struct buf b;

    if (a[0].kind != VALUE_MISSING && !template_index(r, a[0], &size))
        return v;
    template_text(r, &b);
    for (size_t i = 0; i < v.n && b.err == 0; i += len) {
        const uint32_t cp = unicode_at(v.s + i, v.n - i, &len);

        if (cp == '\t') {
            for (int64_t k = size > 0 ? size - column % size : 0; k > 0 && b.err == 0; k--) {
                buf_add_char(&b, ' ');
                column++;
            }
            continue;
        }
        column = cp == '\n' || cp == '\r' ? 0 : column + 1;
        buf_add(&b, v.s + i, len);
    }
    return template_take(r, &b);
}

static struct value left_out(struct render *r, struct value v, const struct args *args)
{
    (void)v;
    (void)args;
    return template_fail(r, "this method of 'str' is not supported");
}

#define METHOD(name, params, n) {#name, text_##name, params, n, NULL}
#define FOUND(name, params, n) {#name, method_##name, params, n, NULL}
#define LEFT_OUT(name) {#name, NULL, NULL, 0, left_out}

static const struct template_builtin methods[] = {
    METHOD(capitalize, "", 0),
    METHOD(casefold, "", 0),
    METHOD(center, "width fillchar", 1),
    FOUND(count, "sub start end", 1),
    FOUND(endswith, "suffix start end", 1),
    METHOD(expandtabs, "tabsize", 0),
    FOUND(find, "sub start end", 1),
    FOUND(index, "sub start end", 1),
    METHOD(isalnum, "", 0),
    METHOD(isalpha, "", 0),
    METHOD(isascii, "", 0),
    METHOD(isdecimal, "", 0),
    METHOD(isdigit, "", 0),
    METHOD(isidentifier, "", 0),
    METHOD(islower, "", 0),
    METHOD(isnumeric, "", 0),
    METHOD(isprintable, "", 0),
    METHOD(isspace, "", 0),
    METHOD(istitle, "", 0),
    METHOD(isupper, "", 0),
    METHOD(join, "iterable", 1),
    METHOD(ljust, "width fillchar", 1),
    METHOD(lower, "", 0),
    METHOD(lstrip, "chars", 0),
    FOUND(partition, "sep", 1),
    METHOD(removeprefix, "prefix", 1),
    METHOD(removesuffix, "suffix", 1),
    FOUND(replace, "old new count", 2),
    FOUND(rfind, "sub start end", 1),
    FOUND(rindex, "sub start end", 1),
    METHOD(rjust, "width fillchar", 1),
    FOUND(rpartition, "sep", 1),
    FOUND(rsplit, "sep maxsplit", 0),
    METHOD(rstrip, "chars", 0),
    FOUND(split, "sep maxsplit", 0),
    FOUND(splitlines, "keepends", 0),
    FOUND(startswith, "prefix start end", 1),
    METHOD(strip, "chars", 0),
    METHOD(swapcase, "", 0),
    METHOD(title, "", 0),
    METHOD(upper, "", 0),
    METHOD(zfill, "width", 1),
    LEFT_OUT(encode),
    LEFT_OUT(format_map),
    LEFT_OUT(maketrans),
    LEFT_OUT(translate),
    {"format", NULL, NULL, 0, template_format},
    {NULL, NULL, NULL, 0, NULL},
};

const struct template_builtin *template_string_methods(void)
{
    return methods;
}
