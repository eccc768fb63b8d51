/* core/text/template_string_methods.c - the methods of strings. */
#include "core/text/template_methods.h"

#include "core/base/err.h"
#include "core/text/template_filters.h"
#include "core/text/unicode.h"

#include <string.h>

static bool given(struct value v)
{
    return v.kind != VALUE_MISSING && v.kind != VALUE_NULL;
}

static bool is_text(struct render *r, struct value v)
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

/* --- questions: every character is such, and there is one --- */

#define EVERY_METHOD(name, test, of_empty)                                                         \
    static struct value text_##name(struct render *r, struct value v, const struct value *a)      \
    {                                                                                              \
        size_t len;                                                                                \
        (void)r;                                                                                   \
        (void)a;                                                                                   \
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

    (void)r;
    (void)a;
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

static bool begins(struct value v, struct value with)
{
    return with.n <= v.n && (with.n == 0 || memcmp(v.s, with.s, with.n) == 0);
}

static bool ends(struct value v, struct value with)
{
    return with.n <= v.n && (with.n == 0 || memcmp(v.s + v.n - with.n, with.s, with.n) == 0);
}

static struct value text_removeprefix(struct render *r, struct value v, const struct value *a)
{
    if (!is_text(r, a[0]) || !begins(v, a[0]))
        return v;
    return template_piece(v, a[0].n, v.n);
}

static struct value text_removesuffix(struct render *r, struct value v, const struct value *a)
{
    if (!is_text(r, a[0]) || !ends(v, a[0]))
        return v;
    return template_piece(v, 0, v.n - a[0].n);
}

struct part { /* of a string, as start and end arguments say */
    struct value v;
    int64_t from;  /* in characters */
    bool possible; /* the start is not behind the end */
};

static bool cut_part(struct render *r, struct value v, struct value start, struct value stop,
                     struct part *part)
{
    int64_t from = 0, to, n;
    size_t begin;

    *part = (struct part){.v = v, .possible = true};
    if (!given(start) && !given(stop))
        return r->rc == 0;
    to = n = template_length(r, v);
    if ((given(start) && !template_index(r, start, &from)) ||
        (given(stop) && !template_index(r, stop, &to)))
        return false;
    from = from < 0 ? (from + n < 0 ? 0 : from + n) : from;
    to = to < 0 ? (to + n < 0 ? 0 : to + n) : to > n ? n : to;
    part->from = from;
    part->possible = from <= to;
    if (part->possible) {
        begin = unicode_offset(v.s, v.n, (size_t)from);
        part->v = template_piece(v, begin,
                                 begin + unicode_offset(v.s + begin, v.n - begin,
                                                        (size_t)(to - from)));
    }
    return true;
}

/* One text, or any of a tuple of them. */
static struct value matches(struct render *r, struct value v, const struct value *a,
                            bool (*match)(struct value v, struct value with))
{
    struct part part;

    if (!cut_part(r, v, a[1], a[2], &part))
        return value_null();
    if (a[0].kind != VALUE_TUPLE)
        return is_text(r, a[0]) ? value_bool(part.possible && match(part.v, a[0])) : value_null();
    for (uint32_t i = 0; i < a[0].list->n; i++) {
        if (!is_text(r, a[0].list->at[i]))
            return value_null();
        if (part.possible && match(part.v, a[0].list->at[i]))
            return value_bool(true);
    }
    return value_bool(false);
}

static struct value text_startswith(struct render *r, struct value v, const struct value *a)
{
    return matches(r, v, a, begins);
}

static struct value text_endswith(struct render *r, struct value v, const struct value *a)
{
    return matches(r, v, a, ends);
}

/* --- search --- */

/* What looking for `what` from the end may cost. */
static bool step_backwards(struct render *r, struct value v, struct value what)
{
    return template_step(r, v.n / 32 * (1 + (uint64_t)what.n / 64));
}

static const char *find_last(const char *s, size_t n, struct value what)
{
    for (size_t i = n + 1; i-- > what.n;)
        if (what.n == 0 || memcmp(s + i - what.n, what.s, what.n) == 0)
            return s + i - what.n;
    return NULL;
}

/* The character where a[0] begins, or -1. */
static int64_t search(struct render *r, struct value v, const struct value *a, bool last)
{
    const char *at;
    struct part part;

    if (!is_text(r, a[0]) || !cut_part(r, v, a[1], a[2], &part) || !part.possible)
        return -1;
    if (last ? !step_backwards(r, part.v, a[0]) : !template_step(r, part.v.n / 32))
        return -1;
    if (last)
        at = find_last(part.v.s, part.v.n, a[0]);
    else
        at = a[0].n == 0 ? part.v.s
                         : part.v.n > 0 ? memmem(part.v.s, part.v.n, a[0].s, a[0].n) : NULL;
    if (at == NULL)
        return -1;
    return part.from + (int64_t)unicode_count(part.v.s, (size_t)(at - part.v.s));
}

static struct value text_find(struct render *r, struct value v, const struct value *a)
{
    return value_int(search(r, v, a, false));
}

static struct value text_rfind(struct render *r, struct value v, const struct value *a)
{
    return value_int(search(r, v, a, true));
}

static struct value found(struct render *r, int64_t at)
{
    return at >= 0 ? value_int(at) : template_fail(r, "substring not found");
}

static struct value text_index(struct render *r, struct value v, const struct value *a)
{
    return found(r, search(r, v, a, false));
}

static struct value text_rindex(struct render *r, struct value v, const struct value *a)
{
    return found(r, search(r, v, a, true));
}

static struct value text_count(struct render *r, struct value v, const struct value *a)
{
    struct part part;
    int64_t n = 0;
    size_t from = 0;

    if (!is_text(r, a[0]) || !cut_part(r, v, a[1], a[2], &part))
        return value_null();
    template_step(r, part.v.n / 64);
    if (!part.possible)
        return value_int(0);
    if (a[0].n == 0)
        return value_int((int64_t)unicode_count(part.v.s, part.v.n) + 1);
    while (from + a[0].n <= part.v.n) {
        const char *at = memmem(part.v.s + from, part.v.n - from, a[0].s, a[0].n);

        if (at == NULL)
            break;
        from = (size_t)(at - part.v.s) + a[0].n;
        n++;
    }
    return value_int(n);
}

static struct value text_replace(struct render *r, struct value v, const struct value *a)
{
    struct value old = a[0], by = a[1], out;
    int64_t count = -1;

    if (!is_text(r, old) || !is_text(r, by) ||
        (a[2].kind != VALUE_MISSING && !template_index(r, a[2], &count)))
        return value_null();
    if ((v.flags & VALUE_SAFE) != 0) {
        old = template_escaped(r, old);
        by = template_escaped(r, by);
    }
    out = filter_replace_text(r, v, old, by, count);
    out.flags = v.flags;
    return out;
}

/* --- pieces --- */

static void add(struct render *r, struct value list, struct value v, size_t from, size_t to)
{
    if (template_step(r, 1))
        value_list_add(r->pool, list, template_piece(v, from, to));
}

/* Blanks in any number part the words. */
static struct value split_blanks(struct render *r, struct value v, int64_t max)
{
    const struct value list = value_list(r->pool);
    size_t from = 0, len;

    while (r->rc == 0) {
        size_t to;

        while (from < v.n && unicode_is_space(unicode_at(v.s + from, v.n - from, &len)))
            from += len;
        if (from == v.n)
            break;
        if (max-- == 0) {
            add(r, list, v, from, v.n);
            break;
        }
        for (to = from; to < v.n && !unicode_is_space(unicode_at(v.s + to, v.n - to, &len));)
            to += len;
        add(r, list, v, from, to);
        from = to;
    }
    return list;
}

static struct value rsplit_blanks(struct render *r, struct value v, int64_t max)
{
    const struct value list = value_list(r->pool), none = {.kind = VALUE_MISSING};
    struct value rest = filter_strip(r, v, none, false, true);

    while (rest.n > 0 && r->rc == 0) {
        size_t from = rest.n, len;

        if (max-- == 0) {
            add(r, list, rest, 0, rest.n);
            break;
        }
        while (from > 0) {
            const size_t last = unicode_last(rest.s, from);

            if (unicode_is_space(unicode_at(rest.s + from - last, last, &len)))
                break;
            from -= last;
        }
        add(r, list, rest, from, rest.n);
        rest = filter_strip(r, template_piece(rest, 0, from), none, false, true);
    }
    return template_reversed(r, list);
}

static struct value split_at(struct render *r, struct value v, struct value at, int64_t max)
{
    const struct value list = value_list(r->pool);
    size_t from = 0;

    for (; max != 0 && v.n - from >= at.n; max--) {
        const char *p = memmem(v.s + from, v.n - from, at.s, at.n);

        if (p == NULL)
            break;
        add(r, list, v, from, (size_t)(p - v.s));
        from = (size_t)(p - v.s) + at.n;
    }
    add(r, list, v, from, v.n);
    return list;
}

static struct value rsplit_at(struct render *r, struct value v, struct value at, int64_t max)
{
    const struct value list = value_list(r->pool);
    size_t to = v.n;

    for (; max != 0 && to >= at.n; max--) {
        const char *p = find_last(v.s, to, at);

        if (p == NULL)
            break;
        add(r, list, v, (size_t)(p - v.s) + at.n, to);
        to = (size_t)(p - v.s);
    }
    add(r, list, v, 0, to);
    return template_reversed(r, list);
}

static struct value split(struct render *r, struct value v, const struct value *a, bool right)
{
    int64_t max = -1;

    if (a[1].kind != VALUE_MISSING && !template_index(r, a[1], &max))
        return value_null();
    if (max < 0)
        max = -1;
    if (!template_step(r, v.n / 32))
        return value_null();
    if (!given(a[0]))
        return right ? rsplit_blanks(r, v, max) : split_blanks(r, v, max);
    if (!is_text(r, a[0]))
        return value_null();
    if (a[0].n == 0)
        return template_fail(r, "empty separator");
    if (!right)
        return split_at(r, v, a[0], max);
    return step_backwards(r, v, a[0]) ? rsplit_at(r, v, a[0], max) : value_null();
}

static struct value text_split(struct render *r, struct value v, const struct value *a)
{
    return split(r, v, a, false);
}

static struct value text_rsplit(struct render *r, struct value v, const struct value *a)
{
    return split(r, v, a, true);
}

static struct value text_splitlines(struct render *r, struct value v, const struct value *a)
{
    int64_t keep = 0;

    if (a[0].kind != VALUE_MISSING && !template_index(r, a[0], &keep))
        return value_null();
    return filter_split_lines(r, v, keep != 0);
}

static struct value partition(struct render *r, struct value v, const struct value *a, bool last)
{
    const struct value tuple = value_tuple(r->pool), none = template_piece(v, 0, 0);
    const char *at = NULL;
    size_t i;

    if (!is_text(r, a[0]))
        return value_null();
    if (a[0].n == 0)
        return template_fail(r, "empty separator");
    if (v.n >= a[0].n && step_backwards(r, v, a[0]))
        at = last ? find_last(v.s, v.n, a[0]) : memmem(v.s, v.n, a[0].s, a[0].n);
    i = at != NULL ? (size_t)(at - v.s) : 0;
    if (at == NULL && last) {
        value_list_add(r->pool, tuple, none);
        value_list_add(r->pool, tuple, none);
    }
    value_list_add(r->pool, tuple, at != NULL ? template_piece(v, 0, i) : v);
    if (at != NULL || !last) {
        value_list_add(r->pool, tuple, at != NULL ? template_piece(v, i, i + a[0].n) : none);
        value_list_add(r->pool, tuple, at != NULL ? template_piece(v, i + a[0].n, v.n) : none);
    }
    return tuple;
}

static struct value text_partition(struct render *r, struct value v, const struct value *a)
{
    return partition(r, v, a, false);
}

static struct value text_rpartition(struct render *r, struct value v, const struct value *a)
{
    return partition(r, v, a, true);
}

/* --- putting together --- */

static struct value text_join(struct render *r, struct value v, const struct value *a)
{
    bool first = true;
    struct value item;
    struct iter it;
    struct buf b;

    if (!template_iter(r, &it, a[0]))
        return value_null();
    template_text(r, &b);
    while (template_iter_next(r, &it, &item)) {
        if (item.kind != VALUE_STRING) {
            template_fail(r, "sequence item: expected str instance, %s found",
                          value_type_name(item));
            break;
        }
        if (!first)
            buf_add(&b, v.s, v.n);
        first = false;
        if ((v.flags & VALUE_SAFE) != 0)
            item = template_escaped(r, item);
        buf_add(&b, item.s, item.n);
    }
    item = template_take(r, &b);
    item.flags = v.flags;
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

/* Zeros between the sign and the rest. */
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
#define LEFT_OUT(name) {#name, NULL, NULL, 0, left_out}

static const struct template_builtin methods[] = {
    METHOD(capitalize, "", 0),
    METHOD(casefold, "", 0),
    METHOD(center, "width fillchar", 1),
    METHOD(count, "sub start end", 1),
    METHOD(endswith, "suffix start end", 1),
    METHOD(expandtabs, "tabsize", 0),
    METHOD(find, "sub start end", 1),
    METHOD(index, "sub start end", 1),
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
    METHOD(partition, "sep", 1),
    METHOD(removeprefix, "prefix", 1),
    METHOD(removesuffix, "suffix", 1),
    METHOD(replace, "old new count", 2),
    METHOD(rfind, "sub start end", 1),
    METHOD(rindex, "sub start end", 1),
    METHOD(rjust, "width fillchar", 1),
    METHOD(rpartition, "sep", 1),
    METHOD(rsplit, "sep maxsplit", 0),
    METHOD(rstrip, "chars", 0),
    METHOD(split, "sep maxsplit", 0),
    METHOD(splitlines, "keepends", 0),
    METHOD(startswith, "prefix start end", 1),
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
