/* tests/tools/cluster/cluster_report.c - see cluster_report.h.
 *
 * Without --json each run prints its rows at once, under a table's heading that is printed when a
 * table begins. With --json runs are added to one cJSON object, which is printed at the end.
 */
#include "tests/tools/cluster/cluster_report.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "scheduler/cost_model.h"
#include "tests/tools/cluster/cluster.h"
#include "tests/tools/cluster/cluster_spec.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_ROWS                                                                                   \
    16 /* with more replicas, only the least busy, the median and the busiest are                  \
        * shown */

static double seconds(uint64_t us)
{
    return (double)us / 1e6;
}

/* Tokens per second over the time of the cluster. */
static double tokens_per_s(const struct cluster_summary *s, uint64_t span_us)
{
    return span_us > 0 ? (double)s->generated_tokens / seconds(span_us) : 0;
}

static double busy_share(const struct cluster_summary *s, uint64_t span_us, uint32_t n)
{
    return span_us > 0 ? (double)s->busy_us / (double)span_us / n : 0;
}

/* ---- tables ---- */

static void print_columns(const char *first)
{
    printf("%-30s %9s %12s %12s %9s %9s %9s %8s %8s %9s %6s %9s %8s %8s\n", first, "requests",
           "prompt tok.", "cached tok.", "TTFT p50", "p95", "p99, ms", "ITL p50", "p95, ms",
           "tokens/s", "busy", "preempt.", "timeouts", "refused");
}

static void print_row(const char *name, const struct cluster_summary *s, uint64_t span_us,
                      uint32_t n)
{
    printf("%-30s %9zu %12" PRIu64 " %12" PRIu64 " %9.1f %9.1f %9.1f %8.1f %8.1f %9.1f %4.0f %% "
           "%9" PRIu64 " %8zu %8zu\n",
           name, s->n_requests, s->prompt_tokens, s->cached_tokens, ms_of(s->ttft_p50_us),
           ms_of(s->ttft_p95_us), ms_of(s->ttft_p99_us), ms_of(s->itl_p50_us), ms_of(s->itl_p95_us),
           tokens_per_s(s, span_us), 100 * busy_share(s, span_us, n), s->n_preempted, s->n_timeout,
           s->n_refused);
}

struct numbered {
    uint32_t i;
    uint64_t busy_us;
};

static int by_busy(const void *a, const void *b)
{
    const struct numbered *x = a, *y = b;

    if (x->busy_us != y->busy_us)
        return x->busy_us < y->busy_us ? -1 : 1;
    return x->i < y->i ? -1 : 1;
}

static void print_some(const struct cluster_summary *each, uint32_t n, uint64_t span_us)
{
    static const char *const names[] = {"least busy", "median", "busiest"};
    struct numbered *order = mem_calloc(n, sizeof(*order));
    char name[32];

    if (order == NULL)
        return;
    for (uint32_t i = 0; i < n; i++)
        order[i] = (struct numbered){i, each[i].busy_us};
    qsort(order, n, sizeof(*order), by_busy);
    for (uint32_t k = 0; k < 3; k++) {
        const uint32_t i = order[k == 0 ? 0 : k == 1 ? n / 2 : n - 1].i;

        snprintf(name, sizeof(name), "  replica %u (%s)", i, names[k]);
        print_row(name, &each[i], span_us, 1);
    }
    mem_free(order);
}

static void print_run(const struct cluster_report *r, const char *settings,
                      const struct cluster_summary *all, const struct cluster_summary *each,
                      uint32_t n)
{
    char name[64];

    snprintf(name, sizeof(name), "%u replica%s", n, n == 1 ? "" : "s");
    if (!r->spec->find || r->n_runs == 0) {
        printf("\n%s router, %s\n", router_policy_name(r->spec->router), settings);
        print_columns("");
    }
    print_row(name, all, all->span_us, n);
    if (r->spec->find || n == 1)
        return;
    if (n > MAX_ROWS) {
        print_some(each, n, all->span_us);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "  replica %u", i);
        print_row(name, &each[i], all->span_us, 1);
    }
}

static void print_head(const struct cluster_spec *spec, const struct workload *w,
                       const struct step_costs *c)
{
    printf("\n%zu %s requests, %.2f a second, simulated with the costs %s:"
           "\n  %.3f ms a step, %.3f ms a prompt token, %.3f ms a stream, %.2f us and %.2f us a "
           "thousand keys read\n",
           workload_n(w), spec->workload.n_requests > 0 ? "drawn" : "recorded", workload_rate(w),
           spec->recorded_costs ? "of the recorded steps" : "that the engine had learnt",
           (double)c->step_ns / 1e6, (double)c->prefill_ns / 1e6, (double)c->decode_ns / 1e6,
           (double)c->kv_decode_ps / 1e3, (double)c->kv_prefill_ps / 1e3);
}

/* ---- JSON ---- */

