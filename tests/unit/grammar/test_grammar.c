/* tests/unit/grammar/test_grammar.c - the notations: what matches, what is refused and in which
 * words.
 *
 * A text matches when a constraint over single bytes takes all of it and may end there. Hostile
 * input is read on a thread with a small stack.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/grammar/builder.h"
#include "core/grammar/gbnf.h"
#include "core/grammar/grammar.h"
#include "core/grammar/regex.h"
#include "tests/unit/grammar/byte_trie.h"

/* Takes the grammar. */
static enum answer match(struct grammar *g, const char *text)
{
    struct constraint *c;
    enum answer answer;
    char err[200];

    if (constraint_create(&c, g, bytes, NULL, err, sizeof(err)) < 0)
        fail_msg("%s", err);
    answer = answer_to(c, text);
    constraint_unref(&c);
    return answer;
}

typedef int read_fn(struct grammar **out, const char *text, size_t n, struct budget *budget,
                    char *err, size_t err_len);

/* ---- what matches ---- */

struct example {
    const char *source, *text;
    enum answer answer;
};

static void check_example(read_fn *read, const struct example *e)
{
    struct grammar *g;
    char err[200];

    if (read(&g, e->source, strlen(e->source), NULL, err, sizeof(err)) < 0)
        fail_msg("%s: %s", e->source, err);
    if (match(g, e->text) != e->answer)
        fail_msg("%s with '%s'", e->source, e->text);
}

static void gbnf_says_what_it_says(void **state)
{
    static const struct example examples[] = {
        {"root ::= \"ab\"", "ab", MATCH},
        {"root ::= \"ab\"", "a", PREFIX},
        {"root ::= \"ab\"", "b", WRONG},
        {"root ::= \"a\" | \"b\" \"c\"", "bc", MATCH},
        {"root ::= \"a\" | \"b\" \"c\"", "ac", WRONG},
        {"root ::= (\"a\" | \"b\") \"c\"", "ac", MATCH},
        {"root ::= [a-c]+", "abcabc", MATCH},
        {"root ::= [^a-c]", "b", WRONG},
        {"root ::= [^a-c]", "\xF0\x9F\x98\x80", MATCH},
        {"root ::= [^a-c]", "\xF0\x9F", PREFIX},
        {"root ::= [^a-c]", "\xED\xA0\x80", WRONG}, /* half of a character */
        {"root ::= [^a-c]", "\xC0\x80", WRONG},     /* longer than need be */
        {"root ::= [\\x41-\\x43\\u00e9\\U0001F600]{3}", "A\xC3\xA9\xF0\x9F\x98\x80", MATCH},
        {"root ::= [a\\]\\-]*", "]-a", MATCH},
        {"root ::= [a-]*", "-a", MATCH},
        {"root ::= \"\\\"\\\\\\n\\t\\r\\x41\"", "\"\\\n\t\rA", MATCH},
        {"root ::= .", "\n", MATCH},
        {"root ::= \"a\"? \"b\"*", "bb", MATCH},
        {"root ::= \"a\"{2}", "aa", MATCH},
        {"root ::= \"a\"{2}", "aaa", WRONG},
        {"root ::= \"a\"{2,}", "aaaaa", MATCH},
        {"root ::= \"a\"{,2}\"b\"", "b", MATCH},
        {"root ::= \"a\"{,2}\"b\"", "aaab", WRONG},
        {"root ::= (\"a\" \"b\"){1,2}", "abab", MATCH},
        {"root ::= (\"a\"?){3,5} \"b\"", "b", MATCH},
        {"root ::= \"x\" (\"a\"* \"c\"?){30,50} \"b\"", "xb", MATCH},
        {"root ::= \"x\" (\"a\"* \"c\"?){30,50} \"b\"", "xacaacb", MATCH},
        {"root ::= ((\"a\"*)*)* \"b\"", "aaab", MATCH},
        {"root ::= x # a comment\n\n# another\nx ::= \"a\" |\n  \"b\"\n  | \"c\"\r\n", "c", MATCH},
        {"root ::= (\n \"a\" # inside\n \"b\"\n)", "ab", MATCH},
        {"root ::= a-1 b_2\na-1 ::= \"x\"\nb_2 ::= \"y\"", "xy", MATCH},
        {"x ::= \"no\"\nroot ::= \"yes\"", "yes", MATCH},
        {"root ::= \"(\" root? \")\"", "((()))", MATCH},
        {"root ::= \"(\" root? \")\"", "(()))", WRONG},
        {"root ::= \"a\" root | \"b\"", "aaaaaab", MATCH},
        {"root ::= \"\" \"a\"", "a", MATCH},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++)
        check_example(grammar_from_gbnf, &examples[i]);
}

