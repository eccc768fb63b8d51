/* server/models/instance_threads.c - compute threads and NUMA placement of a process; see
 * instance.h.
 *
 * The placement is planned before the pool is made, since the pool's threads may have to stay on
 * their nodes. Both are made once per process, before any model is loaded, and all models use them.
 */
#include "server/models/instance_impl.h"

#include "config/config.h"
#include "core/base/cpus.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/runtime/limits/numa_choice.h"
#include "core/runtime/thread_pool.h"

#include <stdio.h>

static uint32_t threads_for(const struct config *c, const struct cpus *cpus)
{
    return c->threads > 0 ? (uint32_t)c->threads : cpus_threads(cpus);
}

void instance_plan_numa(struct numa *numa, const struct config *c)
{
    static const enum numa_mode modes[] = {
        [CONFIG_NUMA_AUTO] = NUMA_OFF, /* numa_choose() decides */
        [CONFIG_NUMA_LOCAL] = NUMA_LOCAL,
        [CONFIG_NUMA_INTERLEAVE] = NUMA_INTERLEAVE,
        [CONFIG_NUMA_OFF] = NUMA_OFF,
    };
    struct cpus cpus;

    cpus_read(&cpus, "");
    if (c->numa == CONFIG_NUMA_AUTO)
        numa_choose(numa, &cpus, threads_for(c, &cpus));
    else
        numa_plan(numa, &cpus, threads_for(c, &cpus), modes[c->numa]);
    if (numa->local_gbps > 0)
        log_info("engine", "event=numa-measured local_gbps=%.1f interleaved_gbps=%.1f chosen=%s",
                 numa->local_gbps, numa->interleaved_gbps, numa_mode_name(numa->mode));
    if (c->numa == CONFIG_NUMA_LOCAL && numa->mode == NUMA_INTERLEAVE)
        log_warn("engine", "event=numa-not-local cause=threads-not-even threads=%u nodes=%u",
                 threads_for(c, &cpus), numa->n);
}

int instance_make_thread_pool(struct thread_pool **out, const struct config *c,
                              const struct numa *numa, char *err, size_t err_len)
{
    struct thread_pool_options options = {.pin = c->pin == CONFIG_PIN_CORES,
                                          .keep_nodes = numa->mode == NUMA_LOCAL};
    struct cpus cpus;
    int rc;

    cpus_read(&cpus, "");
    options.n_threads = threads_for(c, &cpus);
    options.cpus = &cpus;
    rc = thread_pool_create(out, &options);
    if (rc < 0)
        snprintf(err, err_len, "cannot start %u compute threads: %s", options.n_threads,
                 err_text(rc));
    return rc;
}
