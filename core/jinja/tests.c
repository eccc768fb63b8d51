/* core/jinja/tests.c - the tests that follow "is".
 *
 * A constant table of names and functions, searched when a template is parsed, or by select and
 * reject while it runs. A test gets its value and bound arguments and returns true or false; most
 * look only at the kind. An undefined value is an ordinary input here, since "is defined" must not
 * fail.
 */
#include "core/jinja/template_impl.h"

#include "core/base/unicode.h"

static struct value answer_test(bool yes)
{
    return value_bool(yes);
}

#define KIND_TEST(name, condition)                                                                 \
    static struct value test_##name(struct render *r, struct value v, const struct value *a)       \
    {                                                                                              \
        (void)r;                                                                                   \
        (void)a;                                                                                   \
        return answer_test(condition);                                                             \
    }

KIND_TEST(defined, v.kind != VALUE_UNDEFINED)
KIND_TEST(undefined, v.kind == VALUE_UNDEFINED)
KIND_TEST(none, v.kind == VALUE_NULL)
KIND_TEST(boolean, v.kind == VALUE_BOOL)
KIND_TEST(false, v.kind == VALUE_BOOL && v.i == 0)
KIND_TEST(true, v.kind == VALUE_BOOL && v.i != 0)
KIND_TEST(integer, v.kind == VALUE_INT || v.kind == VALUE_BIG)
KIND_TEST(float, v.kind == VALUE_FLOAT)
KIND_TEST(number, value_is_number(v))
KIND_TEST(string, v.kind == VALUE_STRING)
KIND_TEST(mapping, v.kind == VALUE_DICT)
KIND_TEST(iterable, template_iterable(v))
KIND_TEST(escaped, v.kind == VALUE_STRING && (v.flags & VALUE_SAFE) != 0)

/* True: the value could be a key of a dict, as a name that is looked up must be. */
static bool could_be_key(struct render *r, struct value v)
{
    uint64_t hash;

    if (value_hash(v, &hash) < 0)
        template_fail(r, "unhashable type: '%s'", value_type_name(v));
    return r->rc == 0;
}

static struct value test_filter(struct render *r, struct value v, const struct value *a)
{
    (void)a;
    return answer_test(could_be_key(r, v) && v.kind == VALUE_STRING && template_filter(v) != NULL);
}

static struct value test_test(struct render *r, struct value v, const struct value *a)
{
    (void)a;
    return answer_test(could_be_key(r, v) && v.kind == VALUE_STRING && template_test(v) != NULL);
}

static struct value test_sequence(struct render *r, struct value v, const struct value *a)
{
    (void)r;
    (void)a;
    switch ((enum value_kind)v.kind) {
    case VALUE_UNDEFINED:
    case VALUE_STRING:
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_DICT:
    case VALUE_RANGE:
        return answer_test(true);
    default:
        return answer_test(false);
    }
}

static struct value test_callable(struct render *r, struct value v, const struct value *a)
{
    (void)r;
    (void)a;
    switch ((enum value_kind)v.kind) {
    case VALUE_UNDEFINED: /* calling an undefined value is the failure */
    case VALUE_LOOP:
    case VALUE_MACRO:
    case VALUE_FUNCTION:
    case VALUE_METHOD:
    case VALUE_JOINER:
        return answer_test(true);
    default:
        return answer_test(false);
    }
}

static struct value remainder_is(struct render *r, struct value v, int64_t by, int64_t rest)
{
    const struct value m = template_binary(r, TOKEN_MOD, v, value_int(by));

    return answer_test(r->rc == 0 && value_equal(m, value_int(rest)) == 1);
}

static struct value test_even(struct render *r, struct value v, const struct value *a)
{
    (void)a;
    return remainder_is(r, v, 2, 0);
}

static struct value test_odd(struct render *r, struct value v, const struct value *a)
{
    (void)a;
    return remainder_is(r, v, 2, 1);
}

static struct value test_divisibleby(struct render *r, struct value v, const struct value *a)
{
    const struct value m = template_binary(r, TOKEN_MOD, v, a[0]);

    return answer_test(r->rc == 0 && value_equal(m, value_int(0)) == 1);
}

/* Return true if all cased letters have the case, and there is one. */
static struct value has_case(struct render *r, struct value v, bool upper)
{
    bool any = false;
    size_t len;

    v = template_str(r, v);
    for (size_t i = 0; i < v.n; i += len) {
        const uint32_t cp = unicode_at(v.s + i, v.n - i, &len);

        if (unicode_is_title(cp) || (upper ? unicode_is_lower(cp) : unicode_is_upper(cp)))
            return answer_test(false);
        any = any || (upper ? unicode_is_upper(cp) : unicode_is_lower(cp));
    }
    return answer_test(any);
}

static struct value test_lower(struct render *r, struct value v, const struct value *a)
{
    (void)a;
    return has_case(r, v, false);
}

static struct value test_upper(struct render *r, struct value v, const struct value *a)
{
    (void)a;
    return has_case(r, v, true);
}

/* Return true if both are the same object. Numbers and strings have no identity here: equal ones
 * count as the same. An undefined value is made anew each time. */
static struct value test_sameas(struct render *r, struct value v, const struct value *a)
{
    if (v.kind != a[0].kind)
        return answer_test(false);
    switch ((enum value_kind)v.kind) {
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_DICT:
    case VALUE_RANGE:
        return answer_test(v.object == a[0].object);
    case VALUE_UNDEFINED:
        return answer_test(false);
    default:
        return answer_test(template_equal(r, v, a[0]));
    }
}

static struct value test_in(struct render *r, struct value v, const struct value *a)
{
    return answer_test(template_contains(r, a[0], v));
}

#define COMPARE_TEST(name, op)                                                                     \
    static struct value test_##name(struct render *r, struct value v, const struct value *a)       \
    {                                                                                              \
        return answer_test(template_compare(r, op, v, a[0]));                                      \
    }

COMPARE_TEST(eq, TOKEN_EQ)
COMPARE_TEST(ne, TOKEN_NE)
COMPARE_TEST(gt, TOKEN_GT)
COMPARE_TEST(ge, TOKEN_GE)
COMPARE_TEST(lt, TOKEN_LT)
COMPARE_TEST(le, TOKEN_LE)

#define PLAIN(name) {#name, test_##name, "", 0, NULL}
#define WITH(text, name) {text, test_##name, "other", 1, NULL}

static const struct template_builtin tests[] = {
    PLAIN(boolean),           PLAIN(callable),         PLAIN(defined),
    PLAIN(escaped),           PLAIN(even),             PLAIN(false),
    PLAIN(filter),            PLAIN(float),            PLAIN(integer),
    PLAIN(iterable),          PLAIN(lower),            PLAIN(mapping),
    PLAIN(none),              PLAIN(number),           PLAIN(odd),
    PLAIN(sequence),          PLAIN(string),           PLAIN(test),
    PLAIN(true),              PLAIN(undefined),        PLAIN(upper),
    WITH("!=", ne),           WITH("<", lt),           WITH("<=", le),
    WITH("==", eq),           WITH(">", gt),           WITH(">=", ge),
    WITH("divisibleby", divisibleby),                  WITH("eq", eq),
    WITH("equalto", eq),      WITH("ge", ge),          WITH("greaterthan", gt),
    WITH("gt", gt),           WITH("in", in),          WITH("le", le),
    WITH("lessthan", lt),     WITH("lt", lt),          WITH("ne", ne),
    WITH("sameas", sameas),
};

const struct template_builtin *template_test(struct value name)
{
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        if (value_is_text(name, tests[i].name))
            return &tests[i];
    return NULL;
}
