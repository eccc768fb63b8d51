/* kernels/kernels_impl.h - shared by the bodies: prototypes, layouts, the quantised row.
 *
 * Every prototype comes from kernels.inc, so a body whose signature drifts does not compile.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef KERNELS_KERNELS_IMPL_H
#define KERNELS_KERNELS_IMPL_H

#include "kernels/kern_math.h"
#include "kernels/kernels.h"

#define KERN_GEMM_PARAMS                                                                           \
    (float *out, size_t out_stride, const void *x, size_t x_stride, size_t m, const void *panels,  \
     size_t n_panels, size_t k, const struct kern_prefetch *next)

#define KERN_LORA_EXPAND_PARAMS                                                                    \
    (float *out, size_t out_stride, const float *x, size_t x_stride, size_t m, const void *panels, \
     size_t n_panels, size_t k, float scale)

/* DOTPROD has products of bytes only: those with quantised weights, and attention on codes. */
#if defined(__aarch64__)
#define KERN_GEMM(weight, name)                                                                    \
    void kern_gemm_##name##_scalar KERN_GEMM_PARAMS;                                               \
    void kern_gemm_##name##_neon KERN_GEMM_PARAMS;
#define KERN_GEMM_Q(weight, name)                                                                  \
    KERN_GEMM(weight, name)                                                                        \
    void kern_gemm_##name##_dotprod KERN_GEMM_PARAMS;                                              \
    void kern_gemm_##name##_i8mm KERN_GEMM_PARAMS;
#define KERN_OP(member, result, params)                                                            \
    result kern_##member##_scalar params;                                                          \
    result kern_##member##_neon params;
void kern_attn_q8_0_dotprod(const struct kern_attn *a);
void kern_attn_q4_0_dotprod(const struct kern_attn *a);
#else
#define KERN_GEMM(weight, name)                                                                    \
    void kern_gemm_##name##_scalar KERN_GEMM_PARAMS;                                               \
    void kern_gemm_##name##_avx2 KERN_GEMM_PARAMS;                                                 \
    void kern_gemm_##name##_avx512 KERN_GEMM_PARAMS;
#define KERN_GEMM_Q(weight, name)                                                                  \
    KERN_GEMM(weight, name)                                                                        \
    void kern_gemm_##name##_avxvnni KERN_GEMM_PARAMS;                                              \
    void kern_gemm_##name##_avx512vl KERN_GEMM_PARAMS;
#define KERN_GEMM_AMX(weight, name)                                                                \
    KERN_GEMM_Q(weight, name)                                                                      \
    void kern_gemm_##name##_amx KERN_GEMM_PARAMS;
#define KERN_OP(member, result, params)                                                            \
    result kern_##member##_scalar params;                                                          \
    result kern_##member##_avx2 params;                                                            \
    result kern_##member##_avx512 params;
#endif
#include "kernels/kernels.inc"

/* ---- levels: each architecture has some, in a file levels_*.c of its own ---- */

/* Return the highest level of the CPU that is used by default. */
enum kern_isa kern_level_of_cpu(void);
/* True: a level of this build can be used on a CPU whose best one is `best`. */
bool kern_level_exists(enum kern_isa isa, enum kern_isa best);
/* Overwrite members of the table, which has the scalar kernels, with the kernels of level `isa`
 * (which exists). */
void kern_level_fill(struct kern_table *t, enum kern_isa isa);

/* The levels of this architecture above KERN_ISA_SCALAR. */
#if defined(__x86_64__)
#define KERN_IS_OF_ARCH(isa) ((isa) >= KERN_ISA_AVX2 && (isa) <= KERN_ISA_AMX)
#else
#define KERN_IS_OF_ARCH(isa) ((isa) >= KERN_ISA_NEON && (isa) <= KERN_ISA_I8MM)
#endif

