/* tests/unit/scheduler/test_drafts.c - guesses at the next tokens, and what they are worth
 * (scheduler/drafts/). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "scheduler/drafts/draft_account.h"
#include "scheduler/drafts/draft_model.h"
#include "scheduler/drafts/draft_rates.h"
#include "scheduler/drafts/lookup_drafter.h"
#include "scheduler/request/prediction.h"
#include "scheduler/request/token_lookup.h"
#include "scheduler/request/request.h"
#include "tests/fixtures/random.h"

#define MAX 4000

/* ---- look-ups ---- */

/* All places, from the last one back: at most LOOKUP_CHAIN whose pair is the same. */
static struct lookup_match naive_find(const int32_t *text, uint32_t n, const int32_t *tail,
                                      uint32_t n_tail)
{
    struct lookup_match best = {0};

    for (uint32_t next = n; n_tail >= 2 && next-- > 2;) {
        const struct lookup_match m = token_lookup_match(text, next, tail, n_tail);

        if (m.n_match >= 2 && m.n_match > best.n_match)
            best = m;
    }
    return best;
}

static void finds_what_a_search_finds(void **state)
{
    static int32_t text[MAX], tail[100];
    uint64_t rng = 1;
    (void)state;

    for (uint32_t run = 0; run < 60; run++) {
        const uint32_t n_words = 40 + run * 20; /* so many that chains stay short */
        struct token_lookup l;
        void *memory = calloc(1, token_lookup_bytes(MAX));
        uint32_t n = 0;

        token_lookup_init(&l, memory, MAX);
        while (n < 600) {
            const uint32_t more = 1 + random_below(&rng, 60);

            for (uint32_t i = 0; i < more; i++, n++)
                text[n] = (int32_t)random_below(&rng, n_words);
            token_lookup_extend(&l, text, n);
            for (uint32_t i = 0; i < 100; i++)
                tail[i] = text[(n > 100 ? n - 100 : 0) / 2 + i % n];
            for (uint32_t k = 0; k < 20; k++) {
                const uint32_t n_tail = random_below(&rng, 100);
                const struct lookup_match a = token_lookup_find(&l, text, tail, n_tail);
                const struct lookup_match b = naive_find(text, n + 1, tail, n_tail);

                assert_int_equal(a.n_match, b.n_match);
                assert_int_equal(a.next, b.next);
            }
        }
        token_lookup_clear(&l);
        assert_int_equal(token_lookup_find(&l, text, text, 50).n_match, 0);
        free(memory);
    }
}

/* A pair that stands everywhere is not looked for in all places. */
static void work_is_bounded(void **state)
{
    static int32_t text[MAX];
    struct token_lookup l;
    void *memory = calloc(1, token_lookup_bytes(MAX));
    struct lookup_match m;
    (void)state;

    text[0] = 5;
    token_lookup_init(&l, memory, MAX);
    token_lookup_extend(&l, text, MAX);
    m = token_lookup_find(&l, text, text, MAX);
    assert_int_equal(m.n_match, LOOKUP_MAX_MATCH);
    assert_int_equal(m.next, MAX); /* of equals the latest */
    free(memory);
}

/* ---- predictions ---- */

static struct request *with_prediction(const int32_t *ids, uint32_t n, bool drafts)
{
    const struct request_size size = {
        .n_prompt = 3, .max_tokens = 200, .drafts = drafts, .n_prediction = n};
    struct request *r;

    assert_int_equal(request_create(&r, &size), 0);
    for (uint32_t i = 0; i < 3; i++)
        r->ids[i] = 900 + (int32_t)i;
    if (n > 0)
        memcpy(r->prediction.ids, ids, n * sizeof(*ids));
    prediction_begin(&r->prediction, r->ids, 3, 3);
    return r;
}

/* Append the tokens as an answer; returns how many of the prediction have come true. */
static uint32_t follow(struct request *r, uint32_t *n_known, const int32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        r->ids[(*n_known)++] = ids[i];
        prediction_take(&r->prediction, r->ids, *n_known);
    }
    return r->prediction.accepted;
}

