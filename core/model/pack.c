/* core/model/pack.c - see pack.h.
 *
 * The work is cut into chunks of panels of one matrix, numbered through. Threads take the next
 * number from a counter; the panels that they write do not overlap, so nothing else is shared.
 */
#include "core/model/pack.h"

#include "core/base/err.h"
#include "core/base/float_mode.h"
#include "core/base/mem.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define MAX_F16 65504.0f
#define CHUNK_BYTES ((size_t)1 << 20)
#define CHUNKS_AHEAD 16 /* chunks that are prefetched from the disk before they are packed */

struct work {
    const struct gguf *g;
    const struct matrix_job *jobs;
    size_t n_jobs;
    uint64_t *first; /* [n_jobs + 1] [n_jobs + 1] each job's first chunk, numbered through all
                      * jobs */
    uint64_t total;  /* file bytes of all jobs */
    const struct model_options *options;
    /* relaxed: they are only counts; pthread_join() publishes a thread's panels */
    atomic_uint_fast64_t next; /* next chunk to take */
    atomic_uint_fast64_t done; /* file bytes packed */
    atomic_size_t bad;         /* lowest job with a value that is not finite, or n_jobs */
};

struct worker {
    struct work *w;
    pthread_t thread;
    bool reports;
    uint8_t *rows; /* rows of a panel that a recipe makes or that are quantised; NULL: no job needs
                    * them */
    uint8_t *made; /* a row that a recipe makes and that will be quantised or rotated */
    float *row;    /* a row as floats */
};

/* True: n halves, `stride` bytes apart, are finite. An infinity in a weight would become NaN in
 * every answer. */

static bool halves_are_finite(const uint8_t *p, size_t stride, size_t n)
{
    for (size_t i = 0; i < n; i++, p += stride)
        if ((p[1] & 0x7c) == 0x7c)
            return false;
    return true;
}

/* True: all values are finite. Checks eight bytes at a time: `exponent` has the exponents' bits
 * set; if a value has all of them set, adding `lowest` carries into its sign bit. */
static bool all_finite(const uint8_t *p, size_t bytes, uint64_t exponent, uint64_t lowest)
{
    uint64_t carries = 0, word = 0;
    size_t i = 0;

    for (; i + 8 <= bytes; i += 8) {
        memcpy(&word, p + i, 8);
        carries |= (word & exponent) + lowest;
    }
    word = 0;
    memcpy(&word, p + i, bytes - i);
    carries |= (word & exponent) + lowest;
    return (carries & ~exponent & (exponent << 1)) == 0;
}

/* Check scales of 2^(e - 128) that multiply up to 12: within the range of float up to e = 252. The
 * last exponent means NaN. */
static bool exponents_are_finite(const uint8_t *p, size_t stride, size_t n)
{
    for (size_t i = 0; i < n; i++, p += stride)
        if (*p > 252)
            return false;
    return true;
}

/* Check IQ1_M, whose scale has its exponent split between the top bits of two words. */
static bool split_halves_are_finite(const uint8_t *p, size_t stride, size_t n)
{
    for (size_t i = 0; i < n; i++, p += stride)
        if ((p[5] & 0xc0) == 0xc0 && (p[7] & 0x70) == 0x70)
            return false;
    return true;
}

/* Byte offsets of a block's f16 values: a scale and a minimum, or only a scale. */
static const struct {
    uint8_t scale, minimum;
} halves[] = {
    [BLOCK_Q4_1] = {0, 2},     [BLOCK_Q5_1] = {0, 2},     [BLOCK_Q4_K] = {0, 2},
    [BLOCK_Q5_K] = {0, 2},     [BLOCK_Q2_K] = {80, 82},   [BLOCK_Q3_K] = {108, 108},
    [BLOCK_Q6_K] = {208, 208}, [BLOCK_TQ1_0] = {52, 52},  [BLOCK_TQ2_0] = {64, 64},
    [BLOCK_IQ6_K] = {0, 0}, /* the last type; the scale of all other types is at 0 */
};

/* Check a row's scale, which multiplies up to 127 x 127. */
static bool row_scale_is_finite(const uint8_t *row)
{
    float d;

    memcpy(&d, row, sizeof(d));
    return fabsf(d) <= 0x1p114f;
}

static bool blocks_are_finite(enum block_type type, const uint8_t *row, size_t stride, size_t n)
{
    if (type == BLOCK_MXFP4)
        return exponents_are_finite(row, stride, n);
    if (type == BLOCK_NVFP4) /* every bit pattern is a finite scale */
        return true;
    if (type == BLOCK_IQ1_M)
        return split_halves_are_finite(row + 48, stride, n);
    return halves_are_finite(row + halves[type].scale, stride, n) &&
           (halves[type].minimum == halves[type].scale ||
            halves_are_finite(row + halves[type].minimum, stride, n));
}