static void regex_says_what_it_says(void **state)
{
    static const struct example examples[] = {
        {"abc", "abc", MATCH},
        {"^abc$", "abc", MATCH},
        {"a|bc|", "", MATCH},
        {"a|bc|", "bc", MATCH},
        {"(ab)*c", "ababc", MATCH},
        {"(?:ab){2,3}", "ab", PREFIX},
        {"(?P<n>a)(?<m>b)", "ab", MATCH},
        {"[0-9]{3}", "1234", WRONG},
        {"\\d+\\.\\d*", "12.", MATCH},
        {"\\w\\W\\s\\S", "a \tb", MATCH},
        {"\\D", "5", WRONG},
        {"\\W", "\xC3\xA9", WRONG}, /* a letter to some */
        {"[^\\W]", "a", MATCH},
        {"[^\\d]", "\xD9\xA3", WRONG}, /* a digit to some */
        {"[\\d.-]+", "1-2.", MATCH},
        {".", "\n", WRONG},
        {".", "\xE2\x80\xA8", WRONG},
        {"[^x]", "\n", MATCH},
        {"a+?b*?c??", "aab", MATCH},
        {"\\x41\\u00e9\\u{1F600}\\n", "A\xC3\xA9\xF0\x9F\x98\x80\n", MATCH},
        {"\\(\\)\\[\\]\\{\\}\\.\\*\\+\\?\\^\\$\\|\\/\\-\\\\", "()[]{}.*+?^$|/-\\", MATCH},
        {"a{0}b", "b", MATCH},
        {"a{0,2000}", "aaaa", MATCH},
        {"(a{2,40}b){2}", "aaabaab", MATCH},
        {"\xC3\xA4+", "\xC3\xA4\xC3\xA4", MATCH},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++)
        check_example(grammar_from_regex, &examples[i]);
}

static enum answer search_json(const char *regex, const char *text)
{
    struct grammar_builder *b;
    struct grammar *g;
    char err[200];
    uint32_t rule;

    assert_int_equal(grammar_builder_create(&b, NULL), 0);
    rule = grammar_rule(b, "r");
    grammar_define(b, rule,
                   grammar_regex(b, regex, strlen(regex), REGEX_SEARCH | REGEX_JSON));
    if (grammar_builder_finish(b, &g, err, sizeof(err)) < 0)
        fail_msg("%s: %s", regex, err);
    grammar_builder_destroy(&b);
    return match(g, text);
}

static void patterns_search_and_escape(void **state)
{
    (void)state;
    assert_int_equal(search_json("b", "abc"), MATCH);
    assert_int_equal(search_json("^b", "abc"), WRONG);
    assert_int_equal(search_json("^b", "bc"), MATCH);
    assert_int_equal(search_json("b$", "ab"), MATCH);
    assert_int_equal(search_json("b$", "bc"), PREFIX);
    assert_int_equal(search_json("^a$|b", "xbx"), MATCH);
    assert_int_equal(search_json("^\"$", "\\\""), MATCH);
    assert_int_equal(search_json("^\"$", "\""), WRONG);
    assert_int_equal(search_json("^\\\\$", "\\\\"), MATCH);
    assert_int_equal(search_json("^[\\n]$", "\\n"), MATCH);
    assert_int_equal(search_json("^[\\x01]$", "\\u0001"), MATCH);
    assert_int_equal(search_json("^[^a]$", "\x01"), WRONG);
}

