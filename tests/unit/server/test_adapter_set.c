/* tests/unit/server/test_adapter_set.c - adapters by name, their memory, and starts without any. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/demo.h"
#include "core/base/err.h"
#include "core/base/list.h"
#include "core/formats/gguf/gguf.h"
#include "core/formats/gguf/write.h"
#include "core/model/adapter.h"
#include "server/adapters/adapter_set.h"
#include "server/process/worker_pool.h"
#include "tests/fixtures/failing_memory.h"

#define EMBD 256 /* of the demo model */
#define N_FILES 3
#define MOST_ALLOCATIONS 400

static struct {
    struct model *model;
    char folder[64];
} shared;

/* An adapter of the first layer's queries, of rank 1 + i. */
static void write_file(int i)
{
    const uint64_t rank = (uint64_t)i + 1, a[] = {EMBD, rank}, b[] = {rank, EMBD};
    float values[EMBD * N_FILES];
    struct gguf_writer *w;
    char path[100];
    uint8_t *data;
    size_t bytes;
    FILE *f;

    for (size_t k = 0; k < EMBD * rank; k++)
        values[k] = (float)((int)(k % 7) - 3 + i) / 8;
    snprintf(path, sizeof(path), "%s/%d.gguf", shared.folder, i);
    assert_int_equal(gguf_writer_create(&w), 0);
    gguf_writer_str(w, "general.type", "adapter");
    gguf_writer_str(w, "adapter.type", "lora");
    gguf_writer_f32(w, "adapter.lora.alpha", 2.0f);
    gguf_writer_tensor(w, "blk.0.attn_q.weight.lora_a", BLOCK_F32, 2, a, values);
    gguf_writer_tensor(w, "blk.0.attn_q.weight.lora_b", BLOCK_F32, 2, b, values);
    assert_int_equal(gguf_writer_finish(w, &data, &bytes), 0);
    gguf_writer_destroy(&w);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
    mem_free(data);
}

static int create(struct adapter_set **s, const char *list, uint64_t max_bytes)
{
    const struct adapter_set_options options = {
        .list = list, .folder = shared.folder, .max_bytes = max_bytes, .model = shared.model};
    char err[400] = "";
    const int rc = adapter_set_create(s, &options, err, sizeof(err));

    assert_true((rc < 0) == (*s == NULL) && (rc < 0) == (err[0] != '\0'));
    return rc;
}

/* One that waits: what it was told, and how often. */
struct waiting {
    struct adapter_wait wait;
    int n_told;
};

static void on_told(struct adapter_wait *w)
{
    list_entry(w, struct waiting, wait)->n_told++;
}

static struct waiting waiting(void)
{
    return (struct waiting){.wait.done = on_told};
}

/* Without a pool: the file is read before this returns. */
static int try_take(struct adapter_set *s, const char *name, struct adapter **out,
                    struct api_error *e)
{
    struct waiting w = waiting();
    const int rc = adapter_set_take(s, name, &w.wait, out, e);

    assert_int_equal(w.n_told, rc == ERR_AGAIN);
    if (rc != ERR_AGAIN)
        return rc;
    *out = w.wait.adapter;
    *e = w.wait.error;
    return *out != NULL ? 0 : ERR_INVAL;
}

static int load(struct adapter_set *s, const char *name, const char *path, bool replaces,
                struct api_error *e)
{
    const struct adapter_source what = {name, path, replaces};
    struct waiting w = waiting();
    const int rc = adapter_set_load(s, &what, &w.wait, e);

    assert_int_equal(w.n_told, rc == ERR_AGAIN);
    if (rc != ERR_AGAIN)
        return rc;
    *e = w.wait.error;
    if (w.wait.adapter == NULL)
        return ERR_INVAL;
    adapter_unref(&w.wait.adapter);
    return 0;
}

static struct adapter *take(struct adapter_set *s, const char *name)
{
    struct api_error e = {0};
    struct adapter *a = NULL;

    assert_int_equal(try_take(s, name, &a, &e), 0);
    assert_non_null(a);
    return a;
}

static uint64_t bytes_of(struct adapter_set *s, const char *name)
{
    struct adapter_info info;

    assert_true(adapter_set_find(s, name, &info));
    return info.bytes;
}

static struct adapter_set_stats stats_of(const struct adapter_set *s)
{
    struct adapter_set_stats stats;

    adapter_set_get_stats(s, &stats);
    return stats;
}

/* ---- the tests ---- */

