/* core/runtime/limits/peaks_aarch64.c - the loops of aarch64's levels.
 *
 * Macros of peaks_impl.h make each loop from one step of a product (smull, sdot, usmmla) and the
 * conversion of its sum; a "halves" loop has a scale for each half of a group. LEVELS maps the name
 * of an instruction set to its loops; an unknown name gets those of "scalar".
 */
#include "core/runtime/limits/peaks_impl.h"

#include <arm_neon.h>
#include <string.h>

/* ---- "scalar": the fastest loop that a compiler can make for ARMv8.0 ---- */

/* A step of widened codes: half of the lanes' products of two columns, four of them in an smlal. */
#define WIDE_128                                                                                   \
    vmlal_s16(a, vget_low_s16(vreinterpretq_s16_s32(w)), vget_high_s16(vreinterpretq_s16_s32(x)))

GROUPS(wide_128, "arch=armv8-a", int32x4_t, vreinterpretq_s32_s16(vdupq_n_s16(1)), float32x4_t,
       vdupq_n_f32(0.5f), 32, WIDE_128, s = vfmaq_f32(s, vcvtq_f32_s32(a), vmulq_f32(d, scale)))

FMAS(fma_128, "arch=armv8-a", float32x4_t, vdupq_n_f32(0.5f), vfmaq_f32(x, a[j], x))

/* ---- levels: sums start at the bits of a magic float; a subtraction converts them ---- */

#define ONES vreinterpretq_s32_s8(vdupq_n_s8(1))
#define HALF vdupq_n_f32(0.5f)
#define BYTES(v) vreinterpretq_s8_s32(v)
#define FLOAT(flat) vsubq_f32(vreinterpretq_f32_s32(flat), d)
#define FINISH(flat) s = vfmaq_f32(s, FLOAT(flat), vmulq_f32(d, scale))
/* A scale for each half of the group; the halves are added as floats. */
#define FINISH_HALVES(flat)                                                                        \
    float32x4_t float_of_half = vmulq_f32(FLOAT(flat), d);                                         \
    OPAQUE(a);                                                                                     \
    float_of_half = vfmaq_f32(float_of_half, FLOAT(flat), d);                                      \
    s = vfmaq_f32(s, float_of_half, scale)
#define LEVEL(name, isa, n_steps, add, flat)                                                       \
    GROUPS(name, isa, int32x4_t, ONES, float32x4_t, HALF, n_steps, add, FINISH(flat))              \
    GROUPS(name##_halves, isa, int32x4_t, ONES, float32x4_t, HALF, n_steps, add,                   \
           FINISH_HALVES(flat))

/* Four lanes are two registers of 16-bit products, and a step is one register. Narrow codes add
 * neighbouring products once at the end, wide codes after every second product. */
#define SMLAL(a) vmlal_s8(a, vget_low_s8(BYTES(w)), vget_low_s8(BYTES(x)))
#define SMULL vmull_s8(vget_low_s8(BYTES(w)), vget_low_s8(BYTES(x)))
#define NARROW vreinterpretq_s32_s16(SMLAL(vreinterpretq_s16_s32(a)))
#define PAIRS vpaddlq_s16(vreinterpretq_s16_s32(a))
LEVEL(smull_narrow, "arch=armv8-a", 16, NARROW, vaddq_s32(x, vpaddq_s32(PAIRS, PAIRS)))
LEVEL(smull_wide, "arch=armv8-a", 8, vpadalq_s16(a, SMLAL(SMULL)), vaddq_s32(x, vpaddq_s32(a, w)))
LEVEL(sdot, "arch=armv8.2-a+dotprod", 8, vdotq_s32(a, BYTES(w), BYTES(x)), a)
/* A register of four sums holds two lanes of two rows. */
LEVEL(usmmla, "arch=armv8.2-a+i8mm", 4, vusmmlaq_s32(a, vreinterpretq_u8_s32(w), BYTES(x)), a)

static const struct peak_level LEVELS[] = {
    {"scalar", {fma_128, wide_128, wide_128, wide_128, wide_128}, 4},
    {"neon", {fma_128, smull_narrow, smull_narrow_halves, smull_wide, smull_wide_halves}, 4},
    {"dotprod", {fma_128, sdot, sdot_halves, sdot, sdot_halves}, 4},
    {"i8mm", {fma_128, usmmla, usmmla_halves, usmmla, usmmla_halves}, 4},
};

const struct peak_level *peak_level_of(enum kern_isa isa)
{
    for (size_t i = 0; i < sizeof(LEVELS) / sizeof(LEVELS[0]); i++)
        if (strcmp(LEVELS[i].isa, kern_isa_name(isa)) == 0)
            return &LEVELS[i];
    return &LEVELS[0];
}
