/* tests/unit/runtime/test_sampler_chain.c - chains of stages, penalties in a window, and tokens
 * that may not come, against plain references in double precision. */
#include <math.h>
#include <string.h>

#include "core/runtime/random.h"
#include "tests/fixtures/random.h"
#include "tests/unit/runtime/sampled_row.h"

#define V 18 /* all shares fit into the alternatives of an answer */

static uint64_t rng = 7;

static uint32_t below(uint32_t n)
{
    return random_below(&rng, n);
}

static float between(float low, float high)
{
    return low + (high - low) * (float)below(10001) / 10000;
}

static struct fixture *setup(uint32_t n_vocab)
{
    const struct sampling plain = {.temperature = 1,
                                   .top_p = 1,
                                   .repetition_penalty = 1,
                                   .n_top = SAMPLING_MAX_TOP,
                                   .seed = 3,
                                   .wants_shares = true};

    return fixture_of(n_vocab, &plain);
}

/* ---- the reference: every token with a flag, and no order but that of a plain sort ---- */

struct token {
    int id;
    double logit, p;
};

struct row {
    struct token t[V];
    int n;
};

static void share(struct row *r)
{
    double sum = 0;

    for (int i = 0; i < r->n; i++)
        sum += exp(r->t[i].logit - r->t[0].logit);
    for (int i = 0; i < r->n; i++)
        r->t[i].p = exp(r->t[i].logit - r->t[0].logit) / sum;
}

static void read_row(struct row *r, const float *logits)
{
    r->n = 0;
    for (int id = 0; id < V; id++) {
        int at = r->n;

        if (isinf(logits[id]))
            continue;
        for (; at > 0 && r->t[at - 1].logit < (double)logits[id]; at--)
            r->t[at] = r->t[at - 1];
        r->t[at] = (struct token){id, (double)logits[id], 0};
        r->n++;
    }
    share(r);
}

/* A comparison that rounding may turn is none: the caller draws other numbers. */
static bool is_close(double a, double b)
{
    return fabs(a - b) < 1e-4 * (fabs(a) + fabs(b)) + 1e-7;
}

static int at_least(const struct sampling *s, int n, int all)
{
    const int most = (int)s->min_keep < all ? (int)s->min_keep : all;

    n = n > most ? n : most;
    return n > 0 ? n : 1;
}

static bool want_typical(struct row *r, const struct sampling *s)
{
    double entropy = 0, sum = 0, far[V];
    bool kept[V] = {false};
    int n = 0, left = 0;

    for (int i = 0; i < r->n; i++)
        entropy -= r->t[i].p * log(r->t[i].p);
    for (int i = 0; i < r->n; i++)
        far[i] = fabs(-log(r->t[i].p) - entropy);
    for (int i = 0; i < r->n; i++)
        for (int k = 0; k < i; k++)
            if (is_close(far[i], far[k]))
                return false;
    while (n < r->n && (n == 0 || n < (int)s->min_keep || sum < (double)s->typical_p)) {
        int best = -1;

        for (int i = 0; i < r->n; i++)
            if (!kept[i] && (best < 0 || far[i] < far[best]))
                best = i;
        kept[best] = true;
        sum += r->t[best].p;
        n++;
        if (is_close(sum, (double)s->typical_p))
            return false;
    }
    for (int i = 0; i < r->n; i++)
        if (kept[i])
            r->t[left++] = r->t[i];
    r->n = left;
    return true;
}

static bool want_top_p(struct row *r, const struct sampling *s)
{
    double sum = 0;
    int n = 0;

    for (int i = 0; i < r->n && sum < (double)s->top_p; i++, n++) {
        sum += r->t[i].p;
        if (is_close(sum, (double)s->top_p))
            return false;
    }
    r->n = at_least(s, n, r->n);
    return true;
}

