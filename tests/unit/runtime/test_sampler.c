/* tests/unit/runtime/test_sampler.c - random numbers and choosing tokens. */
#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/grammar/constraint.h"
#include "core/grammar/gbnf.h"
#include "core/grammar/token_trie.h"
#include "core/runtime/batch.h"
#include "core/runtime/random.h"
#include "core/runtime/thought.h"
#include "tests/fixtures/random.h"
#include "tests/unit/runtime/sampled_row.h"

/* Known answers of Philox 4x32-10 (the Random123 distribution's test vectors). */
static void philox_gives_known_answers(void **state)
{
    static const uint32_t zero[4] = {0}, ones[4] = {~0u, ~0u, ~0u, ~0u};
    static const uint32_t want0[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    static const uint32_t want1[4] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
    uint32_t out[4];
    (void)state;

    random_philox(zero, zero, out);
    assert_memory_equal(out, want0, sizeof(out));
    random_philox(ones, ones, out);
    assert_memory_equal(out, want1, sizeof(out));
}

static void uniform_is_uniform(void **state)
{
    uint32_t bucket[16] = {0};
    (void)state;

    for (uint32_t pos = 0; pos < 160000; pos++) {
        const double u = random_uniform(42, pos);

        assert_true(u >= 0 && u < 1);
        bucket[(int)(u * 16)]++;
    }
    for (int i = 0; i < 16; i++)
        assert_in_range(bucket[i], 9600, 10400); /* 4 standard deviations are 390 */
    assert_true(random_uniform(1, 5) != random_uniform(2, 5));
    assert_true(random_uniform(1, 5) == random_uniform(1, 5));
}

/* ---- the sampler ---- */

#define V 3000

static struct fixture *setup(void)
{
    const struct sampling greedy = {.top_p = 1, .repetition_penalty = 1, .n_top = -1};
    struct fixture *f = fixture_of(V, &greedy);

    for (int i = 0; i < V; i++)
        f->logits[i] = (float)((i * 7919) % 1000) / 100.0f - 5.0f;
    return f;
}

static int32_t pick(struct fixture *f, uint32_t pos)
{
    static const int32_t eog[] = {2, 2999};

    f->out.pos = pos;
    sampler_pick(&f->kern, &f->scratch, f->logits, eog, 2, &f->out);
    return f->out.token;
}

static void greedy_takes_the_lowest_of_equals(void **state)
{
    struct fixture *f = setup();
    (void)state;

    f->logits[700] = f->logits[41] = f->logits[1900] = 50;
    assert_int_equal(pick(f, 1), 41);
    f->logits[40] = NAN;
    assert_int_equal(pick(f, 1), 41);
    f->logits[0] = NAN;
    assert_int_equal(pick(f, 1), 41);
    teardown(f);
}

static void bias_and_bans_come_first(void **state)
{
    struct fixture *f = setup();
    struct logit_bias bias[] = {{41, -INFINITY}, {9, 100}};
    (void)state;

    f->logits[41] = 60;
    f->logits[2] = 55;
    f->logits[100] = 54;
    f->sampling.bias = bias;
    f->sampling.n_bias = 1;
    assert_int_equal(pick(f, 1), 2);
    f->out.ban_eog = true;
    assert_int_equal(pick(f, 1), 100);
    f->sampling.n_bias = 2;
    assert_int_equal(pick(f, 1), 9);
    assert_true(f->logits[41] == 60); /* the row itself is not changed */
    teardown(f);
}

/* ---- constraints ---- */

struct bound {
    char bytes[V][2];
    struct token_trie *trie;
    struct constraint *constraint;
};

/* Token i is the byte i, for 32 <= i < 127; the others are no text. */
static struct bound *bind(struct fixture *f, const char *gbnf)
{
    struct bound *b = calloc(1, sizeof(*b));
    struct trie_text texts[127];
    struct grammar *g;
    char err[200];
    size_t n = 0;

    for (int32_t i = 32; i < 127; i++) {
        b->bytes[i][0] = (char)i;
        texts[n++] = (struct trie_text){b->bytes[i], 1, i, false};
    }
    assert_int_equal(token_trie_create(&b->trie, texts, n, V), 0);
    assert_int_equal(grammar_from_gbnf(&g, gbnf, strlen(gbnf), NULL, err, sizeof(err)), 0);
    assert_int_equal(constraint_create(&b->constraint, g, b->trie, NULL, err, sizeof(err)), 0);
    f->out.constraint = malloc(constraint_state_bytes());
    constraint_state_init(f->out.constraint, b->constraint);
    return b;
}

static void unbind(struct fixture *f, struct bound *b)
{
    free(f->out.constraint);
    constraint_unref(&b->constraint);
    token_trie_destroy(&b->trie);
    free(b);
}

static void constraints_leave_no_choice(void **state)
{
    struct fixture *f = setup();
    struct bound *b = bind(f, "root ::= [ab]{2} [c-e]? \"!\"");
    struct logit_bias bias[] = {{'z', 100}, {'b', 90}};
    (void)state;

    f->sampling.bias = bias;
    f->sampling.n_bias = 2;
    f->sampling.n_top = 2;
    f->logits[700] = 50;
    assert_int_equal(pick(f, 1), 'b'); /* neither the largest logit nor the largest bias */
    assert_int_equal(f->out.top[0].id, 700); /* log-probabilities are those of the raw row */
    f->sampling.temperature = 2;
    f->sampling.top_k = 5;
    pick(f, 2);
    assert_true(f->out.token == 'a' || f->out.token == 'b');
    assert_false(f->out.is_complete);
    pick(f, 3);
    assert_true(f->out.token == '!' || (f->out.token >= 'c' && f->out.token <= 'e'));
    if (f->out.token != '!')
        assert_int_equal(pick(f, 4), '!');
    assert_true(f->out.is_complete);
    assert_false(f->out.is_broken);
    unbind(f, b);
    teardown(f);
}

/* The largest logit of those allowed, the first one of equals, found with a mask and without. */
static void the_largest_that_is_allowed_is_taken(void **state)
{
    struct fixture *f = setup();
    struct bound *b = bind(f, "root ::= [a-m]* \"!\"");
    uint64_t rng = 3;
    (void)state;

    for (int i = 0; i < 500; i++) {
        int32_t best = 'a';

        for (int32_t id = 32; id < 127; id++)
            f->logits[id] = (float)random_below(&rng, 8);
        f->logits['a' + i % 13] += i % 2 == 0 ? 10 : 0; /* the largest of all, or seldom */
        f->logits['!'] = f->logits[100] = -1; /* 100, which is 'd', is an end as well */
        for (int32_t id = 'b'; id <= 'm'; id++)
            if (f->logits[id] > f->logits[best])
                best = id;
        assert_int_equal(pick(f, 1), best);
        assert_false(f->out.is_complete || f->out.is_broken);
    }
    unbind(f, b);
    teardown(f);
}

/* pick() knows the end tokens 2 and 100; the latter is text as well, and its logit the largest. */
static void the_end_comes_where_it_may(void **state)
{
    struct fixture *f = setup();
    struct bound *b = bind(f, "root ::= \"a\" \"b\"*");
    (void)state;

    f->logits[2] = 90;
    assert_int_equal(pick(f, 1), 'a');
    f->out.ban_eog = true;
    assert_int_equal(pick(f, 2), 'b');
    f->out.ban_eog = false;
    assert_int_equal(pick(f, 3), 2);
    assert_false(f->out.is_complete || f->out.is_broken);
    unbind(f, b);
    teardown(f);
}

/* Tokens 1000 and 1001 are the marks. Inside of a thought any token may come but an end; the budget
 * closes it, whatever else is asked for; then the constraint begins. */
static void a_constraint_waits_for_the_thought(void **state)
{
    struct fixture *f = setup();
    struct bound *b = bind(f, "root ::= \"a\" \"b\"");
    struct thought thought = {.phase = THOUGHT_MAY_OPEN, .open = 1000, .close = 1001, .n_left = 2};
    struct logit_bias bias = {1001, -INFINITY};
    (void)state;

    f->out.thought = &thought;
    f->logits[1000] = 80;
    assert_int_equal(pick(f, 1), 1000);
    assert_int_equal(thought.phase, THOUGHT_OPEN);
    f->logits[1000] = 0;
    f->logits[2] = 90; /* an end */
    f->logits[700] = 70;
    assert_int_equal(pick(f, 2), 700);
    f->sampling.bias = &bias;
    f->sampling.n_bias = 1;
    assert_int_equal(pick(f, 3), 700);
    assert_int_equal(pick(f, 4), 1001);
    assert_int_equal(thought.phase, THOUGHT_NONE);
    assert_int_equal(pick(f, 5), 'a');
    assert_int_equal(pick(f, 6), 'b');
    assert_true(f->out.is_complete && !f->out.is_broken);
    unbind(f, b);
    teardown(f);
}

/* Without a constraint the text may end in a thought, and one may open later. */
static void a_thought_has_a_budget(void **state)
{
    struct fixture *f = setup();
    struct thought thought = {.phase = THOUGHT_MAY_OPEN, .open = 1000, .close = 1001};
    (void)state;

    f->out.thought = &thought;
    f->logits[700] = 70;
    assert_int_equal(pick(f, 1), 700);
    f->logits[1000] = 80;
    assert_int_equal(pick(f, 2), 1000);
    assert_int_equal(pick(f, 3), 1001);
    assert_int_equal(pick(f, 4), 1000); /* it is over: no mark any more */
    thought = (struct thought){
        .phase = THOUGHT_OPEN, .open = 1000, .close = 1001, .n_left = THOUGHT_NO_LIMIT};
    f->logits[2] = 90;
    assert_int_equal(pick(f, 5), 2);
    teardown(f);
}

/* Behind the budget come the message's tokens, whatever is likely, and then the mark. */
static void a_message_ends_a_thought(void **state)
{
    static const int32_t message[] = {7, 7, 300};
    struct fixture *f = setup();
    struct thought thought = {.phase = THOUGHT_OPEN,
                              .open = 1000,
                              .close = 1001,
                              .n_left = 1,
                              .n_message = 3,
                              .message = message};
    (void)state;

    f->out.thought = &thought;
    f->logits[700] = 70;
    assert_int_equal(pick(f, 1), 700);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pick(f, 2), message[i]);
    assert_int_equal(thought.n_message, 0);
    assert_int_equal(pick(f, 3), 1001);
    assert_int_equal(thought.phase, THOUGHT_NONE);
    assert_int_equal(pick(f, 4), 700);
    thought = (struct thought){THOUGHT_OPEN, 1000, 1001, 5, 3, message};
    f->logits[1001] = 80; /* the model ends it: no message */
    assert_int_equal(pick(f, 5), 1001);
    assert_int_equal(thought.phase, THOUGHT_NONE);
    teardown(f);
}

