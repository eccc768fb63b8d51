/* tests/golden/golden_recurrent.c - layers that keep a state: the same bits however a sequence is
 * computed.
 *
 * Prompts around and far over the chunk, alone and together, on one thread and on several, on each
 * instruction set; and prompts that begin as an earlier one does, for every number of tokens up to
 * 700: they go on from the last snapshot before the two part. P1.
 */
#include "tests/fixtures/emulated.h"
#include "tests/fixtures/random.h"
#include "tests/golden/machine.h"

#define N_REQUESTS 6
#define N_TOKENS 12
#define LONGEST 700 /* tokens in common */
#define ROUND 8     /* prompts that are taken up at once */

static const uint32_t lengths[N_REQUESTS] = {1, 2, 65, 255, 257, 900};

static struct model *model;
static struct response_writer want[N_REQUESTS], got[N_REQUESTS];

static struct request *make_request(uint64_t id, const int32_t *ids, uint32_t n, uint32_t n_tokens)
{
    const struct request_size size = {.n_prompt = n, .max_tokens = n_tokens};
    struct request *r;

    assert_int_equal(request_create(&r, &size), 0);
    r->id = id;
    r->arrival_us = clock_us();
    memcpy(r->ids, ids, n * sizeof(*ids));
    r->ignore_eos = true;
    r->sampling.n_top = N_TOP;
    return r;
}

static void make_ids(int32_t *ids, uint32_t n, uint64_t seed)
{
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (int32_t)random_below(&seed, VOCAB);
}

static struct setup whole(void)
{
    return (struct setup){.chunk = MAX_ROWS, .threads = 2, .n_blocks = 400, .max_sequences = 8,
                          .isa = kern_isa_best(), .alone = true};
}

static void run(const struct setup *s, struct response_writer *answers)
{
    int32_t ids[CONTEXT];
    struct machine m;

    memset(answers, 0, N_REQUESTS * sizeof(*answers));
    build_machine(&m, model, s, answers);
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        make_ids(ids, lengths[i], 7 + i);
        assert_int_equal(queue_post(m.queue, make_request(i + 1, ids, lengths[i], N_TOKENS)), 0);
        if (s->alone)
            wait_for(&m, i + 1, UINT32_MAX);
    }
    wait_for(&m, N_REQUESTS, UINT32_MAX);
    tear_down(&m);
}

/* A machine of this setup gives what one gave that computed each prompt alone and in one piece. */
static void expect_same(const struct setup *s, const char *what)
{
    run(s, got);
    for (uint32_t i = 0; i < N_REQUESTS; i++)
        if (got[i].n_tokens != N_TOKENS ||
            memcmp(got[i].tokens, want[i].tokens, sizeof(got[i].tokens)) != 0 ||
            memcmp(got[i].logprobs, want[i].logprobs, sizeof(got[i].logprobs)) != 0 ||
            memcmp(got[i].top, want[i].top, sizeof(got[i].top)) != 0)
            fail_msg("%s: the prompt of %u tokens differs", what, lengths[i]);
}

static void any_chunk(void **state)
{
    static const uint32_t chunks[] = {1, 7, 16, 64, 255};
    struct setup s = whole();
    (void)state;

    for (size_t i = 0; i < sizeof(chunks) / sizeof(*chunks); i++) {
        s.chunk = chunks[i];
        s.alone = i % 2 == 0;
        expect_same(&s, "chunks");
    }
}

static void any_number_of_threads(void **state)
{
    struct setup s = whole();
    (void)state;

    for (uint32_t n = 1; n <= 5; n += 2) {
        s.threads = n;
        s.alone = n == 1;
        expect_same(&s, "threads");
    }
}

static void any_instruction_set(void **state)
{
    struct setup s = whole();
    (void)state;

    s.chunk = 100;
    for (int isa = KERN_ISA_SCALAR; isa <= (int)kern_isa_best(); isa = next_level(isa)) {
        s.isa = (enum kern_isa)isa;
        expect_same(&s, kern_isa_name(s.isa));
    }
}

/* ---- taken up at a snapshot ---- */

/* The first n tokens are those of one text, the others are the prompt's own. */
static struct request *make_split(uint64_t id, uint32_t n)
{
    int32_t ids[LONGEST + 3];

    make_ids(ids, LONGEST, 1);
    make_ids(ids + n, 3, 1000 + n);
    return make_request(id, ids, n + 3, 2);
}

/* ROUND prompts that part from the text after n, n + 1, .. tokens. */
static void run_splits(struct machine *m, uint32_t n, uint64_t first)
{
    for (uint32_t i = 0; i < ROUND; i++)
        assert_int_equal(queue_post(m->queue, make_split(first + i, n + i)), 0);
    wait_for(m, (uint32_t)first - 1 + ROUND, UINT32_MAX);
}

static uint32_t n_splits(void)
{
    return is_emulated() ? LONGEST / 4 : LONGEST;
}

/* The text first, so that its snapshots are there; then prompts that begin like it. */
static void any_split(void **state)
{
    static struct response_writer plain[LONGEST + ROUND], resumed[1 + LONGEST + ROUND];
    struct setup s = whole();
    struct machine a, b;
    int32_t ids[LONGEST];
    (void)state;

    s.alone = false;
    s.chunk = 1000;
    build_machine(&a, model, &s, plain);
    s.prefix_cache = true;
    s.state_interval = 4;
    s.n_blocks = 4000;
    s.max_sequences = 56; /* and so many slots that all snapshots of the text stay */
    build_machine(&b, model, &s, resumed);
    make_ids(ids, LONGEST, 1);
    assert_int_equal(queue_post(b.queue, make_request(1, ids, LONGEST, 2)), 0);
    wait_for(&b, 1, UINT32_MAX);
    for (uint32_t n = 0; n + ROUND <= n_splits(); n += ROUND) {
        run_splits(&a, n, n + 1);
        run_splits(&b, n, n + 2);
        for (uint32_t i = n; i < n + ROUND; i++) {
            assert_int_equal(resumed[1 + i].n_cached, i / 64 * 64);
            resumed[1 + i].n_cached = 0;
            assert_memory_equal(&resumed[1 + i], &plain[i], sizeof(plain[i]));
        }
    }
    tear_down(&a);
    tear_down(&b);
}

static int set_up(void **state)
{
    struct setup s = whole();
    (void)state;

    model = build_hybrid();
    assert_true(runner_state_bytes(model) > 0);
    run(&s, want);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    model_destroy(&model);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_chunk),
        cmocka_unit_test(any_number_of_threads),
        cmocka_unit_test(any_instruction_set),
        cmocka_unit_test(any_split),
    };

    if (is_emulated())
        printf("note: splits of a quarter of the text, in an emulator\n");
    return cmocka_run_group_tests(tests, set_up, finish);
}