/* True: a row of the file is finite; for quantised rows, its scales and minima. */
static bool row_is_finite(enum block_type type, const uint8_t *row, size_t n)
{
    const struct block_format *f = block_format(type);

    if (f->head > 0)
        return row_scale_is_finite(row);
    if (type == BLOCK_F32)
        return all_finite(row, 4 * n, 0x7f8000007f800000, 0x0080000000800000);
    if (type == BLOCK_F16)
        return all_finite(row, 2 * n, 0x7c007c007c007c00, 0x0400040004000400);
    if (type == BLOCK_BF16)
        return all_finite(row, 2 * n, 0x7f807f807f807f80, 0x0080008000800080);
    return blocks_are_finite(type, row, f->bytes, n / f->elems);
}

/* ---- panels ---- */

/* Return the number of panels of all matrices of a job. */
static uint64_t total_panels(const struct matrix_job *job)
{
    return (uint64_t)job->dst->n_each * job->dst->n_panels;
}

/* Return the tensor's row for output `lane` of panel p; for a transposed matrix, the first row. */
static uint64_t row_of(const struct matrix_job *job, uint64_t p, uint32_t lane)
{
    const uint64_t each = p / job->dst->n_panels, panel = p % job->dst->n_panels;
    uint64_t row = job->is_transposed ? 0 : panel * KERN_LANES + lane;

    if (job->run > 0)
        row = row / job->run * job->run_stride + row % job->run;
    return each * job->row_stride + job->row0 + row;
}

/* Return the number of outputs of panel p: 16, or the rest of a matrix. */
static uint32_t n_outputs(const struct matrix_job *job, uint64_t p)
{
    const uint32_t first = (uint32_t)(p % job->dst->n_panels) * KERN_LANES;

    return job->dst->n_out - first < KERN_LANES ? job->dst->n_out - first : KERN_LANES;
}

/* Return row `i` of the tensor, in `room` if a recipe makes it, or NULL if it has a value that is
 * not finite. */
static const uint8_t *finite_row(const struct gguf_tensor *t, uint64_t i, uint8_t *room)
{
    const uint8_t *row = gguf_row(t, i, room);

    return row_is_finite(t->type, row, (size_t)t->dims[0]) ? row : NULL;
}

/* Decode columns first .. first + n - 1 (at most 16) of a row; they are in one block. */
static void decode_columns(const struct gguf_tensor *t, const uint8_t *row, uint32_t first,
                           uint32_t n, float out[KERN_LANES])
{
    const struct block_format *f = block_format(t->type);
    float block[256];

    if (f->elems == 1) {
        block_decode(t->type, row + (size_t)first * f->bytes, out, n);
        return;
    }
    block_decode_part(t->type, row, first / f->elems * f->elems, block, f->elems);
    memcpy(out, block + first % f->elems, n * sizeof(*out));
}

/* Write v in the panel's type; exact, unless the tensor was quantised. */
static void put_float(enum kern_weight type, uint8_t *row, size_t i, float v)
{
    uint16_t half;

    if (type == KERN_F32) {
        memcpy(row + 4 * i, &v, 4);
        return;
    }
    half = type == KERN_BF16 ? block_f32_to_bf16(v) : block_f32_to_f16(v);
    memcpy(row + 2 * i, &half, 2);
}

/* Pack a transposed matrix, whose lanes are columns of the tensor. */
static bool pack_transposed(const struct worker *me, const struct matrix_job *job, uint64_t p,
                            uint8_t *panel)
{
    const struct matrix *m = job->dst;
    const uint32_t first = (uint32_t)(p % m->n_panels) * KERN_LANES, n = n_outputs(job, p);
    float numbers[KERN_LANES];
    uint8_t turned[KERN_LANES][KERN_MAX_HEAD * sizeof(float)];
    const void *rows[KERN_LANES] = {0};

    for (uint32_t lane = 0; lane < n; lane++)
        rows[lane] = turned[lane];
    for (uint32_t i = 0; i < m->n_in; i++) {
        const uint8_t *row = finite_row(job->src, row_of(job, p, 0) + i, me->made);

        if (row == NULL)
            return false;
        decode_columns(job->src, row, first, n, numbers);
        for (uint32_t lane = 0; lane < n; lane++) {
            if (m->type == KERN_F16 && !(fabsf(numbers[lane]) <= MAX_F16))
                return false;
            put_float(m->type, turned[lane], i, numbers[lane]);
        }
    }
    kern_pack(m->type, panel, rows, m->n_in);
    return true;
}

