/* tests/bench/bench_kern_recurrent.c - recurrent layers: each thread has a head, or channels, and
 * rows of its own. A product counts one operation, an fma two. */
#include <stdio.h>

#include "core/base/mem.h"
#include "tests/bench/bench_kern.h"

#define HEADS 8 /* of a thread, taken in turn: a layer's heads are not all in the first cache */
#define KEY_DIM 128
#define VALUE_DIM 128
#define STATE_DIM 128
#define HEAD_DIM 64
#define CHANNELS 1536
#define TAPS 4
#define MAX_ROWS 512

static const size_t ROWS[] = {1, 8, 64, MAX_ROWS};

struct recurrent {
    const struct bench *b;
    size_t n_row;
    float *x[MAX_THREADS]; /* rows of as many numbers as any kernel here reads of one */
    float *out[MAX_THREADS];
    float *state[MAX_THREADS];
    float *rate; /* [WIDTH * 8], below 0 */
};

#define WIDTH CHANNELS
#define STATE_FLOATS ((size_t)HEADS * KEY_DIM * VALUE_DIM)

static void make(struct recurrent *r, const struct bench *b)
{
    r->b = b;
    r->rate = want(mem_aligned(WIDTH * 8, sizeof(float)));
    for (size_t j = 0; j < WIDTH * 8; j++)
        r->rate[j] = -1 - (float)next_random() * 0x1p-23f;
    for (uint32_t i = 0; i < b->n_thread; i++) {
        r->x[i] = want(mem_aligned((size_t)MAX_ROWS * WIDTH, sizeof(float)));
        r->out[i] = want(mem_aligned((size_t)MAX_ROWS * WIDTH, sizeof(float)));
        r->state[i] = want(mem_aligned(STATE_FLOATS, sizeof(float)));
        for (size_t j = 0; j < (size_t)MAX_ROWS * WIDTH; j++)
            r->x[i][j] = (float)next_random() * 0x1p-26f;
        for (size_t j = 0; j < STATE_FLOATS; j++)
            r->state[i][j] = 0;
    }
}

static void drop(struct recurrent *r)
{
    mem_free(r->rate);
    for (uint32_t i = 0; i < r->b->n_thread; i++) {
        mem_free(r->x[i]);
        mem_free(r->out[i]);
        mem_free(r->state[i]);
    }
}

/* flops: of a row. */
static void bench_rows(const struct bench *b, const char *title, work_fn call, double flops)
{
    struct recurrent r;

    make(&r, b);
    printf("\n%s, all threads\n%8s %10s %10s %10s %4s\n", title, "rows", "ns a row", "cycles",
           "Gflop/s", "peak");
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct work work = {
            .call = call, .arg = &r, .units = flops * (double)ROWS[i] * b->n_thread};
        struct work peak = b->peak[KERN_PRODUCT_FLOAT];

        r.n_row = ROWS[i];
        const struct timing t = time_beside(b, b->pool, &work, &peak);
        printf("%8zu %10.0f %10.0f %10.1f %3.0f%%\n", ROWS[i], t.seconds * 1e9 / (double)ROWS[i],
               t.cycles / (double)ROWS[i], t.rate, t.share);
        fflush(stdout);
    }
    drop(&r);
}

static void call_delta_of(const struct recurrent *r, uint32_t i, size_t rep, bool is_per_key)
{
    const struct kern_delta a = {.q = r->x[i],
                                 .k = r->x[i] + KEY_DIM,
                                 .v = r->x[i] + 2 * KEY_DIM,
                                 .out = r->out[i],
                                 .qk_stride = WIDTH,
                                 .v_stride = WIDTH,
                                 .out_stride = WIDTH,
                                 .g = r->x[i] + 3 * KEY_DIM,
                                 .g_stride = WIDTH,
                                 .is_per_key = is_per_key,
                                 .beta = r->x[i] + 5 * KEY_DIM,
                                 .beta_stride = WIDTH,
                                 .state = r->state[i] + rep % HEADS * KEY_DIM * VALUE_DIM,
                                 .n_row = (uint32_t)r->n_row,
                                 .value_dim = VALUE_DIM,
                                 .key_dim = KEY_DIM};

    r->b->t.delta(&a);
}

