/* core/base/cpus.h - the CPUs that this process may use, and how many threads to run on them.
 *
 * The affinity mask lists them (containers narrow it with a cpuset), /sys says which of them share
 * a core, a last-level cache or a NUMA node, and the control group may grant less CPU time. One
 * thread per core is right: two hardware threads of a core share its vector units, and a process
 * that has used up its quota is stopped in the middle of a step.
 *
 * Thread: any.
 * Memory: none; CPUs beyond the first CPUS_MAX of the mask are not counted.
 * Errors: none; what cannot be read counts as one core a CPU, one cache, one node, no quota.
 */
#ifndef CORE_BASE_CPUS_H
#define CORE_BASE_CPUS_H

#include <stdint.h>

#define CPUS_MAX 1024

struct cpus {
    uint32_t n;       /* CPUs in the affinity mask, at least 1 */
    uint32_t n_cores; /* different cores among them */
    uint32_t quota;   /* CPUs' worth of time that the control group grants, rounded down to whole
                       * CPUs but at least 1; 0: no limit */
    uint64_t nodes;   /* bit i: memory node i (of the first 64) has one of the CPUs */
    /* First one CPU of each core, then the cores' other CPUs; in both parts CPUs of a node are
     * neighbours, and among these CPUs of a last-level cache. */
    struct cpu {
        uint16_t id;
        uint16_t node;  /* 0 when /sys names no node */
        uint16_t cache; /* number of the lowest CPU that shares the last-level cache, in the mask or
                         * not */
    } cpu[CPUS_MAX];    /* [n] */
};

/* `root` is the prefix of /sys and /proc: "" for the machine; in tests a folder, whose
 * /proc/self/status may list other CPUs than the mask does (Cpus_allowed_list). In the debug build
 * QUIRE_DEBUG_MACHINE names such a folder for "". */
void cpus_read(struct cpus *c, const char *root);

/* Return the compute threads for `threads = 0`: one for each core, at most the quota. The I/O
 * thread shares the cores, since it needs some per cent of one; only beyond CPUS_SHARED cores
 * without a second CPU each, where a core costs less than a thread pool that waits for an
 * interrupted member, one core is left to it. */
#define CPUS_SHARED 16
uint32_t cpus_threads(const struct cpus *c);
/* Return the number of last-level caches, of memory nodes, that have one of the CPUs. */
uint32_t cpus_n_caches(const struct cpus *c);
uint32_t cpus_n_nodes(const struct cpus *c);

#endif
