/* tests/tools/cluster/cluster_report.h - reports simulated clusters, as tables or as one JSON
 * object.
 *
 * Thread: the main thread.
 * Memory: a JSON object until the end.
 */
#ifndef TESTS_TOOLS_CLUSTER_CLUSTER_REPORT_H
#define TESTS_TOOLS_CLUSTER_CLUSTER_REPORT_H

#include <stdint.h>

struct cJSON;
struct cluster;
struct cluster_spec;
struct cluster_summary;
struct step_costs;
struct workload;

struct cluster_report {
    const struct cluster_spec *spec;
    struct cJSON *root, *runs; /* with spec->json, else NULL */
    uint32_t n_runs;
};

void cluster_report_begin(struct cluster_report *r, const struct cluster_spec *spec,
                          const struct workload *w, const struct step_costs *costs);
/* Report one run; its summary of all replicas is put into *all. ERR_NOMEM. */
int cluster_report_run(struct cluster_report *r, const char *settings, const struct cluster *c,
                       struct cluster_summary *all);
/* Report the number of replicas that meets the goal; 0: no number does. */
void cluster_report_found(struct cluster_report *r, const char *settings, uint32_t n_replicas);
/* Print what has not been printed yet, and free it. */
void cluster_report_end(struct cluster_report *r);

#endif
