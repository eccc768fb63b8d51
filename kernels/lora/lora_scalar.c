/* kernels/lora/lora_scalar.c - the second half of LoRA: its panels, and the definition.
 *
 * The expanding half of an adapter: y += scale * (B x), where x has as many columns as the
 * adapter's rank. Packing is here too, since LoRA's Q8_0 panels have one scale a row instead of one
 * per 32 columns: ranks are too short for blocks. Each output is one chain of fmaf over the rank.
 */
#include <math.h>
#include <string.h>

#include "kernels/kernels_impl.h"

#define SCALES (KERN_LANES * sizeof(float)) /* bytes before a Q8_0 panel's codes */

size_t kern_lora_panel_bytes(enum kern_weight w, size_t k)
{
    return w == KERN_Q8_0 ? SCALES + k * KERN_LANES : kern_panel_bytes(w, k);
}

static float largest(const float *row, size_t k)
{
    float most = 0;

    for (size_t j = 0; row != NULL && j < k; j++)
        most = fmaxf(most, fabsf(row[j]));
    return most;
}

void kern_lora_pack_q8_0(void *panel, const float *const rows[KERN_LANES], size_t k)
{
    int8_t *codes = (int8_t *)panel + SCALES;

    for (size_t lane = 0; lane < KERN_LANES; lane++) {
        const float most = largest(rows[lane], k), d = most / 127;
        const bool is_zero = most < 0x1p-100f; /* 127 / most might overflow */

        memcpy((uint8_t *)panel + lane * sizeof(d), &d, sizeof(d));
        for (size_t j = 0; j < k; j++)
            codes[j * KERN_LANES + lane] =
                is_zero ? 0 : (int8_t)nearbyintf(rows[lane][j] * (127 / most));
    }
}

/* weight_at(): number j of a lane of a panel. scale_of(): the factor of all numbers of a lane. */
static float weight_at(enum kern_weight w, const uint8_t *panel, size_t j, size_t lane)
{
    if (w == KERN_Q8_0)
        return ((const int8_t *)panel)[SCALES + j * KERN_LANES + lane];
    return kern_float_at(w, panel, j * KERN_LANES + lane);
}

static float scale_of(enum kern_weight w, const uint8_t *panel, size_t lane, float scale)
{
    float d;

    if (w != KERN_Q8_0)
        return scale;
    memcpy(&d, panel + lane * sizeof(d), sizeof(d));
    return d * scale;
}

static void expand(enum kern_weight w, float *out, size_t out_stride, const float *x,
                   size_t x_stride, size_t m, const uint8_t *panels, size_t n_panels, size_t k,
                   float scale)
{
    const size_t panel_bytes = kern_lora_panel_bytes(w, k);

    for (size_t i = 0; i < m * n_panels * KERN_LANES; i++) {
        const size_t row = i / KERN_LANES / n_panels, at = i % (n_panels * KERN_LANES);
        const uint8_t *panel = panels + at / KERN_LANES * panel_bytes;
        float *y = out + row * out_stride + at;
        float c = 0;

        for (size_t j = 0; j < k; j++)
            c = fmaf(x[row * x_stride + j], weight_at(w, panel, j, at % KERN_LANES), c);
        *y = fmaf(c, scale_of(w, panel, at % KERN_LANES, scale), *y);
    }
}

#define EXPAND(weight, name)                                                                       \
    void kern_lora_expand_##name##_scalar KERN_LORA_EXPAND_PARAMS                                  \
    {                                                                                              \
        expand(weight, out, out_stride, x, x_stride, m, panels, n_panels, k, scale);               \
    }

EXPAND(KERN_F32, f32)
EXPAND(KERN_F16, f16)
EXPAND(KERN_BF16, bf16)
EXPAND(KERN_Q8_0, q8_0)