static bool want_min_p(struct row *r, const struct sampling *s)
{
    int n = 0;

    for (int i = 0; i < r->n; i++) {
        n += r->t[i].p >= (double)s->min_p * r->t[0].p;
        if (is_close(r->t[i].p, (double)s->min_p * r->t[0].p))
            return false;
    }
    r->n = at_least(s, n, r->n);
    return true;
}

static bool want_top_n_sigma(struct row *r, const struct sampling *s)
{
    double mean = 0, variance = 0, least;
    int n = 0;

    for (int i = 0; i < r->n; i++)
        mean += r->t[i].logit / r->n;
    for (int i = 0; i < r->n; i++)
        variance += (r->t[i].logit - mean) * (r->t[i].logit - mean) / r->n;
    least = r->t[0].logit - (double)s->top_n_sigma * sqrt(variance);
    for (int i = 0; i < r->n; i++) {
        n += r->t[i].logit >= least;
        if (r->n > 1 && fabs(r->t[i].logit - least) < 1e-4)
            return false;
    }
    r->n = n > 0 ? n : 1;
    return true;
}

static bool want_xtc(struct row *r, const struct sampling *s, uint32_t pos)
{
    int likely = 0;

    if (random_uniform_second(s->seed, pos) >= (double)s->xtc_probability)
        return true;
    for (int i = 0; i < r->n; i++) {
        likely += r->t[i].p >= (double)s->xtc_threshold;
        if (is_close(r->t[i].p, (double)s->xtc_threshold))
            return false;
    }
    if (likely < 2 || r->n - (likely - 1) < (int)s->min_keep)
        return true;
    r->n -= likely - 1;
    memmove(r->t, r->t + likely - 1, (size_t)r->n * sizeof(r->t[0]));
    return true;
}

static bool want_temperature(struct row *r, const struct sampling *s)
{
    double t = (double)s->temperature, entropy = 0;

    if (s->dynatemp_range > 0.0f && r->n < 2)
        return true;
    if (s->dynatemp_range > 0.0f) {
        const double low = fmax(0, t - (double)s->dynatemp_range);

        for (int i = 0; i < r->n; i++)
            entropy -= r->t[i].p * log(r->t[i].p);
        t = low + (t + (double)s->dynatemp_range - low) *
                      pow(entropy / log(r->n), (double)s->dynatemp_exponent);
    }
    if (!(t >= 1e-3)) /* one token, or nearly: what is left of the others is rounding */
        return false;
    for (int i = 0; i < r->n; i++)
        r->t[i].logit /= t;
    return true;
}

static bool want(struct row *r, const struct sampling *s, uint32_t pos)
{
    bool is_certain = true;

    for (uint32_t i = 0; i < s->n_chain && is_certain; i++) {
        switch ((enum sampling_stage)s->chain[i]) {
        case STAGE_NONE:
            break;
        case STAGE_TOP_N_SIGMA:
            is_certain = want_top_n_sigma(r, s);
            break;
        case STAGE_TOP_K:
            r->n = r->n < s->top_k ? r->n : s->top_k;
            break;
        case STAGE_TYPICAL:
            is_certain = want_typical(r, s);
            break;
        case STAGE_TOP_P:
            is_certain = want_top_p(r, s);
            break;
        case STAGE_MIN_P:
            is_certain = want_min_p(r, s);
            break;
        case STAGE_XTC:
            is_certain = want_xtc(r, s, pos);
            break;
        case STAGE_TEMPERATURE:
            is_certain = want_temperature(r, s);
            break;
        }
        share(r);
    }
    return is_certain;
}

/* ---- chains ---- */

