/* tests/unit/jinja/test_origin.c - whose the bytes of a rendered text are: the template's own stay
 * so wherever bytes are copied, and nothing makes a client's byte one of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/spans.h"
#include "core/jinja/template.h"

#define OUTPUT (1u << 20)

/* x is a client's text, role one of the server's; no template below has the letters of x. */
static struct value variables(struct value_pool *pool)
{
    const struct value globals = value_dict(pool), list = value_list(pool);

    value_dict_set(pool, globals, "x", value_string(pool, " xyz|Xy Z ", 10));
    value_dict_set(pool, globals, "z", value_text("z"));
    value_dict_set(pool, globals, "role", value_own(value_text("user")));
    for (int i = 0; i < 3; i++) {
        const struct value m = value_dict(pool);

        value_dict_set(pool, m, "content", value_string(pool, "yx", 2));
        value_list_add(pool, list, m);
    }
    value_dict_set(pool, globals, "messages", list);
    return globals;
}

struct result {
    struct buf out;
    struct spans own;
    char err[200];
    int rc;
};

static void render(struct result *res, const char *source, bool tracks, size_t memory)
{
    struct template_options options = {.own = tracks ? &res->own : NULL};
    struct value_pool pool;
    struct value globals;
    struct template *t;

    *res = (struct result){.rc = 0};
    buf_init(&res->out, OUTPUT);
    value_pool_init(&pool, memory);
    res->rc = template_create(&t, source, strlen(source), res->err, sizeof(res->err));
    if (res->rc == 0) {
        globals = variables(&pool);
        res->rc = template_render(t, &pool, &globals, &options, &res->out, res->err,
                                  sizeof(res->err));
    }
    template_destroy(&t);
    value_pool_release(&pool);
}

static void release(struct result *res)
{
    buf_release(&res->out);
    spans_release(&res->own);
}

/* The text with the template's bytes in brackets, "[template]client". */
static void shows(const char *source, const char *expected)
{
    struct result res, plain;
    struct buf shown;
    size_t at = 0;

    render(&res, source, true, VALUE_POOL_MAX);
    render(&plain, source, false, VALUE_POOL_MAX);
    if (res.rc < 0)
        fail_msg("%s: %s", source, res.err);
    assert_int_equal(plain.rc, 0);
    assert_int_equal(plain.out.len, res.out.len);
    assert_memory_equal(plain.out.data, res.out.data, res.out.len);
    buf_init(&shown, OUTPUT);
    for (size_t i = 0; i < res.own.n; i++) {
        buf_add(&shown, res.out.data + at, res.own.at[i].from - at);
        buf_add_char(&shown, '[');
        at = res.own.at[i].to;
        buf_add(&shown, res.out.data + res.own.at[i].from, at - res.own.at[i].from);
        buf_add_char(&shown, ']');
    }
    buf_add(&shown, res.out.data + at, res.out.len - at);
    if (strcmp(shown.data, expected) != 0)
        fail_msg("%s: %s, not %s", source, shown.data, expected);
    buf_release(&shown);
    release(&plain);
    release(&res);
}

