/* tests/bench/bench_kern_step.c - attention and the elementwise kernels: the rest of a step. */
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "tests/bench/bench_kern.h"

/* ---- elementwise: one thread, in cache */

struct elem {
    const struct bench *b;
    size_t n;
    float *x;
    float *y;
    float *z;
    void *out;
    uint8_t *keys;
    uint8_t *values;
    float result;
};

static void bench_elem(const struct bench *b, const char *name, work_fn work, size_t n,
                       double bytes_each)
{
    static bool headed;
    struct elem e = {.b = b, .n = n};

    if (!headed)
        printf("\nelementwise, one thread, in cache\n%-18s %8s %10s %10s %10s\n", "kernel", "n",
               "ns", "cycles", "GB/s");
    headed = true;
    e.x = want(mem_aligned(n, sizeof *e.x));
    e.y = want(mem_aligned(n, sizeof *e.y));
    e.z = want(mem_aligned(n, sizeof *e.z));
    e.out = want(mem_aligned(n, 2 * sizeof *e.x));
    e.keys = want(mem_aligned(n * KERN_BLOCK, sizeof(uint16_t)));
    e.values = want(mem_aligned(n * KERN_BLOCK, sizeof(uint16_t)));
    for (size_t i = 0; i < n; i++) {
        e.x[i] = (float)next_random() * 0x1p-23f - 1;
        e.y[i] = (float)next_random() * 0x1p-23f - 1;
    }
    struct work w = {.call = work, .arg = &e, .units = bytes_each * (double)n};
    const struct timing t = time_beside(b, b->lone, &w, NULL);
    printf("%-18s %8zu %10.0f %10.0f %10.1f\n", name, n, t.seconds * 1e9, t.cycles, t.rate);
    mem_free(e.x);
    mem_free(e.y);
    mem_free(e.z);
    mem_free(e.out);
    mem_free(e.keys);
    mem_free(e.values);
}