static void add_summary(cJSON *o, const struct cluster_summary *s, uint64_t span_us, uint32_t n)
{
    cJSON *ttft, *itl;

    cJSON_AddNumberToObject(o, "requests", (double)s->n_requests);
    cJSON_AddNumberToObject(o, "ended", (double)s->n_ended);
    cJSON_AddNumberToObject(o, "timeouts", (double)s->n_timeout);
    cJSON_AddNumberToObject(o, "refused", (double)s->n_refused);
    cJSON_AddNumberToObject(o, "prompt_tokens", (double)s->prompt_tokens);
    cJSON_AddNumberToObject(o, "cached_tokens", (double)s->cached_tokens);
    cJSON_AddNumberToObject(o, "generated_tokens", (double)s->generated_tokens);
    cJSON_AddNumberToObject(o, "preemptions", (double)s->n_preempted);
    ttft = cJSON_AddObjectToObject(o, "ttft_ms");
    cJSON_AddNumberToObject(ttft, "p50", ms_of(s->ttft_p50_us));
    cJSON_AddNumberToObject(ttft, "p95", ms_of(s->ttft_p95_us));
    cJSON_AddNumberToObject(ttft, "p99", ms_of(s->ttft_p99_us));
    itl = cJSON_AddObjectToObject(o, "itl_ms");
    cJSON_AddNumberToObject(itl, "p50", ms_of(s->itl_p50_us));
    cJSON_AddNumberToObject(itl, "p95", ms_of(s->itl_p95_us));
    cJSON_AddNumberToObject(o, "tokens_per_s", tokens_per_s(s, span_us));
    cJSON_AddNumberToObject(o, "utilisation", busy_share(s, span_us, n));
}

static void add_cluster_run(const struct cluster_report *r, const char *settings,
                            const struct cluster_summary *all, const struct cluster_summary *each,
                            uint32_t n)
{
    cJSON *run = cJSON_CreateObject(), *array, *o;

    cJSON_AddNumberToObject(run, "replicas", n);
    cJSON_AddStringToObject(run, "settings", settings);
    cJSON_AddNumberToObject(run, "seconds", seconds(all->span_us));
    add_summary(run, all, all->span_us, n);
    array = cJSON_AddArrayToObject(run, "each");
    for (uint32_t i = 0; i < n; i++) {
        o = cJSON_CreateObject();
        add_summary(o, &each[i], all->span_us, 1);
        cJSON_AddItemToArray(array, o);
    }
    cJSON_AddItemToArray(r->runs, run);
}

static void add_head(cJSON *root, const struct cluster_spec *spec, const struct workload *w,
                     const struct step_costs *c)
{
    cJSON *costs;

    cJSON_AddStringToObject(root, "router", router_policy_name(spec->router));
    cJSON_AddNumberToObject(root, "requests", (double)workload_n(w));
    cJSON_AddBoolToObject(root, "drawn", spec->workload.n_requests > 0);
    cJSON_AddNumberToObject(root, "requests_per_s", workload_rate(w));
    costs = cJSON_AddObjectToObject(root, "costs");
    cJSON_AddNumberToObject(costs, "step_ms", (double)c->step_ns / 1e6);
    cJSON_AddNumberToObject(costs, "prompt_token_ms", (double)c->prefill_ns / 1e6);
    cJSON_AddNumberToObject(costs, "stream_ms", (double)c->decode_ns / 1e6);
}

/* ---- both ---- */

void cluster_report_begin(struct cluster_report *r, const struct cluster_spec *spec,
                          const struct workload *w, const struct step_costs *costs)
{
    *r = (struct cluster_report){.spec = spec};
    if (!spec->json) {
        print_head(spec, w, costs);
        return;
    }
    r->root = cJSON_CreateObject();
    add_head(r->root, spec, w, costs);
    r->runs = cJSON_AddArrayToObject(r->root, "runs");
}

int cluster_report_run(struct cluster_report *r, const char *settings, const struct cluster *c,
                       struct cluster_summary *all)
{
    const uint32_t n = cluster_n(c);
    struct cluster_summary *each = mem_calloc(n, sizeof(*each));
    int rc = each != NULL ? cluster_summarise(c, all) : ERR_NOMEM;

    for (uint32_t i = 0; i < n && rc == 0; i++)
        rc = cluster_summarise_replica(c, i, &each[i]);
    if (rc == 0 && r->root != NULL)
        add_cluster_run(r, settings, all, each, n);
    else if (rc == 0)
        print_run(r, settings, all, each, n);
    r->n_runs++;
    mem_free(each);
    return rc;
}

void cluster_report_found(struct cluster_report *r, const char *settings, uint32_t n_replicas)
{
    r->n_runs = 0; /* the next search begins a new table */
    if (r->root != NULL) {
        cJSON *found = cJSON_GetObjectItem(r->root, "found");

        if (found == NULL)
            found = cJSON_AddObjectToObject(r->root, "found");
        if (n_replicas > 0)
            cJSON_AddNumberToObject(found, settings, n_replicas);
        else
            cJSON_AddNullToObject(found, settings);
    } else if (n_replicas > 0) {
        printf("%u replica%s keep%s TTFT p95 within %.1f ms\n", n_replicas,
               n_replicas == 1 ? "" : "s", n_replicas == 1 ? "s" : "", r->spec->ttft_p95_ms);
    }
}

void cluster_report_end(struct cluster_report *r)
{
    char *text = r->root != NULL ? cJSON_Print(r->root) : NULL;

    if (text != NULL)
        puts(text);
    cJSON_free(text);
    cJSON_Delete(r->root);
    *r = (struct cluster_report){0};
}