static void no_set_has_nothing(void **state)
{
    struct adapter_choice choice = {.name = "x"};
    struct adapter_info info;
    char name[ADAPTER_SET_MAX_NAME + 1];
    (void)state;

    assert_false(adapter_set_has(NULL, "x"));
    assert_false(adapter_set_name(NULL, 0, name));
    assert_false(adapter_set_next(NULL, 0, &info));
    adapter_set_default(NULL, &choice);
    assert_string_equal(choice.name, "");
    assert_int_equal(stats_of(NULL).n_known, 0);
}

static void the_least_recently_used_leaves(void **state)
{
    struct adapter_set *s;
    struct adapter *a, *b, *none;
    struct api_error e = {0};
    uint64_t one;
    (void)state;

    assert_int_equal(create(&s, "", 1u << 30), 0);
    for (int i = 0; i < N_FILES; i++) {
        char name[24], path[24];

        snprintf(name, sizeof(name), "n%d", i);
        snprintf(path, sizeof(path), "%d.gguf", i);
        assert_int_equal(load(s, name, path, false, &e), 0);
    }
    one = bytes_of(s, "n2");
    assert_int_equal(stats_of(s).bytes, bytes_of(s, "n0") + bytes_of(s, "n1") + one);
    adapter_set_destroy(&s);

    /* Room for two: n0 is held, so n1 leaves for n2, and comes back for it. */
    assert_int_equal(create(&s, "", 2 * one + 1024), 0);
    assert_int_equal(load(s, "n0", "0.gguf", false, &e), 0);
    assert_int_equal(load(s, "n1", "1.gguf", false, &e), 0);
    a = take(s, "n0");
    assert_int_equal(load(s, "n2", "2.gguf", false, &e), 0);
    assert_int_equal(stats_of(s).n_resident, 2);
    assert_int_equal(stats_of(s).n_evicted, 1);
    b = take(s, "n1");
    assert_int_equal(stats_of(s).n_evicted, 2);
    assert_int_equal(b->max_rank, 2);

    /* All are held: no room, and the reason. */
    assert_true(try_take(s, "n2", &none, &e) < 0);
    assert_null(none);
    assert_int_equal(e.status, 429);
    adapter_unref(&a);
    a = take(s, "n2");
    assert_int_equal(a->max_rank, 3);
    adapter_unref(&a);
    adapter_unref(&b);
    adapter_set_destroy(&s);
}

/* A name that is forgotten or given away leaves what is held alone; its bytes count until then. */
static void what_is_held_stays(void **state)
{
    struct api_error e = {0};
    struct adapter_set *s;
    struct adapter *a;
    uint64_t id[2];
    (void)state;

    assert_int_equal(create(&s, "", 1u << 30), 0);
    assert_int_equal(load(s, "x", "0.gguf", false, &e), 0);
    a = take(s, "x");
    memcpy(id, a->id, sizeof(id));
    assert_true(load(s, "x", "1.gguf", false, &e) < 0);
    assert_int_equal(e.status, 400);
    assert_int_equal(load(s, "x", "1.gguf", true, &e), 0);
    assert_int_equal(a->max_rank, 1);
    assert_memory_equal(a->id, id, sizeof(id));
    assert_int_equal(stats_of(s).n_known, 1);
    assert_int_equal(stats_of(s).n_resident, 2);
    adapter_unref(&a);
    assert_int_equal(adapter_set_unload(s, "x", &e), 0);
    assert_int_equal(stats_of(s).n_known, 0);
    assert_int_equal(stats_of(s).n_resident, 0);
    assert_int_equal(stats_of(s).bytes, 0);
    assert_true(adapter_set_unload(s, "x", &e) < 0);
    assert_int_equal(e.status, 404);
    adapter_set_destroy(&s);
}

/* The same numbers have the same id, whatever they are called; others another. */
static void ids_are_of_numbers(void **state)
{
    struct api_error e = {0};
    struct adapter *a[3];
    struct adapter_set *s;
    (void)state;

    assert_int_equal(create(&s, "", 1u << 30), 0);
    assert_int_equal(load(s, "x", "0.gguf", false, &e), 0);
    assert_int_equal(load(s, "y", "0.gguf", false, &e), 0);
    assert_int_equal(load(s, "z", "1.gguf", false, &e), 0);
    a[0] = take(s, "x");
    a[1] = take(s, "y");
    a[2] = take(s, "z");
    assert_memory_equal(a[0]->id, a[1]->id, sizeof(a[0]->id));
    assert_memory_not_equal(a[0]->id, a[2]->id, sizeof(a[0]->id));
    for (int i = 0; i < 3; i++)
        adapter_unref(&a[i]);
    adapter_set_destroy(&s);
}

static void wrong_settings(void **state)
{
    struct adapter_set *s;
    (void)state;

    assert_true(create(&s, "x=/nonexistent.gguf", 1u << 30) < 0);
    assert_true(create(&s, "/dev/null", 1u << 30) < 0);
}

