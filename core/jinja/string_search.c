/* core/jinja/string_search.c - the methods of strings that search in them.
 *
 * Searching is byte by byte (memmem() or from the end), which is right for UTF-8; positions are
 * converted to characters only for arguments and results. Start and end arguments first cut the
 * string to a part. Pieces of a split share the bytes of the string and keep their origin.
 */
#include "core/jinja/methods.h"

#include "core/base/err.h"
#include "core/base/unicode.h"
#include "core/jinja/filters.h"

#include <string.h>

static bool given(struct value v)
{
    return v.kind != VALUE_MISSING && v.kind != VALUE_NULL;
}

static bool search_is_text(struct render *r, struct value v)
{
    if (v.kind != VALUE_STRING)
        template_fail(r, "must be str, not %s", value_type_name(v));
    return r->rc == 0;
}

static bool begins_at(struct value v, struct value with)
{
    return with.n <= v.n && (with.n == 0 || memcmp(v.s, with.s, with.n) == 0);
}

static bool ends(struct value v, struct value with)
{
    return with.n <= v.n && (with.n == 0 || memcmp(v.s + v.n - with.n, with.s, with.n) == 0);
}

struct part { /* part of a string, from the start and end arguments */
    struct value v;
    int64_t from;  /* offset of the part, in characters */
    bool possible; /* false: the start is after the end */
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

/* Return true if one text, or any of a tuple of texts, matches. */
static struct value matches(struct render *r, struct value v, const struct value *a,
                            bool (*match)(struct value v, struct value with))
{
    struct part part;

    if (!cut_part(r, v, a[1], a[2], &part))
        return value_null();
    if (a[0].kind != VALUE_TUPLE)
        return search_is_text(r, a[0]) ? value_bool(part.possible && match(part.v, a[0]))
                                       : value_null();
    for (uint32_t i = 0; i < a[0].list->n; i++) {
        if (!search_is_text(r, a[0].list->at[i]))
            return value_null();
        if (part.possible && match(part.v, a[0].list->at[i]))
            return value_bool(true);
    }
    return value_bool(false);
}

struct value method_startswith(struct render *r, struct value v, const struct value *a)
{
    return matches(r, v, a, begins_at);
}

struct value method_endswith(struct render *r, struct value v, const struct value *a)
{
    return matches(r, v, a, ends);
}

/* Spend the steps of a search for `what` from the end. */
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

/* Return the index of the character where a[0] begins, or -1. */
static int64_t search(struct render *r, struct value v, const struct value *a, bool last)
{
    const char *at;
    struct part part;

    if (!search_is_text(r, a[0]) || !cut_part(r, v, a[1], a[2], &part) || !part.possible)
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

struct value method_find(struct render *r, struct value v, const struct value *a)
{
    return value_int(search(r, v, a, false));
}

struct value method_rfind(struct render *r, struct value v, const struct value *a)
{
    return value_int(search(r, v, a, true));
}

static struct value found(struct render *r, int64_t at)
{
    return at >= 0 ? value_int(at) : template_fail(r, "substring not found");
}

struct value method_index(struct render *r, struct value v, const struct value *a)
{
    return found(r, search(r, v, a, false));
}

struct value method_rindex(struct render *r, struct value v, const struct value *a)
{
    return found(r, search(r, v, a, true));
}

struct value method_count(struct render *r, struct value v, const struct value *a)
{
    struct part part;
    int64_t n = 0;
    size_t from = 0;

    if (!search_is_text(r, a[0]) || !cut_part(r, v, a[1], a[2], &part))
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
        if (n % 8 == 0 && !template_step(r, 1))
            break;
    }
    return value_int(n);
}

struct value method_replace(struct render *r, struct value v, const struct value *a)
{
    struct value old = a[0], by = a[1], out;
    int64_t count = -1;

    if (!search_is_text(r, old) || !search_is_text(r, by) ||
        (a[2].kind != VALUE_MISSING && !template_index(r, a[2], &count)))
        return value_null();
    if ((v.flags & VALUE_SAFE) != 0) {
        old = template_escaped(r, old);
        by = template_escaped(r, by);
    }
    out = filter_replace_text(r, v, old, by, count);
    out.flags |= v.flags & VALUE_SAFE;
    return out;
}

static void add_split(struct render *r, struct value list, struct value v, size_t from, size_t to)
{
    if (template_step(r, 1))
        value_list_add(r->pool, list, template_piece(v, from, to));
}

/* Split at blanks, in any number. */
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
            add_split(r, list, v, from, v.n);
            break;
        }
        for (to = from; to < v.n && !unicode_is_space(unicode_at(v.s + to, v.n - to, &len));)
            to += len;
        add_split(r, list, v, from, to);
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
            add_split(r, list, rest, 0, rest.n);
            break;
        }
        while (from > 0) {
            const size_t last = unicode_last(rest.s, from);

            if (unicode_is_space(unicode_at(rest.s + from - last, last, &len)))
                break;
            from -= last;
        }
        add_split(r, list, rest, from, rest.n);
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
        add_split(r, list, v, from, (size_t)(p - v.s));
        from = (size_t)(p - v.s) + at.n;
    }
    add_split(r, list, v, from, v.n);
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
        add_split(r, list, v, (size_t)(p - v.s) + at.n, to);
        to = (size_t)(p - v.s);
    }
    add_split(r, list, v, 0, to);
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
    if (!search_is_text(r, a[0]))
        return value_null();
    if (a[0].n == 0)
        return template_fail(r, "empty separator");
    if (!right)
        return split_at(r, v, a[0], max);
    return step_backwards(r, v, a[0]) ? rsplit_at(r, v, a[0], max) : value_null();
}

struct value method_split(struct render *r, struct value v, const struct value *a)
{
    return split(r, v, a, false);
}

struct value method_rsplit(struct render *r, struct value v, const struct value *a)
{
    return split(r, v, a, true);
}

struct value method_splitlines(struct render *r, struct value v, const struct value *a)
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

    if (!search_is_text(r, a[0]))
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

struct value method_partition(struct render *r, struct value v, const struct value *a)
{
    return partition(r, v, a, false);
}

struct value method_rpartition(struct render *r, struct value v, const struct value *a)
{
    return partition(r, v, a, true);
}
