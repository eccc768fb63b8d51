/* tests/unit/scheduler/test_replay.c - journals that are replayed: whole ones, edited ones, broken
 * ones.
 *
 * The journals come from simulated load, which makes the calls that the loop makes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "scheduler/journal.h"
#include "scheduler/replay/replay.h"
#include "scheduler/replay/simulate.h"
#include "server/cli/replay_line.h"
#include "tests/fixtures/random.h"

#define MAX_TEXT ((size_t)32 << 20)

static uint64_t rng;

static uint32_t rnd(uint32_t n)
{
    return random_below(&rng, n);
}

/* A pool that is too small for what runs, so that everything happens: preemption both ways,
 * transfers, shared prefixes, deadlines, clients that leave. */
static struct simulate_options crowded(enum sched_policy policy)
{
    struct simulate_options o = {.target_us = 100000, .noise_percent = 10, .seed = 5};

    sched_options_default(&o.sched);
    o.sched.policy = policy;
    o.sched.max_sequences = 12;
    o.sched.max_requests = 400;
    o.sched.max_context = 512;
    o.sched.max_tenants = 3;
    o.sched.max_batch_tokens = 128;
    o.sched.prefill_chunk = 96;
    o.kv = (struct kv_manager_options){.n_blocks = 40, .prefix_cache = true, .n_ram = 24,
        .n_file = 60, .max_sequences = 64, .max_table = 32, .low_percent = 30,
        .critical_percent = 10};
    if (policy == SCHED_SJF) { /* and layers of which some have a window, and pins */
        o.kv.groups = (struct kv_groups){.n = 3, .n_window = 2, .window = 40};
        o.kv.max_chunk = 96;
        o.kv.n_blocks = 100;
        o.kv.pins =
            (struct kv_pin_options){.most_blocks = 20, .tenant_blocks = 12, .n_tenants = 3};
    }
    if (policy == SCHED_ADAPTIVE) /* and recurrent states */
        o.kv.states = (struct kv_state_options){.n_slots = 16, .interval = 2, .n_parts = 2};
    o.truth = (struct step_costs){.is_known = true, .step_ns = 15000000, .prefill_ns = 1400000,
        .decode_ns = 2000000, .kv_decode_ps = 1000, .kv_prefill_ps = 400, .swap_ns = 50000,
        .file_ns = 500000};
    return o;
}

static struct simulate_arrival some_arrival(uint64_t *t, uint32_t i)
{
    static struct simulate_arrival last;
    struct simulate_arrival a = {
        .at_us = *t += rnd(300000),
        .n_prompt = 1 + rnd(100),
        .max_tokens = rnd(80),
        .seed = i,
        .shared_seed = rnd(4),
        .n_shared = rnd(2) * 40,
        .priority = (enum priority)rnd(PRIORITY_COUNT),
        .tenant = rnd(3),
        .weight = 1 + rnd(3),
        .salt = (uint64_t)rnd(2) << 63 | 12345,
        .score_prompt = rnd(10) == 0,
        .rows_from = rnd(2) * rnd(100),
    };

    if (i % 3 == 0) {
        a.pins[a.n_pins++] = (struct request_pin){(a.n_prompt + 1) / 2, 2000000};
        a.pins[a.n_pins++] = (struct request_pin){a.n_prompt, 900000};
    }

    if (rnd(8) == 0 && i > 0) { /* the same question again, as of a request with n = 2 */
        const uint64_t at = last.at_us;

        a = last;
        a.prefix_owner = i;
        a.at_us = *t = at + rnd(20000);
    }
    if (a.max_tokens > 60 && rnd(2) == 0) { /* its context is shifted, perhaps often */
        a.max_known = a.n_prompt + 2 + rnd(30);
        a.n_keep = rnd(a.max_known - 1);
        a.n_discard = 1 + rnd(a.max_known - 1 - a.n_keep);
    }
    last = a;
    a.n_output = rnd(a.max_tokens + 1);
    if (rnd(10) == 0)
        a.deadline_us = a.at_us + rnd(3000000);
    if (rnd(10) == 0)
        a.first_by_us = a.at_us + rnd(3000000);
    if (rnd(10) == 0)
        a.queue_until_us = a.at_us + rnd(500000);
    if (rnd(10) == 0)
        a.leave_us = a.at_us + rnd(3000000);
    return a;
}

