/* core/base/numa.h - places the pages of large mappings on memory nodes.
 *
 * Where the threads' CPUs are on one node, nothing is done: the kernel's own placement is as good.
 * On several nodes there are two modes:
 *
 *   interleave  Pages lie on the nodes in turn. All threads read at the same rate, wherever the
 *               system lets them run; of two nodes half of all reads are from the other one.
 *   local       A mapping has a part for each node, read by the threads of that node, which stay
 *               there. What every thread reads is interleaved all the same.
 *
 * Weights have parts (model.h): each node has a share of every matrix's panels, in the order of the
 * threads' shares of the work, so that only stolen work reads from another node. That holds for
 * packed panels and for those from a weight cache: they are read into memory, never mapped, so no
 * other process decides where they are. KV blocks and recurrent states are interleaved, because the
 * thread that reads a sequence changes with the batch. The kernel places memory that one thread
 * writes first and reads alone (its scratch) near that thread.
 *
 * Parts are equally large, so the threads must be spread evenly (numa_can_be_local()). A full node
 * gives the next one's memory, without an error; numa_count() tells.
 *
 * Thread: any.
 * Memory: none.
 * Errors: ERR_UNSUPPORTED where the kernel refuses, as in some containers: pages then lie as they
 *         would without. Nothing is printed.
 */
#ifndef CORE_BASE_NUMA_H
#define CORE_BASE_NUMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUMA_MAX_NODES 16 /* most nodes, all numbered below 64 */

struct cpus;

enum numa_mode {
    NUMA_OFF = 0, /* the kernel's own placement, or numactl's */
    NUMA_INTERLEAVE,
    NUMA_LOCAL,
};

struct numa {
    enum numa_mode mode;
    uint32_t n;                       /* number of nodes; 0 with NUMA_OFF */
    uint8_t nodes[NUMA_MAX_NODES];    /* [n] node numbers, in the order of the threads */
    double local_gbps, interleaved_gbps; /* measured reading rates, if both were tried
                                          * (numa_choice.h) */
};

/* True: of the CPUs of the first n_threads threads (see thread_pool.h) each node has equally many,
 * within an eighth, in a row. Also true if they are all on one of several nodes. */
bool numa_can_be_local(const struct cpus *cpus, uint32_t n_threads);

/* Plan the placement for threads on these CPUs. NUMA_OFF where the machine has one node, or more
 * than NUMA_MAX_NODES; NUMA_INTERLEAVE instead of NUMA_LOCAL where that is not possible: over the
 * nodes of all CPUs, since threads may run on any of them. */
void numa_plan(struct numa *numa, const struct cpus *cpus, uint32_t n_threads,
               enum numa_mode wanted);

/* Return the number of parts that weights have: 1 unless they are placed locally. */
uint32_t numa_n_parts(const struct numa *numa);

/* Place a mapping of mem_map() before its pages are touched. numa_place(): a mapping of equal
 * parts, whole huge pages each, the i-th for the threads of the i-th node. numa_spread(): a mapping
 * that all threads read. */
int numa_place(const struct numa *numa, void *p, size_t bytes);
int numa_spread(const struct numa *numa, void *p, size_t bytes);

/* Count the pages on node i, of the first 64, as count[i], by one page in each `stride` bytes from
 * p on. Pages that were not touched become so. Returns the number of pages looked at, 0 if the
 * kernel refuses. */
uint64_t numa_count(const void *p, size_t bytes, size_t stride, uint64_t count[64]);

/* Return the share, from 0 to 1, of a mapping placed by numa_place() that lies where it was
 * planned, by one page of every huge page. 1 if nothing was planned or the kernel does not tell. */
double numa_placed_share(const struct numa *numa, const void *p, size_t bytes);

const char *numa_mode_name(enum numa_mode mode);

#endif