static void copies_keep_it(void **state)
{
    (void)state;
    shows("a{{ 'b' }}{{ x }}c", "[ab] xyz|Xy Z [c]");
    shows("{{ 'a' + z + 'b' }}{{ 'a' ~ z ~ 1 ~ 'b' }}", "[a]z[ba]z1[b]");
    shows("{{ '<|' + role + '|>' + z + '<|end|>' }}", "[<|user|>]z[<|end|>]");
    shows("{{ ('<|a|>' ~ x ~ '<|b|>') | trim }}{{ x | trim }}", "[<|a|>] xyz|Xy Z [<|b|>]xyz|Xy Z");
    shows("{{ ('  a' ~ z ~ 'b  ').strip() }}{{ ('aa' ~ z ~ 'bb')[1:-1] }}", "[a]z[ba]z[b]");
    shows("{% set s = '<|a|>' %}{% set s = s + z %}{% set s = s + '<|b|>' %}{{ s }}{{ s }}",
          "[<|a|>]z[<|b|><|a|>]z[<|b|>]");
    shows("{% set s %}<|a|>{{ z }}<|b|>{% endset %}{{ s }}", "[<|a|>]z[<|b|>]");
    shows("{% macro m(c) %}<|a|>{{ c }}<|b|>{{ caller() if caller }}{% endmacro %}{{ m(z) | trim }}"
          "{% call m('d') %}e{{ z }}{% endcall %}",
          "[<|a|>]z[<|b|><|a|>d<|b|>e]z");
    shows("{% set ns = namespace(t='') %}{% for m in messages %}"
          "{% set ns.t = ns.t ~ '<|m|>' ~ m.content %}{% endfor %}{{ ns.t }}",
          "[<|m|>]yx[<|m|>]yx[<|m|>]yx");
    shows("{% for a in [z, [z]] recursive %}{% if a is string %}<|a|>{{ a }}{% else %}{{ loop(a) }}"
          "{% endif %}{% endfor %}",
          "[<|a|>]z[<|a|>]z");
    shows("{% filter trim %} <|a|>{{ z }} {% endfilter %}", "[<|a|>]z");
    shows("{% for c in 'ab' ~ z %}{{ c }},{% endfor %}", "[a,b,]z[,]");
    shows("{{ ['a', z, 'b'] | join('<|s|>') }}{{ '<|t|>'.join(['a', z]) }}"
          "{{ ['a', 'b'] | join(z) }}",
          "[a<|s|>]z[<|s|>ba<|t|>]z[a]z[b]");
    shows("{{ 'a-b' | replace('-', z) }}{{ ('a-' ~ z) | replace('-', '<|s|>') }}"
          "{{ ('a' ~ z).replace('', '-') }}",
          "[a]z[ba<|s|>]z[-a-]z[-]");
    shows("{{ '<|a|>%s<|b|>%%' % z }}{{ '<|%s|>' | format(role) }}{{ '<|{}|>{}'.format('a', z) }}",
          "[<|a|>]z[<|b|>%<|user|><|a|>]z");
    shows("{{ ('a\n' ~ z) | indent('-') }}", "[a]\n[-]z");
    shows("{{ ('<|a|>' ~ z).split('|') | join('/') }}{{ ('a' ~ z).partition('a') | join }}",
          "[</a/>]z[a]z");
    shows("{{ 'ab' * 2 }}{{ 'AB' | lower }}{{ 'ba' | reverse }}{{ 'abc'[::-1] }}", "[ababababcba]");
    shows("{{ z | safe + '<b>' }}{{ 'a' | escape }}", "z&lt;[b]&gt;[a]");
}

/* What is computed, and not copied, is nobody's: it could be anything. */
static void the_rest_is_not_the_templates(void **state)
{
    (void)state;
    shows("{{ 1 }}{{ true }}{{ none }}{{ [1, 'a'] }}{{ 'a' | tojson }}", "1TrueNone[1, 'a']\"a\"");
    shows("{{ ('a' ~ z) * 2 }}{{ ('a' ~ z) | upper }}{{ ('a' ~ z)[::-1] }}", "azazAZza");
    shows("{{ 'a'.center(3, z) }}{{ '%3s' | format('a') }}", "zaz  [a]");
}

/* Whatever is done with it. */
static void nothing_makes_a_clients_byte_own(void **state)
{
    static const char *const expressions[] = {
        "x", "x | upper", "x | lower", "x | capitalize", "x | title", "x | trim", "x | escape",
        "x | e", "x | forceescape", "x | safe", "x | string", "x | tojson", "x | tojson(indent=2)",
        "x | urlencode", "x | striptags", "x | truncate(5)", "x | truncate(3, true, z)",
        "x | center(40)", "x | indent(2)", "x | indent(2, true)", "x | wordwrap(3)",
        "x | wordwrap(2, wrapstring=z)", "x | reverse", "x | list", "x | list | join",
        "x | list | join('-')", "x | first", "x | last", "x | replace('|', '<a>')",
        "x | replace(z, '<a>', 1)", "'a-b' | replace('-', x)", "'a-b' | replace('', z)",
        "x | format", "'%s' | format(x)", "'%r' % x", "'%-30s' % x", "'%c' % z",
        "'%(a)s' % {'a': x}", "'{}'.format(x)", "'{0!r}'.format(x)", "'{:>30}'.format(x)",
        "'{a:.3}'.format(a=x)", "x.format(1)", "z % ()", "x.upper()", "x.swapcase()",
        "x.casefold()", "x.title()", "x.capitalize()", "x.strip()", "x.lstrip()", "x.rstrip()",
        "x.strip(' ')", "x.split()", "x.split('|')[0]", "x.rsplit('|', 1)[1]", "x.splitlines()[0]",
        "x.partition('|')[2]", "x.rpartition('|') | join", "x.removeprefix(' ')",
        "x.removesuffix(' ')", "x.center(30, '-')", "x.ljust(30)", "x.rjust(30, z)",
        "'a'.ljust(9, z)", "x.zfill(30)", "z.zfill(4)", "x.expandtabs()", "x.join(['a', 'b'])",
        "'a'.join([x, z])", "x * 2", "x[1:]", "x[::-1]", "x[::2]", "x[1]", "x + 'a'", "'a' + x",
        "x ~ 'a' ~ x", "['a', x] | join", "[x] | map('upper') | join('a')",
        "messages | map(attribute='content') | join('a')", "messages | tojson", "messages",
        "messages[0]", "{x: 'a'}", "{'a': x}.items() | list", "{x: 'a'} | dictsort",
        "{x: 'a'} | items | first | first", "{x: 'a'}.keys() | first", "[x, 'a'] | sort | join",
        "[x, 'a'] | max", "[x] | sum(start='')", "['a', x] | unique | join",
        "[x] | batch(2, z) | list", "'a' if x == 1 else x", "x or 'a'", "none | default(x, true)",
        "namespace(a=x).a", "dict(a=x).a", "{'a': x} | attr('a') | default(x)",
        "[x] | groupby(0) | list", "{'class': x} | xmlattr", "('a' ~ x) | trim | upper | lower",
        "x | map('upper') | join", "cycler(x, 'a').next()", "joiner(x)() ~ x", "x | wordcount ~ x",
        "('b' * 3) ~ x", "[x].pop()", "[x, x].copy() | join",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(expressions) / sizeof(expressions[0]); i++) {
        struct result res;
        char source[256];

        snprintf(source, sizeof(source),
                 "b{%% set s %%}{{ 'c' ~ (%s) ~ 'd' }}{%% endset %%}{{ s | trim }}",
                 expressions[i]);
        render(&res, source, true, VALUE_POOL_MAX);
        if (res.rc < 0 && res.rc != ERR_INVAL)
            fail_msg("%s: %s", source, res.err);
        if (res.rc == 0 && (res.own.n == 0 || res.out.data[res.out.len - 1] != 'd' ||
                            !spans_cover(&res.own, 0, 2) ||
                            !spans_cover(&res.own, res.out.len - 1, res.out.len)))
            fail_msg("%s: what the template wrote is not its own: %s", source, res.out.data);
        for (size_t k = 0; k < res.own.n; k++)
            for (size_t at = res.own.at[k].from; at < res.own.at[k].to; at++)
                if (memchr("xyzXYZ", res.out.data[at], 6) != NULL)
                    fail_msg("%s: a client's byte is the template's: %s", source, res.out.data);
        release(&res);
    }
}

