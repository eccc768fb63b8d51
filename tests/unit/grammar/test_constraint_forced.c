/* tests/unit/grammar/test_constraint_forced.c - how a text goes on where there is one way only
 * (core/grammar/constraint.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "core/grammar/constraint.h"
#include "core/grammar/gbnf.h"
#include "core/grammar/grammar.h"
#include "core/grammar/token_trie.h"

static struct constraint_scratch *scratch;

static const struct trie_text some[] = {
    {"{", 1, 0, false},  {"name", 4, 1, false}, {"na", 2, 2, false},  {"m", 1, 3, false},
    {"e", 1, 4, false},  {":", 1, 5, false},    {"a", 1, 6, false},   {"b", 1, 7, false},
    {",", 1, 8, false},  {",ab", 3, 9, false},  {"c", 1, 10, false},  {"d", 1, 11, false},
    {"n", 1, 12, false}, {"cx", 2, 13, false},  {" ", 1, 14, false},  {"END", 3, 15, true}};

struct way {
    struct token_trie *trie;
    struct constraint *c;
    struct constraint_state *s;
};

static struct way open_way(const char *gbnf)
{
    struct trie_text texts[sizeof(some) / sizeof(some[0])];
    struct way w = {.s = malloc(constraint_state_bytes())};
    struct grammar *g;
    char err[200];

    memcpy(texts, some, sizeof(some)); /* they are sorted */
    assert_int_equal(token_trie_create(&w.trie, texts, sizeof(texts) / sizeof(texts[0]), 0), 0);
    assert_int_equal(grammar_from_gbnf(&g, gbnf, strlen(gbnf), NULL, err, sizeof(err)), 0);
    assert_int_equal(constraint_create(&w.c, g, w.trie, NULL, err, sizeof(err)), 0);
    constraint_state_init(w.s, w.c);
    return w;
}

static void close_way(struct way *w)
{
    constraint_unref(&w->c);
    token_trie_destroy(&w->trie);
    free(w->s);
}

static void assert_forced(const struct way *w, const char *bytes)
{
    uint8_t forced[CONSTRAINT_FORCED];

    assert_int_equal(constraint_forced(w->s, scratch, forced), strlen(bytes));
    assert_memory_equal(forced, bytes, strlen(bytes));
}

static void say(const struct way *w, const char *bytes)
{
    assert_int_equal(constraint_advance(w->s, scratch, bytes, strlen(bytes)), CONSTRAINT_OPEN);
}

/* Up to where there is a choice or the text may end. */
static void what_must_follow_is_found(void **state)
{
    const struct way w = open_way("root ::= \"{name:\" [ab] \",abc\" \"d\"? ");
    struct way way = w;
    (void)state;

    assert_forced(&w, "{name:");
    say(&w, "{nam");
    assert_forced(&w, "e:");
    say(&w, "e:");
    assert_forced(&w, ""); /* a or b */
    say(&w, "b");
    assert_forced(&w, ",abc");
    say(&w, ",abc");
    assert_forced(&w, ""); /* it may end */
    close_way(&way);
}

static void white_space_stands_where_it_stood_before(void **state)
{
    const char *gbnf = "root ::= \"{\" ws \"a\" ws \":\" ws \"b\" ws \",\" root | \"c\" ws [ae]\n"
                       "ws ::= [ \\n]?";
    const struct way w = open_way(gbnf);
    struct way way = w;
    (void)state;

    say(&w, "{");
    assert_forced(&w, "a: b,"); /* and no space behind the comma, where there is none to choose */
    say(&w, "a:b");
    say(&w, " ,{");
    assert_forced(&w, "a:b ,");
    say(&w, " a: b\n,{");
    assert_forced(&w, " a: b,");
    say(&w, "a :b,c");
    assert_forced(&w, ""); /* more than white space is to be chosen behind it */
    close_way(&way);
}

static void bytes_are_spelled_by_the_longest_tokens(void **state)
{
    const struct way w = open_way("root ::= [a-z{:, ]*");
    struct way way = w;
    int32_t ids[8];
    uint32_t n = 0;
    (void)state;

    assert_int_equal(constraint_spell(w.s, (const uint8_t *)"{name:", 6, ids, 8), 3);
    assert_memory_equal(ids, ((int32_t[]){0, 1, 5}), 3 * sizeof(int32_t));
    assert_int_equal(constraint_spell(w.s, (const uint8_t *)"{name:", 6, ids, 2), 2);
    assert_int_equal(constraint_spell(w.s, (const uint8_t *)",abc?a", 6, ids, 8), 2);
    assert_memory_equal(ids, ((int32_t[]){9, 10}), 2 * sizeof(int32_t)); /* nothing spells "?" */
    assert_int_equal(constraint_spell(w.s, NULL, 0, ids, 8), 0);
    assert_memory_equal(constraint_text(w.s, 9, &n), ",ab", 3);
    assert_int_equal(n, 3);
    assert_null(constraint_text(w.s, 15, &n)); /* no text */
    assert_null(constraint_text(w.s, -1, &n));
    assert_null(constraint_text(w.s, 1 << 20, &n));
    assert_int_equal(constraint_take(w.s, scratch, -1), CONSTRAINT_BROKEN);
    assert_int_equal(constraint_take(w.s, scratch, 1 << 20), CONSTRAINT_BROKEN);
    close_way(&way);
}

static int set_up(void **state)
{
    (void)state;
    return constraint_scratch_create(&scratch);
}

static int tear_down(void **state)
{
    (void)state;
    constraint_scratch_destroy(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_must_follow_is_found),
        cmocka_unit_test(white_space_stands_where_it_stood_before),
        cmocka_unit_test(bytes_are_spelled_by_the_longest_tokens),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