static void call_delta(void *arg, uint32_t i, uint32_t n, size_t rep)
{
    (void)n;
    call_delta_of(arg, i, rep, false);
}

static void call_kda(void *arg, uint32_t i, uint32_t n, size_t rep)
{
    (void)n;
    call_delta_of(arg, i, rep, true);
}

void bench_delta(const struct bench *b)
{
    const double flops = 7.0 * KEY_DIM * VALUE_DIM;

    bench_rows(b, "delta rule, a head of 128 x 128, one gate", call_delta, flops);
    bench_rows(b, "delta rule, a head of 128 x 128, a gate for each key", call_kda, flops);
}

static void call_mamba2(void *arg, uint32_t i, uint32_t n, size_t rep)
{
    const struct recurrent *r = arg;
    const struct kern_mamba2 a = {.x = r->x[i],
                                  .out = r->out[i],
                                  .x_stride = WIDTH,
                                  .out_stride = WIDTH,
                                  .b = r->x[i] + HEAD_DIM,
                                  .c = r->x[i] + HEAD_DIM + STATE_DIM,
                                  .bc_stride = WIDTH,
                                  .dt = r->x[i] + HEAD_DIM + 2 * STATE_DIM,
                                  .dt_stride = WIDTH,
                                  .a = -1,
                                  .d = 1,
                                  .state = r->state[i] + rep % HEADS * STATE_DIM * HEAD_DIM,
                                  .n_row = (uint32_t)r->n_row,
                                  .head_dim = HEAD_DIM,
                                  .n_state = STATE_DIM};

    (void)n;
    r->b->t.mamba2(&a);
}

void bench_mamba2(const struct bench *b)
{
    bench_rows(b, "Mamba-2, a head of 64 x 128", call_mamba2, 5.0 * HEAD_DIM * STATE_DIM);
}

static void call_mamba1(void *arg, uint32_t i, uint32_t n, size_t rep)
{
    const struct recurrent *r = arg;
    const struct kern_mamba1 a = {.x = r->x[i],
                                  .dt = r->x[i] + WIDTH / 2,
                                  .b = r->x[i],
                                  .c = r->x[i] + 16,
                                  .out = r->out[i],
                                  .x_stride = WIDTH,
                                  .dt_stride = WIDTH,
                                  .bc_stride = WIDTH,
                                  .out_stride = WIDTH,
                                  .a = r->rate,
                                  .d = r->x[i],
                                  .state = r->state[i],
                                  .n_row = (uint32_t)r->n_row,
                                  .n_channel = WIDTH / 2,
                                  .n_state = 16};

    (void)n;
    (void)rep;
    r->b->t.mamba1(&a);
}

void bench_mamba1(const struct bench *b)
{
    /* The exponential's operations are not counted. */
    bench_rows(b, "Mamba, 768 channels of 16", call_mamba1, 6.0 * (WIDTH / 2) * 16);
}

static void call_conv(void *arg, uint32_t i, uint32_t n, size_t rep)
{
    const struct recurrent *r = arg;
    const struct kern_conv a = {.x = r->x[i],
                                .out = r->out[i],
                                .x_stride = WIDTH,
                                .out_stride = WIDTH,
                                .tail = r->state[i],
                                .tail_stride = CHANNELS,
                                .w = r->x[i],
                                .w_stride = CHANNELS,
                                .n_row = (uint32_t)r->n_row,
                                .n_channel = CHANNELS,
                                .n_tap = TAPS,
                                .silu = true};

    (void)n;
    (void)rep;
    r->b->t.conv(&a);
}

void bench_conv(const struct bench *b)
{
    bench_rows(b, "convolution, 1536 channels, 4 taps, silu", call_conv, 2.0 * TAPS * CHANNELS);
}
