/* kernels/elem_scalar.c - everything between the products: the definitions. */
#include "kernels/kern_internal.h"
#include "kernels/kern_math.h"

/* Adding 1.5 * 2^23 rounds |v| < 2^22 to an integer, to even. */
static int8_t round_code(float v)
{
    return (int8_t)(kern_bits(v + KERN_EXP_MAGIC) - KERN_EXP_MAGIC_BITS);
}

static float quantise_group(int8_t code[32], int32_t sum[2], const float x[32])
{
    float a = 0;

    for (int i = 0; i < 32; i++)
        a = fabsf(x[i]) > a ? fabsf(x[i]) : a;
    const bool tiny = a < KERN_QUANT_TINY;
    const float inverse = tiny ? 0 : 127 / a;
    sum[0] = sum[1] = 0;
    for (int i = 0; i < 32; i++) {
        code[i] = round_code(x[i] * inverse);
        sum[i / 16] += code[i];
    }
    return tiny ? 0 : a / 127;
}

void kern_quantise_scalar(void *qrow, size_t k, const float *x, size_t from, size_t n)
{
    int8_t *code = qrow;
    float *scale = (float *)(void *)(code + k);
    int32_t *sum = (int32_t *)(void *)(scale + k / KERN_GROUP);

    for (size_t g = from / KERN_GROUP; g < (from + n) / KERN_GROUP; g++, x += 32)
        scale[g] = quantise_group(code + 32 * g, sum + 2 * g, x);
}

void kern_rmsnorm_scalar(float *out, const float *x, const float *w, size_t n, float eps)
{
    float lane[KERN_LANES] = {0};

    for (size_t i = 0; i < n; i++)
        lane[i % KERN_LANES] = fmaf(x[i], x[i], lane[i % KERN_LANES]);
    const float r = 1.0f / sqrtf(kern_lanes_sum_inline(lane) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        out[i] = (x[i] * r) * w[i];
}

void kern_rope_scalar(float *x, size_t n_head, size_t head_dim, size_t n_rot, const float *cos,
                      const float *sin, bool neox)
{
    const size_t n_pair = n_rot / 2;

    for (size_t h = 0; h < n_head; h++, x += head_dim)
        for (size_t j = 0; j < n_pair; j++) {
            float *pa = neox ? x + j : x + 2 * j;
            float *pb = neox ? x + j + n_pair : x + 2 * j + 1;
            const float a = *pa;
            const float b = *pb;

            *pa = fmaf(a, cos[j], -(b * sin[j]));
            *pb = fmaf(a, sin[j], b * cos[j]);
        }
}

void kern_kv_write_scalar(uint8_t *keys, uint8_t *values, size_t slot, const float *k,
                          const float *v, size_t n_kv, size_t head_dim)
{
    uint16_t *key = (uint16_t *)(void *)keys;
    uint16_t *value = (uint16_t *)(void *)values;

    for (size_t h = 0; h < n_kv; h++)
        for (size_t d = 0; d < head_dim; d++) {
            const size_t i = h * head_dim + d;

            key[i * KERN_BLOCK + slot] = kern_f32_to_f16(k[i]);
            value[(h * KERN_BLOCK + slot) * head_dim + d] = kern_f32_to_f16(v[i]);
        }
}

/* The numbers that share a scale: the scale, and codes + 128. */
static uint16_t store_q8(uint8_t *code, const float *x, size_t n)
{
    float a = 0;

    for (size_t i = 0; i < n; i++)
        a = fabsf(x[i]) > a ? fabsf(x[i]) : a;
    a = a / 127 < KERN_KV_Q8_MOST ? a / 127 : KERN_KV_Q8_MOST;
    const uint16_t d = kern_f32_to_f16(a);
    const float inverse = d ? 1 / kern_f16_to_f32(d) : 0;
    for (size_t i = 0; i < n; i++) {
        const float y = x[i] * inverse;

        code[i] = (uint8_t)(128 + round_code(y > 127 ? 127 : y < -127 ? -127 : y));
    }
    return d;
}

void kern_kv_write_q8_scalar(uint8_t *keys, uint8_t *values, size_t slot, const float *k,
                             const float *v, size_t n_kv, size_t head_dim)
{
    const size_t value_bytes = kern_kv_value_bytes(KERN_KV_Q8_0, (uint32_t)head_dim);
    uint8_t code[KERN_MAX_HEAD];

    for (size_t g = 0; g < n_kv * head_dim / KERN_GROUP; g++, keys += KERN_Q8_0_GROUP) {
        ((uint16_t *)(void *)keys)[slot] = store_q8(code, k + g * KERN_GROUP, KERN_GROUP);
        for (size_t d = 0; d < KERN_GROUP; d++)
            keys[KERN_KV_Q8_CODES + (d / 4 * KERN_BLOCK + slot) * 4 + d % 4] = code[d];
    }
    for (size_t h = 0; h < n_kv; h++, values += value_bytes) {
        ((uint16_t *)(void *)values)[slot] = store_q8(code, v + h * head_dim, head_dim);
        for (size_t d = 0; d < head_dim; d++)
            values[KERN_KV_Q8_CODES + (slot / 4 * head_dim + d) * 4 + slot % 4] = code[d];
    }
}

void kern_silu_mul_scalar(float *out, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = gate[i] / (1.0f + kern_exp_inline(-gate[i])) * up[i];
}

void kern_add_scalar(float *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = out[i] + x[i];
}

float kern_max_scalar(const float *x, size_t n)
{
    float m = -INFINITY;

    for (size_t i = 0; i < n; i++)
        m = x[i] > m ? x[i] : m;
    return m + 0.0f; /* one zero only: which of -0 and +0 comes first must not matter */
}

size_t kern_find_scalar(const float *x, size_t n, float value)
{
    size_t i = 0;

    while (i < n && x[i] != value)
        i++;
    return i;
}

float kern_sum_exp_scalar(const float *x, size_t n, float max, float scale)
{
    float lane[KERN_LANES] = {0};

    for (size_t i = 0; i < n; i++)
        lane[i % KERN_LANES] += kern_exp_inline((x[i] - max) * scale);
    return kern_lanes_sum_inline(lane);
}
