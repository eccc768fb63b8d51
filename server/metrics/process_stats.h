/* server/metrics/process_stats.h - the kernel's numbers about this process, for the process_*
 * metrics.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_METRICS_PROCESS_STATS_H
#define SERVER_METRICS_PROCESS_STATS_H

#include <stdint.h>

struct process_stats {
    double cpu_seconds;        /* user and system */
    double start_time_seconds; /* Unix */
    uint64_t resident_bytes, virtual_bytes;
    uint64_t open_fds, max_fds;
};

/* From /proc; what cannot be read stays 0. */
void process_read(struct process_stats *out);

#endif
