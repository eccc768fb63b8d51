/* tests/tools/cluster_sim.c - simulates recorded requests on many replicas behind a router.
 *
 * The arrivals of all journals are merged into one workload, in order of time. A run simulates it
 * on n replicas behind a router; replica i has the settings of journal i modulo their number. Each
 * set of settings (the own ones and each --what-if) is checked before the first run, as runs may be
 * long.
 */
#include "core/base/err.h"
#include "core/base/mem.h"
#include "scheduler/replay/replay.h"
#include "server/cli/command.h"
#include "server/cli/replay_file.h"
#include "server/cli/what_if.h"
#include "server/models/instance.h"
#include "tests/tools/cluster/cluster.h"
#include "tests/tools/cluster/cluster_report.h"
#include "tests/tools/cluster/cluster_spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWN_SETTINGS "its own settings"
#define MOST_FOUND 1024 /* the most replicas that a search tries */

/* ---- options ---- */

static bool read_replica_counts(const char *list, struct cluster_spec *spec)
{
    char *end;

    for (const char *p = list; p != NULL; p = *end == ',' ? end + 1 : NULL) {
        const long n = strtol(p, &end, 10);

        if (end == p || n < 1 || n > CLUSTER_MAX_REPLICAS || (*end != ',' && *end != '\0') ||
            spec->n_sizes == CLUSTER_MAX_SIZES) {
            command_fail(EXIT_USAGE, "--replicas must be up to %d numbers from 1 to %d, not '%s'",
                         CLUSTER_MAX_SIZES, CLUSTER_MAX_REPLICAS, list);
            return false;
        }
        spec->sizes[spec->n_sizes++] = (uint32_t)n;
    }
    return true;
}

static bool read_router(const char *name, struct cluster_spec *spec)
{
    for (unsigned i = 0; i < ROUTER_POLICIES; i++)
        if (strcmp(name, router_policy_name((enum router_policy)i)) == 0) {
            spec->router = (enum router_policy)i;
            return true;
        }
    command_fail(EXIT_USAGE, "--router must be round-robin, prefix or least-loaded, not '%s'",
                 name);
    return false;
}

static bool read_costs(const char *name, struct cluster_spec *spec)
{
    spec->recorded_costs = name == NULL || strcmp(name, "recorded") == 0;
    if (spec->recorded_costs || strcmp(name, "learnt") == 0)
        return true;
    command_fail(EXIT_USAGE, "--costs must be learnt or recorded, not '%s'", name);
    return false;
}

/* A reason why the options do not fit together, or NULL. */
static const char *complaint(const struct cluster_spec *s)
{
    if (s->find == (s->n_sizes > 0))
        return "give either --replicas or --find-replicas";
    if (s->find != (s->ttft_p95_ms > 0))
        return "--find-replicas and --ttft-p95 go together";
    if (s->workload.rate > 0 && s->workload.n_requests == 0)
        return "--rate wants --requests; recorded ones come faster with --speed";
    return NULL;
}

static bool read_spec(int *argc, char **argv, struct cluster_spec *out)
{
    const char *sizes = NULL, *router = NULL, *costs = NULL, *wrong;
    int64_t n_requests = 0, seed = 1;

    *out = (struct cluster_spec){.workload = {.speed = 1}};
    out->find = command_take_switch(argc, argv, "--find-replicas");
    out->json = command_take_switch(argc, argv, "--json");
    if (!command_take_value(argc, argv, "--replicas", &sizes) ||
        !command_take_value(argc, argv, "--router", &router) ||
        !command_take_value(argc, argv, "--costs", &costs) || !read_costs(costs, out) ||
        !command_take_float(argc, argv, "--ttft-p95", 0.001, 1e9, &out->ttft_p95_ms) ||
        !command_take_int(argc, argv, "--requests", 1, 100000000, &n_requests) ||
        !command_take_int(argc, argv, "--seed", 0, INT32_MAX, &seed) ||
        !command_take_float(argc, argv, "--rate", 1e-6, 1e6, &out->workload.rate) ||
        !command_take_float(argc, argv, "--speed", 1e-6, 1e6, &out->workload.speed) ||
        (sizes != NULL && !read_replica_counts(sizes, out)) ||
        (router != NULL && !read_router(router, out)))
        return false;
    out->workload.n_requests = (size_t)n_requests;
    out->workload.seed = (uint64_t)seed;
    wrong = complaint(out);
    if (wrong != NULL)
        command_fail(EXIT_USAGE, "%s", wrong);
    return wrong == NULL;
}

/* ---- runs ---- */

struct planning {
    const struct cluster_spec *spec;
    struct workload *workload;
    struct simulate_options *own, *kinds; /* [n]: as recorded; with the settings that are tried */
    uint32_t n;
    struct cluster_report report;
};

