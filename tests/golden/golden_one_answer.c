/* tests/golden/golden_one_answer.c - promise P1: the same bits, whatever happens around a request.
 *
 * 24 requests (greedy and seeded sampling, prompts of 1 to 900 tokens) on a random-weight model
 * of 4 layers with GQA, whose matrices take turns at the packed weight types. Each is first run
 * alone; then all tokens, log-probabilities and alternatives must be equal, bit for bit: all at
 * once, with chunks of 1 to 512, with 1 to 4 threads, in a pool so small that sequences are
 * preempted, and on every instruction set that the machine has (by the definitions of the kernels,
 * which take a hundred times as long, two in three of the requests; so does all in an emulator).
 * Prompt scoring (echo) is
 * compared as well, and every fourth request is bound to a grammar with counts and recursion. With
 * keys and values in 8 bits, and values in 4, the answers are others, and as steady: some of it is
 * done again.
 */
#include "core/grammar/constraint.h"
#include "core/grammar/gbnf.h"
#include "core/grammar/token_trie.h"
#include "tests/fixtures/emulated.h"
#include "tests/fixtures/random.h"
#include "tests/golden/machine.h"

#define N_REQUESTS 24
#define N_SLOW 17    /* requests by the definitions: with one whose prompt has two segments */
#define SHORT_NEW 24 /* tokens of requests with long prompts */

/* ---- a constraint ---- */

static struct {
    char bytes[VOCAB][3];
    struct token_trie *trie;
    struct constraint *constraint;
} language;

/* Token b is the byte b, but for the end token; those beyond are pairs of what the grammar uses. */
static void make_language(void)
{
    static const char gbnf[] = "root ::= value (\",\" value){40,200}\n"
                               "value ::= \"[\" value? \"]\" | [a-z]{1,12} | \"\\\"\" [^\"]{0,6} "
                               "\"\\\"\"";
    static const char used[] = "[],\"abcxyz";
    static struct trie_text texts[VOCAB];
    struct grammar *g;
    char err[200] = "";
    size_t n = 0;

    for (int32_t id = 0; id < VOCAB; id++) {
        const uint32_t len = id < 256 ? 1 : 2;

        language.bytes[id][0] = id < 256 ? (char)id : used[id % 10];
        language.bytes[id][1] = used[id / 10 % 10];
        if (id != EOG)
            texts[n++] = (struct trie_text){language.bytes[id], len, id, false};
    }
    assert_int_equal(token_trie_create(&language.trie, texts, n, VOCAB), 0);
    assert_int_equal(grammar_from_gbnf(&g, gbnf, strlen(gbnf), NULL, err, sizeof(err)), 0);
    assert_int_equal(
        constraint_create(&language.constraint, g, language.trie, NULL, err, sizeof(err)), 0);
}

static bool is_constrained(uint32_t i)
{
    return i % 4 == 3;
}

static void constraint_cache(struct request *r)
{
    constraint_state_init(r->constraint, language.constraint);
    r->constraint_of = constraint_ref(language.constraint);
    r->drop_constraint = constraint_unref;
}

/* ---- the requests ---- */

static uint32_t most_tokens(uint32_t n_prompt)
{
    return n_prompt <= 64 ? MAX_NEW : SHORT_NEW;
}

static struct request *make_request(uint32_t i)
{
    static const uint32_t lengths[N_REQUESTS] = {1,   2,   15,  16,  17,  31,  33,  48,
                                                 64,  100, 128, 129, 5,   7,   255, 256,
                                                 257, 300, 400, 511, 513, 640, 777, 900};
    const struct request_size size = {.n_prompt = lengths[i], .max_tokens = most_tokens(lengths[i]),
                                      .penalties = i % 6 == 5,
                                      .constraint_bytes =
                                          is_constrained(i) ? constraint_state_bytes() : 0};
    uint64_t rng = 1000 + i;
    struct request *r;

    assert_int_equal(request_create(&r, &size), 0);
    r->id = i + 1;
    r->arrival_us = clock_us();
    for (uint32_t t = 0; t < lengths[i]; t++)
        r->ids[t] = (int32_t)random_below(&rng, VOCAB);
    r->priority = (enum priority)(i % PRIORITY_COUNT);
    r->sampling.n_top = N_TOP;
    r->sampling.seed = 77 + i;
    r->sampling.temperature = i % 3 == 0 ? 0.0f : 0.7f + 0.1f * (float)(i % 5);
    r->sampling.top_p = i % 4 == 1 ? 0.9f : 1.0f;
    r->sampling.top_k = i % 5 == 2 ? 40 : 0;
    r->sampling.min_p = i % 7 == 3 ? 0.05f : 0.0f;
    r->sampling.typical_p = i % 8 == 5 ? 0.8f : 1.0f;
    r->sampling.xtc_probability = i % 6 == 1 ? 0.5f : 0.0f;
    r->sampling.xtc_threshold = 0.01f;
    r->sampling.mirostat_tau = i % 9 == 4 ? 4.0f : 0.0f;
    r->sampling.mirostat_eta = 0.1f;
    r->mirostat_mu = 2 * r->sampling.mirostat_tau;
    r->sampling.dry_multiplier = i % 4 == 2 ? 1.0f : 0.0f;
    r->sampling.dry_base = 1.75f;
    r->sampling.dry_allowed_length = 1;
    r->sampling.dry_last_n = UINT32_MAX;
    r->sampling.repetition_penalty = i % 6 == 5 ? 1.2f : 1.0f;
    r->ignore_eos = i % 2 == 0;
    r->score_prompt = i % 8 == 2;
    if (is_constrained(i))
        constraint_cache(r);
    return r;
}

