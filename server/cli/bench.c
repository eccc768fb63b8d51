/* server/cli/bench.c - `quire bench`: how fast a model is on this machine, beside its limits.
 *
 * Steps are given to the runner as the scheduler would, without HTTP and without a plan. Keys and
 * values of earlier tokens are not computed but filled in, since no time depends on what they are;
 * every byte of them is real memory.
 */
#include "server/cli/command.h"

#include "config/config.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/version.h"
#include "core/model/model.h"
#include "core/runtime/runner.h"
#include "kvcache/kv_manager.h"
#include "kvcache/kv_store.h"
#include "server/cli/bench_report.h"
#include "server/instance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_STREAMS 1024
#define MAX_SAMPLES 4096

struct spec {
    int64_t prefill, decode, depth, shared, mixed, chunk, repeat;
    uint32_t batches[BENCH_MAX_RESULTS - 2];
    uint32_t n_batches;
    bool csv, json, quick, no_cascade;
};

struct stream {
    struct kv_seq kv;
    uint32_t n; /* tokens that it has */
};

struct bench {
    struct instance e;
    struct batch *batch;
    struct stream *streams; /* [MAX_STREAMS] */
    double *seconds;        /* [MAX_SAMPLES] */
    struct runner_times before; /* the timed steps of a test */
    struct bench_report report;
};

static void print_help(void)
{
    fputs("quire bench [settings]    how fast a model is here, beside the machine's limits\n"
          "  --prefill N     tokens of a prompt; 0: none [512]\n"
          "  --decode N      timed steps of decoding; 0: none [64]\n"
          "  --batch LIST    streams that decode at once [1,2,4,8,16,32,64]\n"
          "  --depth N       tokens that each stream has when decoding begins [128]\n"
          "  --shared N      the first so many of these are the same blocks in all streams [0]\n"
          "  --no-cascade    each stream reads shared blocks for itself\n"
          "  --mixed N       streams beside a chunk of a prompt; 0: none [8]\n"
          "  --chunk N       tokens of that chunk [256]\n"
          "  --repeat N      timed prompts and mixed steps [5]\n"
          "  --csv, --json   instead of Markdown\n"
          "  --quick         limits on 128 MiB, which a large cache may hold\n"
          "Medians of wall time, on a machine that should be quiet. Settings as for quire serve,\n"
          "--model first of all; --kv-memory must hold all streams.\n",
          stdout);
}

static bool read_batches(const char *list, struct spec *w)
{
    char *end;

    for (const char *p = list;; p = end + 1) {
        const long n = strtol(p, &end, 10);

        if (end == p || n < 1 || n > MAX_STREAMS || (*end != ',' && *end != '\0') ||
            w->n_batches == sizeof(w->batches) / sizeof(*w->batches)) {
            command_fail(EXIT_USAGE, "--batch must be numbers from 1 to %d, got '%s'", MAX_STREAMS,
                         list);
            return false;
        }
        w->batches[w->n_batches++] = (uint32_t)n;
        if (*end == '\0')
            return true;
    }
}

static bool read_spec(int *argc, char **argv, struct spec *w)
{
    const char *batches = "1,2,4,8,16,32,64";

    *w = (struct spec){
        .prefill = 512, .decode = 64, .depth = 128, .mixed = 8, .chunk = 256, .repeat = 5};
    w->csv = command_take_switch(argc, argv, "--csv");
    w->json = command_take_switch(argc, argv, "--json");
    w->quick = command_take_switch(argc, argv, "--quick");
    w->no_cascade = command_take_switch(argc, argv, "--no-cascade");
    return command_take_int(argc, argv, "--prefill", 0, 1 << 20, &w->prefill) &&
           command_take_int(argc, argv, "--decode", 0, MAX_SAMPLES, &w->decode) &&
           command_take_value(argc, argv, "--batch", &batches) && read_batches(batches, w) &&
           command_take_int(argc, argv, "--depth", 1, 1 << 20, &w->depth) &&
           command_take_int(argc, argv, "--shared", 0, 1 << 20, &w->shared) &&
           command_take_int(argc, argv, "--mixed", 0, MAX_STREAMS, &w->mixed) &&
           command_take_int(argc, argv, "--chunk", 1, 65536, &w->chunk) &&
           command_take_int(argc, argv, "--repeat", 1, MAX_SAMPLES, &w->repeat);
}