static void choices_share_beginnings(void **state)
{
    struct text_ref texts[] = {{"abc", 3}, {"ab", 2}, {"b", 1}, {"abd", 3}, {"ab", 2}};
    static const char *const matching[] = {"abc", "ab", "b", "abd"};
    (void)state;

    for (int i = 0; i < 5; i++) {
        struct grammar_builder *b;
        struct grammar *g;
        char err[200];
        uint32_t rule;

        assert_int_equal(grammar_builder_create(&b, NULL), 0);
        rule = grammar_rule(b, "r");
        grammar_define(b, rule, grammar_choice(b, texts, 5));
        assert_int_equal(grammar_builder_finish(b, &g, err, sizeof(err)), 0);
        grammar_builder_destroy(&b);
        assert_int_equal(match(g, i < 4 ? matching[i] : "a"), i < 4 ? MATCH : PREFIX);
    }
}

/* ---- what is refused ---- */

struct refusal {
    const char *source, *words;
};

static void check_refusal(read_fn *read, const struct refusal *r)
{
    struct grammar *g;
    char err[200];

    if (read(&g, r->source, strlen(r->source), NULL, err, sizeof(err)) == 0)
        fail_msg("%s is taken", r->source);
    assert_null(g);
    if (strstr(err, r->words) == NULL)
        fail_msg("%s: %s", r->source, err);
}

