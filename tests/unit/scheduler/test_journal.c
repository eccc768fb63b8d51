/* tests/unit/scheduler/test_journal.c - the journal's lines, letter by letter, and its ring. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/journal.h"
#include "scheduler/scheduler.h"

static char text[1 << 16];

static const char *take(struct journal *j)
{
    text[journal_take(j, text, sizeof(text) - 1)] = '\0';
    return text;
}

static struct journal *new_journal(size_t bytes)
{
    struct journal *j;

    assert_int_equal(journal_create(&j, bytes), 0);
    return j;
}

static void options_are_written(void **state)
{
    const struct sched_options so = {.policy = SCHED_ADAPTIVE, .preemption = SCHED_SWAP,
        .aging_milli = 100, .max_wait_ms = 30000, .max_preemptions = 3, .max_tenants = 5,
        .max_sequences = 4, .max_requests = 64, .max_context = 512, .max_batch_tokens = 96,
        .prefill_chunk = 80, .whole_prompts = true};
    const struct kv_manager_options ko = {.n_blocks = 99, .placement = 2, .prefix_cache = true,
        .n_ram = 10, .n_file = 20, .max_sequences = 7, .max_table = 33,
        .groups = {.n = 3, .n_window = 2, .window = 40},
        .states = {.n_slots = 6, .interval = 16, .n_parts = 3}, .max_chunk = 64, .low_percent = 25,
        .critical_percent = 10};
    const int32_t eog[] = {7, 9};
    struct journal *j = new_journal(4096);
    (void)state;

    journal_start(j, &so, &ko, eog, 2, 0);
    assert_string_equal(take(j),
        "{\"start\":1,\"sched\":{\"policy\":3,\"preemption\":2,\"aging_milli\":100,"
        "\"max_wait_ms\":30000,\"max_preemptions\":3,\"max_tenants\":5,\"max_sequences\":4,"
        "\"max_requests\":64,\"max_context\":512,\"max_batch_tokens\":96,\"prefill_chunk\":80,"
        "\"whole_prompts\":1},"
        "\"kv\":{\"n_blocks\":99,\"placement\":2,\"prefix_cache\":1,\"n_ram\":10,\"n_file\":20,"
        "\"max_sequences\":7,\"max_table\":33,\"lanes\":3,\"window_lanes\":2,"
        "\"window\":40,\"state_slots\":6,\"state_interval\":16,\"state_parts\":3,"
        "\"state_alone\":0,\"max_chunk\":64,\"low_percent\":25,\"critical_percent\":10},"
        "\"eog\":[7,9]}\n");
    journal_destroy(&j);
}

static void bounds_of_pins_are_options(void **state)
{
    const struct sched_options so = {.max_tenants = 5};
    const struct kv_manager_options ko = {
        .pins = {.most_blocks = 8, .tenant_blocks = 6, .n_tenants = 5}};
    struct journal *j = new_journal(4096);
    (void)state;

    journal_start(j, &so, &ko, NULL, 0, 0);
    assert_non_null(strstr(take(j), ",\"pin_most\":8,\"pin_tenant\":6,\"pin_tenants\":5},"));
    journal_destroy(&j);
}

static void posts_leave_out_zeros(void **state)
{
    const struct request_size size = {.n_prompt = 3, .max_tokens = 2};
    struct journal *j = new_journal(4096);
    struct request *r;
    (void)state;

    assert_int_equal(request_create(&r, &size), 0);
    r->id = 12;
    r->arrival_us = 990;
    r->weight = 1;
    r->ids[0] = 5, r->ids[1] = 0, r->ids[2] = 123456;
    journal_post(j, r, 1000);
    assert_string_equal(take(j), "{\"post\":12,\"now\":1000,\"arrival\":990,\"priority\":1,"
        "\"weight\":1,\"salt\":\"0\",\"max_tokens\":2,\"prompt\":[5,0,123456]}\n");
    r->deadline_us = 5;
    r->first_by_us = 4;
    r->queue_until_us = 6;
    r->prefix_owner = 11;
    r->tenant = 2;
    r->min_tokens = 1;
    r->ignore_eos = r->score_prompt = true;
    r->rows_from = 2;
    r->n_stop_ids = 2;
    r->stop_ids[0] = 8, r->stop_ids[1] = 9;
    r->key.salt = 0xfedcba9876543210;
    journal_post(j, r, 1000);
    assert_string_equal(take(j), "{\"post\":12,\"now\":1000,\"arrival\":990,\"deadline\":5,"
        "\"first_by\":4,\"queue_until\":6,\"leader\":11,\"priority\":1,\"tenant\":2,\"weight\":1,"
        "\"salt\":\"fedcba9876543210\",\"max_tokens\":2,\"min_tokens\":1,\"ignore_eos\":1,"
        "\"score_prompt\":1,\"rows_from\":2,\"stop\":[8,9],\"prompt\":[5,0,123456]}\n");
    r->rows_from = 0;
    r->n_pins = 2;
    r->pins[0] = (struct request_pin){1, 300};
    r->pins[1] = (struct request_pin){3, 400};
    r->min_tokens = r->n_stop_ids = 0;
    r->deadline_us = r->first_by_us = r->queue_until_us = r->prefix_owner = r->tenant = 0;
    r->ignore_eos = r->score_prompt = false;
    journal_post(j, r, 1000);
    assert_string_equal(take(j), "{\"post\":12,\"now\":1000,\"arrival\":990,\"priority\":1,"
        "\"weight\":1,\"salt\":\"fedcba9876543210\",\"max_tokens\":2,"
        "\"pins\":[[1,300],[3,400]],\"prompt\":[5,0,123456]}\n");
    request_destroy(&r);
    journal_destroy(&j);
}

static void posts_tell_of_context_shifts(void **state)
{
    const struct request_size size = {.n_prompt = 2, .max_tokens = 90, .max_known = 40};
    struct journal *j = new_journal(4096);
    struct request *r;
    (void)state;

    assert_int_equal(request_create(&r, &size), 0);
    r->id = 12;
    r->ids[0] = 5, r->ids[1] = 6;
    journal_post(j, r, 1000);
    assert_string_equal(take(j), "{\"post\":12,\"now\":1000,\"arrival\":0,\"priority\":1,"
        "\"weight\":1,\"salt\":\"0\",\"max_tokens\":90,\"max_known\":40,\"n_discard\":20,"
        "\"prompt\":[5,6]}\n");
    r->n_keep = 4;
    r->n_discard = 9;
    journal_post(j, r, 1000);
    assert_string_equal(take(j), "{\"post\":12,\"now\":1000,\"arrival\":0,\"priority\":1,"
        "\"weight\":1,\"salt\":\"0\",\"max_tokens\":90,\"max_known\":40,\"n_keep\":4,"
        "\"n_discard\":9,\"prompt\":[5,6]}\n");
    request_destroy(&r);
    journal_destroy(&j);
}

static void plans_and_commits(void **state)
{
    struct request a = {.id = 3}, b = {.id = 4};
    const struct plan_item items[] = {{.request = &a, .first = 10, .n = 1, .wants_token = true},
                                      {.request = &b, .first = 0, .n = 32},
                                      {.request = &a, .first = 11, .n = 2, .wants_token = true}};
    const uint64_t ids[] = {3, 4};
    const struct plan p = {.step = 7, .n_items = 3, .items = items, .n_moves = 5,
        .admitted = ids, .n_admitted = 2, .preempted = ids, .n_preempted = 1};
    const struct plan empty = {.step = 8};
    const struct sched_limits limits = {.target_us = 500, .costs = {.is_known = true, .step_ns = 1,
        .prefill_ns = 2, .decode_ns = 3, .kv_decode_ps = 4, .kv_prefill_ps = 5, .swap_ns = 6,
        .file_ns = 7}};
    const int32_t tokens[] = {100, -1, 102};
    struct journal *j = new_journal(4096);
    (void)state;

    journal_plan(j, &p, 2000, &limits);
    assert_string_equal(take(j), "{\"plan\":7,\"now\":2000,\"target\":500,"
        "\"costs\":[1,1,2,3,4,5,6,7],\"items\":[[3,10,1,1],[4,0,32,0],[3,11,2,1]],"
        "\"admitted\":[3,4],\"preempted\":[3],\"swapped_out\":[],\"swapped_in\":[],"
        "\"moves\":5}\n");
    journal_commit(j, &p, tokens, NULL, 2100);
    assert_string_equal(take(j), "{\"commit\":7,\"now\":2100,\"tokens\":[100,102]}\n");
    journal_plan(j, &empty, 1, &(struct sched_limits){.costs = {.fetch_ns = 8}});
    assert_non_null(strstr(take(j), "\"costs\":[0,0,0,0,0,0,0,0,8,0],"));
    journal_plan(j, &empty, 1, &(struct sched_limits){0});
    assert_string_equal(take(j), "{\"plan\":8,\"now\":1,\"target\":0,\"costs\":[0,0,0,0,0,0,0,0],"
        "\"items\":[],\"admitted\":[],\"preempted\":[],\"swapped_out\":[],\"swapped_in\":[],"
        "\"moves\":0}\n");
    journal_destroy(&j);
}

static void the_other_lines(void **state)
{
    const struct swap_io io = {.copy = 2, .is_write = true, .n = 8};
    struct journal *j = new_journal(4096);
    (void)state;

    journal_cancel(j, UINT64_MAX, FINISH_CANCELLED, 5);
    journal_cancel_all(j, FINISH_CANCELLED, 6);
    journal_moves_done(j);
    journal_io_start(j, &io);
    journal_io_done(j, 2, -5);
    journal_stored(j, 9, 12);
    journal_fetch(j, &(struct sched_fetch){9, 4, 8});
    journal_fetched(j, 9, 4, 8, true);
    assert_string_equal(take(j), "{\"cancel\":18446744073709551615,\"why\":3,\"now\":5}\n"
        "{\"cancel_all\":3,\"now\":6}\n{\"moves_done\":1}\n"
        "{\"io_start\":2,\"write\":1,\"n\":8}\n{\"io_done\":2,\"rc\":-5}\n"
        "{\"stored\":9,\"n\":12}\n{\"fetch\":9,\"first\":4,\"n\":8}\n"
        "{\"fetched\":9,\"first\":4,\"n\":8,\"last\":1}\n");
    journal_destroy(&j);
}

/* Whole lines are dropped, and the next one that fits says how many. */
static void a_full_ring_drops_whole_lines(void **state)
{
    struct journal *j = new_journal(64);
    size_t n = 0;
    (void)state;

    for (int i = 0; i < 6; i++)
        journal_moves_done(j); /* 17 bytes each */
    assert_int_equal(journal_n_dropped(j), 3);
    assert_string_equal(take(j), "{\"moves_done\":1}\n{\"moves_done\":1}\n{\"moves_done\":1}\n");
    journal_moves_done(j);
    journal_moves_done(j);
    assert_int_equal(journal_n_dropped(j), 3);
    assert_string_equal(take(j), "{\"dropped\":3}\n{\"moves_done\":1}\n{\"moves_done\":1}\n");
    for (int i = 0; i < 1000; i++) { /* around the ring, byte by byte */
        journal_moves_done(j);
        for (n = 0; journal_take(j, text + n, 1) == 1; n++)
            continue;
        text[n] = '\0';
        assert_string_equal(text, "{\"moves_done\":1}\n");
    }
    journal_destroy(&j);
}