/* ---- streams ---- */

static int begin_stream(struct bench *b, struct stream *s)
{
    const uint32_t cap = block_table_needed(b->e.sched.max_context);
    const uint32_t n_groups = kv_manager_n_groups(b->e.manager);
    block_id *blocks = mem_calloc(n_groups, cap * sizeof(*blocks));

    s->n = 0;
    kv_seq_init(&s->kv, blocks, blocks != NULL ? cap : 0, n_groups);
    return blocks != NULL ? 0 : ERR_NOMEM;
}

static void end_stream(struct bench *b, struct stream *s)
{
    block_id *blocks = s->kv.table.blocks;

    kv_manager_release(b->e.manager, &s->kv);
    mem_free(blocks);
    memset(s, 0, sizeof(*s));
}

/* Give the stream `depth` tokens: the first `shared` of them, in whole blocks, are those of the
 * first stream; the other blocks are full of small numbers (0x2c2c is 0.065 as f16). */
static int fill_stream(struct bench *b, struct stream *s, uint32_t depth, uint32_t shared)
{
    const size_t bytes = kv_store_block_bytes(&b->e.kv->shape);
    const uint32_t most = shared < depth ? shared : depth;
    const uint32_t forked = s != b->streams ? most / BLOCK_TOKENS * BLOCK_TOKENS : 0;
    int rc;

    if (forked > 0)
        kv_manager_fork(b->e.manager, &s->kv, &b->streams[0].kv, forked);
    rc = kv_manager_grow(b->e.manager, &s->kv, forked, depth);
    for (uint32_t group = 0; rc == 0 && group < s->kv.table.n_groups; group++)
        for (uint32_t i = forked / BLOCK_TOKENS; i < s->kv.table.n; i++)
            memset(kv_store_block(b->e.kv, *block_table_at(&s->kv.table, group, i)), 0x2c, bytes);
    s->n = depth;
    return rc;
}

/* n more tokens of a stream as one span; with an output, something is sampled at its last row. */
static int add_span(struct bench *b, struct stream *s, uint32_t n, bool output)
{
    static const struct sampling greedy = {.n_top = -1, .top_p = 1, .repetition_penalty = 1};
    int32_t *ids = mem_calloc(n, sizeof(*ids));
    int rc = ids != NULL ? 0 : ERR_NOMEM;
    uint32_t row;

    for (uint32_t i = 0; rc == 0 && i < n; i++)
        ids[i] = (int32_t)((s->n + i) * 7919u % b->e.model->shape.n_vocab);
    if (rc == 0) {
        kv_manager_free_out_of_window(b->e.manager, &s->kv, s->n);
        rc = kv_manager_grow(b->e.manager, &s->kv, s->n, s->n + n);
    }
    if (rc == 0) {
        row = batch_add_span(b->batch, ids, n, s->n, s->kv.table.blocks, s->kv.table.cap);
        b->batch->spans[b->batch->n_spans - 1].state = s->kv.state;
        s->n += n;
        if (output)
            batch_add_output(b->batch, row + n - 1)->sampling = &greedy;
    }
    mem_free(ids);
    return rc;
}

static double step(struct bench *b)
{
    struct timespec from, to;

    clock_gettime(CLOCK_MONOTONIC, &from);
    runner_step(b->e.runner, b->batch);
    clock_gettime(CLOCK_MONOTONIC, &to);
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
}

/* ---- what a step amounts to ---- */

/* `rows` rows through a matrix, or, of several, through each: operations, and the least time. */
static void add_product(const struct bench *b, struct bench_result *r, const struct matrix *m,
                        double rows)
{
    const struct limits *l = &b->report.limits;
    const double ops = 2 * rows * m->n_in * m->n_out;

    if (!matrix_exists(m))
        return;
    r->ops += ops;
    r->limit_s +=
        ops / 1e9 / (kern_weight_is_quantised(m->type) ? l->int8_gops : l->fp32_gflops);
}

/* `n` of its matrices are read. */
static void add_weights(struct bench_result *r, const struct matrix *m, double n)
{
    r->read_bytes += n * (double)m->n_panels * (double)m->panel_bytes;
}

/* Experts that so many rows choose, if all are as likely. */
static double experts_read(const struct model_shape *s, double rows)
{
    return s->n_expert * (1 - pow(1 - (double)s->n_expert_used / s->n_expert, rows));
}