static void penalties_follow_the_counts(void **state)
{
    struct fixture *f = setup();
    struct token_count counts[2] = {{41, 1, 0}, {50, 0, 3}};
    (void)state;

    f->logits[41] = 20; /* in the prompt only: repetition penalty applies, the others do not */
    f->logits[50] = 19; /* generated three times */
    f->logits[60] = 15;
    f->out.counts = counts;
    f->out.n_counts = 2;
    assert_int_equal(pick(f, 1), 41);
    f->sampling.repetition_penalty = 1.2f; /* 16.7, 15.8 */
    assert_int_equal(pick(f, 1), 41);
    f->sampling.repetition_penalty = 1.4f; /* 14.3, 13.6 */
    assert_int_equal(pick(f, 1), 60);
    f->sampling.repetition_penalty = 1.0f;
    f->logits[41] = 0;
    f->sampling.frequency_penalty = 1.0f; /* 19 - 3 */
    assert_int_equal(pick(f, 1), 50);
    f->sampling.presence_penalty = 1.5f; /* 19 - 4.5 */
    assert_int_equal(pick(f, 1), 60);
    teardown(f);
}

/* Naive reference: sort everything, cut, and add up weights in double. */
struct ranked {
    double logit;
    int32_t id;
};

static int by_rank(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static size_t naive_nucleus(const struct fixture *f, struct ranked *r)
{
    const struct sampling *p = &f->sampling;
    const size_t k = p->top_k > 0 ? (size_t)p->top_k : V;
    double total = 0, sum = 0;
    size_t n = 0;

    for (int32_t i = 0; i < V; i++)
        r[i] = (struct ranked){f->logits[i], i};
    qsort(r, V, sizeof(*r), by_rank);
    for (size_t i = 0; i < k; i++)
        total += exp((r[i].logit - r[0].logit) / p->temperature);
    while (n < k && (n == 0 || (sum < p->top_p * total &&
                                exp((r[n].logit - r[0].logit) / p->temperature) >= p->min_p)))
        sum += exp((r[n++].logit - r[0].logit) / p->temperature);
    return n;
}

static void cuts_keep_exactly_the_nucleus(void **state)
{
    static const struct sampling cases[] = {
        {.temperature = 1, .top_p = 0.5f},
        {.temperature = 1, .top_p = 0},
        {.temperature = 0.3f, .top_p = 0.9f},
        {.temperature = 1, .top_p = 1, .top_k = 40},
        {.temperature = 1, .top_p = 0.35f, .top_k = 7},
        {.temperature = 1, .top_p = 1, .min_p = 0.3f},
        {.temperature = 2, .top_p = 0.999f, .min_p = 0.05f},
        {.temperature = 1, .top_p = 1, .top_k = 1},
    };
    struct ranked *ranked = calloc(V, sizeof(*ranked));
    (void)state;

    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct fixture *f = setup();
        uint8_t *seen = calloc(V, 1);
        size_t n, hits = 0;

        for (int i = 0; i < V; i++) /* all different, so that the nucleus is one set */
            f->logits[i] = (float)((i * 7919) % V) / 300.0f;
        f->sampling = cases[c];
        f->sampling.repetition_penalty = 1;
        f->sampling.n_top = -1;
        n = naive_nucleus(f, ranked);
        for (uint32_t pos = 0; pos < 4000; pos++)
            seen[pick(f, pos)] = 1;
        for (size_t i = 0; i < V; i++)
            hits += seen[ranked[i].id];
        for (size_t i = n; i < V; i++)
            assert_false(seen[ranked[i].id]);
        if (n < 100) /* small enough that every member comes up */
            assert_int_equal(hits, n);
        free(seen);
        teardown(f);
    }
    free(ranked);
}