/* The journal of n requests, as text; the caller frees it. */
static char *record(struct simulate_options o, uint32_t n, struct simulate_summary *summary)
{
    char *text = malloc(MAX_TEXT);
    uint64_t t = 1000000;
    struct simulate *s;
    struct engine_stats stats;

    assert_non_null(text);
    rng = n;
    assert_int_equal(journal_create(&o.journal, MAX_TEXT), 0);
    assert_int_equal(simulate_create(&s, &o), 0);
    for (uint32_t i = 0; i < n; i++) {
        const struct simulate_arrival a = some_arrival(&t, i);

        assert_true(simulate_add(s, &a) >= 0);
    }
    assert_int_equal(simulate_run(s, UINT64_MAX), 0);
    assert_int_equal(simulate_summarise(s, summary), 0);
    simulate_stats(s, &stats);
    if (n >= 300)
        assert_true(stats.context_shifts > 10);
    if (n >= 300 && o.sched.policy >= SCHED_PRIORITY)
        assert_true(stats.preemptions_swap > 10 && stats.swap.blocks_in[1] > 0);
    text[journal_take(o.journal, text, MAX_TEXT - 1)] = '\0';
    assert_int_equal(journal_n_dropped(o.journal), 0);
    simulate_destroy(&s);
    journal_destroy(&o.journal);
    return text;
}

/* Replays the text; returns the code, and the number of the line that it stopped at. */
static int replay(struct replay *r, const char *text, uint32_t *line, char *err, size_t err_len)
{
    int rc = 0;

    *line = 0;
    while (rc == 0 && *text != '\0') {
        const char *end = strchrnul(text, '\n');
        struct replay_record rec;

        ++*line;
        rc = replay_line_parse(&rec, text, (size_t)(end - text), err, err_len);
        if (rc == 0)
            rc = replay_take(r, &rec, err, err_len);
        replay_record_release(&rec);
        text = *end == '\n' ? end + 1 : end;
    }
    return rc;
}

/* S2.18, P1 of the scheduler: the same calls give the same plans. */
static void runs_replay_equal(void **state)
{
    (void)state;
    for (enum sched_policy policy = SCHED_FCFS; policy <= SCHED_ADAPTIVE; policy++) {
        struct simulate_summary summary;
        char *text = record(crowded(policy), 400, &summary), err[256] = "";
        struct replay *r;
        uint32_t line;

        assert_int_equal(replay_create(&r, true), 0);
        assert_int_equal(replay(r, text, &line, err, sizeof(err)), 0);
        assert_int_equal(replay_stats(r).n_posts, 400);
        assert_int_equal(replay_stats(r).n_ends, 400);
        assert_true(replay_stats(r).n_plans > 400);
        replay_destroy(&r);
        free(text);
    }
}

/* Two runs in one file, as after a restart: each begins afresh. */
static void a_file_may_hold_several_runs(void **state)
{
    struct simulate_summary summary;
    char *text = record(crowded(SCHED_PRIORITY), 50, &summary), err[256];
    const size_t n = strlen(text);
    struct replay *r;
    uint32_t line;
    (void)state;

    memcpy(text + n, text, n);
    text[2 * n] = '\0';
    assert_int_equal(replay_create(&r, false), 0);
    assert_int_equal(replay(r, text, &line, err, sizeof(err)), 0);
    assert_int_equal(replay_stats(r).n_runs, 2);
    assert_int_equal(replay_stats(r).n_posts, 100);
    replay_destroy(&r);
    free(text);
}

/* Simulated again with its own settings, the collected trace gives what it gave. */
static void trace_is_collected(void **state)
{
    struct simulate_options o = crowded(SCHED_PRIORITY), again;
    struct simulate_summary first, second;
    const struct simulate_arrival *arrivals;
    struct simulate *s;
    struct replay *r;
    char *text, err[256];
    uint32_t line;
    size_t n;
    (void)state;

    o.noise_percent = 0;
    text = record(o, 300, &first);
    assert_int_equal(replay_create(&r, true), 0);
    assert_int_equal(replay(r, text, &line, err, sizeof(err)), 0);
    assert_true(replay_trace(r, &again, &arrivals, &n));
    assert_int_equal(n, 300);
    assert_int_equal(simulate_create(&s, &again), 0);
    for (size_t i = 0; i < n; i++)
        assert_true(simulate_add(s, &arrivals[i]) >= 0);
    assert_int_equal(simulate_run(s, UINT64_MAX), 0);
    assert_int_equal(simulate_summarise(s, &second), 0);
    assert_int_equal(second.n_ended, 300);
    assert_in_range(second.finish_us, first.finish_us * 97 / 100, first.finish_us * 103 / 100);
    assert_in_range(second.ttft_p50_us, first.ttft_p50_us * 8 / 10, first.ttft_p50_us * 12 / 10);
    simulate_destroy(&s);
    replay_destroy(&r);
    free(text);
}

