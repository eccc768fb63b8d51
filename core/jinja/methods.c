/* core/jinja/methods.c - the methods of values.
 *
 * One constant table for each kind of value. A method that Python has but a sandbox forbids is in
 * the table with a function that refuses, so that a template gets the right sentence instead of
 * "undefined". append() and pop() of lists are the exceptions, because published templates call
 * them.
 */
#include "core/jinja/filters.h"

#include "core/jinja/methods.h"
#include "core/base/err.h"

#include <math.h>
#include <string.h>

/* --- dicts, lists, numbers, loops --- */

static struct value dict_get(struct render *r, struct value v, const struct value *a)
{
    const struct value *member = value_dict_find(v, a[0]);
    uint64_t hash;

    if (value_hash(a[0], &hash) < 0)
        return template_fail(r, "unhashable type: '%s'", value_type_name(a[0]));
    if (member != NULL)
        return *member;
    return a[1].kind == VALUE_MISSING ? value_null() : a[1];
}

static struct value dict_items(struct render *r, struct value v, const struct value *a)
{
    (void)a;
    return template_new_view(r, v, TEMPLATE_ITEMS);
}

static struct value dict_keys(struct render *r, struct value v, const struct value *a)
{
    (void)a;
    return template_new_view(r, v, TEMPLATE_KEYS);
}

static struct value dict_values(struct render *r, struct value v, const struct value *a)
{
    (void)a;
    return template_new_view(r, v, TEMPLATE_VALUES);
}

/* For copy() of values that never change: the value itself. */
static struct value same(struct render *r, struct value v, const struct value *a)
{
    (void)r;
    (void)a;
    return v;
}

static struct value list_append(struct render *r, struct value v, const struct value *a)
{
    value_list_add(r->pool, v, a[0]);
    template_step(r, 1);
    return value_null();
}

static struct value list_pop(struct render *r, struct value v, const struct value *a)
{
    struct value_list *l = v.list;
    int64_t i = -1;
    struct value item;

    if (a[0].kind != VALUE_MISSING && !template_index(r, a[0], &i))
        return value_null();
    if (i < 0)
        i += l->n;
    if (i < 0 || i >= l->n)
        return template_fail(r, "pop %s", l->n == 0 ? "from empty list" : "index out of range");
    item = l->at[i];
    memmove(&l->at[i], &l->at[i + 1], (l->n - (size_t)i - 1) * sizeof(item));
    l->n--;
    template_step(r, l->n / 64);
    return item;
}

static struct value list_copy(struct render *r, struct value v, const struct value *a)
{
    (void)a;
    return template_listed(r, v);
}

static struct value list_count(struct render *r, struct value v, const struct value *a)
{
    int64_t n = 0;
    struct value item;
    struct iter it;

    if (template_iter(r, &it, v))
        while (template_iter_next(r, &it, &item))
            n += template_equal(r, item, a[0]);
    return value_int(n);
}

static struct value list_index(struct render *r, struct value v, const struct value *a)
{
    const int64_t n = template_length(r, v);
    int64_t from = 0, to = n;

    if ((a[1].kind != VALUE_MISSING && !template_index(r, a[1], &from)) ||
        (a[2].kind != VALUE_MISSING && !template_index(r, a[2], &to)))
        return value_null();
    from = from < 0 ? (from + n < 0 ? 0 : from + n) : from;
    to = to < 0 ? to + n : to;
    for (int64_t i = from; i < to && i < n && r->rc == 0; i++)
        if (template_equal(r, template_getitem(r, v, value_int(i)), a[0]))
            return value_int(i);
    return template_fail(r, "the value is not in the list");
}

static struct value int_bit_length(struct render *r, struct value v, const struct value *a)
{
    uint64_t i = v.i < 0 ? -(uint64_t)v.i : (uint64_t)v.i;
    int64_t n = 0;

    (void)r;
    (void)a;
    for (; i > 0; i >>= 1)
        n++;
    return value_int(n);
}

static struct value float_is_integer(struct render *r, struct value v, const struct value *a)
{
    (void)r;
    (void)a;
    return value_bool(isfinite(v.f) && v.f == floor(v.f));
}

static struct value cycler_next(struct render *r, struct value v, const struct value *a)
{
    (void)r;
    (void)a;
    return template_cycler_next(v, false);
}

static struct value cycler_reset(struct render *r, struct value v, const struct value *a)
{
    (void)r;
    (void)a;
    return template_cycler_next(v, true);
}