/* Whichever allocation fails, what was there stays as it was, and the next try works. */
static void survives_a_failure_of_any_allocation(void **state)
{
    char list[100];
    int64_t n = 0;
    (void)state;

    snprintf(list, sizeof(list), "x=%s/0.gguf", shared.folder);
    while (each_failure(&n)) {
        struct adapter_set *s = NULL;
        struct api_error e = {0};
        const bool is_made = create(&s, list, 1u << 30) == 0;

        assert_true(n < MOST_ALLOCATIONS);
        if (is_made && load(s, "y", "1.gguf", false, &e) < 0)
            assert_true(e.status == 500 || e.status == 400);
        if (is_made && mem_has_failed()) {
            struct adapter *a;

            mem_fail_after(-1);
            a = take(s, "x");
            adapter_unref(&a);
            assert_int_equal(load(s, "z", "2.gguf", false, &e), 0);
            mem_fail_after(0); /* for each_failure(): */
            assert_null(mem_alloc(1));
        }
        adapter_set_destroy(&s);
    }
}

/* ---- with a pool ---- */

/* A set with room for one adapter, y; x has to be read again, on a thread of the pool, which has
 * none before run(). */
struct world {
    uv_loop_t loop;
    struct worker_pool *pool;
    struct adapter_set *set;
};

static void begin(struct world *w, uint32_t max_waiting)
{
    const struct worker_pool_options o = {.loop = &w->loop, .max_waiting = max_waiting};
    char list[200];
    uint64_t one;

    snprintf(list, sizeof(list), "x=%s/0.gguf,y=%s/0.gguf", shared.folder, shared.folder);
    w->loop.data = NULL; /* no loop_guard: uv_loop_init() leaves it as it was */
    assert_int_equal(uv_loop_init(&w->loop), 0);
    assert_int_equal(worker_pool_create(&w->pool, &o), 0);
    assert_int_equal(create(&w->set, list, 1u << 30), 0);
    one = bytes_of(w->set, "x");
    adapter_set_destroy(&w->set);
    assert_int_equal(create(&w->set, list, one + 1024), 0);
    assert_int_equal(stats_of(w->set).n_resident, 1);
    adapter_set_read_on(w->set, w->pool);
}

static void run(struct world *w)
{
    assert_int_equal(worker_pool_start(w->pool, 1), 0);
    while (!adapter_set_is_idle(w->set))
        uv_run(&w->loop, UV_RUN_ONCE);
}

static void end(struct world *w)
{
    worker_pool_stop(w->pool);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    worker_pool_destroy(&w->pool);
    adapter_set_destroy(&w->set);
}

static void wait_for(struct world *w, const char *name, struct waiting *to)
{
    struct api_error e = {0};
    struct adapter *a;

    *to = waiting();
    assert_int_equal(adapter_set_take(w->set, name, &to->wait, &a, &e), ERR_AGAIN);
    assert_null(a);
    assert_int_equal(e.status, 0);
}

static void is_served(struct waiting *w)
{
    assert_int_equal(w->n_told, 1);
    assert_int_equal(w->wait.error.status, 0);
    assert_non_null(w->wait.adapter);
    assert_int_equal(w->wait.adapter->max_rank, 1);
    adapter_unref(&w->wait.adapter);
}

static void one_leaves_and_the_others_are_served(void **state)
{
    struct waiting w[3];
    struct world world;
    (void)state;

    begin(&world, 8);
    for (int i = 0; i < 3; i++)
        wait_for(&world, "x", &w[i]);
    assert_true(adapter_wait_cancel(&w[1].wait));
    assert_false(adapter_wait_cancel(&w[1].wait));
    run(&world);
    is_served(&w[0]);
    assert_int_equal(w[1].n_told, 0);
    is_served(&w[2]);
    assert_int_equal(stats_of(world.set).n_reads, 3); /* y and x at the start, x once more */
    end(&world);
}

static void a_file_that_nobody_waits_for_is_not_read(void **state)
{
    const struct adapter_source what = {"z", "1.gguf", false};
    struct waiting w, load = waiting();
    struct api_error e = {0};
    struct world world;
    (void)state;

    begin(&world, 8);
    wait_for(&world, "x", &w);
    assert_int_equal(adapter_set_load(world.set, &what, &load.wait, &e), ERR_AGAIN);
    assert_true(adapter_wait_cancel(&w.wait));
    assert_true(adapter_wait_cancel(&load.wait));
    run(&world);
    assert_int_equal(w.n_told + load.n_told, 0);
    assert_int_equal(stats_of(world.set).n_reads, 2);
    assert_int_equal(stats_of(world.set).bytes, bytes_of(world.set, "y"));
    assert_false(adapter_set_has(world.set, "z"));
    end(&world);
}