static int refuse_what_if(const char *settings, int rc)
{
    if (rc == ERR_INVAL)
        return command_fail(EXIT_USAGE, "%s: these settings do not go together", settings);
    return command_fail(EXIT_FAILED, "%s: the simulation failed: %s", settings, err_text(rc));
}

static int run_cluster(struct planning *p, const char *settings, uint32_t n_replicas,
                       struct cluster_summary *all)
{
    const struct cluster_options options = {
        .kinds = p->kinds, .n_kinds = p->n, .n_replicas = n_replicas, .router = p->spec->router};
    struct cluster *c;
    int rc = cluster_create(&c, &options);

    if (rc == 0)
        rc = workload_begin(p->workload);
    if (rc == 0)
        rc = cluster_run(c, p->workload);
    if (rc == 0)
        rc = cluster_report_run(&p->report, settings, c, all);
    cluster_destroy(&c);
    return rc < 0 ? refuse_what_if(settings, rc) : EXIT_OK;
}

static int run_keeps(struct planning *p, const char *settings, uint32_t n, bool *keeps)
{
    struct cluster_summary all;
    const int code = run_cluster(p, settings, n, &all);

    *keeps = code == EXIT_OK && (double)all.ttft_p95_all_us <= p->spec->ttft_p95_ms * 1e3;
    return code;
}

/* Search the least number of replicas that meets the goal: double until one does, then bisect. This
 * assumes that more replicas never make first tokens later. */
static int search(struct planning *p, const char *settings)
{
    const size_t n_requests = workload_n(p->workload);
    const uint32_t most = n_requests < MOST_FOUND ? (uint32_t)n_requests : MOST_FOUND;
    uint32_t bad = 0, good = 0;
    bool keeps = false;
    int code = EXIT_OK;

    while (code == EXIT_OK && (good == 0 ? bad < most : good > bad + 1)) {
        const uint32_t twice = bad == 0 ? 1 : 2 * bad < most ? 2 * bad : most;
        const uint32_t n = good == 0 ? twice : bad + (good - bad) / 2;

        code = run_keeps(p, settings, n, &keeps);
        *(keeps ? &good : &bad) = n;
    }
    if (code != EXIT_OK)
        return code;
    cluster_report_found(&p->report, settings, good);
    if (good == 0)
        return command_fail(EXIT_FAILED, "%s: not even %u replicas keep TTFT p95 within %.1f ms",
                            settings, most, p->spec->ttft_p95_ms);
    return EXIT_OK;
}

static int run_all(struct planning *p, const char *settings)
{
    struct cluster_summary all;
    int code = EXIT_OK;

    if (p->spec->find)
        return search(p, settings);
    for (uint32_t i = 0; i < p->spec->n_sizes && code == EXIT_OK; i++)
        code = run_cluster(p, settings, p->spec->sizes[i], &all);
    return code;
}

/* Set the settings to try; NULL: the own ones. */
static int set_kinds(struct planning *p, const char *text)
{
    int code = EXIT_OK;

    memcpy(p->kinds, p->own, p->n * sizeof(*p->kinds));
    for (uint32_t i = 0; i < p->n && code == EXIT_OK && text != NULL; i++)
        code = what_if_set(&p->kinds[i], text);
    return code;
}

static int run_what_ifs(struct planning *p, const char *const *texts, uint32_t n_texts)
{
    int code = EXIT_OK;

    for (uint32_t t = 0; t < n_texts && code == EXIT_OK; t++)
        code = set_kinds(p, texts[t]);
    if (code == EXIT_OK)
        code = set_kinds(p, NULL);
    if (code != EXIT_OK)
        return code;
    cluster_report_begin(&p->report, p->spec, p->workload, &p->own[0].truth);
    code = run_all(p, OWN_SETTINGS);
    for (uint32_t t = 0; t < n_texts && code == EXIT_OK; t++) {
        code = set_kinds(p, texts[t]);
        if (code == EXIT_OK)
            code = run_all(p, texts[t]);
    }
    cluster_report_end(&p->report);
    return code;
}

/* ---- the journals ---- */

/* If every journal has the date of its start, runs are merged by dates; else by the times in the
 * journals as they are. */
static bool have_dates(struct replay *const *replays, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (replay_unix_us(replays[i]) == 0)
            return false;
    return n > 1;
}

