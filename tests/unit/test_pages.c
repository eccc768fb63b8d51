/* tests/unit/test_pages.c - the debug pages and the metrics, from made-up numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "server/debug_pages.h"
#include "server/json.h"
#include "server/metrics.h"

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

static struct snapshot *make(void)
{
    struct snapshot *s;

    assert_int_equal(snapshot_create(&s, 4, 4, 6), 0);
    memcpy(s->map, "fhscHC", 6);
    s->n_seqs = 2;
    s->seqs[0] = (struct seq_info){.id = 77, .state = SNAPSHOT_RUNNING, .priority = PRIORITY_HIGH,
                                   .tenant = 2, .n_prompt = 9, .max_tokens = 5, .n_known = 11,
                                   .n_done = 10, .n_cached = 4, .n_blocks = 1, .place = -1,
                                   .age_us = 2500, .waited_us = 1, .deadline_in_us = 7000};
    s->seqs[1] = (struct seq_info){.id = 5, .state = SNAPSHOT_PREEMPTED, .place = SWAP_READING,
                                   .n_preempted = 1};
    s->n_tenants = 1;
    s->tenants[0] = (struct tenant_info){.tenant = 2, .weight = 4, .n_running = 1, .service = 21};
    s->n_steps = 1;
    s->steps[0] = (struct step_info){.step = 3, .at_us = 1500, .work = {2, 1, 30, 40},
                                     .n_sequences = 2, .took_us = 900};
    s->costs = (struct step_costs){.is_known = true, .step_ns = 7};
    s->kv.pool = (struct block_pool_stats){.n_blocks = 6, .n_free = 1, .n_held = 3, .n_cached = 2};
    s->kv.swap = (struct swap_stats){.n_copies = 1, .ram_slots = 8, .blocks_in = {3, 4}};
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
          "\"computed_tokens\":10,\"cached_tokens\":4,\"blocks\":1,\"n_preempted\":0,"
          "\"swapped\":null,\"age_ms\":2.500,\"queue_ms\":0.001,\"deadline_in_ms\":7.000},"
          "{\"id\":5,\"request_id\":null,\"state\":\"preempted\",\"priority\":\"low\","
          "\"tenant\":null,\"prompt_tokens\":0,\"max_tokens\":0,\"known_tokens\":0,"
          "\"computed_tokens\":0,\"cached_tokens\":0,\"blocks\":0,\"n_preempted\":1,"
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
          "\"swap_block_ns\":0,\"file_block_ns\":0},\"iterations\":[{\"step\":3,\"at_ms\":1.500,"
          "\"sequences\":2,\"prefill_rows\":2,\"decode_rows\":1,\"prefill_keys\":40,"
          "\"decode_keys\":30,\"admitted\":0,\"preempted\":0,\"swapped_out\":0,"
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
    debug_render_kv(s, 16, &b);
    check(b.data, b.len,
          "{\"object\":\"debug.kv\",\"block_tokens\":16,\"blocks\":{\"total\":6,\"free\":1,"
          "\"cached\":2,\"held\":3,\"pinned\":0,\"peak_held\":0},\"pressure\":\"critical\","
          "\"prefix\":{\"indexed_blocks\":0,\"query_tokens\":0,\"hit_tokens\":0,"
          "\"evicted_blocks\":0,\"copied_blocks\":0},\"swap\":{\"copies\":1,"
          "\"ram\":{\"slots\":8,\"used\":0,\"blocks_out\":0,\"blocks_in\":3},"
          "\"file\":{\"slots\":0,\"used\":0,\"blocks_out\":0,\"blocks_in\":4},"
          "\"n_refused\":0,\"n_write_errors\":0,\"n_read_errors\":0},\"map\":\"fhscHC\"}");
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
            debug_render_kv(s, 16, &b);
        assert_int_equal(json_parse(b.data, b.len, &v, &why), 0);
        cJSON_Delete(v);
    }
    buf_release(&b);
    snapshot_destroy(&s);
}

static void metrics_show_the_engine(void **state)
{
    static const char *const lines[] = {
        "\nquire_requests_swapped 2\n",
        "\nquire_kv_pressure 1\n",
        "\nquire_swap_bytes{tier=\"ram\"} 300\n",
        "\nquire_swap_bytes{tier=\"file\"} 500\n",
        "\nquire_swap_capacity_bytes{tier=\"ram\"} 700\n",
        "\nquire_swap_capacity_bytes{tier=\"file\"} 900\n",
        "\nquire_cached_tokens_total 11\n",
        "\nquire_recomputed_tokens_total 12\n",
        "\nquire_preemptions_total{mode=\"recompute\"} 13\n",
        "\nquire_preemptions_total{mode=\"swap\"} 14\n",
        "\nquire_swap_blocks_total{direction=\"out\",tier=\"ram\"} 15\n",
        "\nquire_swap_blocks_total{direction=\"out\",tier=\"file\"} 16\n",
        "\nquire_swap_blocks_total{direction=\"in\",tier=\"ram\"} 17\n",
        "\nquire_swap_blocks_total{direction=\"in\",tier=\"file\"} 18\n",
        "\nquire_swap_errors_total{direction=\"out\"} 19\n",
        "\nquire_swap_errors_total{direction=\"in\"} 20\n",
        "\nquire_swap_refusals_total 21\n",
        "\nquire_swap_fallbacks_total 22\n",
        "\nquire_prefix_cache_queries_tokens_total 23\n",
        "\nquire_prefix_cache_hits_tokens_total 24\n",
        "\nquire_prefix_evictions_total 25\n",
        "\nquire_kv_blocks_copied_total 26\n",
        "\nquire_cost_model_error_ratio_bucket{le=\"0.1\"} 1\n",
        "\nquire_rejections_total{reason=\"deadline_unreachable\"} 27\n",
        "\nquire_rejections_total{reason=\"tenant_limit\"} 28\n",
        "\nquire_rejections_total{reason=\"queue_timeout\"} 29\n",
        "\nquire_tenants 30\n",
        "\nquire_tenants_shared_total 31\n",
    };
    static const char *const routes[] = {"other"};
    struct metrics_scene scene = {.routes = routes, .n_routes = 1, .model = "m", .arch = "a",
                                  .ftype = "f", .isa = "i", .version = "v", .n_tenants = 30,
                                  .n_tenants_shared = 31};
    struct engine_stats *s = &scene.stats;
    struct metrics m;
    struct buf b;
    (void)state;

    *s = (struct engine_stats){.n_swapped = 2, .pressure = KV_LOW, .block_bytes = 100,
                               .cached_tokens = 11, .recomputed_tokens = 12,
                               .preemptions_recompute = 13, .preemptions_swap = 14,
                               .swap_fallbacks = 22, .prefix_queries = 23, .prefix_hits = 24,
                               .prefix_evictions = 25, .blocks_copied = 26};
    s->swap = (struct swap_stats){.ram_used = 3, .file_used = 5, .ram_slots = 7, .file_slots = 9,
                                  .blocks_out = {15, 16}, .blocks_in = {17, 18},
                                  .n_write_errors = 19, .n_read_errors = 20, .n_refused = 21};
    hist_init_ratio(&s->cost_error);
    hist_add(&s->cost_error, 0.07);
    hist_add(&s->cost_error, 0.7);
    metrics_init(&m);
    m.rejections[REJECTION_DEADLINE] = 27;
    m.rejections[REJECTION_TENANT_LIMIT] = 28;
    m.rejections[REJECTION_QUEUE_TIMEOUT] = 29;
    buf_init(&b, 1 << 20);
    metrics_render(&m, &scene, &b);
    assert_int_equal(b.err, 0);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        if (strstr(b.data, lines[i]) == NULL)
            fail_msg("not there: %s", lines[i]);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_to_the_letter),
        cmocka_unit_test(iterations_to_the_letter),
        cmocka_unit_test(the_cache_to_the_letter),
        cmocka_unit_test(empty_pages_are_json),
        cmocka_unit_test(metrics_show_the_engine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
