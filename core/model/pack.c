/* core/model/pack.c - see pack.h.
 *
 * The work is cut into chunks of panels of one matrix, numbered through. Threads take the next
 * number from a counter; the panels that they write do not overlap, so nothing else is shared.
 */
#include "core/model/pack.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)1 << 20)

struct work {
    const struct matrix_job *jobs;
    size_t n_jobs;
    uint64_t *first; /* [n_jobs + 1] the number of each job's first chunk */
    uint64_t total;  /* file bytes of all jobs */
    size_t scratch;  /* bytes for 16 converted rows of any job */
    const struct model_options *options;
    /* Relaxed: threads hand over panels by being joined, these are counts only. */
    atomic_uint_fast64_t next; /* chunk to be taken */
    atomic_uint_fast64_t done; /* file bytes packed */
    atomic_size_t bad;         /* least job with a number that is not finite, or n_jobs */
};

struct worker {
    struct work *w;
    pthread_t thread;
    uint8_t *scratch;
    bool reports;
};

bool pack_is_expanded(enum block_type type)
{
    return type == BLOCK_Q4_1 || type == BLOCK_Q5_1 || type == BLOCK_Q2_K || type == BLOCK_Q3_K ||
           type == BLOCK_Q5_K;
}

static uint64_t row_bytes(const struct gguf_tensor *t)
{
    const struct block_format *f = block_format(t->type);

    return t->dims[0] / f->elems * f->bytes;
}

/* Bytes of a converted row, 0 when rows are packed as they are. */
static size_t converted_bytes(const struct gguf_tensor *t)
{
    if (t->type == BLOCK_Q5_0)
        return (size_t)t->dims[0] / 32 * 34;
    return pack_is_expanded(t->type) ? (size_t)t->dims[0] * sizeof(float) : 0;
}

/* 22 bytes (scale, fifth bits, nibbles) to 34 (scale, codes), 32 numbers a time. */
static void widen_q5_0(const uint8_t *src, uint8_t *dst, size_t n_blocks)
{
    for (; n_blocks > 0; n_blocks--, src += 22, dst += 34) {
        memcpy(dst, src, 2);
        for (int j = 0; j < 16; j++) {
            const int lo = (src[6 + j] & 15) | (src[2 + j / 8] >> j % 8 & 1) << 4;
            const int hi = src[6 + j] >> 4 | (src[4 + j / 8] >> j % 8 & 1) << 4;

            dst[2 + j] = (uint8_t)(lo - 16);
            dst[18 + j] = (uint8_t)(hi - 16);
        }
    }
}

/* Finite numbers only: an infinity in a weight would become NaN in every answer. */

static bool halves_are_finite(const uint8_t *p, size_t stride, size_t n)
{
    for (size_t i = 0; i < n; i++, p += stride)
        if ((p[1] & 0x7c) == 0x7c)
            return false;
    return true;
}

static bool floats_are_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

static bool bf16_are_finite(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++, p += 2)
        if ((p[1] & 0x7f) == 0x7f && (p[0] & 0x80) != 0)
            return false;
    return true;
}

/* A row as the file has it; of quantised rows the scales count. Expanded types are checked as
 * floats after decoding. */
static bool row_is_finite(enum block_type type, const uint8_t *row, size_t n)
{
    switch (type) {
    case BLOCK_F32:
        return floats_are_finite((const float *)(const void *)row, n);
    case BLOCK_F16:
        return halves_are_finite(row, 2, n);
    case BLOCK_BF16:
        return bf16_are_finite(row, n);
    case BLOCK_Q4_0:
        return halves_are_finite(row, 18, n / 32);
    case BLOCK_Q5_0:
        return halves_are_finite(row, 22, n / 32);
    case BLOCK_Q8_0:
        return halves_are_finite(row, 34, n / 32);
    case BLOCK_Q4_K:
        return halves_are_finite(row, 144, n / 256) && halves_are_finite(row + 2, 144, n / 256);
    case BLOCK_Q6_K:
        return halves_are_finite(row + 208, 210, n / 256);
    case BLOCK_Q4_1:
    case BLOCK_Q5_1:
    case BLOCK_Q2_K:
    case BLOCK_Q3_K:
    case BLOCK_Q5_K:
        return true;
    }
    return true;
}

/* One row in the format that kern_pack() wants: in place, or in `scratch`. NULL: not finite. */
static const void *prepare_row(const struct gguf_tensor *t, uint64_t r, uint8_t *scratch)
{
    const uint8_t *row = (const uint8_t *)t->data + r * row_bytes(t);
    const size_t n = (size_t)t->dims[0];
    float *floats = (float *)(void *)scratch;

    if (!row_is_finite(t->type, row, n))
        return NULL;
    if (t->type == BLOCK_Q5_0) {
        widen_q5_0(row, scratch, n / 32);
        return scratch;
    }
    if (!pack_is_expanded(t->type))
        return row;
    block_decode(t->type, row, floats, n);
    return floats_are_finite(floats, n) ? floats : NULL;
}