/* A line that is larger than the ring can never be written: dropped, and the rest goes on. */
static void a_line_larger_than_the_ring(void **state)
{
    const struct request_size size = {.n_prompt = 1000, .max_tokens = 2};
    struct journal *j = new_journal(256);
    struct request *r;
    (void)state;

    assert_int_equal(request_create(&r, &size), 0);
    memset(r->ids, 0, 1000 * sizeof(*r->ids));
    journal_post(j, r, 1000);
    journal_moves_done(j);
    assert_string_equal(take(j), "{\"dropped\":1}\n{\"moves_done\":1}\n");
    assert_int_equal(journal_n_dropped(j), 1);
    request_destroy(&r);
    journal_destroy(&j);
}

static void without_a_journal_nothing_happens(void **state)
{
    (void)state;
    journal_start(NULL, NULL, NULL, NULL, 0, 0);
    journal_post(NULL, NULL, 0);
    journal_cancel(NULL, 0, FINISH_NONE, 0);
    journal_cancel_all(NULL, FINISH_NONE, 0);
    journal_plan(NULL, NULL, 0, NULL);
    journal_moves_done(NULL);
    journal_io_start(NULL, NULL);
    journal_io_done(NULL, 0, 0);
    journal_commit(NULL, NULL, NULL, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_written),
        cmocka_unit_test(bounds_of_pins_are_options),
        cmocka_unit_test(posts_leave_out_zeros),
        cmocka_unit_test(posts_tell_of_context_shifts),
        cmocka_unit_test(plans_and_commits),
        cmocka_unit_test(the_other_lines),
        cmocka_unit_test(a_full_ring_drops_whole_lines),
        cmocka_unit_test(a_line_larger_than_the_ring),
        cmocka_unit_test(without_a_journal_nothing_happens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
