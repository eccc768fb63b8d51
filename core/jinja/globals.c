/* core/jinja/globals.c - the functions that every template sees.
 *
 * A constant table of names and functions, looked up when a name is in no scope and not among the
 * caller's variables. cycler, joiner and namespace are objects in the pool whose state changes, so
 * that templates can carry it from one round of a loop to the next.
 */
#include "core/jinja/template_impl.h"

#include "core/base/err.h"

#include <string.h>
#include <time.h>

struct cycler {
    const struct value *at;
    uint32_t n, i;
};

struct joiner {
    struct value separator;
    bool used;
};

struct function {
    const char *name;
    struct value (*call)(struct render *r, const struct args *args);
};

static struct value object(struct render *r, enum value_kind kind, void *p)
{
    if (p == NULL) {
        template_step(r, 0);
        return value_null();
    }
    return (struct value){.kind = (uint8_t)kind, .object = p};
}

static struct value call_range(struct render *r, const struct args *args)
{
    int64_t bound[3] = {0, 0, 1};
    struct value v;

    if (args->n < 1 || args->n > 3 || args->n_kw > 0)
        return template_fail(r, "range() takes one to three arguments");
    for (uint32_t i = 0; i < args->n; i++)
        if (!template_index(r, args->at[i], &bound[args->n == 1 ? 1 : i]))
            return value_null();
    if (bound[2] == 0)
        return template_fail(r, "range() arg 3 must not be zero");
    v = template_new_range(r, bound[0], bound[1], bound[2]);
    if (r->rc == 0 && template_range_length(v) > TEMPLATE_MAX_RANGE)
        return template_fail(r, "Range too big. The sandbox blocks ranges larger than MAX_RANGE "
                                "(%d).", TEMPLATE_MAX_RANGE);
    return v;
}

/* Add one pair of dict([...]). */
static bool add_pair(struct render *r, struct value dict, struct value pair)
{
    struct value list;

    if (!template_iterable(pair) || pair.kind == VALUE_UNDEFINED) {
        template_fail(r, "cannot convert an element to a pair of key and value");
        return false;
    }
    list = template_listed(r, pair);
    if (r->rc == 0 && list.list->n != 2)
        template_fail(r, "an element of the sequence has length %u; 2 is required", list.list->n);
    if (r->rc == 0 && value_dict_put(r->pool, dict, list.list->at[0], list.list->at[1]) < 0)
        template_fail(r, "unhashable type: '%s'", value_type_name(list.list->at[0]));
    return r->rc == 0;
}

/* Make the dict of dict() or namespace(): from a mapping or pairs, then keywords. */
static struct value new_dict(struct render *r, const char *name, const struct args *args)
{
    const struct value dict = value_dict(r->pool);
    struct value item;
    struct iter it;

    if (args->n > 1)
        return template_fail(r, "%s expected at most 1 argument, got %u", name, args->n);
    if (args->n == 1 && args->at[0].kind == VALUE_UNDEFINED)
        return template_fail_undefined(r, args->at[0]);
    if (args->n == 1 && args->at[0].kind == VALUE_DICT) {
        const struct value_dict *from = args->at[0].dict;

        for (uint32_t i = 0; i < from->n && template_step(r, 1); i++)
            value_dict_put(r->pool, dict, from->at[i].key, from->at[i].value);
    } else if (args->n == 1 && template_iter(r, &it, args->at[0])) {
        while (template_iter_next(r, &it, &item) && add_pair(r, dict, item))
            ;
    }
    for (uint32_t i = 0; i < args->n_kw; i++)
        value_dict_put(r->pool, dict, args->kw[i].name, args->kw[i].value);
    template_step(r, 0);
    return dict;
}

static struct value call_dict(struct render *r, const struct args *args)
{
    return new_dict(r, "dict", args);
}

static struct value call_namespace(struct render *r, const struct args *args)
{
    struct value v = new_dict(r, "namespace", args);

    if (r->rc == 0)
        v.kind = VALUE_NAMESPACE;
    return v;
}

static struct value call_cycler(struct render *r, const struct args *args)
{
    struct cycler *c = value_pool_alloc(r->pool, sizeof(*c));

