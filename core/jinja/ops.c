/* core/jinja/ops.c - operators: arithmetic, comparison, membership.
 *
 * Arithmetic picks the case by the kinds of both operands: text and lists, integers with overflow
 * checks, then doubles. An integer result beyond 64 bits is an error by name, never a wrapped
 * number. Comparisons go through value.h with the request's budget, since nested values can be
 * large. Floor division and modulo have Python's signs.
 */
#include "core/jinja/template_impl.h"

#include "core/base/err.h"
#include "core/base/maths.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *op_text(enum token_type op)
{
    switch ((int)op) {
    case TOKEN_ADD:
        return "+";
    case TOKEN_SUB:
        return "-";
    case TOKEN_MUL:
        return "*";
    case TOKEN_DIV:
        return "/";
    case TOKEN_FLOORDIV:
        return "//";
    case TOKEN_MOD:
        return "%";
    case TOKEN_POW:
        return "**";
    case TOKEN_LT:
        return "<";
    case TOKEN_LE:
        return "<=";
    case TOKEN_GT:
        return ">";
    default:
        return ">=";
    }
}

struct value template_fail_big(struct render *r)
{
    return template_fail(r, "an integer needs more than 64 bits");
}

static struct value floor_divide(struct render *r, int64_t a, int64_t b, bool modulo)
{
    int64_t quotient, rest;

    if (b == 0)
        return template_fail(r, "integer division or modulo by zero");
    if (b == -1) /* the smallest number has no negative */
        return modulo ? value_int(0) : a == INT64_MIN ? template_fail_big(r) : value_int(-a);
    quotient = a / b;
    rest = a % b;
    if (rest != 0 && (rest < 0) != (b < 0)) {
        quotient--;
        rest += b;
    }
    return value_int(modulo ? rest : quotient);
}

static struct value int_power(struct render *r, int64_t a, int64_t b)
{
    int64_t result = 1;

    if (b < 0)
        return a == 0 ? template_fail(r, "0.0 cannot be raised to a negative power")
                      : value_float(maths_pow((double)a, (double)b));
    while (b > 0) {
        if ((b & 1) != 0 && __builtin_mul_overflow(result, a, &result))
            return template_fail_big(r);
        b >>= 1;
        if (b > 0 && __builtin_mul_overflow(a, a, &a))
            return template_fail_big(r);
    }
    return value_int(result);
}

/* Return the double nearest to a / b, as Python does: 64 bits of the quotient, and one bit that is
 * set if there are more, are rounded once. */
static double quotient_of(int64_t a, int64_t b)
{
    const uint64_t n = a < 0 ? -(uint64_t)a : (uint64_t)a, d = b < 0 ? -(uint64_t)b : (uint64_t)b;
    const int shift = 64 + (n != 0 ? __builtin_clzll(n) : 0);
    const unsigned __int128 wide = (unsigned __int128)n << shift, q = wide / d;
    const double value = ldexp((double)(q | (wide % d != 0)), -shift);

    return (a < 0) != (b < 0) ? -value : value;
}

static struct value int_binary(struct render *r, enum token_type op, int64_t a, int64_t b)
{
    int64_t i = 0;
    bool overflow = false;

    switch ((int)op) {
    case TOKEN_ADD:
        overflow = __builtin_add_overflow(a, b, &i);
        break;
    case TOKEN_SUB:
        overflow = __builtin_sub_overflow(a, b, &i);
        break;
    case TOKEN_MUL:
        overflow = __builtin_mul_overflow(a, b, &i);
        break;
    case TOKEN_DIV:
        return b != 0 ? value_float(quotient_of(a, b))
                      : template_fail(r, "division by zero");
    case TOKEN_POW:
        return int_power(r, a, b);
    default:
        return floor_divide(r, a, b, op == TOKEN_MOD);
    }
    return overflow ? template_fail_big(r) : value_int(i);
}

