/* tests/unit/grammar/test_lazy.c - grammars that hold from a trigger on: which texts they take, and
 * which tokens they allow before and behind a trigger. */
#include <stdio.h>

#include "core/base/err.h"
#include "core/grammar/constraint_impl.h"
#include "core/grammar/gbnf.h"
#include "core/grammar/lazy.h"
#include "tests/unit/grammar/byte_trie.h"

struct example {
    struct grammar_trigger triggers[3];
    const char *gbnf, *text;
    enum answer answer;
    bool is_waiting;
};

#define WORD(t) {TRIGGER_WORD, t, sizeof(t) - 1}
#define PATTERN(t) {TRIGGER_PATTERN, t, sizeof(t) - 1}
#define WHOLE(t) {TRIGGER_WHOLE_PATTERN, t, sizeof(t) - 1}
#define CALL "root ::= \"<f>\" [0-9]+ \"</f>\""

static int make(struct grammar **out, const struct example *x, char *err, size_t err_len)
{
    struct grammar_builder *b;
    struct grammar_piece p, q;
    uint32_t root;
    size_t n = 0;
    int rc;

    assert_int_equal(grammar_builder_create(&b, NULL), 0);
    while (n < 3 && x->triggers[n].text != NULL)
        n++;
    root = grammar_rule(b, "the whole");
    p = grammar_untriggered(b, x->triggers, n);
    q = grammar_or(b, grammar_empty(b), grammar_gbnf(b, x->gbnf, strlen(x->gbnf)));
    grammar_define(b, root, grammar_then(b, p, q));
    rc = grammar_builder_finish(b, out, err, err_len);
    grammar_builder_destroy(&b);
    return rc;
}

static struct constraint *constraint_of(const struct example *x, const struct token_trie *trie)
{
    struct constraint *c;
    struct grammar *g;
    char err[200];

    if (make(&g, x, err, sizeof(err)) < 0 ||
        constraint_create(&c, g, trie, NULL, err, sizeof(err)) < 0)
        fail_msg("%s: %s", x->gbnf, err);
    return c;
}

static void check(const struct example *x)
{
    struct constraint *c = constraint_of(x, bytes);
    const enum answer answer = answer_to(c, x->text);

    if (answer != x->answer)
        fail_msg("'%s': %d", x->text, (int)answer);
    if (answer != WRONG && constraint_is_waiting(state_of_text) != x->is_waiting)
        fail_msg("'%s' waits", x->text);
    constraint_unref(&c);
}

static void the_grammar_begins_at_a_trigger(void **state)
{
    static const struct example examples[] = {
        {{WORD("<f>")}, CALL, "", MATCH, true},
        {{WORD("<f>")}, CALL, "no call at all", MATCH, true},
        {{WORD("<f>")}, CALL, "caf\xC3\xA9 \xF0\x9F\x98\x80", MATCH, true},
        {{WORD("<f>")}, CALL, "caf\xC3", PREFIX, true},
        {{WORD("<f>")}, CALL, "a < b <f", MATCH, true},
        {{WORD("<f>")}, CALL, "a <<f>", PREFIX, false},
        {{WORD("<f>")}, CALL, "so: <f>12", PREFIX, false},
        {{WORD("<f>")}, CALL, "so: <f>12</f>", MATCH, false},
        {{WORD("<f>")}, CALL, "so: <f>x", WRONG, false},
        {{WORD("<f>")}, CALL, "<f>12</f> ", WRONG, false},
        {{WORD("<f>"), WORD("[[")}, "root ::= (\"<f>\" | \"[[\") \"1\"", "a[b[[1", MATCH, false},
        {{WORD("<f>"), WORD("[[")}, "root ::= (\"<f>\" | \"[[\") \"1\"", "a<f>2", WRONG, false},
        /* overlapping beginnings: what has failed may still begin another one */
        {{WORD("aab")}, "root ::= \"aab\" \"!\"", "aaaab!", MATCH, false},
        {{WORD("aab")}, "root ::= \"aab\" \"!\"", "aaaabc", WRONG, false},
        /* the grammar reads more before the trigger, or could not read it: it never comes */
        {{WORD("'n'")}, "root ::= \"{\" \" \"? \"'n'\" \"}\"", "{ 'n'}", MATCH, false},
        {{WORD("x")}, "root ::= \"y\"", "x", WRONG, false},
        {{PATTERN("<f[a-z]*>")}, "root ::= \"<\" [a-z]+ \">\" \"1\"", "a <b> <fun>1", MATCH, false},
        {{PATTERN("<f[a-z]*>")}, "root ::= \"<\" [a-z]+ \">\" \"1\"", "a <fun>2", WRONG, false},
        {{PATTERN("^<f>")}, CALL, "a <f>x", MATCH, true},
        {{PATTERN("^<f>")}, CALL, "<f>x", WRONG, false},
        {{WHOLE("[a-z ]*<f>")}, CALL, "a b <f>1", PREFIX, false},
        {{WHOLE("[a-z ]*<f>")}, CALL, "a 1 <f>x", MATCH, true},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++)
        check(&examples[i]);
}