    if (args->n == 0 || args->n_kw > 0)
        return template_fail(r, "at least one item has to be provided");
    if (c != NULL)
        *c = (struct cycler){.at = args->at, .n = args->n};
    return object(r, VALUE_CYCLER, c);
}

static struct value call_joiner(struct render *r, const struct args *args)
{
    struct joiner *j = value_pool_alloc(r->pool, sizeof(*j));
    struct value a[TEMPLATE_MAX_PARAMS];

    if (!template_bind(r, "joiner", "sep", 0, args, a))
        return value_null();
    if (j != NULL)
        j->separator = a[0].kind == VALUE_MISSING ? value_text(", ") : a[0];
    return object(r, VALUE_JOINER, j);
}

static struct value call_raise(struct render *r, const struct args *args)
{
    struct value a[TEMPLATE_MAX_PARAMS], text;

    if (!template_bind(r, "raise_exception", "message", 1, args, a))
        return value_null();
    text = template_str(r, a[0]);
    return template_fail(r, "%.*s", (int)text.n, text.n > 0 ? text.s : "");
}

static struct value call_strftime(struct render *r, const struct args *args)
{
    struct value a[TEMPLATE_MAX_PARAMS];
    const time_t now = (time_t)r->options.now;
    char format[256], text[512];
    struct tm tm;
    size_t n;

    if (!template_bind(r, "strftime_now", "format", 1, args, a))
        return value_null();
    if (a[0].kind != VALUE_STRING)
        return template_fail(r, "strftime_now() needs a string");
    if (a[0].n + 2 > sizeof(format) || memchr(a[0].s, '\0', a[0].n) != NULL)
        return template_fail(r, "the format of strftime_now() is too long");
    memcpy(format, a[0].s, a[0].n); /* a mark is appended, because strftime() returns 0 for an empty
                                     * result and for a failure */
    memcpy(format + a[0].n, "|", 2);
    if (localtime_r(&now, &tm) == NULL)
        return template_fail(r, "the time is out of range");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* the template gives the format */
    n = strftime(text, sizeof(text), format, &tm);
#pragma GCC diagnostic pop
    if (n == 0)
        return template_fail(r, "strftime_now() gives too much text");
    return value_string(r->pool, text, n - 1);
}

static struct value call_lipsum(struct render *r, const struct args *args)
{
    (void)args;
    return template_fail(r, "lipsum() is not supported");
}

static const struct function functions[] = {
    {"range", call_range},
    {"dict", call_dict},
    {"namespace", call_namespace},
    {"cycler", call_cycler},
    {"joiner", call_joiner},
    {"raise_exception", call_raise},
    {"strftime_now", call_strftime},
    {"lipsum", call_lipsum},
};

#define FUNCTION(i) {.kind = VALUE_FUNCTION, .object = (struct template_object *)&functions[i]}

const struct value *template_global(struct value name)
{
    static const struct value values[] = {FUNCTION(0), FUNCTION(1), FUNCTION(2), FUNCTION(3),
                                          FUNCTION(4), FUNCTION(5), FUNCTION(6), FUNCTION(7)};
    _Static_assert(sizeof(values) / sizeof(values[0]) == sizeof(functions) / sizeof(functions[0]),
                   "one value for each function");

    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        if (value_is_text(name, functions[i].name))
            return &values[i];
    return NULL;
}

const char *template_function_name(struct value v)
{
    return ((const struct function *)v.object)->name;
}

struct value template_call_function(struct render *r, struct value v, const struct args *args)
{
    return ((const struct function *)v.object)->call(r, args);
}

struct value template_cycler_attr(struct render *r, struct value v, struct value name, bool *found)
{
    const struct cycler *c = (const struct cycler *)v.object;

    (void)r;
    *found = value_is_text(name, "current");
    return c->at[c->i];
}

struct value template_cycler_next(struct value v, bool reset)
{
    struct cycler *c = (struct cycler *)v.object;
    const struct value item = c->at[c->i];

    c->i = reset ? 0 : (c->i + 1) % c->n;
    return reset ? value_null() : item;
}

struct value template_joiner_call(struct render *r, struct value v)
{
    struct joiner *j = (struct joiner *)v.object;

    (void)r;
    if (j->used)
        return j->separator;
    j->used = true;
    return value_text("");
}
