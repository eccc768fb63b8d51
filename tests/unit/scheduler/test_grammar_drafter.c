/* tests/unit/scheduler/test_grammar_drafter.c - guesses for an answer that a constraint is on. */
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
#include "scheduler/drafts/grammar_drafter.h"
#include "scheduler/request/request.h"

#define N_PROMPT 4

enum { OPEN, NAME, NA, ME, COLON, A, B, C, END, N, M, E };
static const char *const words[] = {"{", "name", "na", "me", ":", "a",
                                    "b", "c",    "}",  "n",  "m", "e"};
#define N_WORDS 12

struct scene {
    struct grammar_drafter *drafter;
    struct token_trie *trie;
    struct constraint *constraint;
    struct request *r;
    uint32_t n_known;
};

/* What the look-up finds: always the same, or nothing. */
static int32_t found_ids[DRAFT_MAX];
static uint32_t n_found, n_asked;

static struct lookup_guess find(void *ud, struct request *r, uint32_t n_known, uint32_t n_guessed)
{
    (void)ud, (void)r, (void)n_known;
    n_asked++;
    if (n_guessed > 0 || n_found == 0)
        return (struct lookup_guess){0};
    return (struct lookup_guess){found_ids, n_found, DRAFT_LOOKUP, 4};
}

static void look_up(const int32_t *ids, uint32_t n)
{
    for (n_found = 0; n_found < n; n_found++)
        found_ids[n_found] = ids[n_found];
    n_asked = 0;
}

static struct scene open_scene(const char *gbnf)
{
    const struct request_size size = {.n_prompt = N_PROMPT, .max_tokens = 100, .drafts = true,
                                      .constraint_bytes = constraint_state_bytes()};
    struct scene s = {.n_known = N_PROMPT};
    struct trie_text texts[N_WORDS];
    struct grammar *g;
    char err[200];

    for (int32_t i = 0; i < N_WORDS; i++)
        texts[i] = (struct trie_text){words[i], (uint32_t)strlen(words[i]), i, false};
    assert_int_equal(grammar_drafter_create(&s.drafter), 0);
    assert_int_equal(token_trie_create(&s.trie, texts, N_WORDS, 0), 0);
    assert_int_equal(grammar_from_gbnf(&g, gbnf, strlen(gbnf), NULL, err, sizeof(err)), 0);
    assert_int_equal(constraint_create(&s.constraint, g, s.trie, NULL, err, sizeof(err)), 0);
    assert_int_equal(request_create(&s.r, &size), 0);
    constraint_state_init(s.r->constraint, s.constraint);
    look_up(NULL, 0);
    return s;
}

static void close_scene(struct scene *s)
{
    request_destroy(&s->r);
    constraint_unref(&s->constraint);
    token_trie_destroy(&s->trie);
    grammar_drafter_destroy(&s->drafter);
}

static struct draft guess(struct scene *s, uint32_t most)
{
    const struct lookup lookup = {NULL, find};

    return grammar_drafter_propose(s->drafter, &lookup, s->r, s->n_known, most);
}

#define assert_guess(s, d, ...)                                                                    \
    do {                                                                                           \
        const int32_t wanted[] = {__VA_ARGS__};                                                    \
        assert_int_equal((d).n, sizeof(wanted) / sizeof(wanted[0]));                               \
        assert_int_equal((d).n_made, (d).n);                                                       \
        assert_memory_equal((s).r->ids + N_PROMPT, wanted, sizeof(wanted));                        \
    } while (0)

#define ITEMS "root ::= \"{name:\" [abc] (\"name:\" [abc])* \"}\""

static void what_is_forced_is_spelled(void **state)
{
    struct scene s = open_scene(ITEMS);
    struct draft d = guess(&s, DRAFT_MAX);
    (void)state;

    assert_guess(s, d, OPEN, NAME, COLON);
    assert_int_equal(d.source[0], DRAFT_GRAMMAR);
    assert_true(d.fit[0] < DRAFT_FITS - 1);
    d = guess(&s, 2);
    assert_guess(s, d, OPEN, NAME);
    close_scene(&s);
}