static void draw_chain(struct sampling *s)
{
    s->top_k = 1 + (int)below(V);
    s->top_p = between(0.05f, 1);
    s->min_p = between(0, 0.5f);
    s->typical_p = between(0.05f, 0.99f);
    s->xtc_probability = between(0, 1);
    s->xtc_threshold = between(0, 0.5f);
    s->top_n_sigma = between(0.1f, 3);
    s->temperature = between(0.3f, 2);
    s->dynatemp_range = below(2) ? between(0, 1) : 0;
    s->dynatemp_exponent = below(3) ? between(0, 3) : 0;
    s->min_keep = below(2) ? below(V + 3) : 0;
    s->n_chain = 1 + below(8);
    for (uint32_t i = 0; i < s->n_chain; i++)
        s->chain[i] = (uint8_t)below(STAGE_TEMPERATURE + 1);
}

static void chains_are_their_stages(void **state)
{
    struct fixture *f = setup(V);
    uint32_t n_certain = 0;
    (void)state;

    for (uint32_t pos = 0; pos < 30000; pos++) {
        struct row r;

        draw_chain(&f->sampling);
        for (int id = 0; id < V; id++)
            f->logits[id] = below(9) || id == 4 ? between(-8, 8) : -INFINITY;
        read_row(&r, f->logits);
        if (!want(&r, &f->sampling, pos))
            continue;
        n_certain++;
        f->out.pos = pos;
        sampler_pick(&f->kern, &f->scratch, f->logits, NULL, 0, &f->out);
        assert_int_equal(f->out.n_top, r.n);
        for (int i = 0; i < r.n; i++) {
            assert_true(fabs((double)f->out.top[i].logprob - r.t[i].p) < 2e-4);
            assert_true(f->out.top[i].id == r.t[i].id || is_close(r.t[i].p, f->out.top[i].logprob));
            if (f->out.top[i].id == f->out.token)
                assert_true(f->out.logprob == f->out.top[i].logprob);
        }
    }
    assert_true(n_certain > 20000);
    teardown(f);
}

/* What is drawn comes as often as its share says. */
static void draws_follow_the_shares(void **state)
{
    struct fixture *f = setup(V);
    uint32_t times[V] = {0};
    (void)state;

    for (int id = 0; id < V; id++)
        f->logits[id] = (float)id / 3;
    f->sampling.top_k = 5;
    f->sampling.temperature = 0.7f;
    f->sampling.n_chain = 2;
    f->sampling.chain[0] = STAGE_TOP_K;
    f->sampling.chain[1] = STAGE_TEMPERATURE;
    for (uint32_t pos = 0; pos < 20000; pos++) {
        f->out.pos = pos;
        sampler_pick(&f->kern, &f->scratch, f->logits, NULL, 0, &f->out);
        times[f->out.token]++;
    }
    assert_int_equal(f->out.n_top, 5);
    for (uint32_t i = 0; i < 5; i++) {
        const double p = (double)f->out.top[i].logprob;

        assert_true(fabs(times[f->out.top[i].id] - 20000 * p) < 5 * sqrt(20000 * p * (1 - p)));
    }
    teardown(f);
}

/* Before any cut shares are those of the whole vocabulary, though not all of it is looked at. */
static void shares_are_of_all(void **state)
{
    struct fixture *f = setup(MAX_VOCAB);
    (void)state;

    for (int id = 0; id < MAX_VOCAB; id++)
        f->logits[id] = id == 77 ? 3 : 0;
    f->sampling.temperature = 0.5f;
    f->sampling.n_chain = 1;
    f->sampling.chain[0] = STAGE_TEMPERATURE;
    sampler_pick(&f->kern, &f->scratch, f->logits, NULL, 0, &f->out);
    assert_int_equal(f->out.top[0].id, 77);
    assert_true(fabs((double)f->out.top[0].logprob - exp(6) / (exp(6) + MAX_VOCAB - 1)) < 1e-5);
    teardown(f);
}