static struct value left_out(struct render *r, struct value v, const struct args *args)
{
    (void)args;
    return template_fail(r, "this method of '%s' is not supported", value_type_name(v));
}

/* Refuse a method that Python has: a sandboxed template may not change a value. append() and pop()
 * of lists are allowed all the same, because published templates use them. */
static struct value unsafe(struct render *r, struct value v, const struct args *args)
{
    (void)args;
    return template_fail(r, "access to a method that changes a '%s' object is unsafe",
                         value_type_name(v));
}

static const struct template_builtin dict_methods[] = {
    {"get", dict_get, "key default", 1, NULL}, {"items", dict_items, "", 0, NULL},
    {"keys", dict_keys, "", 0, NULL},          {"values", dict_values, "", 0, NULL},
    {"copy", same, "", 0, NULL},               {"fromkeys", NULL, NULL, 0, left_out},
    {"clear", NULL, NULL, 0, unsafe},          {"pop", NULL, NULL, 0, unsafe},
    {"popitem", NULL, NULL, 0, unsafe},        {"setdefault", NULL, NULL, 0, unsafe},
    {"update", NULL, NULL, 0, unsafe},         {NULL, NULL, NULL, 0, NULL},
};

static const struct template_builtin list_methods[] = {
    {"count", list_count, "value", 1, NULL}, {"index", list_index, "value start stop", 1, NULL},
    {"copy", list_copy, "", 0, NULL},        {"append", list_append, "object", 1, NULL},
    {"clear", NULL, NULL, 0, unsafe},        {"extend", NULL, NULL, 0, unsafe},
    {"insert", NULL, NULL, 0, unsafe},       {"pop", list_pop, "index", 0, NULL},
    {"remove", NULL, NULL, 0, unsafe},       {"reverse", NULL, NULL, 0, unsafe},
    {"sort", NULL, NULL, 0, unsafe},         {NULL, NULL, NULL, 0, NULL},
};

static const struct template_builtin tuple_methods[] = {
    {"count", list_count, "value", 1, NULL},
    {"index", list_index, "value start stop", 1, NULL},
    {NULL, NULL, NULL, 0, NULL},
};

static const struct template_builtin int_methods[] = {
    {"bit_length", int_bit_length, "", 0, NULL}, {"conjugate", same, "", 0, NULL},
    {"bit_count", NULL, NULL, 0, left_out},      {"to_bytes", NULL, NULL, 0, left_out},
    {"from_bytes", NULL, NULL, 0, left_out},     {"as_integer_ratio", NULL, NULL, 0, left_out},
    {NULL, NULL, NULL, 0, NULL},
};

static const struct template_builtin float_methods[] = {
    {"is_integer", float_is_integer, "", 0, NULL}, {"conjugate", same, "", 0, NULL},
    {"hex", NULL, NULL, 0, left_out},              {"fromhex", NULL, NULL, 0, left_out},
    {"as_integer_ratio", NULL, NULL, 0, left_out}, {NULL, NULL, NULL, 0, NULL},
};

static const struct template_builtin loop_methods[] = {
    {"cycle", NULL, NULL, 0, template_loop_cycle},
    {"changed", NULL, NULL, 0, template_loop_changed},
    {NULL, NULL, NULL, 0, NULL},
};

static const struct template_builtin cycler_methods[] = {
    {"next", cycler_next, "", 0, NULL},
    {"reset", cycler_reset, "", 0, NULL},
    {NULL, NULL, NULL, 0, NULL},
};

static const struct template_builtin *methods_of(struct value v)
{
    switch ((enum value_kind)v.kind) {
    case VALUE_STRING:
        return template_string_methods();
    case VALUE_DICT:
        return dict_methods;
    case VALUE_LIST:
        return list_methods;
    case VALUE_TUPLE:
    case VALUE_RANGE:
        return tuple_methods;
    case VALUE_BOOL:
    case VALUE_INT:
        return int_methods;
    case VALUE_FLOAT:
        return float_methods;
    case VALUE_LOOP:
        return loop_methods;
    case VALUE_CYCLER:
        return cycler_methods;
    default:
        return NULL;
    }
}

const struct template_builtin *template_method(struct value v, struct value name, bool *exists)
{
    const struct template_builtin *m = methods_of(v);

    *exists = false;
    for (; m != NULL && m->name != NULL; m++) {
        if (!value_is_text(name, m->name))
            continue;
        *exists = true;
        return m->call_raw == unsafe ? NULL : m;
    }
    return NULL;
}
