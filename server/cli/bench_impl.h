/* server/cli/bench_impl.h - what the files of `quire bench` share: what is asked for, the streams
 * that steps are made of, and the sums that a result is made of.
 *
 * Thread: one, which is the engine's.
 * Memory: `struct bench` owns all of it.
 * Errors: ERR_NOMEM; ERR_AGAIN when the cache has no room, which bench_fits() asks first.
 */
#ifndef SERVER_CLI_BENCH_IMPL_H
#define SERVER_CLI_BENCH_IMPL_H

#include "core/base/cpus.h"
#include "core/runtime/batch.h"
#include "core/runtime/runner.h"
#include "kvcache/kv_manager.h"
#include "server/cli/bench_report.h"
#include "server/instance.h"

#define BENCH_MAX_STREAMS 1024
#define BENCH_MAX_SAMPLES 4096
#define BENCH_MAX_LIST (BENCH_MAX_RESULTS - 2) /* numbers; beside them prefill and mixed */

struct bench_list {
    uint32_t v[BENCH_MAX_LIST];
    uint32_t n;
};

struct bench_spec {
    int64_t prefill, decode, depth, shared, mixed, chunk, repeat;
    struct bench_list batches;
    struct bench_list rows; /* not empty: these steps and no others */
    bool csv, json, quick, no_cascade;
    bool topology; /* that, and no test */
};

struct bench_stream {
    struct kv_seq kv;
    uint32_t n; /* tokens that it has */
};

struct bench {
    struct cpus cpus; /* of the process, before its threads were kept on some */
    struct instance e;
    struct batch *batch;
    struct bench_stream *streams; /* [BENCH_MAX_STREAMS + 1]: a prompt beside them */
    double *seconds;              /* [BENCH_MAX_SAMPLES] */
    struct runner_times before;   /* the timed steps of a test */
    struct bench_report report;
};

int bench_begin_stream(struct bench *b, struct bench_stream *s);
void bench_end_stream(struct bench *b, struct bench_stream *s);
/* n streams of `depth` tokens each, which are filled in; the first `shared` of these, in whole
 * blocks, are the first stream's. After a failure too they must be ended. */
int bench_begin_streams(struct bench *b, uint32_t n, uint32_t depth, uint32_t shared);
void bench_end_streams(struct bench *b, uint32_t n);

/* Append to the batch n more tokens of a stream as one span, the last `n_outputs` of which have
 * something sampled. */
int bench_add_span(struct bench *b, struct bench_stream *s, uint32_t n, uint32_t n_outputs);
/* Compute the batch: seconds. */
double bench_step(struct bench *b);

/* Does it fit into the context and the cache, if the streams share their first tokens? Else say
 * what is left out, and why. */
bool bench_fits(const struct bench *b, const char *test, uint64_t n_streams, uint64_t n_tokens,
                uint32_t shared);

/* Each matrix of the model that `rows` rows in `n_steps` steps go through, `outputs` of them
 * through the output matrix: how many rows in all, and how many such matrices a step reads. */
struct matrix;
typedef void (*bench_product_fn)(void *ud, const struct matrix *m, double rows, double n_read);
void bench_each_product(const struct model *m, double rows, double outputs, double n_steps,
                        bench_product_fn visit, void *ud);

/* `rows` rows in `n_steps` steps with `outputs` of them sampled, and `kv_tokens` tokens attended
 * to (once each: rows of one prompt share them). */
void bench_account(const struct bench *b, struct bench_result *r, double rows, double outputs,
                   double n_steps, double kv_tokens);
/* The warm-up is over. */
void bench_begin_timing(struct bench *b);
/* Add where the time went since bench_begin_timing(), or since this was called. */
void bench_add_times(struct bench *b, struct bench_result *r);
/* A result is known: of n samples, which are put in order. */
void bench_note(struct bench *b, struct bench_result *r, double *seconds, uint32_t n);

/* The steps of spec->rows. */
int bench_rows(struct bench *b, const struct bench_spec *spec);

/* What the machine is made of, how the threads are placed on it, and what a model of it says of
 * other numbers of threads. */
int bench_topology(struct bench *b, const struct bench_spec *spec);

#endif
