/* tests/unit/jinja/test_template.c - chat templates: the language piece by piece, what is refused,
 * and that no source and no chat can take more than the limits allow. What the pieces should print
 * is what Python's jinja2 prints; tests/e2e/test_templates.py asks it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>

#include "core/base/budget.h"
#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/jinja/template.h"

#define OUTPUT (1u << 20)

struct result {
    int rc;
    char err[256];
    struct buf out;
};

/* {"name": "Ann", "messages": [{"role": "user", "content": "hi"}, ...], "n": 3, "x": 2.5} */
static struct value chat(struct value_pool *pool)
{
    static const char *const arbiter[][2] = {
        {"system", "Be brief."}, {"user", "hi <b>"}, {"assistant", "gr\xc3\xbc\xc3\x9f dich"}};
    const struct value globals = value_dict(pool), messages = value_list(pool);

    for (int i = 0; i < 3; i++) {
        const struct value m = value_dict(pool);

        value_dict_set(pool, m, "role", value_text(arbiter[i][0]));
        value_dict_set(pool, m, "content",
                       value_string(pool, arbiter[i][1], strlen(arbiter[i][1])));
        value_list_add(pool, messages, m);
    }
    value_dict_set(pool, globals, "messages", messages);
    value_dict_set(pool, globals, "name", value_text("Ann"));
    value_dict_set(pool, globals, "n", value_int(3));
    value_dict_set(pool, globals, "x", value_float(2.5));
    value_dict_set(pool, globals, "yes", value_bool(true));
    value_dict_set(pool, globals, "nothing", value_null());
    return globals;
}

static void render_with(struct result *res, const char *source, size_t n,
                        const struct template_options *options, size_t memory, size_t output)
{
    struct template *t = NULL;
    struct value_pool pool;
    struct value globals;

    memset(res, 0, sizeof(*res));
    buf_init(&res->out, output);
    value_pool_init(&pool, memory);
    res->rc = template_create(&t, source, n, res->err, sizeof(res->err));
    assert_true((res->rc == 0) == (t != NULL));
    if (res->rc == 0) {
        globals = chat(&pool);
        res->rc = template_render(t, &pool, &globals, options, &res->out, res->err,
                                  sizeof(res->err));
    }
    template_destroy(&t);
    assert_null(t);
    value_pool_release(&pool);
    assert_true((res->rc == 0) == (res->err[0] == '\0'));
    if (res->rc < 0)
        assert_int_equal(res->out.len, 0);
}

static void render(struct result *res, const char *source)
{
    render_with(res, source, strlen(source), NULL, VALUE_POOL_MAX, OUTPUT);
}

static void expect(const char *source, const char *text)
{
    struct result res;

    render(&res, source);
    if (res.rc != 0)
        print_error("%s: %s\n", source, res.err);
    assert_int_equal(res.rc, 0);
    assert_string_equal(res.out.data != NULL ? res.out.data : "", text);
    buf_release(&res.out);
}

static void refuse(const char *source, int rc, const char *sentence)
{
    struct result res;

    render(&res, source);
    if (res.rc != rc || strcmp(res.err, sentence) != 0)
        print_error("%s: %d '%s'\n", source, res.rc, res.err);
    assert_int_equal(res.rc, rc);
    assert_string_equal(res.err, sentence);
    buf_release(&res.out);
}

static void literals(void **state)
{
    (void)state;
    expect("{{ 1 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_000 }}", "1 31 5 15 1000");
    expect("{{ 1.0 }} {{ 1e16 }} {{ 1e15 }} {{ 1e-5 }} {{ 0.1 + 0.2 }}",
           "1.0 1e+16 1000000000000000.0 1e-05 0.30000000000000004");
    expect("{{ true }} {{ False }} {{ none }} {{ None }}", "True False None None");
    expect("{{ 'a' \"b\" }} {{ 'it\\'s' }} {{ '\\x41\\u00e9\\101' }}", "ab it's A\xc3\xa9" "A");
    expect("{{ [1, 'a', (2,), {'k': none}] }}", "[1, 'a', (2,), {'k': None}]");
    expect("{{ () }} {{ (1) }} {{ [] }} {{ {} }}", "() 1 [] {}");
    expect("{{ \"it's\" | list | first ~ [\"it's\", 'q\"'] }}", "i[\"it's\", 'q\"']");
}

