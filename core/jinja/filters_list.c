/* core/jinja/filters_list.c - the filters of lists and dicts.
 *
 * The input may be any value that can be walked over; it is listed first where a filter needs all
 * items. Filters that compare (sort, min, groupby, unique) compute one key for each item, by
 * attribute and without case if asked, and then compare keys alone. Results are new lists, since
 * values never change.
 */
#include "core/jinja/filters.h"

#include "core/base/err.h"

#include <string.h>

static bool given(struct value v)
{
    return v.kind != VALUE_MISSING && v.kind != VALUE_NULL;
}

struct value filter_list(struct render *r, struct value v, const struct value *a)
{
    (void)a;
    return template_listed(r, v);
}

struct value filter_first(struct render *r, struct value v, const struct value *a)
{
    struct value item;
    struct iter it;

    (void)a;
    if (!template_iter(r, &it, v))
        return value_null();
    if (template_iter_next(r, &it, &item))
        return item;
    return template_undefined_hint("No first item, sequence was empty.");
}

struct value filter_last(struct render *r, struct value v, const struct value *a)
{
    struct value list;

    (void)a;
    if (v.kind == VALUE_GENERATOR || v.kind == VALUE_LOOP || !template_iterable(v))
        return template_fail(r, "'%s' object is not reversible", value_type_name(v));
    if (v.kind == VALUE_STRING && v.n > 0)
        return template_getitem(r, v, value_int(-1));
    list = template_listed(r, v);
    if (r->rc == 0 && list.list->n > 0)
        return list.list->at[list.list->n - 1];
    return template_undefined_hint("No last item, sequence was empty.");
}

static struct value items(struct render *r, struct value v, const struct value *a)
{
    (void)a;
    if (v.kind == VALUE_UNDEFINED)
        return value_list(r->pool);
    if (v.kind != VALUE_DICT)
        return template_fail(r, "Can only get item pairs from a mapping.");
    return template_listed(r, template_new_view(r, v, TEMPLATE_ITEMS));
}

struct value filter_items(struct render *r, struct value v, const struct value *a)
{
    return filter_later(r, v, a, items);
}

struct value filter_join(struct render *r, struct value v, const struct value *a)
{
    const struct value d = a[0].kind == VALUE_MISSING ? value_text("") : template_plain(r, a[0]);
    bool first = true;
    struct value item;
    struct iter it;
    struct text text;

    if (!template_iter(r, &it, v))
        return value_null();
    template_text_begin(r, &text);
    while (template_iter_next(r, &it, &item)) {
        if (!first)
            template_text_add(r, &text, d);
        first = false;
        item = filter_member(r, item, a[1], (struct value){.kind = VALUE_MISSING});
        if (r->rc == 0 && item.kind == VALUE_STRING)
            template_text_add(r, &text, item);
        else if (r->rc == 0)
            template_put(r, item, &text.buf);
    }
    return template_text_end(r, &text);
}

struct value filter_reverse(struct render *r, struct value v, const struct value *a)
{
    struct value list;
    struct buf b;

    (void)a;
    if (!template_iterable(v))
        return template_fail(r, "argument must be iterable");
    list = template_reversed(r, v);
    if (v.kind == VALUE_GENERATOR || v.kind == VALUE_LOOP)
        return list;
    if (v.kind != VALUE_STRING)
        return template_new_generator(r, list);
    template_text(r, &b);
    for (uint32_t i = 0; r->rc == 0 && i < list.list->n; i++)
        buf_add(&b, list.list->at[i].s, list.list->at[i].n);
    list = template_take(r, &b);
    list.flags = template_flags_of(v);
    return list;
}

struct value filter_sum(struct render *r, struct value v, const struct value *a)
{
    struct value sum = a[1].kind == VALUE_MISSING ? value_int(0) : a[1], item;
    struct iter it;

    if (sum.kind == VALUE_STRING)
        return template_fail(r, "sum() can't sum strings [use ''.join(seq) instead]");
    if (template_iter(r, &it, v))
        while (template_iter_next(r, &it, &item)) {
            item = filter_member(r, item, a[0], (struct value){.kind = VALUE_MISSING});
            sum = r->rc == 0 ? template_binary(r, TOKEN_ADD, sum, item) : sum;
        }
    return sum;
}

