/* server/cli/bench.c - `quire bench`: measures how fast a model is on this machine, and compares
 * that with the machine's limits.
 *
 * Steps are given directly to the runner, in the form that the scheduler would give them, without
 * HTTP and without a plan. Each test repeats one kind of step and reports the median of its
 * samples.
 */
#include "server/cli/command.h"

#include "config/config.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/version.h"
#include "core/model/model.h"
#include "core/runtime/limits/cpu_name.h"
#include "server/cli/bench_impl.h"

#include <stdlib.h>
#include <string.h>

static void print_bench_help(void)
{
    fputs(
        "quire bench [settings]    measure how fast a model is, beside the machine's limits\n"
        "  --prefill N     tokens of a prompt; 0: none [512]\n"
        "  --decode N      timed steps of decoding; 0: none [64]\n"
        "  --batch LIST    streams that decode at once [1,2,4,8,16,32,64]\n"
        "  --rows LIST     run only this test: steps with these numbers of rows of one sequence,\n"
        "                  all sampled, and their cost relative to the first, over --decode "
        "rounds\n"
        "  --depth N       tokens that each stream has when decoding begins [128]\n"
        "  --shared N      how many of these tokens are in blocks that all streams share [0]\n"
        "  --no-cascade    each stream reads shared blocks separately\n"
        "  --mixed N       streams beside a chunk of a prompt; 0: none [8]\n"
        "  --chunk N       tokens of that chunk [256]\n"
        "  --repeat N      timed prompts and mixed steps [5]\n"
        "  --topology      run only this test: print cores, caches and nodes, where threads are\n"
        "                  placed, and the predicted speed with up to 128 threads\n"
        "  --csv, --json   print CSV or JSON instead of Markdown\n"
        "  --quick         measure the machine's limits in less time, with 512 MiB, of which a\n"
        "                  large cache may hold a part\n"
        "The results are medians of wall time; run no other work on the machine. The settings\n"
        "of quire serve are accepted, such as --model; --kv-memory must hold all streams.\n",
        stdout);
}

static bool read_list(const char *option, const char *list, struct bench_list *l)
{
    char *end;

    for (const char *p = list;; p = end + 1) {
        const long n = strtol(p, &end, 10);

        if (end == p || n < 1 || n > BENCH_MAX_STREAMS || (*end != ',' && *end != '\0') ||
            l->n == BENCH_MAX_LIST) {
            command_fail(EXIT_USAGE, "%s must be numbers from 1 to %d, got '%s'", option,
                         BENCH_MAX_STREAMS, list);
            return false;
        }
        l->v[l->n++] = (uint32_t)n;
        if (*end == '\0')
            return true;
    }
}

static bool read_spec(int *argc, char **argv, struct bench_spec *w)
{
    const char *batches = "1,2,4,8,16,32,64", *rows = NULL;

    *w = (struct bench_spec){
        .prefill = 512, .decode = 64, .depth = 128, .mixed = 8, .chunk = 256, .repeat = 5};
    w->csv = command_take_switch(argc, argv, "--csv");
    w->json = command_take_switch(argc, argv, "--json");
    w->quick = command_take_switch(argc, argv, "--quick");
    w->no_cascade = command_take_switch(argc, argv, "--no-cascade");
    w->topology = command_take_switch(argc, argv, "--topology");
    return command_take_int(argc, argv, "--prefill", 0, 1 << 20, &w->prefill) &&
           command_take_int(argc, argv, "--decode", 0, BENCH_MAX_SAMPLES, &w->decode) &&
           command_take_value(argc, argv, "--batch", &batches) &&
           read_list("--batch", batches, &w->batches) &&
           command_take_value(argc, argv, "--rows", &rows) &&
           (rows == NULL || read_list("--rows", rows, &w->rows)) &&
           command_take_int(argc, argv, "--depth", 1, 1 << 20, &w->depth) &&
           command_take_int(argc, argv, "--shared", 0, 1 << 20, &w->shared) &&
           command_take_int(argc, argv, "--mixed", 0, BENCH_MAX_STREAMS, &w->mixed) &&
           command_take_int(argc, argv, "--chunk", 1, 65536, &w->chunk) &&
           command_take_int(argc, argv, "--repeat", 1, BENCH_MAX_SAMPLES, &w->repeat);
}

/* ---- the tests ---- */

