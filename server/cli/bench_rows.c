/* server/cli/bench_rows.c - see bench_impl.h: measures the cost of verifying several rows together.
 *
 * In every round each number of rows has one step, on a stream of the same depth. A cost is the
 * median over the rounds of the ratio of steps in the same round, so that a machine that is slow
 * for a while slows down both sides of the ratio.
 */
#include "server/cli/bench_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <stdio.h>
#include <stdlib.h>

struct rounds {
    const struct bench_spec *spec;
    struct bench_result *results; /* [spec->rows.n] */
    double *seconds;              /* [spec->rows.n][spec->decode] */
    double *ratios;               /* [spec->decode] */
};

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double *seconds_of(const struct rounds *r, uint32_t i)
{
    return r->seconds + i * (size_t)r->spec->decode;
}

static int one_step(struct bench *b, uint32_t n_rows, uint32_t depth, double *seconds)
{
    int rc = bench_begin_streams(b, 1, depth, 0);

    batch_clear(b->batch);
    if (rc == 0)
        rc = bench_add_span(b, &b->streams[0], n_rows, n_rows);
    if (rc == 0)
        *seconds = bench_step(b);
    bench_end_streams(b, 1);
    return rc;
}

/* Run all rounds; round -1 is the warm-up. */
static int run_rounds(struct bench *b, const struct rounds *r)
{
    const struct bench_spec *spec = r->spec;
    double unused = 0;
    int rc = 0;

    for (int64_t round = -1; round < spec->decode; round++)
        for (uint32_t i = 0; i < spec->rows.n && rc == 0; i++) {
            double *seconds = round < 0 ? &unused : &seconds_of(r, i)[round];

            bench_begin_timing(b);
            rc = one_step(b, spec->rows.v[i], (uint32_t)spec->depth, seconds);
            if (round >= 0)
                bench_add_times(b, &r->results[i]);
        }
    return rc;
}

static double cost(const struct rounds *r, uint32_t i)
{
    const size_t n = (size_t)r->spec->decode;

    for (size_t round = 0; round < n; round++)
        r->ratios[round] = seconds_of(r, i)[round] / seconds_of(r, 0)[round];
    qsort(r->ratios, n, sizeof(*r->ratios), ascending);
    return r->ratios[n / 2];
}

static int measure(struct bench *b, const struct rounds *r)
{
    const struct bench_list *rows = &r->spec->rows;
    const int rc = run_rounds(b, r);

    for (uint32_t i = 0; i < rows->n && rc == 0; i++) /* the costs need the samples by round, so
                                                       * before they are sorted */
        r->results[i].cost = cost(r, i);
    for (uint32_t i = 0; i < rows->n && rc == 0; i++) {
        bench_account(b, &r->results[i], rows->v[i], rows->v[i], 1, (double)r->spec->depth);
        bench_note(b, &r->results[i], seconds_of(r, i), (uint32_t)r->spec->decode);
    }
    return rc;
}

int bench_rows(struct bench *b, const struct bench_spec *spec)
{
    const uint32_t depth = (uint32_t)spec->depth;
    struct rounds r = {.spec = spec};
    uint32_t most = 0;
    int rc = 0;

    r.results = mem_calloc(spec->rows.n, sizeof(*r.results));
    r.seconds = mem_calloc(spec->rows.n, (size_t)spec->decode * sizeof(*r.seconds));
    r.ratios = mem_calloc((size_t)spec->decode, sizeof(*r.ratios));
    if (r.results == NULL || r.seconds == NULL || r.ratios == NULL)
        rc = ERR_NOMEM;
    for (uint32_t i = 0; i < spec->rows.n && rc == 0; i++) {
        most = spec->rows.v[i] > most ? spec->rows.v[i] : most;
        r.results[i] = (struct bench_result){
            .kind = BENCH_ROWS, .n_prompt = spec->rows.v[i], .depth = depth};
    }
    if (rc == 0 && most > b->batch->max_rows)
        fprintf(stderr, "quire: a test is skipped: its %u rows are more than max_batch_tokens\n",
                most);
    else if (rc == 0 && bench_fits(b, "rows", 1, (uint64_t)depth + most, 0))
        rc = measure(b, &r);
    mem_free(r.results);
    mem_free(r.seconds);
    mem_free(r.ratios);
    return rc;
}
