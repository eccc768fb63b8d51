/* tests/bench/bench_kern_step.c - the elementwise kernels: the rest of a step. */
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
    e.keys = want(mem_aligned(n * KERN_BLOCK, sizeof(float)));
    e.values = want(mem_aligned(n * KERN_BLOCK, sizeof(float)));
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

/* Two rows of rank 16 against n numbers of their product. */
static void expand_lora(struct elem *e, enum kern_weight w)
{
    e->b->t.lora_expand[w](e->z, 0, e->x, 16, 2, e->b->weights, e->n / KERN_LANES, 16, 0.5f);
}

/* Bytes read and written per number. */
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
ELEM(kv_write_f32, write_kv(e, KERN_KV_F32), 128, 16)
ELEM(kv_write_q8_0, write_kv(e, KERN_KV_Q8_0), 128, 10)
ELEM(kv_write_q4_0, write_kv(e, KERN_KV_Q4_0), 128, 9)
ELEM(act_silu, e->b->t.act[KERN_ACT_SILU](e->z, e->x, e->y, e->n), 4864, 12)
ELEM(act_gelu, e->b->t.act[KERN_ACT_GELU](e->z, e->x, e->y, e->n), 4864, 12)
ELEM(act_gelu_erf, e->b->t.act[KERN_ACT_GELU_ERF](e->z, e->x, e->y, e->n), 4864, 12)
ELEM(act_swiglu_clamped, e->b->t.act[KERN_ACT_SWIGLU_CLAMPED](e->z, e->x, e->y, e->n), 4864, 12)
ELEM(act_sigmoid, e->b->t.act[KERN_ACT_SIGMOID](e->z, e->x, e->y, e->n), 4864, 12)
ELEM(act_relu_sqr, e->b->t.act[KERN_ACT_RELU_SQR](e->z, e->x, NULL, e->n), 4864, 8)
ELEM(act_relu, e->b->t.act[KERN_ACT_RELU](e->z, e->x, NULL, e->n), 4864, 8)
ELEM(act_linear, e->b->t.act[KERN_ACT_LINEAR](e->z, e->x, e->y, e->n), 4864, 12)
ELEM(softplus, e->b->t.softplus(e->z, e->x, e->y, NULL, e->n), 4096, 12)
ELEM(l2norm, e->b->t.l2norm(e->z, e->x, e->n, 1e-6f, 1), 128, 8)
ELEM(add, e->b->t.add(e->z, e->x, 1, e->n), 896, 12)
ELEM(scale, e->b->t.scale(e->z, 1, e->n), 896, 8)
ELEM(cap, e->b->t.cap(e->z, 30, e->n), 102400, 8)
ELEM(max, e->result = e->b->t.max(e->x, e->n), 102400, 4)
ELEM(find, e->result = (float)e->b->t.find(e->x, e->n, 2), 102400, 4)
ELEM(sum_exp, e->result = e->b->t.sum_exp(e->x, e->n, 1, 1), 102400, 4)

/* ---- merging the states of attention's segments */

#define DIM 64
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