/* Compute one whole prompt, in steps of at most max_batch_tokens rows. */
static int one_prompt(struct bench *b, uint32_t n, double *seconds)
{
    struct bench_stream *s = &b->streams[0];
    int rc = bench_begin_stream(b, s);

    *seconds = 0;
    while (rc == 0 && s->n < n) {
        const uint32_t left = n - s->n, most = b->batch->max_rows;
        const uint32_t rows = left < most ? left : most;

        batch_clear(b->batch);
        rc = bench_add_span(b, s, rows, s->n + rows == n ? 1 : 0);
        if (rc == 0)
            *seconds += bench_step(b);
    }
    bench_end_stream(b, s);
    return rc;
}

static int bench_prefill(struct bench *b, const struct bench_spec *w)
{
    const uint32_t n = (uint32_t)w->prefill, repeat = (uint32_t)w->repeat;
    struct bench_result r = {.kind = BENCH_PREFILL, .n_prompt = n};
    double warm_up;
    int rc;

    if (!bench_fits(b, "the prefill", 1, n, 0))
        return 0;
    rc = one_prompt(b, n, &warm_up);
    bench_begin_timing(b);
    for (uint32_t i = 0; rc == 0 && i < repeat; i++)
        rc = one_prompt(b, n, &b->seconds[i]);
    if (rc == 0) {
        bench_account(b, &r, n, 1, (n + b->batch->max_rows - 1) / b->batch->max_rows, n);
        bench_add_times(b, &r);
        bench_note(b, &r, b->seconds, repeat);
    }
    return rc;
}

/* Decode one token for each of n streams, in several steps if a step does not have enough rows. */
static int decode_once(struct bench *b, uint32_t n, double *seconds)
{
    int rc = 0;

    *seconds = 0;
    for (uint32_t at = 0; at < n && rc == 0;) {
        batch_clear(b->batch);
        while (at < n && b->batch->n_rows < b->batch->max_rows && rc == 0)
            rc = bench_add_span(b, &b->streams[at++], 1, 1);
        if (rc == 0)
            *seconds += bench_step(b);
    }
    return rc;
}

static int bench_decode(struct bench *b, const struct bench_spec *w, uint32_t n)
{
    const uint32_t depth = (uint32_t)w->depth, steps = (uint32_t)w->decode;
    struct bench_result r = {.kind = BENCH_DECODE, .n_streams = n, .depth = depth};
    char test[48];
    double warm_up;
    int rc;

    snprintf(test, sizeof(test), "decode of %u at %u", n, depth);
    if (!bench_fits(b, test, n, depth + steps + 1, (uint32_t)w->shared))
        return 0;
    rc = bench_begin_streams(b, n, depth, (uint32_t)w->shared);
    if (rc == 0)
        rc = decode_once(b, n, &warm_up);
    bench_begin_timing(b);
    for (uint32_t i = 0; rc == 0 && i < steps; i++)
        rc = decode_once(b, n, &b->seconds[i]);
    bench_end_streams(b, n);
    if (rc == 0) {
        bench_account(b, &r, n, n, (n + b->batch->max_rows - 1) / b->batch->max_rows,
                (double)n * (depth + steps / 2));
        bench_add_times(b, &r);
        bench_note(b, &r, b->seconds, steps);
    }
    return rc;
}

/* One mixed step: n streams decode, and a chunk of a new prompt is computed. */
static int mixed_once(struct bench *b, uint32_t n, uint32_t chunk, double *seconds)
{
    struct bench_stream *prompt = &b->streams[n];
    int rc = bench_begin_stream(b, prompt);

    batch_clear(b->batch);
    for (uint32_t i = 0; i < n && rc == 0; i++)
        rc = bench_add_span(b, &b->streams[i], 1, 1);
    if (rc == 0)
        rc = bench_add_span(b, prompt, chunk, 0);
    if (rc == 0)
        *seconds = bench_step(b);
    bench_end_stream(b, prompt);
    return rc;
}

static int bench_mixed(struct bench *b, const struct bench_spec *w)
{
    const uint32_t n = (uint32_t)w->mixed, chunk = (uint32_t)w->chunk, depth = (uint32_t)w->depth;
    const uint32_t repeat = (uint32_t)w->repeat;
    struct bench_result r = {
        .kind = BENCH_MIXED, .n_prompt = chunk, .n_streams = n, .depth = depth};
    double warm_up;
    int rc;

    if (n + chunk > b->batch->max_rows) {
        fprintf(stderr,
                "quire: the mixed test is skipped: its %u rows are more than max_batch_tokens\n",
                n + chunk);
        return 0;
    }
    if (!bench_fits(b, "mixed", n + 1, (depth > chunk ? depth : chunk) + repeat + 1, 0))
        return 0;
    rc = bench_begin_streams(b, n, depth, (uint32_t)w->shared);
    if (rc == 0)
        rc = mixed_once(b, n, chunk, &warm_up);
    bench_begin_timing(b);
    for (uint32_t i = 0; rc == 0 && i < repeat; i++)
        rc = mixed_once(b, n, chunk, &b->seconds[i]);
    bench_end_streams(b, n);
    if (rc == 0) {
        bench_account(b, &r, n + chunk, n, 1, (double)n * depth + chunk);
        bench_add_times(b, &r);
        bench_note(b, &r, b->seconds, repeat);
    }
    return rc;
}