/* The layer's products over `rows` rows in steps of `step_rows`. */
static void account_layer(const struct bench *b, struct bench_result *r,
                          const struct model_layer *l, double rows, double step_rows)
{
    const struct model_shape *s = &b->e.model->shape;
    const struct matrix *dense[] = {
        &l->q,        &l->k,         &l->v,         &l->q_down,    &l->key_up,
        &l->value_up, &l->attn_gate, &l->attn_out,  &l->router,    &l->ffn.gate,
        &l->ffn.up,   &l->ffn.down,  &l->shared_gate, &l->mix.in,  &l->mix.q,
        &l->mix.k,    &l->mix.v,     &l->mix.z,     &l->mix.z_low, &l->mix.alpha,
        &l->mix.alpha_low, &l->mix.beta, &l->mix.x, &l->mix.dt,    &l->mix.out,
        &l->experts_in, &l->experts_out};
    const struct matrix *experts[] = {&l->experts.gate, &l->experts.up, &l->experts.down};

    for (size_t j = 0; j < sizeof(dense) / sizeof(*dense); j++) {
        add_product(b, r, dense[j], rows * dense[j]->n_each);
        add_weights(r, dense[j], dense[j]->n_each);
    }
    for (size_t j = 0; s->n_expert > 0 && j < sizeof(experts) / sizeof(*experts); j++) {
        add_product(b, r, experts[j], rows * s->n_expert_used);
        add_weights(r, experts[j], experts_read(s, step_rows));
    }
}

/* `rows` rows in `n_steps` steps with `outputs` of them sampled, and `kv_tokens` tokens attended
 * to (once each: rows of one prompt share them). */