static int collect_settings(struct planning *p, struct replay *const *replays)
{
    const bool dated = have_dates(replays, p->n);
    uint32_t max_tenants = 0;

    for (uint32_t i = 0; i < p->n; i++) {
        const struct simulate_arrival *arrivals;
        size_t n;

        if (!replay_trace(replays[i], &p->own[i], &arrivals, &n))
            return command_fail(EXIT_FAILED,
                                "nothing to simulate: in the last run of journal %u too few steps "
                                "were made to learn what they cost",
                                i + 1);
        if (p->spec->recorded_costs && replay_recorded_costs(replays[i], &p->own[i]) < 0)
            return command_fail(EXIT_FAILED, "out of memory");
        if (workload_add(p->workload, arrivals, n, dated ? replay_unix_us(replays[i]) : 0) < 0)
            return command_fail(EXIT_FAILED, "out of memory");
        if (p->own[i].sched.max_tenants > max_tenants)
            max_tenants = p->own[i].sched.max_tenants;
    }
    for (uint32_t i = 0; i < p->n; i++) /* a replica may get any tenant's requests, also of other
                                         * journals */
        p->own[i].sched.max_tenants = max_tenants;
    return workload_begin(p->workload) < 0 ? command_fail(EXIT_FAILED, "out of memory") : EXIT_OK;
}

static int simulate_all(const struct cluster_spec *spec, struct replay *const *replays,
                        uint32_t n_replays, const char *const *what_ifs, uint32_t n_what_ifs)
{
    struct planning p = {.spec = spec, .n = n_replays};
    int code;

    p.own = mem_calloc(n_replays, sizeof(*p.own));
    p.kinds = mem_calloc(n_replays, sizeof(*p.kinds));
    if (p.own == NULL || p.kinds == NULL || workload_create(&p.workload, &spec->workload) < 0)
        code = command_fail(EXIT_FAILED, "out of memory");
    else
        code = collect_settings(&p, replays);
    if (code == EXIT_OK)
        code = run_what_ifs(&p, what_ifs, n_what_ifs);
    workload_destroy(&p.workload);
    mem_free(p.own);
    mem_free(p.kinds);
    return code;
}

/* ---- the command ---- */

#define MAX_JOURNALS 64

struct arguments {
    const char *paths[MAX_JOURNALS], *what_ifs[WHAT_IF_MAX];
    uint32_t n_paths, n_what_ifs;
    struct cluster_spec spec;
};

static int help(void)
{
    puts("cluster_sim FILE... --replicas N[,N...] [--router NAME] [...]\n"
         "cluster_sim FILE... --find-replicas --ttft-p95 MS [--router NAME] [...]\n"
         "  FILE               journals (quire serve --journal FILE), merged by time\n"
         "  --replicas N,...   simulate the same traffic on so many replicas behind a router\n"
         "  --find-replicas    the least number whose 95th percentile of times to first token is\n"
         "  --ttft-p95 MS      within so many milliseconds (what timed out or was refused counts)\n"
         "  --router NAME      round-robin (the default); least-loaded: the fewest requests in\n"
         "                     flight; prefix: the most leading blocks of the prompt in its\n"
         "                     cache, of equal ones the least loaded\n"
         "  --costs NAME       what steps take: recorded (the default), as in the whole run, slow\n"
         "                     times included; learnt, as the engine knew in the end\n"
         "  --speed X          the recorded traffic X times as fast\n"
         "  --requests N       N new requests like the recorded ones, at random times\n"
         "  --rate R           of these, per second (else as recorded); --seed S: other ones\n"
         "  --what-if          the same with other settings (quire replay --help)\n"
         "  --json             one JSON object instead of tables");
    return EXIT_OK;
}

static bool read_arguments(int argc, char **argv, struct arguments *a)
{
    for (int i = 1; i < argc; i++) {
        const int taken = what_if_take(argc, argv, &i, a->what_ifs, &a->n_what_ifs);

        if (taken < 0)
            return false;
        if (taken > 0)
            continue;
        if (argv[i][0] == '-' || a->n_paths == MAX_JOURNALS) {
            command_fail(EXIT_USAGE, "cluster_sim does not take '%s' (at most %d journals)",
                         argv[i], MAX_JOURNALS);
            return false;
        }
        a->paths[a->n_paths++] = argv[i];
    }
    if (a->n_paths == 0)
        command_fail(EXIT_USAGE, "cluster_sim wants a journal (cluster_sim --help)");
    return a->n_paths > 0;
}

static int run_tool(const struct arguments *a)
{
    struct replay *replays[MAX_JOURNALS] = {NULL};
    int code = EXIT_OK;

    for (uint32_t i = 0; i < a->n_paths && code == EXIT_OK; i++)
        code = replay_file(&replays[i], a->paths[i], true);
    if (code == EXIT_OK)
        code = simulate_all(&a->spec, replays, a->n_paths, a->what_ifs, a->n_what_ifs);
    for (uint32_t i = 0; i < a->n_paths; i++)
        replay_destroy(&replays[i]);
    return code;
}

int main(int argc, char **argv)
{
    struct arguments a = {.n_paths = 0};

    if (command_take_switch(&argc, argv, "--help"))
        return help();
    if (!read_spec(&argc, argv, &a.spec) || !read_arguments(argc, argv, &a))
        return EXIT_USAGE;
    return run_tool(&a);
}
