/* server/cli/replay.c - `quire replay`: runs the scheduler again from a journal, and compares, or
 * simulates the same requests with other settings.
 *
 * The journal is read line by line; each line is parsed (replay_line.h) and given to the replay,
 * which runs the scheduler without an engine and compares its plans with the recorded ones. For
 * --what-if the arrivals and step costs of the last run are given to the simulator. With --replicas
 * the rest is in replay_cluster.c.
 */
#include "server/cli/command.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "scheduler/replay/replay.h"
#include "scheduler/replay/simulate.h"
#include "server/cli/replay_cluster.h"
#include "server/cli/replay_line.h"
#include "server/cli/what_if.h"
#include "server/models/instance.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the replay ---- */

/* Give one line to the replay. On failure `err` has a sentence. */
static int take_line(struct replay *r, const char *text, size_t n, char *err, size_t err_len)
{
    struct replay_record record;
    int rc;

    if (n == 0 || text[n - 1] != '\n') {
        snprintf(err, err_len, "the line is cut off");
        return ERR_FORMAT;
    }
    rc = replay_line_parse(&record, text, n - 1, err, err_len);
    if (rc == 0)
        rc = replay_take(r, &record, err, err_len);
    replay_record_release(&record);
    return rc;
}

static int fail_line(const char *path, uint64_t number, const struct replay *r, const char *err)
{
    const struct replay_stats s = replay_stats(r);

    return command_fail(EXIT_FAILED,
                        "%s, line %" PRIu64 ": %s (before it %" PRIu64 " posts, %" PRIu64
                        " plans and %" PRIu64 " tokens were replayed, all plans equal)",
                        path, number, err, s.n_posts, s.n_plans, s.n_tokens);
}

static int replay_file(struct replay *r, FILE *in, const char *path)
{
    char *line = NULL, err[512] = "";
    size_t cap = 0;
    ssize_t n;
    uint64_t number = 0;
    int rc = 0, code = EXIT_OK;

    while (rc == 0 && (n = getline(&line, &cap, in)) >= 0) {
        number++;
        rc = take_line(r, line, (size_t)n, err, sizeof(err));
    }
    if (rc < 0)
        code = fail_line(path, number, r, err);
    else if (ferror(in) != 0)
        code = command_fail(EXIT_FAILED, "cannot read %s: %s", path, strerror(errno));
    else if (number == 0)
        code = command_fail(EXIT_FAILED, "%s is empty", path);
    free(line); /* getline() allocated it with malloc() */
    return code;
}

static void print_equal(const struct replay *r)
{
    const struct replay_stats s = replay_stats(r);

    printf("replayed %" PRIu64 " runs: %" PRIu64 " posts, %" PRIu64 " cancels, %" PRIu64
           " ends, %" PRIu64 " tokens\nall %" PRIu64 " plans equal\n",
           s.n_runs, s.n_posts, s.n_cancels, s.n_ends, s.n_tokens, s.n_plans);
}

/* ---- what if ---- */

static void print_row(const char *name, const struct simulate_summary *s)
{
    printf("%-28s %8zu %8zu %9.1f %9.1f %8.1f %8.1f %9.1f %8" PRIu64 " %9" PRIu64 " %6.3f\n", name,
           s->n_ended, s->n_timeout, (double)s->ttft_p50_us / 1e3, (double)s->ttft_p99_us / 1e3,
           (double)s->itl_p50_us / 1e3, (double)s->itl_p99_us / 1e3, (double)s->finish_us / 1e6,
           s->n_preempted, s->n_recomputed, s->jain_milli / 1e3);
}

static int simulate(const char *name, const struct simulate_options *o,
                    const struct simulate_arrival *arrivals, size_t n)
{
    struct simulate *s;
    struct simulate_summary summary;
    int64_t rc = simulate_create(&s, o);

    if (rc == ERR_INVAL)
        return command_fail(EXIT_USAGE, "%s: these settings do not go together", name);
    for (size_t i = 0; i < n && rc >= 0; i++)
        rc = simulate_add(s, &arrivals[i]);
    if (rc >= 0)
        rc = simulate_run(s, UINT64_MAX);
    if (rc == 0)
        rc = simulate_summarise(s, &summary);
    simulate_destroy(&s);
    if (rc < 0)
        return command_fail(EXIT_FAILED, "%s: the simulation failed: %s", name,
                            err_text((int)rc));
    print_row(name, &summary);
    return EXIT_OK;
}

static void print_head(const struct simulate_options *o, size_t n)
{
    const struct step_costs *c = &o->truth;

    printf("\nthe last run's %zu requests, simulated with the costs that its engine had learnt:\n"
           "  %.3f ms a step, %.3f ms a prompt token, %.3f ms a stream, %.2f us and %.2f us a "
           "thousand keys read, %.3f ms a swapped block\n\n",
           n, (double)c->step_ns / 1e6, (double)c->prefill_ns / 1e6, (double)c->decode_ns / 1e6,
           (double)c->kv_decode_ps / 1e3, (double)c->kv_prefill_ps / 1e3,
           (double)c->swap_ns / 1e6);
    printf("%-28s %8s %8s %9s %9s %8s %8s %9s %8s %9s %6s\n", "", "ended", "timeouts", "TTFT p50",
           "p99, ms", "ITL p50", "p99, ms", "finish, s", "preempt.", "recomput.", "Jain");
}