static void account(const struct bench *b, struct bench_result *r, double rows, double outputs,
                    double n_steps, double kv_tokens)
{
    const struct model *m = b->e.model;
    uint32_t n_attention = 0;

    for (uint32_t i = 0; i < m->shape.n_layer; i++) {
        account_layer(b, r, &m->layers[i], rows, rows / n_steps);
        n_attention += m->layers[i].has_attention ? 1 : 0;
    }
    add_product(b, r, &m->output, outputs);
    add_weights(r, &m->output, 1);
    r->read_bytes *= n_steps;
    if (n_attention > 0)
        r->read_bytes += kv_tokens * (double)kv_store_block_bytes(&b->e.kv->shape) / BLOCK_TOKENS *
                         n_attention / b->e.kv->shape.n_layer;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The warm-up is over. */
static void begin_timing(struct bench *b)
{
    b->before = *runner_times(b->e.runner);
}

static void note_shares(const struct bench *b, struct bench_result *r)
{
    const struct runner_times *now = runner_times(b->e.runner);
    double all = 0;

    for (int i = 0; i < RUNNER_N_PART; i++)
        all += (double)(now->ns[i] - b->before.ns[i]);
    for (int i = 0; i < RUNNER_N_PART && all > 0; i++)
        r->share[i] = (double)(now->ns[i] - b->before.ns[i]) / all;
}

static void note(struct bench *b, struct bench_result *r, uint32_t n)
{
    note_shares(b, r);
    qsort(b->seconds, n, sizeof(*b->seconds), by_value);
    r->n_samples = n;
    r->least_s = b->seconds[0];
    r->median_s = b->seconds[n / 2];
    r->most_s = b->seconds[n - 1];
    b->report.results[b->report.n_results++] = *r;
}

/* Does it fit into the context and the cache, if the streams share their first tokens? Else say
 * what is left out, and why. */
static bool fits(const struct bench *b, const char *test, uint64_t n_streams, uint64_t n_tokens,
                 uint32_t shared)
{
    const uint32_t most = n_tokens < UINT32_MAX ? (uint32_t)n_tokens : UINT32_MAX;
    const uint64_t forked = kv_manager_n_forked(b->e.manager, shared < most ? shared : most);
    const uint64_t blocks =
        n_streams * kv_groups_peak(&b->e.cache.groups, most, 0) - (n_streams - 1) * forked;

    if (n_tokens > b->e.sched.max_context)
        fprintf(stderr, "quire: %s left out: %llu tokens are more than the context of %u\n", test,
                (unsigned long long)n_tokens, b->e.sched.max_context);
    else if (blocks > b->e.kv->n_blocks)
        fprintf(stderr, "quire: %s left out: it needs --kv-memory %llum\n", test,
                (unsigned long long)(((blocks + 1) * kv_store_block_bytes(&b->e.kv->shape) >> 20) +
                                     1));
    else
        return true;
    return false;
}

/* ---- the tests ---- */

/* One whole prompt, in steps of at most max_batch_tokens rows. */
static int one_prompt(struct bench *b, uint32_t n, double *seconds)
{
    struct stream *s = &b->streams[0];
    int rc = begin_stream(b, s);

    *seconds = 0;
    while (rc == 0 && s->n < n) {
        const uint32_t left = n - s->n, most = b->batch->max_rows;
        const uint32_t rows = left < most ? left : most;

        batch_clear(b->batch);
        rc = add_span(b, s, rows, s->n + rows == n);
        if (rc == 0)
            *seconds += step(b);
    }
    end_stream(b, s);
    return rc;
}

static int bench_prefill(struct bench *b, const struct spec *w)
{
    const uint32_t n = (uint32_t)w->prefill, repeat = (uint32_t)w->repeat;
    struct bench_result r = {.kind = BENCH_PREFILL, .n_prompt = n};
    double warm_up;
    int rc;

    if (!fits(b, "the prefill", 1, n, 0))
        return 0;
    rc = one_prompt(b, n, &warm_up);
    begin_timing(b);
    for (uint32_t i = 0; rc == 0 && i < repeat; i++)
        rc = one_prompt(b, n, &b->seconds[i]);
    if (rc == 0) {
        account(b, &r, n, 1, (n + b->batch->max_rows - 1) / b->batch->max_rows, n);
        note(b, &r, repeat);
    }
    return rc;
}

static int begin_streams(struct bench *b, uint32_t n, uint32_t depth, uint32_t shared)
{
    int rc = 0;

    for (uint32_t i = 0; i < n && rc == 0; i++) {
        rc = begin_stream(b, &b->streams[i]);
        if (rc == 0)
            rc = fill_stream(b, &b->streams[i], depth, shared);
    }
    return rc;
}

static void end_streams(struct bench *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        end_stream(b, &b->streams[i]);
}

/* A token for each of n streams; more rows than a step has room for make it several. */
static int decode_once(struct bench *b, uint32_t n, double *seconds)
{
    int rc = 0;

    *seconds = 0;
    for (uint32_t at = 0; at < n && rc == 0;) {
        batch_clear(b->batch);
        while (at < n && b->batch->n_rows < b->batch->max_rows && rc == 0)
            rc = add_span(b, &b->streams[at++], 1, true);
        if (rc == 0)
            *seconds += step(b);
    }
    return rc;
}

static int bench_decode(struct bench *b, const struct spec *w, uint32_t n)
{
    const uint32_t depth = (uint32_t)w->depth, steps = (uint32_t)w->decode;
    struct bench_result r = {.kind = BENCH_DECODE, .n_streams = n, .depth = depth};
    char test[48];
    double warm_up;
    int rc;

    snprintf(test, sizeof(test), "decode of %u at %u", n, depth);
    if (!fits(b, test, n, depth + steps + 1, (uint32_t)w->shared))
        return 0;
    rc = begin_streams(b, n, depth, (uint32_t)w->shared);
    if (rc == 0)
        rc = decode_once(b, n, &warm_up);
    begin_timing(b);
    for (uint32_t i = 0; rc == 0 && i < steps; i++)
        rc = decode_once(b, n, &b->seconds[i]);
    end_streams(b, n);
    if (rc == 0) {
        account(b, &r, n, n, (n + b->batch->max_rows - 1) / b->batch->max_rows,
                (double)n * (depth + steps / 2));
        note(b, &r, steps);
    }
    return rc;
}

/* The chunk is the beginning of a prompt, a new one each time. */
static int mixed_once(struct bench *b, uint32_t n, uint32_t chunk, double *seconds)
{
    struct stream *prompt = &b->streams[n];
    int rc = begin_stream(b, prompt);

    batch_clear(b->batch);
    for (uint32_t i = 0; i < n && rc == 0; i++)
        rc = add_span(b, &b->streams[i], 1, true);
    if (rc == 0)
        rc = add_span(b, prompt, chunk, false);
    if (rc == 0)
        *seconds = step(b);
    end_stream(b, prompt);
    return rc;
}

static int bench_mixed(struct bench *b, const struct spec *w)
{
    const uint32_t n = (uint32_t)w->mixed, chunk = (uint32_t)w->chunk, depth = (uint32_t)w->depth;
    const uint32_t repeat = (uint32_t)w->repeat;
    struct bench_result r = {
        .kind = BENCH_MIXED, .n_prompt = chunk, .n_streams = n, .depth = depth};
    double warm_up;
    int rc;

    if (n + chunk > b->batch->max_rows) {
        fprintf(stderr, "quire: mixed left out: %u rows are more than max_batch_tokens\n",
                n + chunk);
        return 0;
    }
    if (!fits(b, "mixed", n + 1, (depth > chunk ? depth : chunk) + repeat + 1, 0))
        return 0;
    rc = begin_streams(b, n, depth, (uint32_t)w->shared);
    if (rc == 0)
        rc = mixed_once(b, n, chunk, &warm_up);
    begin_timing(b);
    for (uint32_t i = 0; rc == 0 && i < repeat; i++)
        rc = mixed_once(b, n, chunk, &b->seconds[i]);
    end_streams(b, n);
    if (rc == 0) {
        account(b, &r, n + chunk, n, 1, (double)n * depth + chunk);
        note(b, &r, repeat);
    }
    return rc;
}

static int run_tests(struct bench *b, const struct spec *w)
{
    int rc = 0;

    if (w->prefill > 0)
        rc = bench_prefill(b, w);
    for (uint32_t i = 0; i < w->n_batches && w->decode > 0 && rc == 0; i++)
        rc = bench_decode(b, w, w->batches[i]);
    if (w->mixed > 0 && rc == 0)
        rc = bench_mixed(b, w);
    return rc;
}

static int print_report(struct bench_report *r, const struct spec *w)
{
    if (r->n_results == 0)
        return command_fail(EXIT_FAILED, "nothing was measured");
    if (w->json && bench_report_json(r, stdout) < 0)
        return command_fail(EXIT_FAILED, "no memory");
    if (w->csv)
        bench_report_csv(r, stdout);
    if (!w->json && !w->csv)
        bench_report_markdown(r, stdout);
    return EXIT_OK;
}

static int make_room(struct bench *b, const struct spec *w)
{
    const struct instance *e = &b->e;
    int rc = batch_create(&b->batch, e->sched.max_batch_tokens, e->sched.max_batch_tokens,
                          e->sched.max_batch_tokens);

    b->streams = mem_calloc(MAX_STREAMS + 1, sizeof(*b->streams)); /* and a prompt beside them */
    b->seconds = mem_calloc(MAX_SAMPLES, sizeof(*b->seconds));
    if (rc == 0 && (b->streams == NULL || b->seconds == NULL))
        rc = ERR_NOMEM;
    return rc == 0 ? limits_measure(&b->report.limits, e->isa, e->threads, w->quick) : rc;
}

static int bench(struct bench *b, const struct spec *w)
{
    const struct model *m = b->e.model;
    char cpu[49];
    int code = EXIT_OK, rc = make_room(b, w);

    limits_cpu_name(cpu);
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
    else if (code == EXIT_OK)
        code = print_report(&b->report, w);
    batch_destroy(&b->batch);
    mem_free(b->streams);
    mem_free(b->seconds);
    return code;
}

int cmd_bench(int argc, char **argv)
{
    struct spec w;
    struct config config;
    struct bench b = {0};
    char err[512];
    bool done;
    int code;

    if (!read_spec(&argc, argv, &w))
        return EXIT_USAGE;
    code = command_config(&config, argc, argv, print_help, &done);
    if (done)
        return code;
    if (w.csv && w.json) {
        config_release(&config);
        return command_fail(EXIT_USAGE, "give either --csv or --json");
    }
    if (log_is_on(LOG_INFO) && !log_is_on(LOG_DEBUG))
        log_setup(LOG_WARN, false, 2); /* the sizes are in the report */
    code = instance_init(&b.e, &config, w.no_cascade ? INSTANCE_NO_CASCADE : 0, err, sizeof(err));
    config_release(&config);
    if (code != EXIT_OK)
        return command_fail(code, "%s", err);
    code = bench(&b, &w);
    instance_release(&b.e);
    return code;
}