/* The remainder has the sign of b; the quotient is chosen to fit it. */
static struct value float_divide(struct render *r, double a, double b, bool modulo)
{
    double rest, quotient;

    if (b == 0)
        return template_fail(r, modulo ? "float modulo" : "float floor division by zero");
    rest = fmod(a, b);
    quotient = (a - rest) / b;
    if (rest != 0) {
        if ((b < 0) != (rest < 0)) {
            rest += b;
            quotient -= 1;
        }
    } else {
        rest = copysign(0, b);
    }
    if (modulo)
        return value_float(rest);
    if (quotient == 0)
        return value_float(copysign(0, a / b));
    rest = floor(quotient);
    return value_float(quotient - rest > 0.5 ? rest + 1 : rest);
}

static struct value float_power(struct render *r, double a, double b)
{
    const double result = maths_pow(a, b);

    if (a == 0 && b < 0)
        return template_fail(r, "0.0 cannot be raised to a negative power");
    if (isnan(result) && !isnan(a) && !isnan(b))
        return template_fail(r, "the power is not a real number");
    if (isinf(result) && !isinf(a) && !isinf(b))
        return template_fail(r, "numerical result out of range");
    return value_float(result);
}

static struct value float_binary(struct render *r, enum token_type op, double a, double b)
{
    switch ((int)op) {
    case TOKEN_ADD:
        return value_float(a + b);
    case TOKEN_SUB:
        return value_float(a - b);
    case TOKEN_MUL:
        return value_float(a * b);
    case TOKEN_DIV:
        return b != 0 ? value_float(a / b) : template_fail(r, "float division by zero");
    case TOKEN_POW:
        return float_power(r, a, b);
    default:
        return float_divide(r, a, b, op == TOKEN_MOD);
    }
}

static struct value repeat_text(struct render *r, struct value s, int64_t times)
{
    struct value v;
    char *text;

    if (times <= 0 || s.n == 0)
        return template_piece(s, 0, 0);
    if (times > UINT32_MAX / s.n || !template_step(r, (uint64_t)times * s.n / 64))
        return template_limit(r, "a repeated string is too long");
    text = value_pool_text(r->pool, (size_t)times * s.n);
    if (!template_step(r, 0))
        return value_null();
    for (int64_t i = 0; i < times; i++)
        memcpy(text + (size_t)i * s.n, s.s, s.n);
    v = value_borrow(text, (size_t)times * s.n);
    v.flags = template_flags_of(s);
    return v;
}

static struct value repeat_list(struct render *r, struct value list, int64_t times)
{
    const struct value v =
        list.kind == VALUE_TUPLE ? value_tuple(r->pool) : value_list(r->pool);

    for (int64_t i = 0; i < times && list.list->n > 0; i++) {
        if (!template_step(r, list.list->n))
            break;
        for (uint32_t k = 0; k < list.list->n; k++)
            value_list_add(r->pool, v, list.list->at[k]);
    }
    return v;
}

static bool is_listy(struct value v)
{
    return v.kind == VALUE_LIST || v.kind == VALUE_TUPLE;
}

static struct value join_lists(struct render *r, struct value a, struct value b)
{
    const struct value v = a.kind == VALUE_TUPLE ? value_tuple(r->pool) : value_list(r->pool);

    template_step(r, (uint64_t)a.list->n + b.list->n);
    for (uint32_t i = 0; i < a.list->n; i++)
        value_list_add(r->pool, v, a.list->at[i]);
    for (uint32_t i = 0; i < b.list->n; i++)
        value_list_add(r->pool, v, b.list->at[i]);
    return v;
}

/* Join two texts; where one is safe the other is escaped. */
static struct value join_text(struct render *r, struct value a, struct value b)
{
    const bool safe = ((a.flags | b.flags) & VALUE_SAFE) != 0;
    struct value v;

