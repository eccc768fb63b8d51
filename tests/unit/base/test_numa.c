/* tests/unit/base/test_numa.c - where the pages of mappings lie.
 *
 * On a machine with several memory nodes (make test-numa starts one) the kernel is asked for the
 * node of each page; on others placing must do no harm, for nodes that are not there either.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/cpus.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/numa.h"

#define PAGE 4096

static struct cpus here;

static bool has_nodes(void)
{
    return cpus_n_nodes(&here) > 1;
}

static char *touched(const struct numa *numa, size_t bytes,
                     int (*place)(const struct numa *numa, void *p, size_t bytes))
{
    char *p = mem_map(bytes);
    int rc;

    assert_non_null(p);
    rc = place(numa, p, bytes);
    assert_true(rc == 0 || (rc == ERR_UNSUPPORTED && !has_nodes()));
    for (size_t i = 0; i < bytes; i += PAGE)
        p[i]++;
    for (size_t i = 0; i < bytes; i += PAGE)
        assert_int_equal(p[i], 1);
    return p;
}

/* Pages of [from, from + bytes) on a node; -1: the kernel does not tell, or there is one node. */
static int64_t pages_on(const char *from, size_t bytes, uint32_t node)
{
    uint64_t count[64];

    if (!has_nodes() || numa_count(from, bytes, PAGE, count) == 0)
        return -1;
    return (int64_t)count[node];
}

/* Halves of whole huge pages; the second may be shorter, or empty. */
static void parts_lie_on_their_nodes(void **state)
{
    static const size_t sizes[] = {6 * MEM_HUGE_PAGE, 5 * MEM_HUGE_PAGE + 12345, PAGE};
    struct numa numa = {.mode = NUMA_LOCAL, .n = 2, .nodes = {1, 0}};
    (void)state;

    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        const size_t bytes = sizes[s], half = 3 * MEM_HUGE_PAGE < bytes ? 3 * MEM_HUGE_PAGE : bytes;
        char *p = touched(&numa, bytes, numa_place);
        const int64_t first = pages_on(p, half, 1);

        if (first >= 0) {
            assert_int_equal(first, (half + PAGE - 1) / PAGE);
            if (bytes > half)
                assert_int_equal(pages_on(p + half, bytes - half, 0),
                                 (bytes - half + PAGE - 1) / PAGE);
            assert_true(numa_placed_share(&numa, p, bytes) == 1.0);
            numa.nodes[0] = 0;
            numa.nodes[1] = 1;
            assert_true(numa_placed_share(&numa, p, bytes) == 0.0);
            numa.nodes[0] = 1;
            numa.nodes[1] = 0;
        }
        mem_unmap(p, bytes);
    }
}

static void pages_lie_on_all_nodes_in_turn(void **state)
{
    const struct numa numa = {.mode = NUMA_INTERLEAVE, .n = 2, .nodes = {0, 1}};
    const size_t bytes = 8 * MEM_HUGE_PAGE;
    char *p = touched(&numa, bytes, numa_spread);
    const int64_t n = pages_on(p, bytes, 0);
    (void)state;

    if (n >= 0) {
        assert_int_equal(n, bytes / PAGE / 2);
        assert_int_equal(pages_on(p, bytes, 1), n);
    }
    mem_unmap(p, bytes);
}

/* One of several nodes; and with NUMA_OFF nothing is asked of the kernel. */
static void one_node_has_all(void **state)
{
    struct numa numa = {.mode = NUMA_LOCAL, .n = 1, .nodes = {1}};
    const size_t bytes = 4 * MEM_HUGE_PAGE;
    char *p = touched(&numa, bytes, numa_spread), *q = touched(&numa, bytes, numa_place);
    (void)state;

    if (has_nodes()) {
        assert_int_equal(pages_on(p, bytes, 1), bytes / PAGE);
        assert_int_equal(pages_on(q, bytes, 1), bytes / PAGE);
    }
    assert_int_equal(numa_n_parts(&numa), 1);
    numa.mode = NUMA_OFF;
    assert_int_equal(numa_place(&numa, p, bytes), 0);
    assert_int_equal(numa_spread(NULL, p, bytes), 0);
    assert_int_equal(numa_n_parts(NULL), 1);
    mem_unmap(p, bytes);
    mem_unmap(q, bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_lie_on_their_nodes),
        cmocka_unit_test(pages_lie_on_all_nodes_in_turn),
        cmocka_unit_test(one_node_has_all),
    };

    cpus_read(&here, "");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