#define ELEM(name, call, size, bytes_each)                                                         \
    static void call_##name(void *arg, uint32_t i, uint32_t n, size_t rep)                         \
    {                                                                                              \
        struct elem *e = arg;                                                                      \
                                                                                                   \
        (void)i;                                                                                   \
        (void)n;                                                                                   \
        (void)rep;                                                                                 \
        call;                                                                                      \
    }                                                                                              \
    void bench_##name(const struct bench *b)                                                       \
    {                                                                                              \
        bench_elem(b, #name, call_##name, size, bytes_each);                                       \
    }

static void write_kv(const struct elem *e, enum kern_kv kv)
{
    e->b->t.kv_write[kv](e->keys, e->values, 5, e->x, e->y, e->n / 64, 64, 64);
}

/* Bytes read and written per number. */
/* Two rows of rank 16 against n numbers of their product. */
static void expand_lora(struct elem *e, enum kern_weight w)
{
    e->b->t.lora_expand[w](e->z, 0, e->x, 16, 2, e->b->weights, e->n / KERN_LANES, 16, 0.5f);
}

ELEM(lora_expand_f32, expand_lora(e, KERN_F32), 896, 64)
ELEM(lora_expand_f16, expand_lora(e, KERN_F16), 896, 32)
ELEM(lora_expand_bf16, expand_lora(e, KERN_BF16), 896, 32)
ELEM(lora_expand_q8_0, expand_lora(e, KERN_Q8_0), 896, 20)
ELEM(quantise, e->b->t.quantise(e->out, e->n, e->x, 0, e->n), 4864, 5.4)
ELEM(rmsnorm, e->b->t.rmsnorm(e->z, e->x, e->y, e->n, 1e-6f), 896, 12)
ELEM(layernorm, e->b->t.layernorm(e->z, e->x, e->y, e->y, e->n, 1e-6f), 896, 12)
ELEM(rope, e->b->t.rope(e->x, e->n / 64, 64, 64, e->y, e->y + 32, true), 1024, 8)
ELEM(kv_write_f16, write_kv(e, KERN_KV_F16), 128, 12)
ELEM(kv_write_bf16, write_kv(e, KERN_KV_BF16), 128, 12)
ELEM(kv_write_q8_0, write_kv(e, KERN_KV_Q8_0), 128, 10)
ELEM(kv_write_q4_0, write_kv(e, KERN_KV_Q4_0), 128, 9)
ELEM(act_silu, e->b->t.act[KERN_ACT_SILU](e->z, e->x, e->y, e->n), 4864, 12)
ELEM(act_gelu, e->b->t.act[KERN_ACT_GELU](e->z, e->x, e->y, e->n), 4864, 12)
ELEM(act_gelu_erf, e->b->t.act[KERN_ACT_GELU_ERF](e->z, e->x, e->y, e->n), 4864, 12)
ELEM(act_swiglu_clamped, e->b->t.act[KERN_ACT_SWIGLU_CLAMPED](e->z, e->x, e->y, e->n), 4864, 12)
ELEM(act_sigmoid, e->b->t.act[KERN_ACT_SIGMOID](e->z, e->x, e->y, e->n), 4864, 12)
ELEM(act_relu_sqr, e->b->t.act[KERN_ACT_RELU_SQR](e->z, e->x, NULL, e->n), 4864, 8)
ELEM(act_linear, e->b->t.act[KERN_ACT_LINEAR](e->z, e->x, e->y, e->n), 4864, 12)
ELEM(softplus, e->b->t.softplus(e->z, e->x, e->y, NULL, e->n), 4096, 12)
ELEM(l2norm, e->b->t.l2norm(e->z, e->x, e->n, 1e-6f, 1), 128, 8)
ELEM(add, e->b->t.add(e->z, e->x, 1, e->n), 896, 12)
ELEM(scale, e->b->t.scale(e->z, 1, e->n), 896, 8)
ELEM(cap, e->b->t.cap(e->z, 30, e->n), 102400, 8)
ELEM(max, e->result = e->b->t.max(e->x, e->n), 102400, 4)
ELEM(find, e->result = (float)e->b->t.find(e->x, e->n, 2), 102400, 4)
ELEM(sum_exp, e->result = e->b->t.sum_exp(e->x, e->n, 1, 1), 102400, 4)

/* ---- attention: one KV head of a group of 7, each thread its own */

#define HEADS 7
#define DIM 64

struct attention {
    const struct bench *b;
    enum kern_kv kv_type;
    size_t key_bytes;
    size_t block_bytes;
    size_t pos0;
    size_t n_row;
    size_t n_seq; /* sequences, taken in turn */
    size_t n_block;
    uint8_t *kv;     /* [n_seq][n_block][block_bytes] */
    uint32_t *table; /* [n_seq][n_block] */
    float *q[MAX_THREADS];
    float *out[MAX_THREADS];
    float *scratch[MAX_THREADS];
};

static void call_attention(void *arg, uint32_t i, uint32_t n, size_t rep)
{
    const struct attention *t = arg;
    const struct kern_attn a = {.q = t->q[i],
                                .out = t->out[i],
                                .q_stride = HEADS * DIM,
                                .out_stride = HEADS * DIM,
                                .keys = t->kv,
                                .values = t->kv + t->key_bytes,
                                .block_stride = t->block_bytes,
                                .table = t->table + (rep * n + i) % t->n_seq * t->n_block,
                                .pos0 = (uint32_t)t->pos0,
                                .n_row = (uint32_t)t->n_row,
                                .n_head = HEADS,
                                .key_dim = DIM,
                                .value_dim = DIM,
                                .scale = 0.125f,
                                .seg1 = UINT32_MAX,
                                .scratch = t->scratch[i]};

    t->b->t.attn[t->kv_type](&a);
}

static void make_sequences(struct attention *t, size_t n_seq)
{
    const size_t n = n_seq * t->n_block;

    t->n_seq = n_seq;
    t->kv = want(mem_map(n * t->block_bytes));
    t->table = want(mem_aligned(n, sizeof *t->table));
    for (size_t i = 0; i < n * t->block_bytes; i += 2) { /* halves from 1/8 to 1/2, or codes */
        const uint16_t half = (uint16_t)(0x3000 + next_random() % 0x800);

        memcpy(t->kv + i, &half, sizeof half);
    }
    for (size_t i = 0; i < n; i++) /* neighbours in a sequence are not neighbours in memory */
        t->table[i] = (uint32_t)(i % t->n_block * n_seq + i / t->n_block);
}

static void bench_length(const struct bench *b, enum kern_kv kv, size_t pos0, size_t n_row,
                         size_t n_seq)
{
    const size_t n_tok = pos0 + n_row;
    const size_t width = HEADS * DIM;
    struct attention t = {.b = b, .kv_type = kv, .pos0 = pos0, .n_row = n_row};

    t.n_block = (n_tok + KERN_BLOCK - 1) / KERN_BLOCK;
    t.key_bytes = kern_kv_key_bytes(kv, DIM);
    t.block_bytes = t.key_bytes + kern_kv_value_bytes(kv, DIM);
    make_sequences(&t, n_seq);
    for (uint32_t i = 0; i < b->n_thread; i++) {
        t.q[i] = want(mem_aligned(n_row * width, sizeof(float)));
        t.out[i] = want(mem_aligned(n_row * width, sizeof(float)));
        t.scratch[i] = want(mem_aligned(kern_attn_scratch((uint32_t)n_row, HEADS, DIM, DIM), 1));
        for (size_t j = 0; j < n_row * width; j++)
            t.q[i][j] = (float)next_random() * 0x1p-23f - 1;
    }
    const double seen = (double)n_row * (double)pos0 + (double)n_row * (double)(n_row + 1) / 2;
    const double bytes = (double)n_tok / KERN_BLOCK * (double)t.block_bytes * b->n_thread;
    struct work work = {
        .call = call_attention, .arg = &t, .units = 4 * seen * HEADS * DIM * b->n_thread};
    struct work peak = b->peak[LIMITS_FP32];
    const struct timing r = time_beside(b, b->pool, &work, &peak);
    const double read = bytes / r.seconds * 1e-9;
    printf("%8zu %6zu %6s %10.1f %10.1f %10.1f %3.0f%% %8.1f %3.0f%%\n", pos0, n_row,
           n_seq > 1 ? "memory" : "cache", r.seconds * 1e6, r.cycles * 1e-3, r.rate, r.share, read,
           100 * read / b->limits.read_gbps);
    fflush(stdout);
    for (uint32_t i = 0; i < b->n_thread; i++) {
        mem_free(t.q[i]);
        mem_free(t.out[i]);
        mem_free(t.scratch[i]);
    }
    mem_unmap(t.kv, n_seq * t.n_block * t.block_bytes);
    mem_free(t.table);
}

static void bench_store(const struct bench *b, enum kern_kv kv)
{
    static const size_t CASES[][3] = {
        {127, 1, 1},     {1023, 1, 1},  {4095, 1, 1}, /* position, rows, sequences */
        {127, 1, 4096},  {511, 1, 1024}, {4095, 1, 128}, {1023, 8, 1},
        {3584, 24, 1},   {3584, 24, 128}, {0, 512, 1}, {3584, 512, 1},
    };

    printf("\nattention, %d heads of %d, %s keys and values, all threads\n"
           "%8s %6s %6s %10s %10s %10s %4s %8s %4s\n",
           HEADS, DIM, kern_kv_name(kv), "pos0", "rows", "KV in", "us", "1000 cyc", "Gflop/s",
           "peak", "KV GB/s", "read");
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        bench_length(b, kv, CASES[i][0], CASES[i][1], CASES[i][2]);
}

void bench_attn_f16(const struct bench *b)
{
    bench_store(b, KERN_KV_F16);
}

void bench_attn_bf16(const struct bench *b)
{
    bench_store(b, KERN_KV_BF16);
}

void bench_attn_q8_0(const struct bench *b)
{
    bench_store(b, KERN_KV_Q8_0);
}

void bench_attn_q4_0(const struct bench *b)
{
    bench_store(b, KERN_KV_Q4_0);
}

#define PARTS 16

static void call_merge(void *arg, uint32_t i, uint32_t n, size_t rep)
{
    struct elem *e = arg;

    (void)i;
    (void)n;
    (void)rep;
    e->b->t.attn_merge(e->z, e->x, PARTS, DIM, NULL);
}

void bench_attn_merge(const struct bench *b)
{
    struct elem e = {.b = b, .n = PARTS * KERN_ATTN_PART(DIM)};

    e.x = want(mem_aligned(e.n, sizeof(float)));
    e.z = want(mem_aligned(DIM, sizeof(float)));
    for (size_t i = 0; i < e.n; i++)
        e.x[i] = 1 + (float)i * 0x1p-10f;
    struct work work = {.call = call_merge, .arg = &e};
    const struct timing t = time_beside(b, b->lone, &work, NULL);
    printf("attn_merge, %d segments: %.0f ns, %.0f cycles\n", PARTS, t.seconds * 1e9, t.cycles);
    mem_free(e.x);
    mem_free(e.z);
}
