/* kernels/elementwise/elem_scalar.c - norms, rotation, activations, softmax, quantising: the
 * definitions.
 *
 * Each function is written as the vector bodies must compute it: sums in 16 virtual lanes and the
 * tree of kern_lanes_sum, explicit fma, exponentials by kern_math.h and nothing from libm but fmaf
 * and sqrtf. That is what makes an answer the same to the bit on every machine (P1, P10).
 */
#include "kernels/kern_math.h"
#include "kernels/kernels_impl.h"

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

void kern_layernorm_scalar(float *out, const float *x, const float *w, const float *b, size_t n,
                           float eps)
{
    float sum[KERN_LANES] = {0};
    float square[KERN_LANES] = {0};

    for (size_t i = 0; i < n; i++)
        sum[i % KERN_LANES] += x[i];
    const float mean = kern_lanes_sum_inline(sum) / (float)n;
    for (size_t i = 0; i < n; i++)
        square[i % KERN_LANES] = fmaf(x[i] - mean, x[i] - mean, square[i % KERN_LANES]);
    const float r = 1.0f / sqrtf(kern_lanes_sum_inline(square) / (float)n + eps);
    for (size_t i = 0; i < n; i++) {
        const float y = ((x[i] - mean) * r) * w[i];

        out[i] = b ? y + b[i] : y;
    }
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

typedef uint16_t narrow_fn(float f);

static void write_halves(narrow_fn *narrow, uint8_t *keys, uint8_t *values, size_t slot,
                         const float *k, const float *v, size_t n_kv, size_t key_dim,
                         size_t value_dim)
{
    uint16_t *key = (uint16_t *)(void *)keys;
    uint16_t *value = (uint16_t *)(void *)values;

    for (size_t i = 0; i < n_kv * key_dim; i++)
        key[i * KERN_BLOCK + slot] = narrow(k[i]);
    for (size_t h = 0; h < n_kv; h++)
        for (size_t d = 0; d < value_dim; d++)
            value[(h * KERN_BLOCK + slot) * value_dim + d] = narrow(v[h * value_dim + d]);
}

void kern_kv_write_f16_scalar(uint8_t *keys, uint8_t *values, size_t slot, const float *k,
                              const float *v, size_t n_kv, size_t key_dim, size_t value_dim)
{
    write_halves(kern_f32_to_f16, keys, values, slot, k, v, n_kv, key_dim, value_dim);
}

void kern_kv_write_bf16_scalar(uint8_t *keys, uint8_t *values, size_t slot, const float *k,
                               const float *v, size_t n_kv, size_t key_dim, size_t value_dim)
{
    write_halves(kern_f32_to_bf16, keys, values, slot, k, v, n_kv, key_dim, value_dim);
}

void kern_kv_write_f32_scalar(uint8_t *keys, uint8_t *values, size_t slot, const float *k,
                              const float *v, size_t n_kv, size_t key_dim, size_t value_dim)
{
    float *key = (float *)(void *)keys, *value = (float *)(void *)values;

    for (size_t i = 0; i < n_kv * key_dim; i++)
        key[i * KERN_BLOCK + slot] = k[i];
    for (size_t h = 0; h < n_kv; h++)
        memcpy(value + (h * KERN_BLOCK + slot) * value_dim, v + h * value_dim,
               value_dim * sizeof(*v));
}

/* Quantise the numbers that share a scale: returns the scale, writes codes + 128. */
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

/* Quantise 32 numbers of a value: returns the scale, writes codes of four bits. */
static uint16_t store_q4(uint8_t *code, const float *x)
{
    float a = 0;

    for (size_t i = 0; i < KERN_GROUP; i++)
        a = fabsf(x[i]) > a ? fabsf(x[i]) : a;
    a = a / 15 < KERN_KV_Q8_MOST ? a / 15 : KERN_KV_Q8_MOST;
    const uint16_t d = kern_f32_to_f16(a);
    const float inverse = d ? 0.5f / kern_f16_to_f32(d) : 0;
    for (size_t i = 0; i < KERN_GROUP; i++) {
        const float y = x[i] * inverse + 7.5f;

        code[i] = (uint8_t)round_code(y > 15 ? 15 : y < 0 ? 0 : y);
    }
    return d;
}

static void write_keys_q8(uint8_t *keys, size_t slot, const float *k, size_t n)
{
    uint8_t code[KERN_GROUP];

    for (size_t g = 0; g < n / KERN_GROUP; g++, keys += KERN_Q8_0_GROUP) {
        ((uint16_t *)(void *)keys)[slot] = store_q8(code, k + g * KERN_GROUP, KERN_GROUP);
        for (size_t d = 0; d < KERN_GROUP; d++)
            keys[KERN_KV_Q8_CODES + (d / 4 * KERN_BLOCK + slot) * 4 + d % 4] = code[d];
    }
}

void kern_kv_write_q8_0_scalar(uint8_t *keys, uint8_t *values, size_t slot, const float *k,
                               const float *v, size_t n_kv, size_t key_dim, size_t value_dim)
{
    const size_t value_bytes = kern_kv_value_bytes(KERN_KV_Q8_0, (uint32_t)value_dim);
    uint8_t code[KERN_MAX_HEAD];

    write_keys_q8(keys, slot, k, n_kv * key_dim);
    for (size_t h = 0; h < n_kv; h++, values += value_bytes) {
        ((uint16_t *)(void *)values)[slot] = store_q8(code, v + h * value_dim, value_dim);
        for (size_t d = 0; d < value_dim; d++)
            values[KERN_KV_Q8_CODES + (slot / 4 * value_dim + d) * 4 + slot % 4] = code[d];
    }
}

void kern_kv_write_q4_0_scalar(uint8_t *keys, uint8_t *values, size_t slot, const float *k,
                               const float *v, size_t n_kv, size_t key_dim, size_t value_dim)
{
    const size_t value_bytes = kern_kv_value_bytes(KERN_KV_Q4_0, (uint32_t)value_dim);
    uint8_t code[KERN_GROUP];

    write_keys_q8(keys, slot, k, n_kv * key_dim);
    for (size_t h = 0; h < n_kv; h++, values += value_bytes)
        for (size_t d0 = 0; d0 < value_dim; d0 += KERN_GROUP) {
            uint16_t *scales = (uint16_t *)(void *)(values + d0 / KERN_GROUP * KERN_KV_Q4_SCALES);

            scales[slot] = store_q4(code, v + h * value_dim + d0);
            for (size_t d = 0; d < 16; d++)
                values[kern_kv_q4_at(slot, d0 + d, value_dim)] =
                    (uint8_t)(code[d] | code[d + 16] << 4);
        }
}

static float silu(float x)
{
    return x / (1.0f + kern_exp_inline(-x));
}

static float gelu(float x)
{
    const float cube = (x * x) * x;

    return x / (1.0f + kern_exp_inline(KERN_GELU_MINUS_2_ROOT * fmaf(cube, KERN_GELU_C, x)));
}

/* Return 1 + erf(x / sqrt(2)); for negative x without a difference of numbers that are almost
 * equal. */
static float one_and_erf(float x)
{
    const float z = x * KERN_ROOT_HALF;
    const float square = z * z;
    float p = KERN_ERF_A5;

    if (fabsf(z) < 1.0f) {
        p = fmaf(p, square, KERN_ERF_A4);
        p = fmaf(p, square, KERN_ERF_A3);
        p = fmaf(p, square, KERN_ERF_A2);
        p = fmaf(p, square, KERN_ERF_A1);
        p = fmaf(p, square, KERN_ERF_A0);
        return 1.0f + z * p;
    }
    const float t = 1.0f / fmaf(fabsf(z), 0.5f, 1.0f);
    p = fmaf(KERN_ERF_B6, t, KERN_ERF_B5);
    p = fmaf(p, t, KERN_ERF_B4);
    p = fmaf(p, t, KERN_ERF_B3);
    p = fmaf(p, t, KERN_ERF_B2);
    p = fmaf(p, t, KERN_ERF_B1);
    const float rest = (p * t) * kern_exp_inline(-square);
    return z < 0.0f ? rest : 2.0f - rest;
}

static float gelu_erf(float x)
{
    return (0.5f * x) * one_and_erf(x);
}

static float sigmoid(float x)
{
    return 1.0f / (1.0f + kern_exp_inline(-x));
}

static float relu(float x)
{
    return x > 0.0f ? x : 0.0f;
}

static float relu_sqr(float x)
{
    const float y = relu(x);

    return y * y;
}

static float linear(float x)
{
    return x;
}

typedef float act_fn(float x);

static void activate(act_fn *f, float *out, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = up ? f(gate[i]) * up[i] : f(gate[i]);
}

void kern_act_silu_scalar(float *out, const float *gate, const float *up, size_t n)
{
    activate(silu, out, gate, up, n);
}

void kern_act_gelu_scalar(float *out, const float *gate, const float *up, size_t n)
{
    activate(gelu, out, gate, up, n);
}

void kern_act_gelu_erf_scalar(float *out, const float *gate, const float *up, size_t n)
{
    activate(gelu_erf, out, gate, up, n);
}

void kern_act_sigmoid_scalar(float *out, const float *gate, const float *up, size_t n)
{
    activate(sigmoid, out, gate, up, n);
}

void kern_act_relu_sqr_scalar(float *out, const float *gate, const float *up, size_t n)
{
    activate(relu_sqr, out, gate, up, n);
}

void kern_act_relu_scalar(float *out, const float *gate, const float *up, size_t n)
{
    activate(relu, out, gate, up, n);
}

void kern_act_linear_scalar(float *out, const float *gate, const float *up, size_t n)
{
    activate(linear, out, gate, up, n);
}

void kern_act_swiglu_clamped_scalar(float *out, const float *gate, const float *up, size_t n)
{
    const float most = KERN_SWIGLU_CLAMP;

    for (size_t i = 0; i < n; i++) {
        const float g = gate[i] < most ? gate[i] : most;
        const float least = up[i] > -most ? up[i] : -most;
        const float u = least < most ? least : most;
        const float s = 1.0f / (1.0f + kern_exp_inline(-(KERN_SWIGLU_ALPHA * g)));

        out[i] = (g * s) * (u + 1.0f);
    }
}

void kern_add_scalar(float *out, const float *x, float scale, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = fmaf(x[i], scale, out[i]);
}

void kern_scale_scalar(float *x, float scale, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] * scale;
}

void kern_cap_scalar(float *x, float cap, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = kern_cap_inline(x[i], cap);
}

float kern_max_scalar(const float *x, size_t n)
{
    float m = -INFINITY;

    for (size_t i = 0; i < n; i++)
        m = x[i] > m ? x[i] : m;
    return m + 0.0f; /* always +0: the order of -0 and +0 must not matter */
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
