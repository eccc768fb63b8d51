/* tests/unit/server/test_served_model.c - a model that comes and goes: what it has of a load is
 * gone before the load's memory is freed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "server/api/engine_client.h"
#include "server/models/served_model.h"

struct world {
    uv_loop_t loop;
    struct server_options options;
    struct engine_shared shared;
    struct served_model served;
};

static void open_world(struct world *w)
{
    const struct server_model before = {.id = "bear", .max_outstanding = 4};
    char err[100];

    assert_int_equal(uv_loop_init(&w->loop), 0);
    w->shared = (struct engine_shared){.options = &w->options, .loop = &w->loop};
    assert_int_equal(served_model_open(&w->served, &w->shared, &before, err, sizeof(err)), 0);
}

static void close_world(struct world *w)
{
    uv_close((uv_handle_t *)&w->served.engine->expiry, NULL);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    served_model_close(&w->served);
    assert_int_equal(uv_loop_close(&w->loop), 0);
}

/* The parts of a load, which are freed after served_model_detach(). Nothing here looks into the
 * structs, so any address stands for them. */
static struct server_model loaded(const char *receipt_origin, void *part)
{
    return (struct server_model){
        .id = "bear", .arch = "llama", .ftype = "Q8_0", .kv_type = "f16", .isa = "avx2",
        .tokenizer = part, .sampling = part, .chat = part, .constraint_cache = part, .fetch = part,
        .labels = part, .receipt_origin = receipt_origin};
}

static void detach_clears_all_parts_of_a_load(void **state)
{
    static struct world w;
    char part = 0, *origin = mem_strdup("\"quire\":\"1.0\"");
    const struct server_model model = loaded(origin, &part);
    const struct server_model *m = &w.served.model;

    (void)state;
    open_world(&w);
    served_model_set_model(&w.served, &model);
    assert_string_equal(m->receipt_origin, "\"quire\":\"1.0\"");
    served_model_detach(&w.served);
    mem_free(origin);
    if (m->receipt_origin != NULL)
        fail_msg("the model still has the receipt's origin %s", m->receipt_origin);
    assert_null(m->tokenizer);
    assert_null(m->sampling);
    assert_null(m->chat);
    assert_null(m->constraint_cache);
    assert_null(m->fetch);
    assert_null(m->labels);
    assert_string_equal(m->arch, "llama"); /* a copy: pages show it of a model that has left */
    assert_string_equal(m->ftype, "Q8_0");
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(detach_clears_all_parts_of_a_load),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