static void triggers_without_sense_are_refused(void **state)
{
    static const struct {
        struct example x;
        int rc;
        const char *says;
    } refusals[] = {
        {{{PATTERN("a*")}, CALL, "", WRONG, false}, ERR_INVAL, "a trigger matches the empty text"},
        {{{WHOLE("")}, CALL, "", WRONG, false}, ERR_INVAL, "a trigger matches the empty text"},
        {{{PATTERN("(")}, CALL, "", WRONG, false}, ERR_INVAL, "at character"},
        {{{PATTERN("(a)\\1")}, CALL, "", WRONG, false}, ERR_UNSUPPORTED, "at character"},
    };
    char err[200];
    (void)state;

    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        struct grammar *g;

        assert_int_equal(make(&g, &refusals[i].x, err, sizeof(err)), refusals[i].rc);
        if (strstr(err, refusals[i].says) == NULL)
            fail_msg("%s", err);
    }
}

/* ---- tokens ---- */

enum { T_LESS = 256, T_CALL, T_CALL_1, T_CALL_X, T_MARK, T_MARK_CALL, T_MARK_EMPTY, N_TOKENS };

static struct token_trie *some_tokens(void)
{
    static char all[256];
    static struct trie_text texts[N_TOKENS];
    struct token_trie *t;

    for (int i = 0; i < 256; i++) {
        all[i] = (char)i;
        texts[i] = (struct trie_text){&all[i], 1, i, false};
    }
    texts[T_LESS] = (struct trie_text){"a<", 2, T_LESS, false};
    texts[T_CALL] = (struct trie_text){"<f>", 3, T_CALL, false};
    texts[T_CALL_1] = (struct trie_text){"f>1", 3, T_CALL_1, false};
    texts[T_CALL_X] = (struct trie_text){"f>x", 3, T_CALL_X, false};
    texts[T_MARK] = (struct trie_text){"<|mark|>", 8, T_MARK, true};
    texts[T_MARK_CALL] = (struct trie_text){"<f>", 3, T_MARK_CALL, true};
    texts[T_MARK_EMPTY] = (struct trie_text){NULL, 0, T_MARK_EMPTY, true};
    assert_int_equal(token_trie_create(&t, texts, N_TOKENS, N_TOKENS), 0);
    return t;
}

static bool allows(int32_t id)
{
    static uint32_t bits[N_TOKENS / 32 + 1];

    constraint_mask(state_of_text, scratch, bits, N_TOKENS);
    return bits[id >> 5] >> (id & 31) & 1;
}

static void take(int32_t id)
{
    assert_true(allows(id));
    assert_int_equal(constraint_take(state_of_text, scratch, id), CONSTRAINT_OPEN);
}

static void tokens_are_free_until_a_trigger(void **state)
{
    static const struct example call = {{WORD("<f>")}, CALL, "", MATCH, true};
    struct token_trie *trie = some_tokens();
    struct constraint *c = constraint_of(&call, trie);
    (void)state;

    constraint_state_init(state_of_text, c);
    assert_true(allows('x') && allows(T_LESS) && allows(T_CALL_X) && allows(T_MARK));
    take(T_MARK);
    take(T_MARK_EMPTY);
    take(T_LESS);
    assert_true(allows(T_CALL_1) && !allows(T_CALL_X) && allows('f') && allows(T_MARK));
    take('f');
    assert_true(allows('>') && allows('x') && constraint_is_waiting(state_of_text));
    take('>');
    assert_false(constraint_is_waiting(state_of_text));
    assert_true(allows('1') && !allows('x') && !allows(T_MARK) && !allows(T_CALL));
    assert_int_equal(constraint_take(state_of_text, scratch, T_MARK), CONSTRAINT_BROKEN);
    constraint_unref(&c);
    token_trie_destroy(&trie);
}

/* Its name is the trigger; and what came before it is no part of one. */
static void a_mark_may_be_the_trigger(void **state)
{
    static const struct example call = {{WORD("<f>")}, CALL, "", MATCH, true};
    static const struct example other = {{WORD("<f>")}, "root ::= \"<f\" \">1\"", "", MATCH, true};
    struct token_trie *trie = some_tokens();
    struct constraint *c = constraint_of(&call, trie);
    (void)state;

    constraint_state_init(state_of_text, c);
    take(T_MARK_CALL);
    assert_true(allows('1') && !allows('x'));
    constraint_unref(&c);
    c = constraint_of(&other, trie);
    constraint_state_init(state_of_text, c);
    take('<');
    take('f');
    take(T_MARK);
    assert_true(allows('>') && constraint_is_waiting(state_of_text));
    take('>');
    assert_true(allows('x') && constraint_is_waiting(state_of_text));
    constraint_unref(&c);
    token_trie_destroy(&trie);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_grammar_begins_at_a_trigger),
        cmocka_unit_test(triggers_without_sense_are_refused),
        cmocka_unit_test(tokens_are_free_until_a_trigger),
        cmocka_unit_test(a_mark_may_be_the_trigger),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