static void frequencies_match_the_weights(void **state)
{
    struct fixture *f = setup();
    uint32_t n[3] = {0};
    (void)state;

    for (int i = 0; i < V; i++)
        f->logits[i] = -INFINITY;
    f->logits[1500] = 0;
    f->logits[2500] = logf(2);
    f->logits[10] = logf(5);
    f->sampling.temperature = 1;
    for (uint32_t pos = 0; pos < 40000; pos++) {
        const int32_t id = pick(f, pos);

        assert_true(id == 1500 || id == 2500 || id == 10); /* never one of weight zero */
        n[id == 1500 ? 0 : id == 2500 ? 1 : 2]++;
    }
    assert_in_range(n[0], 4700, 5300);
    assert_in_range(n[1], 9600, 10400);
    assert_in_range(n[2], 24600, 25400);
    teardown(f);
}

static void logprobs_are_those_of_the_raw_row(void **state)
{
    struct fixture *f = setup();
    struct logit_bias bias = {41, 100};
    double sum = 0;
    (void)state;

    for (int i = 0; i < V; i++)
        sum += exp((double)f->logits[i]);
    f->sampling.bias = &bias;
    f->sampling.n_bias = 1;
    f->sampling.n_top = 3;
    assert_int_equal(pick(f, 1), 41);
    assert_true(fabs((double)f->out.logprob - ((double)f->logits[41] - log(sum))) < 1e-5);
    assert_int_equal(f->out.n_top, 3);
    for (int i = 0; i < 3; i++)
        assert_true(fabs((double)f->out.top[i].logprob -
                         ((double)f->logits[f->out.top[i].id] - log(sum))) < 1e-5);
    assert_true(f->out.top[0].logprob >= f->out.top[1].logprob);
    assert_true(f->out.top[0].logprob == f->out.top[1].logprob
                    ? f->out.top[0].id < f->out.top[1].id
                    : true);
    f->out.want = BATCH_SCORE;
    f->out.token = 77;
    f->sampling.n_top = 0;
    pick(f, 2);
    assert_true(fabs((double)f->out.logprob - ((double)f->logits[77] - log(sum))) < 1e-5);
    teardown(f);
}