static void gbnf_is_refused_in_words(void **state)
{
    static const struct refusal refusals[] = {
        {"", "no rule"},
        {"# nothing", "no rule"},
        {"root", "expected a rule"},
        {"root ::= \"a", "no closing quote"},
        {"root ::= [a", "no closing ']'"},
        {"root ::= []", "class is empty"},
        {"root ::= [b-a]", "below its start"},
        {"root ::= (\"a\"", "not closed"},
        {"root ::= \"a\")", "no opening one"},
        {"root ::= *", "expected a literal"},
        {"root ::= x", "'x' is not defined"},
        {"x ::= \"a\"", "'root' is not defined"},
        {"root ::= \"a\"\nroot ::= \"b\"", "line 2"},
        {"root ::= \"\\q\"", "unknown escape"},
        {"root ::= \"\\ud800\"", "does not stand for a character"},
        {"root ::= \"\\x4\"", "too few"},
        {"root ::= \"a\"{}", "repetition"},
        {"root ::= \"a\"{2,1}", "below its minimum"},
        {"root ::= \"a\"{100001}", "too large"},
        {"root ::= <think>", "tokens"},
        {"root ::= \"a\" root", "no text of finite length"},
        {"root ::= \"\"", "empty text"},
        {"root ::= root \"a\" | \"b\"", "'root' is left-recursive"},
        {"root ::= x\nx ::= y? x \"a\" | \"b\"\ny ::= \"c\"", "'x' is left-recursive"},
        {"root ::= x*\nx ::= (\"a\"? x){2,2000}", "refers to itself"},
        {"root ::= \"\xFF\"", "UTF-8"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
        check_refusal(grammar_from_gbnf, &refusals[i]);
}

static void regex_is_refused_in_words(void **state)
{
    static const struct refusal refusals[] = {
        {"(?=a)b", "no text matches"},
        {"a\\bb", "no text matches"},
        {"(?<=ab)c", "look-behind"},
        {"(?:(?=a)b?)*", "can be empty"},
        {"(?=a)*b", "repeated assertion"},
        {"(a)\\1", "back-references"},
        {"(?i)a", "kind of group"},
        {"\\p{Frob}", "\\p must name"},
        {"\\pL", "\\p must name"},
        {"(?=.*a.{20}b)(?=.*b.{20}a).*", "too large"},
        {"(?>a)", "kind of group"},
        {"a++", "possessive"},
        {"a**", "nothing to repeat"},
        {"*a", "nothing to repeat"},
        {"a^b", "no text matches"},
        {"a$b", "no text matches"},
        {"(a", "not closed"},
        {"a)", "no opening one"},
        {"[a", "no closing ']'"},
        {"[^\\s\\S]", "is empty"},
        {"a{2,1}", "below its minimum"},
        {"a{999999}", "too large"},
        {"a{,3}", "repetition"},
        {"\\", "not supported"},
        {"\\q", "not supported"},
        {"\\ud83d", "surrogate"},
        {"", "empty text"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
        check_refusal(grammar_from_regex, &refusals[i]);
}

/* ---- hostile input ---- */

static char *many(const char *what, size_t n, const char *middle, const char *after)
{
    const size_t a = strlen(what), m = strlen(middle), z = strlen(after);
    char *text = malloc(64 + n * (a + z) + m), *at = text;

    memcpy(at, "root ::= ", 9);
    at += 9;
    for (size_t i = 0; i < n; i++, at += a)
        memcpy(at, what, a);
    memcpy(at, middle, m);
    at += m;
    for (size_t i = 0; i < n; i++, at += z)
        memcpy(at, after, z);
    *at = '\0';
    return text;
}

static void *read_hostile(void *ud)
{
    static const struct {
        const char *what, *middle, *after;
        size_t n;
    } texts[] = {
        {"(", "\"a\"", ")", 60000},      {"(", "\"a\"", ")*", 60000},
        {"\"a\" ", "\"b\"", "", 200000}, {"\"a\" | ", "\"b\"", "", 60000},
        {"[", "", "", 60000},          {"x? ", "x\nx ::= \"a\"", "", 60000},
    };
    struct grammar *g;
    char err[200];
    (void)ud;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char *text = many(texts[i].what, texts[i].n, texts[i].middle, texts[i].after);

        grammar_from_gbnf(&g, text, strlen(text), NULL, err, sizeof(err));
        grammar_destroy(&g);
        grammar_from_regex(&g, text + 9, strlen(text + 9), NULL, err, sizeof(err));
        grammar_destroy(&g);
        free(text);
    }
    return NULL;
}

static void hostile_texts_need_little_stack(void **state)
{
    pthread_attr_t small;
    pthread_t thread;
    (void)state;

    pthread_attr_init(&small);
    assert_int_equal(pthread_attr_setstacksize(&small, 256 << 10), 0);
    assert_int_equal(pthread_create(&thread, &small, read_hostile, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&small);
}

/* Rules that begin with each other in long rows, and a tangle of them. */
static void long_rows_of_rules(void **state)
{
    struct grammar *g;
    struct buf text;
    char err[200];
    (void)state;

    buf_init(&text, 1 << 20);
    buf_add_str(&text, "root ::= r0 \"!\"\n");
    for (int i = 0; i < 10000; i++)
        buf_printf(&text, "r%d ::= r%d?\n", i, i + 1);
    buf_add_str(&text, "r10000 ::= \"a\"\n");
    assert_int_equal(grammar_from_gbnf(&g, text.data, text.len, NULL, err, sizeof(err)), 0);
    assert_true(g->rules[g->nodes[g->rules[0].start].arg].is_nullable);
    grammar_destroy(&g);
    buf_release(&text);
}

/* Without memory there is a sentence and nothing is left behind. */
static void out_of_memory(void **state)
{
    static const char gbnf[] = "root ::= (\"a\" [^b] x{2,900})*\nx ::= \"b\" | \"c\" root";
    (void)state;

    for (int64_t n = 0;; n++) {
        struct grammar *g;
        struct constraint *c = NULL;
        char err[200] = "";
        int rc;

        mem_fail_after(n);
        rc = grammar_from_gbnf(&g, gbnf, strlen(gbnf), NULL, err, sizeof(err));
        if (rc == 0)
            rc = constraint_create(&c, g, bytes, NULL, err, sizeof(err));
        mem_fail_after(-1);
        if (rc == 0) {
            constraint_unref(&c);
            assert_true(n > 20);
            return;
        }
        assert_int_equal(rc, ERR_NOMEM);
        assert_string_equal(err, "out of memory");
        grammar_destroy(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gbnf_says_what_it_says),
        cmocka_unit_test(regex_says_what_it_says),
        cmocka_unit_test(patterns_search_and_escape),
        cmocka_unit_test(choices_share_beginnings),
        cmocka_unit_test(gbnf_is_refused_in_words),
        cmocka_unit_test(regex_is_refused_in_words),
        cmocka_unit_test(hostile_texts_need_little_stack),
        cmocka_unit_test(long_rows_of_rules),
        cmocka_unit_test(out_of_memory),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