static int run_tests(struct bench *b, const struct bench_spec *w)
{
    int rc = 0;

    if (w->topology)
        return bench_topology(b, w);
    if (w->rows.n > 0)
        return w->decode > 0 ? bench_rows(b, w) : 0;
    if (w->prefill > 0)
        rc = bench_prefill(b, w);
    for (uint32_t i = 0; i < w->batches.n && w->decode > 0 && rc == 0; i++)
        rc = bench_decode(b, w, w->batches.v[i]);
    if (w->mixed > 0 && rc == 0)
        rc = bench_mixed(b, w);
    return rc;
}

static int print_report(struct bench_report *r, const struct bench_spec *w)
{
    if (r->n_results == 0)
        return command_fail(EXIT_FAILED, "no test was run: all were excluded or skipped");
    if (w->json && bench_report_json(r, stdout) < 0)
        return command_fail(EXIT_FAILED, "no memory");
    if (w->csv)
        bench_report_csv(r, stdout);
    if (!w->json && !w->csv)
        bench_report_markdown(r, stdout);
    return EXIT_OK;
}

static int make_bench_room(struct bench *b, const struct bench_spec *w)
{
    const struct instance *e = &b->e;
    int rc = batch_create(&b->batch, e->sched.max_batch_tokens, e->sched.max_batch_tokens,
                          e->sched.max_batch_tokens);

    b->streams = mem_calloc(BENCH_MAX_STREAMS + 1, sizeof(*b->streams));
    b->seconds = mem_calloc(BENCH_MAX_SAMPLES, sizeof(*b->seconds));
    if (rc == 0 && (b->streams == NULL || b->seconds == NULL))
        rc = ERR_NOMEM;
    return rc == 0 ? limits_measure(&b->report.limits, e->isa, e->threads, &e->numa, w->quick) : rc;
}

static int bench(struct bench *b, const struct bench_spec *w)
{
    const struct model *m = b->e.model;
    char cpu[CPU_NAME_BYTES];
    int code = EXIT_OK, rc = make_bench_room(b, w);

    cpu_name_read(cpu);
    b->report.version = quire_version();
    b->report.cpu = cpu;
    b->report.isa = kern_isa_name(b->e.isa);
    b->report.kv_type = kern_kv_name(b->e.kv_type);
    b->report.threads = b->e.threads;
    b->report.model = m->name;
    b->report.arch = m->arch;
    b->report.ftype = m->ftype;
    b->report.n_params = m->n_params;
    b->report.weight_bytes = m->weight_bytes;
    if (w->shared > 0 && kv_manager_has_states(b->e.manager))
        code = command_fail(EXIT_USAGE, "--shared: streams of this model cannot share blocks");
    else if (rc == 0)
        rc = run_tests(b, w);
    if (rc < 0)
        code = command_fail(EXIT_FAILED, "cannot measure: %s", err_text(rc));
    else if (code == EXIT_OK && !w->topology)
        code = print_report(&b->report, w);
    batch_destroy(&b->batch);
    mem_free(b->streams);
    mem_free(b->seconds);
    return code;
}

int cmd_bench(int argc, char **argv)
{
    struct bench_spec w;
    struct config config;
    struct bench b = {0};
    char err[512];
    bool done;
    int code;

    if (!read_spec(&argc, argv, &w))
        return EXIT_USAGE;
    code = command_config(&config, argc, argv, print_bench_help, &done);
    if (done)
        return code;
    if (w.csv && w.json) {
        config_release(&config);
        return command_fail(EXIT_USAGE, "give either --csv or --json");
    }
    if (log_is_on(LOG_INFO) && !log_is_on(LOG_DEBUG))
        log_setup(LOG_WARN, false, 2); /* sizes are not logged, because the report has them */
    cpus_read(&b.cpus, "");
    code = instance_init(&b.e, &config, w.no_cascade ? INSTANCE_NO_CASCADE : 0, err, sizeof(err));
    config_release(&config);
    if (code != EXIT_OK)
        return command_fail(code, "%s", err);
    code = bench(&b, &w);
    instance_release(&b.e);
    return code;
}