/* The same order as the alternatives have, equals by their ids. */
static void a_rank_is_a_place_among_all(void **state)
{
    struct fixture *f = setup();
    (void)state;

    f->logits[9] = f->logits[200] = f->logits[123] + 1;
    f->sampling.n_top = SAMPLING_MAX_TOP;
    f->out.want = BATCH_SCORE;
    f->out.token = 0;
    pick(f, 1);
    for (uint32_t i = 0; i < SAMPLING_MAX_TOP; i++) {
        f->out.token = f->out.top[i].id;
        pick(f, 1);
        assert_int_equal(f->out.rank, i + 1);
    }
    f->logits[V - 1] = -1e30f;
    f->out.token = V - 1;
    pick(f, 1);
    assert_int_equal(f->out.rank, V);
    teardown(f);
}

/* Degenerate rows must give some token, not a crash or a hang. */
static void bad_rows_give_a_token(void **state)
{
    struct fixture *f = setup();
    const float fills[] = {NAN, INFINITY, -INFINITY, 0, 3e38f};
    (void)state;

    for (size_t i = 0; i < sizeof(fills) / sizeof(fills[0]); i++)
        for (int mode = 0; mode < 4; mode++) {
            for (int j = 0; j < V; j++)
                f->logits[j] = fills[i];
            f->sampling.temperature = mode == 0 ? 0 : 1e-5f;
            f->sampling.top_p = mode == 1 ? 0.5f : 1;
            f->sampling.top_k = mode == 2 ? 5 : 0;
            assert_in_range(pick(f, 1), 0, V - 1);
        }
    teardown(f);
}