/* Replace the n-th `from`; there is plenty of room behind the text. */
static void edit(char *text, uint32_t n, const char *from, const char *to)
{
    char *at = strstr(text, from);

    for (; n > 1 && at != NULL; n--)
        at = strstr(at + 1, from);
    assert_non_null(at);
    memmove(at + strlen(to), at + strlen(from), strlen(at + strlen(from)) + 1);
    memcpy(at, to, strlen(to));
}

static void expect(char *text, int rc, const char *says)
{
    char err[256] = "";
    struct replay *r;
    uint32_t line;

    assert_int_equal(replay_create(&r, false), 0);
    assert_int_equal(replay(r, text, &line, err, sizeof(err)), rc);
    if (strstr(err, says) == NULL)
        fail_msg("'%s' does not say '%s'", err, says);
    replay_destroy(&r);
    free(text);
}

static char *small_journal(void)
{
    struct simulate_summary summary;

    return record(crowded(SCHED_PRIORITY), 20, &summary);
}

static void the_first_difference_is_told(void **state)
{
    char *text = small_journal();
    (void)state;

    edit(text, 1, "\"policy\":2", "\"policy\":1");
    expect(text, ERR_INVAL, "the replay"); /* another policy makes other plans */
    text = small_journal();
    edit(text, 1, ",1]],\"admitted\"", ",0]],\"admitted\"");
    expect(text, ERR_INVAL, "item 0: the journal has");
    text = small_journal();
    edit(text, 1, "\"admitted\":[1]", "\"admitted\":[2]");
    expect(text, ERR_INVAL, "the journal admits request 2, the replay request 1");
    text = small_journal();
    edit(text, 1, "\"preempted\":[]", "\"preempted\":[ ");
    expect(text, ERR_FORMAT, "the line is not a JSON object");
    text = small_journal();
    edit(text, 1, "\"moves\":0", "\"moves\":1");
    expect(text, ERR_INVAL, "the journal has 1 moves, the replay 0");
    text = small_journal();
    edit(text, 1, "{\"plan\":0", "{\"plan\":5");
    expect(text, ERR_INVAL, "the journal has step 5, the replay step 0");
    text = small_journal();
    edit(text, 1, "{\"plan\":0", "{\"fetch\":1,\"first\":0,\"n\":2}\n{\"plan\":0");
    expect(text, ERR_INVAL, "asks the store for request 1, the replay does not");
}