static uint32_t n_requests(void)
{
    return is_emulated() ? N_SLOW : N_REQUESTS;
}

/* Run the first n requests; returns how often a sequence was preempted. */
static uint64_t run_first(uint32_t n, const struct model *model, const struct setup *s,
                          struct response_writer *answers)
{
    struct engine_stats stats;
    struct machine m;

    memset(answers, 0, N_REQUESTS * sizeof(*answers));
    build_machine(&m, model, s, answers);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(queue_post(m.queue, make_request(i)), 0);
        if (s->alone)
            wait_for(&m, i + 1, UINT32_MAX);
        else if (s->two_waves && i == n / 2)
            wait_for(&m, i, 4);
    }
    wait_for(&m, n, UINT32_MAX);
    queue_get_stats(m.queue, &stats);
    tear_down(&m);
    return stats.preemptions_recompute + stats.preemptions_swap;
}

static uint64_t run_all(const struct model *model, const struct setup *s,
                        struct response_writer *answers)
{
    return run_first(n_requests(), model, s, answers);
}

static struct {
    struct model *model;
    enum kern_kv kv_type;
    struct response_writer want[N_REQUESTS], got[N_REQUESTS];
} shared;

static const struct setup usual = {.chunk = 512, .threads = 2, .n_blocks = 1200,
                                   .max_sequences = 24, .isa = KERN_ISA_SCALAR,
                                   .preemption = SCHED_RECOMPUTE};

static void compare_first(uint32_t n, const char *what)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct response_writer *a = &shared.want[i], *b = &shared.got[i];

        assert_int_equal(b->n_ends, 1);
        if (memcmp(a, b, sizeof(*a)) != 0)
            fail_msg("%s: request %u differs (%u and %u tokens, %u and %u scores)", what, i,
                     a->n_tokens, b->n_tokens, a->n_scores, b->n_scores);
    }
}

static void compare(const char *what)
{
    compare_first(n_requests(), what);
}

static struct setup best(void)
{
    struct setup s = usual;

    s.isa = kern_isa_best();
    s.kv_type = shared.kv_type;
    return s;
}

static void answers_are_not_trivial(void **state)
{
    uint32_t n_distinct = 0, n_stop = 0;
    (void)state;

    for (uint32_t i = 0; i < n_requests(); i++) {
        const struct response_writer *a = &shared.want[i];

        n_stop += a->finish == FINISH_STOP;
        assert_true(a->n_tokens > 0 && (a->finish == FINISH_STOP || a->n_tokens >= SHORT_NEW));
        for (uint32_t t = 1; t < a->n_tokens; t++)
            n_distinct += a->tokens[t] != a->tokens[t - 1];
        for (uint32_t t = 0; t < a->n_tokens; t++)
            assert_true(isfinite(a->logprobs[t]) && a->logprobs[t] <= 0);
    }
    printf("note: %u requests ended by the end token, %u token changes\n", n_stop, n_distinct);
    assert_true(n_distinct > 100);
}

static void constrained_answers_keep_to_the_grammar(void **state)
{
    struct constraint_state *s = mem_alloc(constraint_state_bytes());
    struct constraint_scratch *scratch;
    (void)state;

    assert_int_equal(constraint_scratch_create(&scratch), 0);
    for (uint32_t i = 0; i < n_requests(); i++) {
        const struct response_writer *a = &shared.want[i];

        if (!is_constrained(i))
            continue;
        constraint_state_init(s, language.constraint);
        assert_true(a->n_tokens >= SHORT_NEW); /* 41 values are not said sooner */
        for (uint32_t t = 0; t < a->n_tokens; t++)
            assert_int_not_equal(constraint_take(s, scratch, a->tokens[t]), CONSTRAINT_BROKEN);
    }
    constraint_scratch_destroy(&scratch);
    mem_free(s);
}

static void all_at_once(void **state)
{
    const struct setup s = best();
    (void)state;

    run_all(shared.model, &s, shared.got);
    compare("all at once");
}