static void predictions_are_followed_and_found_again(void **state)
{
    static const int32_t said[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    struct request *r = with_prediction(said, 10, true);
    struct lookup_guess g = lookup_drafter_find(r, 3, 0);
    uint32_t n = 3;
    (void)state;

    assert_int_equal(g.source, DRAFT_PREDICTION);
    assert_ptr_equal(g.ids, r->prediction.ids); /* from the beginning, before any token */
    assert_int_equal(follow(r, &n, said, 3), 3);
    assert_int_equal(lookup_drafter_find(r, n, 0).ids[0], 4);
    assert_int_equal(follow(r, &n, (int32_t[]){77}, 1), 3);
    assert_int_equal(r->prediction.at, 10); /* lost */
    assert_int_equal(follow(r, &n, (int32_t[]){5}, 1), 3);
    assert_int_equal(r->prediction.at, 10); /* one token says nothing */
    assert_int_equal(follow(r, &n, (int32_t[]){6}, 1), 3);
    assert_int_equal(r->prediction.at, 6);
    assert_int_equal(follow(r, &n, said + 6, 4), 7);
    assert_int_equal(lookup_drafter_find(r, n, 0).n_match, 0); /* it is at its end */
    for (int i = 0; i < 5; i++) /* never more than there are */
        follow(r, &n, said, 10);
    assert_int_equal(r->prediction.accepted, 10);
    request_destroy(&r);
}

/* An answer that is gone on with counts from its beginning. */
static void resumed_answers_are_counted(void **state)
{
    static const int32_t said[] = {1, 2, 3, 4};
    struct request *r = with_prediction(said, 4, true);
    (void)state;

    r->prediction.at = r->prediction.n_right = 0;
    memcpy(r->ids + 3, said, 3 * sizeof(*said));
    prediction_begin(&r->prediction, r->ids, 3, 6);
    assert_int_equal(r->prediction.accepted, 3);
    assert_int_equal(r->prediction.at, 3);
    request_destroy(&r);
}

/* ---- the request's own text ---- */

static void own_text_is_gone_on_with(void **state)
{
    static const int32_t text[] = {1, 2, 3, 4, 5, 1, 2, 9, 9, 1, 2, 3};
    struct request *r = with_prediction(NULL, 0, true);
    struct lookup_guess g;
    struct draft d;
    (void)state;

    memcpy(r->ids, text, sizeof(text));
    g = lookup_drafter_find(r, 12, 0);
    assert_int_equal(g.n_match, 3);
    d = lookup_drafter_take(r, 12, 5, &g);
    assert_int_equal(d.n, 5);
    assert_int_equal(d.source[0], DRAFT_LOOKUP);
    assert_memory_equal(r->ids + 12, ((int32_t[]){4, 5, 1, 2, 9}), 5 * sizeof(int32_t));
    r->ids[12] = 4; /* the same place goes on, as well as any other */
    g = lookup_drafter_find(r, 13, 0);
    assert_int_equal(g.ids[0], 5);
    assert_int_equal(g.n_match, 4);
    request_destroy(&r);
}

/* What repeats itself is guessed beyond its end. */
static void repetitions_go_on(void **state)
{
    struct request *r = with_prediction(NULL, 0, true);
    struct lookup_guess g;
    struct draft d;
    (void)state;

    for (uint32_t i = 0; i < 7; i++)
        r->ids[i] = (int32_t)(i % 3);
    g = lookup_drafter_find(r, 7, 0);
    d = lookup_drafter_take(r, 7, 8, &g);
    assert_int_equal(d.n, 8);
    for (uint32_t i = 7; i < 15; i++)
        assert_int_equal(r->ids[i], i % 3);
    request_destroy(&r);
}

static void without_drafts_there_is_no_lookup(void **state)
{
    struct request *r = with_prediction(NULL, 0, false);
    (void)state;

    assert_int_equal(r->lookup.max, 0);
    assert_int_equal(lookup_drafter_find(r, 3, 0).n_match, 0);
    request_destroy(&r);
}

/* ---- ends ---- */

static void guesses_end_before_an_end(void **state)
{
    static const int32_t ids[] = {4, 5, 6, 7, 8}, ends[] = {9, 7, 4};
    (void)state;

    assert_int_equal(draft_before_end(ids, 5, NULL, 0), 5);
    assert_int_equal(draft_before_end(ids, 5, ends, 1), 5);
    assert_int_equal(draft_before_end(ids, 5, ends, 2), 3);
    assert_int_equal(draft_before_end(ids, 5, ends, 3), 0);
}

/* ---- rates ---- */

static void rates_are_learnt(void **state)
{
    struct draft_rates own = {0}, all = {0}, other = {0};
    const struct draft d = draft_behind_match(4, DRAFT_LOOKUP, 2);
    const uint32_t before = draft_rates_permille(&own, &all, DRAFT_LOOKUP, d.fit[0]);
    uint32_t now, longer;
    (void)state;

    for (int i = 0; i < 1000; i++)
        draft_rates_note(&own, &all, &d, 0);
    now = draft_rates_permille(&own, &all, DRAFT_LOOKUP, d.fit[0]);
    assert_true(before > 200 && now < 30);
    /* others go by it */
    assert_true(draft_rates_permille(&other, &all, DRAFT_LOOKUP, d.fit[0]) < 60);
    longer = draft_rates_permille(&own, &all, DRAFT_LOOKUP, DRAFT_FITS - 1);
    assert_true(longer > 800); /* of which nothing was seen */
    assert_int_equal(draft_rates_permille(&own, &all, DRAFT_PREDICTION, d.fit[0]), before);
    for (int i = 0; i < 100; i++)
        draft_rates_note(&own, &all, &d, 4);
    assert_true(draft_rates_permille(&own, &all, DRAFT_LOOKUP, d.fit[0]) > 800);
}

/* What was guessed and not computed counts on the whole for what its class is worth. */
static void guesses_that_are_cut_count_on_the_whole(void **state)
{
    struct draft_rates own = {0}, all = {0};
    struct draft d = {0};
    (void)state;

    for (uint8_t i = 0; i < 4; i++)
        draft_add(&d, DRAFT_MODEL, i == 3);
    for (int i = 0; i < 200; i++)
        draft_rates_note(&own, &all, &d, 3); /* the last one is always wrong */
    assert_true(draft_rates_permille(&own, &all, DRAFT_MODEL, 0) > 950);
    assert_true(draft_rates_permille(&own, &all, DRAFT_MODEL, 1) < 50);
    assert_in_range(draft_rates_permille(&own, &all, DRAFT_MODEL, DRAFT_FIT_ANY), 700, 800);
    d.n = 3;
    for (int i = 0; i < 200; i++)
        draft_rates_note(&own, &all, &d, 3);
    assert_true(draft_rates_permille(&own, &all, DRAFT_MODEL, 1) < 50);
    assert_in_range(draft_rates_permille(&own, &all, DRAFT_MODEL, DRAFT_FIT_ANY), 700, 800);
}

static void the_fit_grows_with_the_match_and_the_likelihood(void **state)
{
    const struct draft d = draft_behind_match(DRAFT_MAX, DRAFT_LOOKUP, 1);
    (void)state;

    assert_int_equal(d.fit[0], 0);
    for (uint32_t i = 1; i < DRAFT_MAX; i++)
        assert_true(d.fit[i] >= d.fit[i - 1]);
    assert_int_equal(draft_behind_match(1, DRAFT_LOOKUP, 100).fit[0], DRAFT_FITS - 1);
    assert_int_equal(draft_fit_of_logprob(-10), 0);
    assert_int_equal(draft_fit_of_logprob(0), DRAFT_FITS - 1);
    for (int i = -200; i < 0; i++)
        assert_true(draft_fit_of_logprob((float)i / 100) <=
                    draft_fit_of_logprob((float)(i + 1) / 100));
}

/* ---- costs ---- */

static void costs_are_learnt_and_forgotten(void **state)
{
    struct draft_cost_model m = {0};
    uint64_t ns[DRAFT_ROWS + 1];
    (void)state;

    assert_false(draft_costs_fill(&m, ns));
    for (int i = 0; i < 50; i++)
        draft_costs_observe(&m, 1, 1500, 500000); /* 1 ms of it for rows */
    assert_true(draft_costs_fill(&m, ns) && ns[1] > 990000 && ns[1] < 1010000);
    assert_true(ns[8] < 1300000); /* as long as nothing is known of it */
    draft_costs_observe(&m, 8, 4000, 0);
    draft_costs_fill(&m, ns);
    assert_true(ns[8] > 1500000 && ns[8] < 2000000); /* it may have been interrupted */
    for (int i = 0; i < 10; i++) {
        draft_costs_observe(&m, 8, 4000, 0);
        draft_costs_observe(&m, 1, 1000, 0);
    }
    draft_costs_fill(&m, ns);
    assert_true(ns[8] > 3300000 && ns[4] > 1700000 && ns[4] < 3000000);
    assert_true(ns[16] > 6000000); /* goes on as it has begun */
    for (uint32_t n = 2; n <= DRAFT_ROWS; n++)
        assert_true(ns[n] >= ns[n - 1]);
    for (int i = 0; i < 1200; i++)
        draft_costs_observe(&m, 1, 1000, 0);
    draft_costs_fill(&m, ns);
    assert_true(ns[8] < 1300000); /* it is worth another look */
}

/* What was seen once is forgotten soon, and a larger number of rows bounds the smaller ones. */
static void an_interrupted_step_says_little(void **state)
{
    struct draft_cost_model m = {0};
    uint64_t ns[DRAFT_ROWS + 1];
    (void)state;

    for (int i = 0; i < 20; i++)
        draft_costs_observe(&m, i % 2 == 0 ? 1 : 8, i % 2 == 0 ? 1000 : 1500, 0);
    draft_costs_observe(&m, 4, 9000, 0);
    draft_costs_fill(&m, ns);
    assert_true(ns[4] < 1600000 && ns[8] < 1600000);
    draft_costs_observe(&m, 16, 9000, 0);
    draft_costs_fill(&m, ns);
    assert_true(ns[16] < 3500000);
    for (int i = 0; i < 70; i++)
        draft_costs_observe(&m, i % 2 == 0 ? 1 : 8, i % 2 == 0 ? 1000 : 1500, 0);
    draft_costs_fill(&m, ns);
    assert_true(ns[16] < 2300000);
}

/* A machine that becomes slower or faster is noticed at any number of rows. */
static void the_level_follows_the_machine(void **state)
{
    struct draft_cost_model m = {0};
    (void)state;

    for (int i = 0; i < 100; i++)
        draft_costs_observe(&m, i % 2 == 0 ? 1 : 6, i % 2 == 0 ? 1000 : 1500, 0);
    for (int i = 0; i < 100; i++)
        draft_costs_observe(&m, 6, 750, 0);
    assert_true(draft_costs_rows(&m, 6) < 800000);
    assert_true(draft_costs_rows(&m, 1) < 900000);
}

/* Of the draft model: by its weight until it was seen, by what it takes from then on. */
static void the_draft_model_is_measured(void **state)
{
    struct draft_model_costs c = {.weight = 0.25};
    struct draft_costs costs = {.is_known = true};
    (void)state;

    for (uint32_t n = 1; n <= DRAFT_ROWS; n++)
        costs.rows_ns[n] = 4000000 + 100000 * n;
    draft_model_costs_fill(&c, &costs);
    assert_int_equal(costs.guess_ns[1], 1025000);
    assert_int_equal(costs.take_in_ns, 1200000 / 8);
    draft_model_costs_guessed(&c, 1, 2000);
    draft_model_costs_took_in(&c, 100, 5000);
    draft_model_costs_fill(&c, &costs);
    assert_int_equal(costs.guess_ns[1], 2000000);
    assert_true(costs.guess_ns[8] >= 2000000 && costs.guess_ns[8] < 3000000);
    assert_int_equal(costs.take_in_ns, 50000);
    assert_int_equal(c.guess_us, 2000);
    assert_int_equal(c.take_in_us, 5000);
}

static void the_account_bounds_losses(void **state)
{
    const double plain = 1e6;
    struct draft_account a = {0};
    (void)state;

    for (int i = 0; i < 1000; i++)
        draft_account_allow(&a, plain);
    assert_true(a.balance > 3 * plain && a.balance <= 4 * plain); /* four steps at most */
    for (int i = 0; i < 22; i++)
        draft_account_settle(&a, plain, 1.5 * plain, 1, 1); /* half a step lost each time */
    assert_true(a.balance < -6 * plain && a.balance > -8 * plain);
    for (int i = 0; i < 4; i++)
        draft_account_settle(&a, plain, 1.5 * plain, 1, 5); /* three and a half gained */
    assert_true(a.balance > 0);
    draft_account_pay(&a, 20 * plain);
    assert_true(a.balance < -12 * plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_a_search_finds),
        cmocka_unit_test(work_is_bounded),
        cmocka_unit_test(predictions_are_followed_and_found_again),
        cmocka_unit_test(resumed_answers_are_counted),
        cmocka_unit_test(own_text_is_gone_on_with),
        cmocka_unit_test(repetitions_go_on),
        cmocka_unit_test(without_drafts_there_is_no_lookup),
        cmocka_unit_test(guesses_end_before_an_end),
        cmocka_unit_test(rates_are_learnt),
        cmocka_unit_test(guesses_that_are_cut_count_on_the_whole),
        cmocka_unit_test(the_fit_grows_with_the_match_and_the_likelihood),
        cmocka_unit_test(costs_are_learnt_and_forgotten),
        cmocka_unit_test(an_interrupted_step_says_little),
        cmocka_unit_test(the_level_follows_the_machine),
        cmocka_unit_test(the_draft_model_is_measured),
        cmocka_unit_test(the_account_bounds_losses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
