/* tests/numa/test_placed.c - on a machine with two memory nodes: panels are on the node of the
 * threads whose share they are, threads stay there, and blocks are on both.
 *
 * The kernel is asked with move_pages(), not by the code that is tested. For the virtual machine of
 * `make test-numa`: four CPUs on two nodes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/cpus.h"
#include "core/base/mem.h"
#include "core/base/numa.h"
#include "core/formats/gguf/gguf.h"
#include "core/formats/gguf/write.h"
#include "core/model/model.h"
#include "core/runtime/limits/numa_choice.h"
#include "core/runtime/thread_pool.h"
#include "kvcache/kv_store.h"
#include "kvcache/state_store.h"
#include "tests/tools/fixture.h"

#define N_THREADS 4
#define PAGE 4096

static struct cpus here;

static uint32_t node_of_page(const void *p)
{
    void *page = (void *)((uintptr_t)p & ~(uintptr_t)(PAGE - 1));
    int node = -1;

    assert_int_equal(syscall(SYS_move_pages, 0, 1ul, &page, NULL, &node, 0), 0);
    assert_in_range(node, 0, 1);
    return (uint32_t)node;
}

/* ---- weights ---- */

static const struct fixture dense = {.arch = "llama", .n_embd = 512, .n_layer = 2, .n_head = 8,
                                     .n_kv_head = 2, .head_dim = 64, .n_ff = 2048, .n_vocab = 2000,
                                     .n_ctx = 256, .type = BLOCK_Q8_0, .seed = 1};
static const struct fixture experts = {.arch = "qwen3moe", .n_embd = 256, .n_layer = 2, .n_head = 4,
                                       .n_kv_head = 2, .head_dim = 64, .n_ff = 480, .n_expert = 8,
                                       .n_used = 2, .n_vocab = 1000, .n_ctx = 256,
                                       .type = BLOCK_Q4_0, .seed = 1};

static void write_model(const struct fixture *shape, const char *path)
{
    struct fixture f = *shape;
    struct gguf_writer *w;
    uint8_t *data;
    size_t bytes;
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_int_equal(gguf_writer_create(&w), 0);
    assert_int_equal(fixture_add(&f, w), 0);
    assert_int_equal(gguf_writer_finish(w, &data, &bytes), 0);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    gguf_writer_destroy(&w);
    fixture_release(&f);
    mem_free(data);
}

static struct model *load(const char *path, const struct numa *numa)
{
    const struct model_options options = {.threads = 3, .weight_cache = "", .numa = numa};
    struct gguf *g;
    struct model *m;
    char err[400];

    if (gguf_open(&g, path, err, sizeof(err)) < 0 ||
        model_load(&m, g, &options, err, sizeof(err)) < 0)
        fail_msg("%s", err);
    gguf_close(&g);
    return m;
}

/* The first page of every panel. */
static void check_matrix(const struct matrix *m)
{
    uint32_t on[2] = {0};

    for (uint32_t each = 0; each < m->n_each; each++)
        for (uint32_t p = 0; p < m->n_panels; p++) {
            const uint32_t node = node_of_page(matrix_panel(m, each, p));

            /* The thread that has the panel in its share, of a region of this matrix alone. */
            const uint32_t owner = (uint32_t)((uint64_t)p * N_THREADS / m->n_panels);

            assert_int_equal(node, matrix_part_of(m, p));
            on[node] += node == here.cpu[owner].node;
        }
    if (m->n_panels % 4 == 0) /* else a pair at the cut may be the other's */
        assert_int_equal(on[0] + on[1], m->n_each * m->n_panels);
}

static void check_model(const struct model *m, const struct numa *numa)
{
    assert_int_equal(m->n_parts, 2);
    assert_true(model_placed_share(m, numa) == 1.0);
    check_matrix(&m->embed);
    check_matrix(&m->output);
    for (uint32_t i = 0; i < m->shape.n_layer; i++) {
        const struct model_layer *l = &m->layers[i];
        const struct matrix *all[] = {&l->q, &l->k, &l->v, &l->attn_out, &l->router,
                                      &l->ffn.gate, &l->ffn.up, &l->ffn.down,
                                      &l->experts.gate, &l->experts.up, &l->experts.down};

        for (size_t j = 0; j < sizeof(all) / sizeof(all[0]); j++)
            if (matrix_exists(all[j]))
                check_matrix(all[j]);
    }
}