static void run_chunk(uint32_t chunk)
{
    struct setup s = best();
    char what[32];

    s.chunk = chunk;
    snprintf(what, sizeof(what), "chunk %u", chunk);
    run_all(shared.model, &s, shared.got);
    compare(what);
}

static void any_chunk(void **state)
{
    static const uint32_t chunks[] = {1, 7, 16, 64, 512};
    (void)state;

    for (size_t i = 0; i < sizeof(chunks) / sizeof(chunks[0]); i++)
        run_chunk(chunks[i]);
}

static void odd_chunk(void **state)
{
    (void)state;
    run_chunk(7);
}

static void any_number_of_threads(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 3; n++) {
        struct setup s = best();
        char what[32];

        s.threads = n;
        snprintf(what, sizeof(what), "%u threads", n);
        run_all(shared.model, &s, shared.got);
        compare(what);
    }
}

/* More threads than KV heads: a sequence alone is split between segments. */
static void alone_on_many_threads(void **state)
{
    struct setup s = best();
    (void)state;

    s.alone = true;
    s.threads = 4;
    run_all(shared.model, &s, shared.got);
    compare("alone on 4 threads");
}

/* 59 blocks hold the longest request and hardly more. */
static void preempted(void **state)
{
    struct setup s = best();
    uint64_t n;
    (void)state;

    s.n_blocks = 59;
    s.two_waves = true;
    s.chunk = 100;
    n = run_all(shared.model, &s, shared.got);
    compare("preempted");
    printf("note: %u preemptions in the small pool\n", (unsigned)n);
    assert_true(n > 2);
}

static void any_instruction_set(void **state)
{
    (void)state;
    for (int isa = KERN_ISA_SCALAR; isa <= (int)kern_isa_best(); isa = next_level(isa)) {
        const uint32_t n = isa == KERN_ISA_SCALAR ? N_SLOW : n_requests();
        struct setup s = best();

        s.isa = (enum kern_isa)isa;
        run_first(n, shared.model, &s, shared.got);
        compare_first(n, kern_isa_name(s.isa));
        printf("note: isa %s gives the same bits\n", kern_isa_name(s.isa));
    }
}

/* The reference: everything alone, one thread, on the best instruction set. */
static int set_up(void **state)
{
    struct setup s = best();
    (void)state;

    s.alone = true;
    s.threads = 1;
    shared.model = build_model(0, NULL);
    make_language();
    run_all(shared.model, &s, shared.want);
    return 0;
}

static int prepare_q8(void **state)
{
    shared.kv_type = KERN_KV_Q8_0;
    return set_up(state);
}

static int prepare_q4(void **state)
{
    shared.kv_type = KERN_KV_Q4_0;
    return set_up(state);
}

static int prepare_f32(void **state)
{
    shared.kv_type = KERN_KV_F32;
    return set_up(state);
}

static int finish(void **state)
{
    (void)state;
    model_destroy(&shared.model);
    constraint_unref(&language.constraint);
    token_trie_destroy(&language.trie);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_not_trivial), cmocka_unit_test(all_at_once),
        cmocka_unit_test(any_chunk),               cmocka_unit_test(any_number_of_threads),
        cmocka_unit_test(alone_on_many_threads),   cmocka_unit_test(preempted),
        cmocka_unit_test(any_instruction_set),
        cmocka_unit_test(constrained_answers_keep_to_the_grammar),
    };

    const struct CMUnitTest tests_q8[] = {
        cmocka_unit_test(answers_are_not_trivial), cmocka_unit_test(all_at_once),
        cmocka_unit_test(odd_chunk),               cmocka_unit_test(alone_on_many_threads),
        cmocka_unit_test(preempted),               cmocka_unit_test(any_instruction_set),
        cmocka_unit_test(constrained_answers_keep_to_the_grammar),
    };
    const struct CMUnitTest tests_q4[] = {
        cmocka_unit_test(answers_are_not_trivial), cmocka_unit_test(all_at_once),
        cmocka_unit_test(odd_chunk),               cmocka_unit_test(preempted),
        cmocka_unit_test(any_instruction_set),
    };
    const struct CMUnitTest tests_f32[] = {
        cmocka_unit_test(answers_are_not_trivial), cmocka_unit_test(all_at_once),
        cmocka_unit_test(odd_chunk),               cmocka_unit_test(any_instruction_set),
    };
    int failed;

    if (is_emulated())
        printf("note: %d of %d requests, in an emulator\n", N_SLOW, N_REQUESTS);
    failed = cmocka_run_group_tests_name("f16", tests, set_up, finish) +
             cmocka_run_group_tests_name("q8_0", tests_q8, prepare_q8, finish);
    failed += cmocka_run_group_tests_name("f32", tests_f32, prepare_f32, finish);
    return failed + cmocka_run_group_tests_name("q4_0", tests_q4, prepare_q4, finish);
}