/* Cut the list into lists of `size` items; the last one is filled up. */
static struct value batch(struct render *r, struct value v, const struct value *a)
{
    const struct value all = value_list(r->pool);
    struct value part = value_list(r->pool), item;
    struct iter it;

    if (!template_iter(r, &it, v))
        return value_null();
    while (template_iter_next(r, &it, &item)) {
        if (value_equal(value_int(part.list->n), a[0]) == 1) {
            value_list_add(r->pool, all, part);
            part = value_list(r->pool);
        }
        value_list_add(r->pool, part, item);
    }
    if (template_step(r, 0) && part.list->n > 0) {
        while (given(a[1]) && template_less(r, value_int(part.list->n), a[0], TOKEN_LT))
            value_list_add(r->pool, part, a[1]);
        value_list_add(r->pool, all, part);
    }
    return all;
}

struct value filter_batch(struct render *r, struct value v, const struct value *a)
{
    return filter_later(r, v, a, batch);
}

/* Cut the list into a[0] lists; the first ones are longer by one item, or the others are filled
 * up. */
static struct value slice(struct render *r, struct value v, const struct value *a)
{
    const struct value all = value_list(r->pool), list = template_listed(r, v);
    int64_t n, at = 0;

    if (r->rc < 0 || !template_index(r, a[0], &n))
        return value_null();
    if (n == 0)
        return template_fail(r, "integer division or modulo by zero");
    for (int64_t i = 0; i < n && template_step(r, 1); i++) {
        const struct value part = value_list(r->pool);
        const bool extra = i < list.list->n % n;
        const int64_t end = at + list.list->n / n + extra;

        if (!template_step(r, 0))
            return value_null();
        for (; at < end; at++)
            value_list_add(r->pool, part, list.list->at[at]);
        if (given(a[1]) && !extra)
            value_list_add(r->pool, part, a[1]);
        value_list_add(r->pool, all, part);
    }
    return all;
}

struct value filter_slice(struct render *r, struct value v, const struct value *a)
{
    return filter_later(r, v, a, slice);
}

/* --- keys to compare by --- */

struct by { /* how to make the keys of items */
    struct value path, otherwise;
    bool fold; /* strings are compared without case */
};

static struct value key_of(struct render *r, const struct by *by, struct value v)
{
    v = filter_member(r, v, by->path, by->otherwise);
    return by->fold && r->rc == 0 ? filter_fold(r, v) : v;
}

/* Return the keys of an item for "a,b" as a list. */
static struct value keys_of(struct render *r, const struct by *by, struct value v)
{
    const struct value keys = value_list(r->pool), path = by->path;
    struct by one = *by;
    size_t from = 0;

    if (path.kind != VALUE_STRING) {
        value_list_add(r->pool, keys, key_of(r, by, v));
        return keys;
    }
    for (size_t i = 0; i <= path.n && r->rc == 0; i++) {
        if (i < path.n && path.s[i] != ',')
            continue;
        one.path = value_borrow(path.s + from, i - from);
        value_list_add(r->pool, keys, key_of(r, &one, v));
        from = i + 1;
    }
    return keys;
}

static struct by by_args(struct value case_sensitive, struct value path)
{
    return (struct by){.path = path, .otherwise = {.kind = VALUE_MISSING},
                       .fold = !value_truth(case_sensitive)};
}

/* Sort the items by their keys; NULL: an error. */
static struct sort_item *sorted(struct render *r, const struct by *by, bool several,
                                struct value list, bool reverse)
{
    const uint32_t n = list.list->n;
    struct sort_item *at = value_pool_alloc(r->pool, ((size_t)n + 1) * sizeof(*at));

    if (!template_step(r, n))
        return NULL;
    for (uint32_t i = 0; i < n && r->rc == 0; i++) {
        at[i].item = list.list->at[i];
        at[i].key = several ? keys_of(r, by, at[i].item) : key_of(r, by, at[i].item);
    }
    return r->rc == 0 && template_sort(r, at, n, reverse) ? at : NULL;
}

static struct value items_of(struct render *r, const struct sort_item *at, uint32_t n)
{
    const struct value list = value_list(r->pool);

    for (uint32_t i = 0; at != NULL && i < n; i++)
        value_list_add(r->pool, list, at[i].item);
    return list;
}

struct value filter_sort(struct render *r, struct value v, const struct value *a)
{
    const struct by by = by_args(a[1], a[2]);
    const struct value list = template_listed(r, v);
    int64_t reverse = 0;

