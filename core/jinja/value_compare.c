/* core/jinja/value_compare.c - truth, equality, order and hash, as in Python; see value.h.
 *
 * Numbers of all kinds compare by their exact value: integers and doubles as long double, big
 * integers digit by digit. Lists and dicts are compared recursively with a count of the values
 * looked at, because a value that contains one list many times, level by level, is small in memory
 * but exponential to walk.
 */
#include "core/jinja/template_impl.h"

#include "core/base/err.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

bool value_is_int(struct value v)
{
    return v.kind == VALUE_INT || v.kind == VALUE_BOOL;
}

bool value_is_number(struct value v)
{
    return value_is_int(v) || v.kind == VALUE_FLOAT || v.kind == VALUE_BIG;
}

int64_t value_as_int(struct value v)
{
    return v.i;
}

double value_as_double(struct value v)
{
    if (v.kind == VALUE_BIG)
        return strtod(v.s, NULL);
    return v.kind == VALUE_FLOAT ? v.f : (double)v.i;
}

bool value_is_text(struct value v, const char *text)
{
    return v.kind == VALUE_STRING && v.n == strlen(text) && memcmp(v.s, text, v.n) == 0;
}

bool value_truth(struct value v)
{
    switch ((enum value_kind)v.kind) {
    case VALUE_UNDEFINED:
    case VALUE_NULL:
    case VALUE_MISSING:
        return false;
    case VALUE_BOOL:
    case VALUE_INT:
        return v.i != 0;
    case VALUE_FLOAT:
        return v.f != 0;
    case VALUE_STRING:
        return v.n > 0;
    case VALUE_LIST:
    case VALUE_TUPLE:
        return v.list->n > 0;
    case VALUE_DICT:
        return v.dict->n > 0;
    case VALUE_RANGE:
        return template_range_length(v) > 0;
    case VALUE_VIEW:
        return template_view_dict(v)->n > 0;
    case VALUE_BIG: /* a big integer is never zero */
    case VALUE_LOOP: /* a loop in progress has at least one item */
    case VALUE_NAMESPACE:
    case VALUE_GENERATOR:
    case VALUE_MACRO:
    case VALUE_FUNCTION:
    case VALUE_METHOD:
    case VALUE_CYCLER:
    case VALUE_JOINER:
        break;
    }
    return true;
}

/* Counts each look at a value, since values can contain one value many times, on every level. */
struct work {
    uint64_t *left;
    int depth;
};

static bool spend(const struct work *w)
{
    if (*w->left == 0 || w->depth > VALUE_MAX_DEPTH)
        return false;
    --*w->left;
    return true;
}

static int equal(struct value a, struct value b, struct work w);

static int equal_lists(const struct value_list *a, const struct value_list *b, struct work w)
{
    if (a == b)
        return 1;
    if (a->n != b->n)
        return 0;
    for (uint32_t i = 0; i < a->n; i++) {
        const int rc = equal(a->at[i], b->at[i], w);

        if (rc != 1)
            return rc;
    }
    return 1;
}

static int equal_dicts(struct value a, struct value b, struct work w)
{
    if (a.dict == b.dict)
        return 1;
    if (a.dict->n != b.dict->n)
        return 0;
    for (uint32_t i = 0; i < a.dict->n; i++) {
        const struct value *other = value_dict_find(b, a.dict->at[i].key);
        const int rc = other == NULL ? 0 : equal(a.dict->at[i].value, *other, w);

        if (rc != 1)
            return rc;
    }
    return 1;
}

/* Return the exact number: a long double has at least 64 bits of mantissa. */
static long double exact(struct value v)
{
    return v.kind == VALUE_FLOAT ? (long double)v.f : (long double)v.i;
}

struct whole { /* a number without its fraction */
    char room[320]; /* the largest double has 309 digits */
    const char *digits;
    size_t n; /* SIZE_MAX: infinite */
    bool is_negative;
};

static void read_whole(struct whole *w, struct value v)
{
    const char *text = w->room;

    if (v.kind == VALUE_BIG)
        text = v.s;
    else if (v.kind == VALUE_FLOAT)
        snprintf(w->room, sizeof(w->room), "%.0f", trunc(v.f));
    else
        snprintf(w->room, sizeof(w->room), "%lld", (long long)v.i);
    w->is_negative = text[0] == '-';
    w->digits = text + w->is_negative;
    w->n = v.kind == VALUE_FLOAT && isinf(v.f) ? SIZE_MAX : strlen(w->digits);
}

/* < 0, 0, > 0, where one number is big: the other one's fraction does not matter. */
static int order_big(struct value a, struct value b)
{
    struct whole x, y;
    int sign, c;

    read_whole(&x, a);
    read_whole(&y, b);
    sign = x.is_negative ? -1 : 1;
    if (x.is_negative != y.is_negative)
        return sign;
    if (x.n != y.n)
        return x.n < y.n ? -sign : sign;
    c = memcmp(x.digits, y.digits, x.n);
    return c == 0 ? 0 : c < 0 ? -sign : sign;
}

/* Set *c to the order of two numbers, as order_big() does; false: one is not a number. */
static bool order(struct value a, struct value b, int *c)
{
    if ((a.kind == VALUE_FLOAT && isnan(a.f)) || (b.kind == VALUE_FLOAT && isnan(b.f)))
        return false;
    *c = a.kind == VALUE_BIG || b.kind == VALUE_BIG
             ? order_big(a, b)
             : (exact(a) > exact(b)) - (exact(a) < exact(b));
    return true;
}

