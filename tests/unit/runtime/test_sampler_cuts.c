/* tests/unit/runtime/test_sampler_cuts.c - typical_p, XTC, mirostat and DRY against plain
 * formulas. */
#include <math.h>
#include <string.h>

#include "core/runtime/random.h"
#include "tests/fixtures/random.h"
#include "tests/unit/runtime/sampled_row.h"

#define V 64

static struct fixture *setup(void)
{
    const struct sampling plain = {
        .temperature = 1, .top_p = 1, .repetition_penalty = 1, .n_top = -1, .seed = 11};
    struct fixture *f = fixture_of(V, &plain);

    for (int i = 0; i < V; i++)
        f->logits[i] = -INFINITY;
    f->out.mirostat_mu = &f->mu;
    return f;
}

static int32_t pick(struct fixture *f, uint32_t pos)
{
    f->out.pos = pos;
    sampler_pick(&f->kern, &f->scratch, f->logits, NULL, 0, &f->out);
    return f->out.token;
}

/* Token ids 10, 11, 12, … get these probabilities. */
static void set_shares(struct fixture *f, const double *p, int n)
{
    for (int i = 0; i < n; i++)
        f->logits[10 + i] = (float)log(p[i]);
}

/* How often each of the n tokens comes, of `draws`; anything else is a failure. */
static void count(struct fixture *f, uint32_t draws, int n, uint32_t *times)
{
    memset(times, 0, (size_t)n * sizeof(*times));
    for (uint32_t pos = 0; pos < draws; pos++) {
        const int32_t id = pick(f, pos);

        assert_in_range(id, 10, 10 + n - 1);
        times[id - 10]++;
    }
}

static void expect_shares(const uint32_t *times, const double *want, int n, uint32_t draws)
{
    for (int i = 0; i < n; i++) {
        const double sd = sqrt(draws * want[i] * (1 - want[i]));

        assert_true(fabs(times[i] - draws * want[i]) <= 5 * sd);
    }
}

static void xtc_leaves_the_last_of_the_likely(void **state)
{
    static const double p[] = {0.4, 0.3, 0.15, 0.1, 0.05};
    struct fixture *f = setup();
    uint32_t times[5];
    (void)state;

    set_shares(f, p, 5);
    f->sampling.xtc_threshold = 0.12f;
    count(f, 20000, 5, times); /* off */
    expect_shares(times, p, 5, 20000);
    f->sampling.xtc_probability = 1; /* 0.4 and 0.3 go, 0.15 is the last that is likely */
    count(f, 20000, 5, times);
    expect_shares(times, (double[]){0, 0, 0.5, 1.0 / 3, 1.0 / 6}, 5, 20000);
    f->sampling.xtc_probability = 0.5f; /* half of the time */
    count(f, 20000, 5, times);
    expect_shares(times, (double[]){0.2, 0.15, 0.325, 0.05 + 1.0 / 6, 0.025 + 1.0 / 12}, 5, 20000);
    f->sampling.xtc_probability = 1;
    f->sampling.xtc_threshold = 0.35f; /* only one is likely: it stays */
    count(f, 20000, 5, times);
    expect_shares(times, p, 5, 20000);
    teardown(f);
}

/* Surprises in nats: 0.69, 1.39, 2.08, 2.77, 2.77; their mean is 1.30. */
static void typical_keeps_what_surprises_as_usual(void **state)
{
    static const double p[] = {0.5, 0.25, 0.125, 0.0625, 0.0625};
    struct fixture *f = setup();
    uint32_t times[5];
    (void)state;

    set_shares(f, p, 5);
    f->sampling.typical_p = 0.2f; /* 0.25 is nearest */
    count(f, 200, 5, times);
    assert_int_equal(times[1], 200);
    f->sampling.typical_p = 0.3f; /* then 0.5 */
    count(f, 20000, 5, times);
    expect_shares(times, (double[]){2.0 / 3, 1.0 / 3, 0, 0, 0}, 5, 20000);
    f->sampling.typical_p = 0.8f; /* then 0.125 */
    count(f, 20000, 5, times);
    expect_shares(times, (double[]){4.0 / 7, 2.0 / 7, 1.0 / 7, 0, 0}, 5, 20000);
    f->sampling.typical_p = 0.9f; /* and of two equals the one with the lower id */
    count(f, 20000, 5, times);
    assert_true(times[3] > 0 && times[4] == 0);
    f->sampling.typical_p = 1;
    count(f, 20000, 5, times);
    expect_shares(times, p, 5, 20000);
    teardown(f);
}