/* The model has spelled it otherwise before: by "na" and "me". Behind its end there is a choice. */
static void a_look_up_goes_before_the_longest_tokens(void **state)
{
    static const int32_t said[] = {OPEN, NA, ME, COLON, A, NA, ME, COLON, B};
    struct scene s = open_scene(ITEMS);
    struct draft d;
    (void)state;

    look_up(said, 9);
    d = guess(&s, DRAFT_MAX);
    assert_guess(s, d, OPEN, NA, ME, COLON, A, NA, ME, COLON, B);
    assert_int_equal(d.source[1], DRAFT_GRAMMAR); /* it could be nothing else */
    assert_int_equal(d.fit[1], DRAFT_FITS - 1);
    assert_int_equal(d.source[4], DRAFT_LOOKUP); /* a, b or c */
    assert_int_equal(d.source[5], DRAFT_LOOKUP); /* another one, or the end */
    close_scene(&s);
}

/* Where it leaves the grammar it ends, and what is forced there comes behind it. */
static void a_look_up_is_cut_where_it_is_not_allowed(void **state)
{
    static const int32_t said[] = {OPEN, NA, C, C};
    struct scene s = open_scene(ITEMS);
    struct draft d;
    (void)state;

    look_up(said, 4);
    d = guess(&s, DRAFT_MAX);
    assert_guess(s, d, OPEN, NA, ME, COLON);
    assert_int_equal(n_asked, 2); /* and once more behind these */
    look_up(said + 2, 2);
    d = guess(&s, DRAFT_MAX);
    assert_guess(s, d, OPEN, NAME, COLON);
    close_scene(&s);
}

/* Nothing is guessed behind the end of the text, nor of ids that are none. */
static void guesses_end_with_the_text(void **state)
{
    static const int32_t said[] = {OPEN, A, A}, strange[] = {OPEN, 1 << 20};
    struct scene s = open_scene("root ::= \"{\" \"a\"");
    struct draft d;
    (void)state;

    look_up(said, 3);
    d = guess(&s, DRAFT_MAX);
    assert_guess(s, d, OPEN, A);
    look_up(strange, 2);
    d = guess(&s, DRAFT_MAX);
    assert_guess(s, d, OPEN, A);
    close_scene(&s);
}

/* A grammar with many readings of one text makes each token dear: the guess ends early, and the
 * constraint itself is as it was. */
static void a_dear_guess_ends(void **state)
{
    struct scene s = open_scene("root ::= (([ab]{0,30} [ab]{0,30}){1,30} \"}\")");
    struct constraint_state *before = malloc(constraint_state_bytes());
    int32_t said[DRAFT_MAX];
    struct draft d;
    (void)state;

    for (int i = 0; i < DRAFT_MAX; i++)
        said[i] = i % 2 == 0 ? A : B;
    memcpy(before, s.r->constraint, constraint_state_bytes());
    look_up(said, DRAFT_MAX);
    d = guess(&s, DRAFT_MAX);
    assert_in_range(d.n, 1, DRAFT_MAX - 1);
    assert_memory_equal(s.r->ids + N_PROMPT, said, d.n * sizeof(*said));
    assert_memory_equal(before, s.r->constraint, constraint_state_bytes());
    free(before);
    close_scene(&s);
}

static void thoughts_are_not_constrained(void **state)
{
    struct scene s = open_scene(ITEMS);
    (void)state;

    assert_true(grammar_drafter_is_for(s.r));
    s.r->thought = (struct thought){
        .phase = THOUGHT_OPEN, .open = 1000, .close = 1001, .n_left = THOUGHT_NO_LIMIT};
    assert_false(grammar_drafter_is_for(s.r));
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_forced_is_spelled),
        cmocka_unit_test(a_look_up_goes_before_the_longest_tokens),
        cmocka_unit_test(a_look_up_is_cut_where_it_is_not_allowed),
        cmocka_unit_test(guesses_end_with_the_text),
        cmocka_unit_test(a_dear_guess_ends),
        cmocka_unit_test(thoughts_are_not_constrained),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