static void batch_lays_rows_out(void **state)
{
    struct batch *b;
    const int32_t ids[] = {5, 6, 7};
    const uint32_t table[] = {1};
    (void)state;

    assert_int_equal(batch_create(&b, 8, 2, 8), 0);
    assert_int_equal(batch_add_span(b, ids, 1, 40, table, 0), 0);
    assert_int_equal(batch_add_span(b, ids, 3, 9, table, 0), 1);
    assert_int_equal(b->n_rows, 4);
    assert_int_equal(b->pos[0], 40);
    assert_int_equal(b->pos[3], 11);
    assert_int_equal(b->ids[3], 7);
    assert_int_equal(b->span_of[0], 0);
    assert_int_equal(b->span_of[1], 1);
    assert_int_equal(batch_add_output(b, 3)->row, 3);
    batch_clear(b);
    assert_int_equal(b->n_rows + b->n_spans + b->n_outputs, 0);
    batch_destroy(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_known_answers),
        cmocka_unit_test(uniform_is_uniform),
        cmocka_unit_test(greedy_takes_the_lowest_of_equals),
        cmocka_unit_test(bias_and_bans_come_first),
        cmocka_unit_test(constraints_leave_no_choice),
        cmocka_unit_test(the_largest_that_is_allowed_is_taken),
        cmocka_unit_test(the_end_comes_where_it_may),
        cmocka_unit_test(a_constraint_waits_for_the_thought),
        cmocka_unit_test(a_thought_has_a_budget),
        cmocka_unit_test(a_message_ends_a_thought),
        cmocka_unit_test(penalties_follow_the_counts),
        cmocka_unit_test(cuts_keep_exactly_the_nucleus),
        cmocka_unit_test(frequencies_match_the_weights),
        cmocka_unit_test(logprobs_are_those_of_the_raw_row),
        cmocka_unit_test(a_rank_is_a_place_among_all),
        cmocka_unit_test(bad_rows_give_a_token),
        cmocka_unit_test(batch_lays_rows_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