/* Packed, and then from the cache that was written of it. */
static void check_fixture(const struct fixture *f, const char *path)
{
    struct numa numa;
    struct model *m;

    numa_plan(&numa, &here, N_THREADS, NUMA_LOCAL);
    assert_int_equal(numa.n, 2);
    write_model(f, path);
    for (int round = 0; round < 2; round++) {
        m = load(path, &numa);
        if (round == 1)
            assert_true(m->is_cached);
        check_model(m, &numa);
        for (int i = 0; i < 100 && !m->is_cached; i++) { /* until the cache is written */
            char cache[128];

            snprintf(cache, sizeof(cache), "%s.quire-cache", path);
            if (access(cache, R_OK) == 0)
                break;
            usleep(100000);
        }
        model_destroy(&m);
    }
    m = load(path, NULL); /* its panels have another layout */
    assert_false(m->is_cached);
    assert_int_equal(m->n_parts, 1);
    model_destroy(&m);
}

static void panels_of_dense_models(void **state)
{
    (void)state;
    check_fixture(&dense, "/tmp/dense.gguf");
}

static void panels_of_experts(void **state)
{
    (void)state;
    check_fixture(&experts, "/tmp/experts.gguf");
}

/* ---- threads, blocks and states ---- */

static void note_node(void *ud, struct thread_pool_worker *w)
{
    uint32_t *nodes = ud;
    unsigned cpu;

    for (int i = 0; i < 50; i++) {
        assert_int_equal(syscall(SYS_getcpu, &cpu, &nodes[w->index], NULL), 0);
        thread_pool_barrier(w);
    }
}

static void threads_stay_on_their_nodes(void **state)
{
    const struct thread_pool_options options = {
        .n_threads = N_THREADS, .keep_nodes = true, .cpus = &here};
    uint32_t nodes[N_THREADS] = {9, 9, 9, 9};
    struct thread_pool *t;
    cpu_set_t before;
    (void)state;

    assert_int_equal(thread_pool_create(&t, &options), 0);
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    thread_pool_run(t, note_node, nodes);
    thread_pool_destroy(&t);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    for (uint32_t i = 0; i < N_THREADS; i++)
        assert_int_equal(nodes[i], here.cpu[i].node);
}

/* As many pages on either node, but for the last one. */
static void expect_both_nodes(uint8_t *p, size_t bytes)
{
    int64_t on[2] = {0};

    for (size_t i = 0; i < bytes; i += PAGE) {
        p[i] = 1;
        on[node_of_page(p + i)]++;
    }
    assert_true(on[0] > 0 && llabs(on[0] - on[1]) <= (int64_t)(MEM_HUGE_PAGE / PAGE));
}

static void blocks_and_states_are_on_both_nodes(void **state)
{
    const struct kv_shape shape = {
        .n_layer = 4, .n_kv_head = 2, .key_bytes = 4096, .value_bytes = 4096};
    struct kv_store *kv;
    struct state_store *states;
    struct numa numa;
    (void)state;

    for (int i = 0; i < 2; i++) {
        numa_plan(&numa, &here, N_THREADS, i == 0 ? NUMA_LOCAL : NUMA_INTERLEAVE);
        assert_int_equal(kv_store_create(&kv, &shape, 250), 0);
        kv_store_spread(kv, &numa);
        expect_both_nodes(kv->data, kv->bytes);
        kv_store_destroy(&kv);
        assert_int_equal(state_store_create(&states, 1 << 20, 15), 0);
        state_store_spread(states, &numa);
        expect_both_nodes((uint8_t *)state_store_at(states, 1) - (1 << 20), 16 << 20);
        state_store_destroy(&states);
    }
}

static void both_ways_are_measured(void **state)
{
    struct numa numa;
    struct cpus after;
    (void)state;

    numa_choose(&numa, &here, N_THREADS);
    assert_true(numa.local_gbps > 0 && numa.interleaved_gbps > 0);
    assert_int_equal(numa.mode, numa.local_gbps > NUMA_CHOICE_GAIN * numa.interleaved_gbps
                                    ? NUMA_LOCAL
                                    : NUMA_INTERLEAVE);
    numa_choose(&numa, &here, 3); /* two and one: they are not even */
    assert_int_equal(numa.mode, NUMA_INTERLEAVE);
    assert_true(numa.local_gbps == 0);
    cpus_read(&after, ""); /* this thread may run anywhere again */
    assert_int_equal(after.n, N_THREADS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(panels_of_dense_models),
        cmocka_unit_test(panels_of_experts),
        cmocka_unit_test(threads_stay_on_their_nodes),
        cmocka_unit_test(blocks_and_states_are_on_both_nodes),
        cmocka_unit_test(both_ways_are_measured),
    };

    cpus_read(&here, "");
    if (here.n != N_THREADS || cpus_n_nodes(&here) != 2) {
        fputs("four CPUs on two nodes are wanted: make test-numa\n", stderr);
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