    if (r->rc < 0 || (a[0].kind != VALUE_MISSING && !template_index(r, a[0], &reverse)))
        return list;
    return items_of(r, sorted(r, &by, true, list, reverse != 0), list.list->n);
}

struct value filter_dictsort(struct render *r, struct value v, const struct value *a)
{
    struct by by = by_args(a[0], value_int(0));
    int64_t reverse = 0;
    struct value list;

    if (a[1].kind != VALUE_MISSING && !value_is_text(a[1], "key")) {
        if (!value_is_text(a[1], "value"))
            return template_fail(r, "You can only sort by either \"key\" or \"value\"");
        by.path = value_int(1);
    }
    if (v.kind == VALUE_UNDEFINED)
        return template_fail_undefined(r, v);
    if (v.kind != VALUE_DICT)
        return template_fail(r, "'%s' object has no attribute 'items'", value_type_name(v));
    list = template_listed(r, template_new_view(r, v, TEMPLATE_ITEMS));
    if (r->rc < 0 || (a[2].kind != VALUE_MISSING && !template_index(r, a[2], &reverse)))
        return list;
    return items_of(r, sorted(r, &by, false, list, reverse != 0), list.list->n);
}

static struct value unique(struct render *r, struct value v, const struct value *a)
{
    const struct by by = by_args(a[0], a[1]);
    const struct value seen = value_dict(r->pool), list = value_list(r->pool);
    struct value item, key;
    struct iter it;

    if (!template_iter(r, &it, v))
        return value_null();
    while (template_iter_next(r, &it, &item)) {
        key = key_of(r, &by, item);
        if (!template_step(r, 1))
            break;
        if (value_dict_find(seen, key) != NULL)
            continue;
        if (value_dict_put(r->pool, seen, key, value_null()) < 0)
            return template_fail(r, "unhashable type: '%s'", value_type_name(key));
        value_list_add(r->pool, list, item);
    }
    return list;
}

struct value filter_unique(struct render *r, struct value v, const struct value *a)
{
    return filter_later(r, v, a, unique);
}

/* Return the first of the smallest items, or of the largest. */
static struct value extreme(struct render *r, struct value v, const struct value *a,
                            enum token_type op)
{
    const struct by by = by_args(a[0], a[1]);
    struct value best, best_key, item, key;
    struct iter it;

    if (!template_iter(r, &it, v))
        return value_null();
    if (!template_iter_next(r, &it, &best))
        return template_undefined_hint("No aggregated item, sequence was empty.");
    best_key = key_of(r, &by, best);
    while (r->rc == 0 && template_iter_next(r, &it, &item)) {
        key = key_of(r, &by, item);
        if (r->rc == 0 && template_less(r, key, best_key, op)) {
            best = item;
            best_key = key;
        }
    }
    return best;
}

struct value filter_min(struct render *r, struct value v, const struct value *a)
{
    return extreme(r, v, a, TOKEN_LT);
}

struct value filter_max(struct render *r, struct value v, const struct value *a)
{
    return extreme(r, v, a, TOKEN_GT);
}

/* Make the group of the items from `from` to `to`: (grouper, [items]). */
static struct value group(struct render *r, const struct by *by, const struct sort_item *at,
                          uint32_t from, uint32_t to)
{
    struct value tuple = value_tuple(r->pool), list = value_list(r->pool);
    struct by as_written = *by;

    as_written.fold = false;
    for (uint32_t i = from; i < to; i++)
        value_list_add(r->pool, list, at[i].item);
    value_list_add(r->pool, tuple, key_of(r, &as_written, at[from].item));
    value_list_add(r->pool, tuple, list);
    tuple.flags |= TEMPLATE_GROUP;
    return tuple;
}

struct value filter_groupby(struct render *r, struct value v, const struct value *a)
{
    const struct value groups = value_list(r->pool), list = template_listed(r, v);
    struct by by = by_args(a[2], a[0]);
    struct sort_item *at;
    uint32_t from = 0;

    by.otherwise = a[1];
    at = r->rc == 0 ? sorted(r, &by, false, list, false) : NULL;
    for (uint32_t i = 1; at != NULL && i <= list.list->n && template_step(r, 1); i++) {
        if (i < list.list->n && template_equal(r, at[i].key, at[from].key))
            continue;
        value_list_add(r->pool, groups, group(r, &by, at, from, i));
        from = i;
    }
    return groups;
}