    if (!template_step(r, b.n / 64))
        return value_null();
    if (safe) {
        a = template_escaped(r, a);
        b = template_escaped(r, b);
    }
    v = value_concat(r->pool, a, b);
    v.flags |= safe ? VALUE_SAFE : 0;
    return v;
}

static struct value multiply_sequence(struct render *r, struct value a, struct value b)
{
    struct value times = value_is_int(a) ? a : b;
    const struct value what = value_is_int(a) ? b : a;

    return what.kind == VALUE_STRING ? repeat_text(r, what, value_as_int(times))
                                     : repeat_list(r, what, value_as_int(times));
}

/* Compute with an integer beyond 64 bits: with a float Python uses doubles; a whole result would
 * have to be exact to the last digit, which fails. */
static struct value big_binary(struct render *r, enum token_type op, struct value a, struct value b)
{
    const double x = value_as_double(a), y = value_as_double(b);

    if (a.kind != VALUE_FLOAT && b.kind != VALUE_FLOAT)
        return template_fail_big(r);
    if ((a.kind == VALUE_BIG && isinf(x)) || (b.kind == VALUE_BIG && isinf(y)))
        return template_fail(r, "int too large to convert to float");
    return float_binary(r, op, x, y);
}

/* -x: remove or add the sign of the digits. */
static struct value negative_big(struct render *r, struct value v)
{
    char *text = value_pool_text(r->pool, (size_t)v.n + 2);

    if (text == NULL)
        return value_null();
    text[0] = '-';
    memcpy(text + 1, v.s, (size_t)v.n + 1);
    return value_number(r->pool, v.s[0] == '-' ? text + 2 : text);
}

static bool is_sequence(struct value v)
{
    return v.kind == VALUE_STRING || is_listy(v);
}

struct value template_binary(struct render *r, enum token_type op, struct value a, struct value b)
{
    if (op == TOKEN_MOD && a.kind == VALUE_STRING)
        return template_percent(r, a, b, NULL);
    if (a.kind == VALUE_UNDEFINED || b.kind == VALUE_UNDEFINED)
        return template_fail_undefined(r, a.kind == VALUE_UNDEFINED ? a : b);
    if (value_is_int(a) && value_is_int(b))
        return int_binary(r, op, value_as_int(a), value_as_int(b));
    if (value_is_number(a) && value_is_number(b) && (a.kind == VALUE_BIG || b.kind == VALUE_BIG))
        return big_binary(r, op, a, b);
    if (value_is_number(a) && value_is_number(b))
        return float_binary(r, op, value_as_double(a), value_as_double(b));
    if (op == TOKEN_ADD && a.kind == VALUE_STRING && b.kind == VALUE_STRING)
        return join_text(r, a, b);
    if (op == TOKEN_ADD && is_listy(a) && a.kind == b.kind)
        return join_lists(r, a, b);
    if (op == TOKEN_MUL && ((is_sequence(a) && value_is_int(b)) ||
                            (value_is_int(a) && is_sequence(b))))
        return multiply_sequence(r, a, b);
    if (op == TOKEN_ADD && a.kind == VALUE_STRING)
        return template_fail(r, "can only concatenate str (not \"%s\") to str",
                             value_type_name(b));
    return template_fail(r, "unsupported operand type(s) for %s: '%s' and '%s'", op_text(op),
                         value_type_name(a), value_type_name(b));
}

struct value template_unary(struct render *r, enum token_type op, struct value a)
{
    if (a.kind == VALUE_UNDEFINED)
        return template_fail_undefined(r, a);
    if (a.kind == VALUE_FLOAT)
        return value_float(op == TOKEN_SUB ? -a.f : a.f);
    if (a.kind == VALUE_BIG)
        return op == TOKEN_SUB ? negative_big(r, a) : a;
    if (!value_is_int(a))
        return template_fail(r, "bad operand type for unary %s: '%s'", op_text(op),
                             value_type_name(a));
    if (op == TOKEN_ADD)
        return value_int(a.i);
    return a.i == INT64_MIN ? value_number(r->pool, "9223372036854775808") : value_int(-a.i);
}

