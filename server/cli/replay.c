/* server/cli/replay.c - `quire replay`: a run made again from its journal, or made differently. */
#include "server/cli/command.h"

#include "config/words.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "scheduler/replay/replay.h"
#include "scheduler/replay/simulate.h"
#include "server/cli/replay_line.h"
#include "server/instance.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WHAT_IFS 32

/* ---- the replay ---- */

/* One line into the replay. A sentence in `err` when that fails. */
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
    free(line); /* allocated by getline() */
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

static bool set_one_of(const char *value, const char *words, unsigned *out)
{
    const int i = config_word_find(words, value);

    if (i >= 0)
        *out = (unsigned)i;
    return i >= 0;
}

static bool set_number(const char *value, uint32_t *out)
{
    unsigned long v;
    char *end;

    errno = 0;
    v = strtoul(value, &end, 10);
    if (*value < '0' || *value > '9' || *end != '\0' || errno != 0 || v > 1u << 30)
        return false;
    *out = (uint32_t)v;
    return true;
}

/* The names are those of the configuration. False: unknown, or no value of this setting. */
static bool set(struct simulate_options *o, const char *key, const char *value)
{
    const struct {
        const char *key;
        uint32_t *number;
    } numbers[] = {
        {"aging", &o->sched.aging_milli},
        {"max_preemptions", &o->sched.max_preemptions},
        {"max_sequences", &o->sched.max_sequences},
        {"max_batch_tokens", &o->sched.max_batch_tokens},
        {"prefill_chunk", &o->sched.prefill_chunk},
        {"blocks", &o->kv.n_blocks},
    };
    uint32_t v = 0;
    bool ok = false;

    if (strcmp(key, "policy") == 0) {
        ok = set_one_of(value, CONFIG_WORDS(policy), &v);
        o->sched.policy = (enum sched_policy)v;
    } else if (strcmp(key, "preemption") == 0) {
        ok = set_one_of(value, CONFIG_WORDS(preemption), &v);
        o->sched.preemption = (enum sched_preemption)v;
    } else if (strcmp(key, "prefix_cache") == 0) {
        ok = set_one_of(value, CONFIG_WORDS(switch), &v);
        o->kv.prefix_cache = v == CONFIG_ON;
    } else if (strcmp(key, "step_target_ms") == 0) {
        ok = set_number(value, &v);
        o->target_us = (uint64_t)v * 1000;
    }
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (strcmp(numbers[i].key, key) == 0)
            ok = set_number(value, numbers[i].number);
    o->kv.max_chunk = o->sched.prefill_chunk; /* as in the server */
    return ok;
}

/* key=value,key=value */
static int set_all(struct simulate_options *o, const char *text)
{
    char copy[256], *at = copy, *setting, *value;

    if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy))
        return command_fail(EXIT_USAGE, "--what-if %s is too long", text);
    while ((setting = strsep(&at, ",")) != NULL) {
        value = strchr(setting, '=');
        if (value != NULL)
            *value++ = '\0';
        if (value == NULL || !set(o, setting, value))
            return command_fail(EXIT_USAGE, "--what-if %s: cannot set '%s' to '%s'", text, setting,
                                value != NULL ? value : "");
    }
    return EXIT_OK;
}

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
    struct simulate_options own, changed[MAX_WHAT_IFS];
    size_t n;
    int code = EXIT_OK;

    if (!replay_trace(r, &own, &arrivals, &n))
        return command_fail(EXIT_FAILED, "nothing to simulate: in the last run too few steps were "
                                         "made to learn what they cost");
    for (uint32_t i = 0; i < n_texts && code == EXIT_OK; i++) {
        changed[i] = own;
        code = set_all(&changed[i], texts[i]);
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

static int help(void)
{
    puts("quire replay FILE [--what-if SETTING=VALUE[,...]]...\n"
         "  FILE        a journal (quire serve --journal FILE)\n"
         "  --what-if   simulate the same traffic with other settings, one row for each:\n"
         "              policy, preemption, prefix_cache, aging, max_preemptions, max_sequences,\n"
         "              max_batch_tokens, prefill_chunk, step_target_ms, blocks\n"
         "Makes the scheduler's run again and compares every plan. 0: all are equal.\n"
         "Jain's index is over tenants: tokens per second of their requests' time, by weight.");
    return EXIT_OK;
}

static int run(const char *path, const char *const *texts, uint32_t n_texts)
{
    FILE *in = fopen(path, "re");
    struct replay *r = NULL;
    int code;

    if (in == NULL)
        return command_fail(EXIT_FAILED, "cannot open %s: %s", path, strerror(errno));
    if (replay_create(&r, n_texts > 0) < 0)
        code = command_fail(EXIT_FAILED, "out of memory");
    else
        code = replay_file(r, in, path);
    fclose(in);
    if (code == EXIT_OK)
        print_equal(r);
    if (code == EXIT_OK && n_texts > 0)
        code = what_if(r, texts, n_texts);
    replay_destroy(&r);
    return code;
}

int cmd_replay(int argc, char **argv)
{
    const char *texts[MAX_WHAT_IFS], *path = NULL;
    uint32_t n = 0;

    if (command_take_switch(&argc, argv, "--help") || command_take_switch(&argc, argv, "-h"))
        return help();
    for (int i = 1; i < argc; i++) {
        const bool joined = strncmp(argv[i], "--what-if=", 10) == 0;

        if (joined || strcmp(argv[i], "--what-if") == 0) {
            if (n == MAX_WHAT_IFS || (!joined && i + 1 == argc))
                return command_fail(EXIT_USAGE, "--what-if wants a value, %d times at most",
                                    MAX_WHAT_IFS);
            texts[n++] = joined ? argv[i] + 10 : argv[++i];
        } else if (argv[i][0] == '-' || path != NULL) {
            return command_fail(EXIT_USAGE, "replay takes one file, not '%s'", argv[i]);
        } else {
            path = argv[i];
        }
    }
    if (path == NULL)
        return command_fail(EXIT_USAGE, "replay wants a journal (quire replay --help)");
    return run(path, texts, n);
}