static int what_if(struct replay *r, const char *const *texts, uint32_t n_texts)
{
    const struct simulate_arrival *arrivals;
    struct simulate_options own, changed[WHAT_IF_MAX];
    size_t n;
    int code = EXIT_OK;

    if (!replay_trace(r, &own, &arrivals, &n))
        return command_fail(EXIT_FAILED, "nothing to simulate: in the last run too few steps were "
                                         "made to learn what they cost");
    for (uint32_t i = 0; i < n_texts && code == EXIT_OK; i++) {
        changed[i] = own;
        code = what_if_set(&changed[i], texts[i]);
    }
    if (code != EXIT_OK)
        return code;
    print_head(&own, n);
    code = simulate("its own settings", &own, arrivals, n);
    for (uint32_t i = 0; i < n_texts && code == EXIT_OK; i++)
        code = simulate(texts[i], &changed[i], arrivals, n);
    return code;
}

/* ---- the command ---- */

#define MAX_JOURNALS 64

struct command { /* the parsed command line */
    const char *paths[MAX_JOURNALS], *what_ifs[WHAT_IF_MAX];
    uint32_t n_paths, n_what_ifs;
    struct cluster_spec cluster;
};

static int help(void)
{
    puts("quire replay FILE [--what-if SETTING=VALUE[,...]]...\n"
         "quire replay FILE... --replicas N[,N...] [--router NAME] [...]\n"
         "quire replay FILE... --find-replicas --ttft-p95 MS [--router NAME] [...]\n"
         "  FILE               a journal (quire serve --journal FILE); for a cluster several,\n"
         "                     merged by time\n"
         "  --what-if          simulate the same traffic with other settings, one row for each:\n"
         "                     " WHAT_IF_NAMES "\n"
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
         "  --json             one JSON object instead of tables\n"
         "Makes the scheduler's run again and compares every plan. 0: all are equal.\n"
         "Jain's index is over tenants: tokens per second of their requests' time, by weight.");
    return EXIT_OK;
}

static int replay_path(struct replay **r, const char *path, bool collect)
{
    FILE *in = fopen(path, "re");
    int code;

    if (in == NULL)
        return command_fail(EXIT_FAILED, "cannot open %s: %s", path, strerror(errno));
    if (replay_create(r, collect) < 0)
        code = command_fail(EXIT_FAILED, "out of memory");
    else
        code = replay_file(*r, in, path);
    fclose(in);
    return code;
}

static int run_replay(const struct command *c)
{
    const bool is_cluster = cluster_spec_is_set(&c->cluster);
    struct replay *replays[MAX_JOURNALS] = {NULL};
    int code = EXIT_OK;

    for (uint32_t i = 0; i < c->n_paths && code == EXIT_OK; i++) {
        code = replay_path(&replays[i], c->paths[i], is_cluster || c->n_what_ifs > 0);
        if (code == EXIT_OK && !c->cluster.json)
            print_equal(replays[i]);
    }
    if (code == EXIT_OK && is_cluster)
        code = replay_cluster(&c->cluster, replays, c->n_paths, c->what_ifs, c->n_what_ifs);
    else if (code == EXIT_OK && c->n_what_ifs > 0)
        code = what_if(replays[0], c->what_ifs, c->n_what_ifs);
    for (uint32_t i = 0; i < c->n_paths; i++)
        replay_destroy(&replays[i]);
    return code;
}

/* Read the arguments that cluster_spec_read() has left. */
static int read_arguments(int argc, char **argv, struct command *c)
{
    const uint32_t most = cluster_spec_is_set(&c->cluster) ? MAX_JOURNALS : 1;

    for (int i = 1; i < argc; i++) {
        const bool joined = strncmp(argv[i], "--what-if=", 10) == 0;

        if (joined || strcmp(argv[i], "--what-if") == 0) {
            if (c->n_what_ifs == WHAT_IF_MAX || (!joined && i + 1 == argc))
                return command_fail(EXIT_USAGE, "--what-if wants a value, %d times at most",
                                    WHAT_IF_MAX);
            c->what_ifs[c->n_what_ifs++] = joined ? argv[i] + 10 : argv[++i];
        } else if (argv[i][0] == '-') {
            return command_fail(EXIT_USAGE, "replay has no option '%s'", argv[i]);
        } else if (c->n_paths == most) {
            return command_fail(EXIT_USAGE, "replay takes one file (with --replicas %d), not '%s'",
                                MAX_JOURNALS, argv[i]);
        } else {
            c->paths[c->n_paths++] = argv[i];
        }
    }
    if (c->n_paths == 0)
        return command_fail(EXIT_USAGE, "replay wants a journal (quire replay --help)");
    return EXIT_OK;
}

int cmd_replay(int argc, char **argv)
{
    struct command c = {.n_paths = 0};
    int code;

    if (command_take_switch(&argc, argv, "--help") || command_take_switch(&argc, argv, "-h"))
        return help();
    if (!cluster_spec_read(&argc, argv, &c.cluster))
        return EXIT_USAGE;
    code = read_arguments(argc, argv, &c);
    return code == EXIT_OK ? run_replay(&c) : code;
}