static bool pack_panel(const struct matrix_job *job, uint64_t p, uint8_t *scratch)
{
    const struct matrix *m = job->dst;
    const size_t converted = converted_bytes(job->src);
    const void *rows[KERN_LANES] = {0};

    for (uint64_t lane = 0; lane < KERN_LANES && p * KERN_LANES + lane < m->n_out; lane++) {
        rows[lane] = prepare_row(job->src, p * KERN_LANES + lane, scratch + lane * converted);
        if (rows[lane] == NULL)
            return false;
    }
    /* The panels are const for everybody after this. */
    kern_pack(m->type, (uint8_t *)m->data + p * m->panel_bytes, rows, m->n_in);
    return true;
}

static uint64_t chunk_panels(const struct matrix_job *job)
{
    const size_t n = CHUNK_BYTES / job->dst->panel_bytes;

    return n > 0 ? n : 1;
}

static void note_bad(struct work *w, size_t job)
{
    size_t least = atomic_load_explicit(&w->bad, memory_order_relaxed);

    while (job < least && !atomic_compare_exchange_weak(&w->bad, &least, job))
        ;
}

static void pack_chunk(struct work *w, size_t i, uint64_t chunk, uint8_t *scratch)
{
    const struct matrix_job *job = &w->jobs[i];
    const uint64_t per = chunk_panels(job), begin = chunk * per;
    const uint64_t end = begin + per < job->dst->n_panels ? begin + per : job->dst->n_panels;
    uint64_t rows = job->dst->n_out;

    for (uint64_t p = begin; p < end; p++)
        if (!pack_panel(job, p, scratch)) {
            note_bad(w, i);
            break;
        }
    rows = (rows < end * KERN_LANES ? rows : end * KERN_LANES) - begin * KERN_LANES;
    atomic_fetch_add_explicit(&w->done, rows * row_bytes(job->src), memory_order_relaxed);
}

static void *run(void *arg)
{
    struct worker *me = arg;
    struct work *w = me->w;
    const struct model_options *o = w->options;
    size_t job = 0;

    for (;;) {
        const uint64_t c = atomic_fetch_add_explicit(&w->next, 1, memory_order_relaxed);

        if (c >= w->first[w->n_jobs])
            return NULL;
        while (c >= w->first[job + 1])
            job++;
        pack_chunk(w, job, c - w->first[job], me->scratch);
        if (me->reports)
            o->progress(o->progress_ud, atomic_load_explicit(&w->done, memory_order_relaxed),
                        w->total);
    }
}

/* Number the chunks and measure. */
static int plan(struct work *w)
{
    w->first = mem_calloc(w->n_jobs + 1, sizeof(*w->first));
    if (w->first == NULL)
        return ERR_NOMEM;
    for (size_t i = 0; i < w->n_jobs; i++) {
        const uint64_t per = chunk_panels(&w->jobs[i]);
        const size_t rows = KERN_LANES * converted_bytes(w->jobs[i].src);

        w->first[i + 1] = w->first[i] + (w->jobs[i].dst->n_panels + per - 1) / per;
        w->total += w->jobs[i].src->bytes;
        w->scratch = rows > w->scratch ? rows : w->scratch;
    }
    return 0;
}

/* Run on all of the workers that can be started; the first is this thread. */
static void run_all(struct worker *workers, uint32_t n)
{
    uint32_t started = 1;

    while (started < n &&
           pthread_create(&workers[started].thread, NULL, run, &workers[started]) == 0)
        started++;
    run(&workers[0]);
    for (uint32_t i = 1; i < started; i++)
        pthread_join(workers[i].thread, NULL);
}

static int pack_on(struct work *w, struct worker *workers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        workers[i].w = w;
        workers[i].scratch = mem_aligned(1, w->scratch);
        if (workers[i].scratch == NULL)
            return ERR_NOMEM;
    }
    workers[0].reports = w->options->progress != NULL;
    run_all(workers, n);
    if (workers[0].reports)
        w->options->progress(w->options->progress_ud, w->total, w->total);
    return atomic_load(&w->bad) < w->n_jobs ? ERR_FORMAT : 0;
}

int pack_matrices(const struct matrix_job *jobs, size_t n, const struct model_options *options,
                  size_t *bad)
{
    const uint32_t n_threads = options->threads > 0 ? options->threads : 1;
    struct work w = {.jobs = jobs, .n_jobs = n, .options = options};
    struct worker *workers = mem_calloc(n_threads, sizeof(*workers));
    int rc = workers != NULL ? plan(&w) : ERR_NOMEM;

    atomic_init(&w.next, 0);
    atomic_init(&w.done, 0);
    atomic_init(&w.bad, n);
    if (rc == 0)
        rc = pack_on(&w, workers, n_threads);
    *bad = atomic_load(&w.bad);
    for (uint32_t i = 0; workers != NULL && i < n_threads; i++)
        mem_free(workers[i].scratch);
    mem_free(workers);
    mem_free(w.first);
    return rc;
}
