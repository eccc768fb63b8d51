/* tests/unit/server/test_pages.c - the debug pages, from made-up numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/json/json.h"
#include "server/admin/debug_pages.h"

static const char *tenant_name(void *ud, uint32_t tenant)
{
    (void)ud;
    return tenant == 2 ? "al\"ice" : NULL;
}

static const char *request_name(void *ud, uint64_t id)
{
    (void)ud;
    return id == 77 ? "req-1" : NULL;
}

static const struct debug_names names = {tenant_name, request_name, NULL};

#define EIGHT_MS "1.000,1.000,1.000,1.000,1.000,1.000,1.000,1.000"

static struct snapshot *make(void)
{
    struct snapshot *s;

    assert_int_equal(snapshot_create(&s, 4, 4, 6), 0);
    memcpy(s->map, "fhscHC", 6);
    s->n_seqs = 2;
    s->seqs[0] = (struct seq_info){.id = 77, .state = SNAPSHOT_RUNNING, .priority = PRIORITY_HIGH,
                                   .tenant = 2, .n_prompt = 9, .max_tokens = 5, .n_known = 11,
                                   .n_discarded = 3,
                                   .n_done = 10, .n_cached = 4, .n_blocks = 1, .swap = -1,
                                   .n_drafted = 6, .n_accepted = 2,
                                   .age_us = 2500, .waited_us = 1, .deadline_in_us = 7000};
    s->seqs[1] = (struct seq_info){.id = 5, .state = SNAPSHOT_PREEMPTED, .swap = SWAP_READING,
                                   .n_preempted = 1};
    s->n_tenants = 1;
    s->tenants[0] = (struct tenant_info){.tenant = 2, .weight = 4, .n_running = 1, .service = 21,
                                          .n_pins = 2, .n_pinned = 3, .pinned_for_us = 4500};
    s->n_steps = 1;
    s->steps[0] = (struct step_info){.step = 3, .at_us = 1500, .work = {2, 1, 30, 40},
                                     .n_sequences = 2, .n_drafts = 3, .took_us = 900};
    s->costs = (struct step_costs){.is_known = true, .step_ns = 7};
    s->draft_costs = (struct draft_costs){.is_known = true, .balance_ns = -1500000};
    for (uint32_t n = 1; n <= DRAFT_ROWS; n++)
        s->draft_costs.rows_ns[n] = 1000000;
    s->kv.pool = (struct block_pool_stats){.n_blocks = 6, .n_free = 1, .n_held = 2, .n_cached = 2,
                                            .n_pinned = 1};
    s->kv.states = (struct kv_states_stats){
        {.n_blocks = 9, .n_free = 4, .n_held = 2, .n_cached = 2, .n_pinned = 1, .n_evicted = 5}, 4};
    s->kv.swap = (struct swap_stats){.n_copies = 1, .ram_slots = 8, .blocks_in = {3, 4}};
    s->kv.groups = (struct kv_groups){.n = 5, .n_window = 4, .window = 512, .n_layer = 3};
    s->kv.pins = (struct kv_pin_options){.most_blocks = 9, .tenant_blocks = 5};
    s->block_bytes = 100;
    s->kinds[0] = (struct kv_kind){.n_groups = 1, .n_held = 2};
    s->kinds[1] = (struct kv_kind){.n_groups = 4, .n_held = 1, .n_cached = 2};
    s->pressure = KV_CRITICAL;
    return s;
}

static void check(const char *text, size_t n, const char *expected)
{
    const char *why = NULL;
    cJSON *v = NULL;

    assert_int_equal(json_parse(text, n, &v, &why), 0);
    cJSON_Delete(v);
    assert_string_equal(text, expected);
}

static void requests_to_the_letter(void **state)
{
    struct snapshot *s = make();
    struct buf b;
    (void)state;

    buf_init(&b, 1 << 20);
    debug_render_requests(s, &names, &b);
    check(b.data, b.len,
          "{\"object\":\"debug.requests\",\"n_waiting\":0,\"n_following\":0,\"n_running\":1,"
          "\"n_preempted\":1,\"requests\":["
          "{\"id\":77,\"request_id\":\"req-1\",\"state\":\"running\",\"priority\":\"high\","
          "\"tenant\":\"al\\\"ice\",\"prompt_tokens\":9,\"max_tokens\":5,\"known_tokens\":11,"
          "\"discarded_tokens\":3,"
          "\"computed_tokens\":10,\"cached_tokens\":4,\"blocks\":1,"
          "\"draft_tokens\":6,\"accepted_draft_tokens\":2,\"n_preempted\":0,"
          "\"swapped\":null,\"age_ms\":2.500,\"queue_ms\":0.001,\"deadline_in_ms\":7.000},"
          "{\"id\":5,\"request_id\":null,\"state\":\"preempted\",\"priority\":\"low\","
          "\"tenant\":null,\"prompt_tokens\":0,\"max_tokens\":0,\"known_tokens\":0,"
          "\"discarded_tokens\":0,"
          "\"computed_tokens\":0,\"cached_tokens\":0,\"blocks\":0,"
          "\"draft_tokens\":0,\"accepted_draft_tokens\":0,\"n_preempted\":1,"
          "\"swapped\":\"reading\",\"age_ms\":0.000,\"queue_ms\":0.000,"
          "\"deadline_in_ms\":null}],"
          "\"tenants\":[{\"tenant\":2,\"name\":\"al\\\"ice\",\"weight\":4,\"running\":1,"
          "\"waiting\":0,\"service_tokens\":21}]}");
    buf_release(&b);
    snapshot_destroy(&s);
}

static void iterations_to_the_letter(void **state)
{
    struct snapshot *s = make();
    struct buf b;
    (void)state;

    buf_init(&b, 1 << 20);
    debug_render_iterations(s, &b);
    check(b.data, b.len,
          "{\"object\":\"debug.iterations\",\"costs\":{\"is_known\":true,\"step_ns\":7,"
          "\"prefill_row_ns\":0,\"decode_row_ns\":0,\"decode_key_ps\":0,\"prefill_key_ps\":0,"
          "\"swap_block_ns\":0,\"file_block_ns\":0},\"draft_costs\":{\"is_known\":true,"
          "\"balance_ms\":-1.500,\"rows_ms\":[" EIGHT_MS "," EIGHT_MS "," EIGHT_MS "," EIGHT_MS ","
          EIGHT_MS "," EIGHT_MS "," EIGHT_MS "," EIGHT_MS "]},\"iterations\":[{\"step\":3,"
          "\"at_ms\":1.500,\"sequences\":2,\"prefill_rows\":2,\"decode_rows\":1,"
          "\"draft_rows\":3,\"prefill_keys\":40,\"decode_keys\":30,\"admitted\":0,"
          "\"preempted\":0,\"swapped_out\":0,"
          "\"swapped_in\":0,\"moves\":0,\"predicted_ms\":null,\"took_ms\":0.900}]}");
    buf_release(&b);
    snapshot_destroy(&s);
}

static void the_cache_to_the_letter(void **state)
{
    struct snapshot *s = make();
    struct buf b;
    (void)state;

    buf_init(&b, 1 << 20);
    debug_render_kv(s, &names, 16, NULL, false, &b);
    check(b.data, b.len,
          "{\"object\":\"debug.kv\",\"block_tokens\":16,\"blocks\":{\"total\":6,\"free\":1,"
          "\"cached\":2,\"held\":2,\"pinned\":1,\"peak_held\":0},\"pressure\":\"critical\","
          "\"lanes\":{\"total\":5,\"layers_per_block\":3,"
          "\"full\":{\"lanes\":1,\"held\":2,\"cached\":0},"
          "\"window\":{\"tokens\":512,\"lanes\":4,\"held\":1,\"cached\":2}},"
          "\"prefix\":{\"indexed_blocks\":0,\"query_tokens\":0,\"hit_tokens\":0,"
          "\"evicted_blocks\":0,\"copied_blocks\":0},"
          "\"states\":{\"total\":9,\"free\":4,\"cached\":2,\"held\":2,\"pinned\":1,\"snapshots\":4,"
          "\"evicted\":5},\"swap\":{\"copies\":1,"
          "\"ram\":{\"slots\":8,\"used\":0,\"blocks_out\":0,\"blocks_in\":3},"
          "\"file\":{\"slots\":0,\"used\":0,\"blocks_out\":0,\"blocks_in\":4},"
          "\"n_refused\":0,\"n_write_errors\":0,\"n_read_errors\":0},\"pins\":{\"most_blocks\":9,"
          "\"tenant_blocks\":5,\"tenants\":[{\"tenant\":2,\"name\":\"al\\\"ice\",\"pins\":2,"
          "\"blocks\":3,\"bytes\":300,\"ends_in_ms\":4.500}]},\"store\":null,"
          "\"map\":\"fhscHC\"}");
    buf_release(&b);
    snapshot_destroy(&s);
}

/* An engine with nothing to show has valid pages, too. */
static void empty_pages_are_json(void **state)
{
    struct snapshot *s;
    struct buf b;
    (void)state;

    assert_int_equal(snapshot_create(&s, 0, 0, 0), 0);
    buf_init(&b, 1 << 20);
    for (int page = 0; page < 3; page++) {
        const char *why = NULL;
        cJSON *v = NULL;

        buf_clear(&b);
        if (page == 0)
            debug_render_requests(s, &names, &b);
        else if (page == 1)
            debug_render_iterations(s, &b);
        else
            debug_render_kv(s, &names, 16, NULL, false, &b);
        assert_int_equal(json_parse(b.data, b.len, &v, &why), 0);
        cJSON_Delete(v);
    }
    buf_release(&b);
    snapshot_destroy(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_to_the_letter),
        cmocka_unit_test(iterations_to_the_letter),
        cmocka_unit_test(the_cache_to_the_letter),
        cmocka_unit_test(empty_pages_are_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