/* Typical behind top_k: the shares are those of what is left. */
static void cuts_follow_one_another(void **state)
{
    static const double p[] = {0.4, 0.3, 0.2, 0.1};
    struct fixture *f = setup();
    uint32_t times[4];
    (void)state;

    set_shares(f, p, 4);
    f->sampling.top_k = 2;
    f->sampling.typical_p = 0.99f;
    count(f, 20000, 4, times);
    expect_shares(times, (double[]){4.0 / 7, 3.0 / 7, 0, 0}, 4, 20000);
    f->sampling.xtc_probability = 1;
    f->sampling.xtc_threshold = 0.1f;
    count(f, 200, 4, times);
    assert_int_equal(times[1], 200);
    teardown(f);
}

/* top_k, then top_p of what is left, then min_p of the largest: of two tokens that top_p leaves the
 * second has three quarters of the first. */
static void min_p_comes_behind_top_p(void **state)
{
    static const double p[] = {0.4, 0.3, 0.2, 0.1};
    struct fixture *f = setup();
    uint32_t times[4];
    (void)state;

    set_shares(f, p, 4);
    f->sampling.top_k = 4;
    f->sampling.top_p = 0.5f;
    f->sampling.min_p = 0.6f;
    count(f, 20000, 4, times);
    expect_shares(times, (double[]){4.0 / 7, 3.0 / 7, 0, 0}, 4, 20000);
    f->sampling.min_p = 0.8f;
    count(f, 200, 4, times);
    assert_int_equal(times[0], 200);
    teardown(f);
}

static void mirostat_steers(void **state)
{
    static const double p[] = {0.5, 0.25, 0.125, 0.125}; /* 1, 2, 3 and 3 bits */
    struct fixture *f = setup();
    uint32_t times[4];
    (void)state;

    set_shares(f, p, 4);
    f->sampling.mirostat_tau = 2;
    f->mu = 2.5f; /* the tokens of 3 bits are out, and top_k does not matter */
    f->sampling.top_k = 1;
    count(f, 20000, 4, times); /* eta 0: mu stays */
    expect_shares(times, (double[]){2.0 / 3, 1.0 / 3, 0, 0}, 4, 20000);
    assert_true(f->mu == 2.5f);
    f->mu = 0.5f; /* the likeliest always stays; alone it surprises nobody */
    f->sampling.mirostat_eta = 0.1f;
    assert_int_equal(pick(f, 1), 10);
    assert_true(fabsf(f->mu - 0.7f) < 1e-6f);
    f->mu = 100;
    for (uint32_t pos = 0; pos < 5; pos++) { /* the rule, step by step */
        const float before = f->mu;
        const int32_t id = pick(f, pos);

        assert_true(fabs((double)(f->mu - before) + 0.1 * (-log2(p[id - 10]) - 2)) < 1e-5);
    }
    teardown(f);
}

/* The penalty that DRY takes off each token, by looking at every earlier place. */
static float dry(const struct sampling *s, const int32_t *h, uint32_t n, int32_t id)
{
    uint32_t longest = 0;

    if (s->dry_last_n < n) {
        h += n - s->dry_last_n;
        n = s->dry_last_n;
    }
    for (uint32_t at = 1; at < n; at++) {
        uint32_t k = 0;

        while (h[at] == id && k < at && k < 50 && h[at - 1 - k] == h[n - 1 - k] &&
               !(s->dry_breakers[h[n - 1 - k] / 32] >> (h[n - 1 - k] % 32) & 1))
            k++;
        longest = k > longest ? k : longest;
    }
    if (longest < s->dry_allowed_length || (s->dry_breakers[id / 32] >> (id % 32) & 1))
        return 0;
    return s->dry_multiplier * powf(s->dry_base, (float)(longest - s->dry_allowed_length));
}

static uint64_t rng = 5;

static uint32_t below(uint32_t n)
{
    return random_below(&rng, n);
}

