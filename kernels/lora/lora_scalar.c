/* kernels/lora/lora_scalar.c - the second half of LoRA: the definition. */
#include <math.h>

#include "kernels/kernels_impl.h"

static void expand(enum kern_weight w, float *out, size_t out_stride, const float *x,
                   size_t x_stride, size_t m, const uint8_t *panels, size_t n_panels, size_t k,
                   float scale)
{
    const size_t panel_bytes = kern_panel_bytes(w, k);

    for (size_t i = 0; i < m * n_panels * KERN_LANES; i++) {
        const size_t row = i / KERN_LANES / n_panels, at = i % (n_panels * KERN_LANES);
        float *y = out + row * out_stride + at;
        float c = 0;

        for (size_t j = 0; j < k; j++)
            c = fmaf(x[row * x_stride + j],
                     kern_float_at(w, panels + at / KERN_LANES * panel_bytes,
                                   j * KERN_LANES + at % KERN_LANES),
                     c);
        *y = fmaf(c, scale, *y);
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