static uint64_t steps_left(const struct render *r)
{
    return r->rc == 0 ? r->budget->steps_left / TEMPLATE_STEP : 0;
}

/* Spend the budget of a comparison that was given `before` steps and has `left` of them. */
static void account(struct render *r, int rc, uint64_t before, uint64_t left)
{
    template_step(r, before - left);
    if (rc == ERR_LIMIT)
        template_limit(r, left == 0 ? "the template takes too many steps"
                                    : "values are nested too deep to be compared");
}

bool template_equal(struct render *r, struct value a, struct value b)
{
    const uint64_t before = steps_left(r);
    uint64_t left = before;
    const int rc = value_equal_within(a, b, &left);

    account(r, rc, before, left);
    if (a.kind == VALUE_STRING)
        template_step(r, a.n / 256);
    return rc == 1;
}

bool template_less(struct render *r, struct value a, struct value b, enum token_type op)
{
    const bool swap = op == TOKEN_GT || op == TOKEN_GE;
    const bool or_equal = op == TOKEN_LE || op == TOKEN_GE;
    const uint64_t before = steps_left(r);
    uint64_t left = before;
    int rc;

    if (a.kind == VALUE_UNDEFINED || b.kind == VALUE_UNDEFINED) {
        template_fail_undefined(r, a.kind == VALUE_UNDEFINED ? a : b);
        return false;
    }
    rc = swap ? value_less(b, a, or_equal, &left) : value_less(a, b, or_equal, &left);
    account(r, rc, before, left);
    if (a.kind == VALUE_STRING)
        template_step(r, a.n / 256);
    if (rc == ERR_INVAL)
        template_fail(r, "'%s' not supported between instances of '%s' and '%s'", op_text(op),
                      value_type_name(a), value_type_name(b));
    return rc == 1;
}

static bool contains_text(struct render *r, struct value seq, struct value item)
{
    if (item.kind != VALUE_STRING) {
        template_fail(r, "'in <string>' requires string as left operand, not %s",
                      value_type_name(item));
        return false;
    }
    template_step(r, seq.n / 64);
    return item.n == 0 || (seq.n > 0 && memmem(seq.s, seq.n, item.s, item.n) != NULL);
}

bool template_contains(struct render *r, struct value seq, struct value item)
{
    struct value other;
    struct iter it;
    uint64_t hash;

    if (seq.kind == VALUE_STRING)
        return contains_text(r, seq, item);
    if (seq.kind == VALUE_DICT ||
        (seq.kind == VALUE_VIEW && template_view_kind(seq) == TEMPLATE_KEYS)) {
        template_step(r, item.kind == VALUE_STRING ? item.n / 128 : 0); /* the string is hashed
                                                                         * twice */
        if (value_hash(item, &hash) < 0)
            template_fail(r, "unhashable type: '%s'", value_type_name(item));
        if (seq.kind == VALUE_VIEW) {
            seq.dict = (struct value_dict *)template_view_dict(seq);
            seq.kind = VALUE_DICT;
        }
        return value_dict_find(seq, item) != NULL;
    }
    if (!template_iterable(seq)) {
        template_fail(r, "argument of type '%s' is not iterable", value_type_name(seq));
        return false;
    }
    if (!template_iter(r, &it, seq))
        return false;
    while (template_iter_next(r, &it, &other))
        if (template_equal(r, other, item))
            return true;
    return false;
}

bool template_compare(struct render *r, int op, struct value a, struct value b)
{
    switch (op) {
    case TOKEN_EQ:
        return template_equal(r, a, b);
    case TOKEN_NE:
        return !template_equal(r, a, b);
    case OPERAND_IN:
        return template_contains(r, b, a);
    case OPERAND_NOT_IN:
        return !template_contains(r, b, a);
    default:
        return template_less(r, a, b, (enum token_type)op);
    }
}
