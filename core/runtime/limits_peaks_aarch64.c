/* core/runtime/limits_peaks_aarch64.c - the loops of aarch64's levels. */
#include "core/runtime/limits_peaks_impl.h"

#include <arm_neon.h>

/* ---- the definition: no more than what a compiler can make of it with ARMv8.0 ---- */

/* Widened codes: a step is half of the lanes' products of two columns, smlal's four at a time. */
#define WIDE_128                                                                                   \
    vmlal_s16(a, vget_low_s16(vreinterpretq_s16_s32(w)), vget_high_s16(vreinterpretq_s16_s32(x)))

GROUPS(wide_128, "arch=armv8-a", int32x4_t, vreinterpretq_s32_s16(vdupq_n_s16(1)), float32x4_t,
       vdupq_n_f32(0.5f), 32, WIDE_128, s = vfmaq_f32(s, vcvtq_f32_s32(a), vmulq_f32(d, scale)))

FMAS(fma_128, "arch=armv8-a", float32x4_t, vdupq_n_f32(0.5f), vfmaq_f32(x, a[j], x))

static const struct peak_level SCALAR = {
    "scalar", {fma_128, wide_128, wide_128, wide_128, wide_128}, 4};

const struct peak_level *peak_level_of(enum kern_isa isa)
{
    (void)isa;
    return &SCALAR;
}
