/* server/cli/bench_report.h - the figures of `quire bench` as Markdown, CSV or JSON.
 *
 * Rates follow from a test's shape and its median time: tokens a second; the arithmetic of the
 * matrix products and the bytes of weights, keys and values that a step must read, both beside the
 * measured peaks of the machine; and the parts of the steps' time.
 *
 * Thread: any.
 * Memory: the struct is the caller's, texts are borrowed.
 */
#ifndef SERVER_CLI_BENCH_REPORT_H
#define SERVER_CLI_BENCH_REPORT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/runtime/limits/limits.h"
#include "core/runtime/runner.h"

#define BENCH_MAX_RESULTS 40

enum bench_kind { BENCH_PREFILL = 0, BENCH_DECODE, BENCH_MIXED, BENCH_ROWS };

struct bench_result {
    enum bench_kind kind;
    uint32_t n_prompt;  /* tokens of a prompt, or rows, in a step; 0: decoding only */
    uint32_t n_streams; /* each decodes one token; 0: a prompt only */
    uint32_t depth;     /* tokens that each stream has when timing begins */
    uint32_t n_samples; /* number of samples that were timed */
    double median_s, least_s, most_s;
    double ops;         /* operations of matrix products; a multiply-add counts as two */
    double limit_s;     /* least time for the operations at the machine's peaks */
    double read_bytes;  /* weights once, and the keys and values that are attended to */
    double part_s[RUNNER_N_PART]; /* seconds of each part of a step, summed over all samples */
    double cost;        /* BENCH_ROWS: time of a step, relative to one with the first number of
                         * rows */
};

struct bench_report {
    const char *version, *cpu, *isa, *kv_type, *model, *arch, *ftype;
    uint32_t threads;
    uint64_t n_params, weight_bytes;
    struct limits limits;
    uint32_t n_results;
    struct bench_result results[BENCH_MAX_RESULTS];
};

void bench_report_markdown(const struct bench_report *r, FILE *out);
void bench_report_csv(const struct bench_report *r, FILE *out);
/* Print as JSON. ERR_NOMEM. */
int bench_report_json(const struct bench_report *r, FILE *out);

#endif