/* The read was canceled before its thread came to it: it is begun again for the one that came. */
static void a_wait_after_the_last_has_left_is_served(void **state)
{
    struct waiting w, later;
    struct world world;
    (void)state;

    begin(&world, 8);
    wait_for(&world, "x", &w);
    assert_true(adapter_wait_cancel(&w.wait));
    wait_for(&world, "x", &later);
    run(&world);
    is_served(&later);
    end(&world);
}

static void too_many_reads_are_refused(void **state)
{
    const struct adapter_source what = {"z", "1.gguf", false};
    struct waiting w, load = waiting();
    struct api_error e = {0};
    struct world world;
    (void)state;

    begin(&world, 1);
    wait_for(&world, "x", &w);
    assert_int_equal(adapter_set_load(world.set, &what, &load.wait, &e), ERR_AGAIN);
    assert_int_equal(load.n_told, 1);
    assert_int_equal(load.wait.error.status, 429);
    assert_null(load.wait.adapter);
    run(&world);
    is_served(&w);
    assert_false(adapter_set_has(world.set, "z"));
    end(&world);
}

static void a_name_that_is_unloaded_meanwhile(void **state)
{
    struct api_error e = {0};
    struct waiting w;
    struct world world;
    (void)state;

    begin(&world, 8);
    wait_for(&world, "x", &w);
    assert_int_equal(adapter_set_unload(world.set, "x", &e), 0);
    run(&world);
    assert_int_equal(stats_of(world.set).n_known, 1);
    is_served(&w);
    assert_int_equal(adapter_set_unload(world.set, "y", &e), 0);
    assert_int_equal(stats_of(world.set).bytes, 0);
    end(&world);
}

/* At the end of the server all are told, and nothing is begun. */
static void closed(void **state)
{
    const struct adapter_source what = {"z", "1.gguf", false};
    struct api_error e = {0};
    struct waiting w[2];
    struct adapter *a;
    struct world world;
    (void)state;

    begin(&world, 8);
    wait_for(&world, "x", &w[0]);
    wait_for(&world, "x", &w[1]);
    adapter_set_close(world.set);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(w[i].n_told, 1);
        assert_int_equal(w[i].wait.error.status, 503);
        assert_false(adapter_wait_cancel(&w[i].wait));
    }
    assert_true(adapter_set_take(world.set, "x", &w[0].wait, &a, &e) != ERR_AGAIN);
    assert_int_equal(e.status, 503);
    e = (struct api_error){0};
    assert_true(adapter_set_load(world.set, &what, &w[0].wait, &e) != ERR_AGAIN);
    assert_int_equal(e.status, 503);
    assert_false(adapter_set_is_idle(world.set));
    run(&world);
    assert_int_equal(stats_of(world.set).n_reads, 2);
    end(&world);
}

static int set_up(void **state)
{
    const struct model_options options = {.threads = 1};
    struct gguf *g;
    size_t bytes;
    const void *data = demo_model(&bytes);
    char err[400];
    (void)state;

    snprintf(shared.folder, sizeof(shared.folder), "/tmp/quire-adapters-XXXXXX");
    assert_non_null(mkdtemp(shared.folder));
    assert_int_equal(gguf_open_memory(&g, "demo", data, bytes, err, sizeof(err)), 0);
    assert_int_equal(model_load(&shared.model, g, &options, err, sizeof(err)), 0);
    gguf_close(&g);
    for (int i = 0; i < N_FILES; i++)
        write_file(i);
    return 0;
}

static int finish(void **state)
{
    char path[100];
    (void)state;

    for (int i = 0; i < N_FILES; i++) {
        snprintf(path, sizeof(path), "%s/%d.gguf", shared.folder, i);
        unlink(path);
    }
    rmdir(shared.folder);
    model_destroy(&shared.model);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_set_has_nothing),
        cmocka_unit_test(the_least_recently_used_leaves),
        cmocka_unit_test(what_is_held_stays),
        cmocka_unit_test(ids_are_of_numbers),
        cmocka_unit_test(wrong_settings),
        cmocka_unit_test(survives_a_failure_of_any_allocation),
        cmocka_unit_test(one_leaves_and_the_others_are_served),
        cmocka_unit_test(a_file_that_nobody_waits_for_is_not_read),
        cmocka_unit_test(a_wait_after_the_last_has_left_is_served),
        cmocka_unit_test(too_many_reads_are_refused),
        cmocka_unit_test(a_name_that_is_unloaded_meanwhile),
        cmocka_unit_test(closed),
    };

    return cmocka_run_group_tests(tests, set_up, finish);
}
