/* tests/unit/runtime/test_topology.c - the CPUs as /sys and /proc of a folder describe them, and
 * the groups that threads on them make. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/cpus.h"
#include "core/base/numa.h"
#include "core/runtime/topology.h"

static char root[32];

static void make_root(void)
{
    snprintf(root, sizeof(root), "/tmp/quire-cpus-XXXXXX");
    assert_non_null(mkdtemp(root));
}

static void write_text(const char *path, const char *text)
{
    char full[512], *slash = full;
    FILE *f;

    snprintf(full, sizeof(full), "%s%s", root, path);
    while ((slash = strchr(slash + 1, '/')) != NULL) {
        *slash = '\0';
        (void)mkdir(full, 0700);
        *slash = '/';
    }
    f = fopen(full, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static void remove_root(void)
{
    assert_int_equal(nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* ---- a machine of the process's own CPUs ---- */

/* A machine of folders: the process's own mask, but cores, nodes and quota as we like. */
static void cpus_are_read_from_the_system(void **state)
{
    struct cpus real, c;
    char path[128];
    uint32_t quota;
    (void)state;

    cpus_read(&real, "");
    assert_true(real.n >= 1 && real.n_cores >= 1 && real.n_cores <= real.n);
    assert_true(cpus_threads(&real) >= 1 && cpus_threads(&real) <= real.n_cores);
    make_root();

    cpus_read(&c, root); /* nothing there: each CPU is a core, one node or none */
    assert_int_equal(c.n, real.n);
    assert_int_equal(c.n_cores, real.n);
    assert_int_equal(c.nodes, 0);
    assert_int_equal(c.quota, 0);

    for (uint32_t i = 0; i < real.n; i++) { /* all CPUs on one core */
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list",
                 real.cpu[i].id);
        write_text(path, "0-8191\n");
    }
    write_text("/sys/devices/system/node/node0/cpulist", "0-8191\n");
    write_text("/sys/devices/system/node/node5/cpulist", "0,2-8191\n");
    write_text("/sys/devices/system/node/node7/cpulist", "\n"); /* memory only */
    cpus_read(&c, root);
    assert_int_equal(c.n, real.n);
    assert_int_equal(c.n_cores, 1);
    assert_int_equal(cpus_threads(&c), 1);
    assert_int_equal(c.nodes & 1, 1);
    assert_int_equal(c.nodes & ~(uint64_t)0x21, 0);

    write_text("/proc/self/cgroup", "12:cpu:/old\n0::/a/b\n");
    write_text("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    cpus_read(&c, root);
    assert_int_equal(c.quota, 0);
    write_text("/sys/fs/cgroup/a/cpu.max", "750000 100000\n");
    cpus_read(&c, root);
    assert_int_equal(c.quota, 7);
    write_text("/sys/fs/cgroup/cpu.max", "50000 100000\n");
    cpus_read(&c, root);
    assert_int_equal(c.quota, 1);
    write_text("/sys/fs/cgroup/cpu.max", "900000 100000\n");
    write_text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    write_text("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    cpus_read(&c, root);
    quota = c.quota;
    write_text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n");
    cpus_read(&c, root);
    assert_int_equal(quota, 7);
    assert_int_equal(c.quota, 3);
    remove_root();
}

static void threads_follow_the_cores(void **state)
{
    static const struct {
        uint32_t n, n_cores, quota, threads;
    } cases[] = {
        {1, 1, 0, 1},   {2, 2, 0, 2},    {4, 2, 0, 2},  {16, 16, 0, 16}, {17, 17, 0, 16},
        {32, 32, 0, 31}, {128, 64, 0, 64}, {64, 64, 0, 63}, {8, 8, 3, 3},  {2, 2, 16, 2},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct cpus c = {
            .n = cases[i].n, .n_cores = cases[i].n_cores, .quota = cases[i].quota};

        assert_int_equal(cpus_threads(&c), cases[i].threads);
    }
}

/* ---- machines of our own ---- */

#define LIST_BYTES 4096

struct machine {
    uint32_t n_nodes, n_caches, n_cores; /* caches of a node, cores of a cache */
    uint32_t n_cpus;                     /* of a core */
};

/* CPUs are numbered as firmware often does: those of all nodes in turn, and the cores' second ones
 * behind all first ones. */
static uint32_t number(const struct machine *m, uint32_t node, uint32_t core, uint32_t cpu)
{
    const uint32_t all = m->n_nodes * m->n_caches * m->n_cores;

    return cpu * all + core * m->n_nodes + node;
}

/* The list of CPUs of cores `first` .. `first + n - 1` of a node. */
static void list_cpus(const struct machine *m, uint32_t node, uint32_t first, uint32_t n,
                      char *list)
{
    size_t at = 0;

    for (uint32_t cpu = 0; cpu < m->n_cpus; cpu++)
        for (uint32_t core = first; core < first + n; core++)
            at += (size_t)snprintf(list + at, LIST_BYTES - at, "%s%u", at == 0 ? "" : ",",
                                   number(m, node, core, cpu));
    snprintf(list + at, LIST_BYTES - at, "\n");
}

static void write_cpu(const struct machine *m, uint32_t node, uint32_t core, uint32_t cpu)
{
    const uint32_t id = number(m, node, core, cpu), cache = core / m->n_cores * m->n_cores;
    char path[128], list[LIST_BYTES];

    list_cpus(m, node, core, 1, list);
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", id);
    write_text(path, list);
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/cache/index0/shared_cpu_list", id);
    write_text(path, list);
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/cache/index0/level", id);
    write_text(path, "1\n");
    list_cpus(m, node, cache, m->n_cores, list);
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/cache/index1/shared_cpu_list", id);
    write_text(path, list);
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/cache/index1/level", id);
    write_text(path, "3\n");
}

static void allow(const char *cpus)
{
    char text[256];

    snprintf(text, sizeof(text), "Name:\tquire\nCpus_allowed:\tff\nCpus_allowed_list:\t%s\n", cpus);
    write_text("/proc/self/status", text);
}

static void write_machine(const struct machine *m)
{
    char path[128], text[LIST_BYTES];

    for (uint32_t node = 0; node < m->n_nodes; node++) {
        for (uint32_t core = 0; core < m->n_caches * m->n_cores; core++)
            for (uint32_t cpu = 0; cpu < m->n_cpus; cpu++)
                write_cpu(m, node, core, cpu);
        list_cpus(m, node, 0, m->n_caches * m->n_cores, text);
        snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/cpulist", node);
        write_text(path, text);
    }
}

/* Threads, caches, nodes, groups, and the first group's size. */
static void expect(const struct cpus *c, uint32_t n_threads, uint32_t n_caches, uint32_t n_nodes,
                   uint32_t n_groups, uint32_t n_first)
{
    struct topology_group groups[CPUS_MAX];
    uint32_t next = 0;

    assert_int_equal(cpus_threads(c), n_threads);
    assert_int_equal(cpus_n_caches(c), n_caches);
    assert_int_equal(cpus_n_nodes(c), n_nodes);
    assert_int_equal(topology_groups(groups, c, n_threads), n_groups);
    assert_int_equal(groups[0].n, n_first);
    for (uint32_t g = 0; g < n_groups; g++) {
        assert_int_equal(groups[g].first, next);
        assert_in_range(groups[g].n, 1, TOPOLOGY_GROUP);
        for (uint32_t i = next; i < next + groups[g].n; i++)
            assert_int_equal(c->cpu[i].node, groups[g].node);
        next += groups[g].n;
    }
    assert_int_equal(next, n_threads);
}

static void two_sockets_of_shared_caches(void **state)
{
    const struct machine m = {.n_nodes = 2, .n_caches = 3, .n_cores = 4, .n_cpus = 2};
    struct cpus c;
    (void)state;

    make_root();
    write_machine(&m);
    allow("0-47");
    cpus_read(&c, root);
    assert_int_equal(c.n, 48);
    assert_int_equal(c.n_cores, 24);
    for (uint32_t i = 0; i < 48; i++) { /* the order is nodes, caches, cores; numbers alternate */
        assert_int_equal(c.cpu[i].node, i % 24 / 12);
        assert_int_equal(c.cpu[i].cache, i % 12 / 4 * 8 + i % 24 / 12);
        assert_int_equal(c.cpu[i].id, i % 12 * 2 + i % 24 / 12 + i / 24 * 24);
    }
    expect(&c, 24, 6, 2, 6, 4);

    allow("1,3,5,7,9,11,13,15,17,19,21,23"); /* one socket's first CPUs */
    cpus_read(&c, root);
    assert_int_equal(c.nodes, 2);
    expect(&c, 12, 3, 1, 3, 4);

    allow("0-3,24-27"); /* two cores of each, in one cache each, both CPUs */
    cpus_read(&c, root);
    assert_int_equal(c.n, 8);
    expect(&c, 4, 2, 2, 2, 2);
    remove_root();
}

static void large_caches_make_several_groups(void **state)
{
    const struct machine m = {.n_nodes = 1, .n_caches = 1, .n_cores = 20, .n_cpus = 2};
    struct cpus c;
    (void)state;

    make_root();
    write_machine(&m);
    allow("0-39");
    cpus_read(&c, root);
    expect(&c, 20, 1, 1, 2, 10);
    allow("0-19"); /* no second CPU: one core is left to the I/O thread */
    cpus_read(&c, root);
    expect(&c, 19, 1, 1, 2, 9);
    allow("0-9,20-29");
    cpus_read(&c, root);
    expect(&c, 10, 1, 1, 1, 10);
    remove_root();
}

static void private_caches_make_no_groups(void **state)
{
    const struct machine m = {.n_nodes = 2, .n_caches = 8, .n_cores = 1, .n_cpus = 1};
    struct cpus c;
    (void)state;

    make_root();
    write_machine(&m);
    allow("0-15");
    cpus_read(&c, root);
    expect(&c, 16, 16, 2, 2, 8);
    remove_root();
}

/* ---- where memory is to be ---- */

static void expect_plan(const struct cpus *c, uint32_t n_threads, enum numa_mode wanted,
                        enum numa_mode mode, uint32_t n, uint32_t first)
{
    struct numa numa;

    numa_plan(&numa, c, n_threads, wanted);
    assert_int_equal(numa.mode, mode);
    assert_int_equal(numa.n, n);
    if (n > 0)
        assert_int_equal(numa.nodes[0], first);
    assert_int_equal(numa_n_parts(&numa), mode == NUMA_LOCAL ? n : 1);
    if (wanted == NUMA_LOCAL && cpus_n_nodes(c) > 1)
        assert_int_equal(numa_can_be_local(c, n_threads), mode == NUMA_LOCAL);
}

static void memory_is_planned_for_the_threads(void **state)
{
    const struct machine m = {.n_nodes = 2, .n_caches = 1, .n_cores = 10, .n_cpus = 2};
    struct cpus c;
    (void)state;

    make_root();
    write_machine(&m);
    allow("0-39");
    cpus_read(&c, root);
    expect_plan(&c, 20, NUMA_LOCAL, NUMA_LOCAL, 2, 0);
    expect_plan(&c, 20, NUMA_INTERLEAVE, NUMA_INTERLEAVE, 2, 0);
    expect_plan(&c, 20, NUMA_OFF, NUMA_OFF, 0, 0);
    expect_plan(&c, 19, NUMA_LOCAL, NUMA_LOCAL, 2, 0);      /* 10 and 9 */
    expect_plan(&c, 18, NUMA_LOCAL, NUMA_INTERLEAVE, 2, 0); /* 10 and 8: too uneven */
    expect_plan(&c, 7, NUMA_LOCAL, NUMA_LOCAL, 1, 0);       /* all on one of the nodes */
    expect_plan(&c, 40, NUMA_LOCAL, NUMA_INTERLEAVE, 2, 0); /* first ones of both, then second */
    expect_plan(&c, 1000, NUMA_LOCAL, NUMA_INTERLEAVE, 2, 0);

    allow("1,3,5,7"); /* one node's */
    cpus_read(&c, root);
    expect_plan(&c, 4, NUMA_LOCAL, NUMA_OFF, 0, 0);
    expect_plan(&c, 4, NUMA_INTERLEAVE, NUMA_OFF, 0, 0);

    allow("0-3"); /* two cores of each */
    cpus_read(&c, root);
    expect_plan(&c, 4, NUMA_LOCAL, NUMA_LOCAL, 2, 0);
    remove_root();
}

/* Three nodes whose numbers have gaps, the first one without CPUs of ours. */
static void nodes_may_have_any_numbers(void **state)
{
    struct cpus c = {.n = 12, .n_cores = 12, .nodes = 1ull << 4 | 1ull << 9 | 1ull << 63};
    struct numa numa;
    (void)state;

    for (uint16_t i = 0; i < 12; i++)
        c.cpu[i] = (struct cpu){.id = i, .node = (uint16_t[]){4, 9, 63}[i / 4]};
    numa_plan(&numa, &c, 12, NUMA_LOCAL);
    assert_int_equal(numa.mode, NUMA_LOCAL);
    assert_int_equal(numa.n, 3);
    assert_memory_equal(numa.nodes, ((uint8_t[]){4, 9, 63}), 3);
    numa_plan(&numa, &c, 6, NUMA_LOCAL); /* 4 and 2 */
    assert_int_equal(numa.mode, NUMA_INTERLEAVE);
    assert_memory_equal(numa.nodes, ((uint8_t[]){4, 9, 63}), 3);
    c.nodes = 0x1ffff; /* 17 nodes */
    numa_plan(&numa, &c, 12, NUMA_INTERLEAVE);
    assert_int_equal(numa.mode, NUMA_OFF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpus_are_read_from_the_system),
        cmocka_unit_test(threads_follow_the_cores),
        cmocka_unit_test(two_sockets_of_shared_caches),
        cmocka_unit_test(large_caches_make_several_groups),
        cmocka_unit_test(private_caches_make_no_groups),
        cmocka_unit_test(memory_is_planned_for_the_threads),
        cmocka_unit_test(nodes_may_have_any_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
