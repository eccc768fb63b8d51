/* server/cli/replay.c - `quire replay`: runs the scheduler again from a journal, and compares, or
 * simulates the same requests with other settings.
 *
 * The lines of the journal are given to the replay (replay_file.h), which runs the scheduler
 * without an engine and compares its plans with the recorded ones. For
 * --what-if the arrivals and step costs of the last run are given to the simulator.
 */
#include "server/cli/command.h"

#include "core/base/err.h"
#include "scheduler/replay/replay.h"
#include "scheduler/replay/simulate.h"
#include "server/cli/replay_file.h"
#include "server/cli/what_if.h"
#include "server/models/instance.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- the replay ---- */

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
        return command_fail(EXIT_USAGE, "%s: these settings exclude each other", name);
    for (size_t i = 0; i < n && rc >= 0; i++)
        rc = simulate_add(s, &arrivals[i]);
    if (rc >= 0)
        rc = simulate_run(s, UINT64_MAX);
    if (rc == 0)
        rc = simulate_summarise(s, &summary);
    simulate_destroy(&s);
    if (rc < 0)
        return command_fail(EXIT_FAILED, "%s: the simulation failed: %s", name, err_text((int)rc));
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
           (double)c->kv_decode_ps / 1e3, (double)c->kv_prefill_ps / 1e3, (double)c->swap_ns / 1e6);
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
        return command_fail(
            EXIT_FAILED,
            "the last run cannot be simulated: it has too few steps to learn their cost");
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

struct command { /* the parsed command line */
    const char *path, *what_ifs[WHAT_IF_MAX];
    uint32_t n_what_ifs;
};

static int help(void)
{
    puts("quire replay FILE [--what-if SETTING=VALUE[,...]]...\n"
         "  FILE               a journal (quire serve --journal FILE)\n"
         "  --what-if          simulate the same traffic with other settings, one row for each:\n"
         "                     " WHAT_IF_NAMES "\n"
         "The scheduler's run is repeated and every plan compared; the exit code is 0 if all are\n"
         "equal. Jain's index compares tenants by the tokens per second of their requests' time,\n"
         "divided by their weights.");
    return EXIT_OK;
}

static int run_replay(const struct command *c)
{
    struct replay *r;
    int code = replay_file(&r, c->path, c->n_what_ifs > 0);

    if (code == EXIT_OK)
        print_equal(r);
    if (code == EXIT_OK && c->n_what_ifs > 0)
        code = what_if(r, c->what_ifs, c->n_what_ifs);
    replay_destroy(&r);
    return code;
}

static int read_arguments(int argc, char **argv, struct command *c)
{
    for (int i = 1; i < argc; i++) {
        const int taken = what_if_take(argc, argv, &i, c->what_ifs, &c->n_what_ifs);

        if (taken < 0)
            return EXIT_USAGE;
        if (taken > 0)
            continue;
        if (argv[i][0] == '-')
            return command_fail(EXIT_USAGE, "replay has no option '%s'", argv[i]);
        if (c->path != NULL)
            return command_fail(EXIT_USAGE, "replay takes one file, not '%s' as well", argv[i]);
        c->path = argv[i];
    }
    if (c->path == NULL)
        return command_fail(EXIT_USAGE, "replay needs a journal (quire replay --help)");
    return EXIT_OK;
}

int cmd_replay(int argc, char **argv)
{
    struct command c = {.path = NULL};
    int code;

    if (command_take_switch(&argc, argv, "--help") || command_take_switch(&argc, argv, "-h"))
        return help();
    code = read_arguments(argc, argv, &c);
    return code == EXIT_OK ? run_replay(&c) : code;
}