/* Every stage looks at all tokens that are left, be they more than anyone cuts to. */
static void stages_look_at_all_tokens(void **state)
{
    static const uint8_t stages[] = {STAGE_TOP_P, STAGE_TOP_K, STAGE_MIN_P, STAGE_TYPICAL,
                                     STAGE_TOP_N_SIGMA};
    struct fixture *f = setup(MAX_VOCAB);
    (void)state;

    f->sampling.top_p = f->sampling.typical_p = 0.9f;
    f->sampling.top_k = 2700;
    f->sampling.top_n_sigma = 10;
    f->sampling.min_p = 0.5f;
    f->sampling.n_chain = 1;
    for (size_t i = 0; i < sizeof(stages); i++) {
        int32_t last = 0;

        f->sampling.chain[0] = stages[i];
        for (int id = 0; id < MAX_VOCAB; id++)
            f->logits[id] = id < 2700 ? 1 : 0;
        for (uint32_t pos = 0; pos < 3000; pos++) {
            f->out.pos = pos;
            sampler_pick(&f->kern, &f->scratch, f->logits, NULL, 0, &f->out);
            last = f->out.token > last ? f->out.token : last;
        }
        assert_in_range(last, 2400, MAX_VOCAB - 1);
        assert_true(fabs((double)f->out.top[0].logprob * 2700 - 1) < 0.15);
    }
    teardown(f);
}

/* The evenness of shares is their entropy over that of as many equal ones. */
static void dynamic_temperature_counts_all(void **state)
{
    struct fixture *f = setup(MAX_VOCAB);
    double z = 0, mean = 0, t, best = 0;
    (void)state;

    for (int id = 0; id < MAX_VOCAB; id++) {
        f->logits[id] = id == 0 ? 9 : 2;
        z += exp((double)f->logits[id] - 9);
        mean += exp((double)f->logits[id] - 9) * ((double)f->logits[id] - 9);
    }
    t = 1.5 * (log(z) - mean / z) / log(MAX_VOCAB);
    for (int id = 0; id < MAX_VOCAB; id++)
        best += exp(((double)f->logits[id] - 9) / t);
    f->sampling.temperature = f->sampling.dynatemp_range = 0.75f;
    f->sampling.dynatemp_exponent = 1;
    f->sampling.n_chain = 1;
    f->sampling.chain[0] = STAGE_TEMPERATURE;
    sampler_pick(&f->kern, &f->scratch, f->logits, NULL, 0, &f->out);
    assert_true(fabs((double)f->out.top[0].logprob - 1 / best) < 1e-5);
    teardown(f);
}

/* Greedy: the one token has it all; with a temperature below 0 the shares are the plain ones. */
static void greedy_shares(void **state)
{
    struct fixture *f = setup(V);
    double sum = 0;
    (void)state;

    for (int id = 0; id < V; id++) {
        f->logits[id] = (float)(id % 7) / 2;
        sum += exp((double)f->logits[id]);
    }
    f->sampling.temperature = 0;
    sampler_pick(&f->kern, &f->scratch, f->logits, NULL, 0, &f->out);
    assert_true(f->out.token == 6 && f->out.logprob == 1 && f->out.n_top == 1);
    f->sampling.temperature = -1;
    sampler_pick(&f->kern, &f->scratch, f->logits, NULL, 0, &f->out);
    assert_true(f->out.token == 6 && f->out.n_top == V && f->out.top[0].id == 6);
    assert_true(fabs((double)f->out.logprob - exp(3) / sum) < 1e-6);
    f->sampling.temperature = 0; /* but not with a range around it */
    f->sampling.dynatemp_range = 1;
    f->sampling.dynatemp_exponent = 0;
    f->sampling.n_chain = 1;
    f->sampling.chain[0] = STAGE_TEMPERATURE;
    sampler_pick(&f->kern, &f->scratch, f->logits, NULL, 0, &f->out);
    assert_true(fabs((double)f->out.top[0].logprob - exp(3) / sum) < 1e-5);
    teardown(f);
}

/* ---- changes ---- */

