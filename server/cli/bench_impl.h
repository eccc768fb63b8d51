/* server/cli/bench_impl.h - shared by the files of `quire bench`: options, streams, steps, and the
 * counting of operations and bytes.
 *
 * Thread: one, which is the engine's.
 * Memory: `struct bench` owns all of it.
 * Errors: ERR_NOMEM; ERR_AGAIN: the cache has no room; bench_fits() checks that before.
 */
#ifndef SERVER_CLI_BENCH_IMPL_H
#define SERVER_CLI_BENCH_IMPL_H

#include "core/base/cpus.h"
#include "core/runtime/batch.h"
#include "core/runtime/runner.h"
#include "kvcache/kv_manager.h"
#include "server/cli/bench_report.h"
#include "server/models/instance.h"

#define BENCH_MAX_STREAMS 1024
#define BENCH_MAX_SAMPLES 4096
#define BENCH_MAX_LIST (BENCH_MAX_RESULTS - 2) /* numbers of one list; prefill and mixed need one
                                                * result each in addition */

struct bench_list {
    uint32_t v[BENCH_MAX_LIST];
    uint32_t n;
};

struct bench_spec {
    int64_t prefill, decode, depth, shared, mixed, chunk, repeat;
    struct bench_list batches;
    struct bench_list rows; /* numbers of rows; if not empty, only steps with these are measured */
    bool csv, json, quick, no_cascade;
    bool topology; /* print the topology only, without any test */
};

struct bench_stream {
    struct kv_seq kv;
    uint32_t n; /* tokens in its cache */
};

struct bench {
    struct cpus cpus; /* CPUs of the process, before its threads were pinned */
    struct instance e;
    struct batch *batch;
    struct bench_stream *streams; /* [BENCH_MAX_STREAMS + 1]: the last one for a prompt */
    double *seconds;              /* [BENCH_MAX_SAMPLES] */
    struct runner_times before;   /* at the beginning of a test's timed steps */
    struct bench_report report;
};

int bench_begin_stream(struct bench *b, struct bench_stream *s);
void bench_end_stream(struct bench *b, struct bench_stream *s);
/* Begin n streams of `depth` tokens each, which are filled in; the first `shared` tokens, in whole
 * blocks, are shared with the first stream. The streams must be ended, after a failure too. */
int bench_begin_streams(struct bench *b, uint32_t n, uint32_t depth, uint32_t shared);
void bench_end_streams(struct bench *b, uint32_t n);

/* Append n more tokens of a stream to the batch as one span, with outputs for the last `n_outputs`
 * of them. */
int bench_add_span(struct bench *b, struct bench_stream *s, uint32_t n, uint32_t n_outputs);
/* Compute the batch; returns seconds. */
double bench_step(struct bench *b);

/* True: the streams fit into the context and the cache, if they share their first tokens. If not,
 * print which test is left out, and why. */
bool bench_fits(const struct bench *b, const char *test, uint64_t n_streams, uint64_t n_tokens,
                uint32_t shared);

/* Call `visit` for each matrix with which `rows` rows in `n_steps` steps are multiplied (`outputs`
 * of them with the output matrix), with its total number of rows and of reads. */
struct matrix;
typedef void (*bench_product_fn)(void *ud, const struct matrix *m, double rows, double n_read);
void bench_each_product(const struct model *m, double rows, double outputs, double n_steps,
                        bench_product_fn visit, void *ud);

/* Add to the result the operations and bytes of `rows` rows in `n_steps` steps, with `outputs` of
 * them sampled and `kv_tokens` tokens attended to (each once: rows of one prompt share them). */
void bench_account(const struct bench *b, struct bench_result *r, double rows, double outputs,
                   double n_steps, double kv_tokens);
/* Begin to count times; called after the warm-up. */
void bench_begin_timing(struct bench *b);
/* Add the times of the parts of steps since bench_begin_timing(), or since the last call, to the
 * result. */
void bench_add_times(struct bench *b, struct bench_result *r);
/* Add a result with n samples, which are sorted. */
void bench_note(struct bench *b, struct bench_result *r, double *seconds, uint32_t n);

/* Run the steps of spec->rows. */
int bench_rows(struct bench *b, const struct bench_spec *spec);

/* Print the CPUs and memory of the machine, the placement of the threads on them, and the
 * prediction of a model for other numbers of threads. */
int bench_topology(struct bench *b, const struct bench_spec *spec);

#endif