static void arithmetic(void **state)
{
    (void)state;
    expect("{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ -7 % 3 }} {{ 7 / 2 }}", "3 -4 -2 2 3.5");
    expect("{{ 2 ** 10 }} {{ 2 ** -1 }} {{ -5 ** 2 }} {{ 2 ** 3 ** 2 }}", "1024 0.5 25 64");
    /* Rounded to 64 bits first, the first two would be an ulp off. */
    expect("{{ 257058378552 / 888629737 }} {{ -2394107040757825854 / 1884803634272561997 }} "
           "{{ 9007199254740993 / 1 }} {{ 0 / -3 }} {{ 1 / 9223372036854775807 }}",
           "289.27501280772464 -1.270215632665537 9007199254740992.0 -0.0 1.0842021724855044e-19");
    expect("{{ 'ab' * 2 ~ 3 ~ none }} {{ [1] + [2] }}", "abab3None [1, 2]");
    expect("{{ -7.5 // 2 }} {{ -7.5 % 2 }} {{ true + 1 }}", "-4.0 0.5 2");
    refuse("{{ 9223372036854775807 + 1 }}", ERR_INVAL,
           "line 1: an integer needs more than 64 bits");
    refuse("\n{{ 1 // 0 }}", ERR_INVAL, "line 2: integer division or modulo by zero");
    refuse("{{ 1 + 'a' }}", ERR_INVAL,
           "line 1: unsupported operand type(s) for +: 'int' and 'str'");
}

static void comparisons(void **state)
{
    (void)state;
    expect("{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 == true }}", "True False True");
    expect("{{ 'b' in 'abc' }} {{ 4 not in [1] }} {{ 'a' in {'a': 1} }}", "True True True");
    expect("{{ 1 and 0 or 'x' }} {{ not 1 }} {{ 1 if 0 else 2 }}{{ 1 if 0 }}", "x False 2");
    refuse("{{ 1 < 'a' }}", ERR_INVAL,
           "line 1: '<' not supported between instances of 'int' and 'str'");
}

static void access(void **state)
{
    (void)state;
    expect("{{ messages[0].role }} {{ messages[-1]['content'][:4] }} {{ messages | length }}",
           "system gr\xc3\xbc\xc3\x9f 3");
    expect("{{ 'abcdef'[1:-1:2] }} {{ 'abc'[::-1] }} {{ [1, 2, 3][1:] }}", "bd cba [2, 3]");
    expect("{{ {'items': 1}['items'] }} {{ {'a': 1}.items() | list }} {{ [5, 6].1 }}",
           "1 [('a', 1)] 6");
    expect("[{{ missing }}{{ name.nope }}{{ {}.a }}]", "[]");
    refuse("{{ missing.role }}", ERR_INVAL, "line 1: 'missing' is undefined");
    refuse("{{ messages[0].nope.x }}", ERR_INVAL,
           "line 1: 'dict object' has no attribute 'nope'");
    refuse("{{ nothing.a.b }}", ERR_INVAL, "line 1: 'None' has no attribute 'a'");
    refuse("{{ [].extend([1]) }}", ERR_INVAL, "line 1: 'list object' has no attribute 'extend'");
}

static void statements(void **state)
{
    (void)state;
    expect("{% for m in messages %}{{ loop.index }}{{ m.role[0] }}{{ ',' if not loop.last }}"
           "{% endfor %}", "1s,2u,3a");
    expect("{% for i in [] %}x{% else %}none{% endfor %}", "none");
    expect("{% for i in range(9) if i % 2 %}{% if i == 7 %}{% break %}{% endif %}{{ i }}"
           "{% endfor %}", "135");
    expect("{% set a = 1 %}{% for i in [1, 2] %}{% set a = a + i %}{{ a }}{% endfor %}{{ a }}",
           "231");
    expect("{% set s = namespace(n=0) %}{% for i in [1, 2] %}{% set s.n = s.n + i %}{% endfor %}"
           "{{ s.n }}", "3");
    expect("{% macro m(a, b=2) %}{{ a }}{{ b }}{{ varargs }}{% endmacro %}{{ m(1) }}"
           "{{ m(3, 4, 5) }}", "12()34(5,)");
    expect("{% macro m() %}<{{ caller(7) }}>{% endmacro %}{% call(x) m() %}{{ x }}{% endcall %}",
           "<7>");
    expect("{% filter upper %}abc{% endfilter %}{% set t %}x{{ n }}{% endset %}{{ t }}", "ABCx3");
    expect("{% with a = 1 %}{{ a }}{% endwith %}{{ a is defined }}", "1False");
    expect("{% for i in [1, [2, [3]]] recursive %}{{ loop(i) if i is iterable else i }}"
           "{% endfor %}", "123");
    expect("{% if n > 5 %}a{% elif n == 3 %}b{% else %}c{% endif %}", "b");
    expect("{% generation %}{% set q = 1 %}{{ q }}{% endgeneration %}{{ q is defined }}", "1False");
    expect("{% raw %}{{ x }}{% endraw %}{# note #}", "{{ x }}");
}