static void penalties_look_at_a_window(void **state)
{
    struct fixture *f = setup(V);
    int32_t h[200];
    (void)state;

    f->out.history = h;
    f->sampling.temperature = 0;
    for (int round = 0; round < 3000; round++) {
        const uint32_t pos = below(200);
        const uint32_t n = round % 3 == 0 ? UINT32_MAX : 1 + below(60);
        float wanted[V];
        int best = 0;

        f->sampling.penalty_last_n = n;
        f->sampling.repetition_penalty = between(0.5f, 2);
        f->sampling.frequency_penalty = between(-2, 2);
        f->sampling.presence_penalty = between(-2, 2);
        for (uint32_t i = 0; i < pos; i++)
            h[i] = (int32_t)below(V);
        for (int id = 0; id < V; id++) {
            uint32_t count = 0;

            f->logits[id] = wanted[id] = between(-5, 5);
            for (uint32_t i = 0; i < pos; i++)
                count += h[i] == id && pos - i <= n;
            if (count == 0)
                continue;
            wanted[id] *= wanted[id] > 0 ? 1 / f->sampling.repetition_penalty
                                         : f->sampling.repetition_penalty;
            wanted[id] -= f->sampling.frequency_penalty * (float)count +
                          f->sampling.presence_penalty;
        }
        for (int id = 1; id < V; id++)
            if (wanted[id] > wanted[best])
                best = id;
        f->out.pos = pos;
        sampler_pick(&f->kern, &f->scratch, f->logits, NULL, 0, &f->out);
        assert_true(f->out.token == best ||
                    fabsf(wanted[f->out.token] - wanted[best]) < 1e-4f);
        for (int id = 0; id < V; id++) /* left as it was found */
            assert_int_equal(f->scratch.repeats[id], 0);
    }
    teardown(f);
}

static int32_t pick_behind(struct fixture *f, const int32_t *history, uint32_t pos)
{
    f->out.history = history;
    f->out.pos = pos;
    sampler_pick(&f->kern, &f->scratch, f->logits, NULL, 0, &f->out);
    return f->out.token;
}

static void bad_words_do_not_end(void **state)
{
    static const int32_t words[] = {1, 17, 3, 1, 2, 16, 2, 15, 15, 0};
    static const int32_t h[] = {5, 1, 2, 15};
    struct fixture *f = setup(V);
    (void)state;

    for (int id = 0; id < V; id++)
        f->logits[id] = (float)id;
    f->sampling.temperature = 0;
    assert_int_equal(pick_behind(f, h, 0), 17);
    f->sampling.bad_words = words;
    assert_int_equal(pick_behind(f, h, 0), 16); /* 17 is never right */
    assert_int_equal(pick_behind(f, h, 1), 16);
    assert_int_equal(pick_behind(f, h, 3), 15); /* behind 1, 2 no 16 */
    f->logits[16] = -1;
    assert_int_equal(pick_behind(f, h, 3), 15);
    assert_int_equal(pick_behind(f, h, 4), 14); /* behind 15 no 15 */
    teardown(f);
}

static void only_what_is_allowed(void **state)
{
    static const uint32_t allowed[] = {1u << 3 | 1u << 7};
    struct fixture *f = setup(V);
    (void)state;

    for (int id = 0; id < V; id++)
        f->logits[id] = (float)id;
    f->sampling.allowed = allowed;
    for (uint32_t pos = 0; pos < 500; pos++) {
        const int32_t id = pick_behind(f, NULL, pos);

        assert_true(id == 3 || id == 7);
    }
    f->sampling.temperature = 0;
    assert_int_equal(pick_behind(f, NULL, 0), 7);
    teardown(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_are_their_stages),
        cmocka_unit_test(draws_follow_the_shares),
        cmocka_unit_test(shares_are_of_all),
        cmocka_unit_test(stages_look_at_all_tokens),
        cmocka_unit_test(dynamic_temperature_counts_all),
        cmocka_unit_test(greedy_shares),
        cmocka_unit_test(penalties_look_at_a_window),
        cmocka_unit_test(bad_words_do_not_end),
        cmocka_unit_test(only_what_is_allowed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
