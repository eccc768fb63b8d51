/* tests/bench/bench_kern_attn.c - attention: one KV head, each thread its own.
 *
 * Rates count a multiplication and an addition of each visible query and key as two, and of the
 * weights and values too; the share is that of the peak of the instructions that do them: FMAs, or
 * integer products where keys and values are codes. Bytes are those of the keys and values that are
 * seen, once a call. Sequences are taken in turn: enough of them that no cache holds them, or one.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "tests/bench/bench_kern.h"

#define MEMORY ((size_t)160 << 20) /* bytes of keys and values that no cache holds */

struct heads {
    size_t n, key_dim, value_dim; /* query heads that share the KV head */
};

struct length {
    size_t pos0, n_row, window;
    bool cached;
};

struct attention {
    const struct bench *b;
    enum kern_kv kv_type;
    struct heads h;
    struct length l;
    size_t key_bytes, block_bytes;
    size_t n_seq, n_block;
    uint8_t *kv;     /* [n_seq][n_block][block_bytes] */
    uint32_t *table; /* [n_seq][n_block] */
    float *q[MAX_THREADS];
    float *out[MAX_THREADS];
    float *scratch[MAX_THREADS];
};

static struct kern_attn call_of(const struct attention *t, uint32_t i, uint32_t n, size_t rep)
{
    return (struct kern_attn){.q = t->q[i],
                              .out = t->out[i],
                              .q_stride = t->h.n * t->h.key_dim,
                              .out_stride = t->h.n * t->h.value_dim,
                              .keys = t->kv,
                              .values = t->kv + t->key_bytes,
                              .block_stride = t->block_bytes,
                              .table = t->table + (rep * n + i) % t->n_seq * t->n_block,
                              .pos0 = (uint32_t)t->l.pos0,
                              .n_row = (uint32_t)t->l.n_row,
                              .window = (uint32_t)t->l.window,
                              .n_head = (uint32_t)t->h.n,
                              .key_dim = (uint32_t)t->h.key_dim,
                              .value_dim = (uint32_t)t->h.value_dim,
                              .scale = 0.125f,
                              .seg1 = UINT32_MAX,
                              .scratch = t->scratch[i],
                              .is_fetched = rep > 0};
}

static void call_attention(void *arg, uint32_t i, uint32_t n, size_t rep)
{
    const struct attention *t = arg;
    const struct kern_attn next = call_of(t, i, n, rep + 1);
    struct kern_attn a = call_of(t, i, n, rep);

    a.next = &next;
    t->b->t.attn[t->kv_type](&a);
}

static void make_sequences(struct attention *t)
{
    const size_t n_tok = t->l.pos0 + t->l.n_row;

    t->n_block = (n_tok + KERN_BLOCK - 1) / KERN_BLOCK;
    t->key_bytes = kern_kv_key_bytes(t->kv_type, (uint32_t)t->h.key_dim);
    t->block_bytes = t->key_bytes + kern_kv_value_bytes(t->kv_type, (uint32_t)t->h.value_dim);
    t->n_seq = t->l.cached ? 1 : MEMORY / (t->n_block * t->block_bytes) + 1;

    const size_t n = t->n_seq * t->n_block;
    t->kv = want(mem_map(n * t->block_bytes));
    t->table = want(mem_aligned(n, sizeof *t->table));
    for (size_t i = 0; i < n * t->block_bytes; i += 2) { /* halves from 1/8 to 1/2, or codes */
        const uint16_t half = (uint16_t)(0x3000 + next_random() % 0x800);

        memcpy(t->kv + i, &half, sizeof half);
    }
    for (size_t i = 0; i < n; i++) /* neighbours in a sequence are not neighbours in memory */
        t->table[i] = (uint32_t)(i % t->n_block * t->n_seq + i / t->n_block);
}

static void make_queries(struct attention *t)
{
    const size_t rows = t->l.n_row, width = rows * t->h.n * t->h.key_dim;

    for (uint32_t i = 0; i < t->b->n_thread; i++) {
        t->q[i] = want(mem_aligned(width, sizeof(float)));
        t->out[i] = want(mem_aligned(rows * t->h.n * t->h.value_dim, sizeof(float)));
        t->scratch[i] =
            want(mem_aligned(kern_attn_scratch((uint32_t)rows, (uint32_t)t->h.n,
                                               (uint32_t)t->h.key_dim, (uint32_t)t->h.value_dim),
                             1));
        for (size_t j = 0; j < width; j++)
            t->q[i][j] = (float)next_random() * 0x1p-23f - 1;
    }
}

static void release(struct attention *t)
{
    for (uint32_t i = 0; i < t->b->n_thread; i++) {
        mem_free(t->q[i]);
        mem_free(t->out[i]);
        mem_free(t->scratch[i]);
    }
    mem_unmap(t->kv, t->n_seq * t->n_block * t->block_bytes);
    mem_free(t->table);
}

