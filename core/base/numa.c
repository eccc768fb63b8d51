/* core/base/numa.c - see numa.h.
 *
 * Placement is one mbind() for each part of a mapping, before its pages are touched; afterwards the
 * kernel places each page on its first write. The system calls are made directly, without libnuma.
 * Whether it worked is found by sampling pages with get_mempolicy(), which the log reports at
 * start.
 */
#include "core/base/numa.h"

#include "core/base/cpus.h"
#include "core/base/err.h"
#include "core/base/mem.h"

#include <linux/mempolicy.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MASK_BITS 65ul /* the kernel reads one bit less than it is told */

/* ---- the plan ---- */

/* Return the node of a thread; threads beyond the last CPU count as there (topology.c). */
static uint32_t node_of(const struct cpus *c, uint32_t thread)
{
    return c->cpu[thread < c->n ? thread : c->n - 1].node;
}

/* List the nodes of the threads in their order, and the number of threads of each; 0 when a node
 * comes twice, or there are too many. */
static uint32_t nodes_of_threads(const struct cpus *c, uint32_t n_threads,
                                 uint8_t nodes[NUMA_MAX_NODES], uint32_t count[NUMA_MAX_NODES])
{
    uint64_t seen = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < n_threads; i++) {
        const uint32_t node = node_of(c, i);

        if (i == 0 || node != nodes[n - 1]) {
            if (node >= 64 || (seen >> node & 1) != 0 || n == NUMA_MAX_NODES)
                return 0;
            seen |= (uint64_t)1 << node;
            nodes[n] = (uint8_t)node;
            count[n++] = 0;
        }
        count[n - 1]++;
    }
    return n;
}

static uint32_t even_nodes(const struct cpus *c, uint32_t n_threads, uint8_t nodes[NUMA_MAX_NODES])
{
    uint32_t count[NUMA_MAX_NODES], least = UINT32_MAX, most = 0;
    const uint32_t n = nodes_of_threads(c, n_threads, nodes, count);

    for (uint32_t i = 0; i < n; i++) {
        least = count[i] < least ? count[i] : least;
        most = count[i] > most ? count[i] : most;
    }
    return most - least <= most / 8 || n <= 1 ? n : 0;
}

bool numa_can_be_local(const struct cpus *cpus, uint32_t n_threads)
{
    uint8_t nodes[NUMA_MAX_NODES];

    return cpus_n_nodes(cpus) > 1 && even_nodes(cpus, n_threads, nodes) > 0;
}

void numa_plan(struct numa *numa, const struct cpus *cpus, uint32_t n_threads,
               enum numa_mode wanted)
{
    memset(numa, 0, sizeof(*numa));
    if (wanted == NUMA_OFF || cpus_n_nodes(cpus) == 1 || cpus_n_nodes(cpus) > NUMA_MAX_NODES)
        return;
    numa->mode = wanted;
    if (wanted == NUMA_LOCAL)
        numa->n = even_nodes(cpus, n_threads, numa->nodes);
    if (numa->n > 0)
        return;
    numa->mode = NUMA_INTERLEAVE;
    for (uint32_t node = 0; node < 64; node++)
        if ((cpus->nodes >> node & 1) != 0)
            numa->nodes[numa->n++] = (uint8_t)node;
}

uint32_t numa_n_parts(const struct numa *numa)
{
    return numa != NULL && numa->mode == NUMA_LOCAL ? numa->n : 1;
}

const char *numa_mode_name(enum numa_mode mode)
{
    static const char *const names[] = {
        [NUMA_OFF] = "off", [NUMA_INTERLEAVE] = "interleave", [NUMA_LOCAL] = "local"};

    return names[mode];
}

/* ---- pages ---- */

static size_t huge_pages(size_t bytes)
{
    return (bytes + MEM_HUGE_PAGE - 1) & ~(MEM_HUGE_PAGE - 1);
}

static int set_policy(void *p, size_t bytes, int policy, uint64_t nodes)
{
    if (bytes == 0 || syscall(SYS_mbind, p, bytes, policy, &nodes, MASK_BITS, 0ul) == 0)
        return 0;
    return ERR_UNSUPPORTED;
}

static uint64_t all_nodes(const struct numa *numa)
{
    uint64_t nodes = 0;

    for (uint32_t i = 0; i < numa->n; i++)
        nodes |= (uint64_t)1 << numa->nodes[i];
    return nodes;
}

/* Prefer the node, without binding: a full node must not end the process. */
static int put_on(void *p, size_t bytes, uint32_t node)
{
    return set_policy(p, bytes, MPOL_PREFERRED, (uint64_t)1 << node);
}

int numa_spread(const struct numa *numa, void *p, size_t bytes)
{
    if (numa == NULL || numa->mode == NUMA_OFF)
        return 0;
    if (numa->n == 1)
        return put_on(p, huge_pages(bytes), numa->nodes[0]);
    return set_policy(p, huge_pages(bytes), MPOL_INTERLEAVE, all_nodes(numa));
}

/* Return the end of part i of n. */
static size_t part_end(size_t bytes, uint32_t i, uint32_t n)
{
    const size_t each = huge_pages((bytes + n - 1) / n);

    return (i + 1) * each < huge_pages(bytes) ? (i + 1) * each : huge_pages(bytes);
}

int numa_place(const struct numa *numa, void *p, size_t bytes)
{
    size_t from = 0;
    int rc = 0;

    if (numa_n_parts(numa) == 1)
        return numa_spread(numa, p, bytes);
    for (uint32_t i = 0; i < numa->n && rc == 0; i++) {
        const size_t end = part_end(bytes, i, numa->n);

        rc = put_on((char *)p + from, end - from, numa->nodes[i]);
        from = end;
    }
    return rc;
}

uint64_t numa_count(const void *p, size_t bytes, size_t stride, uint64_t count[64])
{
    uint64_t n = 0;

    memset(count, 0, 64 * sizeof(*count));
    for (size_t at = 0; at < bytes; at += stride) {
        int node = -1;

        if (syscall(SYS_get_mempolicy, &node, NULL, 0ul, (const char *)p + at,
                    (unsigned long)(MPOL_F_NODE | MPOL_F_ADDR)) != 0)
            return 0;
        if (node >= 0 && node < 64)
            count[node]++;
        n++;
    }
    return n;
}

double numa_placed_share(const struct numa *numa, const void *p, size_t bytes)
{
    uint64_t count[64], seen = 0, right = 0;
    size_t from = 0;

    for (uint32_t i = 0; numa->mode == NUMA_LOCAL && i < numa->n; i++) {
        const size_t last = part_end(bytes, i, numa->n), end = last < bytes ? last : bytes;

        const uint64_t n =
            end > from ? numa_count((const char *)p + from, end - from, MEM_HUGE_PAGE, count) : 0;

        seen += n;
        right += n > 0 ? count[numa->nodes[i]] : 0;
        from = end;
    }
    return seen > 0 ? (double)right / (double)seen : 1.0;
}