static void blanks(void **state)
{
    (void)state;
    expect("a\n  {% if yes %}\n  b\n  {% endif %}\nc\n", "a\n  b\nc");
    expect("a  {{- 1 -}}  b", "a1b");
    expect("a  {%- if yes -%}  b  {%- endif -%}  c", "abc");
    expect("  {%+ if yes %}x{% endif +%}\ny", "  x\ny");
    expect("a\r\nb\rc\n\n", "a\nb\nc\n");
    expect("  {# note #}\nx", "x");
}

static void filters(void **state)
{
    (void)state;
    expect("{{ ' a ' | trim }}{{ 'ab' | upper }}{{ 'gr\xc3\xbc\xc3\x9f' | upper }}",
           "aABGR\xc3\x9cSS");
    expect("{{ messages | map(attribute='role') | join('+') }}", "system+user+assistant");
    expect("{{ messages | selectattr('role', 'equalto', 'user') | list | length }}", "1");
    expect("{{ {'b': [1, 2.5], 'a': none} | tojson }}", "{\"b\": [1, 2.5], \"a\": null}");
    expect("{{ [1] | tojson(indent=2) }}", "[\n  1\n]");
    expect("{{ '<\xc3\xa9\"\n' | tojson }}", "\"<\xc3\xa9\\\"\\n\"");
    expect("{{ [3, 1, 2] | sort }} {{ 'x' | default('y') }} {{ q | default('y') }}",
           "[1, 2, 3] x y");
    expect("{{ '%s-%05.1f' % ('a', 2.25) }} {{ '{:>4}|{}'.format(1, 'b') }}", "a-002.2    1|b");
    refuse("{{ 1 | nope }}", ERR_FORMAT, "line 1: no filter named 'nope'");
    expect("{% if not yes %}{{ 1 | nope }}{% endif %}x", "x");
    refuse("{{ [1] | random }}", ERR_INVAL, "line 1: the filter 'random' is not supported");
}