/* Tokens that a row at `pos` sees. */
static size_t row_sees(const struct length *l, size_t pos)
{
    return l->window > 0 && pos + 1 > l->window ? l->window : pos + 1;
}

static void bench_length(const struct bench *b, enum kern_kv kv, const struct heads *h,
                         const struct length *l)
{
    const size_t last = l->pos0 + l->n_row - 1;
    const bool is_coded = kv == KERN_KV_Q8_0 || kv == KERN_KV_Q4_0;
    struct attention t = {.b = b, .kv_type = kv, .h = *h, .l = *l};
    double seen = 0;

    make_sequences(&t);
    make_queries(&t);
    for (size_t i = 0; i < l->n_row; i++)
        seen += (double)row_sees(l, l->pos0 + i);
    const double tokens = (double)(last + 1 - (l->pos0 + 1 - row_sees(l, l->pos0)));
    const double bytes = tokens / KERN_BLOCK * (double)t.block_bytes * b->n_thread;
    struct work work = {
        .call = call_attention,
        .arg = &t,
        .units = 2 * seen * (double)(h->n * (h->key_dim + h->value_dim)) * b->n_thread};
    struct work peak = b->peak[is_coded ? KERN_PRODUCT_WIDE : KERN_PRODUCT_FLOAT];
    const struct timing r = time_beside(b, b->pool, &work, &peak);
    const double read = bytes / r.seconds * 1e-9;

    printf("%8zu %6zu %6zu %6s %10.1f %10.1f %10.1f %3.0f%% %8.1f %3.0f%%\n", l->pos0, l->n_row,
           l->window, l->cached ? "cache" : "memory", r.seconds * 1e6, r.cycles * 1e-3, r.rate,
           r.share, read, 100 * read / b->limits.read_gbps);
    fflush(stdout);
    release(&t);
}

static void bench_heads(const struct bench *b, enum kern_kv kv, const struct heads *h,
                        const struct length *lengths, size_t n)
{
    printf("\nattention, %zu heads of %zu/%zu, %s keys and values, all threads\n"
           "%8s %6s %6s %6s %10s %10s %10s %4s %8s %4s\n",
           h->n, h->key_dim, h->value_dim, kern_kv_name(kv), "pos0", "rows", "window", "KV in",
           "us", "1000 cyc", "Gop/s", "peak", "KV GB/s", "read");
    for (size_t i = 0; i < n; i++)
        bench_length(b, kv, h, &lengths[i]);
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Codes come in groups, of which not every size of head is a multiple. */
static bool fits(enum kern_kv kv, const struct heads *h)
{
    return h->key_dim % kern_kv_group(kv) == 0 && h->value_dim % kern_kv_group(kv) == 0;
}

/* Everything of the shape that is most common, then what differs in other heads. */
static void bench_store(const struct bench *b, enum kern_kv kv)
{
    static const struct heads usual = {7, 64, 64};
    static const struct heads others[] = {
        {1, 64, 64},   {1, 80, 80},   {1, 96, 96},   {4, 128, 128},  {8, 128, 128},
        {8, 192, 128}, {8, 192, 192}, {2, 256, 256}, {16, 576, 512},
    };
    static const struct length all[] = {
        {127, 1, 0, true},    {1023, 1, 0, true},   {4095, 1, 0, true},    {127, 1, 0, false},
        {511, 1, 0, false},   {4095, 1, 0, false},  {32767, 1, 0, false},  {32767, 1, 1024, false},
        {1023, 8, 0, true},   {3584, 24, 0, true},  {3584, 24, 0, false},  {0, 512, 0, true},
        {3584, 512, 0, true}, {8168, 24, 0, true},  {32744, 24, 0, false}, {3584, 512, 1024, true},
    };
    static const struct length some[] = {
        {511, 1, 0, false},      {4095, 1, 0, false},    {32767, 1, 0, false},
        {32767, 1, 1024, false}, {3584, 24, 1024, true}, {8168, 24, 0, true}};

    bench_heads(b, kv, &usual, all, COUNT(all));
    for (size_t i = 0; i < COUNT(others); i++)
        if (fits(kv, &others[i]))
            bench_heads(b, kv, &others[i], some, COUNT(some));
}

void bench_attn_f16(const struct bench *b)
{
    bench_store(b, KERN_KV_F16);
}

void bench_attn_bf16(const struct bench *b)
{
    bench_store(b, KERN_KV_BF16);
}

void bench_attn_f32(const struct bench *b)
{
    bench_store(b, KERN_KV_F32);
}

void bench_attn_q8_0(const struct bench *b)
{
    bench_store(b, KERN_KV_Q8_0);
}

void bench_attn_q4_0(const struct bench *b)
{
    bench_store(b, KERN_KV_Q4_0);
}