/* ---- quantise while packing ---- */

enum block_type pack_job_type(const struct matrix_job *job)
{
    const enum kern_weight type = job->dst->type;

    return type == KERN_Q8_0   ? BLOCK_Q8_0
           : type == KERN_Q6_K ? BLOCK_Q6_K
           : type == KERN_Q4_0 ? BLOCK_Q4_0
                               : job->src->type;
}

static bool is_quantising(const struct matrix_job *job)
{
    return pack_job_type(job) != job->src->type;
}

/* Return the bytes of a packed row. */
static size_t packed_bytes(const struct matrix_job *job)
{
    return (size_t)block_row_bytes(block_format(pack_job_type(job)), job->src->dims[0]);
}

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t cache_lines(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Allocate room for the longest rows of the jobs that need it. */
static int take_rows(const struct work *w, struct worker *to)
{
    size_t row = 0, made = 0, n = 0;

    for (size_t i = 0; i < w->n_jobs; i++) {
        const struct gguf_tensor *t = w->jobs[i].src;
        const size_t bytes = t->recipe != NULL ? (size_t)gguf_row_bytes(t) : 0;

        made = most(made, bytes);
        row = most(row, bytes);
        if (is_quantising(&w->jobs[i])) {
            row = most(row, packed_bytes(&w->jobs[i]));
            n = most(n, (size_t)t->dims[0]);
        }
    }
    if (row == 0)
        return 0;
    to->rows = mem_aligned(1, cache_lines(KERN_LANES * row) + cache_lines(made) +
                                  n * sizeof(float));
    if (to->rows == NULL)
        return ERR_NOMEM;
    to->made = to->rows + cache_lines(KERN_LANES * row);
    to->row = (void *)(to->made + cache_lines(made));
    return 0;
}

/* Return the room for a recipe's row that becomes lane `lane` unchanged. */
static uint8_t *room_of(const struct worker *me, const struct gguf_tensor *t, uint32_t lane)
{
    return t->recipe != NULL ? me->rows + lane * gguf_row_bytes(t) : NULL;
}

static const uint8_t *quantise(const struct worker *me, const struct matrix_job *job,
                               const uint8_t *row, uint32_t lane)
{
    const size_t n = (size_t)job->src->dims[0];
    uint8_t *to = me->rows + lane * packed_bytes(job);

    block_decode(job->src->type, row, me->row, n);
    block_encode(pack_job_type(job), me->row, to, n);
    return to;
}

static bool pack_panel(const struct worker *me, const struct matrix_job *job, uint64_t p)
{
    const struct matrix *m = job->dst;
    /* the panels are const in all other code */
    const uint32_t each = (uint32_t)(p / m->n_panels), i = (uint32_t)(p % m->n_panels);
    uint8_t *panel = (uint8_t *)matrix_panel(m, each, i);
    const void *rows[KERN_LANES] = {0};

    if (job->is_transposed)
        return pack_transposed(me, job, p, panel);
    for (uint32_t lane = 0; lane < n_outputs(job, p); lane++) {
        uint8_t *room = is_quantising(job) ? me->made : room_of(me, job->src, lane);
        const uint8_t *row = finite_row(job->src, row_of(job, p, lane), room);

        if (row == NULL)
            return false;
        rows[lane] = is_quantising(job) ? quantise(me, job, row, lane) : row;
    }
    kern_pack(m->type, panel, rows, m->n_in);
    return true;
}

/* ---- chunks ---- */

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

/* Return the first row of a chunk; *n_rows gets the number of rows up to its last one, including
 * rows of other matrices in between. Each chunk of a transposed matrix needs all of the matrix's
 * rows. */
static uint64_t chunk_rows(const struct matrix_job *job, uint64_t chunk, uint64_t *n_rows)
{
    const uint64_t per = chunk_panels(job), begin = chunk * per, n = total_panels(job);
    const uint64_t last = begin + per < n ? begin + per - 1 : n - 1;
    const uint64_t from = row_of(job, begin, 0);

    *n_rows =
        job->is_transposed ? 0 : row_of(job, last, n_outputs(job, last) - 1) + 1 - from;
    return from;
}

uint64_t pack_job_bytes(const struct matrix_job *job)
{
    const struct matrix *m = job->dst;

    return (uint64_t)m->n_each * (job->is_transposed ? m->n_in : m->n_out) *
           gguf_row_bytes(job->src);
}

/* Return the bytes of the file that are packed by the chunks before this panel; exact at the job's
 * end. */
static uint64_t bytes_until(const struct matrix_job *job, uint64_t panel)
{
    return (uint64_t)((double)pack_job_bytes(job) * (double)panel / (double)total_panels(job));
}

static void pack_chunk(const struct worker *me, size_t i, uint64_t chunk)
{
    struct work *w = me->w;
    const struct matrix_job *job = &w->jobs[i];
    const uint64_t per = chunk_panels(job), begin = chunk * per, n = total_panels(job);
    const uint64_t end = begin + per < n ? begin + per : n;
    uint64_t row, n_rows;

    for (uint64_t p = begin; p < end; p++)
        if (!pack_panel(me, job, p)) {
            note_bad(w, i);
            break;
        }
    row = chunk_rows(job, chunk, &n_rows);
    gguf_has_read(w->g, job->src, row, n_rows);
    atomic_fetch_add_explicit(&w->done, bytes_until(job, end) - bytes_until(job, begin),
                              memory_order_relaxed);
}

static void read_ahead(const struct work *w, size_t job, uint64_t c)
{
    uint64_t row, n_rows;

    if (c >= w->first[w->n_jobs])
        return;
    while (c >= w->first[job + 1])
        job++;
    row = chunk_rows(&w->jobs[job], c - w->first[job], &n_rows);
    gguf_will_read(w->g, w->jobs[job].src, row, n_rows);
}

static void *run_pack_job(void *arg)
{
    struct worker *me = arg;
    struct work *w = me->w;
    const struct model_options *o = w->options;
    size_t job = 0;

    float_mode_set();
    for (;;) {
        const uint64_t c = atomic_fetch_add_explicit(&w->next, 1, memory_order_relaxed);

        if (c >= w->first[w->n_jobs])
            return NULL;
        while (c >= w->first[job + 1])
            job++;
        read_ahead(w, job, c + CHUNKS_AHEAD);
        pack_chunk(me, job, c - w->first[job]);
        if (me->reports)
            o->progress(o->progress_ud, atomic_load_explicit(&w->done, memory_order_relaxed),
                        w->total);
    }
}

/* Number the chunks and add up their bytes. */
static int plan(struct work *w)
{
    w->first = mem_calloc(w->n_jobs + 1, sizeof(*w->first));
    if (w->first == NULL)
        return ERR_NOMEM;
    for (size_t i = 0; i < w->n_jobs; i++) {
        const uint64_t per = chunk_panels(&w->jobs[i]);

        w->first[i + 1] = w->first[i] + (total_panels(&w->jobs[i]) + per - 1) / per;
        w->total += pack_job_bytes(&w->jobs[i]);
    }
    return 0;
}

/* Run all workers that can be started; the first is this thread. */
static void run_all(struct worker *workers, uint32_t n)
{
    uint32_t started = 1;

    while (started < n &&
           pthread_create(&workers[started].thread, NULL, run_pack_job, &workers[started]) == 0)
        started++;
    run_pack_job(&workers[0]);
    for (uint32_t i = 1; i < started; i++)
        pthread_join(workers[i].thread, NULL);
}

static int pack_on(struct work *w, struct worker *workers, uint32_t n)
{
    int rc = 0;

    for (uint32_t i = 0; i < n && rc == 0; i++) {
        workers[i].w = w;
        rc = take_rows(w, &workers[i]);
    }
    if (rc < 0)
        return rc;
    workers[0].reports = w->options->progress != NULL;
    run_all(workers, n);
    if (workers[0].reports)
        w->options->progress(w->options->progress_ud, w->total, w->total);
    return atomic_load(&w->bad) < w->n_jobs ? ERR_FORMAT : 0;
}

int pack_matrices(const struct gguf *g, const struct matrix_job *jobs, size_t n,
                  const struct model_options *options, size_t *bad)
{
    const uint32_t n_threads = options->threads > 0 ? options->threads : 1;
    struct work w = {.g = g, .jobs = jobs, .n_jobs = n, .options = options};
    struct worker *workers = mem_calloc(n_threads, sizeof(*workers));
    int rc = workers != NULL ? plan(&w) : ERR_NOMEM;

    atomic_init(&w.next, 0);
    atomic_init(&w.done, 0);
    atomic_init(&w.bad, n);
    if (rc == 0)
        rc = pack_on(&w, workers, n_threads);
    *bad = atomic_load(&w.bad);
    for (uint32_t i = 0; i < n_threads && workers != NULL; i++)
        mem_free(workers[i].rows);
    mem_free(workers);
    mem_free(w.first);
    return rc;
}