static void functions(void **state)
{
    const struct template_options options = {.now = 86400 * 365};
    const char source[] = "{{ strftime_now('%Y') }}";
    struct result res;

    (void)state;
    refuse("{% if yes %}\n{{ raise_exception('roles must alternate') }}{% endif %}", ERR_INVAL,
           "line 2: roles must alternate");
    render_with(&res, source, strlen(source), &options, VALUE_POOL_MAX, OUTPUT);
    assert_string_equal(res.out.data, "1971");
    buf_release(&res.out);
    expect("{{ range(3) | list }} {{ dict(a=1) }}", "[0, 1, 2] {'a': 1}");
    refuse("{{ range(100001) }}", ERR_INVAL,
           "line 1: Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
    expect("{% set range = 5 %}{{ range }}", "5");
}

/* However short the room for the sentence: it holds whole characters. */
static void errors_are_utf8(void **state)
{
    const char source[] = "{{ raise_exception('\xc3\xa9\xc3\xa9\xc3\xa9') }}";
    struct value_pool pool;
    struct value globals;
    struct template *t;
    struct buf out;
    char err[20];

    (void)state;
    value_pool_init(&pool, 1 << 20);
    globals = value_dict(&pool);
    buf_init(&out, 100);
    assert_int_equal(template_create(&t, source, strlen(source), err, sizeof(err)), 0);
    for (size_t n = 9; n < 16; n++) {
        template_render(t, &pool, &globals, NULL, &out, err, n);
        assert_int_equal(strlen(err), 8 + (n - 9) / 2 * 2);
    }
    template_destroy(&t);
    buf_release(&out);
    value_pool_release(&pool);
}

static void syntax_errors(void **state)
{
    (void)state;
    refuse("a\nb {{ 1 + }}", ERR_FORMAT, "line 2: expected an expression");
    refuse("{% if x %}\n\n", ERR_FORMAT, "line 2: the template ends before {% elif %}");
    refuse("{% include 'a' %}", ERR_FORMAT, "line 1: {% include %} is not supported");
    refuse("{% extends 'a' %}", ERR_FORMAT, "line 1: {% extends %} is not supported");
    refuse("{% nope %}", ERR_FORMAT, "line 1: unknown tag 'nope'");
    refuse("{{ (1] }}", ERR_FORMAT, "line 1: unexpected ']', expected ')'");
    refuse("{{ 'abc }}", ERR_FORMAT, "line 1: a string is not closed");
    refuse("{# abc", ERR_FORMAT, "line 1: missing end of comment");
    refuse("{% raw %}abc", ERR_FORMAT, "line 1: missing end of raw block");
    refuse("{% break %}", ERR_FORMAT, "line 1: break outside of a loop");
    refuse("{% set 1 = 2 %}", ERR_FORMAT, "line 1: cannot assign to an expression");
    refuse("{{ '\\ud800' }}", ERR_FORMAT, "line 1: \\ud800 in a string is not a valid character");
    refuse("{{ $ }}", ERR_FORMAT, "line 1: unexpected character '$'");
    refuse("x\n\xff", ERR_FORMAT, "line 2: the template is not UTF-8");
}

/* --- limits --- */

/* `open`, n times, then `middle`, then `close` n times. */
static char *nested(const char *open, const char *middle, const char *close, size_t n)
{
    struct buf b;

    buf_init(&b, 16u << 20);
    for (size_t i = 0; i < n; i++)
        buf_add_str(&b, open);
    buf_add_str(&b, middle);
    for (size_t i = 0; i < n; i++)
        buf_add_str(&b, close);
    assert_int_equal(b.err, 0);
    return buf_detach(&b, NULL);
}

static void check_deep(const char *before, const char *open, const char *middle, const char *close,
                       const char *after, size_t n, int rc)
{
    char *inside = nested(open, middle, close, n), *source;
    struct result res;
    struct buf b;

    buf_init(&b, 16u << 20);
    buf_printf(&b, "%s%s%s", before, inside, after);
    source = buf_detach(&b, NULL);
    render(&res, source);
    if (res.rc != rc)
        print_error("%s x %zu: %d %s\n", open, n, res.rc, res.err);
    assert_int_equal(res.rc, rc);
    buf_release(&res.out);
    mem_free(source);
    mem_free(inside);
}

static void deep_sources(void **state)
{
    static const struct {
        const char *before, *open, *middle, *close, *after;
    } shapes[] = {
        {"{{ ", "(", "1", ")", " }}"},
        {"{{ ", "[", "1", "]", " }}"},
        {"{{ ", "{1:", "1", "}", " }}"},
        {"{{ ", "x[", "1", "]", " }}"},
        {"{{ ", "f(", "1", ")", " }}"},
        {"{{ ", "not ", "1", "", " }}"},
        {"{{ ", "- ", "1", "", " }}"},
        {"{{ ", "1 if 1 else ", "1", "", " }}"},
        {"", "{% if 1 %}", "x", "{% endif %}", ""},
        {"", "{% for i in [1] %}", "x", "{% endfor %}", ""},
        {"", "{% set a %}", "x", "{% endset %}", ""},
        {"", "{% macro m() %}", "x", "{% endmacro %}", ""},
        {"", "{% filter upper %}", "x", "{% endfilter %}", ""},
        {"", "{% with %}", "x", "{% endwith %}", ""},
        {"", "{% call m() %}", "x", "{% endcall %}", ""},
        {"{% set ", "(", "a", ",)", " = 1 %}"},
        {"{{ 1", " + 1", "", "", " }}"},
        {"{{ 1", " | string", "", "", " }}"},
        {"{{ x", ".a", "", "", " }}"},
        {"{{ x", "[0]", "", "", " }}"},
        {"{{ 1", " and 1", "", "", " }}"},
        {"{% filter upper", "|upper", "", "", " %}x{% endfilter %}"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        check_deep(shapes[i].before, shapes[i].open, shapes[i].middle, shapes[i].close,
                   shapes[i].after, 50000, ERR_LIMIT);
    check_deep("{{ ", "(", "1", ")", " }}", 60, 0);
    check_deep("", "{% if 1 %}", "x", "{% endif %}", "", 100, 0);
    check_deep("{{ 1", " + 1", "", "", " }}", 400, 0);
    /* what is long without being deep is only long */
    check_deep("{% if 0 %}", "{% elif 0 %}", "", "", "{% endif %}", 20000, 0);
    check_deep("{{ '' ", " ~ 1", "", "", " }}", 20000, 0);
    check_deep("{{ [", "1,", "", "", "] | length }}", 60000, 0);
    check_deep("{{ 1 ", " < 2", "", "", " }}", 20000, 0);
    check_deep("{% set a = 1 %}", "{{ a }}{# b #}", "", "", "", 20000, 0);
}

static void size_of_source(void **state)
{
    char *source = mem_alloc(TEMPLATE_MAX_SOURCE + 1);
    struct result res;

    (void)state;
    memset(source, 'x', TEMPLATE_MAX_SOURCE + 1);
    render_with(&res, source, TEMPLATE_MAX_SOURCE, NULL, VALUE_POOL_MAX, OUTPUT);
    assert_int_equal(res.rc, 0);
    assert_int_equal(res.out.len, TEMPLATE_MAX_SOURCE);
    buf_release(&res.out);
    render_with(&res, source, TEMPLATE_MAX_SOURCE + 1, NULL, VALUE_POOL_MAX, OUTPUT);
    assert_int_equal(res.rc, ERR_LIMIT);
    buf_release(&res.out);
    mem_free(source);
    render_with(&res, "", 0, NULL, VALUE_POOL_MAX, OUTPUT);
    assert_int_equal(res.rc, 0);
    buf_release(&res.out);
}

#define LOOP "{% for a in range(100000) %}{% for b in range(100000) %}"
#define END "{% endfor %}{% endfor %}"

static void endless_work(void **state)
{
    (void)state;
    refuse(LOOP END, ERR_LIMIT, "line 1: the template takes too many steps");
    refuse(LOOP "{% set a = b %}" END, ERR_LIMIT, "line 1: the template takes too many steps");
    refuse("{% for a in range(100000) %}{{ range(100000) | sum }}{% endfor %}", ERR_LIMIT,
           "line 1: the template takes too many steps");
    refuse("{{ [1] * 100000000 }}", ERR_LIMIT, "line 1: the template needs too much memory");
    refuse("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", ERR_LIMIT,
           "line 1: calls and loops are nested too deep");
    refuse("{% for a in [[1]] recursive %}{{ loop([a]) }}{% endfor %}", ERR_LIMIT,
           "line 1: calls and loops are nested too deep");
    refuse("{% macro a() %}{{ b(caller) }}{% endmacro %}{% macro b(c) %}{% call a() %}{% endcall %}"
           "{% endmacro %}{{ a() }}", ERR_LIMIT, "line 1: calls and loops are nested too deep");
}

/* Numbers that no int64_t holds. */
static void large_floats(void **state)
{
    struct result res;
    static const char source[] = "{{ (1e300).is_integer() }} {{ (-1e300).is_integer() }} "
                                 "{{ (0.5).is_integer() }} {{ (1e308 * 10).is_integer() }} "
                                 "{{ (-0.0).is_integer() }} {{ -1e22 | filesizeformat }}";

    (void)state;
    render_with(&res, source, strlen(source), NULL, VALUE_POOL_MAX, OUTPUT);
    assert_int_equal(res.rc, 0);
    assert_string_equal(res.out.data,
                        "True True False False True -10000000000000000000000 Bytes");
    buf_release(&res.out);
}

static void limits_can_be_set(void **state)
{
    struct budget budget = {.steps_left = 500};
    const struct template_options options = {.budget = &budget, .max_depth = 20};
    const char loop[] = "{% for i in range(50) %}{{ i }}{% endfor %}";
    const char deep[] = "{{ 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1"
                        " + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 }}";
    struct result res;

    (void)state;
    render_with(&res, loop, strlen(loop), &options, VALUE_POOL_MAX, OUTPUT);
    assert_int_equal(res.rc, ERR_LIMIT);
    buf_release(&res.out);
    budget = (struct budget){.steps_left = 500};
    render_with(&res, deep, strlen(deep), &options, VALUE_POOL_MAX, OUTPUT);
    assert_int_equal(res.rc, ERR_LIMIT);
    assert_non_null(strstr(res.err, "nested too deep"));
    buf_release(&res.out);
}

static void output_and_memory(void **state)
{
    const char *const large[] = {
        "{% for i in range(100000) %}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{% endfor %}",
        "{% set t %}{% for i in range(100000) %}xxxxxxxxxxxxxxxxxxxxxxxxx{% endfor %}{% endset %}",
        "{{ 'x' * 3000000 }}",
        "{{ 'x' * 99999999999 }}",
        "{{ '%99999999d' % 1 }}",
        "{{ '{:99999999}'.format(1) }}",
        "{{ 'x'.center(99999999) }}",
        "{{ '\\t'.expandtabs(99999999) }}",
        "{{ 'x' | center(99999999) }}",
        "{% set s = namespace(t='x') %}{% for i in range(40) %}{% set s.t = s.t ~ s.t %}"
        "{% endfor %}",
        "{% set s = namespace(t=[1]) %}{% for i in range(40) %}{% set s.t = s.t + s.t %}"
        "{% endfor %}",
        "{{ ('x' * 60000) | replace('', 'y' * 60000) }}",
        "{{ (['x' * 60000] * 60000) | join }}",
        "{{ [1] | batch(99999999, 2) | list }}",
        "{{ [1] | slice(99999999) | list }}",
        "{{ ('a\n' * 60000) | indent(60000) }}",
        "{{ [0] | tojson(indent=99999999) }}",
    };
    struct result res;

    (void)state;
    for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++) {
        render_with(&res, large[i], strlen(large[i]), NULL, 1u << 20, OUTPUT);
        if (res.rc != ERR_LIMIT && res.rc != ERR_INVAL)
            print_error("%s: %d %s\n", large[i], res.rc, res.err);
        assert_true(res.rc == ERR_LIMIT || res.rc == ERR_INVAL);
        buf_release(&res.out);
    }
}

/* Values that hold each other deep down, made by a loop: printing, comparing, writing. */
static void deep_values(void **state)
{
#define DEEP                                                                                       \
    "{% set s = namespace(v=[], w=[], t=()) %}{% for i in range(50000) %}"                         \
    "{% set s.v = [s.v] %}{% set s.w = [s.w] %}{% set s.t = (s.t,) %}{% endfor %}"
/* Not deep, but two to the power of 100 values when walked. */
#define WIDE                                                                                       \
    "{% set s = namespace(v=[], w=[], t=()) %}{% for i in range(100) %}"                           \
    "{% set s.v = [s.v, s.v] %}{% set s.w = [s.w, s.w] %}{% set s.t = (s.t, s.t) %}{% endfor %}"
    (void)state;
    refuse(DEEP "{{ s.v }}", ERR_LIMIT, "line 1: a value is nested too deep to be printed");
    refuse(DEEP "{{ s.v | string }}", ERR_LIMIT,
           "line 1: a value is nested too deep to be printed");
    refuse(DEEP "{{ s.v == s.w }}", ERR_LIMIT,
           "line 1: values are nested too deep to be compared");
    refuse(DEEP "{{ s.v < s.w }}", ERR_LIMIT, "line 1: values are nested too deep to be compared");
    refuse(DEEP "{{ s.v | tojson }}", ERR_LIMIT, "line 1: a value is nested too deep for JSON");
    refuse(WIDE "{{ s.v == s.w }}", ERR_LIMIT, "line 1: the template takes too many steps");
    refuse(WIDE "{{ s.v < s.w }}", ERR_LIMIT, "line 1: the template takes too many steps");
    refuse(WIDE "{{ [1, s.v] in [[1, s.w]] }}", ERR_LIMIT,
           "line 1: the template takes too many steps");
    refuse(WIDE "{{ s.v | tojson }}", ERR_LIMIT, "line 1: the template needs too much memory");
    refuse(WIDE "{{ s.v }}", ERR_LIMIT, "line 1: the output of the template is too large");
    refuse(WIDE "{{ {s.t: 1} }}", ERR_INVAL, "line 1: unhashable type: 'tuple'");
    refuse(DEEP "{{ {s.t: 1} }}", ERR_INVAL, "line 1: unhashable type: 'tuple'");
    refuse(DEEP "{{ '%r' % s }}", ERR_LIMIT, "line 1: a value is nested too deep to be printed");
    expect("{% set s = namespace() %}{% set s.s = s %}{{ s }}",
           "<Namespace {'s': <Namespace {...}>}>");
    refuse("{% set s = namespace(g=[1]) %}{% for i in range(9000) %}"
           "{% set s.g = s.g | map('abs') %}{% endfor %}{{ s.g | list }}",
           ERR_LIMIT, "line 1: calls and loops are nested too deep");
}

/* Whatever the size of the hash table: every key is found again, in the order of insertion. */
static void large_dicts(void **state)
{
    struct value_pool pool;
    struct value dict;
    char key[16];

    (void)state;
    value_pool_init(&pool, VALUE_POOL_MAX);
    dict = value_dict(&pool);
    for (int i = 0; i < 20000; i++) {
        snprintf(key, sizeof(key), "key%d", i % 10000);
        value_dict_set(&pool, dict, key, value_int(i));
    }
    assert_int_equal(pool.err, 0);
    assert_int_equal(dict.dict->n, 10000);
    for (int i = 0; i < 10000; i++) {
        const int n = snprintf(key, sizeof(key), "key%d", i);
        const struct value *v = value_dict_get(dict, key, (size_t)n);

        assert_non_null(v);
        assert_int_equal(v->i, i + 10000);
        assert_true(value_is_text(dict.dict->at[i].key, key));
    }
    assert_null(value_dict_get(dict, "key", 3));
    value_pool_release(&pool);
}

static void strings_grow_in_place(void **state)
{
    struct value_pool pool;
    struct value s, t;

    (void)state;
    value_pool_init(&pool, 1 << 20);
    s = value_string(&pool, "abc", 3);
    t = value_concat(&pool, s, value_text("def"));
    assert_ptr_equal(t.s, s.s);
    assert_int_equal(s.n, 3);
    t = value_concat(&pool, s, value_text("xyz")); /* no longer the newest: a copy */
    assert_ptr_not_equal(t.s, s.s);
    assert_memory_equal(t.s, "abcxyz", 6);
    assert_memory_equal(s.s, "abcdef", 6);
    value_pool_release(&pool);
}

static void out_of_memory(void **state)
{
    const char source[] =
        "{% set s = namespace(a='x') %}{% macro m(a, b=1) %}{{ a ~ b }}{% endmacro %}"
        "{% for m2 in messages if m2.role %}{{ m(m2 | tojson) | upper }}{{ m2.content.split() }}"
        "{% set s.a = s.a ~ loop.index %}{% endfor %}{{ messages | map(attribute='role') | sort }}"
        "{{ '%5d' % n }}{{ '{:>9}'.format(x) }}{{ messages | groupby('role') }}{{ s }}";
    struct result whole, res;
    int64_t n = 0;

    (void)state;
    render(&whole, source);
    assert_int_equal(whole.rc, 0);
    do {
        mem_fail_after(n++);
        render_with(&res, source, strlen(source), NULL, VALUE_POOL_MAX, OUTPUT);
        mem_fail_after(-1);
        assert_true(res.rc == 0 || res.rc == ERR_NOMEM);
        if (res.rc == 0)
            assert_string_equal(res.out.data, whole.out.data);
        buf_release(&res.out);
    } while (res.rc != 0);
    assert_true(n > 10);
    buf_release(&whole.out);
}

/* Text around what is rendered stays as it is; after a failure nothing has been added. */
static void output_is_appended(void **state)
{
    struct template *t;
    struct value_pool pool;
    struct value globals;
    struct buf out;
    char err[100];

    (void)state;
    value_pool_init(&pool, 1 << 20);
    globals = value_dict(&pool);
    buf_init(&out, 100);
    buf_add_str(&out, "before ");
    assert_int_equal(template_create(&t, "x{{ 1 }}", 8, err, sizeof(err)), 0);
    assert_int_equal(template_render(t, &pool, &globals, NULL, &out, err, sizeof(err)), 0);
    assert_string_equal(out.data, "before x1");
    template_destroy(&t);
    assert_int_equal(template_create(&t, "y{{ a.b }}", 10, err, sizeof(err)), 0);
    assert_int_equal(template_render(t, &pool, &globals, NULL, &out, err, sizeof(err)), ERR_INVAL);
    assert_string_equal(out.data, "before x1");
    assert_int_equal(out.err, 0);
    template_destroy(&t);
    buf_release(&out);
    value_pool_release(&pool);
}

/* --- threads --- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STACK (16u << 20) /* a sanitizer's frames are several times as large */
#else
#define STACK (2u << 20)
#endif
#define THREADS 4

struct job {
    const struct template *t;
    char text[128];
    int rc;
};

static void *run_job(void *arg)
{
    struct job *job = arg;
    struct value_pool pool;
    struct value globals;
    struct buf out;
    char err[100];

    value_pool_init(&pool, VALUE_POOL_MAX);
    buf_init(&out, OUTPUT);
    globals = chat(&pool);
    job->rc = template_render(job->t, &pool, &globals, NULL, &out, err, sizeof(err));
    snprintf(job->text, sizeof(job->text), "%s", job->rc == 0 ? out.data : err);
    buf_release(&out);
    value_pool_release(&pool);
    return NULL;
}

static void run_jobs(const char *source, int rc, const char *text)
{
    struct job jobs[THREADS] = {{0}};
    pthread_t threads[THREADS];
    struct template *t;
    pthread_attr_t attr;
    char err[100];

    assert_int_equal(template_create(&t, source, strlen(source), err, sizeof(err)), 0);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    for (int i = 0; i < THREADS; i++) {
        jobs[i].t = t;
        assert_int_equal(pthread_create(&threads[i], &attr, run_job, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(jobs[i].rc, rc);
        assert_string_equal(jobs[i].text, text);
    }
    pthread_attr_destroy(&attr);
    template_destroy(&t);
}

/* Many render one template at once, the deepest ones too, on stacks of the promised size. */
static void threads_share_a_template(void **state)
{
    (void)state;
    run_jobs("{% for i in range(500) %}{% set a = i * 2 %}{% endfor %}{{ messages | length }}", 0,
             "3");
    run_jobs("{% macro m(a) %}{% if a %}{{ m(a + 1) | upper }}{% endif %}{% endmacro %}{{ m(1) }}",
             ERR_LIMIT, "line 1: calls and loops are nested too deep");
    run_jobs("{% for a in [[1]] recursive %}{% call loop([a]) %}{% endcall %}{{ loop([a]) }}"
             "{% endfor %}",
             ERR_INVAL, "line 1: loop() takes one argument");
    run_jobs("{% for a in [[1]] recursive %}{{ loop([a]) }}{% endfor %}", ERR_LIMIT,
             "line 1: calls and loops are nested too deep");
    run_jobs("{% set s = namespace(g=[1]) %}{% for i in range(9000) %}"
             "{% set s.g = s.g | map('abs') %}{% endfor %}{{ s.g | list }}",
             ERR_LIMIT, "line 1: calls and loops are nested too deep");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literals),
        cmocka_unit_test(arithmetic),
        cmocka_unit_test(comparisons),
        cmocka_unit_test(access),
        cmocka_unit_test(statements),
        cmocka_unit_test(blanks),
        cmocka_unit_test(filters),
        cmocka_unit_test(functions),
        cmocka_unit_test(errors_are_utf8),
        cmocka_unit_test(syntax_errors),
        cmocka_unit_test(deep_sources),
        cmocka_unit_test(size_of_source),
        cmocka_unit_test(endless_work),
        cmocka_unit_test(large_floats),
        cmocka_unit_test(limits_can_be_set),
        cmocka_unit_test(output_and_memory),
        cmocka_unit_test(deep_values),
        cmocka_unit_test(large_dicts),
        cmocka_unit_test(strings_grow_in_place),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(output_is_appended),
        cmocka_unit_test(threads_share_a_template),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