/* Spans of what a failed rendering printed are taken back, those before it stay. */
static void spans_are_appended(void **state)
{
    struct spans own = {0};
    const struct template_options options = {.own = &own};
    struct value_pool pool;
    struct value globals;
    struct template *t;
    struct buf out;
    char err[100];

    (void)state;
    value_pool_init(&pool, 1 << 20);
    globals = value_dict(&pool);
    buf_init(&out, 100);
    buf_add_str(&out, "before");
    assert_int_equal(template_create(&t, "own{{ n }}{{ a.b }}", 19, err, sizeof(err)), 0);
    assert_int_equal(template_render(t, &pool, &globals, &options, &out, err, sizeof(err)),
                     ERR_INVAL);
    assert_int_equal(own.n, 0);
    value_dict_set(&pool, globals, "a", value_dict(&pool));
    assert_int_equal(template_render(t, &pool, &globals, &options, &out, err, sizeof(err)), 0);
    assert_int_equal(own.n, 1);
    assert_int_equal(own.at[0].from, 6);
    assert_int_equal(own.at[0].to, 9);
    template_destroy(&t);
    spans_release(&own);
    buf_release(&out);
    value_pool_release(&pool);
}

/* Marks take room of the pool, and of memory: what lacks it fails. */
static void marks_are_bounded(void **state)
{
    static const char source[] = "{% set ns = namespace(t='a') %}{% for i in range(200) %}"
                                 "{% set ns.t = z ~ ns.t ~ 'b' %}{% endfor %}{{ ns.t }}";
    struct result res;
    int64_t n = 0;

    (void)state;
    render(&res, source, true, 48u << 10);
    assert_int_equal(res.rc, ERR_LIMIT);
    assert_int_equal(res.own.n, 0);
    release(&res);
    do {
        mem_fail_after(n++);
        render(&res, source, true, VALUE_POOL_MAX);
        mem_fail_after(-1);
        assert_true(res.rc == 0 || res.rc == ERR_NOMEM);
        if (res.rc == 0)
            assert_true(res.own.n == 1 && res.own.at[0].from == 200 && res.own.at[0].to == 401);
        n += res.rc < 0 && n > 40 ? 3 : 0;
        if (res.rc < 0)
            assert_int_equal(res.own.n, 0);
        release(&res);
    } while (res.rc != 0);
    assert_true(n > 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_keep_it),
        cmocka_unit_test(the_rest_is_not_the_templates),
        cmocka_unit_test(nothing_makes_a_clients_byte_own),
        cmocka_unit_test(spans_are_appended),
        cmocka_unit_test(marks_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