static void dry_is_its_formula(void **state)
{
    struct fixture *f = setup();
    uint32_t breakers[V / 32] = {0};
    int32_t h[300];
    (void)state;

    f->sampling.dry_breakers = breakers;
    f->out.history = h;
    for (int round = 0; round < 2000; round++) {
        const uint32_t n = 1 + below(300);
        float want[V];
        int best = 0;

        for (uint32_t i = 0; i < n; i++) /* few tokens: many repetitions, some of them long */
            h[i] = i >= 20 && below(8) ? h[i - 7 - (uint32_t)round % 13] : (int32_t)below(6);
        breakers[0] = round % 3 == 0 ? 1u << below(6) : 0;
        f->sampling.dry_multiplier = 0.8f;
        f->sampling.dry_base = 1.5f;
        f->sampling.dry_allowed_length = 1 + below(4);
        f->sampling.dry_last_n = round % 2 ? UINT32_MAX : below(100);
        f->sampling.temperature = 0;
        for (int id = 0; id < V; id++) {
            f->logits[id] = (float)below(1000) / 100;
            want[id] = f->logits[id] - dry(&f->sampling, h, n, id);
        }
        for (int id = 1; id < V; id++)
            if (want[id] > want[best] + 1e-4f)
                best = id;
        const int32_t got = pick(f, n);
        assert_true(got == best ||
                    fabsf(want[got] - want[best]) < 1e-3f * fabsf(want[best]) + 1e-3f);
        for (int id = 0; id < V; id++) /* left as it was found */
            assert_int_equal(f->scratch.repeats[id], 0);
    }
    teardown(f);
}

/* "1 2 3 : 1 2 3": what comes next may be the breaker again. */
static void dry_spares_breakers(void **state)
{
    static const int32_t h[] = {1, 2, 3, 7, 1, 2, 3};
    struct fixture *f = setup();
    uint32_t breakers[V / 32] = {1u << 7};
    (void)state;

    f->sampling.dry_breakers = breakers;
    f->sampling.dry_multiplier = 0.8f;
    f->sampling.dry_base = 1.75f;
    f->sampling.dry_allowed_length = 2;
    f->sampling.dry_last_n = UINT32_MAX;
    f->sampling.temperature = 0;
    f->out.history = h;
    f->logits[7] = 5; /* 1.4 less if it were another token */
    f->logits[8] = 4.5f;
    assert_int_equal(pick(f, 7), 7);
    breakers[0] = 0;
    assert_int_equal(pick(f, 7), 8);
    teardown(f);
}

/* A run as long as there can be: the penalty grows no further, and is no infinity. */
static void dry_is_bounded(void **state)
{
    struct fixture *f = setup();
    uint32_t breakers[V / 32] = {0};
    int32_t h[200];
    (void)state;

    for (int i = 0; i < 200; i++)
        h[i] = 10;
    f->logits[10] = 100;
    f->logits[11] = -1e20f;
    f->out.history = h;
    f->sampling = (struct sampling){.top_p = 1,
                                    .repetition_penalty = 1,
                                    .n_top = -1,
                                    .dry_multiplier = 100,
                                    .dry_base = 100,
                                    .dry_allowed_length = 1,
                                    .dry_last_n = UINT32_MAX,
                                    .dry_breakers = breakers};
    assert_int_equal(pick(f, 200), 11);
    f->logits[11] = -INFINITY; /* and what is penalised is still better than what cannot be */
    assert_int_equal(pick(f, 200), 10);
    f->sampling.dry_last_n = 0;
    f->logits[11] = 50;
    assert_int_equal(pick(f, 200), 10);
    teardown(f);
}

static void the_second_number_is_another(void **state)
{
    double sum = 0;
    (void)state;

    for (uint32_t pos = 0; pos < 20000; pos++) {
        const double a = random_uniform(3, pos), b = random_uniform_second(3, pos);

        assert_true(b >= 0 && b < 1 && a != b);
        sum += (a - 0.5) * (b - 0.5);
    }
    assert_true(fabs(sum / 20000 * 12) < 0.04); /* uncorrelated; 4 standard deviations are 0.028 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(xtc_leaves_the_last_of_the_likely),
        cmocka_unit_test(typical_keeps_what_surprises_as_usual),
        cmocka_unit_test(cuts_follow_one_another),
        cmocka_unit_test(min_p_comes_behind_top_p),
        cmocka_unit_test(mirostat_steers),
        cmocka_unit_test(dry_is_its_formula),
        cmocka_unit_test(dry_spares_breakers),
        cmocka_unit_test(dry_is_bounded),
        cmocka_unit_test(the_second_number_is_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