static int equal(struct value a, struct value b, struct work w)
{
    int c;

    if (!spend(&w))
        return ERR_LIMIT;
    w.depth++;
    if (value_is_number(a) && value_is_number(b))
        return order(a, b, &c) && c == 0;
    if (a.kind != b.kind)
        return 0;
    switch ((enum value_kind)a.kind) {
    case VALUE_UNDEFINED:
    case VALUE_NULL:
        return 1;
    case VALUE_STRING:
        return a.n == b.n && (a.n == 0 || memcmp(a.s, b.s, a.n) == 0);
    case VALUE_LIST:
    case VALUE_TUPLE:
        return equal_lists(a.list, b.list, w);
    case VALUE_DICT:
        return equal_dicts(a, b, w);
    case VALUE_RANGE:
        return template_range_equal(a, b);
    default:
        return a.object == b.object;
    }
}

int value_equal_within(struct value a, struct value b, uint64_t *budget)
{
    return equal(a, b, (struct work){.left = budget});
}

int value_equal(struct value a, struct value b)
{
    uint64_t budget = VALUE_MAX_KEY;

    return value_equal_within(a, b, &budget);
}

static int less(struct value a, struct value b, bool or_equal, struct work w);

/* Equal elements need no order; the first two that differ decide. */
static int less_lists(const struct value_list *a, const struct value_list *b, bool or_equal,
                      struct work w)
{
    for (uint32_t i = 0; i < a->n && i < b->n; i++) {
        const int same = equal(a->at[i], b->at[i], w);

        if (same < 0)
            return same;
        if (same == 0)
            return less(a->at[i], b->at[i], or_equal, w);
    }
    return or_equal ? a->n <= b->n : a->n < b->n;
}

static int less(struct value a, struct value b, bool or_equal, struct work w)
{
    int c;

    if (!spend(&w))
        return ERR_LIMIT;
    w.depth++;
    if (value_is_number(a) && value_is_number(b))
        return order(a, b, &c) && (or_equal ? c <= 0 : c < 0);
    if (a.kind == VALUE_STRING && b.kind == VALUE_STRING) {
        /* UTF-8 sorts like code points */
        const uint32_t n = a.n < b.n ? a.n : b.n;

        c = n > 0 ? memcmp(a.s, b.s, n) : 0;
        if (c != 0)
            return c < 0;
        return or_equal ? a.n <= b.n : a.n < b.n;
    }
    if (a.kind == b.kind && (a.kind == VALUE_LIST || a.kind == VALUE_TUPLE))
        return less_lists(a.list, b.list, or_equal, w);
    return ERR_INVAL;
}

int value_less(struct value a, struct value b, bool or_equal, uint64_t *budget)
{
    return less(a, b, or_equal, (struct work){.left = budget});
}

static uint64_t mix(uint64_t h, uint64_t x)
{
    return (h ^ x) * 0x9E3779B97F4A7C15u + (h >> 29);
}

static int hash_at(struct value v, uint64_t *hash, struct work w)
{
    uint64_t h, item;

    if (!spend(&w))
        return ERR_INVAL;
    w.depth++;
    switch ((enum value_kind)v.kind) {
    case VALUE_BIG:
    case VALUE_FLOAT: /* equal numbers have equal hashes, whatever their kinds */
        v.f = value_as_double(v);
        if (v.f >= -9223372036854775808.0 && v.f < 9223372036854775808.0 &&
            v.f == floor(v.f))
            v.i = (int64_t)v.f;
        *hash = mix(1, (uint64_t)v.i);
        return 0;
    case VALUE_BOOL:
    case VALUE_INT:
        *hash = mix(1, (uint64_t)v.i);
        return 0;
    case VALUE_STRING:
        /* seeded by the address of the code, which clients do not know: no chosen collisions */
        *hash = XXH3_64bits_withSeed(v.s, v.n, (uint64_t)(uintptr_t)&hash_at);
        return 0;
    case VALUE_TUPLE:
        h = 3;
        for (uint32_t i = 0; i < v.list->n; i++) {
            if (hash_at(v.list->at[i], &item, w) < 0)
                return ERR_INVAL;
            h = mix(h, item);
        }
        *hash = h;
        return 0;
    case VALUE_LIST:
    case VALUE_DICT:
        return ERR_INVAL;
    case VALUE_UNDEFINED:
    case VALUE_NULL:
        *hash = mix(2, v.kind);
        return 0;
    default:
        *hash = mix(4, (uint64_t)(uintptr_t)v.object);
        return 0;
    }
}

int value_hash(struct value v, uint64_t *hash)
{
    uint64_t budget = VALUE_MAX_KEY;

    return hash_at(v, hash, (struct work){.left = &budget});
}

const char *value_type_name(struct value v)
{
    static const char *const names[] = {
        [VALUE_UNDEFINED] = "Undefined",  [VALUE_NULL] = "NoneType",
        [VALUE_BOOL] = "bool",            [VALUE_INT] = "int",
        [VALUE_FLOAT] = "float",          [VALUE_BIG] = "int",
        [VALUE_STRING] = "str",
        [VALUE_LIST] = "list",            [VALUE_TUPLE] = "tuple",
        [VALUE_DICT] = "dict",            [VALUE_NAMESPACE] = "Namespace",
        [VALUE_RANGE] = "range",          [VALUE_VIEW] = "dict_view",
        [VALUE_GENERATOR] = "generator",  [VALUE_LOOP] = "LoopContext",
        [VALUE_MACRO] = "Macro",          [VALUE_FUNCTION] = "function",
        [VALUE_METHOD] = "method",        [VALUE_CYCLER] = "Cycler",
        [VALUE_JOINER] = "Joiner",        [VALUE_MISSING] = "missing",
    };

    return names[v.kind];
}