/* A build for one CPU (the Makefile's NATIVE) has the level KERN_NATIVE and the levels below that
 * it needs: AVX-512 has all kernels of its own, AVX-VNNI the products. Constant where `isa` is, so
 * that no other level's kernels are linked. */
#ifdef KERN_NATIVE
#define KERN_IS_BUILT(isa)                                                                         \
    ((isa) == KERN_NATIVE || (isa) == KERN_ISA_SCALAR ||                                           \
     ((isa) == KERN_ISA_AVX2 && KERN_NATIVE == KERN_ISA_AVXVNNI))
#else
#define KERN_IS_BUILT(isa) ((isa) == KERN_ISA_SCALAR || KERN_IS_OF_ARCH(isa))
#endif

/* Put the AMX products into a table that has AVX-512's. For checks on CPUs without tiles; with
 * tiles kern_init() does it. */
void kern_fill_amx(struct kern_table *t);

/* Each line fills one pointer of the table; a member without a line changes its size. */
enum {
#define KERN_GEMM(weight, name) KERN_LINE_gemm_##name,
#define KERN_OP(member, result, params) KERN_LINE_##member,
#include "kernels/kernels.inc"
    KERN_N_LINE
};
_Static_assert(sizeof(struct kern_table) == KERN_N_LINE * sizeof(void (*)(void)),
               "kernels.inc and struct kern_table list different kernels");

/* Bytes of one group of columns (kern_weight_group()) of a panel, and where the
 * parts of a K group start. kernels.h draws the layouts. */
#define KERN_Q8_0_GROUP 544
#define KERN_Q4_0_GROUP 288
#define KERN_Q4_K_GROUP 2368
#define KERN_Q4_K_DMIN 32
#define KERN_Q4_K_SC 64
#define KERN_Q4_K_MN 192
#define KERN_Q4_K_CODES 320
#define KERN_Q4_K_SUB 256 /* bytes of a group of 32 */
#define KERN_Q6_K_GROUP 3360
#define KERN_Q6_K_SC 32
#define KERN_Q6_K_CODES 288
#define KERN_Q6_K_HIGH 256 /* from the start of a group of 32 */
#define KERN_Q6_K_SUB 384
#define KERN_Q4_1_GROUP 320
#define KERN_Q4_1_MIN 32 /* also the minima's offset in Q5_1 */
#define KERN_Q4_1_CODES 64
#define KERN_Q5_0_GROUP 352
#define KERN_Q5_0_CODES 32
#define KERN_Q5_1_GROUP 384
#define KERN_TOP 256 /* the top bits of Q5_0, Q5_1 and Q5_K, from their nibbles */
#define KERN_Q5_K_GROUP 2880 /* d, dmin, sc, mn as in Q4_K */
#define KERN_Q5_K_SUB 320
#define KERN_Q3_K_GROUP 1824 /* d, sc as in Q6_K */
#define KERN_Q3_K_TOP 128    /* offset from the pairs */
#define KERN_Q3_K_SUB 192
#define KERN_Q2_K_GROUP 1344
#define KERN_Q2_K_DMIN 32
#define KERN_Q2_K_SM 64
#define KERN_Q2_K_CODES 320
#define KERN_Q2_K_SUB 128
#define KERN_SC 32             /* offset of the scales of the types below, after d */
#define KERN_IQ4_XS_GROUP 2208
#define KERN_IQ4_XS_CODES 160
#define KERN_IQ4_XS_SUB 256 /* also of IQ3 */
#define KERN_IQ3_GROUP 2144
#define KERN_IQ3_CODES 96
#define KERN_MXFP4_GROUP 272
#define KERN_MXFP4_CODES 16
#define KERN_TQ2_0_GROUP 1056 /* also of TQ1_0 */
#define KERN_TQ2_0_CODES 32
#define KERN_TQ2_0_SUB 128 /* also of IQ1 */
#define KERN_IQ2_GROUP 1696 /* of IQ2_S and IQ2_XS */
#define KERN_IQ2_CODES 160
#define KERN_IQ2_SUB 192 /* as in Q3_K */
#define KERN_IQ2_XXS_GROUP 1632
#define KERN_IQ2_XXS_CODES 96
#define KERN_IQ1_S_GROUP 1120
#define KERN_IQ1_S_CODES 96
#define KERN_IQ1_M_GROUP 1312
#define KERN_IQ1_M_CODES 288
#define KERN_Q2_0_GROUP 288 /* d, groups as in TQ2_0 */
#define KERN_Q1_0_GROUP 288
#define KERN_Q1_0_CODES 32
#define KERN_Q1_0_SUB 64
#define KERN_NVFP4_GROUP 576
#define KERN_NVFP4_CODES 64
#define KERN_NVFP4_SUB 256
#define KERN_IQ4_K_GROUP 2336 /* d, scales and the place of codes as in Q6_K */
#define KERN_IQ4_K_SUB 256
#define KERN_IQ3_K_GROUP 1824
#define KERN_IQ2_K_GROUP 1312
#define KERN_IQ5_K_GROUP 2848 /* codes as in Q5_K */
#define KERN_IQ6_K_GROUP 3392
#define KERN_IQ6_K_SHIFTS 288
#define KERN_IQ6_K_CODES 320 /* as in Q6_K */
#define KERN_IQ_KS_SC 64
#define KERN_IQ_KS_CODES 192
#define KERN_IQ4_KS_GROUP 2240
#define KERN_IQ5_KS_GROUP 2752