static void what_makes_no_sense_is_told(void **state)
{
    static const char head[] =
        "{\"start\":1,\"sched\":{\"policy\":2,\"preemption\":0,\"aging_milli\":100,"
        "\"max_wait_ms\":30000,\"max_preemptions\":3,\"max_tenants\":1,\"max_sequences\":4,"
        "\"max_requests\":64,\"max_context\":512,\"max_batch_tokens\":96,\"prefill_chunk\":80,"
        "\"whole_prompts\":0},"
        "\"kv\":{\"n_blocks\":99,\"placement\":0,\"prefix_cache\":1,\"n_ram\":10,\"n_file\":20,"
        "\"max_sequences\":7,\"max_table\":33,\"lanes\":3,\"window_lanes\":2,"
        "\"window\":40,\"state_slots\":6,\"state_interval\":16,\"state_parts\":3,"
        "\"state_alone\":0,\"max_chunk\":64,\"low_percent\":25,\"critical_percent\":10},"
        "\"eog\":[7]}\n";
    static const char post[] = "{\"post\":1,\"now\":50,\"arrival\":40,\"priority\":1,"
                               "\"weight\":1,\"salt\":\"a\",\"max_tokens\":2,\"prompt\":[5]}\n";
    static const struct {
        const char *lines, *says;
    } cases[] = {
        {"{\"moves_done\":1}", "does not begin with a start"},
        {"{\"start\":2}", "another version"},
        {"HEAD{\"dropped\":3}", "3 lines are missing here"},
        {"HEAD{\"commit\":0,\"now\":5,\"tokens\":[]}", "committed without a plan"},
        {"HEAD{\"io_done\":2,\"rc\":0}", "no transfer of copy 2"},
        {"HEAD{\"io_done\":2,\"rc\":1}", "\"rc\" is above 0"},
        {"HEADPOSTPOST", "posted twice"},
        {"HEADPOST{\"cancel\":1,\"why\":3,\"now\":49}", "time goes backwards"},
        {"HEADPOST{\"cancel\":1,\"why\":0,\"now\":51}", "is not a finish reason"},
        {"HEAD{\"post\":1,\"now\":50,\"arrival\":51,\"priority\":1,\"weight\":1,\"salt\":\"a\","
         "\"tenant\":1,\"prompt\":[5]}",
         "tenant 1 is not below 1"},
        {"HEADPOST{\"post\":2,\"now\":50,\"arrival\":50,\"leader\":1,\"priority\":1,\"weight\":1,"
         "\"salt\":\"a\",\"prompt\":[6]}",
         "another prompt than its prefix owner"},
        {"HEAD{\"post\":1,\"now\":50,\"arrival\":50,\"priority\":1,\"weight\":1,\"salt\":\"x\","
         "\"prompt\":[5]}",
         "\"salt\" is not a hexadecimal number"},
        {"HEAD{\"post\":1,\"now\":50,\"arrival\":50,\"priority\":4,\"weight\":1,\"salt\":\"0\","
         "\"prompt\":[5]}",
         "\"priority\" is not a whole number from 0 to 3"},
        {"HEAD{\"post\":1,\"now\":50,\"prompt\":[5]}", "\"arrival\" is missing"},
        {"HEAD{\"post\":1,\"now\":50,\"arrival\":50,\"prompt\":[]}", "\"prompt\" is empty"},
        {"HEAD{\"post\":1,\"now\":50,\"prompt\":[1.5]}", "not a token"},
        {"HEAD{\"post\":1.5,\"now\":50}", "\"post\" is not a whole number"},
        {"HEAD{\"plan\":0,\"now\":50,\"items\":[],\"target\":0,\"costs\":[1]}", "8 or 10 numbers"},
        {"HEAD{\"post\":1,\"now\":50,\"arrival\":50,\"priority\":1,\"weight\":1,\"salt\":\"0\","
         "\"pins\":[[2,5]],\"prompt\":[5]}",
         "\"pins\" is not a whole number from 0 to 1"},
        {"HEAD{\"post\":1,\"now\":50,\"arrival\":50,\"priority\":1,\"weight\":1,\"salt\":\"0\","
         "\"pins\":[[2,5],[1,5]],\"prompt\":[5,6]}",
         "\"pins\" is not in ascending order"},
        {"HEAD{\"post\":1,\"now\":50,\"arrival\":50,\"priority\":1,\"weight\":1,\"salt\":\"0\","
         "\"pins\":[[1]],\"prompt\":[5]}",
         "\"pins\" contains an element that is not a list of 2 numbers"},
        {"HEADPOST{\"stored\":1}", "\"n\" is missing"},
        {"HEADPOST{\"fetched\":1,\"first\":0,\"n\":2,\"last\":2}", "\"last\" is not"},
        {"HEAD{\"plan\":0,\"now\":50}", "\"items\" is not a list"},
        {"HEAD{\"commit\":0", "not a JSON object"},
        {"HEAD[1,2]", "not a line of a journal"},
        {"HEAD{\"something\":1}", "not a line of a journal"},
        {"HEAD{}", "not a line of a journal"},
        {"HEAD\n", "not a JSON object"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *text = malloc(4096);
        const char *from = cases[i].lines;

        assert_non_null(text);
        text[0] = '\0';
        for (; strncmp(from, "HEAD", 4) == 0 || strncmp(from, "POST", 4) == 0; from += 4)
            strncat(text, *from == 'H' ? head : post, 2000);
        strncat(text, from, 2000);
        expect(text, ERR_FORMAT, cases[i].says);
    }
}

/* Options that would take all memory, or that the scheduler does not believe in. */
static void absurd_options_are_refused(void **state)
{
    static const struct {
        const char *from, *to;
    } edits[] = {
        {"\"max_sequences\":12", "\"max_sequences\":0"},
        {"\"max_sequences\":12", "\"max_sequences\":99"}, /* more than the rows of a step */
        {"\"max_batch_tokens\":128", "\"max_batch_tokens\":8"},
        {"\"n_blocks\":40", "\"n_blocks\":0"},
        {"\"n_blocks\":40,\"placement\":0", "\"n_blocks\":4000000000,\"placement\":0"},
        {"\"n_ram\":24", "\"n_ram\":0"},
        {"\"max_table\":32", "\"max_table\":31"},
        {"\"lanes\":1", "\"lanes\":0"},
        {"\"lanes\":1", "\"lanes\":9999"},
        {"\"window_lanes\":0", "\"window_lanes\":1"}, /* of no tokens */
        {"\"window_lanes\":0,\"window\":0", "\"window_lanes\":2,\"window\":9"},
        {"\"low_percent\":30,", "\"low_percent\":300"},
        {"\"prefill_chunk\":96", "\"prefill_chunk\":0"},
        {"\"critical_percent\":10", "\"critical_percent\":10,\"pin_most\":40,"
                                    "\"pin_tenant\":1,\"pin_tenants\":3"}, /* all blocks */
        {"\"critical_percent\":10", "\"critical_percent\":10,\"pin_most\":9,"
                                    "\"pin_tenant\":10,\"pin_tenants\":3"},
        {"\"critical_percent\":10", "\"critical_percent\":10,\"pin_most\":9,"
                                    "\"pin_tenant\":9,\"pin_tenants\":2"}, /* of 3 tenants */
    };
    (void)state;

    for (size_t i = 0; i < sizeof(edits) / sizeof(edits[0]); i++) {
        char *text = small_journal(), err[256] = "";
        struct replay *r;
        uint32_t line;

        edit(text, 1, edits[i].from, edits[i].to);
        if (i == 1)
            edit(text, 1, "\"max_batch_tokens\":128", "\"max_batch_tokens\":98");
        assert_int_equal(replay_create(&r, false), 0);
        assert_int_equal(replay(r, text, &line, err, sizeof(err)), ERR_FORMAT);
        assert_int_equal(line, 1);
        replay_destroy(&r);
        free(text);
    }
}

/* Bytes changed anywhere, lines lost, doubled and exchanged: a sentence or an equal run, never a
 * crash (the sanitizer build looks on). */
static void damaged_journals_are_survived(void **state)
{
    struct simulate_summary summary;
    char *whole = record(crowded(SCHED_ADAPTIVE), 60, &summary);
    const size_t n = strlen(whole);
    uint32_t n_failed = 0;
    (void)state;

    rng = 99;
    for (int i = 0; i < 300; i++) {
        char *text = malloc(n + 1), err[256] = "";
        struct replay *r;
        uint32_t line;
        size_t at = rnd((uint32_t)n);

        memcpy(text, whole, n + 1);
        if (i % 3 == 0) {
            text[at] = (char)(' ' + rnd(95));
        } else if (i % 3 == 1) {
            for (at = 0; rnd(12) != 0 || text[at] < '0' || text[at] > '9';)
                at = rnd((uint32_t)n);
            text[at] = (char)('0' + rnd(10));
        } else { /* a line lost */
            char *from = strchr(text + at % (n * 9 / 10), '\n') + 1, *to = strchr(from, '\n') + 1;

            memmove(from, to, strlen(to) + 1);
        }
        assert_int_equal(replay_create(&r, true), 0);
        n_failed += replay(r, text, &line, err, sizeof(err)) < 0;
        replay_destroy(&r);
        free(text);
    }
    assert_true(n_failed > 150);
    free(whole);
}

/* Every allocation fails once: a sentence, nothing lost (the sanitizer build counts). */
static void running_out_of_memory_is_told(void **state)
{
    char *text = small_journal();
    int rc = ERR_NOMEM;
    (void)state;

    for (int64_t n = 0; rc != 0; n += n < 300 ? 1 : 97) {
        char err[256] = "";
        struct replay *r;
        uint32_t line;

        mem_fail_after(-1);
        assert_int_equal(replay_create(&r, true), 0);
        mem_fail_after(n);
        rc = replay(r, text, &line, err, sizeof(err));
        if (mem_has_failed()) {
            assert_int_equal(rc, ERR_NOMEM);
            assert_string_equal(err, "out of memory");
        }
        mem_fail_after(-1);
        replay_destroy(&r);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_replay_equal),
        cmocka_unit_test(a_file_may_hold_several_runs),
        cmocka_unit_test(trace_is_collected),
        cmocka_unit_test(the_first_difference_is_told),
        cmocka_unit_test(what_makes_no_sense_is_told),
        cmocka_unit_test(absurd_options_are_refused),
        cmocka_unit_test(damaged_journals_are_survived),
        cmocka_unit_test(running_out_of_memory_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