/* Return value i of a panel of a float type. */
static inline float kern_float_at(enum kern_weight w, const uint8_t *panel, size_t i)
{
    if (w == KERN_F32)
        return ((const float *)(const void *)panel)[i];
    return w == KERN_F16 ? kern_load_f16(panel + 2 * i)
                         : kern_bf16_to_f32(kern_load16(panel + 2 * i));
}

/* Return the bytes of kern_weight_group() columns of a GGUF row, as kern_pack() reads it; the bytes
 * of a row before its blocks. */
size_t kern_block_bytes(enum kern_weight w);
size_t kern_row_head(enum kern_weight w);

/* Most queries (heads x rows) of one pass over the keys. */
#define KERN_ATTN_TILE 16

/* One head of a Q8_0 or Q4_0 KV block: keys are KERN_Q8_0_GROUP bytes for every 32 dimensions. */
#define KERN_KV_Q8_CODES 32      /* after the scales: of a group of keys, of all values */
#define KERN_KV_Q4_SCALES 32     /* bytes: of 32 dimensions of a Q4_0 block's values */
#define KERN_KV_Q4_CODES 256     /* bytes, likewise */
#define KERN_KV_Q8_MOST 65504.0f /* the largest f16 */

/* Return the number that a value's code of a Q4_0 store stands for; return where in a block's
 * values the code of dimension d of the token in `slot` is: in the low nibble or, if d / 16 is odd,
 * the high one. */
static inline int32_t kern_kv_q4_number(uint8_t code)
{
    return 2 * code - 15;
}

static inline size_t kern_kv_q4_at(size_t slot, size_t d, size_t value_dim)
{
    const size_t scales = value_dim / KERN_GROUP * KERN_KV_Q4_SCALES;

    return scales + d / KERN_GROUP * KERN_KV_Q4_CODES + (slot / 4 * 16 + d % 16) * 4 + slot % 4;
}

/* The parts of a quantised activation row. */
struct kern_qrow {
    const int8_t *code; /* [k] */
    const float *scale; /* [k / 32] */
    const int32_t *sum; /* [k / 16] */
};

static inline struct kern_qrow kern_qrow(const void *row, size_t k)
{
    const int8_t *code = row;
    const float *scale = (const float *)(const void *)(code + k);

    return (struct kern_qrow){code, scale, (const int32_t *)(const void *)(scale + k / KERN_GROUP)};
}

#endif
